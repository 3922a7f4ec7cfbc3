--- One iteration of the pipeline as SVG: a lane a stage, with its forwards, backwards and sync where the simulation has
--- them. A long iteration is drawn whole in thin lanes, and its first and last microbatches below as boxes.
local axis <const> = require "tangram.report.axis"
local markup <const> = require "tangram.report.markup"

local timeline <const> = {}

local LEFT <const>, WIDTH <const>, RIGHT <const> = 170, 800, 80
local LANE <const>, GAP <const> = 26, 8
local SHOWN <const> = 3 -- microbatches that a part of a cut timeline shows beside those in flight
local MOST_TITLED <const> = 4000 -- boxes; more are drawn as plain outlines, to keep the page small
local CUT <const> = 36

---@class tangram.lane
---@field stage table of tangram.plan/1
---@field operations table[] the stage's own, in order of execution
---@field end_s number end of its last operation, when its sync starts
---@field busy_s number

--- The simulated operations by stage.
---@param plan table tangram.plan/1
---@param operations table[] of core.plan_simulate
---@return tangram.lane[]
function timeline.lanes(plan, operations)
  local lanes <const>, each <const> = {}, 2 * plan.microbatches
  for s, stage in ipairs(plan.stages) do
    local own <const> = table.move(operations, (s - 1) * each + 1, s * each, 1, {})
    local busy_s = stage.sync_s
    for _, one in ipairs(own) do busy_s = busy_s + one.end_s - one.start_s end
    lanes[s] = { stage = stage, operations = own, end_s = own[each].end_s, busy_s = busy_s }
  end
  return lanes
end

--- A stage's name beside its lane or bar.
function timeline.label(s, stage) return markup.short(("stage %d · %s"):format(s, stage.island), 22) end

local function lane_top(s, top, height, gap) return top + (s - 1) * (height + gap) end

local function labels(lanes, time_s, top)
  local out <const> = {}
  for s, lane in ipairs(lanes) do
    out[s] = markup.fill('<text class="label" x="$x" y="$y">$label</text>'
      .. '<text class="tick left" x="$right" y="$y">$idle % idle</text>\n', {
        x = LEFT - 10, y = lane_top(s, top, LANE, GAP) + LANE / 2 + 4.0, label = timeline.label(s, lane.stage),
        right = LEFT + WIDTH + 8, idle = ("%.1f"):format(100 * math.max(0, 1 - lane.busy_s / time_s)),
      })
  end
  return table.concat(out)
end

--- What a lane shows between two times: { from_s, to_s, class, label, title } each.
local function boxes_of(lane, s, from_s, to_s)
  local boxes <const> = {}
  local function add(start_s, end_s, class, label, what)
    if end_s > start_s and end_s > from_s and start_s < to_s then
      boxes[#boxes + 1] = { from_s = math.max(start_s, from_s), to_s = math.min(end_s, to_s), class = class, label = label,
        title = ("stage %d, %s: %.9g to %.9g s"):format(s, what, start_s, end_s) }
    end
  end
  for _, one in ipairs(lane.operations) do
    add(one.start_s, one.end_s, one.backward and "backward" or "forward", ("%d"):format(one.microbatch),
      ("%s of microbatch %d"):format(one.backward and "backward" or "forward", one.microbatch))
  end
  add(lane.end_s, lane.end_s + lane.stage.sync_s, "sync", "sync", "gradient reduction and optimizer")
  return boxes
end

local function titled_boxes(boxes, x_of, top)
  local out <const> = {}
  for i, box in ipairs(boxes) do
    local x <const>, right <const> = x_of(box.from_s), x_of(box.to_s)
    out[i] = markup.fill('<g class="$class"><rect x="$x" y="$y" width="$width" height="$height"><title>$title</title></rect>@text</g>\n', {
      class = box.class, x = x, y = top, width = right - x, height = LANE, title = box.title,
      text = right - x >= 7 * #box.label + 3 and markup.fill('<text x="$x" y="$y">$label</text>', {
        x = (x + right) / 2, y = top + LANE / 2 + 4.0, label = box.label }) or "",
    })
  end
  return table.concat(out)
end

--- One path for each kind of box in a lane.
local function plain_boxes(boxes, x_of, top)
  local paths <const> = { forward = {}, backward = {}, sync = {} }
  for _, box in ipairs(boxes) do
    local list <const>, x <const> = paths[box.class], x_of(box.from_s)
    list[#list + 1] = ("M%s %sv%dH%sv-%dz"):format(markup.number(x), markup.number(top), LANE, markup.number(x_of(box.to_s)), LANE)
  end
  local out <const> = {}
  for _, class in ipairs { "forward", "backward", "sync" } do
    out[#out + 1] = markup.fill('<path class="$class" d="@d"/>\n', { class = class, d = table.concat(paths[class]) })
  end
  return table.concat(out)
end

--- The lanes between two times, from x on.
local function window(lanes, from_s, to_s, x, width, top)
  local out <const>, drawn <const>, count = {}, {}, 0
  local function x_of(time_s) return x + (time_s - from_s) / (to_s - from_s) * width end
  for s, lane in ipairs(lanes) do
    drawn[s] = boxes_of(lane, s, from_s, to_s)
    count = count + #drawn[s]
  end
  for s, boxes in ipairs(drawn) do
    local y <const> = lane_top(s, top, LANE, GAP) + 0.0
    out[#out + 1] = markup.fill('<rect class="lane" x="$x" y="$y" width="$width" height="$height"/>\n', {
      x = x, y = y, width = width, height = LANE })
    out[#out + 1] = (count <= MOST_TITLED and titled_boxes or plain_boxes)(boxes, x_of, y)
  end
  return table.concat(out)
end

--- The axis of a window, and its figures.
local function time_axis(unit, from_s, to_s, x, width, bottom, step)
  return axis.render({ from = from_s / unit.size, to = to_s / unit.size, x = x, width = width }, step, 0, bottom)
end

local function figure(height, title, body)
  return markup.fill('<div class="wide"><svg viewBox="0 0 $width $height" role="img" aria-label="$title">\n@body</svg></div>\n', {
    width = LEFT + WIDTH + RIGHT, height = height, title = title, body = body,
  })
end

local function axis_title(unit, y)
  return markup.fill('<text class="axis" x="$x" y="$y">$unit since the start of the iteration</text>\n', {
    x = LEFT + WIDTH / 2, y = y, unit = unit.name })
end

--- Where to cut: how long the first microbatches take to go through and return, and how long before the end the last ones
--- start; nil if cutting would leave out little.
local function parts_s(lanes, time_s, microbatches)
  local kept <const> = math.min(SHOWN, microbatches)
  local first_s, last_s = 0, 0
  for _, one in ipairs(lanes[1].operations) do
    if one.backward and one.microbatch == kept then first_s = one.end_s end
    if not one.backward and one.microbatch == microbatches - kept + 1 then last_s = time_s - one.start_s end
  end
  if 1.25 * (first_s + last_s) < time_s then return first_s, last_s end
end

local function whole(lanes, time_s)
  local unit <const>, bottom <const> = axis.time_unit(time_s), lane_top(#lanes + 1, 6, LANE, GAP)
  local step <const> = axis.step(time_s / unit.size, 10)
  return figure(bottom + 44, "Timeline of the pipeline", time_axis(unit, 0, time_s, LEFT, WIDTH, bottom, step)
    .. labels(lanes, time_s, 6) .. window(lanes, 0, time_s, LEFT, WIDTH, 6) .. axis_title(unit, bottom + 34))
end

--- First and last part on one scale, with a torn edge between them.
local function cut(lanes, time_s, first_s, last_s)
  local unit <const>, bottom <const> = axis.time_unit(time_s), lane_top(#lanes + 1, 6, LANE, GAP)
  local left <const> = (WIDTH - CUT) * first_s / (first_s + last_s)
  local x <const>, right <const> = LEFT + left + CUT, WIDTH - CUT - left
  local step <const> = axis.step((first_s + last_s) / unit.size, 9)
  local tear <const> = { ("M%s 0"):format(markup.number(LEFT + left + CUT / 2 - 4)) }
  for y = 1, bottom // 8 do tear[y + 1] = (y % 2 == 1 and "l8 8" or "l-8 8") end
  return figure(bottom + 44, "First and last microbatches", labels(lanes, time_s, 6)
    .. time_axis(unit, 0, first_s, LEFT, left, bottom, step) .. window(lanes, 0, first_s, LEFT, left, 6)
    .. time_axis(unit, time_s - last_s, time_s, x, right, bottom, step) .. window(lanes, time_s - last_s, time_s, x, right, 6)
    .. markup.fill('<path class="tear" d="$d"/>\n', { d = table.concat(tear, " ") }) .. axis_title(unit, bottom + 34))
end

--- Work without a gap that could be seen, as one path a lane.
local function thin_lane(lane, s, x_of, top, height)
  local runs <const>, path <const> = {}, {}
  for _, box in ipairs(boxes_of(lane, s, 0, math.huge)) do
    local from <const>, to <const>, last <const> = x_of(box.from_s), x_of(box.to_s), runs[#runs]
    if box.class ~= "sync" and last and from - last.to < 0.25 then
      last.to = to
    elseif box.class ~= "sync" then
      runs[#runs + 1] = { from = from, to = to }
    end
  end
  for i, run in ipairs(runs) do
    path[i] = ("M%s %dv%dH%sv-%dz"):format(markup.number(run.from), top, height, markup.number(run.to), height)
  end
  return markup.fill('<rect class="lane" x="$x" y="$y" width="$width" height="$height"/><path class="busy" d="@path"/>'
    .. '<rect class="sync" x="$from" y="$y" width="$sync" height="$height"/>\n', {
      x = x_of(0), y = top, width = WIDTH, height = height, path = table.concat(path), from = x_of(lane.end_s),
      sync = x_of(lane.stage.sync_s) - x_of(0),
    })
end

local function overview(lanes, time_s)
  local height <const>, gap <const>, out <const> = 9, 3, {}
  local function x_of(t) return LEFT + t / time_s * WIDTH end
  for s, lane in ipairs(lanes) do
    local top <const> = lane_top(s, 4, height, gap)
    out[s] = markup.fill('<text class="label small" x="$x" y="$y">stage $s</text>', { x = LEFT - 10, y = top + height - 1, s = s })
      .. thin_lane(lane, s, x_of, top, height)
  end
  local unit <const>, bottom <const> = axis.time_unit(time_s), lane_top(#lanes + 1, 4, height, gap)
  return figure(bottom + 44, "The whole iteration", time_axis(unit, 0, time_s, LEFT, WIDTH, bottom,
    axis.step(time_s / unit.size, 10)) .. table.concat(out) .. axis_title(unit, bottom + 34))
end

local function legend(items)
  local out <const> = {}
  for i, item in ipairs(items) do
    out[i] = markup.fill('<span class="item"><span class="key $class"></span>$name</span>\n', { class = item[1], name = item[2] })
  end
  return '<p class="legend">' .. table.concat(out) .. "</p>\n"
end

local KEYS <const> = { { "forward", "forward" }, { "backward", "backward" }, { "sync", "gradient reduction and optimizer" },
  { "lane", "waiting" } }
local THIN_KEYS <const> = { { "busy", "forward or backward" }, KEYS[3], KEYS[4] }

--- The timeline's part of the page.
---@param plan table tangram.plan/1
---@param time_s number
---@param operations table[] of core.plan_simulate
---@return string
function timeline.render(plan, time_s, operations)
  local lanes <const> = timeline.lanes(plan, operations)
  local first_s <const>, last_s <const> = parts_s(lanes, time_s, plan.microbatches)
  if not first_s then return legend(KEYS) .. whole(lanes, time_s) end
  return "<h3>The first and the last microbatches</h3>\n" .. legend(KEYS) .. cut(lanes, time_s, first_s, last_s)
    .. "<h3>The whole iteration</h3>\n" .. legend(THIN_KEYS) .. overview(lanes, time_s)
end

return timeline
