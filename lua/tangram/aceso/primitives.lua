--- The moves of Aceso's search (EuroSys'24, section 3): each takes a configuration and the stage to relieve and gives changed
--- configurations, not measured. What may be recomputed is not a move: prices choose it anew for each stage.
local configuration <const> = require "tangram.aceso.configuration"

local primitives <const> = {}

local first_of <const>, behind_of <const> = configuration.first, configuration.behind

--- A stage's time with both neighbours in its node: what moves are judged by before the result is measured.
local function predicted_s(space, choice, first, last, behind)
  return space.price(choice, first, last, behind).time_s + space.border_s(choice, first, last, false, false)
end

--- Stage's time with its atoms on one GPU, traffic included.
local function alone_s(space, c, i)
  local alone <const>, first <const> = space.choice(c.size, 1, 1), first_of(c, i)
  return alone and space.busy_s(alone, first, c.last[i]) + space.border_s(alone, first, c.last[i], false, false) or 0
end

--- How long a stage could work more before it is the slowest, or recomputes so much that it is.
local function idle_s(space, c, i, worst_s)
  local room_s <const> = (worst_s - c.stage_s[i]) * (space.microbatches[c.size] - 1)
  if c.price[i].recompute_s > 0 then return room_s / 2 end
  local total_s <const> = c.stage_s[i] * (space.microbatches[c.size] - 1) + c.sum_s
  local fill_s <const> = total_s * (space.capacity_bytes - c.price[i].bytes) / c.price[i].bytes
  return fill_s > room_s and room_s or fill_s + (room_s - fill_s) / 2
end

--- The stage that takes atoms from b: for time the one with most slack, for memory the emptiest.
local function partner_of(space, c, b, by_memory, used)
  local best, found
  for i = 1, #c.last do
    if i ~= b and not used[i] then
      local value
      if by_memory then
        value = -c.price[i].bytes
      else
        local gpus <const> = c.choice[i].gpus
        value = idle_s(space, c, i, c.worst_s) * gpus * (alone_s(space, c, i) / (c.stage_s[i] * gpus))
      end
      if not best or value > best then best, found = value, i end
    end
  end
  return found
end

--- The fewest atoms to take off stage first..last at its end toward the partner, so that it comes below the goal; nil if no
--- number leaves one atom and does.
local function fewest(space, choice, first, last, behind, forward, goal, by_memory)
  local count <const> = last - first
  local from = 0
  if not by_memory then -- below this many, the time is above the goal even with nothing recomputed or sent
    local low, high = 0, count + 1
    while low < high do
      local m <const> = (low + high) // 2
      local shorter_s <const> = m <= count
        and space.busy_s(choice, forward and first or first + m, forward and last - m or last) or -1
      if shorter_s < goal then high = m else low = m + 1 end
    end
    from = low
  end
  for m = from, count do
    local i <const>, j <const> = forward and first or first + m, forward and last - m or last
    local value <const> = by_memory and space.price(choice, i, j, behind).bytes or predicted_s(space, choice, i, j, behind)
    if value < goal then return m end
  end
  return nil
end

--- Walks from b to its partner and hands atoms on until every stage on the way is below the goal. Nil if one can't be.
local function hand_on(space, c, b, partner, goal, by_memory)
  local new <const>, forward <const> = configuration.copy(c), partner > b
  local step <const> = forward and 1 or -1
  local last <const> = new.last
  for i = b, partner - step, step do
    local m <const> = fewest(space, new.choice[i], first_of(new, i), last[i], behind_of(space, new, i), forward, goal, by_memory)
    if not m then return nil end
    if forward then last[i] = last[i] - m else last[i - 1] = last[i - 1] + m end
  end
  local first <const> = first_of(new, partner)
  local choice <const>, behind <const> = new.choice[partner], behind_of(space, new, partner)
  local value <const> = by_memory and space.price(choice, first, last[partner], behind).bytes
    or predicted_s(space, choice, first, last[partner], behind)
  return value < goal and new or nil
end

local function slowest(c)
  local found = 1
  for i = 2, #c.last do
    if c.stage_s[i] > c.stage_s[found] then found = i end
  end
  return found
end

--- The paper's op migration: moves atoms from b toward a partner, then from the new worst stage toward another, a few times.
--- Each result counts.
local function dec_op(state, c, b, over)
  local space <const>, found <const>, used <const> = state.space, {}, {}
  for step = 1, state.options.migrations do
    if step > 1 then b = slowest(c) end
    local partner <const> = partner_of(space, c, b, over, used)
    if not partner then break end
    used[partner] = true
    local gap_s <const> = c.price[b].time_s - c.price[partner].time_s
    local moved
    for _, share in ipairs(over and { 0 } or { 0.4, 0.2, 0 }) do
      state.explored = state.explored + 1
      local goal <const> = over and space.capacity_bytes or c.price[b].time_s - share * gap_s
      moved = hand_on(space, c, b, partner, goal, over)
      if moved then break end
    end
    if not moved then break end
    c = configuration.measure(space, moved)
    found[#found + 1] = c
  end
  return found
end

--- The strategy with tp or dp times a factor (2 or 1/2); nil where there is none.
local function scaled(space, choice, dimension, up)
  local tp, dp = choice.tp, choice.dp
  if dimension == "tp" then tp = up and 2 * tp or tp / 2 else dp = up and 2 * dp or dp / 2 end
  tp, dp = math.tointeger(tp), math.tointeger(dp)
  if not tp or not dp or up and 2 * choice.gpus > space.max_stage_gpus then return nil end
  return space.choice(choice.size, tp, dp, choice)
end

--- The ways of the stages not in `used` to change by a factor, and at most `most` GPUs, quickest first.
local function ways(space, c, used, up, most)
  local list <const> = {}
  for i = 1, #c.last do
    local change <const> = up and c.choice[i].gpus or c.choice[i].gpus // 2
    if not used[i] and change <= most and (up or c.choice[i].gpus > 1) then
      for _, dimension in ipairs { "tp", "dp" } do
        local choice <const> = scaled(space, c.choice[i], dimension, up)
        if choice then
          list[#list + 1] = { stage = i, choice = choice, change = change, order = #list,
            time_s = predicted_s(space, choice, first_of(c, i), c.last[i], behind_of(space, c, i)) }
        end
      end
    end
  end
  table.sort(list, function(x, y)
    if x.time_s ~= y.time_s then return x.time_s < y.time_s end
    return x.order < y.order
  end)
  return list
end

--- Changes further stages, quickest first, until `left` GPUs are given away (up) or found. False if that can't be.
local function settle(space, new, used, up, left)
  while left > 0 do
    local way <const> = ways(space, new, used, up, left)[1]
    if not way then return false end
    new.choice[way.stage], used[way.stage] = way.choice, true
    left = left - way.change
  end
  return true
end

local function gpus_of(c)
  local list <const> = {}
  for i, choice in ipairs(c.choice) do list[i] = choice.gpus end
  return list
end

--- b doubles (up) or halves a dimension; other stages give or take its GPUs.
local function resize(state, c, b, dimension, up)
  local space <const>, stages <const> = state.space, #c.last
  local own <const> = scaled(space, c.choice[b], dimension, up)
  if stages == 1 or not own or own.gpus > space.gpus - (stages - 1) then return {} end
  local needed <const> = math.abs(own.gpus - c.choice[b].gpus)
  local tried <const>, attempts = {}, 0
  for _, way in ipairs(ways(space, c, { [b] = true }, not up, math.huge)) do
    if not tried[way.stage] then
      tried[way.stage], attempts = true, attempts + 1
      if attempts > stages - 1 then break end
      state.explored = state.explored + 1
      local new <const>, used <const> = configuration.copy(c), { [b] = true, [way.stage] = true }
      new.choice[b], new.choice[way.stage] = own, way.choice
      local missing <const> = needed - way.change
      -- too few: more like it; too many: others the other way round
      local settled <const> = missing >= 0 and settle(space, new, used, not up, missing) or missing < 0
        and settle(space, new, used, up, -missing)
      if settled and configuration.lies_well(space, gpus_of(new)) then return { new } end
    end
  end
  return {}
end

--- Another microbatch size: each stage chooses its uniform strategy anew. Where the size is given, only that.
local function other_size(state, c, step)
  local space <const> = state.space
  local size <const> = #space.sizes == 1 and 1 or c.size + step
  if size < 1 or size > #space.sizes then return {} end
  state.explored = state.explored + 1
  local new <const> = configuration.copy(c)
  new.size = size
  for i = 1, #c.last do
    local best, found
    for _, choice in ipairs(space.choices(size, c.choice[i].gpus)) do
      local first <const>, last <const>, behind <const> = first_of(c, i), c.last[i], behind_of(space, c, i)
      local bytes <const> = space.price(choice, first, last, behind).bytes
      -- milliseconds of GPUs and, if it does not fit, ten times its MiB: Aceso's own sum
      local value <const> = 1e3 * predicted_s(space, choice, first, last, behind) * choice.gpus
        + (bytes > space.capacity_bytes and 10 * bytes / 2 ^ 20 or 0)
      if not best or value < best then best, found = value, choice end
    end
    if not found then return {} end
    new.choice[i] = found
  end
  return { new }
end

--- Trades one dimension of b for the other (the original's two optional primitives).
local function exchange(state, c, b, from, to)
  local half <const> = scaled(state.space, c.choice[b], from, false)
  local choice <const> = half and scaled(state.space, half, to, true)
  if not choice then return {} end
  state.explored = state.explored + 1
  local new <const> = configuration.copy(c)
  new.choice[b] = choice
  return { new }
end

--- The seven, and two that only `repair` uses, with what each does to the stage: "-" less, "+" more, "0" neither.
primitives.list = {
  { name = "dec_op", time = "-", memory = "-", comm = "0", apply = dec_op },
  { name = "inc_dp", time = "-", memory = "-", comm = "+", apply = function(state, c, b) return resize(state, c, b, "dp", true) end },
  { name = "dec_dp", time = "+", memory = "+", comm = "-", apply = function(state, c, b) return resize(state, c, b, "dp", false) end },
  { name = "inc_tp", time = "-", memory = "-", comm = "+", apply = function(state, c, b) return resize(state, c, b, "tp", true) end },
  { name = "dec_tp", time = "+", memory = "+", comm = "-", apply = function(state, c, b) return resize(state, c, b, "tp", false) end },
  { name = "inc_mbs", time = "-", memory = "+", comm = "0", apply = function(state, c) return other_size(state, c, 1) end },
  { name = "dec_mbs", time = "+", memory = "-", comm = "0", apply = function(state, c) return other_size(state, c, -1) end },
  { name = "inc_tp_dec_dp", time = "+", memory = "-", comm = "+", repair = true,
    apply = function(state, c, b) return exchange(state, c, b, "dp", "tp") end },
  { name = "inc_dp_dec_tp", time = "-", memory = "+", comm = "-", repair = true,
    apply = function(state, c, b) return exchange(state, c, b, "tp", "dp") end },
}

--- What the seconds of each stage go to: work, what parallelism costs, recompute.
local function resources(space, c)
  local ideal <const>, loss <const>, again <const> = {}, {}, {}
  for i = 1, #c.last do
    local alone <const> = space.choice(c.size, 1, 1)
    ideal[i] = (alone and space.busy_s(alone, first_of(c, i), c.last[i]) or c.price[i].busy_s) / c.choice[i].gpus
    loss[i] = c.price[i].busy_s - ideal[i]
    again[i] = c.price[i].recompute_s
  end
  return ideal, loss, again
end

local function sum(list)
  local total = 0
  for _, x in ipairs(list) do total = total + x end
  return total
end

--- Groups of primitives for stage b, the most promising first: by what b spends more of than its share.
---@param over boolean some stage does not fit
---@param repair boolean? with the two that the original leaves off
---@return table[][] groups
function primitives.groups(space, c, b, over, repair)
  local taken <const>, groups <const> = {}, {}
  --- Those that use less of a resource, and no more of two that b is short of; nil: of none.
  local function group(less, spared, spared_too)
    local list <const> = {}
    for i, one in ipairs(primitives.list) do
      if not taken[i] and (repair or not one.repair) and (not less or one[less] == "-") and (not spared or one[spared] ~= "+")
          and (not spared_too or one[spared_too] ~= "+") then
        taken[i] = true
        list[#list + 1] = one
      end
    end
    if #list > 0 then groups[#groups + 1] = list end
  end
  if over then
    group "memory"
    return groups
  end
  local ideal <const>, loss <const>, again <const> = resources(space, c)
  local ideal_s <const>, loss_s <const>, again_s <const> = sum(ideal), sum(loss), sum(again)
  local function ratio(x_s, all_s) return x_s > 0 and x_s / all_s or 0 end
  local time <const> = ideal[b] > ideal_s / #ideal and "time"
  local comm <const> = loss[b] > loss_s / #loss and "comm"
  local memory <const> = again[b] > 0 and "memory"
  local orders <const> = {
    { ratio(ideal[b], ideal_s), 1, "time", comm, memory }, { ratio(loss[b], loss_s), 2, "comm", time, memory },
    { ratio(again[b], again_s), 3, "memory", time, comm },
  }
  table.sort(orders, function(x, y)
    if x[1] ~= y[1] then return x[1] > y[1] end
    return x[2] < y[2]
  end)
  for _, order in ipairs(orders) do
    group(order[3], order[4], order[5])
    group(order[3])
  end
  group()
  return groups
end

return primitives
