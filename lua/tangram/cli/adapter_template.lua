--- What `tangram adapter new` writes: a small parallelizer that works as it stands, with a word on each part.
return [==[
--- @NAME@: a parallelizer for tangram. It answers one question: how would you run this slice of the model on this island?
---
---   tangram adapter check @NAME@.lua                                      is it right?
---   tangram plan recipes/quickstart.lua --parallelizer ./@NAME@.lua       what does it plan?
local core <const> = require "tangram.core" -- the engine: pareto, partition, bears, …
local strategies <const> = require "tangram.strategies" -- what degrees divide what

--- All stages use one strategy on equally many GPUs; the engine cuts the slice between them, so that the slowest is fastest,
--- and recomputes as many layers as memory asks for.
local function candidates(slice, island, ctx)
  local has_experts <const>, found <const> = strategies.has_moe(ctx.atoms, slice.first, slice.last), {}
  local allowed <const> = {
    max_tp = ctx.options.max_tp, max_cp = 1, max_ep = 64, zero = { 1 }, selective = false, offload = { "none" },
  }
  for stages = 1, math.min(#slice, island.gpus) do
    local gpus <const> = island.gpus // stages -- of each stage; it lies in one node or in whole nodes
    if gpus * stages == island.gpus and strategies.lies_well(gpus, stages, island.gpus_per_node) then
      -- dp · tp · cp = gpus; dp divides ctx.samples (a microbatch), tp the model's heads and widths
      for _, strategy in ipairs(strategies.list(gpus, has_experts, island, ctx, allowed)) do
        -- The cost model's figures of every atom of the model under this strategy. ctx.successors stages stand behind this
        -- slice in the pipeline: each stage holds that many more microbatches' activations.
        local bottleneck_s <const>, latency_s <const>, ends <const>, recomputed <const> =
          ctx.cost.terms(island, strategy, ctx):split(slice.first, slice.last, stages, ctx.successors, true)
        if bottleneck_s then -- else it doesn't fit into ctx.capacity_bytes
          found[#found + 1] = { stages = stages, bottleneck_s = bottleneck_s, latency_s = latency_s, strategy = strategy,
            ends = ends, recomputed = recomputed }
        end
      end
    end
  end
  return found
end

--- A plan is a list of stages, front first. ctx.cost.stage prices one: its atoms, GPUs, times and bytes. Times of your own may
--- be put in their place; then say `own_times = true` below.
local function plan_of(candidate, slice, island, ctx)
  local plan <const>, first = {}, slice.first
  for i, last in ipairs(candidate.ends) do
    local strategy <const> = { recompute = { kind = "full", layers = candidate.recomputed[i] } }
    for name, value in pairs(candidate.strategy) do strategy[name] = strategy[name] or value end
    if candidate.recomputed[i] == 0 then strategy.recompute = "none" end
    local run <const> = slice:run(first - slice.first + 1, last - slice.first + 1) -- counted from the slice's first atom
    plan[i] = ctx.cost.stage(run, island, strategy, ctx)
    first = last + 1
  end
  return plan
end

return {
  api = 1, -- the contract's version
  kind = "parallelizer",
  name = "@NAME@",
  description = "equal stages of one strategy: dp, tp, ep and pp that divide",
  -- Each option is checked and documented from here: tangram adapter show ./@NAME@.lua;
  -- in a recipe: parallelizer = { name = "./@NAME@.lua", options = { max_tp = 4 } }
  options = {
    max_tp = { type = "integer", default = 8, min = 1, doc = "largest tensor-parallel degree" },
  },
  -- Says before planning what it can't do at all (may be left out).
  supports = function(_, island, _)
    if island.gpus >= 1 then return true end
    return false, "an island without GPUs"
  end,
  -- A list of plans, of which none is better than another in everything; or nil and why. Given the same slice content, island,
  -- microbatches and successors it must answer the same: draw chance from ctx.rng, remember in ctx.memo what only saves time.
  -- ctx.log(text) puts a line into the report.
  plan = function(slice, island, ctx)
    local found <const> = candidates(slice, island, ctx)
    if #found == 0 then
      return nil, ("no dp, tp divide %d GPUs and fit, for %d samples"):format(island.gpus, ctx.samples)
    end
    local plans <const> = {}
    for i, one in ipairs(core.pareto(found, { "stages", "bottleneck_s", "latency_s" })) do
      plans[i] = plan_of(one, slice, island, ctx)
    end
    return plans
  end,
}
]==]
