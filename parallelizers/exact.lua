--- The plans of a slice on an island that none is better than, over all cuts into stages, all sizes of stages and all
--- strategies of each stage, with as little recomputed as the stages behind allow. Better is, of plans of equally many stages (on
--- more than 8 GPUs: or fewer), what takes less in all of: a microbatch's way there and back, with the transfers between the
--- stages, how far syncs reach, and, with nothing behind, the front stage's time and the iteration's in 1F1B at this number of
--- microbatches, which the order of the stages changes (COMPOSITION.md, section 9). That none better is lost is not proved but
--- measured (rows_spec). For the paper's objective: stages, bottleneck, latency and largest sync (section 8), of which nothing is
--- lost. All slices of an island share one table of the engine, which solves suffixes of equal content once.
local core <const> = require "tangram.core"
local strategies <const> = require "tangram.strategies"
local target <const> = require "tangram.target.stage"

local max <const>, min <const> = math.max, math.min

local options <const> = {
  max_stages = { type = "integer", default = 64, min = 1, doc = "most pipeline stages on one island" },
  full_recompute = { type = "boolean", default = true, doc = "recompute whole layers, as many in each stage as memory asks for" },
  idle = { type = "boolean", default = true, doc = "GPUs may be left idle where that is better, or nothing else divides" },
  objective = { type = "enum", values = { "simulated", "paper" }, default = "simulated",
    doc = "how plans are compared: by how they run, or for the paper's estimate; a planner gives its own" },
  more_successors = { type = "boolean", default = false,
    doc = "also give slower plans that bear more stages behind them than asked for (a planner asks again where it needs them)" },
}
for name, field in pairs(strategies.options) do options[name] = field end

--- The strategy with r of the stage's layers recomputed in full.
local function with_full(strategy, r)
  if r == 0 then return strategy end
  local copy <const> = {}
  for name, value in pairs(strategy) do copy[name] = value end
  copy.recompute = { kind = "full", layers = r }
  return copy
end

--- The stage of so many atoms from `first` of the model on, r layers recomputed; made once.
local function stage_of(place, number, first, atoms, r, ctx)
  local key <const> = ((number << 12 | first) << 12 | atoms) << 12 | r
  local stage = place.stages[key]
  if not stage then
    local strategy <const> = with_full(place.strategies[number], r)
    stage = ctx.cost.stage(place.model:run(first, first + atoms - 1), place.island, strategy, ctx)
    place.stages[key] = stage
  end
  return stage
end

local function may_recompute(strategy, ctx) return ctx.options.full_recompute and strategies.may_recompute(strategy, ctx) end

--- More stages than GPUs on the other islands never stand behind a plan.
local function most_successors(island, ctx)
  local others = -island.gpus
  for _, other in ipairs(ctx.islands) do others = others + other.gpus end
  return max(others, ctx.successors)
end

--- What the table needs to tell transfers between stages; nothing where the paper's estimate counts.
local function links(island, ctx)
  if ctx.options.objective ~= "simulated" then return {} end
  local of <const> = { boundary_bytes = {}, intra_bytes_per_s = {}, inter_bytes_per_s = {}, intra_latency_s = island.intra_latency_s,
    inter_latency_s = (island.inter or {}).latency_s or 0 }
  for i = 1, #ctx.atoms - 1 do of.boundary_bytes[i] = ctx.samples * ctx.atoms[i].boundary_bytes end
  for n = 1, island.gpus_per_node do
    of.intra_bytes_per_s[n], of.inter_bytes_per_s[n] = island:intra_bytes_per_s(n), island:inter_bytes_per_s(n)
  end
  return of
end

--- Everything that the slices of an island at one B share: the engine's table and the strategies of each size of stage.
local function new_place(slice, island, ctx)
  local content <const> = {}
  for i, atom in ipairs(ctx.atoms) do content[i] = atom.hash end
  local place <const> = {
    model = slice:of_model(), island = island, strategies = {}, of_size = {}, stages = {}, by_terms = true, seen = {},
    most_successors = most_successors(island, ctx),
  }
  local spec <const> = links(island, ctx)
  for name, value in pairs {
    content = content, devices = island.gpus, node = island.gpus_per_node, microbatches = ctx.microbatches,
    most_successors = place.most_successors, most_stages = min(ctx.options.max_stages, island.gpus), spread = ctx.options.more_successors,
    idle = ctx.options.idle, simulated = ctx.options.objective == "simulated",
  } do spec[name] = value end
  place.table = core.partition_table(spec)
  local moe <const> = strategies.has_moe(ctx.atoms, 1, #ctx.atoms)
  for gpus = 1, island.gpus do
    local numbers <const> = {}
    for i, strategy in ipairs(strategies.lies_well(gpus, 1, island.gpus_per_node)
        and strategies.list(gpus, moe, island, ctx, ctx.options) or {}) do
      numbers[i] = #place.strategies + 1
      place.strategies[numbers[i]] = strategy
      place.by_terms = place.by_terms and ctx.cost.terms_tell_sync(island, strategy, ctx)
    end
    place.of_size[gpus] = numbers
  end
  for gpus, numbers in ipairs(place.by_terms and place.of_size or {}) do
    for _, number in ipairs(numbers) do
      local strategy <const> = place.strategies[number]
      place.table:add(gpus, number, ctx.cost.terms(island, strategy, ctx), may_recompute(strategy, ctx))
    end
  end
  return place
end

local function layers_of(run)
  local count = 0
  for i = 1, #run do
    if run[i].kind ~= "embedding" and run[i].kind ~= "head" then count = count + 1 end
  end
  return count
end

--- Adds the ways of a stage under one strategy, priced whole: for each number of stages behind it, as few layers recomputed
--- as it takes and a target lets it. Bytes fall with each layer more.
local function add_ways(found, place, number, run, ctx)
  local least, most = 0, 0
  if may_recompute(place.strategies[number], ctx) then least, most = target.recompute_range(ctx.target, layers_of(run)) end
  local function priced(r)
    local stage <const> = stage_of(place, number, run.first, #run, r, ctx)
    return ctx.cost.bears(stage, ctx), stage
  end
  local r, needed = least, 0
  while true do
    local bears, stage = priced(r)
    if bears < needed then
      if r == most or priced(most) < needed then return end
      local low, high = r, most -- too few, enough
      while high - low > 1 do
        local middle <const> = (low + high) // 2
        if priced(middle) < needed then low = middle else high = middle end
      end
      r = high
      bears, stage = priced(r)
    end
    found[#found + 1] = { time_s = stage.forward_s + stage.backward_s, forward_s = stage.forward_s, sync_s = stage.sync_s,
      max_successors = min(bears, core.no_limit), strategy = number, recomputed = r }
    if bears >= place.most_successors + place.island.gpus then return end
    needed = bears + 1
  end
end

--- Can't the table's terms tell what stages of this run there are? A target may rule out some, by what they hold.
local function by_hand(place, run, ctx)
  local mode <const> = ctx.target
  if not place.by_terms or mode.least_recomputed == target.ALL then return true end -- terms know one peak for all kinds of layers
  local layers <const> = layers_of(run)
  local least <const>, most <const> = target.recompute_range(mode, layers)
  return not target.may_hold(mode, layers, run.first == 1, run.last == #ctx.atoms)
    or mode.first and run.first == 1 or mode.last and run.last == #ctx.atoms
    or least > 0 or 0 < most and most < layers
end

--- Prices a run's stages for the table.
local function price(place, run, ctx)
  local mode <const> = ctx.target
  for gpus, numbers in ipairs(place.of_size) do
    if #numbers > 0 and not place.table:has(run.first, run.last, gpus) then
      local found <const> = {}
      local may <const> = not mode or target.may_hold(mode, layers_of(run), run.first == 1, run.last == #ctx.atoms)
      for _, number in ipairs(may and numbers or {}) do
        if not mode or target.end_allows(mode, place.strategies[number], run.first == 1, run.last == #ctx.atoms) then
          add_ways(found, place, number, run, ctx)
        end
      end
      place.table:set(run.first, run.last, gpus, found)
    end
  end
end

--- Prices what this slice needs and the table can't.
local function prepare(place, slice, ctx)
  for i = 1, place.by_terms and not ctx.target and 0 or #slice do
    for j = i, #slice do
      local key <const> = slice.first + i << 12 | slice.first + j
      if not place.seen[key] then
        place.seen[key] = true
        local run <const> = slice:run(i, j)
        if by_hand(place, run, ctx) then price(place, run, ctx) end
      end
    end
  end
end

--- Why nothing fits: of the rows of equal stages, the one that is short of the fewest bytes.
local function shortage(place, slice, ctx)
  local least, text = math.huge, nil
  for gpus, numbers in ipairs(place.of_size) do
    local stages <const> = min(#slice, place.island.gpus // gpus, ctx.options.max_stages)
    for _, number in ipairs(numbers) do
      local strategy <const> = place.strategies[number]
      local fits <const>, bytes <const>, stage <const> = ctx.cost.terms(place.island, strategy, ctx):split(
        slice.first, slice.last, stages, ctx.successors, may_recompute(strategy, ctx))
      if not fits and bytes < least then
        least, text = bytes, ("stage %d of %d is %.2f GiB short with %s, the nearest to fitting"):format(stage, stages,
          bytes / 2 ^ 30, strategies.describe(strategy))
      end
    end
  end
  return text or ("no row of stages fits %d atoms, %d GPUs and %d samples"):format(#slice, place.island.gpus, ctx.samples)
end

return {
  api = 1, kind = "parallelizer", name = "exact",
  description = "every cut into stages, every size and strategy of each: all plans that none is better than",
  options = options,
  plan = function(slice, island, ctx)
    local place = ctx.memo.place
    if not place or place.most_successors < ctx.successors then
      place = new_place(slice, island, ctx)
      ctx.memo.place = place
    end
    prepare(place, slice, ctx)
    local plans <const> = place.table:plans(slice.first, slice.last, ctx.successors)
    if #plans == 0 then return nil, shortage(place, slice, ctx) end
    for _, plan in ipairs(plans) do
      if plan.idle == 0 then plan.idle = nil end
      for i, one in ipairs(plan) do plan[i] = stage_of(place, one.strategy, one.first, one.atoms, one.recomputed, ctx) end
    end
    return plans
  end,
}
