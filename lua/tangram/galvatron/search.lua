--- Galvatron's own search (Hetu-Galvatron, branch main, cea12ff): degrees of pipeline, embedding and workspace are
--- enumerated; each stage's layers choose their strategies by an exact knapsack under its memory, or all alike in mode
--- "uniform"; its own pipeline formula ranks the results. Deterministic: of equals the first.
local core <const> = require "tangram.core"
local costs <const> = require "tangram.galvatron.costs"
local profile <const> = require "tangram.galvatron.profile"
local schema <const> = require "tangram.schema"

local search <const> = {}

local min <const>, max <const>, ceil <const>, floor <const> = math.min, math.max, math.ceil, math.floor
local MiB <const>, GiB <const> = 2.0 ^ 20, 2.0 ^ 30

local MODES <const> = { "tp_only", "sp_only", "tp_with_sp" }

--- Budgets above 20 GiB leave a fifth to the allocator's cache.
local function searched_bytes(budget_bytes)
  if budget_bytes <= 20 * GiB then return budget_bytes end
  return budget_bytes - floor(0.2 * budget_bytes / MiB) * MiB
end

--- Powers of two from low to high.
local function powers(low, high)
  local list <const>, n = {}, 1
  while n <= high do
    if n >= low then list[#list + 1] = n end
    n = n * 2
  end
  return list
end

--- Galvatron counts memory in whole MiB.
local function in_mib(bytes, repair) return repair and bytes or ceil(bytes / MiB) * MiB end

--- May so many replicas share a microbatch? The original asks only that there are enough samples.
local function shares(dp, of)
  local samples <const> = of.global_batch // of.microbatches
  return of.repair and samples % dp == 0 or not of.repair and dp <= samples
end

--- Strategies of a layer (or, without recompute, of embedding and head) on so many GPUs.
---@param of table gpus (of one stage), max_degree, tp, sp (booleans), recompute, sharded (booleans), global_batch, microbatches, repair
---@return tangram.GalvatronStrategy[]
function search.strategies(of)
  local list <const> = {}
  for _, kind in ipairs { "tp", "sp" } do
    for _, t in ipairs(powers(kind == "sp" and 2 or 1, min(of.gpus, of.max_degree))) do
      local dp <const> = of.gpus // t
      if (t == 1 or of[kind]) and shares(dp, of) then
        local alone <const> = dp == 1 and not (of.repair and kind == "sp" and t > 1)
        for variant = 0, 3 do
          local sharded <const>, recompute <const> = variant & 1 == 1, variant & 2 == 2
          if not (sharded and (alone or of.sharded == false)) and not (recompute and of.recompute == false) then
            list[#list + 1] =
              { tp = kind == "tp" and t or 1, sp = kind == "sp" and t or 1, dp = dp, sharded = sharded, recompute = recompute }
          end
        end
      end
    end
  end
  return list
end

local function switches(strategies, priced)
  local rows <const> = {}
  for i, a in ipairs(strategies) do
    rows[i] = {}
    for j, b in ipairs(strategies) do rows[i][j] = i == j and 0 or priced.switch_s(a, b) end
  end
  return rows
end

local function even_stages(layers, stages)
  local list <const> = {}
  for i = 1, stages do list[i] = layers // stages end
  list[stages] = layers - (stages - 1) * (layers // stages)
  return list
end

--- Where embedding and head stand.
local function place_of(stage, stages)
  return stages == 1 and "whole" or stage == 1 and "first" or stage == stages and "last" or nil
end

--- Microbatches in flight; Galvatron does not limit them to those there are.
local function inflight(stage, of)
  if of.stages == 1 then return 1 end
  local behind <const> = of.stages - stage + 1
  return of.repair and min(behind, of.microbatches) or behind
end

local function layer_bytes(s, stage, priced, of)
  return in_mib(priced.layer_states_bytes(s) + priced.layer_kept_bytes(s) * inflight(stage, of), of.repair)
end

--- What a stage holds beside its layers: context, workspace, embedding and head.
local function fixed_bytes(ends, stage, priced, space, of)
  local place <const> = place_of(stage, of.stages)
  local bytes = costs.CONTEXT_BYTES
  if place then
    bytes = bytes + priced.ends_states_bytes(ends, place) + priced.ends_kept_bytes(ends, place) * (stage == 1 and inflight(1, of) or 1)
  end
  return in_mib(bytes, of.repair) + in_mib(space.buffer_bytes, of.repair)
end

--- The knapsack of a stage, for all embedding strategies.
local function knapsack_of(stage, layers, strategies, priced, switch_rows, capacity_bytes, of)
  local time_s <const>, bytes <const>, times <const>, sizes <const> = {}, {}, {}, {}
  for c, s in ipairs(strategies) do
    time_s[c], bytes[c] = priced.layer_s(s, true), layer_bytes(s, stage, priced, of)
  end
  for i = 1, layers do times[i], sizes[i] = time_s, bytes end
  return core.knapsack { time_s = times, bytes = sizes, switch_s = switch_rows, capacity_bytes = capacity_bytes }
end

--- The layers of a stage as (strategy, count) runs.
local function runs_of(choices, strategies)
  local runs <const> = {}
  for _, c in ipairs(choices) do
    local last <const> = runs[#runs]
    if last and last.strategy == strategies[c] then
      last.layers = last.layers + 1
    else
      runs[#runs + 1] = { strategy = strategies[c], layers = 1 }
    end
  end
  return runs
end

--- Iteration seconds by Galvatron's formula.
local function estimate(plan, priced, of)
  local alone_s <const>, last_s <const> = {}, {}
  for i, stage in ipairs(plan.stages) do
    local without_s, with_s = 0, 0
    for _, run in ipairs(stage.runs) do
      without_s = without_s + run.layers * priced.layer_s(run.strategy, false)
      with_s = with_s + run.layers * priced.layer_s(run.strategy, true)
    end
    local place <const> = place_of(i, of.stages)
    alone_s[i], last_s[i] = without_s + (place and priced.ends_s(plan.ends, place, false) or 0), with_s
  end
  return costs.pipeline_s(alone_s, last_s, of.microbatches, of.repair)
end

--- Keeps plan in best if it is strictly quicker.
local function keep(best, plan, priced, of)
  plan.time_s = estimate(plan, priced, of)
  if not best.plan or plan.time_s < best.plan.time_s then best.plan = plan end
end

--- The plan with embedding and head under `ends`, or nil if a stage does not fit.
local function plan_with(ends, knapsacks, priced, space, of)
  local plan <const> = { ends = ends, stages = {} }
  for i, knapsack in ipairs(knapsacks) do
    local fixed <const> = fixed_bytes(ends, i, priced, space, of)
    local seconds <const>, bytes <const>, choices <const> = knapsack:best(space.capacity_bytes - fixed, true)
    if not seconds then return nil end
    plan.stages[i] = { layers = #choices, runs = runs_of(choices, space.strategies), bytes = bytes + fixed }
  end
  return plan
end

local function layerwise(best, space, priced, of)
  local knapsacks <const> = {}
  local switch_rows <const> = switches(space.strategies, priced)
  for i, layers in ipairs(space.division) do
    knapsacks[i] = knapsack_of(i, layers, space.strategies, priced, switch_rows, space.capacity_bytes, of)
  end
  for _, ends in ipairs(space.ends) do
    local plan <const> = plan_with(ends, knapsacks, priced, space, of)
    if plan then keep(best, plan, priced, of) end
  end
end

--- The plan of one strategy for all layers, embedding and head, or nil if a stage does not fit.
local function uniform_plan(s, space, priced, of)
  local plan <const> = { ends = s, stages = {} }
  for i, layers in ipairs(space.division) do
    local bytes <const> = layers * layer_bytes(s, i, priced, of) + fixed_bytes(s, i, priced, space, of)
    if bytes > space.capacity_bytes then return nil end
    plan.stages[i] = { layers = layers, runs = { { strategy = s, layers = layers } }, bytes = bytes }
  end
  return plan
end

local function uniform(best, space, priced, of)
  for _, s in ipairs(space.strategies) do
    local plan <const> = uniform_plan(s, space, priced, of)
    if plan then keep(best, plan, priced, of) end
  end
end

--- All that is tried at one number of stages.
local function try_stages(best, fits, spec, stages)
  local of <const> = setmetatable({ stages = stages, repair = spec.repair }, { __index = spec })
  local priced <const> = costs.new(fits, of)
  local gpus <const>, samples <const> = spec.gpus // stages, spec.global_batch // spec.microbatches
  local most <const> = min(gpus, spec.max_degree)
  for _, mode in ipairs(MODES) do
    for _, buffer_degree in ipairs(powers(max(1, gpus // min(samples, gpus)), most)) do
      local limits <const> = { gpus = gpus, max_degree = buffer_degree, tp = mode ~= "sp_only", sp = mode ~= "tp_only",
        recompute = spec.recompute, global_batch = spec.global_batch, microbatches = spec.microbatches, repair = spec.repair }
      local space <const> = {
        strategies = search.strategies(limits), division = even_stages(spec.layers, stages),
        buffer_bytes = mode == "sp_only" and 0 or priced.buffer_bytes(buffer_degree),
        capacity_bytes = searched_bytes(spec.budget_bytes),
      }
      limits.recompute = false
      space.ends = search.strategies(limits)
      if #space.strategies > 0 then (spec.uniform and uniform or layerwise)(best, space, priced, of) end
    end
  end
end

---@class tangram.GalvatronPlan
---@field time_s number of an iteration, by Galvatron's formula
---@field samples_per_s number
---@field stages table[] { layers, runs = { { strategy, layers } … }, bytes (of the searched part of the budget) }
---@field ends tangram.GalvatronStrategy of embedding and head

local function count(doc, default) return { type = "integer", min = 1, required = not default, default = default, doc = doc } end
local function flag(doc, default) return { type = "boolean", default = default, doc = doc } end

--- What `find` takes.
search.fields = {
  gpus = { type = "integer", min = 1, required = true, doc = "of the whole pipeline", check = function(gpus)
    return gpus & (gpus - 1) ~= 0 and "a power of two" or nil
  end },
  layers = count "of the model", hidden = count "the model's width", seq_len = count "tokens of a sample",
  global_batch = count "samples an iteration", microbatches = count "of an iteration; they divide global_batch",
  budget_bytes = { type = "number", above = 0, required = true, doc = "of a GPU; of more than 20 GiB a fifth is left free" },
  zero = { type = "enum", values = { 0, 2 }, default = 2, doc = "level of layers that are not sharded (default_dp_type: ddp, zero2)" },
  async_reduce = flag("gradients are reduced behind the backward passes", true),
  uniform = flag("one strategy for all layers, embedding and head", false), recompute = flag("layers may be recomputed", true),
  max_stages = count("largest pipeline degree", 1 << 20), max_degree = count("largest tp or Ulysses degree", 1 << 20),
  repair = flag("what tangram.galvatron.costs lists; also whole samples a replica, memory in bytes, no more microbatches in flight than "
    .. "there are, more stages than microbatches", false),
}

--- The best plan of a model on equal GPUs at one number of microbatches. Raises one line for a wrong spec or a profile that does
--- not tell what it takes.
---@param from tangram.GalvatronProfile
---@param spec table search.fields
---@return tangram.GalvatronPlan? nil, why
function search.find(from, spec)
  local full <const> = schema.check(spec, search.fields, "Galvatron's search")
  if full.global_batch % full.microbatches ~= 0 then
    schema.fail("Galvatron's search: microbatches", full.microbatches, ("a divisor of global_batch %d"):format(full.global_batch))
  end
  local fits <const>, best <const> = profile.at(from, full.seq_len), {}
  for _, stages in ipairs(powers(1, min(full.gpus, full.max_stages, full.layers, full.repair and full.gpus or full.microbatches))) do
    try_stages(best, fits, full, stages)
  end
  if not best.plan then
    return nil, ("no plan of %d layers fits %.4g GiB a GPU"):format(full.layers, full.budget_bytes / GiB)
  end
  best.plan.samples_per_s = full.global_batch / best.plan.time_s
  return best.plan
end

return search
