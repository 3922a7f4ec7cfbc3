--- A plan as one HTML page that needs nothing beside it: figures, who is where, the pipeline's timeline, memory, times, what
--- was left out and why, and what the figures rest on. Equal plans give equal bytes.
local axis <const> = require "tangram.report.axis"
local bars <const> = require "tangram.report.bars"
local fields <const> = require "tangram.report.fields"
local markup <const> = require "tangram.report.markup"
local places <const> = require "tangram.report.places"
local plans <const> = require "tangram.plan"
local sorted_keys <const> = require "tangram.sorted_keys"
local style <const> = require "tangram.report.style"
local timeline <const> = require "tangram.report.timeline"
local units <const> = require "tangram.units"
local words <const> = require "tangram.report.words"
local core <const> = require "tangram.core"

local html <const> = {}

local SHOWN_FAILURES <const> = 20

local memory_parts <const> = {
  { field = "weights_bytes", name = "weights", key = 1 }, { field = "gradients_bytes", name = "gradients", key = 2 },
  { field = "optimizer_bytes", name = "optimizer states", key = 3 }, { field = "activations_bytes", name = "activations", key = 4 },
  { field = "transient_bytes", name = "transient", key = 5 }, { field = "buffers_bytes", name = "buffers", key = 6 },
  { field = "context_bytes", name = "context", key = 7 },
}

--- Parts of a microbatch's time and of what a step adds at its end, in the order of the charts; others follow by letters.
local time_words <const> = {
  { "compute_s", "matrix products" }, { "attention_s", "attention" }, { "memory_bound_s", "element-wise operators" },
  { "recompute_s", "recomputation" }, { "tp_s", "tensor parallelism" }, { "cp_s", "context parallelism" },
  { "ep_s", "expert parallelism" }, { "fsep_s", "sharded experts" }, { "fsdp_s", "sharded states" }, { "offload_s", "offloading" },
  { "launch_s", "launches" }, { "overhead_s", "overhead" },
}
local sync_words <const> = { { "reduce_s", "gradient reduction" }, { "optimizer_s", "optimizer" }, { "tied_s", "tied embeddings" } }

local time_keys <const>, rest_key <const> = { 1, 2, 3, 4, 5, 6, 8, 9, 10 }, 7

local function section(title, ...) return markup.fill("<h2>$title</h2>\n", { title = title }) .. table.concat({ ... }) end
local function paragraph(text) return markup.fill("<p>$text</p>\n", { text = text }) end

local function tile(figure, label)
  return markup.fill("<li><b>$figure</b><span>$label</span></li>\n", { figure = figure, label = label })
end

local function samples_text(plan)
  local samples <const> = plan.training.global_batch // plan.microbatches
  return ("%d × %d"):format(plan.microbatches, samples)
end

local function headline(plan)
  local training <const> = plan.training
  local used <const>, all <const> = places.count(plan)
  return markup.fill('<h1>$model</h1>\n<p class="soft">$setting</p>\n<ul class="tiles">\n@tiles</ul>\n<p>$proof</p>\n', {
    model = plan.model.name,
    setting = ("%d stages; sequences of %d tokens, global batch %d, %s; parallelizer %s, cost model %s; transfers %s%s"):format(
      #plan.stages, training.seq_len, training.global_batch, training.precision,
      plan.parallelizer.name, plan.cost.name, plan.p2p, words.target(plan)),
    tiles = tile(units.format_time(plan.time_s), "an iteration") .. tile(words.thousands(plan.tokens_per_s), "tokens per second")
      .. tile(("%.1f %%"):format(100 * plan.model_flops_utilisation), "of the peak of the GPUs in use")
      .. tile(("%d of %d"):format(used, all), "GPUs in use") .. tile(samples_text(plan), "microbatches × samples"),
    proof = words.proof(plan):gsub("^%l", string.upper) .. ".",
  })
end

local function notes(plan)
  local items <const> = {}
  for i, warning in ipairs(plan.warnings) do items[i] = markup.fill("<li>$text</li>\n", { text = warning }) end
  return #items > 0 and '<ul class="notes">\n' .. table.concat(items) .. "</ul>\n" or ""
end

local function stage_grid(plan)
  local rows <const> = { { "stage", "island", "GPUs", "layers", "strategy", "recompute", "forward", "backward", "sync", "send",
    "in flight" } }
  for s, stage in ipairs(plan.stages) do
    rows[#rows + 1] = {
      ("%d"):format(s), stage.island, words.gpus(stage), words.layers(stage), words.strategy(stage.strategy), words.recompute(stage),
      units.format_time(stage.forward_s), units.format_time(stage.backward_s), units.format_time(stage.sync_s),
      math.type(stage.transfer_s) and s < #plan.stages and units.format_time(stage.transfer_s) or "–", ("%d"):format(stage.inflight),
    }
  end
  return markup.grid(rows, { right = { 1, 7, 8, 9, 10, 11 }, class = "dense",
    caption = "Forward, backward and send are of one microbatch, sync is of an"
    .. " iteration; E is the embedding, H the final norm and head; in flight: microbatches whose activations are held." })
end

local function memory_chart(plan)
  local unit <const>, rows <const> = axis.memory_unit, {}
  for s, stage in ipairs(plan.stages) do
    local memory <const>, values <const> = stage.memory, {}
    for p, part in ipairs(memory_parts) do values[p] = memory[part.field] / unit.size end
    rows[s] = {
      label = timeline.label(s, stage), values = values, limit = memory.capacity_bytes / unit.size,
      note = ("%.1f of %.1f GiB, %.0f %%"):format(memory.total_bytes / unit.size, memory.capacity_bytes / unit.size,
        100 * memory.total_bytes / memory.capacity_bytes),
    }
  end
  return bars.render { title = "Memory of each stage's fullest GPU", axis = "GiB on the fullest GPU", unit = "GiB",
    limit = "capacity (memory less the margin)", parts = memory_parts, rows = rows }
end

local function memory_grid(plan)
  local heading <const> = { "stage" }
  for _, part in ipairs(memory_parts) do heading[#heading + 1] = part.name end
  local rows <const>, right <const> = { heading }, {}
  for s, stage in ipairs(plan.stages) do
    local row <const> = { ("%d"):format(s) }
    for _, part in ipairs(memory_parts) do row[#row + 1] = ("%.2f"):format(stage.memory[part.field] / axis.memory_unit.size) end
    rows[#rows + 1] = row
  end
  for c = 1, #heading do right[c] = c end
  return markup.grid(rows, { right = right, caption = "GiB" })
end

--- The parts that some stage has, of those in known, and with the rest (by letters) if others is asked for.
local function parts_of(plan, known, skip, others)
  local present <const>, parts <const>, taken <const> = {}, {}, {}
  for _, stage in ipairs(plan.stages) do
    for name, seconds in pairs(stage.time_parts) do present[name] = present[name] or seconds > 0 or nil end
  end
  local function add(field, name)
    taken[field] = true
    if present[field] then parts[#parts + 1] = { field = field, name = name, key = time_keys[#parts % #time_keys + 1] } end
  end
  for _, one in ipairs(known) do add(one[1], one[2]) end
  for _, one in ipairs(skip) do taken[one[1]] = true end
  for _, field in ipairs(others and sorted_keys(present) or {}) do
    if not taken[field] then add(field, (field:gsub("_s$", ""):gsub("_", " "))) end
  end
  return parts
end

--- Bars of parts of a time, with what is not broken down as the last part.
local function time_chart(plan, parts, total_of, chart)
  local rows <const>, most_s, rest_s = {}, 0, 0
  for s, stage in ipairs(plan.stages) do
    local total_s <const>, values <const>, sum = total_of(stage), {}, 0
    for p, part in ipairs(parts) do
      values[p] = stage.time_parts[part.field] or 0
      sum = sum + values[p]
    end
    values[#parts + 1] = total_s - sum > 1e-3 * total_s and total_s - sum or 0
    most_s, rest_s = math.max(most_s, total_s, sum), math.max(rest_s, values[#parts + 1])
    rows[s] = { label = timeline.label(s, stage), values = values, note = chart.note(stage) }
  end
  if most_s == 0 then return "" end
  local unit <const> = axis.time_unit(most_s)
  for _, row in ipairs(rows) do
    for p, value in ipairs(row.values) do row.values[p] = value / unit.size end
  end
  local shown <const> = table.move(parts, 1, #parts, 1, {})
  shown[#shown + 1] = rest_s > 0 and { name = "not broken down", key = rest_key } or nil
  return markup.fill("<h3>$title</h3>\n", chart) .. bars.render { title = chart.title, axis = chart.axis:format(unit.name),
    unit = unit.name, parts = shown, rows = rows }
end

local function times(plan)
  return time_chart(plan, parts_of(plan, time_words, sync_words, true), function(stage) return stage.forward_s + stage.backward_s end, {
    title = "One microbatch, forward and backward", axis = "%s a microbatch", note = function(stage)
      return ("%s + %s"):format(units.format_time(stage.forward_s), units.format_time(stage.backward_s))
    end,
  }) .. time_chart(plan, parts_of(plan, sync_words, {}, false), function(stage) return stage.sync_s end, {
    title = "At the end of an iteration", axis = "%s an iteration", note = function(stage) return units.format_time(stage.sync_s) end,
  })
end

local function left_out(plan)
  local rows <const> = { { "island", "nodes", "best with it", "why" } }
  for _, island in ipairs(plan.islands) do
    if not island.used then
      rows[#rows + 1] = { island.name, table.concat(island.nodes, " "), island.best_with_s and units.format_time(island.best_with_s) or "–",
        island.reason or "–" }
    end
  end
  if #rows == 1 then return paragraph "None: every island is in use." end
  return markup.grid(rows, { right = { 3 }, caption = ("This plan takes %s without them."):format(units.format_time(plan.time_s)) })
end

local function searched(plan)
  local counts <const> = plan.pairs
  local rows <const> = { { "pairs of a slice and an island", "count" }, { "all", words.thousands(counts.all) },
    { "queries of the parallelizer", words.thousands(counts.queried) }, { "took another pair's answer", words.thousands(counts.reused) } }
  for _, name in ipairs(sorted_keys(counts.pruned)) do
    rows[#rows + 1] = { "dropped: " .. name, words.thousands(counts.pruned[name]) }
  end
  rows[#rows + 1] = { "failed queries", words.thousands(#counts.failed) }
  local out <const> = { markup.grid(rows, { right = { 2 } }) }
  if #counts.failed > 0 then
    local failures <const> = { { "atoms", "island", "why it failed" } }
    for i = 1, math.min(#counts.failed, SHOWN_FAILURES) do
      local one <const> = counts.failed[i]
      failures[i + 1] = { ("%d..%d"):format(one.slice[1], one.slice[2] - 1), one.island, one.reason }
    end
    out[2] = markup.grid(failures, { caption = #counts.failed > SHOWN_FAILURES
      and ("%d more are in the JSON."):format(#counts.failed - SHOWN_FAILURES) or nil })
  end
  if #plan.top > 1 then
    local top <const> = { { "", "time", "microbatches", "stages" } }
    for i, row in ipairs(plan.top) do
      top[i + 1] = { ("%d"):format(i), units.format_time(row.time_s), ("%d"):format(row.microbatches), ("%d"):format(row.stages) }
    end
    out[#out + 1] = "<h3>The best plans</h3>\n" .. markup.grid(top, { right = { 1, 2, 3, 4 } })
  end
  return table.concat(out)
end

local function constants(plan)
  if #plan.constants == 0 then return paragraph "The plan names none." end
  local rows <const> = { { "constant", "value", "unit", "from", "source" } }
  for i, one in ipairs(plan.constants) do
    rows[i + 1] = { one.name, ("%.6g"):format(one.value), one.unit or "", one.from, one.source or "" }
  end
  return markup.grid(rows, { right = { 2 } })
end

local page <const> = [[
<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8"/>
<meta name="viewport" content="width=device-width, initial-scale=1"/>
<title>$title</title>
<style>
@style</style>
</head>
<body>
@body<p class="soft">tangram $version</p>
</body>
</html>
]]

--- The page. Raises one line if the plan can't be simulated or lacks what reports need.
---@param plan table tangram.plan/1
---@return string
function html.plan(plan)
  local time_s <const>, operations <const> = core.plan_simulate(plans.encode(plan))
  if not time_s then error("plan: " .. operations, 0) end
  plan = fields.check(plan)
  return markup.fill(page, {
    title = ("%s: %s an iteration"):format(plan.model.name, units.format_time(plan.time_s)), style = style, version = plan.version,
    body = table.concat {
      headline(plan), notes(plan),
      section("Who is where", paragraph "The model from its embedding (left) to its head, cut into stages:", places.model(plan),
        places.islands(plan), places.apart(plan)),
      section("Stages", stage_grid(plan)),
      section("One iteration", timeline.render(plan, time_s, operations)),
      section("Memory", memory_chart(plan), memory_grid(plan)),
      section("Where the time goes", times(plan)),
      section("Islands left out", left_out(plan)),
      section("What was searched", searched(plan)),
      section("What the figures rest on", constants(plan)),
    },
  })
end

return html
