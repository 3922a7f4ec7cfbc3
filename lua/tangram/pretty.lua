--- Values as people read them: sorted keys, on one line where they fit, cut below a depth; plans as their report.
local core <const> = require "tangram.core"

local pretty <const> = {}

local MOST_ITEMS <const> = 20 -- of a list; the rest is counted

local escapes <const> = { ["\n"] = "\\n", ["\t"] = "\\t", ["\r"] = "\\r", ['"'] = '\\"', ["\\"] = "\\\\" }

local function quoted(text)
  return '"' .. text:gsub('[%c"\\]', function(c) return escapes[c] or ("\\%03d"):format(c:byte()) end) .. '"'
end

local function scalar(value)
  if value == core.null then return "null" end
  if type(value) == "string" then return quoted(value) end
  if math.type(value) == "float" then return ("%.6g"):format(value) end
  return tostring(value)
end

local function key_text(key)
  if type(key) == "string" and key:find "^[%a_][%w_]*$" then return key end
  return "[" .. scalar(key) .. "]"
end

--- Keys past the list part: numbers first, then by letters.
local function sorted_keys(value)
  local keys <const> = {}
  for key in next, value do
    if math.type(key) ~= "integer" or key < 1 or key > #value then keys[#keys + 1] = key end
  end
  table.sort(keys, function(a, b)
    if type(a) == "number" and type(b) == "number" then return a < b end
    if type(a) ~= type(b) then return type(a) == "number" or type(b) ~= "number" and type(a) < type(b) end
    return tostring(a) < tostring(b)
  end)
  return keys
end

local render

local function parts_of(value, indent, depth, path)
  local parts <const> = {}
  local shown <const> = #value > MOST_ITEMS + 1 and MOST_ITEMS or #value
  for i = 1, shown do parts[i] = render(rawget(value, i), indent, depth, path) end
  if shown < #value then parts[#parts + 1] = ("… %d more"):format(#value - shown) end
  for _, key in ipairs(sorted_keys(value)) do
    parts[#parts + 1] = key_text(key) .. " = " .. render(rawget(value, key), indent, depth, path)
  end
  return parts
end

local function fits(parts, room)
  for _, part in ipairs(parts) do
    room = room - utf8.len(part, 1, -1, true) - 2
    if room < 0 or part:find "\n" then return false end
  end
  return true
end

--- depth: levels of tables that may still be opened; path: the tables around this one.
function render(value, indent, depth, path)
  local meta <const> = type(value) == "table" and getmetatable(value)
  if type(value) ~= "table" or type(meta) == "table" and meta.__tostring then return scalar(value) end
  if next(value) == nil then return "{}" end
  if path[value] then return "{ … itself }" end
  if depth == 0 then
    local count = 0
    for _ in next, value do count = count + 1 end
    return ("{ … %d }"):format(count)
  end
  path[value] = true
  local parts <const> = parts_of(value, indent + 2, depth - 1, path)
  path[value] = nil
  if fits(parts, pretty.width - indent - 4) then return "{ " .. table.concat(parts, ", ") .. " }" end
  local margin <const> = "\n" .. (" "):rep(indent + 2)
  return "{" .. margin .. table.concat(parts, "," .. margin) .. "\n" .. (" "):rep(indent) .. "}"
end

pretty.width = 100

--- Text of a value. Strings are quoted inside tables only.
---@param value any
---@param depth integer? levels of tables to open, default 3
---@return string
function pretty.show(value, depth)
  if type(value) == "string" then return value end
  if type(value) == "table" and rawget(value, "format") == "tangram.plan/1" then
    local ok <const>, report <const> = pcall(require("tangram.report.text").plan, value)
    if ok then return (report:gsub("\n$", "")) end -- else it was changed by hand: show what it is
  end
  return render(value, 0, depth or 3, {})
end

return pretty
