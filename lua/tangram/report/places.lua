--- Who is where: the model cut into stages, and the islands with the stage of each GPU.
local machines <const> = require "tangram.report.machines"
local markup <const> = require "tangram.report.markup"
local words <const> = require "tangram.report.words"

local places <const> = {}

--- Neighbours among the stages differ in shade; the number says which it is.
local function shade(stage) return stage % 2 == 0 and "even" or "odd" end

--- The model's atoms from front to rear, each stage a box as wide as its share of them.
---@param plan table tangram.plan/1
---@return string
function places.model(plan)
  local width <const>, atoms <const>, out <const> = 1050, plan.stages[#plan.stages].last, {}
  for s, stage in ipairs(plan.stages) do
    local x <const>, right <const> = stage.first / atoms * width, stage.last / atoms * width
    local label = ("%d: %s"):format(s, words.layers(stage))
    if right - x < 7 * #label then label = tostring(s) end
    out[s] = markup.fill('<g class="$class"><rect x="$x" y="0" width="$width" height="34"><title>$title</title></rect>@text</g>\n', {
      class = shade(s), x = x, width = right - x,
      title = ("stage %d on %s: %s"):format(s, stage.island, words.layers_text(stage)),
      text = right - x >= 7 * #label and markup.fill('<text x="$x" y="21">$label</text>', { x = (x + right) / 2, label = label }) or "",
    })
  end
  return markup.fill('<div class="wide"><svg viewBox="0 0 $width 36" role="img" aria-label="Stages of the model">\n@boxes</svg></div>\n', {
    width = width, boxes = table.concat(out),
  })
end

--- stage_of[machine][index], from 0
local function stages_by_gpu(plan)
  local stage_of <const> = {}
  for s, stage in ipairs(plan.stages) do
    for _, one in ipairs(stage.gpus) do
      stage_of[one.node] = stage_of[one.node] or {}
      for _, index in ipairs(one.indices) do stage_of[one.node][index] = s end
    end
  end
  return stage_of
end

local function node_card(name, part, stage_of)
  local machine <const>, gpus <const> = part.machine, {}
  for index = part.first, part.last do
    local stage <const> = (stage_of[machine] or {})[index]
    gpus[#gpus + 1] = markup.fill('<span class="gpu $class" title="$title">$label</span>', {
      class = stage and shade(stage) or "idle", label = stage or "–",
      title = stage and ("GPU %d of %s: stage %d"):format(index, machine, stage) or ("GPU %d of %s: idle"):format(index, machine),
    })
  end
  return markup.fill('<div class="node">$name<div class="gpus">@gpus</div></div>\n', { name = name, gpus = table.concat(gpus) })
end

local function stage_lines(plan, island)
  local lines <const> = {}
  for s, stage in ipairs(plan.stages) do
    if stage.island == island.name then
      lines[#lines + 1] = markup.fill("<div>stage $s: $layers on $gpus</div>\n", {
        s = s, layers = words.layers_text(stage), gpus = words.gpus(stage) })
    end
  end
  return table.concat(lines)
end

local function island_card(plan, island, find, stage_of)
  local nodes <const> = {}
  for n, name in ipairs(island.nodes) do nodes[n] = node_card(name, find(name), stage_of) end
  local count <const> = #island.nodes
  return markup.fill('<div class="island $class"><h3>$name@merged</h3>\n<div class="soft">$nodes of $gpu; $used</div>\n'
    .. '<div class="nodes">\n@cards</div>\n<div class="soft">@stages</div></div>\n', {
      class = island.used and "used" or "unused", name = island.name,
      merged = island.merged and ' <span class="soft">(merged: its slowest GPU stands for all)</span>' or "",
      nodes = ("%d node%s"):format(count, count == 1 and "" or "s"), gpu = machines.text(find(island.nodes[1])),
      used = not island.used and "left out" or (island.idle or 0) > 0 and ("in use, %d idle"):format(island.idle) or "in use",
      cards = table.concat(nodes), stages = stage_lines(plan, island),
    })
end

---@param plan table tangram.plan/1
---@return string
function places.islands(plan)
  local find <const>, stage_of <const>, out <const> = machines.finder(plan), stages_by_gpu(plan), {}
  for i, island in ipairs(plan.islands) do out[i] = island_card(plan, island, find, stage_of) end
  return '<div class="islands">\n' .. table.concat(out) .. "</div>\n"
end

--- Why the islands are apart, folded away if it is long.
---@param plan table tangram.plan/1
---@return string
function places.apart(plan)
  local items <const> = {}
  for i, line in ipairs(words.apart(plan)) do items[i] = markup.fill("<li>$line</li>\n", { line = line }) end
  if #items == 0 then return "" end
  return markup.fill('<details@open><summary>Why the islands are apart</summary>\n<ul>\n@items</ul></details>\n', {
    open = #items <= 12 and ' open="open"' or "", items = table.concat(items) })
end

--- GPUs in use, and all that the islands have.
---@return integer, integer
function places.count(plan)
  local find <const>, used, all = machines.finder(plan), 0, 0
  for _, stage in ipairs(plan.stages) do
    for _, one in ipairs(stage.gpus) do used = used + #one.indices end
  end
  for _, island in ipairs(plan.islands) do
    for _, name in ipairs(island.nodes) do
      local part <const> = find(name)
      all = all + part.last - part.first + 1
    end
  end
  return used, all
end

return places
