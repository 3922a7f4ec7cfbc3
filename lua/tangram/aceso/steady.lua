--- Answers that more memory or fewer stages behind never make worse. Aceso climbs from one start within a budget, so at the memory
--- there is it may miss what it finds where there is less. Here it climbs as if memory were ample, the same way whatever there
--- is, and of what it saw only the GPUs of each stage are kept: cuts, tp, dp and recompute are then chosen exactly for the memory
--- there is and the stages behind.
local core <const> = require "tangram.core"
local foremost <const> = require "tangram.foremost"
local priced <const> = require "tangram.aceso.priced"
local search <const> = require "tangram.aceso.search"
local strategies <const> = require "tangram.strategies"

local steady <const> = {}

--- What stages of so many GPUs may choose from: for the engine, and with what each has of its own. The same for all slices of an
--- island at one B.
local function ways_of(gpus, moe, island, ctx)
  local key <const> = moe and -gpus or gpus
  if not ctx.memo[key] then
    local known <const> = { engine = {} }
    for i, strategy in ipairs(priced.strategies(gpus, moe, island, ctx, ctx.options, true)) do
      known[i] = { strategy = strategy, prices = {} }
      known.engine[2 * i - 1] = ctx.cost.terms(island, strategy, ctx)
      known.engine[2 * i] = strategies.may_recompute(strategy, ctx)
    end
    ctx.memo[key] = known
  end
  return ctx.memo[key]
end

--- The best stages of so many GPUs each: the bottleneck is least, then the sum.
---@param gpus integer[] of each stage
---@return table? configuration { last, choice = { strategy }, price = { recompute } of each stage, worst_s, total_s }
---@return number? short_bytes
local function cut(gpus, slice, island, ctx)
  local known <const>, engine <const>, moe <const> = {}, {}, strategies.has_moe(ctx.atoms, slice.first, slice.last)
  for i, count in ipairs(gpus) do
    known[i] = ways_of(count, moe, island, ctx)
    engine[i] = known[i].engine
    if #engine[i] == 0 then return nil, nil end
  end
  local worst_s <const>, sum_s <const>, ends <const>, recomputed <const>, chosen <const> =
    core.split(engine, slice.first, slice.last, ctx.successors)
  if not worst_s then return nil, sum_s end
  local c <const> = { last = {}, choice = {}, price = {}, worst_s = worst_s, total_s = worst_s * (ctx.microbatches - 1) + sum_s }
  for i, last in ipairs(ends) do
    local way <const>, layers <const> = known[i][chosen[i]], recomputed[i]
    local first_there <const>, last_there <const> = foremost(i > 1 and ends[i - 1] + 1 or slice.first, last, ctx)
    local key <const> = (layers << 16 | first_there) << 16 | last_there
    -- equal stages share a price, and with it what the cost model says of them
    way.prices[key] = way.prices[key] or { recompute = layers > 0 and { kind = "full", layers = layers } or way.strategy.recompute }
    c.last[i], c.choice[i], c.price[i] = last - slice.first + 1, way, way.prices[key]
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
  local space <const> = priced.space(slice, island, ctx, options, true)
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
        local c <const>, short <const> = cut(gpus, slice, island, ctx)
        if not c then
          short_bytes = short and math.min(short_bytes or math.huge, short) or short_bytes
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
