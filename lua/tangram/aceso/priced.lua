--- What Aceso's search asks, answered by the chosen cost model (ctx.cost) for the atoms of a slice on an island at one B. Its
--- operators are atoms, and its greedy recompute is: nothing; else the attention core of all layers, or as many whole layers as
--- needed, whichever is quicker.
local foremost <const> = require "tangram.foremost"
local strategies <const> = require "tangram.strategies"

local priced <const> = {}

local min <const> = math.min

--- Aceso's own space: data and tensor parallelism.
local plain <const> = { max_cp = 1, max_ep = 1, any_cp = false, folded_experts = false, zero = { 0 }, fsep = false, selective = false,
  offload = { "none" } }

local function with_recompute(strategy, recompute)
  local copy <const> = {}
  for name, value in pairs(strategy) do copy[name] = value end
  copy.recompute = recompute
  return copy
end
priced.with_recompute = with_recompute

--- All but tp and dp, so that one degree can change alone.
local function rest_of(s)
  return ("%d,%d,%d,%d,%s,%s"):format(s.cp, s.ep, s.etp, s.zero, s.fsep, s.offload)
end

--- The strategies of so many GPUs, with each kind of recompute or with one, to which others are preferred where memory asks.
function priced.strategies(gpus, moe, island, ctx, options, all_kinds)
  local selective <const> = all_kinds and (not options.repair or options.selective)
  local asked <const> = setmetatable({ max_tp = options.max_tp, selective = selective }, { __index = options.repair and options or plain })
  return strategies.list(gpus, moe, island, ctx, asked)
end

--- The choices of an island at one B, shared by all slices: kept in ctx.memo.
local function catalogue(slice, island, ctx, options)
  local moe <const> = strategies.has_moe(ctx.atoms, slice.first, slice.last)
  local key <const> = moe and "moe" or "dense"
  if ctx.memo[key] then return ctx.memo[key] end
  local made <const> = { by_gpus = {}, count = 0 }

  --- The choices of so many GPUs, and by degrees.
  function made.of(gpus)
    local entry = made.by_gpus[gpus]
    if entry then return entry end
    entry = { list = {}, by_degrees = {} }
    made.by_gpus[gpus] = entry
    for i, strategy in ipairs(priced.strategies(gpus, moe, island, ctx, options, false)) do
      made.count = made.count + 1
      local rest <const> = rest_of(strategy)
      local choice <const> = { id = made.count, gpus = gpus, tp = strategy.tp, dp = strategy.dp, rest = rest, strategy = strategy,
        prices = { [true] = {}, [false] = {} }, doubled = {}, halved = {} }
      entry.list[i], entry.by_degrees[strategy.tp .. "," .. strategy.dp .. "," .. rest] = choice, choice
    end
    return entry
  end
  ctx.memo[key] = made
  return made
end

--- The terms of a choice that recomputes so; made once.
local function terms_of(choice, recompute, island, ctx)
  if not choice[recompute] then choice[recompute] = ctx.cost.terms(island, with_recompute(choice.strategy, recompute), ctx) end
  return choice[recompute]
end

--- One stage under a choice, and what is recomputed: as little as fits or, where memory is ample, nothing.
local function price_of(choice, first, last, behind, ample, island, ctx)
  local whole <const> = terms_of(choice, "none", island, ctx)
  local busy_s <const>, _, kept_bytes <const>, _, kept_fits <const> = whole:price(first, last, behind, false)
  if ample or kept_fits then return { time_s = busy_s, recompute_s = 0, busy_s = busy_s, bytes = kept_bytes, recompute = "none" } end
  local time_s, _, bytes, count <const>, fits <const> = whole:price(first, last, behind, true)
  local recompute = count > 0 and { kind = "full", layers = count } or "none"
  local core_s <const>, _, core_bytes <const>, _, core_fits <const> =
    terms_of(choice, "selective", island, ctx):price(first, last, behind, false)
  if core_fits and (not fits or core_s <= time_s) then time_s, bytes, recompute = core_s, core_bytes, "selective" end
  return { time_s = time_s, recompute_s = time_s - busy_s, busy_s = busy_s, bytes = bytes, recompute = recompute }
end

--- The search's space.
---@param slice tangram.Slice
---@param island tangram.Island
---@param ctx table
---@param options table the adapter's
---@param ample boolean? as if memory were ample and nothing stood behind, whatever there is
---@return table space
function priced.space(slice, island, ctx, options, ample)
  local atoms <const>, offset <const>, samples <const> = ctx.atoms, slice.first - 1, ctx.samples
  local known <const> = catalogue(slice, island, ctx, options)
  ample = ample == true
  local most_behind <const>, power = ctx.microbatches - 1, 1 -- more stages behind hold no more microbatches
  while 2 * power <= min(options.max_stage_gpus, island.gpus_per_node) do power = 2 * power end
  local space <const> = {
    count = #slice, gpus = island.gpus, gpus_per_node = island.gpus_per_node, sizes = { samples }, microbatches = { ctx.microbatches },
    capacity_bytes = ample and math.huge or ctx.capacity_bytes, successors = ample and 0 or ctx.successors, recut_later = ample,
    max_stage_gpus = options.repair and island.gpus or power, any_gpus = options.repair,
  }

  function space.choice(_, tp, dp, like)
    local gpus <const> = tp * dp * (like and like.strategy.cp or 1)
    local entry <const> = known.of(gpus)
    if like then return entry.by_degrees[tp .. "," .. dp .. "," .. like.rest] end
    for _, choice in ipairs(entry.list) do
      if choice.tp == tp and choice.dp == dp then return choice end
    end
  end

  function space.choices(_, gpus) return known.of(gpus).list end

  function space.price(choice, first, last, behind)
    first, last = foremost(first + offset, last + offset, ctx)
    if behind > most_behind then behind = most_behind end
    local key <const> = ((first << 16) | last) << 16 | behind
    local prices <const> = choice.prices[ample]
    local price = prices[key]
    if not price then
      price = price_of(choice, first, last, behind, ample, island, ctx)
      prices[key] = price
    end
    return price
  end

  function space.busy_s(choice, first, last) return space.price(choice, first, last, 0).busy_s end

  --- Latency and a replica's share of what leaves an atom; to other islands nothing, whose links the search does not know.
  local function sends_of(choice)
    local intra <const>, inter <const> = {}, {}
    local intra_bytes_per_s <const> = island:intra_bytes_per_s(2)
    local inter_bytes_per_s <const> = island.inter and island:inter_bytes_per_s(1)
    for i = slice.first - 1, slice.last do
      local bytes <const> = i >= slice.first and i < slice.last and atoms[i].boundary_bytes * samples / choice.dp
      intra[i - offset] = bytes and island.intra_latency_s + bytes / intra_bytes_per_s or 0
      inter[i - offset] = bytes and island.inter and island.inter.latency_s + bytes / inter_bytes_per_s or intra[i - offset]
    end
    return { [false] = intra, [true] = inter }
  end

  local sends <const> = {}
  function space.border_s(choice, first, last, enters_across, leaves_across)
    local own = sends[choice.dp]
    if not own then
      own = sends_of(choice)
      sends[choice.dp] = own
    end
    return own[enters_across][first - 1] + own[leaves_across][last]
  end

  --- The stage as the cost model prices it whole; made once for each price.
  function space.stage(choice, price, first, last)
    if not price.stage then
      price.stage = ctx.cost.stage(slice:run(first, last), island, with_recompute(choice.strategy, price.recompute), ctx)
    end
    return price.stage
  end

  return space
end

return priced
