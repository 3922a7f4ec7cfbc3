--- The paper's unbalanced policy: a slice's share of the model's work must be near its island's share of the speed. Not safe:
--- the band presumes that all islands work and run equally well; `bounded` drops as much where it can prove the loss.
return {
  api = 1, kind = "prune", name = "unbalanced", safe = false,
  description = "keeps slices whose share of the work is within a band around the island's share of the speed",
  options = {
    tolerance = { type = "number", default = 1, above = 0,
      doc = "work share over speed share lies within 1/(1 + tolerance) and 1 + tolerance" },
  },
  keep = function(pair, ctx)
    local slice <const>, island <const> = pair.slice, pair.island
    if #slice == #ctx.atoms then return true end -- an island alone is always worth a plan
    local memo <const> = ctx.memo
    if not memo.work then
      memo.work, memo.speed = { [0] = 0 }, 0
      for i, atom in ipairs(ctx.atoms) do memo.work[i] = memo.work[i - 1] + atom.flops end
      for _, one in ipairs(ctx.islands) do memo.speed = memo.speed + one.gpus * one.compute_flops end
    end
    local work <const> = (memo.work[slice.last] - memo.work[slice.first - 1]) / memo.work[#ctx.atoms]
    local speed <const> = island.gpus * island.compute_flops / memo.speed
    local band <const> = 1 + ctx.options.tolerance
    if work * band >= speed and work <= speed * band then return true end
    return false, ("%.0f %% of the work, %.0f %% of the speed"):format(100 * work, 100 * speed)
  end,
}
