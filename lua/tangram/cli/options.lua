--- What commands share: parsing with status 2 on wrong words, the plan to read, where output goes, --set.
local argparse <const> = require "argparse"
local core <const> = require "tangram.core"
local files <const> = require "tangram.files"

local options <const> = {}

--- Help ends with notes and examples, whose lines, unlike all else, are not wrapped: they are for copying.
local function with_examples(parser, examples, notes)
  local get_help <const> = parser.get_help
  function parser.get_help(self)
    return ("%s\n%s\nExample: %s"):format(get_help(self), notes and "\n" .. notes .. "\n" or "",
      (examples:gsub("\n", "\n         ")))
  end
  return parser
end

--- A parser whose errors are one line and whose exit status is 2.
---@param name string "tangram plan"
---@param description string
---@param examples string a line each
function options.parser(name, description, examples)
  local parser <const> = argparse(name, description):help_max_width(100):usage_max_width(100)
  return with_examples(parser, examples)
end

--- Adds a command of a command.
---@param parser table
---@param name string
---@param description string
---@param examples string a line each
---@param notes string?
function options.command(parser, name, description, examples, notes)
  parser:require_command(true):command_target "command"
  return with_examples(parser:command(name, description), examples, notes)
end

--- "--gap -1" as "--gap=-1": a number behind an option is its value, where argparse takes it for an option.
local function with_negatives(words)
  local joined <const> = {}
  for _, word in ipairs(words) do
    local before <const> = joined[#joined]
    if before and before:find "^%-%-[%w-]+$" and word:find "^%-[%d.]" then
      joined[#joined] = before .. "=" .. word
    else
      joined[#joined + 1] = word
    end
  end
  return joined
end

--- Parses, or ends the program as argparse does: 0 after --help, 2 for wrong words.
---@return table
function options.parse(parser, words)
  local ok <const>, result <const> = parser:pparse(with_negatives(words))
  if ok then return result end
  io.stderr:write(parser._name, ": ", (result:gsub("\n", "; ")), "; see '", parser._name, " --help'\n")
  os.exit(2, true)
end

--- A converter of argparse: the number in a word, or nil and one line that names the option.
---@param name string "--gap"
---@param least number?
function options.number(name, least)
  return function(text)
    local value <const> = tonumber(text)
    if value and value >= (least or value) then return value end
    return nil, ("%s: got '%s', expected a number%s"):format(name, text, least and (" of at least %g"):format(least) or "")
  end
end

local LARGEST <const> = math.maxinteger >> 32 -- that the engine counts with

--- The same for a whole number.
function options.whole(name, least)
  return function(text)
    local value <const> = math.tointeger(tonumber(text))
    if value and value >= (least or -LARGEST) and value <= LARGEST then return value end
    return nil, ("%s: got '%s', expected a whole number%s"):format(name, text, least and (" of at least %d"):format(least)
      or value and (" up to %d"):format(LARGEST) or "")
  end
end

--- The plan in a file, which core.plan_check finds right; raises one line.
---@param path string
---@param text string? of the file, where it has been read
---@return table plan
---@return string text
function options.plan(path, text)
  text = text or files.read(path)
  local plan <const> = files.decode(text, path)
  local right <const>, wrong <const> = core.plan_check(text)
  if not right then error(("%s: %s"):format(path, wrong), 0) end
  return plan, text
end

--- Refuses places for output that can't be written to, before the work is done, and more than one output on standard output.
---@param args table parsed
---@param ... string options that name a place
---@return boolean piped standard output belongs to one of them
function options.outputs(args, ...)
  local piped
  for _, name in ipairs { ... } do
    local path <const> = args[name]
    if path == "-" and piped then
      error(("--%s and --%s: both got '-', expected standard output for one of them"):format(piped, name), 0)
    elseif path == "-" then
      piped = name
    elseif path then
      local may <const>, why <const> = core.may_write(path)
      if not may then error(why, 0) end
    end
  end
  return piped ~= nil
end

--- "a,b" as a list of its words.
function options.list(text)
  local items <const> = {}
  for item in text:gmatch "[^,]+" do items[#items + 1] = item end
  return items
end

--- Looks for plugins in the folder of --lua-dir first, where it is given.
---@param args table parsed
function options.use_lua_dir(args)
  if not args.lua_dir then return end
  if not core.list_folder(args.lua_dir)[1] then error(("--lua-dir: %s: no such folder"):format(args.lua_dir), 0) end
  require("tangram.loader").add_place(args.lua_dir)
end

--- "key=value": the key, and the value, JSON where it is JSON, else a string. Raises one line.
---@param option string "--set"
---@param word string
---@return string key
---@return any value
function options.assignment(option, word)
  local key <const>, text <const> = word:match "^([%w_.]+)=(.*)$"
  if not key then error(("%s: got '%s', expected KEY=VALUE"):format(option, word), 0) end
  local value <const>, why <const> = core.json_decode(text)
  return key, why and text or value
end

--- "training.seq_len=4096" as a function that sets it in a spec.
---@param word string
---@return fun(spec: table)
function options.setter(word)
  local path <const>, value <const> = options.assignment("--set", word)
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
    at[parts[#parts]] = value
  end
end

--- A command: what runs its words; a line that its body raises is bad input (status 2).
---@param name string "tangram plan"
---@param summary string
---@param body fun(words: string[]): integer?
---@return { summary: string, run: fun(words: string[]): integer } run gives the exit status
function options.entry(name, summary, body)
  return { summary = summary, run = function(words) return options.guard(name, body, words) end }
end

--- Runs a command's body; a line that it raises is bad input.
---@return integer exit status
function options.guard(name, body, ...)
  local ok <const>, result <const> = pcall(body, ...)
  if ok then return result or 0 end
  local text <const> = tostring(result)
  io.stderr:write(name, ": ", text, "\n")
  return text:match "^internal" and 1 or 2
end

return options
