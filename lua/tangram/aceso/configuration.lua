--- A configuration of Aceso's search: stages of consecutive atoms, each with its strategy, at one microbatch size; and what it
--- takes. The search's objective is the paper's: the largest of t_i (N - 1) + sum of t_j over stages, N microbatches, where t_i is
--- a microbatch's forward, backward, recompute and traffic with its neighbours.
local configuration <const> = {}

local max <const> = math.max

---@class tangram.AcesoConfiguration
---@field last integer[] last atom of each stage
---@field choice table[] its strategy (space.choice)
---@field size integer index of the microbatch size
---@field price table[] what space.price says, after measure; as are the following
---@field stage_s number[] a microbatch's time
---@field total_s number the iteration's time, of the worst stage
---@field bytes number of the fullest stage
---@field fits boolean
---@field key string equal configurations have equal ones

--- Does every stage lie in one node or in whole nodes, all GPUs used?
function configuration.lies_well(space, gpus)
  local before = 0
  for _, own in ipairs(gpus) do
    local left <const> = space.gpus_per_node - before % space.gpus_per_node
    if own > left and (left < space.gpus_per_node or own % space.gpus_per_node ~= 0) then return false end
    before = before + own
  end
  return before == space.gpus
end

--- The text that tells configurations apart.
local function key_of(c)
  local ids <const> = { c.size }
  for i, choice in ipairs(c.choice) do
    ids[2 * i], ids[2 * i + 1] = c.last[i], choice.id
  end
  return utf8.char(table.unpack(ids))
end

--- Stages behind stage i in the whole pipeline.
function configuration.behind(space, c, i) return #c.last - i + space.successors end

--- First atom of stage i.
function configuration.first(c, i) return i == 1 and 1 or c.last[i - 1] + 1 end

--- Fills in all that follows from stages and strategies; gives c.
---@return tangram.AcesoConfiguration
function configuration.measure(space, c)
  local price <const>, border_s <const>, per_node <const> = space.price, space.border_s, space.gpus_per_node
  local count <const>, stage_s <const>, prices <const> = #c.last, {}, {}
  local first, before, sum_s, worst_s, bytes = 1, 0, 0, 0, 0
  for i = 1, count do
    local choice <const>, last <const> = c.choice[i], c.last[i]
    local own <const> = price(choice, first, last, count - i + space.successors)
    local behind <const> = before + choice.gpus
    local own_s <const> = own.time_s
      + border_s(choice, first, last, before > 0 and before % per_node == 0, behind % per_node == 0)
    prices[i], stage_s[i] = own, own_s
    sum_s, worst_s, bytes = sum_s + own_s, max(worst_s, own_s), max(bytes, own.bytes)
    first, before = last + 1, behind
  end
  c.price, c.stage_s, c.sum_s, c.worst_s, c.bytes = prices, stage_s, sum_s, worst_s, bytes
  c.total_s = worst_s * (space.microbatches[c.size] - 1) + sum_s
  c.fits = bytes <= space.capacity_bytes
  return c
end

--- A copy, not measured, that may be changed.
function configuration.copy(c)
  local last <const>, choice <const> = {}, {}
  for i = 1, #c.last do last[i], choice[i] = c.last[i], c.choice[i] end
  return { size = c.size, last = last, choice = choice }
end

--- Gives c with its key.
function configuration.keyed(c)
  c.key = c.key or key_of(c)
  return c
end

--- Is a better than b: it fits, and takes less; if none fits, it needs less memory.
function configuration.better(a, b)
  if not b then return true end
  if a.fits ~= b.fits then return a.fits end
  if a.fits then return a.total_s < b.total_s end
  return a.bytes < b.bytes
end

--- The start: atoms shared out evenly, the remainder to the last stage; GPUs doubled in turn; tensor parallelism alone, as far as
--- it goes. Nil if so many stages can't use the GPUs.
---@param stages integer
---@return tangram.AcesoConfiguration?
function configuration.balanced(space, stages)
  local gpus <const>, per_stage <const> = {}, space.count // stages
  if per_stage < 1 then return nil end
  -- where equal stages lie well, doubling finds other numbers of GPUs than powers of two only from there
  local equal <const> = space.any_gpus and space.gpus % stages == 0 and space.gpus // stages or 1
  local left = space.gpus - equal * stages
  for i = 1, stages do gpus[i] = equal end
  local changed = true
  while left > 0 and changed do
    changed = false
    for i = 1, stages do
      if gpus[i] <= left and 2 * gpus[i] <= space.max_stage_gpus then
        left, gpus[i], changed = left - gpus[i], 2 * gpus[i], true
      end
    end
  end
  -- the original does not look whether the start lies well; no plan may leave that rule
  if not configuration.lies_well(space, gpus) then return nil end
  local c <const> = { size = 1, last = {}, choice = {} }
  for i = 1, stages do
    c.last[i] = i < stages and i * per_stage or space.count
    for dp = 1, gpus[i] do
      c.choice[i] = c.choice[i] or gpus[i] % dp == 0 and space.choice(1, gpus[i] // dp, dp) or nil
    end
    if not c.choice[i] then return nil end
  end
  return configuration.measure(space, c)
end

return configuration
