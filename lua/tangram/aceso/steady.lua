--- Answers that more memory or fewer stages behind never make worse. Aceso climbs from one start within a budget, so at the memory
--- there is it may miss what it finds where there is less. Here it climbs as if memory were ample, the same way whatever there
--- is, and of what it saw only the GPUs of each stage are kept: cuts, tp, dp and recompute are then chosen exactly for the memory
--- there is and the stages behind.
local core <const> = require "tangram.core"
local priced <const> = require "tangram.aceso.priced"
local search <const> = require "tangram.aceso.search"

local steady <const> = {}

--- What a stage of so many GPUs may choose from: each choice with some of its layers recomputed whole, or the core of all.
local function ways_of(entry, island, ctx)
  if not entry.ways then
    local ways <const> = {}
    for _, choice in ipairs(entry.list) do
      ways[#ways + 1], ways[#ways + 2] = priced.terms(choice, "none", island, ctx), true
      ways[#ways + 1], ways[#ways + 2] = priced.terms(choice, "selective", island, ctx), false
    end
    entry.ways = ways
  end
  return entry.ways
end

--- The best stages of so many GPUs each: the bottleneck is least, then the sum.
---@param gpus integer[] of each stage
---@param known table priced.catalogue
---@return table? configuration { last, choice, price = { recompute } of each stage, worst_s, total_s }, number? short_bytes
local function cut(gpus, known, slice, island, ctx)
  local ways <const>, offset <const> = {}, slice.first - 1
  for i, count in ipairs(gpus) do ways[i] = ways_of(known.of(count), island, ctx) end
  local worst_s <const>, sum_s <const>, ends <const>, recomputed <const>, chosen <const> =
    core.split(ways, slice.first, slice.last, ctx.successors)
  if not worst_s then return nil, sum_s end
  local c <const> = { last = {}, choice = {}, price = {}, worst_s = worst_s, total_s = worst_s * (ctx.microbatches - 1) + sum_s }
  for i, last in ipairs(ends) do
    local choice <const> = known.of(gpus[i]).list[(chosen[i] + 1) // 2]
    local layers <const> = chosen[i] % 2 == 0 and -1 or recomputed[i] -- of a core nothing is recomputed whole
    local first <const>, foremost <const> = priced.foremost(i > 1 and ends[i - 1] + 1 or slice.first, last, ctx)
    local key <const> = (layers << 16 | first) << 16 | foremost
    -- equal stages share a price, and with it what the cost model says of them
    choice.cut[key] = choice.cut[key]
      or { recompute = layers < 0 and "selective" or layers > 0 and { kind = "full", layers = layers } or "none" }
    c.last[i], c.choice[i], c.price[i] = last - offset, choice, choice.cut[key]
  end
  return c
end

--- How a number of stages is searched.
---@param slice tangram.Slice
---@param island tangram.Island
---@param ctx table
---@return table space whose `stage` prices what is found
---@return fun(stages: integer): table[], number? find configurations, the bytes that the nearest is short if none fits
function steady.finder(slice, island, ctx)
  local options <const> = ctx.options
  local space <const>, known <const> = priced.space(slice, island, ctx, options, true), priced.catalogue(slice, island, ctx, options)
  return space, function(stages)
    local _, counts <const> = search.run(space, stages, options, #ctx.atoms, ctx.budget.share)
    local done <const> = {}
    local best, quickest, short_bytes
    for _, seen in ipairs(counts and counts.seen or {}) do
      local gpus <const> = {}
      for i, choice in ipairs(seen.choice) do gpus[i] = choice.gpus end
      local key <const> = utf8.char(table.unpack(gpus))
      if not done[key] then
        done[key] = true
        local c <const>, short <const> = cut(gpus, known, slice, island, ctx)
        if not c then
          short_bytes = math.min(short_bytes or math.huge, short)
        else
          if not best or c.total_s < best.total_s then best = c end
          if not quickest or c.worst_s < quickest.worst_s then quickest = c end
        end
      end
    end
    return { best, quickest ~= best and quickest or nil }, short_bytes
  end
end

return steady
