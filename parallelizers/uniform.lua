--- The naive homogeneous planner of the Tangram paper: all stages of a slice on equal GPUs under one strategy, every
--- (dp, tp, pp, cp, ep) whose product is the island's GPUs tried; cuts between atoms and layers recomputed are solved, not
--- swept. Among one strategy's cuts it takes the least bottleneck, then the least latency.
local foremost <const> = require "tangram.foremost"
local strategies <const> = require "tangram.strategies"

local max <const>, min <const> = math.max, math.min
local SLACK <const> = 1 + 1e-12

local options <const> = {
  max_stages = { type = "integer", default = 64, min = 1, doc = "most pipeline stages on one island" },
  full_recompute = { type = "boolean", default = true, doc = "recompute whole layers, as many in each stage as memory asks for" },
  idle = { type = "boolean", default = true, doc = "leave GPUs idle where no strategy divides all of them" },
}
for name, field in pairs(strategies.options) do options[name] = field end

--- The (strategy, terms) of stages of so many GPUs; the same for all slices of an island at one B.
local function priced(gpus, moe, island, ctx)
  local key <const> = moe and -gpus or gpus
  local known = ctx.memo[key]
  if not known then
    known = {}
    for i, strategy in ipairs(strategies.list(gpus, moe, island, ctx, ctx.options)) do
      known[i] = {
        strategy = strategy, terms = ctx.cost.terms(island, strategy, ctx), stages = {}, with_full = {},
        full = ctx.options.full_recompute and strategies.may_recompute(strategy, ctx),
      }
    end
    ctx.memo[key] = known
  end
  return known
end

--- The strategy with r of the stage's layers recomputed in full.
local function with_full(one, r)
  if r == 0 then return one.strategy end
  if not one.with_full[r] then
    local copy <const> = {}
    for name, value in pairs(one.strategy) do copy[name] = value end
    copy.recompute = { kind = "full", layers = r }
    one.with_full[r] = copy
  end
  return one.with_full[r]
end

--- The stage of atoms first..last, r layers recomputed; made once for each content, wherever it stands in the model.
local function stage_of(one, first, last, r, slice, island, ctx)
  local from <const> = foremost(first, last, ctx)
  local key <const> = ((from << 16 | last - first) << 16) | r
  local stage = one.stages[key]
  if not stage then
    local run <const> = slice:run(first - slice.first + 1, last - slice.first + 1)
    stage = ctx.cost.stage(run, island, with_full(one, r), ctx)
    one.stages[key] = stage
  end
  return stage
end

--- Is plan a in nothing worse than b? What differs in the last bits only, from sums in another order, is equal.
local function covers(a, b)
  return a.bottleneck_s <= b.bottleneck_s * SLACK and a.latency_s <= b.latency_s * SLACK and a.stages <= b.stages
    and a.sync_s <= b.sync_s * SLACK and a.successors >= b.successors
end

local function covered(made, kept)
  for _, other in ipairs(kept) do
    if covers(other, made) then return true end
  end
  return false
end

--- The plan of one probed cut, with the numbers that plans are compared by. Nil if a kept plan is no worse, which a few of its
--- stages may tell; or if its stages, priced whole, do not fit (their terms are estimates where the cost model prices stages).
local function build(probed, kept, most_successors, slice, island, ctx)
  local one <const>, count <const> = probed.one, probed.stages
  local _, _, ends <const>, recomputed <const> = one.terms:split(slice.first, slice.last, count, ctx.successors, one.full)
  local plan <const>, first = {}, slice.first
  local bottleneck_s, latency_s = 0, 0
  local exact <const> = ctx.cost.additive
  -- So far a plan no worse than the whole will be.
  local made <const> = { plan = plan, stages = count, sync_s = 0, successors = most_successors,
    bottleneck_s = exact and probed.bottleneck_s or 0, latency_s = exact and probed.latency_s or 0 }
  for i = 1, count do
    local stage <const> = stage_of(one, first, ends[i], recomputed[i], slice, island, ctx)
    plan[i], first = stage, ends[i] + 1
    local busy_s <const> = stage.forward_s + stage.backward_s
    bottleneck_s, latency_s, made.sync_s = max(bottleneck_s, busy_s), latency_s + busy_s, max(made.sync_s, stage.sync_s)
    local bears <const> = ctx.cost.bears(stage, ctx) - (count - i)
    made.successors = min(made.successors, bears)
    if bears < ctx.successors or covered(made, kept) then return nil end
  end
  if probed.used < island.gpus then plan.idle = island.gpus - probed.used end
  made.bottleneck_s, made.latency_s = bottleneck_s, latency_s
  return made
end

--- Probes every strategy and number of stages that use so many GPUs: what fits goes to probed, the rest to short.
local function probe_all(used, probed, short, slice, island, ctx)
  local moe <const> = strategies.has_moe(ctx.atoms, slice.first, slice.last)
  for stages = 1, min(#slice, used, ctx.options.max_stages) do
    local gpus <const> = used // stages
    if gpus * stages == used and strategies.lies_well(gpus, stages, island.gpus_per_node) then
      for _, one in ipairs(priced(gpus, moe, island, ctx)) do
        local bottleneck_s <const>, latency_s <const> =
          one.terms:probe(slice.first, slice.last, stages, ctx.successors, one.full)
        local list <const> = bottleneck_s and probed or short
        list[#list + 1] =
          { one = one, stages = stages, used = used, order = #list, bottleneck_s = bottleneck_s, latency_s = latency_s }
      end
    end
  end
end

--- Why nothing fits: the stage that is short of the fewest bytes.
local function shortage(short, slice, island, ctx)
  local least, place, nearest = math.huge, nil, nil
  for _, one in ipairs(short) do
    local _, bytes <const>, stage <const> =
      one.one.terms:split(slice.first, slice.last, one.stages, ctx.successors, one.one.full)
    if bytes < least then least, place, nearest = bytes, stage, one end
  end
  if not nearest then
    return ("no dp, tp, cp divide %d GPUs for %d atoms and %d samples"):format(island.gpus, #slice, ctx.samples)
  end
  return ("stage %d of %d is %.2f GiB short with %s, the nearest to fitting"):format(
    place, nearest.stages, least / 2 ^ 30, strategies.describe(nearest.one.strategy))
end

--- The plans of what was probed, without those that another is no worse than.
local function pareto(probed, slice, island, ctx)
  -- With as many stages behind as there are microbatches, more of them ask for no more memory. (That other islands may have
  -- fewer GPUs is not looked at: answers hold whatever else is in the cluster.)
  local most_successors <const> = max(ctx.microbatches, ctx.successors)
  table.sort(probed, function(a, b)
    if a.bottleneck_s ~= b.bottleneck_s then return a.bottleneck_s < b.bottleneck_s end
    if a.latency_s ~= b.latency_s then return a.latency_s < b.latency_s end
    return a.order < b.order
  end)
  local kept <const> = {}
  for _, one in ipairs(probed) do
    local made <const> = build(one, kept, most_successors, slice, island, ctx)
    if made and not covered(made, kept) then
      for i = #kept, 1, -1 do
        if covers(made, kept[i]) then table.remove(kept, i) end
      end
      kept[#kept + 1] = made
    end
  end
  for i, made in ipairs(kept) do kept[i] = made.plan end
  return kept
end

return {
  api = 1, kind = "parallelizer", name = "uniform",
  description = "one strategy for all stages of a slice, exhaustively: dp, tp, pp, cp, ep, ZeRO, FSEP, recompute",
  options = options,
  plan = function(slice, island, ctx)
    local probed <const>, short <const> = {}, {}
    for used = island.gpus, ctx.options.idle and 1 or island.gpus, -1 do
      probe_all(used, probed, short, slice, island, ctx)
      if #probed + #short > 0 then break end
    end
    if #probed == 0 then return nil, shortage(short, slice, island, ctx) end
    local plans <const> = pareto(probed, slice, island, ctx)
    if #plans == 0 then return nil, "no plan's stages fit, priced whole" end
    return plans
  end,
}
