--- Drops a pair when no sequence that holds it can beat what is known. Its bound lies under the bottleneck (largest
--- forward + backward of a stage) of every such sequence, whatever the adapter, so nothing is lost.
---
--- Let G_h be the GPUs of island h, t_a(d) the least time of atom a on d GPUs of it, c[a][h] = min_d d·t_a(d) / G_h, and b the
--- bottleneck of a sequence. A stage s on d_s GPUs of h takes Σ_{a in s} t_a(d_s) ≤ b. Times d_s, summed over the plan's stages:
--- Σ_a c[a][h]·G_h ≤ Σ_s d_s·b ≤ G_h·b, so (1) Σ_a c[a][h] ≤ b over the atoms of the plan on h. With at most one stage an atom,
--- (2) Σ_a min_d t_a(d) ≤ n·b for a slice of n atoms. What a stage adds at least comes on top of both: they are means over stages.
---
--- The atoms outside the slice are done by other islands, each of them used once or not at all. Let A_h be island h's atoms and
--- λ_h ≥ 0 with Σ_h λ_h = 1 over the islands but this one. By (1), b = Σ_h λ_h·b ≥ Σ_h λ_h·Σ_{a in A_h} c[a][h]
--- ≥ (3) Σ_{a outside} min_h λ_h·c[a][h], whichever islands take which atoms. λ_h in proportion to h's speed makes all terms of
--- the minimum alike, and (3) the time of the rest spread over the other islands without loss.
local floors <const> = require "tangram.floors"

--- Differences of sums may be off by their rounding.
local ROUNDED <const> = 1 - 1e-9

--- For one island: the floors there, and sums of (3) over the model's atoms.
local function tables(island, ctx)
  if ctx.memo.own then return ctx.memo end
  local others <const>, stage_s = {}, floors.time(island, ctx).stage_s
  local speed = 0
  for _, other in ipairs(ctx.islands) do
    local on <const> = floors.time(other, ctx)
    stage_s = math.min(stage_s, on.stage_s)
    if other.index ~= island.index then
      local whole_s <const> = on.share_s[#ctx.atoms]
      if whole_s < math.huge then -- a target may leave an island without any stage
        others[#others + 1] = { share_s = on.share_s, weight = 1 / whole_s }
        speed = speed + 1 / whole_s
      end
    end
  end
  local rest_s <const> = { [0] = 0 }
  for i = 1, #ctx.atoms do
    local least = math.huge
    for _, one in ipairs(others) do
      least = math.min(least, one.weight / speed * (one.share_s[i] - one.share_s[i - 1]))
    end
    rest_s[i] = rest_s[i - 1] + least
  end
  ctx.memo.own, ctx.memo.rest_s, ctx.memo.stage_s, ctx.memo.alone = floors.time(island, ctx), rest_s, stage_s, #others == 0
  return ctx.memo
end

return {
  api = 1, kind = "prune", name = "bounded", safe = true, by_cost = true,
  description = "drops what cannot beat the best plan known: a lower bound on the bottleneck of all sequences with the pair",
  options = {},
  --- Seconds; 0, which drops nothing, under a cost model that prices whole stages: then nothing is proved.
  bound = function(pair, ctx)
    if not ctx.cost.additive then return 0 end
    local slice <const>, at <const> = pair.slice, tables(pair.island, ctx)
    local before <const>, last <const>, count <const> = slice.first - 1, slice.last, #ctx.atoms
    if at.alone and (before > 0 or last < count) then return math.huge end
    local own <const>, rest_s <const> = at.own, at.rest_s
    if own.share_s[count] == math.huge then return math.huge end
    local own_s <const> = own.stage_s + math.max(own.share_s[last] - own.share_s[before],
      (own.busy_s[last] - own.busy_s[before]) / (last - before))
    local others_s <const> = at.alone and 0 or at.stage_s + rest_s[before] + rest_s[count] - rest_s[last]
    return math.max(own_s, others_s) * ROUNDED
  end,
}
