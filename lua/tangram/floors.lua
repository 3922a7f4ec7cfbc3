--- Floors of an island at one B: what no plan of any adapter can go below there, as sums over the model's atoms. They hold for
--- additive cost models, whose stages cost no less than their atoms' terms and the constants of a stage.
---
--- A plan's stages have d_1 … d_k GPUs, each in one node or in whole nodes, at most G together. The least over strategies is
--- taken for each atom alone, so stages may differ, and so may layers of one stage.
local strategies <const> = require "tangram.strategies"

local floors <const> = {}

--- Every degree that divides. ZeRO and offload are each function's own: of what they range over only the ends are priced,
--- since a higher level of ZeRO and more offload take no more bytes, and save no time of a microbatch.
local function every(zero, offload, target)
  if target then -- a runtime's own ends; none of them offloads
    local low, high = math.huge, 0
    for _, level in ipairs(target.zero) do low, high = math.min(low, level), math.max(high, level) end
    zero, offload = #zero == 1 and { high } or { low, high }, { "none" }
  end
  return { max_tp = math.huge, max_cp = math.huge, max_ep = math.huge, any_cp = true, folded_experts = true,
    zero = zero, fsep = true, selective = false, offload = offload }
end

--- Of the kinds of offload those that no other of them covers.
local function strongest(offload)
  local has <const> = {}
  for _, kind in ipairs(offload) do has[kind] = true end
  if has.both then return { "both" } end
  local kinds <const> = {}
  for _, kind in ipairs(offload) do
    if kind ~= "none" or #offload == 1 then kinds[#kinds + 1] = kind end
  end
  return kinds
end

local known <const> = setmetatable({}, { __mode = "k" }) -- by cost model, island, B and what is asked

local function remembered(what, island, ctx, make)
  local places = known[ctx.cost]
  if not places or places.atoms ~= ctx.atoms then
    places = { atoms = ctx.atoms, by_island = setmetatable({}, { __mode = "k" }) }
    known[ctx.cost] = places
  end
  local place <const>, key <const> = places.by_island[island] or {}, what .. ctx.microbatches
  places.by_island[island] = place
  place[key] = place[key] or make()
  return place[key]
end

--- ctx as it stands on another island: its memory, and no link that only its own context knows.
local function context_on(island, ctx)
  return setmetatable({ capacity_bytes = (1 - ctx.training.memory_margin) * island.memory_bytes }, { __index = ctx })
end

--- Calls visit(gpus, terms, constants) for each strategy of an atom on any number of GPUs a stage may have.
local function each_strategy(atom, island, ctx, options, visit)
  for gpus = 1, island.gpus do
    if strategies.lies_well(gpus, 1, island.gpus_per_node) then
      for _, strategy in ipairs(strategies.list(gpus, atom.mlp == "moe", island, ctx, options)) do
        visit(gpus, ctx.cost.atom(atom, island, strategy, ctx))
      end
    end
  end
end

--- Sums of value(atom), asked once for each content: sums[i] holds atoms 1..i, sums[0] is 0.
local function prefix_sums(ctx, value)
  local sums <const>, by_hash <const> = { [0] = 0 }, {}
  for i, atom in ipairs(ctx.atoms) do
    by_hash[atom.hash] = by_hash[atom.hash] or value(atom)
    sums[i] = sums[i - 1] + by_hash[atom.hash]
  end
  return sums
end

--- The floors of time, under ZeRO of any level, nothing recomputed or offloaded (which saves bytes, never a microbatch's time):
--- `share_s`, sums of min d·(forward + backward) / G; `busy_s`, sums of min (forward + backward); `stage_s`, the least that
--- any stage adds.
---@param island table any of ctx.islands
---@param ctx table
---@return table { share_s, busy_s, stage_s }
function floors.time(island, ctx)
  return remembered("time", island, ctx, function()
    local on <const>, least <const> = context_on(island, ctx), {}
    -- 3 for fully sharded experts, which may be busy for less time than those that stand still
    local options <const> = every({ 0, 3 }, { "none" }, ctx.target)
    local stage_s = math.huge
    local busy_s <const> = prefix_sums(ctx, function(atom)
      local share, busy = math.huge, math.huge
      each_strategy(atom, island, on, options, function(gpus, terms, constants)
        local time_s <const> = terms.forward_s + terms.backward_s
        share, busy, stage_s = math.min(share, gpus * time_s / island.gpus), math.min(busy, time_s), math.min(stage_s, constants.stage_s)
      end)
      least[atom.hash] = share
      return busy
    end)
    return { busy_s = busy_s, share_s = prefix_sums(ctx, function(atom) return least[atom.hash] end), stage_s = stage_s }
  end)
end

--- The floors of memory: sums over atoms of min d·(static + in flight), everything recomputed, all GPUs of a stage together;
--- and the least static bytes that any stage adds on each GPU.
---@param island table any of ctx.islands
---@param ctx table
---@param inflight integer microbatches that each stage holds at least
---@param offload string[] what may be in the host's memory
---@return number[] sums, number stage_bytes
function floors.memory(island, ctx, inflight, offload)
  local found <const> = remembered("memory " .. table.concat(offload, " "), island, ctx, function()
    return { options = {}, stage_bytes = math.huge, sums = {} }
  end)
  if not found.sums[inflight] then
    local on <const> = context_on(island, ctx)
    found.sums[inflight] = prefix_sums(ctx, function(atom)
      if not found.options[atom.hash] then
        local list <const> = {}
        each_strategy(atom, island, on, every({ 3 }, strongest(offload), ctx.target), function(gpus, terms, constants)
          local kept <const> = math.min(terms.inflight_bytes, terms.recomputed_inflight_bytes)
          -- a tied vocabulary, counted at both ends, is held once by a stage that has them both
          local twice_bytes <const> = atom.kind == "head" and constants.twice and constants.twice.static_bytes or 0
          list[#list + 1] = { gpus * (terms.static_bytes - twice_bytes), gpus * kept }
          found.stage_bytes = math.min(found.stage_bytes, constants.static_bytes)
        end)
        found.options[atom.hash] = list
      end
      local least = math.huge
      for _, one in ipairs(found.options[atom.hash]) do least = math.min(least, one[1] + inflight * one[2]) end
      return least
    end)
  end
  return found.sums[inflight], found.stage_bytes
end

return floors
