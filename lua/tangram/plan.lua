--- The plan as people and runtimes get it: tangram.plan/1 (FORMATS.md), built from what a search found.
local clusters <const> = require "tangram.cluster"
local core <const> = require "tangram.core"
local search <const> = require "tangram.search"
local target <const> = require "tangram.target.stage"

local plan <const> = {}

--- Order of the fields in the file; what is not named follows by letters.
local order <const> = {
  "format", "version", "granularity", "atoms", "model", "cluster", "training", "parallelizer", "cost",
  "target", "objective", "p2p", "warmup",
  "microbatches", "stopped", "stages", "island", "node", "indices", "gpus", "first", "last", "layers", "has_embedding", "has_head",
  "strategy", "dp", "tp", "cp", "ep", "etp", "zero", "sp", "fsep", "recompute", "offload", "forward_s", "backward_s", "sync_s",
  "transfer_s", "successors", "inflight", "memory", "weights_bytes", "gradients_bytes", "optimizer_bytes", "activations_bytes",
  "transient_bytes", "buffers_bytes", "context_bytes", "total_bytes", "capacity_bytes", "time_parts", "time_s", "bound_s", "gap",
  "proved", "paper_s", "tokens_per_s", "model_flops_utilisation", "islands", "name", "options", "nodes", "merged", "used", "idle",
  "reason", "best_with_s", "pairs", "all", "queried", "reused", "saved", "pruned", "failed", "constants", "value", "unit", "from", "source",
  "warnings", "top", "hidden", "heads", "kv_heads", "head_dim", "ffn", "vocab", "kind", "network", "default", "links", "between",
}

--- The text of the file.
---@param value table tangram.plan/1
---@return string
function plan.encode(value) return core.json_encode(value, order) end

local static_parts <const> = { "weights_bytes", "gradients_bytes", "optimizer_bytes", "buffers_bytes", "context_bytes" }

--- Bytes by part; what an adapter does not break down, or by other names, counts as weights.
---@param stage table as adapters write it
---@param inflight integer microbatches that it holds
---@param capacity_bytes number
function plan.memory_of(stage, inflight, capacity_bytes)
  local memory <const> = {
    activations_bytes = inflight * stage.inflight_bytes, transient_bytes = stage.transient_bytes, capacity_bytes = capacity_bytes,
  }
  local broken_down = 0.0
  for _, name in ipairs(static_parts) do
    memory[name] = stage.parts.memory[name] or 0.0
    broken_down = broken_down + memory[name]
  end
  local rest <const> = stage.static_bytes - broken_down
  if rest > 1e-9 * stage.static_bytes then memory.weights_bytes, broken_down = memory.weights_bytes + rest, stage.static_bytes end
  memory.total_bytes = broken_down + memory.activations_bytes + memory.transient_bytes
  return memory
end

--- The GPUs of a stage, indices from 0.
local function gpus_of(place)
  local list <const> = core.array {}
  for i, range in ipairs(place) do
    local indices <const> = core.array {}
    for k = 1, range.count do indices[k] = range.first - 2 + k end
    list[i] = { node = range.machine, indices = indices }
  end
  return list
end

local function count_layers(atoms, first, last)
  local halves, embedding, head = 0, false, false
  for i = first, last do
    local kind <const> = atoms[i].kind
    halves = halves + (kind == "layer" and 2 or (kind == "attention" or kind == "mlp") and 1 or 0)
    embedding, head = embedding or kind == "embedding", head or kind == "head"
  end
  return halves % 2 == 0 and halves // 2 or halves / 2, embedding, head
end

--- The cluster with each node's memory filled in.
local function filled_in(description)
  local full <const> = {}
  for name, value in pairs(description) do full[name] = value end
  full.nodes = core.array {}
  for i, node in ipairs(description.nodes) do
    local copy <const> = {}
    for name, value in pairs(node) do copy[name] = value end
    if type(node.gpus) == "table" then
      copy.gpus = core.array {}
      for k, kind in ipairs(node.gpus) do
        copy.gpus[k] = { gpu = kind.gpu, count = kind.count, memory_bytes = clusters.record_of(description, node, kind).memory_bytes }
        for name, value in pairs(kind) do copy.gpus[k][name] = value end
      end
    else
      copy.memory_bytes = clusters.record_of(description, node, { gpu = node.gpu }).memory_bytes
    end
    full.nodes[i] = copy
  end
  return full
end

--- Bytes that the smallest GPU of a stage may hold.
local function capacity_of(setting, problem, place)
  local smallest = math.huge
  local nodes <const> = problem.cluster:nodes()
  for _, range in ipairs(place) do smallest = math.min(smallest, nodes[range.node_index].memory_bytes) end
  return (1 - setting.training.memory_margin) * smallest
end

--- One stage of the file.
---@param setting table planner.setting
---@param problem table search's
---@param at table { island, first, last (from 1), successors, inflight, transfer_s, place }
---@param stage table as adapters write it
local function stage_of(setting, problem, at, stage)
  local layers <const>, embedding <const>, head <const> = count_layers(setting.atoms, at.first, at.last)
  return {
    island = problem.islands[at.island].name, gpus = gpus_of(at.place), first = at.first - 1, last = at.last, layers = layers,
    has_embedding = embedding, has_head = head, strategy = stage.strategy, forward_s = stage.forward_s,
    backward_s = stage.backward_s, sync_s = stage.sync_s, transfer_s = at.transfer_s or core.null, successors = at.successors,
    inflight = at.inflight, memory = plan.memory_of(stage, at.inflight, capacity_of(setting, problem, at.place)),
    time_parts = stage.parts.time,
  }
end

local function stages_of(setting, outcome)
  local result <const>, problem <const> = outcome.best, outcome.problem
  local list <const> = core.array {}
  local total <const> = #result.warmup
  for _, chosen in ipairs(result.best.plans) do
    local counts <const> = {}
    for s, stage in ipairs(chosen.stages) do counts[s] = stage.gpus end
    local places <const>, why <const> = problem.cluster:place(problem.islands[chosen.island], counts, chosen.idle)
    if not places then error("internal: " .. why) end
    local first = chosen.first
    for s, stage in ipairs(chosen.stages) do
      local n <const> = #list + 1
      list[n] = stage_of(setting, problem, {
        island = chosen.island, first = first, last = first + stage.atoms - 1, successors = total - n,
        inflight = math.min(result.warmup[n] + 1, result.best.microbatches), transfer_s = result.transfer_s[n],
        place = places[s],
      }, stage)
      first = first + stage.atoms
    end
  end
  return list
end

--- What an island that is left out would have been held up by. With a target, `best_with_s` is that of plans whose stages are
--- of the size and degrees of this one's.
local function reason_of(result, problem, i)
  local islands <const>, mode <const> = problem.islands, problem.target
  local row <const> = result.left_out and result.left_out[i]
  if mode and mode.gpus and not target.fits_on(mode, islands[i]) then
    return ("its nodes of %d GPUs make no stage of %d, which is what %s needs beside the stages of this plan"):format(
      islands[i].gpus_per_node, mode.gpus, mode.name)
  end
  if not row then
    for _, complaint in ipairs(result.refused) do
      if complaint.island == i then return "no plan with it was found: " .. complaint.why end
    end
    return "no plan with it was found"
  end
  local what <const> = row.to_island and row.to_island ~= row.island
    and ("the link from %s to %s takes %.4g s each way"):format(islands[row.island].name, islands[row.to_island].name, row.each_s)
    or row.to_island and ("a transfer inside %s takes %.4g s"):format(islands[row.island].name, row.each_s)
    or ("the slowest stage, on %s, takes %.4g s a microbatch"):format(islands[row.island].name, row.each_s)
  return ("with it %.4g s at best%s: %s"):format(row.best_with_s, mode and mode.gpus and " in stages of this size" or "", what)
end

local function islands_list(outcome)
  local result <const>, islands <const> = outcome.best, outcome.problem.islands
  local list <const>, used <const>, idle <const> = core.array {}, {}, {}
  for _, chosen in ipairs(result.best.plans) do used[chosen.island], idle[chosen.island] = true, chosen.idle end
  for i, island in ipairs(islands) do
    local row <const> = { name = island.name, nodes = core.array { table.unpack(island.nodes) }, merged = island.merged,
      used = used[i] or false }
    if used[i] then
      row.idle = idle[i]
    else
      row.reason = reason_of(result, outcome.problem, i)
      row.best_with_s = result.left_out and result.left_out[i] and result.left_out[i].best_with_s or core.null
    end
    list[i] = row
  end
  return list
end

local function failures(outcome)
  local list <const> = core.array {}
  for i, one in ipairs(outcome.failed) do
    local query <const> = one.complaint
    list[i] = {
      slice = core.array { query.first - 1, query.last }, island = one.islands[query.island].name,
      reason = query.why,
    }
  end
  return list
end

--- The best of all partitions' lists.
local function top_of(outcome, limit)
  local rows <const> = {}
  for _, choice in ipairs(outcome.best.top) do
    local stages = 0
    for _, chosen in ipairs(choice.plans) do stages = stages + #chosen.stages end
    rows[#rows + 1] = { microbatches = choice.microbatches, stages = stages, time_s = choice.time_s }
  end
  return core.array(table.move(rows, 1, math.min(limit, #rows), 1, {}))
end

--- Model FLOPs of an iteration over what the GPUs in use could do at their 16-bit (or fp8) peak.
local function utilisation(setting, problem, stages, time_s)
  local peak, rate <const> = 0, setting.training.precision == "fp8" and "fp8_flops" or nil
  local by_name <const> = {}
  for _, island in ipairs(problem.islands) do by_name[island.name] = island end
  for _, stage in ipairs(stages) do
    local island <const> = by_name[stage.island]
    for _, gpus in ipairs(stage.gpus) do
      peak = peak + #gpus.indices * (rate and island.device[rate] or island.compute_flops)
    end
  end
  return core.model_flops(setting.model, setting.training.seq_len) * setting.training.global_batch / (time_s * peak)
end

--- Constants of the islands in use. One that they don't share is listed for each, as "NAME on ISLAND".
local function constants_of(problem, stages)
  local rows <const>, values <const>, used <const> = {}, {}, {}
  for _, stage in ipairs(stages) do used[stage.island] = true end
  for _, island in ipairs(problem.islands) do
    for _, row in ipairs(used[island.name] and search.constants(problem, island) or {}) do
      rows[#rows + 1] = { island.name, row }
      local before <const> = values[row.name]
      local same <const> = before == nil or before and before.value == row.value and before.source == row.source
      values[row.name] = same and row or false
    end
  end
  local list <const>, seen <const> = core.array {}, {}
  for _, pair in ipairs(rows) do
    local island <const>, row <const> = pair[1], pair[2]
    if not values[row.name] then row.name = ("%s on %s"):format(row.name, island) end
    if not seen[row.name] then
      seen[row.name] = true
      list[#list + 1] = row
    end
  end
  return list
end

local function sorted_unique(list)
  local seen <const>, result <const> = {}, core.array {}
  for _, text in ipairs(list) do
    if not seen[text] then
      seen[text] = true
      result[#result + 1] = text
    end
  end
  return result
end

--- Says so where an upper charge stands in the times.
local function note_tied(setting, stages)
  for _, stage in ipairs(stages) do
    if (stage.time_parts.tied_s or 0) > 0 then
      setting.log("tied embedding: each end stage is charged an all-reduce over the slowest link of its island (an upper charge)")
    end
  end
end

--- The plan that a planning found.
---@param setting table planner.setting
---@param outcome table planner.search
---@return table tangram.plan/1
function plan.build(setting, outcome)
  local result <const>, problem <const>, spec <const> = outcome.best, outcome.problem, setting.spec
  local time_s <const> = result.best.time_s
  local bound_s <const> = math.min(outcome.bound_s, time_s)
  local stages <const> = stages_of(setting, outcome)
  local counts <const> = outcome.counts
  counts.failed = failures(outcome)
  note_tied(setting, stages)
  return {
    format = "tangram.plan/1", version = core.version, granularity = setting.own_atoms and "adapter" or spec.granularity,
    atoms = setting.own_atoms and #setting.atoms or nil, model = setting.model,
    cluster = filled_in(setting.cluster), training = setting.training,
    parallelizer = { name = setting.parallelizer.name, options = setting.parallelizer.options },
    cost = { name = setting.cost_plugin.name, options = setting.cost_plugin.options }, target = spec.target or core.null,
    objective = spec.objective, p2p = spec.p2p, warmup = core.array(result.warmup), microbatches = result.best.microbatches,
    stopped = outcome.stopped or core.null, stages = stages, time_s = time_s, bound_s = bound_s, gap = 1 - bound_s / time_s,
    proved = not outcome.stopped and 1 - bound_s / time_s <= spec.gap + 1e-12, paper_s = result.paper_s,
    tokens_per_s = setting.training.global_batch * setting.training.seq_len / time_s,
    model_flops_utilisation = utilisation(setting, problem, stages, time_s), islands = islands_list(outcome), pairs = counts,
    constants = constants_of(problem, stages), warnings = sorted_unique(setting.warnings),
    top = top_of(outcome, spec.top),
  }
end

return plan
