--- Slurm: a job script around another runtime's export. Where nodes differ it is a heterogeneous job, one component for each
--- run of like nodes, in the order of the pipeline.
local core <const> = require "tangram.core"
local schema <const> = require "tangram.schema"
local torchrun <const> = require "tangram.output.torchrun"

local slurm <const> = {
  name = "slurm", summary = "a Slurm job script (heterogeneous where nodes differ) around another runtime's files",
  versions = { "17.11" }, -- the first with heterogeneous jobs
}

local function by_island(doc) return { type = "map", item = { type = "string" }, default = {}, doc = doc } end

slurm.options = {
  around = { type = "string", default = "megatron", doc = "the runtime" },
  runtime_version = { type = "string", doc = "of that runtime" },
  options = { type = "table", default = {}, doc = "of that runtime's exporter, e.g. options.recompute=nearest" },
  partition = by_island 'partitions by island, e.g. partition={"a100":"gpu-a"}',
  gres_type = by_island "GPU types as the site names them, by island; without one any GPU of the node is taken",
  account = { type = "string", doc = "account to charge" },
  time = { type = "string", default = "24:00:00", doc = "limit of the job" },
  nodelist = { type = "boolean", default = true, doc = "ask for the plan's nodes by name; off: any nodes of the partition" },
}

-- A plan's constraints are those of the runtime inside.
slurm.rules = {}

local function inner(options)
  local name <const> = options.around
  if name == "slurm" then schema.fail("slurm: --set: around", name, "another runtime") end
  local exporter <const> = require("tangram.output").find(name)
  if not exporter.slurm then
    local names <const> = {}
    for _, one in ipairs(require("tangram.output").list()) do
      if one.slurm then names[#names + 1] = one.name end
    end
    schema.fail("slurm: --set: around", name, "a runtime with launch scripts, one of " .. table.concat(names, ", "),
      core.nearest(name, names))
  end
  return exporter, require("tangram.output").options(exporter, options.options, options.runtime_version)
end

function slurm.prepare(plan, options, where)
  local exporter <const>, set <const> = inner(options)
  if exporter.prepare then return exporter.prepare(plan, set, where) end
  return plan, {}
end

function slurm.check(launch, options)
  local exporter <const>, set <const> = inner(options)
  return exporter.check(launch, set)
end

--- Runs of nodes that one component can hold: one island, as many GPUs a node, all different machines.
---@param launch table
---@return table[] components { island, gpus, nodes = names, first = node rank from 0 }
function slurm.components(launch)
  local list <const> = {}
  for h, host in ipairs(launch.hosts) do
    local island <const>, component = launch.stages[host.stages[1]].island, list[#list]
    local again = false
    for _, name in ipairs(component and component.nodes or {}) do again = again or name == host.name end
    if not component or again or component.island ~= island or component.gpus ~= #host.gpus then
      component = { island = island, gpus = #host.gpus, nodes = {}, first = h - 1, stages = {} }
      list[#list + 1] = component
    end
    component.nodes[#component.nodes + 1] = host.name
    table.move(host.stages, 1, #host.stages, #component.stages + 1, component.stages)
  end
  return list
end

local function job_name(launch) return (launch.name:gsub("[^%w_.-]", "_")) end

local function header(launch, options, components)
  local lines <const> = {}
  local function add(s, ...) lines[#lines + 1] = "#SBATCH " .. s:format(...) end
  add("--job-name=%s", job_name(launch))
  add("--time=%s", options.time)
  if options.account then add("--account=%s", options.account) end
  add "--output=%%x-%%j.log"
  for c, component in ipairs(components) do
    if c > 1 then add "hetjob" end
    lines[#lines + 1] = ("# %s: %s"):format(component.island, torchrun.stages_text(component))
    if options.partition[component.island] then add("--partition=%s", options.partition[component.island]) end
    local kind <const> = options.gres_type[component.island]
    add("--nodes=%d --ntasks-per-node=1 --gres=gpu:%s%d", #component.nodes, kind and kind .. ":" or "", component.gpus)
    if options.nodelist then add("--nodelist=%s", table.concat(component.nodes, ",")) end
  end
  return table.concat(lines, "\n")
end

--- The variable that holds a component's nodes.
local function nodes_variable(components, c)
  return #components == 1 and "$SLURM_JOB_NODELIST" or ("$SLURM_JOB_NODELIST_HET_GROUP_%d"):format(c - 1)
end

--- Every node's processes by node.sh: its rank is that of the component's first node and its number in the component.
local function start_nodes(components)
  local lines <const> = { ([[
MASTER_ADDR=$(scontrol show hostnames "%s" | head -n1)
export MASTER_ADDR
pids=()]]):format(nodes_variable(components, 1)) }
  for c, component in ipairs(components) do
    lines[#lines + 1] = ([[
srun%s bash -c './node.sh $((%d + SLURM_NODEID)) "$@"' node "$@" &
pids+=($!)]]):format(#components > 1 and (" --het-group=%d"):format(c - 1) or "", component.first)
  end
  lines[#lines + 1] = [[
status=0
for pid in "${pids[@]}"; do wait "$pid" || status=$?; done
exit $status
]]
  return table.concat(lines, "\n")
end

--- One launcher on the first node reaches the others by ssh: it gets a hostfile of the nodes that the job was given.
local function start_head(components)
  local lines <const> = { "HOSTFILE=$PWD/hostfile.$SLURM_JOB_ID", "export HOSTFILE", ": >\"$HOSTFILE\"" }
  for c, component in ipairs(components) do
    lines[#lines + 1] = ([[
scontrol show hostnames "%s" | paste -d ' ' - <(sed -n '%d,%dp' hostfile | cut -d ' ' -f 2-) >>"$HOSTFILE"]]):format(
      nodes_variable(components, c), component.first + 1, component.first + #component.nodes)
  end
  lines[#lines + 1] = "exec ./launch.sh \"$@\"\n"
  return table.concat(lines, "\n")
end

function slurm.files(launch, options)
  local exporter <const>, set <const> = inner(options)
  local files <const>, components <const> = exporter.files(launch, set), slurm.components(launch)
  files[#files + 1] = { name = "job.sbatch", text = ([[
#!/bin/bash
%s
# Submit from this folder: the pipeline's order is that of the components, and their nodes' order within.
set -euo pipefail
cd "$SLURM_SUBMIT_DIR"
%s]]):format(header(launch, options, components),
    exporter.slurm == "head" and start_head(components) or start_nodes(components)) }
  return files
end

function slurm.start(launch, options)
  local exporter <const>, set <const> = inner(options)
  local components <const> = slurm.components(launch)
  return ("Submitted from this folder (%s):\n\n```sh\nsbatch job.sbatch\n```\n\n%sWithout Slurm:\n\n%s"):format(exporter.name,
    #components > 1 and ("The job has %d components, as nodes differ; only the backfill scheduler starts such jobs, and each component"
      .. " has a\nstep of its own, so sites that forbid steps across components run it too.\n\n"):format(#components) or "",
    exporter.start(launch, set))
end

return slurm
