--- The moves of Aceso's search (EuroSys'24, section 3): each takes a configuration and the stage to relieve and gives changed
--- configurations, not measured. What may be recomputed is not a move: prices choose it anew for each stage.
local configuration <const> = require "tangram.aceso.configuration"

local primitives <const> = {}

local first_of <const>, behind_of <const> = configuration.first, configuration.behind

--- A stage's time with both neighbours in its node: what moves are judged by before the result is measured.
local function predicted_s(space, choice, first, last, behind)
  return space.price(choice, first, last, behind).time_s + space.border_s(choice, first, last, false, false)
end

--- Each stage's time with its atoms on one GPU, traffic included; worked out once.
local function alone_s(space, c)
  if c.alone_s then return c.alone_s end
  local alone <const>, list <const> = space.choice(c.size, 1, 1), {}
  for i, last in ipairs(c.last) do
    local first <const> = first_of(c, i)
    list[i] = alone and space.busy_s(alone, first, last) + space.border_s(alone, first, last, false, false) or 0
  end
  c.alone_s = list
  return list
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
        value = idle_s(space, c, i, c.worst_s) * gpus * (alone_s(space, c)[i] / (c.stage_s[i] * gpus))
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

--- The worst stage: the slowest; the fullest where memory is short (`repair`), for which the original takes the slowest too.
local function worst(c, by_memory)
  local found = 1
  for i = 2, #c.last do
    local more <const> = by_memory and c.price[i].bytes > c.price[found].bytes or not by_memory and c.stage_s[i] > c.stage_s[found]
    if more then found = i end
  end
  return found
end

--- The paper's op migration: moves atoms from b toward a partner, then from the new worst stage toward another, a few times.
--- Each result counts.
local function dec_op(state, c, b, over)
  local space <const>, found <const>, used <const> = state.space, {}, {}
  for step = 1, state.options.migrations do
    if step > 1 then b = worst(c, over and state.options.repair) end
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

local function find_scaled(space, choice, dimension, up)
  local tp, dp = choice.tp, choice.dp
  if dimension == "tp" then tp = up and 2 * tp or tp / 2 else dp = up and 2 * dp or dp / 2 end
  tp, dp = math.tointeger(tp), math.tointeger(dp)
  if not tp or not dp or up and 2 * choice.gpus > space.max_stage_gpus then return nil end
  return space.choice(choice.size, tp, dp, choice)
end

--- The strategy with tp or dp times a factor (2 or 1/2); nil where there is none. Found once.
local function scaled(space, choice, dimension, up)
  local known <const> = up and choice.doubled or choice.halved
  local found = known[dimension]
  if found == nil then
    found = find_scaled(space, choice, dimension, up) or false
    known[dimension] = found
  end
  return found or nil
end

local dimensions <const> = { "tp", "dp" }

--- The ways of the stages to change by a factor, quickest first; worked out once.
local function ways(space, c, up)
  local known <const> = up and c.ways_up or not up and c.ways_down
  if known then return known end
  local list <const> = {}
  for i = 1, #c.last do
    local change <const> = up and c.choice[i].gpus or c.choice[i].gpus // 2
    if up or c.choice[i].gpus > 1 then
      for _, dimension in ipairs(dimensions) do
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
  if up then c.ways_up = list else c.ways_down = list end
  return list
end

--- The quickest way of a stage that is not in `used`, by at most `most` GPUs.
local function quickest(list, used, most)
  for _, way in ipairs(list) do
    if not used[way.stage] and way.change <= most then return way end
  end
end

--- Changes further stages of c, quickest first, until `left` GPUs are given away (up) or found. False if that can't be.
local function settle(space, c, new, used, up, left)
  while left > 0 do
    local way <const> = quickest(ways(space, c, up), used, left)
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
  for _, way in ipairs(ways(space, c, not up)) do
    if way.stage ~= b and not tried[way.stage] then
      tried[way.stage], attempts = true, attempts + 1
      if attempts > stages - 1 then break end
      state.explored = state.explored + 1
      local new <const>, used <const> = configuration.copy(c), { [b] = true, [way.stage] = true }
      new.choice[b], new.choice[way.stage] = own, way.choice
      local missing <const> = needed - way.change
      -- too few: more like it; too many: others the other way round
      local settled <const> = missing >= 0 and settle(space, c, new, used, not up, missing) or missing < 0
        and settle(space, c, new, used, up, -missing)
      if settled and configuration.lies_well(space, gpus_of(new)) then return { new } end
    end
  end
  return {}
end

--- Can any stage of c trade GPUs with others?
function primitives.trades(state, c)
  for b = 1, #c.last do
    for _, dimension in ipairs(dimensions) do
      for _, up in ipairs { true, false } do
        if #resize(state, c, b, dimension, up) > 0 then return true end
      end
    end
  end
  return false
end

--- The uniform strategy of so many GPUs for a stage that costs least: milliseconds of GPUs and, if it does not fit, ten times its
--- MiB, Aceso's own sum.
local function uniform(space, size, gpus, first, last, behind)
  local best, found
  for _, choice in ipairs(space.choices(size, gpus)) do
    local bytes <const> = space.price(choice, first, last, behind).bytes
    local value <const> = 1e3 * predicted_s(space, choice, first, last, behind) * choice.gpus
      + (bytes > space.capacity_bytes and 10 * bytes / 2 ^ 20 or 0)
    if not best or value < best then best, found = value, choice end
  end
  return found
end

--- Another microbatch size: each stage chooses its uniform strategy anew. Where the size is given, only that.
local function other_size(state, c, step)
  local space <const> = state.space
  local size <const> = #space.sizes == 1 and 1 or c.size + step
  if size < 1 or size > #space.sizes then return {} end
  state.explored = state.explored + 1
  if size == c.size and c.uniform then return c.uniform end
  local new <const> = configuration.copy(c)
  new.size = size
  for i = 1, #c.last do
    new.choice[i] = uniform(space, size, c.choice[i].gpus, first_of(c, i), c.last[i], behind_of(space, c, i))
    if not new.choice[i] then return {} end
  end
  if size == c.size then c.uniform = { new } end
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

--- Seconds of all stages and of stage b: of work, of what parallelism costs, of recompute.
local function resources(space, c, b)
  local alone <const> = space.choice(c.size, 1, 1)
  local all <const>, own = { 0, 0, 0 }, nil
  for i = 1, #c.last do
    local busy_s <const>, again_s <const> = c.price[i].busy_s, c.price[i].recompute_s
    local ideal_s <const> = (alone and space.busy_s(alone, first_of(c, i), c.last[i]) or busy_s) / c.choice[i].gpus
    all[1], all[2], all[3] = all[1] + ideal_s, all[2] + (busy_s - ideal_s), all[3] + again_s
    if i == b then own = { ideal_s, busy_s - ideal_s, again_s } end
  end
  return all, own
end

--- The primitives in groups: for each resource in order those that use less of it, before the others those that use no more of
--- what the stage is short of; then the rest.
local function group_all(order, short, repair)
  local taken <const>, groups <const> = {}, {}
  local function group(less, spared)
    local list <const> = {}
    for _, one in ipairs(primitives.list) do
      local fits = not taken[one] and (repair or not one.repair) and (not less or one[less] == "-")
      for _, resource in ipairs(spared) do fits = fits and one[resource] ~= "+" end
      if fits then
        taken[one] = true
        list[#list + 1] = one
      end
    end
    if #list > 0 then groups[#groups + 1] = list end
  end
  for _, resource in ipairs(order) do
    group(resource, short)
    group(resource, {})
  end
  group(nil, {})
  return groups
end

local resource_names <const> = { "time", "comm", "memory" }
local known_groups <const> = {}

--- Groups by what there is most and least of, and by what the stage is short of; made once for each case.
local function groups_by(most, least, short, repair)
  local bits = repair and 1 or 0
  for i = 1, 3 do bits = bits << 1 | (short[i] and 1 or 0) end
  local key <const> = (bits << 2 | most) << 2 | least
  if not known_groups[key] then
    local order <const>, names <const> = {}, {}
    for i, resource in ipairs { most, 6 - most - least, least } do order[i] = resource_names[resource] end
    for i = 1, 3 do names[#names + 1] = short[i] and resource_names[i] or nil end
    known_groups[key] = group_all(order, names, repair)
  end
  return known_groups[key]
end

--- Groups of primitives for stage b, the most promising first: by what b spends more of than its share.
---@param over boolean some stage does not fit
---@param repair boolean? with the two that the original leaves off
---@return table[][] groups
function primitives.groups(space, c, b, over, repair)
  if over then
    local key <const> = repair and -1 or -2
    known_groups[key] = known_groups[key] or { group_all({ "memory" }, {}, repair)[1] }
    return known_groups[key]
  end
  local all <const>, own <const> = resources(space, c, b)
  local ratio <const>, short <const> = {}, {}
  for i = 1, 3 do
    ratio[i] = own[i] > 0 and own[i] / all[i] or 0
    short[i] = own[i] > (i < 3 and all[i] / #c.last or 0)
  end
  local most, least = 1, 3
  for i = 2, 3 do most = ratio[i] > ratio[most] and i or most end
  for i = 2, 1, -1 do least = ratio[i] < ratio[least] and i or least end
  return groups_by(most, least, short, repair)
end

return primitives
