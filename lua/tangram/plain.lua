--- Copies of plain data, for plugins: what one of them does to its copy, no other sees.
local deepest <const> = 32

--- A deep copy without metatables; functions, userdata and the like are kept as they are. Raises for tables nested deeper
--- than anything needs, which those with cycles are. Calls no metamethod.
---@param value any
---@param depth integer?
---@return any
local function plain(value, depth)
  if type(value) ~= "table" then return value end
  depth = (depth or 0) + 1
  if depth > deepest then error("a table nested too deeply, or in itself", 0) end
  local copy <const> = {}
  for key, item in next, value do copy[key] = plain(item, depth) end
  return copy
end

return plain
