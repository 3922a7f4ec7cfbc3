--- Prices a plan anew with its cost model, whatever times stand in the file: for hand-edited plans and other cost models.
local clusters <const> = require "tangram.cluster"
local core <const> = require "tangram.core"
local islands <const> = require "tangram.islands"
local planner <const> = require "tangram.planner"
local plans <const> = require "tangram.plan"
local search <const> = require "tangram.search"
local slices <const> = require "tangram.slice"

local recost <const> = {}

--- The islands of a plan, by name, from their lists of nodes.
local function islands_of(plan, where)
  local lists <const>, kinds <const>, cut_nodes = {}, {}, nil
  for _, node in ipairs(plan.cluster.nodes) do kinds[node.name] = type(node.gpus) == "table" end
  for i, island in ipairs(plan.islands) do
    lists[i] = island.nodes
    local machine <const>, lo <const>, hi <const> = island.nodes[1]:match "^(.*):(%d+)%-(%d+)$"
    if machine and kinds[machine] == false then cut_nodes = hi - lo + 1 end
  end
  local group <const> = islands.group(plan.cluster, { islands = lists, cut_nodes = cut_nodes }, where)
  local by_nodes <const>, by_name <const> = {}, {}
  for _, island in ipairs(group.islands) do by_nodes[table.concat(island.nodes, "\0")] = island end
  for _, row in ipairs(plan.islands) do
    local island <const> = by_nodes[table.concat(row.nodes, "\0")]
    if not island then error(("%s: islands: '%s': its nodes are not in the cluster"):format(where, row.name), 0) end
    island.name = row.name
    by_name[row.name] = island
  end
  return group, by_name
end

--- Consecutive stages on one island: { island, from, to } by stage.
local function runs_of(plan, by_name, where)
  local runs <const> = {}
  for s, stage in ipairs(plan.stages) do
    local island <const> = by_name[stage.island]
    if not island then error(("%s: stages[%d].island: got '%s', which islands does not list"):format(where, s - 1, stage.island), 0) end
    local last <const> = runs[#runs]
    if last and last.island == island then last.to = s else runs[#runs + 1] = { island = island, from = s, to = s } end
  end
  return runs
end

local function gpu_count(stage)
  local count = 0
  for _, one in ipairs(stage.gpus) do count = count + #one.indices end
  return count
end

local function end_class(stage) return { nodes = #stage.gpus, gpus_per_node = #stage.gpus[1].indices } end

--- Latency and rate behind each stage but the last.
local function links_of(plan, group, runs, problem, view, where)
  local links <const> = {}
  for r, run in ipairs(runs) do
    local counts <const> = {}
    for s = run.from, run.to do counts[#counts + 1] = gpu_count(plan.stages[s]) end
    local total = 0
    for _, count in ipairs(counts) do total = total + count end
    local places <const>, inner <const> = group.cluster:place(run.island, counts, run.island.gpus - total)
    if not places then error(("%s: stages[%d]: %s"):format(where, run.from - 1, inner), 0) end
    for s = run.from, run.to - 1 do links[s] = inner[s - run.from + 1] end
    local behind <const> = runs[r + 1]
    if behind then
      local link <const> = group.cluster:transfer(run.island, end_class(plan.stages[run.to]), behind.island,
        end_class(plan.stages[behind.from]))
      local latency_s <const>, bytes_per_s <const> = problem.cost.link(
        { from = run.island, to = behind.island, latency_s = link.latency_s, bytes_per_s = link.bytes_per_s }, view(run.island))
      links[run.to] = { latency_s = latency_s, bytes_per_s = bytes_per_s }
    end
  end
  return links
end

--- The plan's sequence as a bare composition problem, for its time, bound and the paper's estimate.
local function certify(plan, runs)
  local names <const>, rows <const>, partials <const> = {}, {}, {}
  local none <const> = { latency_s = 0, bytes_per_s = 1 }
  for r, run in ipairs(runs) do
    names[r], rows[r] = run.island.name, {}
    for q = 1, #runs do rows[r][q] = q == r and core.null or none end
    if runs[r + 1] then rows[r][r + 1] = { latency_s = plan.stages[run.to].transfer_s, bytes_per_s = 1 } end
    local stages <const>, inner <const> = {}, core.array {}
    for s = run.from, run.to do
      local stage <const> = plan.stages[s]
      stages[#stages + 1] = { forward_s = stage.forward_s, backward_s = stage.backward_s, sync_s = stage.sync_s }
      if s < run.to then inner[#inner + 1] = stage.transfer_s end
    end
    partials[r] = { island = r - 1, first = r - 1, last = r, max_successors = core.null, stages = stages, inner_transfer_s = inner }
  end
  local boundary <const> = core.array {}
  for i = 1, #runs - 1 do boundary[i] = 0 end
  return assert(core.compose(core.json_encode {
    format = "tangram.instance/1", atoms = #runs, microbatches = plan.microbatches, boundary_bytes = boundary,
    islands = names, links = rows, plans = partials,
  }, { p2p = plan.p2p, gap = 0 }))
end

--- The plan with times and memory priced anew.
---@param plan table tangram.plan/1, decoded
---@param where string the file, for messages
---@return table plan
function recost.plan(plan, where)
  if type(plan) ~= "table" or plan.format ~= "tangram.plan/1" then
    error(("%s: format: expected 'tangram.plan/1'"):format(where), 0)
  end
  plan.cluster = clusters.describe(plan.cluster, where .. ": cluster")
  local setting <const> = planner.setting {
    model = plan.model, cluster = plan.cluster, training = plan.training, parallelizer = "uniform", cost = plan.cost,
    prune = {}, granularity = plan.granularity or "layer", exclude = {},
  }
  local group <const>, by_name <const> = islands_of(plan, where)
  local problem <const> = planner.problem(setting, group)
  local runs <const> = runs_of(plan, by_name, where)
  local function view(island) return search.context(problem, island, plan.microbatches, #runs == 1) end
  local links <const> = links_of(plan, group, runs, problem, view, where)
  local samples <const> = setting.training.global_batch // plan.microbatches
  for s, stage in ipairs(plan.stages) do
    local island <const> = by_name[stage.island]
    local run <const> = slices.new(setting.model, setting.atoms, stage.first + 1, stage.last)
    local ctx <const> = view(island)
    ctx.successors = stage.successors
    local priced <const> = problem.cost.stage(run, island, stage.strategy, ctx)
    stage.forward_s, stage.backward_s, stage.sync_s = priced.forward_s, priced.backward_s, priced.sync_s
    stage.memory = plans.memory_of(priced, stage.inflight, problem.capacity_bytes[island.index])
    stage.time_parts = priced.parts.time
    local link <const> = links[s]
    stage.transfer_s = link and link.latency_s + samples * setting.atoms[stage.last].boundary_bytes / link.bytes_per_s or core.null
  end
  local result <const> = certify(plan, runs)
  plan.time_s, plan.paper_s, plan.bound_s, plan.gap, plan.proved = result.time_s, result.paper_s, 0.0, 1.0, false
  plan.tokens_per_s = setting.training.global_batch * setting.training.seq_len / plan.time_s
  plan.top = core.array {}
  return plan
end

return recost
