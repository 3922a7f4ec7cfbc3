--- Stacked horizontal bars on one axis: a row a stage, a segment a part.
local axis <const> = require "tangram.report.axis"
local markup <const> = require "tangram.report.markup"

local bars <const> = {}

local LEFT <const>, WIDTH <const>, RIGHT <const> = 170, 690, 190
local ROW <const>, GAP <const>, TOP <const> = 22, 10, 6

---@class tangram.bar
---@field label string
---@field values number[] in the unit, one for each part
---@field note string? at the right
---@field limit number? a line across the bar

local function longest(rows)
  local most = 0
  for _, row in ipairs(rows) do
    local sum = 0
    for _, value in ipairs(row.values) do sum = sum + value end
    most = math.max(most, sum, row.limit or 0)
  end
  return most > 0 and most or 1
end

local function segments(row, parts, x_of, y, unit)
  local out <const>, from = {}, 0
  for p, part in ipairs(parts) do
    local value <const> = row.values[p]
    if value > 0 then
      out[#out + 1] = markup.fill('<rect class="part k$k" x="$x" y="$y" width="$width" height="$height"><title>$title</title></rect>', {
        k = part.key, x = x_of(from), y = y, width = x_of(from + value) - x_of(from), height = ROW,
        title = ("%s, %s: %.6g %s"):format(row.label, part.name, value, unit),
      })
      from = from + value
    end
  end
  return table.concat(out)
end

local function bar(row, parts, x_of, y, unit)
  return markup.fill('<text class="label" x="$x" y="$base">$label</text>@segments@limit'
    .. '<text class="tick left" x="$right" y="$base">$note</text>\n', {
    x = LEFT - 10, base = y + ROW / 2 + 4.0, label = row.label, segments = segments(row, parts, x_of, y + 0.0, unit),
    limit = row.limit and markup.fill('<path class="limit" d="M$x $y v$height"/>', {
      x = x_of(row.limit) + 0.0, y = y - 3, height = ROW + 6 }) or "",
    right = LEFT + WIDTH + 10, note = row.note or "",
  })
end

---@param parts { name: string, key: integer }[] key: the number of its colour
---@param limit string? what the line across a bar is
---@return string
function bars.legend(parts, limit)
  local out <const> = {}
  for p, part in ipairs(parts) do
    out[p] = markup.fill('<span class="item"><span class="key k$key"></span>$name</span>', part)
  end
  if limit then out[#out + 1] = markup.fill('<span class="item"><span class="key line"></span>$limit</span>', { limit = limit }) end
  return '<p class="legend">' .. table.concat(out, "\n") .. "</p>\n"
end

--- A chart with its legend; the axis starts at 0.
---@param chart { title: string, axis: string, unit: string, limit: string?, parts: table[], rows: tangram.bar[] }
---@return string
function bars.render(chart)
  local most <const> = longest(chart.rows)
  local step <const> = axis.step(most, 8)
  local bottom <const> = TOP + #chart.rows * (ROW + GAP)
  local function x_of(value) return LEFT + value / most * WIDTH end
  local out <const> = { axis.render({ from = 0, to = most, x = LEFT, width = WIDTH }, step, 0, bottom) }
  for r, row in ipairs(chart.rows) do
    out[#out + 1] = bar(row, chart.parts, x_of, TOP + (r - 1) * (ROW + GAP), chart.unit)
  end
  out[#out + 1] = markup.fill('<text class="axis" x="$x" y="$y">$text</text>\n', {
    x = LEFT + WIDTH / 2, y = bottom + 34, text = chart.axis })
  return bars.legend(chart.parts, chart.limit)
    .. markup.fill('<div class="wide"><svg viewBox="0 0 $width $height" role="img" aria-label="$title">\n@body</svg></div>\n', {
      width = LEFT + WIDTH + RIGHT, height = bottom + 44, title = chart.title, body = table.concat(out),
    })
end

return bars
