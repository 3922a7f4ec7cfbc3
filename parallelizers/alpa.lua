--- Alpa (Zheng et al., OSDI 2022) as an adapter: stages are submeshes of the island, each with the logical meshes that its
--- intra-operator pass comes down to for transformers; the row of stages is the one of least Σ t + (B - 1)·max t.
--- Faithful by default; `repair` gives what the original lacks (see the option). The island's order of GPUs is kept, as plans
--- are laid out here; the original places large submeshes first, wherever they stand in the pipeline.
local core <const> = require "tangram.core"
local strategies <const> = require "tangram.strategies"

local floor <const>, max <const>, min <const> = math.floor, math.max, math.min
local MOST_SUCCESSORS <const> = 2 ^ 20 -- the original's clamp

local options <const> = {
  submeshes = { type = "enum", values = { "power_of_two", "small_power_of_two", "all" }, default = "power_of_two",
    doc = "numbers of whole nodes that a stage may have (small: at most 4); inside a node powers of two" },
  logical_meshes = { type = "enum", values = { "single_node", "all", "same_as_physical", "data_parallel", "model_parallel" },
    default = "single_node", doc = "shapes (dp, tp) of a submesh: any whose tp is inside a node (all is the same here, as no plan "
      .. "cuts layers over nodes), (nodes, GPUs of one), (n, 1), (1, n)" },
  free_mesh = { type = "boolean", default = true,
    doc = "with single_node and all also the 1-D mesh whose batch axis is not forced: on layers with experts it yields "
      .. "expert parallelism" },
  recompute = { type = "boolean", default = true, doc = "recompute every layer of every stage, or none" },
  zero = { type = "integer", default = 0, min = 0, max = 3,
    doc = "ZeRO level of stages with replicas. The original's preferred reduce-scatter: 1 exchanges gradients once a step, as its "
      .. "runtime does; 2 also cuts them, and exchanges them every microbatch. Forced ZeRO 3: only stages of tp 1" },
  imbalance_tolerance = { type = "number", above = 0,
    doc = "skip stages whose share of the work exceeds their share of the GPUs, or the other way, by more than this fraction" },
  layout = { type = "enum", values = { "island", "any" }, default = "island",
    doc = "stages lie side by side in the island's order, or (for comparison with the original alone) anywhere" },
  repair = { type = "boolean", default = false,
    doc = "stages of any size in nodes of any size, idle GPUs, sequence parallelism; ZeRO level and recompute (none, selective, "
      .. "full) chosen for each stage; the successors that memory bears in full; all Pareto-optimal rows, with their sync, in "
      .. "place of one" },
}

local function is_power_of_two(n) return n & (n - 1) == 0 end

--- May a stage have so many GPUs?
local function is_submesh(gpus, island, asked)
  local nodes <const> = gpus // island.gpus_per_node
  if asked.repair then return strategies.lies_well(gpus, 1, island.gpus_per_node) end
  if gpus < island.gpus_per_node then return is_power_of_two(gpus) end
  return gpus % island.gpus_per_node == 0
    and (asked.submeshes == "all" or is_power_of_two(nodes) and (asked.submeshes == "power_of_two" or nodes <= 4))
end

--- Is a way of spreading experts one that the original finds: split over the mesh's second axis, by experts or inside them; or,
--- if the one axis is free, by experts.
local function spreads_experts(s, asked)
  if s.tp == 1 then
    local free <const> = asked.free_mesh and (asked.logical_meshes == "single_node" or asked.logical_meshes == "all")
    return s.ep == 1 or free and s.ep == s.dp
  end
  return s.etp == s.tp and s.ep == 1 or s.etp == 1 and s.ep == s.tp
end

local function is_logical_mesh(s, island, asked)
  local kind <const>, gpus <const> = asked.logical_meshes, s.dp * s.tp
  return (kind ~= "data_parallel" or s.tp == 1) and (kind ~= "model_parallel" or s.dp == 1)
    and (kind ~= "same_as_physical" or s.tp == min(gpus, island.gpus_per_node))
    and (asked.repair or asked.zero < 3 or s.tp == 1)
end

--- The configurations { strategy, mesh (what those that differ in recompute alone share) } of a submesh, tp rising.
local function meshes(gpus, moe, island, ctx)
  local asked <const>, found <const> = ctx.options, {}
  local list <const> = strategies.list(gpus, moe, island, ctx, {
    max_tp = gpus, max_cp = 1, max_ep = gpus, folded_experts = true, fsep = false, selective = false, offload = { "none" },
    zero = asked.repair and { 0, 1, 2, 3 } or { asked.zero },
  })
  for _, s in ipairs(list) do
    if is_logical_mesh(s, island, asked) and (not moe or spreads_experts(s, asked)) then
      for _, recompute in ipairs(asked.repair and { "none", "selective", "full" } or { asked.recompute and "full" or "none" }) do
        local copy <const> = {}
        for name, value in pairs(s) do copy[name] = value end
        copy.recompute, copy.sp = recompute, asked.repair and s.tp > 1
        found[#found + 1] = { strategy = copy, mesh = s }
      end
    end
  end
  return found
end

--- Stages that may stand behind it. The original counts the microbatch of its peak once more, and not what B bounds.
local function max_successors(stage, ctx)
  if ctx.options.repair then
    return ctx.cost.bears(stage, ctx)
  end
  local peak_bytes <const> = stage.static_bytes + stage.transient_bytes + stage.inflight_bytes
  local most <const> = floor((ctx.capacity_bytes - peak_bytes) / max(stage.inflight_bytes, 1e-8)) - 1
  return max(-1, min(most, MOST_SUCCESSORS)) // 1 | 0
end

--- What the slices of an island at one B share: configurations by size, and priced stages by content.
local function new_place(slice, island, ctx)
  local place <const> = { model = slice:of_model(), island = island, meshes = {}, sizes = {}, priced = {}, content = {},
    most_successors = ctx.successors - island.gpus }
  for _, other in ipairs(ctx.islands) do place.most_successors = place.most_successors + other.gpus end
  place.most_successors = max(place.most_successors, ctx.successors)
  for i, atom in ipairs(ctx.atoms) do place.content[i] = atom.hash end
  for gpus = 1, island.gpus do
    if is_submesh(gpus, island, ctx.options) then
      local first <const> = #place.meshes
      local size <const> = { gpus = gpus, dense = {}, moe = {} }
      for _, name in ipairs { "dense", "moe" } do
        for _, mesh in ipairs(meshes(gpus, name == "moe", island, ctx)) do
          place.meshes[#place.meshes + 1] = mesh
          size[name][#size[name] + 1] = #place.meshes
        end
      end
      if #place.meshes > first then place.sizes[#place.sizes + 1] = size end
    end
  end
  return place
end

local function new_table(place, ctx)
  local any <const> = ctx.options.layout == "any"
  return core.partition_table {
    content = place.content, devices = place.island.gpus, node = any and 1 or place.island.gpus_per_node,
    microbatches = ctx.microbatches, most_successors = place.most_successors, most_stages = place.island.gpus,
    idle = ctx.options.repair,
  }
end

--- Is a stage's share of the slice's work near its share of the GPUs?
local function balanced(run, gpus, slice, place, ctx)
  local tolerance <const> = ctx.options.imbalance_tolerance
  if not tolerance then return true end
  local own, all = 0, 0
  for i = slice.first, slice.last do
    local flops <const> = ctx.atoms[i].flops
    all = all + flops
    if i >= run.first and i <= run.last then own = own + flops end
  end
  local work <const>, share <const> = own / all, gpus / place.island.gpus
  return work / (1 + tolerance) <= share and share <= work * (1 + tolerance)
end

local function stage_of(place, number, first, atoms, ctx)
  local key <const> = (number << 12 | first) << 12 | atoms
  local stage = place.priced[key]
  if not stage then
    stage = ctx.cost.stage(place.model:run(first, first + atoms - 1), place.island, place.meshes[number].strategy, ctx)
    place.priced[key] = stage
  end
  return stage
end

--- A run's stages in these configurations, which for one mesh recompute more from one to the next: as much as memory asks for.
local function stages_of(place, numbers, run, ctx)
  local found <const>, most <const> = {}, place.most_successors + place.island.gpus
  local mesh, enough = nil, false
  for _, number in ipairs(numbers) do
    if place.meshes[number].mesh ~= mesh then mesh, enough = place.meshes[number].mesh, false end
    if not enough then
      local stage <const> = stage_of(place, number, run.first, #run, ctx)
      local bears <const> = max_successors(stage, ctx)
      enough = bears >= most
      found[#found + 1] = { time_s = stage.forward_s + stage.backward_s, sync_s = ctx.options.repair and stage.sync_s or 0,
        max_successors = bears, strategy = number, recomputed = 0 }
    end
  end
  return found
end

--- Prices the stages of a run that are not priced yet.
local function price(place, stages, run, slice, ctx)
  local moe <const> = strategies.has_moe(ctx.atoms, run.first, run.last)
  for _, size in ipairs(place.sizes) do
    if not stages:has(run.first, run.last, size.gpus) then
      local numbers <const> = balanced(run, size.gpus, slice, place, ctx) and (moe and size.moe or size.dense) or {}
      stages:set(run.first, run.last, size.gpus, stages_of(place, numbers, run, ctx))
    end
  end
end

--- The original's choice: least Σ t + (B - 1)·max t; of equals the first, which has the fewest stages.
local function best_of(plans, ctx)
  local least_s, best = math.huge, nil
  for _, plan in ipairs(plans) do
    local sum_s, most_s = 0, 0
    for _, stage in ipairs(plan) do
      local time_s <const> = stage.forward_s + stage.backward_s
      sum_s, most_s = sum_s + time_s, max(most_s, time_s)
    end
    local total_s <const> = sum_s + (ctx.microbatches - 1) * most_s
    if total_s < least_s then least_s, best = total_s, plan end
  end
  return { best }
end

return {
  api = 1, kind = "parallelizer", name = "alpa",
  description = "Alpa's inter- and intra-operator parallelism: submeshes, logical meshes, one row of stages (OSDI 2022)",
  options = options,
  supports = function(_, island, ctx)
    if ctx.options.repair or is_power_of_two(island.gpus_per_node) then return true end
    return false, ("Alpa takes nodes of 1, 2, 4, 8, … GPUs, not of %d (option repair lifts that)"):format(island.gpus_per_node)
  end,
  plan = function(slice, island, ctx)
    local place = ctx.memo.place
    if not place or place.most_successors < ctx.successors then
      place = new_place(slice, island, ctx)
      place.table = new_table(place, ctx)
      ctx.memo.place = place
    end
    -- shares of the work are of this slice, so its stages are no other's
    local stages <const> = ctx.options.imbalance_tolerance and new_table(place, ctx) or place.table
    for i = 1, #slice do
      for j = i, #slice do price(place, stages, slice:run(i, j), slice, ctx) end
    end
    local plans <const> = stages:plans(slice.first, slice.last, ctx.successors)
    if #plans == 0 then
      return nil, ("no submeshes cover %d atoms on %d GPUs within memory"):format(#slice, island.gpus)
    end
    for _, plan in ipairs(plans) do
      if plan.idle == 0 then plan.idle = nil end
      for i, one in ipairs(plan) do plan[i] = stage_of(place, one.strategy, one.first, one.atoms, ctx) end
    end
    return ctx.options.repair and plans or best_of(plans, ctx)
  end,
}
