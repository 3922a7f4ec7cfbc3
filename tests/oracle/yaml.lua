--- The YAML that configurations are written in, read by its own rules: block mappings by indentation, lists of "- item", flow
--- lists, quoted and plain scalars. Also takes comments.
local function scalar(text)
  local quoted <const> = text:match '^"(.*)"$'
  if quoted then return (quoted:gsub('\\(.)', { n = "\n", ['"'] = '"', ["\\"] = "\\" })) end
  local lower <const> = text:lower()
  if lower == "true" or lower == "yes" or lower == "on" then return true end
  if lower == "false" or lower == "no" or lower == "off" then return false end
  if lower == "null" or lower == "~" or text == "" then return nil end
  if text:find "^[-+]?%d+$" then return math.tointeger(tonumber(text)) end
  if text:find "^[-+]?%d*%.%d*$" or text:find "^[-+]?%d+%.%d*[eE][-+]?%d+$" then return tonumber(text) end
  return text
end

--- A flow list from position `at`, behind its bracket: the list and where it ends.
local function flow(text, at)
  local list <const> = {}
  while true do
    at = text:match("^[%s,]*()", at)
    local c <const> = text:sub(at, at)
    if c == "]" then return list, at + 1 end
    if c == "[" then
      list[#list + 1], at = flow(text, at + 1)
    elseif c == '"' then
      local item <const>, behind <const> = assert(text:match('^(".-[^\\]")()', at))
      list[#list + 1], at = scalar(item), behind
    else
      local item <const>, behind <const> = assert(text:match("^([^,%]]+)()", at))
      list[#list + 1], at = scalar((item:gsub("%s+$", ""))), behind
    end
  end
end

local function value_of(text)
  if text:sub(1, 1) == "[" then return (flow(text, 2)) end
  return scalar(text)
end

local function key_and_value(text)
  local key <const>, rest <const> = text:match '^"([^"]*)":%s*(.*)$'
  if key then return key, rest end
  return text:match "^([^:]+):%s*(.*)$"
end

--- Lines from `at` on of more than `indent`: the value and the first line behind.
local function block(lines, at)
  local indent <const>, value <const> = lines[at].indent, {}
  while lines[at] and lines[at].indent == indent do
    local text <const> = lines[at].text
    local item <const> = text:match "^%- (.*)$"
    if item then
      local key <const>, rest <const> = key_and_value(item)
      value[#value + 1] = key and not item:find '^["%[]' and { [key] = value_of(rest) } or value_of(item)
      at = at + 1
    else
      local key <const>, rest <const> = key_and_value(text)
      assert(key, text)
      assert(value[key] == nil, key .. " is given twice")
      if rest ~= "" then
        value[key], at = value_of(rest), at + 1
      else
        assert(lines[at + 1] and lines[at + 1].indent > indent, key .. " has no value")
        value[key], at = block(lines, at + 1)
      end
    end
  end
  assert(not lines[at] or lines[at].indent < indent, "indentation")
  return value, at
end

--- The document as tables; raises where it does not understand.
---@param text string
return function(text)
  local lines <const> = {}
  for line in text:gmatch "[^\n]+" do
    local indent <const>, rest <const> = line:match "^( *)(.-)%s*$"
    if rest ~= "" and rest:sub(1, 1) ~= "#" then lines[#lines + 1] = { indent = #indent, text = rest:gsub("%s+#.*$", "") } end
  end
  local value <const>, at <const> = block(lines, 1)
  assert(not lines[at], "what is behind the document?")
  return value
end
