--- Galvatron (arXiv 2211.13878, 2504.21411): stages of equal GPUs, each with the strategy that is quickest within its own memory
--- at its own position: tensor parallelism or Ulysses, ZeRO 2 or 3, layers recomputed as memory asks. Its pipeline formula is
--- not used: all plans that no other is as good as are returned.
---
--- A stage has one (tp, Ulysses, dp, ZeRO), because no other runtime than Galvatron's mixes them inside a stage; its layers
--- choose recompute, the first ones as everywhere in Tangram. The fully layer-wise search is tangram.galvatron.search. Ulysses
--- stands as `cp` in strategies (it splits the sequence and keeps all weights), and is priced as the cost model prices cp.
local core <const> = require "tangram.core"
local foremost <const> = require "tangram.foremost"
local strategies <const> = require "tangram.strategies"

local max <const>, min <const> = math.max, math.min

local function is_power_of_two(n) return n & (n - 1) == 0 end

--- Galvatron's strategies, or with `repair` all of Tangram's.
local function list_strategies(gpus, moe, island, ctx)
  local options <const> = ctx.options
  local repair <const> = options.repair
  local list <const> = strategies.list(gpus, moe, island, ctx, {
    max_tp = options.max_tp, max_cp = options.max_sp, any_cp = true, max_ep = repair and 64 or 1, folded_experts = false,
    fsep = repair, zero = repair and { 0, 1, 2, 3 } or { options.zero, 3 }, selective = repair, offload = { "none" },
  })
  if repair then return list end
  local kept <const> = {}
  for _, s in ipairs(list) do
    if is_power_of_two(s.tp) and is_power_of_two(s.cp) and (s.tp == 1 or s.cp == 1) then kept[#kept + 1] = s end
  end
  return kept
end

--- The same with r layers recomputed.
local function recomputing(strategy, r)
  if r == 0 then return strategy end
  local copy <const> = {}
  for name, value in pairs(strategy) do copy[name] = value end
  copy.recompute = { kind = "full", layers = r }
  return copy
end

--- A strategy with the prices of the cost model: `stage(first, last, behind, slice)` is the quickest stage that fits with so many
--- stages behind it, or nil; `split` cuts a run evenly in time.
local function priced_strategy(strategy, island, ctx)
  local terms <const> = ctx.cost.terms(island, strategy, ctx)
  local full <const> = ctx.options.recompute and strategies.may_recompute(strategy, ctx)
  local known <const>, one <const> = {}, {}
  function one.stage(first, last, behind, slice)
    local _, _, _, recomputed <const> = terms:split(first, last, 1, behind, full)
    if not recomputed then return nil end
    local from <const> = foremost(first, last, ctx)
    local key <const> = ((from << 16 | last - first) << 16) | recomputed[1]
    local stage = known[key]
    if not stage then
      local run <const> = slice:run(first - slice.first + 1, last - slice.first + 1)
      stage = ctx.cost.stage(run, island, recomputing(strategy, recomputed[1]), ctx)
      known[key] = stage
    end
    return ctx.cost.bears(stage, ctx) >= behind and stage or nil
  end
  function one.split(first, last, stages, behind) return terms:split(first, last, stages, behind, full) end
  return one
end

--- All priced strategies of stages of so many GPUs.
local function priced(gpus, moe, island, ctx)
  local key <const> = moe and -gpus or gpus
  local known = ctx.memo[key]
  if not known then
    known = {}
    for i, strategy in ipairs(list_strategies(gpus, moe, island, ctx)) do
      known[i] = priced_strategy(strategy, island, ctx)
    end
    ctx.memo[key] = known
  end
  return known
end

--- The last atoms of stages with equally many layers; the last takes the rest. Nil if there are fewer layers than stages.
local function even_cuts(slice, stages)
  local head <const> = slice.has_head and 1 or 0
  local front <const> = slice.first + (slice.has_embedding and 1 or 0)
  local each <const> = (slice.last - head - front + 1) // stages
  if each < 1 and stages > 1 then return nil end
  local cuts <const> = {}
  for i = 1, stages - 1 do cuts[i] = front + i * each - 1 end
  cuts[stages] = slice.last
  return cuts
end

--- The cuts that suit the one strategy best that is best for all stages.
local function uneven_cuts(known, slice, stages, ctx)
  local best_s, cuts = math.huge, nil
  for _, one in ipairs(known) do
    local bottleneck_s <const>, _, ends <const> = one.split(slice.first, slice.last, stages, ctx.successors)
    if bottleneck_s and bottleneck_s < best_s then best_s, cuts = bottleneck_s, ends end
  end
  return cuts
end

local function busy_s(stage) return stage.forward_s + stage.backward_s end

--- Adds a plan with the figures that plans are compared by.
local function add(found, plan, idle)
  local bottleneck_s, latency_s, sync_s = 0, 0, 0
  for _, stage in ipairs(plan) do
    bottleneck_s, latency_s, sync_s = max(bottleneck_s, busy_s(stage)), latency_s + busy_s(stage), max(sync_s, stage.sync_s)
  end
  plan.idle = idle > 0 and idle or nil
  found.rows[#found.rows + 1] =
    { plan = plan, stages = #plan, bottleneck_s = bottleneck_s, latency_s = latency_s, sync_s = sync_s }
end

--- One strategy for all stages: a plan of each that fits.
local function uniform(found, known, cuts, idle, slice, ctx)
  for _, one in ipairs(known) do
    local plan <const>, first = {}, slice.first
    for i, last in ipairs(cuts) do
      plan[i] = one.stage(first, last, ctx.successors + #cuts - i, slice)
      if not plan[i] then break end
      first = last + 1
    end
    if #plan == #cuts then add(found, plan, idle) end
  end
end

--- The stages that can stand at one place, quickest first; of those no quicker than another only the ones of less sync.
local function choices_of(known, first, last, behind, slice)
  local all <const>, kept <const> = {}, {}
  for _, one in ipairs(known) do all[#all + 1] = one.stage(first, last, behind, slice) end
  local order <const> = {}
  for i, stage in ipairs(all) do order[stage] = i end
  table.sort(all, function(a, b)
    if busy_s(a) ~= busy_s(b) then return busy_s(a) < busy_s(b) end
    if a.sync_s ~= b.sync_s then return a.sync_s < b.sync_s end
    return order[a] < order[b]
  end)
  for _, stage in ipairs(all) do
    if #kept == 0 or stage.sync_s < kept[#kept].sync_s then kept[#kept + 1] = stage end
  end
  return kept
end

--- Each stage chooses for itself. For each limit on sync the quickest stages are best in bottleneck and latency alike, so the
--- limits that stages have are all there is to try.
local function layerwise(found, known, cuts, idle, slice, ctx)
  local places <const>, first = {}, slice.first
  for i, last in ipairs(cuts) do
    places[i] = choices_of(known, first, last, ctx.successors + #cuts - i, slice)
    if #places[i] == 0 then return end
    first = last + 1
  end
  local at <const> = {}
  for i = 1, #cuts do at[i] = 1 end
  while true do
    local plan <const>, worst = {}, 1
    for i, choices in ipairs(places) do
      plan[i] = choices[at[i]]
      if plan[i].sync_s > plan[worst].sync_s then worst = i end
    end
    add(found, plan, idle)
    local limit_s <const> = plan[worst].sync_s
    for i, choices in ipairs(places) do
      while choices[at[i]].sync_s >= limit_s do
        at[i] = at[i] + 1
        if not choices[at[i]] then return end
      end
    end
  end
end

--- Tries all numbers of stages that use so many GPUs.
local function try(found, used, slice, island, ctx)
  local moe <const> = strategies.has_moe(ctx.atoms, slice.first, slice.last)
  local search <const> = ctx.options.mode == "uniform" and uniform or layerwise
  local repair <const> = ctx.options.repair
  for stages = 1, min(#slice, used, ctx.options.max_stages) do
    local gpus <const> = used // stages
    if gpus * stages == used and (repair or is_power_of_two(stages) and stages <= ctx.microbatches)
        and strategies.lies_well(gpus, stages, island.gpus_per_node) then
      local known <const> = priced(gpus, moe, island, ctx)
      found.tried = found.tried + #known
      local cuts <const> = even_cuts(slice, stages)
      if cuts then search(found, known, cuts, island.gpus - used, slice, ctx) end
      local uneven <const> = repair and stages > 1 and uneven_cuts(known, slice, stages, ctx)
      if uneven then search(found, known, uneven, island.gpus - used, slice, ctx) end
    end
  end
end

return {
  api = 1, kind = "parallelizer", name = "galvatron",
  description = "Galvatron: each stage its own tp or Ulysses, ZeRO and recompute, at its own position",
  options = {
    mode = { type = "enum", values = { "layerwise", "uniform" }, default = "layerwise",
      doc = "each stage chooses for itself, or one strategy holds for all" },
    repair = { type = "boolean", default = false,
      doc = "what Galvatron lacks: degrees that are no powers of two, tp and Ulysses together, expert parallelism and FSEP, every ZeRO "
        .. "level, selective recompute, uneven stages, more stages than microbatches" },
    max_stages = { type = "integer", default = 64, min = 1, doc = "most pipeline stages on one island" },
    max_tp = { type = "integer", default = 8, min = 1, doc = "largest tensor-parallel degree" },
    max_sp = { type = "integer", default = 8, min = 1, doc = "largest degree of Ulysses" },
    zero = { type = "integer", default = 2, min = 0, max = 2, doc = "ZeRO level beside 3 (Galvatron's default_dp_type: ddp 0, zero2 2)" },
    recompute = { type = "boolean", default = true, doc = "recompute as many layers as memory asks for" },
  },
  plan = function(slice, island, ctx)
    local found <const> = { rows = {}, tried = 0 }
    for used = island.gpus, 1, -1 do
      if ctx.options.repair or is_power_of_two(used) then try(found, used, slice, island, ctx) end
      if found.tried > 0 then break end
    end
    if #found.rows == 0 then
      return nil, found.tried > 0 and ("none of %d strategies fits the memory"):format(found.tried)
        or ("no degrees divide %d GPUs for %d atoms and %d samples"):format(island.gpus, #slice, ctx.samples)
    end
    local plans <const> = {}
    for i, row in ipairs(core.pareto(found.rows, { "stages", "bottleneck_s", "latency_s", "sync_s" })) do plans[i] = row.plan end
    return plans
  end,
}
