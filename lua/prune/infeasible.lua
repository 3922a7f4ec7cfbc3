--- Drops a pair whose atoms exceed the island's memory even with every atom under the strategy that needs least of it: states
--- sharded over all GPUs of its stage, all layers recomputed. (Degrees need no test: stages of one GPU always divide.)
---
--- A stage on d GPUs fits only if static + k·inflight ≤ capacity on its fullest GPU, with k = min(successors + 1, B) microbatches
--- in flight at least. Times d, summed over a plan's stages: Σ_a min d·(static_a + k·inflight_a) ≤ G·(capacity − what every stage
--- adds). A pair that breaks this has no plan, whatever the adapter.
local floors <const> = require "tangram.floors"

local kinds <const> = { "none", "optimizer", "activations", "both" }

return {
  api = 1, kind = "prune", name = "infeasible", safe = true, by_cost = true,
  description = "drops slices that do not fit their island even fully sharded and recomputed",
  options = {
    offload = { type = "list", item = { type = "enum", values = kinds }, default = kinds,
      doc = "what adapters may offload; {'none'} drops more, and is safe only if they do not" },
  },
  keep = function(pair, ctx)
    if not ctx.cost.additive then return true end
    local slice <const>, island <const> = pair.slice, pair.island
    local inflight <const> = math.min((ctx.successors or 0) + 1, ctx.microbatches)
    local floor = ctx.memo[inflight]
    if not floor then
      floor = {}
      floor.sums, floor.stage_bytes = floors.memory(island, ctx, inflight, ctx.options.offload)
      ctx.memo[inflight] = floor
    end
    local sums <const> = floor.sums
    -- A stage with both ends of a tied model holds their weights once, so the head counts nothing there.
    local last <const> = ctx.model.tied and slice.has_embedding and slice.has_head and slice.last - 1 or slice.last
    local needed <const>, room <const> = sums[last] - sums[slice.first - 1], island.gpus * (ctx.capacity_bytes - floor.stage_bytes)
    if needed * (1 - 1e-9) <= room then return true end
    return false, ("needs at least %.2f GiB of the island's %.2f GiB"):format(needed / 2 ^ 30, math.max(0, room) / 2 ^ 30)
  end,
}
