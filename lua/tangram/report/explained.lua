--- Where a stage's seconds and bytes go: each term with its share, the formula behind it, and the constants that it rests on.
local fields <const> = require "tangram.report.fields"
local grid <const> = require "tangram.report.grid"
local terms <const> = require "tangram.formulas.terms"
local units <const> = require "tangram.units"
local words <const> = require "tangram.report.words"

local explained <const> = {}

local LEAST <const> = 5e-4 -- of the whole: smaller terms would print as 0.0 %

--- Rows of one kind of term, the largest first; `used` gathers the names of their constants.
local function rows_of(kind, values, total, show, used)
  local names <const>, rows <const> = {}, {}
  for name, value in pairs(values) do
    if (terms[kind][name] or kind == "microbatch" and not terms.step[name]) and value > LEAST * total then names[#names + 1] = name end
  end
  table.sort(names, function(a, b)
    if values[a] ~= values[b] then return values[a] > values[b] end
    return a < b
  end)
  for i, name in ipairs(names) do
    local title <const>, formula <const>, _, constants <const> =
      table.unpack(terms[kind][name] or { name, "the cost model's own", nil, {} }, 1, 4)
    rows[i] = { title, show(values[name]), ("%.1f %%"):format(100 * values[name] / total), formula }
    for _, constant in ipairs(constants) do used[constant] = true end
  end
  return rows
end

local function render(title, rows)
  if #rows == 0 then return "" end
  return grid.render({ { title, "", "share", "formula" }, table.unpack(rows) }, { right = { 2, 3 } }) .. "\n"
end

--- One stage; gives its text, and notes the constants that its terms took.
local function stage_text(plan, i, used)
  local stage <const> = plan.stages[i]
  local busy_s <const>, out <const> = stage.forward_s + stage.backward_s, {}
  local function add(s, ...) out[#out + 1] = select("#", ...) > 0 and s:format(...) or s end
  add("stage %d of %d: %s on %s (%s), %s, recompute %s\n", i, #plan.stages, words.layers(stage), stage.island, words.gpus(stage),
    words.strategy(stage.strategy), words.recompute(stage))
  local all_s <const> = plan.microbatches * busy_s
  add("of %s an iteration it computes %s (%d microbatches of forward %s and backward %s), ends with %s, and waits or sends for %s\n\n",
    units.format_time(plan.time_s), units.format_time(all_s), plan.microbatches, units.format_time(stage.forward_s),
    units.format_time(stage.backward_s), units.format_time(stage.sync_s),
    units.format_time(math.max(0, plan.time_s - all_s - stage.sync_s)))
  add(render("a microbatch", rows_of("microbatch", stage.time_parts, busy_s, units.format_time, used)))
  add(render("end of a step", rows_of("step", stage.time_parts, math.max(stage.sync_s, 1e-12), units.format_time, used)))
  add(render(("memory, %d in flight"):format(stage.inflight),
    rows_of("memory", stage.memory, stage.memory.total_bytes, units.format_bytes, used)))
  return table.concat(out)
end

--- Constants of the stages' islands that some term took, in the plan's order; those of other cost models' own, too.
local function constants_text(plan, stages, used)
  local here <const>, known <const> = {}, {}
  for _, i in ipairs(stages) do here[plan.stages[i].island] = true end
  for _, kind in pairs(terms) do
    for _, term in pairs(kind) do
      for _, name in ipairs(term[4]) do known[name] = true end
    end
  end
  local rows <const> = { { "constant", "value", "unit", "from", "source" } }
  for _, one in ipairs(plan.constants) do
    local name <const>, island <const> = one.name:match "^(.-) on (.+)$"
    local base <const> = name or one.name
    if (not island or here[island]) and (used[base] or not known[base]) then
      rows[#rows + 1] = { one.name, ("%.4g"):format(one.value), one.unit or "", one.from, one.source or "" }
    end
  end
  return #rows > 1 and grid.render(rows, { right = { 2 } }) or ""
end

--- The text for one stage, or all.
---@param plan table tangram.plan/1
---@param only integer? a stage, from 1
---@return string
function explained.plan(plan, only)
  plan = fields.check(plan)
  local stages <const>, used <const>, out <const> = {}, {}, {}
  for i = only or 1, only or #plan.stages do
    stages[#stages + 1] = i
    out[#out + 1] = stage_text(plan, i, used)
  end
  return table.concat(out) .. constants_text(plan, stages, used)
end

return explained
