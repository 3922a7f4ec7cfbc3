--- Measured runs as a CSV file holds them, one a line: columns by name, numbers as numbers.
local core <const> = require "tangram.core"
local imports <const> = require "tangram.measured.imports"
local paper <const> = require "tangram.measured.paper"
local sorted_keys <const> = require "tangram.sorted_keys"

local rows <const> = {}

--- Columns that are read, and what stands in them. Others (table, url, notes …) are kept as text.
local WHOLE <const>, NUMBER <const>, TEXT <const> = "a whole number of at least 0", "a number of at least 0", "text"
rows.columns = {
  id = TEXT, source_key = TEXT, model = TEXT, kind = TEXT, layers = WHOLE, hidden = WHOLE, ffn = WHOLE, heads = WHOLE, kv_heads = WHOLE,
  head_dim = WHOLE, vocab = WHOLE, params_b = TEXT, n_experts = WHOLE, topk = WHOLE, moe_ffn = WHOLE, seq = WHOLE, gpu = TEXT,
  n_gpus = WHOLE, gpus_per_node = WHOLE, interconnect = TEXT, tp = WHOLE, pp = WHOLE, vpp = WHOLE, dp = WHOLE, cp = WHOLE, ep = WHOLE,
  zero = TEXT, mbs = WHOLE, gbs = WHOLE, layer_split = TEXT, recompute = TEXT, seq_par = WHOLE, precision = TEXT, schedule = TEXT,
  iter_time_s = NUMBER, iter_time_kind = TEXT, tflops_per_gpu = NUMBER, tflops_kind = TEXT, tokens_per_s_per_gpu = NUMBER,
  mfu_pct = TEXT, mem_gib = NUMBER, mem_kind = TEXT, notes = TEXT, table = TEXT, url = TEXT, stack = TEXT, fsep = WHOLE,
  imbalance = NUMBER, search = WHOLE,
}

--- Columns without which no row can be predicted.
local NEEDED <const> = { "gpu", "n_gpus", "layers", "hidden", "gbs" }

--- Fields of one record that starts at `at`; quotes are doubled inside quotes.
---@return string[] fields, integer next
local function record(text, at)
  local fields <const> = {}
  while true do
    local field
    if text:sub(at, at) == '"' then
      local parts <const> = {}
      repeat
        local close <const> = text:find('"', at + 1, true) or #text + 1
        parts[#parts + 1] = text:sub(at + 1, close - 1)
        at = close + 1
      until text:sub(at, at) ~= '"'
      field = table.concat(parts, '"')
    else
      local stop <const> = text:find("[,\r\n]", at) or #text + 1
      field, at = text:sub(at, stop - 1), stop
    end
    fields[#fields + 1] = field
    if text:sub(at, at) ~= "," then break end
    at = at + 1
  end
  at = text:match("^[^\n]*()", at) + 1
  return fields, at
end

local function value_of(text, kind)
  if kind == TEXT or not kind then return text end
  local number <const> = tonumber(text)
  local whole <const> = number and math.tointeger(number)
  if not number or number < 0 or number ~= number or number == math.huge or kind == WHOLE and not whole then return nil end
  return whole or number
end

local function check_columns(names, where)
  local present <const>, known <const> = {}, sorted_keys(rows.columns)
  for _, name in ipairs(names) do present[name] = true end
  for _, name in ipairs(NEEDED) do
    if not present[name] then
      error(("%s: no column '%s', expected the columns %s at least"):format(where, name, table.concat(NEEDED, ", ")), 0)
    end
  end
  local warnings <const> = {}
  for _, name in ipairs(names) do
    if not rows.columns[name] then
      local near <const> = core.nearest(name, known)
      warnings[#warnings + 1] = ("%s: column '%s' is not read%s"):format(where, name, near and (" (did you mean '%s'?)"):format(near) or "")
    end
  end
  return warnings
end

--- Rows by column; a field that is empty is absent, one that can't be read makes the row's `wrong`.
---@param text string
---@param where string the file, for messages
---@return table[] rows, string[] warnings
function rows.parse(text, where)
  local list <const>, seen <const> = {}, {}
  text = text:gsub("^\xEF\xBB\xBF", "") -- of spreadsheets
  local names <const>, after_names <const> = record(text, 1)
  local at = after_names
  local warnings <const> = check_columns(names, where)
  while at <= #text do
    local fields
    fields, at = record(text, at)
    if #fields > 1 or fields[1] ~= "" then
      local row <const> = {}
      for i, name in ipairs(names) do
        local field <const> = fields[i]
        if field and field ~= "" then
          row[name] = value_of(field, rows.columns[name])
          if row[name] == nil then
            row.wrong = row.wrong or ("%s: got '%s', expected %s"):format(name, field, rows.columns[name])
          end
        end
      end
      list[#list + 1] = row
      row.id = row.id or ("row %d"):format(#list)
      if seen[row.id] then warnings[#warnings + 1] = ("%s: id '%s' stands there twice"):format(where, row.id) end
      seen[row.id] = true
    end
  end
  return list, warnings
end

--- Lines of a CSV text as tables of text by column; empty fields are absent.
local function plain(text)
  local list <const> = {}
  local names <const>, after_names <const> = record(text, 1)
  local at = after_names
  while at <= #text do
    local row <const> = {}
    local fields <const>, after <const> = record(text, at)
    at = after
    for i, name in ipairs(names) do row[name] = fields[i] ~= "" and fields[i] or nil end
    if next(row) then list[#list + 1] = row end
  end
  return list
end

--- Rows of a file of any kind that is known: CSV with the columns above, the Tangram paper's figures, or other projects' JSON.
---@param text string
---@param where string the file, for messages
---@return table[] rows, string[] warnings
function rows.read(text, where)
  if text:find "^%s*[{[]" then return imports.rows(text, where), {} end
  if text:find "^experiment,cluster," then return paper.rows(plain(text)), {} end
  return rows.parse(text, where)
end

return rows
