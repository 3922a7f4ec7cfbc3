--- Random composition instances for specs, as Lua tables; each seed gives another kind of trouble: limits that bind,
--- starving links, equal times, equal islands, large syncs, few microbatches.
local core <const> = require "tangram.core"

local instances <const> = {}

local null <const> = core.null
local array_type <const> = getmetatable(core.json_decode "[]")
local function array(list) return setmetatable(list, array_type) end

--- A generator of its own, so that the instances don't depend on how else math.random is used.
---@return fun(least: number?, most: number?): number as math.random
function instances.random(seed)
  local state = seed * 2654435769 + 12345
  local function bits()
    state = state * 6364136223846793005 + 1442695040888963407
    return (state ~ (state >> 29)) >> 11
  end
  for _ = 1, 4 do bits() end
  return function(least, most)
    if not least then return bits() / 2.0 ^ 53 end
    return least + bits() % (most - least + 1)
  end
end

---@class instance_limits
---@field atoms integer?
---@field islands integer?
---@field plans integer? at most
---@field stages integer? a plan at most
---@field microbatches integer?
---@field unlike boolean? no islands with equal plans and links
---@field classes boolean? several link classes an island

---@param seed integer
---@param limits instance_limits?
function instances.make(seed, limits)
  limits = limits or {}
  local random <const> = instances.random(seed)
  local atoms <const> = random(1, limits.atoms or 7)
  local islands <const> = random(1, limits.islands or 3)
  local microbatches <const> = random(0, 1) == 0 and random(1, 6) or random(1, limits.microbatches or 40)
  local draw <const> = random(0, 3)
  local function time() -- whole numbers make ties, zeros touch the edges
    if draw == 0 then return random(1, 3) end
    if draw == 1 then return random(0, 4) end
    if draw == 2 then return 1 end
    return 0.2 + 2 * random()
  end
  local slow <const> = ({ 0.01, 0.3, 2, 8 })[random(1, 4)]
  local sync <const> = ({ 0, 0, 1, 20 })[random(1, 4)]
  local held <const> = random(0, 2)
  local alike <const> = islands > 1 and random(0, 3) == 0 and not limits.unlike
  local instance <const> = {
    format = "tangram.instance/1", atoms = atoms, microbatches = microbatches,
    boundary_bytes = array {}, islands = {}, links = {}, plans = {},
  }
  for i = 1, atoms - 1 do instance.boundary_bytes[i] = random(0, 4) == 0 and random(0, 2) or 1 + random() end
  for i = 1, islands do instance.islands[i] = "i" .. i end
  local class_island <const> = {}
  for i = 0, islands - 1 do
    for _ = 1, limits.classes and random(1, 2) or 1 do class_island[#class_island + 1] = i end
  end
  if limits.classes then instance.class_island = class_island end
  local same <const> = { latency_s = 0.1 * slow * random(), bytes_per_s = 1 / (slow * (0.1 + random())) }
  for i, a in ipairs(class_island) do
    instance.links[i] = {}
    for j, b in ipairs(class_island) do
      if a == b then
        instance.links[i][j] = null
      elseif alike then
        instance.links[i][j] = same
      elseif random(0, 19) == 0 then
        instance.links[i][j] = null
      else
        instance.links[i][j] = { latency_s = 0.1 * slow * random(), bytes_per_s = 1 / (slow * (0.1 + random())) }
      end
    end
  end
  local function plan(island, first, last)
    local stages <const>, inner <const> = {}, {}
    for s = 1, random(1, limits.stages or 3) do
      local stage <const> = { forward_s = time(), backward_s = time(), sync_s = sync * random() }
      if held == 1 then stage.max_inflight = random(1, 6) elseif held == 2 then stage.max_inflight = null end
      stages[s] = stage
      inner[s - 1] = s > 1 and slow * random(0, 2) * random() or nil
    end
    local result <const> = {
      island = island, first = first, last = last, gpus = random(1, 8), stages = stages, inner_transfer_s = array { table.unpack(inner) },
      max_successors = random(0, 2) == 0 and random(0, 5) or null,
      min_successors = limits.classes and random(0, 5) == 0 and random(0, 3) or nil,
    }
    if limits.classes then
      local own <const> = {}
      for c, i in ipairs(class_island) do
        if i == island then own[#own + 1] = c - 1 end
      end
      result.front_class, result.rear_class = own[random(1, #own)], own[random(1, #own)]
    end
    return result
  end
  local count <const> = random(1, limits.plans or 24)
  for _ = 1, count do
    local first = random(0, 2) == 0 and 0 or random(0, atoms - 1)
    local last = random(0, 2) == 0 and atoms or random(first + 1, atoms)
    if random(0, 1) == 0 then -- cuts at the same places make many sequences
      first = first // 3 * 3
      if last % 3 ~= 0 and (last // 3 + 1) * 3 <= atoms then last = (last // 3 + 1) * 3 end
    end
    if alike then
      local one <const> = plan(0, first, last)
      for i = 0, islands - 1 do
        local copy <const> = {}
        for k, v in pairs(one) do copy[k] = v end
        copy.island = i
        copy.front_class, copy.rear_class = nil, nil
        instance.plans[#instance.plans + 1] = copy
      end
    else
      instance.plans[#instance.plans + 1] = plan(random(0, islands - 1), first, last)
    end
  end
  return instance
end

return instances
