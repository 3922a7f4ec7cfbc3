--- The divisors of n up to `most`, ascending.
---@param n integer
---@param most integer? n
---@return integer[]
return function(n, most)
  local small <const>, large <const> = {}, {}
  for d = 1, math.floor(n ^ 0.5) do
    if n % d == 0 then
      small[#small + 1] = d
      if d * d < n then large[#large + 1] = n // d end
    end
  end
  for i = #large, 1, -1 do small[#small + 1] = large[i] end
  while most and #small > 0 and small[#small] > most do small[#small] = nil end
  return small
end
