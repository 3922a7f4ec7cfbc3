--- Declarative field tables that check and document: one schema for recipes, plugins' options, clusters and training.
---
--- A field is `{ type =, doc =, … }`. Types: integer, number, boolean, string, enum (`values`), list (`item`, a field),
--- map (string keys, `item`), table (`fields`, or anything in it without them), function, any. A field may have
--- `required`, `default`, `min`, `max` (inclusive), `above` (exclusive), `any_of` (a list of fields, in place of type), and
--- `check(value) -> nil | "what is expected"`. Numbers are finite. JSON's null counts as absent.
local core <const> = require "tangram.core"
local sorted_keys <const> = require "tangram.sorted_keys"

local schema <const> = {}

local check_field

local function show(value)
  local kind <const> = type(value)
  if kind == "string" then
    return ("'%s'"):format((#value > 40 and value:sub(1, 40) .. "…" or value):gsub("%c", " "))
  elseif value ~= value then
    return "NaN"
  elseif kind == "number" then
    return math.type(value) == "integer" and ("%d"):format(value) or ("%.14g"):format(value)
  elseif kind == "boolean" then
    return tostring(value)
  elseif value == core.null then
    return "null"
  end
  return "a " .. kind
end
schema.show = show

local function range(field)
  if field.type == "list" and (field.min or field.max) then
    if field.min == field.max then return (" of %d items"):format(field.min) end
    return field.max and (" of %d to %d items"):format(field.min or 0, field.max) or (" of at least %d items"):format(field.min)
  end
  if field.min and field.min == field.max then return ", " .. show(field.min) end
  if field.min and field.max then return (" from %s to %s"):format(show(field.min), show(field.max)) end
  if field.min then return " of at least " .. show(field.min) end
  local above <const> = field.above and " above " .. show(field.above) or ""
  return above .. (field.max and (above ~= "" and " and" or "") .. " at most " .. show(field.max) or "")
end

local nouns <const> = {
  integer = "a whole number", number = "a number", boolean = "true or false", string = "a string", table = "a table",
  ["function"] = "a function", any = "a value", list = "a list", map = "a table",
}

local containers <const> = { list = true, map = true, table = true }

--- What a field takes, in words: "a whole number from 1 to 8".
---@param field table
---@return string
function schema.expected(field)
  if field.any_of then
    local words <const> = {}
    for i, one in ipairs(field.any_of) do words[i] = schema.expected(one) end
    return table.concat(words, ", or ")
  elseif field.type == "enum" then
    local words <const> = {}
    for i, value in ipairs(field.values) do words[i] = show(value) end
    return "one of " .. table.concat(words, ", ")
  end
  local words <const> = assert(nouns[field.type], "schema: unknown type") .. range(field)
  return field.item and ("%s (each: %s)"):format(words, schema.expected(field.item)) or words
end

--- Raises an error of one line, whatever the names and values that it quotes hold.
---@param format string of string.format
function schema.raise(format, ...) error((format:format(...):gsub("%c", " ")), 0) end
local raise <const> = schema.raise

--- Raises the one-line error of a wrong value.
---@param where string place and field
---@param value any what stands there
---@param expected string
---@param near string? the nearest right word
function schema.fail(where, value, expected, near)
  raise("%s: %s, expected %s%s", where, value == nil and "missing" or "got " .. show(value), expected,
    near and (" (did you mean '%s'?)"):format(near) or "")
end

local function in_range(value, field)
  return (not field.min or value >= field.min) and (not field.max or value <= field.max)
    and (not field.above or value > field.above)
end

local function check_list(value, field, where)
  local copy <const> = core.array {}
  for i = 1, #value do copy[i] = check_field(value[i], field.item or { type = "any" }, ("%s[%d]"):format(where, i)) end
  for key in pairs(value) do
    if math.type(key) ~= "integer" or key < 1 or key > #value then schema.fail(where, value, schema.expected(field)) end
  end
  if not in_range(#value, field) then
    raise("%s: got %d items, expected %s", where, #value, schema.expected(field))
  end
  return copy
end

local function check_map(value, field, where)
  local copy <const> = {}
  for _, key in ipairs(sorted_keys(value)) do
    if type(key) ~= "string" then schema.fail(where, value, "a table with names as keys") end
    copy[key] = check_field(value[key], field.item or { type = "any" }, where .. "." .. key)
  end
  return copy
end

--- A checked copy of one value, or raises.
---@param value any
---@param field table
---@param where string place and field
---@return any
function check_field(value, field, where)
  if field.any_of then
    local inner -- of the alternative that takes such tables: it names the place inside
    for _, one in ipairs(field.any_of) do
      local ok <const>, copy <const> = pcall(check_field, value, one, where)
      if ok then return copy end
      if type(value) == "table" and containers[one.type] and (one.type == "list") == (value[1] ~= nil) then
        inner = copy
      end
    end
    if inner then error(inner, 0) end
    schema.fail(where, value, schema.expected(field))
  end
  local kind <const> = field.type
  local copy, right = value, false
  if kind == "integer" then
    copy = type(value) == "number" and math.tointeger(value) or nil
    right = copy and in_range(copy, field)
  elseif kind == "number" then
    right = type(value) == "number" and value == value and math.abs(value) < math.huge and in_range(value, field)
  elseif kind == "enum" then
    for _, one in ipairs(field.values) do right = right or one == value end
    if not right then
      schema.fail(where, value, schema.expected(field), type(value) == "string" and core.nearest(value, field.values) or nil)
    end
  elseif containers[kind] then
    right = type(value) == "table"
    if right and kind == "list" then copy = check_list(value, field, where) end
    if right and kind == "map" then copy = check_map(value, field, where) end
    if right and field.fields then copy = schema.check(value, field.fields, where) end
  else
    right = kind == "any" or type(value) == kind
  end
  if not right then schema.fail(where, value, schema.expected(field)) end
  local wanted <const> = field.check and field.check(copy)
  if wanted then schema.fail(where, value, wanted) end
  return copy
end

schema.value = check_field

--- Raises for the first (by letters) field of value that fields does not have, with the nearest right name.
local function refuse_unknown(value, fields, where)
  for _, name in ipairs(sorted_keys(value)) do
    if fields[name] == nil then
      local known <const> = sorted_keys(fields)
      local near <const> = core.nearest(tostring(name), known)
      raise("%s: %s: unknown field%s", where, tostring(name),
        near and (" (did you mean '%s'?)"):format(near) or ", expected one of " .. table.concat(known, ", "))
    end
  end
end

--- A checked copy of a table, defaults filled in; raises one line, "where: field: got …, expected …".
---@param value table
---@param fields table<string, table> name to field
---@param where string what the table is and where it stands: "plan.lua: training"
---@return table
function schema.check(value, fields, where)
  if type(value) ~= "table" then schema.fail(where, value, "a table") end
  refuse_unknown(value, fields, where)
  local copy <const> = {}
  for _, name in ipairs(sorted_keys(fields)) do
    local field <const>, one = fields[name], value[name]
    if one == core.null then one = nil end
    if one == nil then one = field.default end
    if one ~= nil then
      copy[name] = check_field(one, field, where .. ": " .. name)
    elseif field.required then
      schema.fail(where .. ": " .. name, nil, schema.expected(field))
    end
  end
  return copy
end

local kinds <const> = { "enum" }
for kind in pairs(nouns) do kinds[#kinds + 1] = kind end
table.sort(kinds)

local schema_fields <const> = {
  type = { type = "enum", values = kinds }, doc = { type = "string" }, required = { type = "boolean" }, default = { type = "any" },
  min = { type = "number" }, max = { type = "number" }, above = { type = "number" }, values = { type = "list" }, item = { type = "table" },
  fields = { type = "table" }, any_of = { type = "list", item = { type = "table" } }, check = { type = "function" },
}

local function check_schema_field(field, where)
  schema.check(field, schema_fields, where)
  if (field.type == nil) == (field.any_of == nil) then
    schema.fail(where .. ": type", field.type, schema.expected(schema_fields.type) .. ", or any_of in its place")
  end
  if field.type == "enum" and not field.values then schema.fail(where .. ": values", nil, "the list of what may stand there") end
  for i, one in ipairs(field.any_of or {}) do check_schema_field(one, ("%s: any_of[%d]"):format(where, i)) end
  if field.item then check_schema_field(field.item, where .. ": item") end
  if field.fields then schema.check_schema(field.fields, where .. ": fields") end
end

--- Checks a schema, as plugins write them for their options; raises as `check` does.
---@param fields table<string, table>
---@param where string what they are of and where it stands
function schema.check_schema(fields, where)
  for _, name in ipairs(sorted_keys(fields)) do check_schema_field(fields[name], where .. ": " .. tostring(name)) end
end

local function show_default(value)
  if type(value) ~= "table" then return show(value) end
  if next(value) == nil then return "{}" end
  local words <const> = {}
  for i, item in ipairs(value) do words[i] = show(item) end
  return #words == 0 and show(value) or "{ " .. table.concat(words, ", ") .. " }"
end

--- One line a field, by letters, for help texts.
---@param fields table<string, table>
---@return string
function schema.document(fields)
  local names <const>, width = sorted_keys(fields), 0
  for _, name in ipairs(names) do width = math.max(width, #name) end
  local lines <const> = {}
  for i, name in ipairs(names) do
    local field <const> = fields[name]
    local default <const> = field.default ~= nil and "; default " .. show_default(field.default)
      or field.required and "; required" or ""
    lines[i] = ("  %-" .. width .. "s  %s (%s%s)"):format(name, field.doc or "", schema.expected(field), default)
  end
  return table.concat(lines, "\n")
end

return schema
