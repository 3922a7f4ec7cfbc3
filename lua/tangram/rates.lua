--- Rates as people and files write them, and as the engine takes them: a list of { size, bytes_per_s }, sizes ascending.
local catalog <const> = require "tangram.catalog"
local units <const> = require "tangram.units"

local rates <const> = {}

local function one_rate(value)
  local rate, expected = units.bytes_per_s(value)
  if not rate and type(value) == "string" then rate = catalog.link_rate(value) end
  if not rate or rate <= 0 then return nil, (expected or "bytes per second above 0") .. ", or a link such as 'ib-hdr'" end
  return rate
end

--- A list of { size, bytes_per_s } from a number, text, or a table by size; sizes may be keys of JSON ("2") or Lua (2).
---@param value number|string|table
---@return table? steps
---@return string? expected
function rates.to_steps(value)
  if type(value) ~= "table" then
    local rate <const>, expected <const> = one_rate(value)
    return rate and { { 1, rate } }, expected
  end
  local steps <const> = {}
  for key, one in pairs(value) do
    local size <const> = math.tointeger(tonumber(key))
    local rate <const>, expected <const> = one_rate(one)
    if not size or size < 1 then return nil, "sizes of at least 1 as keys of the table, { [2] = '253 GB/s', [4] = '44 GB/s' }" end
    if not rate then return nil, ("at size %d %s"):format(size, expected) end
    steps[#steps + 1] = { size, rate }
  end
  if not steps[1] then return nil, "a rate, or rates by size" end
  table.sort(steps, function(a, b) return a[1] < b[1] end)
  for i = 2, #steps do
    if steps[i][1] == steps[i - 1][1] then return nil, ("size %d once"):format(steps[i][1]) end
  end
  return steps
end

--- The same as a file has it: one number, or a table with text as keys.
---@param steps table
---@return number|table
function rates.from_steps(steps)
  if #steps == 1 then return steps[1][2] end
  local by_size <const> = {}
  for _, step in ipairs(steps) do by_size[("%d"):format(step[1])] = step[2] end
  return by_size
end

return rates
