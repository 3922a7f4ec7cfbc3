--- What runtimes need of a plan, and nothing else: stages with their ranks and degrees, hosts in the order of ranks. Layers,
--- ranks and GPU indices count from 0, as runtimes count them; stages from 1.
local clusters <const> = require "tangram.cluster"
local core <const> = require "tangram.core"
local models <const> = require "tangram.model"
local schema <const> = require "tangram.schema"
local trainings <const> = require "tangram.training"

local launch <const> = {}

local function one_line(text) return (text:gsub("%c", " ")) end

--- The record and the name of each GPU of a machine, by index from 0.
local function gpus_by_index(description, node)
  local list <const>, index = { count = 0, nics = node.nics }, 0
  for _, kind in ipairs(clusters.kinds_of(node)) do
    local record <const> = clusters.record_of(description, node, kind)
    record.name = kind.gpu
    for _ = 1, kind.count do list[index], index = record, index + 1 end
  end
  list.count = index
  return list
end

--- The distinct records of a stage's GPUs, in order.
local function devices_of(stage, gpus_of)
  local list <const>, seen <const> = {}, {}
  for _, one in ipairs(stage.gpus) do
    for _, index in ipairs(one.indices) do
      local record <const> = gpus_of[one.node][index]
      if not seen[record] then
        seen[record] = true
        list[#list + 1] = record
      end
    end
  end
  return list
end

local function recompute_of(stage)
  local given <const> = stage.strategy.recompute
  if given.kind ~= "full" then return { kind = given.kind, layers = 0 } end
  local layers <const> = math.type(given.layers) and math.min(given.layers, stage.layers) or stage.layers
  return layers > 0 and { kind = "full", layers = layers } or { kind = "none", layers = 0 }
end

local function degree(strategy, name) return math.type(strategy[name]) and strategy[name] or 1 end

local function stage_of(plan, index, at, gpus_of)
  local stage <const> = plan.stages[index]
  local strategy <const>, hosts <const>, gpus = stage.strategy, {}, 0
  for h, one in ipairs(stage.gpus) do
    hosts[h] = { node = one.node, indices = { table.unpack(one.indices) } }
    gpus = gpus + #one.indices
  end
  return {
    index = index, island = one_line(stage.island), devices = devices_of(stage, gpus_of), hosts = hosts, gpus = gpus,
    first_layer = at.layer, layers = stage.layers, has_embedding = stage.has_embedding, has_head = stage.has_head,
    tp = degree(strategy, "tp"), dp = degree(strategy, "dp"), cp = degree(strategy, "cp"), ep = degree(strategy, "ep"),
    etp = degree(strategy, "etp"), zero = math.type(strategy.zero) and strategy.zero or 0, sp = strategy.sp == true,
    fsep = strategy.fsep == true, offload = type(strategy.offload) == "string" and strategy.offload or "none",
    recompute = recompute_of(stage), microbatch = plan.training.global_batch // plan.microbatches // degree(strategy, "dp"),
    ranks = { first = at.rank, last = at.rank + gpus }, -- [first, last)
    predicted = { forward_s = stage.forward_s, backward_s = stage.backward_s, sync_s = stage.sync_s,
      transfer_s = math.type(stage.transfer_s) and stage.transfer_s or nil, memory = stage.memory },
  }
end

--- Processes are started per host: one entry for each run of ranks on a machine. A machine that holds stages with others
--- between them gets several.
local function hosts_of(stages, gpus_of)
  local hosts <const> = {}
  for _, stage in ipairs(stages) do
    local rank = stage.ranks.first
    for _, one in ipairs(stage.hosts) do
      local host = hosts[#hosts]
      if not host or host.name ~= one.node then
        host = { name = one.node, gpus = {}, first_rank = rank, stages = {}, machine_gpus = gpus_of[one.node].count,
          nics = gpus_of[one.node].nics, vendor = stage.devices[1].vendor }
        hosts[#hosts + 1] = host
      end
      for _, index in ipairs(one.indices) do host.gpus[#host.gpus + 1] = index end
      host.stages[#host.stages + 1] = stage.index
      rank = rank + #one.indices
    end
  end
  return hosts
end

--- Are the host's processes on all GPUs of the machine, in the machine's order?
---@param host table of launch.hosts
function launch.whole(host)
  for i, index in ipairs(host.gpus) do
    if index ~= i - 1 then return false end
  end
  return #host.gpus == host.machine_gpus
end

--- GPUs of the machines in use on which nothing runs: { node, indices }.
local function idle_of(hosts)
  local order <const>, busy <const>, idle <const> = {}, {}, {}
  for _, host in ipairs(hosts) do
    if not busy[host.name] then
      busy[host.name] = {}
      order[#order + 1] = host
    end
    for _, index in ipairs(host.gpus) do busy[host.name][index] = true end
  end
  for _, host in ipairs(order) do
    local indices <const> = {}
    for index = 0, host.machine_gpus - 1 do
      if not busy[host.name][index] then indices[#indices + 1] = index end
    end
    if #indices > 0 then idle[#idle + 1] = { node = host.name, indices = indices } end
  end
  return idle
end

local function dropped_of(plan)
  local list <const> = {}
  for _, island in ipairs(plan.islands) do
    if not island.used then
      list[#list + 1] = { name = one_line(island.name), nodes = island.nodes,
        reason = type(island.reason) == "string" and one_line(island.reason) or "no reason is given" }
    end
  end
  return list
end

--- Raises for a plan with layers in halves, which no runtime can cut.
local function check_whole_layers(plan, where)
  for s, stage in ipairs(plan.stages) do
    local layers <const> = math.tointeger(stage.layers)
    if not layers then
      schema.raise("%s: stages[%d].layers: got %.14g, expected whole layers, as no runtime cuts inside one; plan again with"
        .. " granularity 'layer'", where, s - 1, stage.layers)
    end
    local recomputed <const> = stage.strategy.recompute.layers
    if type(recomputed) == "number" and not math.tointeger(recomputed) then
      schema.raise("%s: stages[%d].strategy.recompute.layers: got %.14g, expected a whole number", where, s - 1, recomputed)
    end
  end
end

--- Raises for names that scripts and hostfiles can't hold.
local function check_host_names(plan, where)
  for s, stage in ipairs(plan.stages) do
    for g, one in ipairs(stage.gpus) do
      if not one.node:find "^[%w_][%w_.:-]*$" then
        schema.fail(("%s: stages[%d].gpus[%d].node"):format(where, s - 1, g - 1), one.node,
          "the name or address of a host: letters, digits, '.', '_', ':' and '-'")
      end
    end
  end
end

--- Seconds of an iteration if every stage waits for its transfers; nil where that is what is planned, or the plan's depths
--- don't go with it.
local function blocking_s(plan)
  if plan.p2p == "blocking" then return nil end
  local other <const> = {}
  for name, value in pairs(plan) do other[name] = value end
  other.p2p = "blocking"
  return (core.plan_simulate(core.json_encode(other)))
end

--- The view of a plan. Raises one line if the plan lacks what every runtime needs.
---@param plan table tangram.plan/1 that core.plan_check accepts
---@param where string? the file, for errors
---@return table launch { name, model, training, precision, tied, microbatches, samples, world, stages, hosts, idle, dropped,
--- time_s, tokens_per_s, p2p, blocking_s, warnings }
function launch.of(plan, where)
  where = where or "plan"
  check_whole_layers(plan, where)
  check_host_names(plan, where)
  local description <const> = clusters.describe(plan.cluster, where .. ": cluster")
  local model <const> = models.new(plan.model, where .. ": model")
  local training <const> = trainings.check(plan.training, where .. ": training")
  if training.precision == "auto" then
    schema.fail(where .. ": training: precision", "auto", "what was planned: bf16, fp16, fp8 or fp32")
  end
  local gpus_of <const>, stages <const>, at <const> = {}, {}, { layer = 0, rank = 0 }
  for _, node in ipairs(description.nodes) do gpus_of[node.name] = gpus_by_index(description, node) end
  for s in ipairs(plan.stages) do
    stages[s] = stage_of(plan, s, at, gpus_of)
    at.layer, at.rank = at.layer + math.tointeger(stages[s].layers), at.rank + stages[s].gpus
  end
  local hosts <const> = hosts_of(stages, gpus_of)
  return {
    name = one_line(model.name), model = model, training = training, precision = training.precision, tied = model.tied,
    microbatches = plan.microbatches, samples = plan.training.global_batch // plan.microbatches, world = at.rank, stages = stages,
    hosts = hosts, idle = idle_of(hosts), dropped = dropped_of(plan), time_s = plan.time_s, tokens_per_s = plan.tokens_per_s,
    p2p = plan.p2p, blocking_s = blocking_s(plan), warnings = plan.warnings,
  }
end

return launch
