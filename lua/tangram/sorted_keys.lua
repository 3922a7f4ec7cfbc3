--- The keys of a table by their letters, so that no output depends on the order of `pairs`.
---@param t table
---@return any[]
return function(t)
  local keys <const> = {}
  for key in next, t do keys[#keys + 1] = key end
  table.sort(keys, function(a, b) return tostring(a) < tostring(b) end)
  return keys
end
