--- Atoms first..last, or where they start the run of equal atoms that they stand in: the same stage, wherever it lies.
---@param first integer
---@param last integer
---@param ctx table the first of each run is kept in its memo
---@return integer first, integer last
return function(first, last, ctx)
  local starts = ctx.memo.starts
  if not starts then
    starts = {}
    local atoms <const> = ctx.atoms
    for i = 1, #atoms do starts[i] = i > 1 and atoms[i].hash == atoms[i - 1].hash and starts[i - 1] or i end
    ctx.memo.starts = starts
  end
  local start <const> = starts[last]
  if start <= first then return start, last - first + start end
  return first, last
end
