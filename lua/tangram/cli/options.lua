--- What commands share: parsing with status 2 on wrong words, reading and writing files, --set.
local argparse <const> = require "argparse"
local core <const> = require "tangram.core"

local options <const> = {}

--- A parser whose errors are one line and whose exit status is 2.
---@param name string "tangram plan"
---@param description string
---@param example string
function options.parser(name, description, example)
  local parser <const> = argparse(name, description, "example: " .. example)
  parser:help_max_width(100)
  parser:usage_max_width(100)
  return parser
end

--- Parses, or ends the program as argparse does: 0 after --help, 2 for wrong words.
---@return table
function options.parse(parser, args)
  local ok <const>, result <const> = parser:pparse(args)
  if ok then return result end
  io.stderr:write(parser._name, ": ", (result:gsub("\n", "; ")), "; see '", parser._name, " --help'\n")
  os.exit(2, true)
end

--- A converter of argparse: the whole number in a word, or nil and one line that names the option.
function options.whole(name)
  return function(text)
    local count <const> = math.tointeger(tonumber(text))
    if count then return count end
    return nil, ("%s: got '%s', expected a whole number"):format(name, text)
  end
end

--- The text of a file; raises one line.
function options.read(path)
  if path == "-" then return io.read "a" end
  local file <const>, why <const> = io.open(path, "rb")
  if not file then error(why .. ", expected a readable file", 0) end
  local text <const> = file:read "a"
  file:close()
  if not text then error(path .. ": is a folder, expected a file", 0) end
  return text
end

--- Writes through a temporary file beside it, renamed when complete; "-" is standard output. Raises one line.
function options.write(path, text)
  if path == "-" then
    io.stdout:write(text)
    return
  end
  local temporary <const> = path .. ".tmp"
  local file <const>, why <const> = io.open(temporary, "wb")
  if not file then error(why .. ", expected a place to write to", 0) end
  local ok <const> = file:write(text) and file:close()
  if not ok or not os.rename(temporary, path) then
    os.remove(temporary)
    error(path .. ": can't write it (is the disk full?)", 0)
  end
end

--- "a,b" as a list of its words.
function options.list(text)
  local items <const> = {}
  for item in text:gmatch "[^,]+" do items[#items + 1] = item end
  return items
end

--- The value of --set key=value: JSON where it is JSON, else a string.
local function value_of(word)
  local value <const>, why <const> = core.json_decode(word)
  if why then return word end
  return value
end

--- "training.seq_len=4096" as a function that sets it in a spec.
---@param word string
---@return fun(spec: table)
function options.setter(word)
  local path <const>, value <const> = word:match "^([%w_.]+)=(.*)$"
  if not path then error(("--set: got '%s', expected key=value, e.g. training.seq_len=4096"):format(word), 0) end
  return function(spec)
    local at = spec
    local parts <const> = {}
    for part in path:gmatch "[^.]+" do parts[#parts + 1] = part end
    for i = 1, #parts - 1 do
      if i == 1 and (parts[i] == "parallelizer" or parts[i] == "cost") and type(at[parts[i]]) ~= "table" then
        at[parts[i]] = { name = at[parts[i]] or require("tangram.planner").fields[parts[i]].default }
      end
      if type(at[parts[i]]) ~= "table" then at[parts[i]] = {} end
      at = at[parts[i]]
    end
    at[parts[#parts]] = value_of(value)
  end
end

--- Runs a command's body; a raised line is bad input (status 2).
---@param name string
---@param body fun(): integer?
---@return integer exit status
function options.guard(name, body)
  local ok <const>, result <const> = pcall(body)
  if ok then return result or 0 end
  local text <const> = tostring(result)
  io.stderr:write(name, ": ", text, "\n")
  return text:match "^internal" and 1 or 2
end

return options
