--- Functions that never end by themselves, by name: what specs of limits cut, here and in stock Lua.
local endless <const> = {}

local function spin() while true do end end

endless["while"] = spin
endless["for"] = function() for _ = 1, math.maxinteger do end end
endless["repeat"] = function() repeat until false end
endless["goto"] = function()
  ::again::
  goto again
end
endless["calls in tail position"] = function()
  local function f() return f() end
  return f()
end
endless["an iterator in C"] = function() for _ in rawlen, "" do end end
endless["a metamethod"] = function() return setmetatable({}, { __index = spin }).x end
endless["a callback of C"] = function() return ("x"):gsub("x", spin) end
endless["a loop that swallows errors"] = function() while true do pcall(spin) end end
endless["a loop with a handler of errors"] = function() while true do xpcall(spin, function() return nil end) end end
endless["what closes a variable"] = function()
  local _ <close> = setmetatable({}, { __close = spin })
  spin()
end
endless["a coroutine"] = function()
  coroutine.resume(coroutine.create(spin))
  spin()
end
endless["a wrapped coroutine"] = function() coroutine.wrap(spin)() end
endless["a coroutine that yields"] = function()
  for _ in coroutine.wrap(function() while true do coroutine.yield(1) end end) do end
end
endless["a coroutine of a coroutine"] = function()
  coroutine.wrap(function() while true do pcall(coroutine.wrap(spin)) end end)()
end

return endless
