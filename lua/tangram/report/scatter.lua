--- Predicted over measured times as one self-contained page: a chart on logarithmic axes and the figures of each group.
local markup <const> = require "tangram.report.markup"
local style <const> = require "tangram.report.style"

local scatter <const> = {}

local SIZE <const>, LEFT <const>, TOP <const> = 560, 70, 20
local COLOURS <const> = 10
local SHAPES <const> = { "M-4,0a4,4 0 1,0 8,0a4,4 0 1,0 -8,0", "M-4,-4h8v8h-8z", "M0,-5L5,4H-5z" }

--- Whole powers of ten around all values.
local function range_of(points)
  local low, high = math.huge, -math.huge
  for _, p in ipairs(points) do low, high = math.min(low, p.x, p.y), math.max(high, p.x, p.y) end
  local from <const> = math.floor(math.log(low, 10))
  return from, math.max(from + 1, math.ceil(math.log(high, 10) - 1e-9))
end

local function grid(from, to, place)
  local lines <const> = {}
  for power = from, to do
    local at <const> = place(10.0 ^ power)
    lines[#lines + 1] = markup.fill('<path class="grid" d="M$x $top V$bottom M$left $y H$right"/><text class="tick" x="$x" y="$under">'
      .. '$value</text><text class="label" x="$before" y="$beside">$value</text>\n', {
      x = LEFT + at, top = TOP, bottom = TOP + SIZE, left = LEFT, right = LEFT + SIZE, y = TOP + SIZE - at, under = TOP + SIZE + 16,
      before = LEFT - 8, beside = TOP + SIZE - at + 4, value = ("%g"):format(10.0 ^ power),
    })
  end
  return table.concat(lines)
end

--- The line on which predictions are `factor` times what is measured.
local function diagonal(factor, class, low, high, place)
  local x1 <const>, x2 <const> = math.max(low, low / factor), math.min(high, high / factor)
  return markup.fill('<path class="$class" d="M$a $b L$c $d"/>\n', {
    class = class, a = LEFT + place(x1), b = TOP + SIZE - place(x1 * factor), c = LEFT + place(x2), d = TOP + SIZE - place(x2 * factor),
  })
end

local function dots(points, place)
  local list <const> = {}
  for i, p in ipairs(points) do
    list[i] = markup.fill('<path class="k$colour" d="@shape" transform="translate($x $y)"><title>$text</title></path>\n', {
      colour = (p.group - 1) % COLOURS + 1, shape = SHAPES[(p.group - 1) // COLOURS % #SHAPES + 1],
      x = LEFT + place(p.x), y = TOP + SIZE - place(p.y),
      text = ("%s: measured %.4g s, predicted %.4g s (%+.1f %%)"):format(p.id, p.x, p.y, 100 * (p.y / p.x - 1)),
    })
  end
  return table.concat(list)
end

local function chart(points)
  local from <const>, to <const> = range_of(points)
  local function place(value) return (math.log(value, 10) - from) / (to - from) * SIZE end
  local low <const>, high <const> = 10.0 ^ from, 10.0 ^ to
  return markup.fill('<div class="wide"><svg viewBox="0 0 $width $height" role="img" aria-label="predicted over measured seconds">\n'
    .. '@grid@exact@above@below@dots<text class="axis" x="$middle" y="$under">measured, s</text>'
    .. '<text class="axis" transform="translate(16 $centre) rotate(-90)">predicted, s</text>\n</svg></div>\n', {
    width = LEFT + SIZE + 20, height = TOP + SIZE + 46, grid = grid(from, to, place), exact = diagonal(1, "tear", low, high, place),
    above = diagonal(1.1, "grid", low, high, place), below = diagonal(1 / 1.1, "grid", low, high, place), dots = dots(points, place),
    middle = LEFT + SIZE // 2, under = TOP + SIZE + 38, centre = TOP + SIZE // 2,
  })
end

local function percent(x) return ("%.1f %%"):format(100 * x) end

local function figures(groups, field)
  local lines <const> = { { "", "rows", "MAPE", "median", "p90", "bias", "Spearman", "worst", "of row" } }
  for _, group in ipairs(groups) do
    local e <const> = group[field]
    if e then
      lines[#lines + 1] = { group.name, tostring(e.count), percent(e.mape), percent(e.median), percent(e.p90), percent(e.bias),
        e.spearman and ("%.3f"):format(e.spearman) or "–", percent(e.worst.error), e.worst.id }
    end
  end
  return #lines > 1 and markup.grid(lines, { right = { 2, 3, 4, 5, 6, 7, 8 } }) or nil
end

local function legend(groups)
  local items <const> = {}
  for g, group in ipairs(groups) do
    if group.time then
      items[#items + 1] = markup.fill('<span class="item"><span class="key k$colour"></span>$name</span>', {
        colour = (g - 1) % COLOURS + 1, name = group.name })
    end
  end
  return '<p class="legend">' .. table.concat(items, " ") .. "</p>\n"
end

local function left_out(result)
  local items <const> = {}
  for _, row in ipairs(result.rows) do
    local why <const> = row.reason and "not expressed: " .. row.reason or row.suspect and "suspect, not counted: " .. row.suspect
    if why then items[#items + 1] = markup.fill("<li>$id: $why</li>\n", { id = row.id, why = why }) end
  end
  return items[1] and '<h2>Rows that no figure counts</h2>\n<ul>\n' .. table.concat(items) .. "</ul>\n" or ""
end

--- The page of a validation.
---@param result table of `tangram.validate`
---@param by string what its groups are
---@return string html
function scatter.page(result, by)
  local index <const>, points <const> = {}, {}
  for g, group in ipairs(result.groups) do index[group.name] = g end
  for _, row in ipairs(result.rows) do
    if row.predicted_s and row.measured_s and not row.suspect and not row.reason then
      points[#points + 1] = { id = row.id, x = row.measured_s, y = row.predicted_s, group = index[row.group] }
    end
  end
  local memory <const> = figures(result.groups, "memory")
  return markup.fill('<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n<title>Predicted and measured</title>\n'
    .. "<style>\n@style</style>\n</head>\n<body>\n<h1>Predicted and measured</h1>\n@body</body>\n</html>\n", {
    style = style,
    body = table.concat {
      markup.fill('<p class="soft">$count rows; thin lines are 10 % off</p>\n', { count = #points }),
      points[1] and chart(points) .. legend(result.groups) or "", markup.fill("<h2>Time by $by</h2>\n", { by = by }),
      figures(result.groups, "time") or "<p>No row with a measured time is predicted.</p>\n",
      memory and markup.fill("<h2>Memory by $by</h2>\n", { by = by }) .. memory or "", left_out(result),
    },
  })
end

return scatter
