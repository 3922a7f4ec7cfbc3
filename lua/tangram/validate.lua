--- Predictions of measured runs beside what was measured (tangram validate).
local core <const> = require "tangram.core"
local loader <const> = require "tangram.loader"
local planned <const> = require "tangram.measured.planned"
local predict <const> = require "tangram.measured.predict"
local rows <const> = require "tangram.measured.rows"
local setup <const> = require "tangram.measured.setup"
local summary <const> = require "tangram.measured.summary"
local suspects <const> = require "tangram.measured.suspects"

local validate <const> = {}

local GIB <const> = 2 ^ 30

--- Model FLOPs of an iteration, forward and backward (FORMULAS.md, section 2, general decoder): attention counts half of its
--- square, or all of it where the source does so.
local function model_flops(s, row)
  local m <const>, t <const> = s.model, s.training
  local mlp = 0.0
  for i = 1, m.layers do
    local matrices <const> = m.gated and 3 or 2
    mlp = mlp + (m.layer_mlp[i] == "moe" and m.experts_per_token * m.expert_ffn + m.shared_expert_ffn or m.ffn) * matrices * m.hidden
  end
  local attention <const> = m.layers * (2 * m.hidden * m.heads * m.head_dim + 2 * m.hidden * m.kv_heads * m.head_dim)
  local square <const> = (s.attention_square and 12 or 6) * m.layers * t.seq_len * m.heads * m.head_dim
  return 1.0 * row.gbs * t.seq_len * (6 * (attention + mlp + m.vocab * m.hidden) + square)
end

--- Seconds of the measured iteration: as printed, or from tokens or model FLOP/s.
local function measured_s(row, s)
  if row.iter_time_s then return row.iter_time_s end
  if row.tokens_per_s_per_gpu then return row.gbs * s.training.seq_len / (row.tokens_per_s_per_gpu * row.n_gpus) end
  if row.tflops_per_gpu and not (row.tflops_kind or ""):find "hardware" then
    return model_flops(s, row) / (row.tflops_per_gpu * 1e12 * row.n_gpus)
  end
  return nil
end

local function measured_bytes(row)
  if not row.mem_gib or row.mem_gib == 0 then return nil end
  return row.mem_gib * ((row.mem_kind or ""):find "^GB" and 1e9 or GIB)
end

--- What a row that brings its own prediction comes to (measured.paper).
local function own_prediction(row, plugin, cost)
  if row.wrong then error(row.wrong, 0) end
  return row.predict(plugin, cost)
end

--- The prediction of one row.
---@param row table of measured.rows
---@param plugin table a loaded cost model
---@param options { p2p: string?, gpus: table<string, table>?, cost: string|table? }?
---@return table { id, measured_s, predicted_s, measured_bytes, predicted_bytes, reason, suspect, suspect_memory, assumed, parts, shape,
---  held }
function validate.row(row, plugin, options)
  options = options or {}
  local result <const> = {
    id = row.id, row = row, suspect = suspects.runs[row.id], suspect_memory = suspects.memory[row.id],
    measured_s = row.iter_time_s, measured_bytes = measured_bytes(row),
  }
  local ok <const>, why <const> = pcall(function()
    local prediction
    if row.holds or row.source_key == "paper" then
      prediction = own_prediction(row, plugin, options.cost)
      result.assumed, result.held = row.assumed, row.holds(prediction.seconds)
    else
      local s <const> = setup.of(row, options.gpus or {})
      result.assumed, result.measured_s = s.assumed, measured_s(row, s)
      prediction = s.search and planned.of(s, options.cost) or predict.of(s, plugin, options.p2p or "overlapped")
    end
    result.predicted_s, result.predicted_bytes, result.parts = prediction.seconds, prediction.bytes, prediction.parts
    result.shape = prediction.shape
  end)
  if not ok then
    if type(why) ~= "string" or why:find "^[%w_./]+:%d+: " then error(("internal: %s: %s"):format(row.id, tostring(why)), 0) end
    result.reason = why
  elseif not result.measured_s and not result.measured_bytes then
    result.reason = "nothing measured: no time, tokens or model FLOP/s, and no memory"
  end
  return result
end

local group_of <const> = {
  source = function(row) return row.source_key or "(no source_key)" end,
  gpu = function(row) return row.gpu:gsub("%s*%b()", "") end,
  model = function(row) return row.model or "(no model)" end,
}
validate.groupings = { "source", "gpu", "model" }

local function group(results, name, of)
  local names <const>, by_name <const> = {}, {}
  for _, result in ipairs(results) do
    local key <const> = of(result.row)
    result.group = key
    if not by_name[key] then names[#names + 1], by_name[key] = key, {} end
    table.insert(by_name[key], result)
  end
  table.sort(names)
  local groups <const> = {}
  for i, key in ipairs(names) do groups[i] = validate.group(by_name[key], name, key) end
  return groups
end

--- Errors of a group: of its rows that are predicted, measured and not suspect.
---@param results table[] of `validate.row`
---@param by string
---@param name string
---@return table { by, name, rows, left_out, suspect, time = tangram.Errors?, memory = tangram.Errors? }
function validate.group(results, by, name)
  local times <const>, memories <const> = {}, {}
  local left_out, suspect = 0, 0
  for _, result in ipairs(results) do
    if result.reason then
      left_out = left_out + 1
    elseif result.suspect then
      suspect = suspect + 1
    else
      if result.measured_s then
        times[#times + 1] = { id = result.id, predicted = result.predicted_s, measured = result.measured_s }
      end
      if result.measured_bytes and not result.suspect_memory then
        memories[#memories + 1] = { id = result.id, predicted = result.predicted_bytes, measured = result.measured_bytes }
      end
    end
  end
  return { by = by, name = name, rows = #results, left_out = left_out, suspect = suspect, time = summary.of(times),
    memory = summary.of(memories) }
end

--- Predicts every row of some files (measured.rows); a run that several of them list counts once.
---@param files { text: string, where: string }[]
---@param options { cost: string|table?, by: string?, p2p: string?, gpus: table? }?
---@return table { rows, groups, all, warnings }
function validate.files(files, options)
  options = options or {}
  local plugin <const> = loader.load("cost", options.cost or "analytic")
  local results <const>, warnings <const>, first_in <const> = {}, {}, {}
  for _, file in ipairs(files) do
    local list <const>, said <const> = rows.read(file.text, file.where)
    table.move(said, 1, #said, #warnings + 1, warnings)
    for _, row in ipairs(list) do
      local before <const> = first_in[row.id]
      first_in[row.id] = before or file.where
      if before and before ~= file.where then row.wrong = "a run of " .. before .. " as well" end
      results[#results + 1] = validate.row(row, plugin, options)
    end
  end
  local by <const> = options.by or "source"
  return { rows = results, groups = group(results, by, group_of[by]), all = validate.group(results, "all", "all"), warnings = warnings }
end

--- The same of one file's text.
---@param text string
---@param where string the file, for messages
function validate.run(text, where, options) return validate.files({ { text = text, where = where } }, options) end

--- Time and memory by group as one table in Markdown, a line each; errors in per cent.
---@param result table of `validate.run`
---@param by string
---@return string
function validate.markdown(result, by)
  local lines <const> = { ("| %s | runs | mean | median | 90 %% within | bias | rank | memory: runs | mean | lowest |"):format(by),
    "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |" }
  local function percent(x) return ("%.1f"):format(100 * x) end
  for _, one in ipairs(result.groups) do
    local t <const>, m <const>, cells <const> = one.time, one.memory, { "", "", "", "", "", "", "", "", "" }
    if t then
      cells[1], cells[2], cells[3] = ("%d"):format(t.count), percent(t.mape), percent(t.median)
      cells[4], cells[5], cells[6] = percent(t.p90), percent(t.bias), t.spearman and ("%.2f"):format(t.spearman) or ""
    end
    if m then cells[7], cells[8], cells[9] = ("%d"):format(m.count), percent(m.mape), percent(m.low.error) end
    lines[#lines + 1] = ("| %s | %s |"):format(one.name, table.concat(cells, " | "))
  end
  return table.concat(lines, "\n") .. "\n"
end

local function or_null(value) return value == nil and core.null or value end

local function errors_of(e)
  if not e then return core.null end
  return { rows = e.count, mape = e.mape, median = e.median, p90 = e.p90, bias = e.bias, spearman = or_null(e.spearman),
    worst = { id = e.worst.id, error = e.worst.error }, lowest = { id = e.low.id, error = e.low.error } }
end

--- The JSON text of a result (FORMATS.md).
---@param result table of `validate.run`
---@return string
function validate.encode(result)
  local list <const>, groups <const> = core.array {}, core.array {}
  for i, row in ipairs(result.rows) do
    list[i] = {
      id = row.id, measured_s = or_null(row.measured_s), predicted_s = or_null(row.predicted_s),
      measured_bytes = or_null(row.measured_bytes), predicted_bytes = or_null(row.predicted_bytes), reason = or_null(row.reason),
    }
  end
  for i, one in ipairs(result.groups) do
    groups[i] = { by = one.by, name = one.name, rows = one.rows, not_expressed = one.left_out, suspect = one.suspect,
      time = errors_of(one.time), memory = errors_of(one.memory) }
  end
  return core.json_encode { rows = list, groups = groups } .. "\n"
end

return validate
