--- Aceso's iterative bottleneck alleviation (EuroSys'24, sections 3 and 4) for one number of stages: from a balanced start, the
--- worst stage is relieved by one primitive or several in a row, each result being the next start. Its clock is replaced by
--- counts, so that the same question has the same answer on every machine.
local configuration <const> = require "tangram.aceso.configuration"
local primitives <const> = require "tangram.aceso.primitives"

local search <const> = {}

local better <const> = configuration.better

local FEWEST <const> = 5 -- evaluations that the smallest slice gets

--- The option fields, for the adapter's schema.
search.options = {
  evaluations = { type = "number", default = 0.4, above = 0,
    doc = "configurations measured for each number of stages: so many for each of the model's atoms; slices their share, or 5" },
  moves = { type = "number", default = 1.2, min = 1, doc = "moves tried for each of them: most lead to what is known" },
  max_trials = { type = "integer", default = 100, min = 1, doc = "trials for each number of stages" },
  patience = { type = "integer", default = 20, min = 1,
    doc = "trials in a row that may bring nothing before a number of stages is given up; slices get their share" },
  max_hops = { type = "integer", default = 7, min = 1, doc = "primitives in a row before one must have helped" },
  pool_factor = { type = "number", default = 1.2, min = 1, doc = "configurations slower than the best by more are not kept to explore" },
  migrations = { type = "integer", default = 5, min = 1, doc = "times that one primitive moves atoms on" },
  repair = { type = "boolean", default = false,
    doc = "more than the original has: trading tp for dp inside a stage, a last polish of the cuts, stages of any GPUs that lie well, "
      .. "the fullest stage gives on where memory is short; also ZeRO, context and expert parallelism or, with `database`, the "
      .. "gradients' all-reduce, the optimizer's step, messages at their own rate, no more microbatches in flight than there are" },
  reuses = { type = "integer", default = 1, min = 0, doc = "times that an explored configuration may be a start again (originally 5)" },
}

local function spent(state)
  return state.evaluated >= state.evaluations or state.explored >= state.options.moves * state.evaluations
end

--- Measures a configuration unless that was done before; nil if it was explored.
local function visit(state, c)
  configuration.keyed(c)
  if state.visited[c.key] then return nil end
  local known <const> = state.known[c.key]
  if known then return known end
  state.evaluated = state.evaluated + 1
  if not c.total_s then configuration.measure(state.space, c) end
  state.known[c.key] = c
  state.seen[#state.seen + 1] = c
  if state.best_s == math.huge or c.total_s < state.options.pool_factor * state.best_s then state.pool[#state.pool + 1] = c end
  return c
end

--- The worst stage not taken for this configuration yet: the fullest if one does not fit, else the slowest.
local function bottleneck(state, c, again)
  local over <const> = not c.fits
  local taken = state.taken[c.key]
  if not taken then
    taken = {}
    state.taken[c.key] = taken
  end
  local found, most
  for i = 1, #c.last do
    local value <const> = over and c.price[i].bytes or c.stage_s[i]
    if (again or not taken[i]) and (not most or value > most) then found, most = i, value end
  end
  if found then taken[found] = true end
  return found, over
end

--- Applies the primitives of a group; their new configurations by time, and the quickest that fits.
local function apply(state, group, c, b, over)
  local list <const> = {}
  local best
  for _, primitive in ipairs(group) do
    if spent(state) then break end
    for _, made in ipairs(primitive.apply(state, c, b, over)) do
      local new <const> = visit(state, made)
      if new then
        list[#list + 1] = new
        new.order = #list
        if new.fits and (not best or new.total_s < best.total_s) then best = new end
      end
    end
  end
  table.sort(list, function(x, y)
    if x.total_s ~= y.total_s then return x.total_s < y.total_s end
    return x.order < y.order
  end)
  return list, best
end

--- Depth first; returns at the first configuration that beats the best of all, else the best seen on the way.
local function multi_hop(state, c, hop, again)
  if hop == state.options.max_hops or spent(state) then return nil end
  state.visited[c.key] = true
  if not again then state.explored_list[c.key] = state.explored_list[c.key] or { c = c, uses = 0, order = state.order } end
  state.order = state.order + 1
  local b <const>, over <const> = bottleneck(state, c, again)
  if not b then return nil end
  local seen = c
  for _, group in ipairs(primitives.groups(state.space, c, b, over, state.options.repair)) do
    local list <const>, best <const> = apply(state, group, c, b, over)
    if best and best.total_s < state.best_s then return best end
    for _, new in ipairs(list) do
      if better(new, seen) then seen = new end
      local deeper <const> = multi_hop(state, new, hop + 1)
      if deeper and deeper.fits and deeper.total_s < state.best_s then return deeper end
      if deeper and better(deeper, seen) then seen = deeper end
    end
  end
  return seen
end

--- One bottleneck after the other, worst first, until one is relieved.
local function trial(state, c, again)
  local seen
  for target = 1, #c.last do
    local found <const> = multi_hop(state, c, 0, again and target == 1)
    if found and found.fits and found.total_s < state.best_s then return found end
    if found and better(found, seen) then seen = found end
  end
  return seen
end

--- The most promising configuration that a primitive made and nobody explored.
local function take_from_pool(state)
  local place, kept = nil, {}
  for _, c in ipairs(state.pool) do
    if not state.visited[c.key] then
      kept[#kept + 1] = c
      if not place or better(c, kept[place]) then place = #kept end
    end
  end
  state.pool = kept
  return place and table.remove(kept, place)
end

--- The most promising explored one, not used too often.
local function take_again(state)
  local found
  for _, entry in pairs(state.explored_list) do
    if entry.uses < state.options.reuses and (not found or better(entry.c, found.c)
      or (not better(found.c, entry.c) and entry.order < found.order)) then
      found = entry
    end
  end
  if not found then return nil end
  found.uses = found.uses + 1
  return found.c
end

--- Moves single cuts by one atom more or less, and by twice as many while that helps, until none does (`repair`).
local function polish(space, c)
  local improved = true
  while improved do
    improved = false
    for i = 1, #c.last - 1 do
      for _, step in ipairs { -1, 1 } do
        local size = step
        repeat
          local new <const> = configuration.copy(c)
          new.last[i] = new.last[i] + size
          local valid <const> = new.last[i] >= configuration.first(c, i) and new.last[i] < c.last[i + 1]
          local helps <const> = valid and better(configuration.measure(space, new), c)
          if helps then c, improved, size = new, true, 2 * size end
        until not helps
      end
    end
  end
  return c
end

--- Searches one number of stages.
---@param space table what is asked (tangram.aceso.operators, tangram.aceso.priced)
---@param stages integer
---@param options table of search.options
---@param atoms integer of the whole model
---@param share number of the whole model's work, by which evaluations and patience are cut
---@return table? best the configuration that takes least, or nil if none fits
---@return table? counts { evaluated, explored, trials, trajectory = { { evaluated, total_s, explored } … }, least = c that fits least
--- badly, seen = all measured, in order }
function search.run(space, stages, options, atoms, share)
  local start <const> = configuration.balanced(space, stages)
  if not start then return nil, nil end
  local function share_of(n, least) return math.max(least, math.ceil(n * share)) end
  local state <const> = {
    space = space, options = options, evaluations = share_of(options.evaluations * atoms, FEWEST), evaluated = 0, explored = 0, order = 0,
    best_s = math.huge,
    visited = {}, known = {}, seen = { start }, taken = {}, pool = {}, explored_list = {},
  }
  local counts <const> = { trajectory = {} }
  local best, least
  local function note(c)
    if not least or better(c, least) then least = c end
    if c.fits and c.total_s < state.best_s then
      state.best_s = c.total_s
      -- the search goes on from c itself: what is polished is hard to leave
      local polished <const> = options.repair and not space.recut_later and polish(space, c) or c
      if better(polished, best) then best = polished end
      counts.trajectory[#counts.trajectory + 1] = { state.evaluated, c.total_s, state.explored }
    end
  end
  local c, again = visit(state, start), false
  note(c)
  local accepted = c
  local trials, idle = 0, 0
  -- where only GPUs are asked for and none can be traded, the start is all there is
  local most_trials <const> = space.recut_later and not primitives.trades(state, c) and 0 or options.max_trials
  while trials < most_trials and idle < share_of(options.patience, 1) and not spent(state) do
    trials, idle = trials + 1, idle + 1
    local new <const> = trial(state, c, again)
    local improves <const> = new and (new.fits and new.total_s < state.best_s or not accepted.fits and new.bytes < accepted.bytes)
    if improves then
      c, accepted, again, idle = new, new, false, 0
      note(new)
    else
      c, again = take_from_pool(state), false
      if not c then c, again = take_again(state), true end
      if not c then break end
    end
  end
  counts.evaluated, counts.explored, counts.trials, counts.least, counts.seen = state.evaluated, state.explored, trials, least, state.seen
  return best, counts
end

return search
