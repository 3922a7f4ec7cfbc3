--- Time and memory of a measured run, from the cost model and the simulation that planning uses.
local core <const> = require "tangram.core"
local cost <const> = require "tangram.cost"
local island <const> = require "tangram.island"
local rates <const> = require "tangram.rates"
local slice <const> = require "tangram.slice"
local links <const> = require("tangram.catalog").links

local predict <const> = {}

local max <const>, min <const> = math.max, math.min

--- Islands of the row's GPU types, as one of its stages sees them.
local function islands_of(s)
  local by_key <const>, list <const> = {}, {}
  local gpus <const> = #s.ranks
  for _, device in ipairs(s.ranks) do
    if not by_key[device.key] then
      list[#list + 1] = island.new {
        index = #list + 1, name = device.key, gpu = device.key, gpus = gpus, gpus_per_node = s.gpus_per_node,
        node_count = math.ceil(gpus / s.gpus_per_node), compute_flops = max(device.bf16_flops or 0, device.fp16_flops or 0),
        memory_bytes = device.memory_bytes, device = device, intra = rates.to_steps(device.intra), intra_latency_s = links.intra_latency_s,
        inter = { rates = { { 1, device.network_bytes_per_s or s.network.bytes_per_s } }, latency_s = links.inter_latency_s },
        signature = device.key, merged = false,
        nodes = {},
      }
      by_key[device.key] = list[#list]
    end
  end
  return by_key, list
end

--- GPU types among the ranks [first, last].
local function types_in(s, first, last, by_key)
  local found <const>, seen <const> = {}, {}
  for r = first, last do
    local key <const> = s.ranks[r].key
    if not seen[key] then
      seen[key] = true
      found[#found + 1] = by_key[key]
    end
  end
  return found
end

--- The cost model for a row: its options where it knows them.
local function model_of(plugin, s)
  local fields <const> = plugin.option_fields
  local constants <const>, own <const> = {}, s.ranks[1].constants or {}
  for _, name in ipairs { "network_share", "dp_network_share" } do
    if not own[name] then constants[name] = s.network[name] end
  end
  for name, value in pairs(s.constants) do constants[name] = value end
  local options <const> = {}
  for name, value in pairs(plugin.options) do options[name] = value end
  if fields.stack and not (plugin.given or {}).stack then options.stack = s.stack end
  if fields.network then options.network = "nominal" end
  if fields.imbalance and s.imbalance then options.imbalance = s.imbalance end
  if fields.constants then
    for name, value in pairs(options.constants) do constants[name] = value end
    options.constants = constants
  end
  return cost.wrap(plugin, options)
end

local function in_one_node(s, first, last) return (first - 1) // s.gpus_per_node == (last - 1) // s.gpus_per_node end

--- Bytes a second of the node that holds a rank.
local function network_of(s, rank) return s.ranks[rank].network_bytes_per_s or s.network.bytes_per_s end

--- Seconds from the stage on ranks [a, a + gpus) to the one on [b, b + gpus): its GPUs send at once.
local function transfer_s(s, priced, a, b, gpus, bytes)
  local device <const> = s.ranks[a]
  if in_one_node(s, min(a, b), max(a, b) + gpus - 1) then
    local share <const> = device.intra == device.pcie_bytes_per_s and priced.pcie_link_share or priced.tp_link_share or 1
    return links.intra_latency_s + bytes / (rates.to_steps(device.intra)[1][2] * share)
  end
  local rate <const> = min(network_of(s, a), network_of(s, b)) * (priced.network_share or 1)
  return links.inter_latency_s + bytes * min(s.gpus_per_node, gpus) / rate
end

--- The link between the first and the last stage.
local function tied_link_of(s, gpus)
  if s.pp == 1 then return nil end
  if in_one_node(s, 1, #s.ranks) then
    return { latency_s = links.intra_latency_s, bytes_per_s = rates.to_steps(s.ranks[1].intra)[1][2] }
  end
  return { latency_s = links.inter_latency_s,
    bytes_per_s = s.network.bytes_per_s * (s.network.network_share or 1) / min(s.gpus_per_node, gpus) }
end

local function context(s, atoms, list, one, tied_link)
  return {
    model = s.model, atoms = atoms, islands = list, training = s.training, microbatches = s.microbatches,
    samples = s.training.global_batch // s.microbatches, successors = 0, capacity_bytes = one.memory_bytes, tied_link = tied_link,
    log = function() end,
  }
end

--- Microbatches' worth of activations that a rank holds for each of its chunks.
local function held(s, rank)
  local most
  if s.vpp == 1 then most = s.pp - rank
  else most = (2 * (s.pp - 1 - rank) + (s.vpp - 1) * s.pp + 1) / s.vpp end
  return min(most, s.microbatches)
end

--- Whether each rank of a stage sends its part alone: with sequence parallelism, when interleaving (Megatron's scatter and gather),
--- in DeepSpeed's pipelines.
local function scattered(s) return s.vpp > 1 or s.strategy.sp or s.partitioned end

---@param s table of measured.setup
---@param plugin table a loaded cost model
---@param p2p "overlapped"|"blocking" of pipelines that are not interleaved, where the run's source does not say
---@return { seconds: number, bytes: number, parts: table<string, number>, stages: table[] } parts: memory of the fullest GPU
function predict.of(s, plugin, p2p)
  local atoms = s.atoms -- kept for those who predict a run again with other constants
  if not atoms then
    local why
    atoms, why = core.atoms(s.model, { seq_len = s.training.seq_len })
    if not atoms then error("model: " .. why, 0) end
    s.atoms = atoms
  end
  local by_key <const>, list <const> = islands_of(s)
  local priced <const> = model_of(plugin, s)
  local gpus <const> = s.strategy.dp * s.strategy.tp * s.strategy.cp
  local contexts <const>, tied_link <const>, k <const> = {}, tied_link_of(s, gpus), {}
  for _, one in ipairs(list) do
    contexts[one.index] = context(s, atoms, list, one, tied_link)
    for _, constant in ipairs(priced.constants(one, contexts[one.index])) do k[constant.name] = constant.value end
  end
  local stages <const>, bytes, parts = {}, 0, nil
  local memory <const> = {} -- by rank and GPU type
  for i, bound in ipairs(s.bounds) do
    local rank <const> = (i - 1) % s.pp
    local run <const> = slice.new(s.model, atoms, bound[1], bound[2])
    local slowest <const> = { forward_s = 0, backward_s = 0, sync_s = 0 }
    for _, one in ipairs(types_in(s, rank * gpus + 1, (rank + 1) * gpus, by_key)) do
      local stage <const> = priced.stage(run, one, s.strategy, contexts[one.index])
      slowest.forward_s, slowest.backward_s = max(slowest.forward_s, stage.forward_s), max(slowest.backward_s, stage.backward_s)
      slowest.sync_s = max(slowest.sync_s, stage.sync_s - (i > s.pp and k.step_s or 0))
      local at <const> = rank .. one.gpu
      local sum <const> = memory[at] or { static_bytes = 0, activations_bytes = 0, transient_bytes = 0 }
      memory[at] = sum
      sum.static_bytes = sum.static_bytes + stage.static_bytes
      if i > s.pp then -- one context, one set of buffers and one step of the optimizer a GPU, whatever its chunks
        sum.static_bytes = sum.static_bytes - (stage.parts and stage.parts.memory.context_bytes + stage.parts.memory.buffers_bytes or 0)
      end
      sum.activations_bytes = sum.activations_bytes + held(s, rank) * stage.inflight_bytes
      sum.transient_bytes = max(sum.transient_bytes, stage.transient_bytes)
      local total <const> = sum.static_bytes + sum.activations_bytes + sum.transient_bytes
      if total > bytes then bytes, parts = total, sum end
    end
    stages[i] = slowest
  end
  local transfers <const> = {}
  local sent <const> = (s.training.precision == "fp32" and 4 or 2) * s.training.global_batch // (s.microbatches * s.strategy.dp)
    * s.training.seq_len / s.strategy.cp * s.model.hidden / (scattered(s) and s.strategy.tp or 1)
  local shares <const> = { tp_link_share = k.tp_link_share, pcie_link_share = k.pcie_link_share,
    network_share = s.constants.network_share or s.network.network_share or k.network_share }
  for i = 1, #s.bounds - 1 do
    transfers[i] = transfer_s(s, shares, (i - 1) % s.pp * gpus + 1, i % s.pp * gpus + 1, gpus, sent)
  end
  local seconds <const>, stuck <const> = core.simulate(stages, transfers, {
    microbatches = s.microbatches, chunks = s.vpp, p2p = s.vpp == 1 and (s.p2p or p2p) or nil,
  })
  if not seconds then error("schedule: " .. stuck, 0) end
  return { seconds = seconds, bytes = bytes, parts = parts, stages = stages }
end

return predict
