--- Linear axes of charts: round ticks, and one unit for all of them.
local markup <const> = require "tangram.report.markup"

local axis <const> = {}

--- The round step (1, 2 or 5 times a power of ten) that cuts a range into at most `count` parts.
---@param range number above 0
---@param count integer
---@return number
function axis.step(range, count)
  local power <const> = 10.0 ^ math.floor(math.log(range / count, 10))
  for _, factor in ipairs { 1, 2, 5 } do
    if factor * power * count >= range * (1 - 1e-9) then return factor * power end
  end
  return 10 * power
end

--- Multiples of the step in [from, to].
---@return number[]
function axis.ticks(from, to, step)
  local list <const> = {}
  for k = math.ceil(from / step - 1e-9), math.floor(to / step + 1e-9) do list[#list + 1] = k * step end
  return list
end

--- The unit in which seconds up to `most_s` read well.
---@return { name: string, size: number }
function axis.time_unit(most_s)
  if most_s >= 1 then return { name = "s", size = 1 } end
  if most_s >= 1e-3 then return { name = "ms", size = 1e-3 } end
  return { name = "µs", size = 1e-6 }
end

axis.memory_unit = { name = "GiB", size = 2 ^ 30 }

--- Grid lines with their figures below, between the heights top and bottom.
---@param scale { from: number, to: number, x: number, width: number } the values at the two ends, in the unit
---@param step number
---@param top number
---@param bottom number
---@return string svg
function axis.render(scale, step, top, bottom)
  local lines <const> = {}
  for i, value in ipairs(axis.ticks(scale.from, scale.to, step)) do
    lines[i] = markup.fill('<path class="grid" d="M$x $top V$bottom"/><text class="tick" x="$x" y="$under">$value</text>\n', {
      x = markup.number(scale.x + (value - scale.from) / (scale.to - scale.from) * scale.width),
      top = markup.number(top), bottom = markup.number(bottom), under = markup.number(bottom + 14), value = markup.number(value, 9),
    })
  end
  return table.concat(lines)
end

return axis
