--- Flags and their values as people keep them: a shell script or command line (`--num-layers 24`, arrays, variables), or
--- lines `key: value` and `key = value` in blocks (YAML of Megatron's tests and of FlagScale, overrides of Megatron-Bridge).
local lpeg <const> = require "lpeg"
local schema <const> = require "tangram.schema"

local P <const>, R <const>, S <const>, C <const>, Cp <const>, Cs <const>, Ct <const> =
  lpeg.P, lpeg.R, lpeg.S, lpeg.C, lpeg.Cp, lpeg.Cs, lpeg.Ct

local flags <const> = {}

---@class tangram.Flag
---@field name string as the file writes it
---@field key string words joined by "_", no dashes in front
---@field block string the names of the blocks around it, with dots; "" for none
---@field value string|true true: a bare flag
---@field line integer

local function key_of(name) return (name:gsub("^%-*", ""):gsub("-", "_")) end

--- Words of a shell script. Quotes and continued lines as the shell has them; an unclosed quote ends with the text.
local continued <const> = P "\\" * P "\r" ^ -1 * P "\n"
local single <const> = P "'" / "" * (1 - P "'") ^ 0 * (P "'" / "" + -P(1))
local double <const> = P '"' / "" * (continued / " " + P "\\" * S '"\\$' / "%0" + (1 - P '"')) ^ 0 * (P '"' / "" + -P(1))
local bare <const> = (P "\\" / "" * (1 - P "\n")) + (1 - S " \t\r\n;&|()<>\\\"'") + (P "\\" * -1 / "")
local comment <const> = P "#" * (1 - P "\n") ^ 0
local blank <const> = continued + S " \t\r\n;&|()<>" + P "\\" * -1
local words <const> = Ct((comment + blank + Ct(Cp() * Cs((single + double + bare) ^ 1))) ^ 0)

local name_pattern <const> = "^%-%-([%a][%w_-]*)$"

local function line_counter(text)
  local at, line = 1, 1
  return function(position)
    for _ in text:sub(at, position - 1):gmatch "\n" do line = line + 1 end
    at = position
    return line
  end
end

--- Notes a value that a name is given, and a second one that differs.
local function note(lists, name, value)
  local list <const> = lists[name]
  if not list then
    lists[name] = { value }
  elseif list[1] ~= value then
    list[2] = value
  end
end

--- Visits the flags and assignments in a shell text; `inner` is a text in quotes inside one.
local function visit_words(text, line_of, found, variables, inner)
  local list <const> = words:match(text)
  local i = 1
  while list[i] do
    local position <const>, word <const> = list[i][1], list[i][2]
    local line <const> = line_of(inner and 1 or position)
    local name, value = word:match "^%-%-(%a[%w_-]*)=(.*)$"
    if not name and word:match(name_pattern) then
      name, value = word:match(name_pattern), true
      local follower <const> = list[i + 1] and list[i + 1][2]
      if follower and not follower:match "^%-%-?%a" then
        value, i = follower, i + 1
      end
    end
    local variable <const>, assigned <const> = word:match "^([%a_][%w_]*)%+?=(.*)$"
    if name then
      found[#found + 1] = { name = "--" .. name, key = key_of(name), block = "", value = value, line = line }
    elseif variable then
      note(variables, variable, assigned)
    end
    local quoted <const> = not name and not inner and (assigned or word)
    if quoted and quoted:find("%s%-%-%a") or quoted and quoted:find "^%-%-%a[%w_-]*%s" then
      visit_words(quoted, function() return line end, found, variables, true)
    end
    i = i + 1
  end
end

--- Puts the values of a script's variables in; a second result says which has none, or several.
local function expand(value, variables)
  local lack
  for _ = 1, 4 do -- variables of variables
    if not value:find("$", 1, true) or #value > 4096 then return value, lack end
    local function put(name, default)
      local list <const> = variables[name]
      if list and #list == 1 then return list[1] end
      if list then
        lack = lack or ("the script sets %s to %s and to %s"):format(name, schema.show(list[1]), schema.show(list[2]))
      elseif default then
        return default
      else
        lack = lack or "the script does not set " .. name
      end
    end
    value = value:gsub("%${([%w_]+):?%-([^}]*)}", put):gsub("%${([%w_]+)}", put):gsub("%$([%a_][%w_]*)", put):gsub("%$(%d)", put)
    if lack then return value, lack end
  end
  return value, lack
end

local function of_script(text)
  local found <const>, variables <const> = {}, {}
  visit_words(text, line_counter(text), found, variables)
  for _, flag in ipairs(found) do
    if flag.value ~= true then flag.value, flag.lack = expand(flag.value, variables) end
  end
  return found
end

--- One line of a block: indentation, name, value without its comment.
local space <const> = S " \t" ^ 0
local quoted <const> = P "'" * C((1 - P "'") ^ 0) * P "'" + P '"' * C((1 - P '"') ^ 0) * P '"'
local rest <const> = (1 - S " \t#") * (1 - S " \t") ^ 0
local plain_value <const> = C((rest * (S " \t" ^ 1 * rest) ^ 0) ^ -1)
local longest_line <const> = 65536
local key_name <const> = quoted + C(P "--" ^ -1 * R("az", "AZ", "__") * (R("az", "AZ", "09") + S "_-.") ^ 0)
local line_pattern <const> = Ct(C(space) * (P "- " * space) ^ -1 * key_name * space
  * (P ":" * #(S " \t" + -1) + P "=" * -P "=") * space * (quoted * space * S ",\\" ^ -1 * space * (P "#" * P(1) ^ 0) ^ -1 * -1
  + plain_value))

local function of_blocks(text)
  local found <const>, open <const> = {}, {}
  local number = 0
  for line in (text .. "\n"):gmatch "(.-)\r?\n" do
    number = number + 1
    local parts <const> = #line <= longest_line and line_pattern:match(line)
    if parts then
      local indent <const>, name <const> = #parts[1], parts[2]
      local value <const> = parts[3]:gsub("%s*[,\\]$", ""):gsub("^%a[%w%[%], |.]*=%s*", "") -- num_layers: int = 24,
      while #open > 0 and open[#open].indent >= indent do open[#open] = nil end
      local names <const> = {}
      for i, block in ipairs(open) do names[i] = block.name end
      local dotted <const>, last <const> = name:match "^(.-)%.?([^.]*)$"
      if dotted ~= "" then names[#names + 1] = dotted end
      if value == "" then
        if #open < 32 then open[#open + 1] = { indent = indent, name = name } end
      else
        found[#found + 1] = { name = name, key = key_of(last), block = table.concat(names, "."), value = value, line = number }
      end
    end
  end
  return found
end

--- What kind of file holds a flag of this name: "script", "blocks" or nil.
---@param text string
---@param key string words joined by "_"
---@return string?
function flags.kind(text, key)
  local pattern <const> = key:gsub("_", "[_-]")
  if text:find("%-%-" .. pattern .. "[%s=]") and not text:find("%-%-" .. pattern .. "[\"']?%s*:%s") then return "script" end
  for line in text:gmatch "[^\r\n]+" do
    if line:find("^[%s\"'-]*[%w_.]-" .. pattern .. "[\"']?%s*[:=]") then return "blocks" end
  end
end

--- All flags of a text, in order.
---@param text string
---@param kind string of flags.kind
---@return tangram.Flag[]
function flags.read(text, kind)
  if kind == "script" then return of_script(text) end
  return of_blocks(text)
end

return flags
