--- The REPL without its terminal: chunks, completion, results. `terminal` is the program's module tangram.terminal.
local core <const> = require "tangram.core"
local help <const> = require "tangram.help"
local pretty <const> = require "tangram.pretty"

local repl <const> = {}

--- Compiles what was typed: as an expression, else as statements.
---@param text string
---@return function? chunk
---@return string? why
---@return boolean? incomplete more lines may complete it
function repl.compile(text)
  local chunk = load("return " .. text, "=stdin", "t")
  if chunk then return chunk end
  local why
  chunk, why = load(text, "=stdin", "t")
  if chunk then return chunk end
  return nil, why, why:find "<eof>$" ~= nil
end

--- A field as an index would find it, without calling anyone's __index function.
local function field(value, key)
  for _ = 1, 8 do -- a chain of __index tables may be a ring
    if type(value) == "table" and rawget(value, key) ~= nil then return rawget(value, key) end
    local meta <const> = getmetatable(value)
    value = type(meta) == "table" and meta.__index
    if type(value) ~= "table" then return nil end
  end
end

--- Names that stand behind a value's dot, or colon (methods only).
local function names_in(value, methods)
  local names <const>, seen <const> = {}, {}
  for _ = 1, 8 do
    if type(value) == "table" then
      for name, item in next, value do
        if type(name) == "string" and name:find "^[%a_][%w_]*$" and not seen[name] and (not methods or type(item) == "function") then
          seen[name] = true
          names[#names + 1] = name
        end
      end
    end
    local meta <const> = getmetatable(value)
    value = type(meta) == "table" and meta.__index
    if type(value) ~= "table" then break end
  end
  return names
end

local keywords <const> = {
  "and", "break", "do", "else", "elseif", "end", "false", "for", "function", "goto", "if", "in", "local", "nil", "not", "or", "repeat",
  "return", "then", "true", "until", "while",
}

--- The names that fit behind `path` ("plan.stages[1].", "tangram:", ""), or nil.
local function names_behind(path, globals)
  if path == "" then return table.move(keywords, 1, #keywords, 1 + #names_in(globals), names_in(globals)) end
  local value, first = globals, true
  for sign, name, index in path:sub(1, -2):gmatch "([.:%[]?)([%a_]*[%w_]*)%]?()" do
    if name ~= "" then
      if (sign == "") ~= first then return nil end
      value, first = field(value, sign == "[" and math.tointeger(tonumber(name)) or name), false
      if value == nil then return nil end
    elseif index <= #path - 1 then
      return nil
    end
  end
  if first then return nil end -- behind an expression whose value isn't known
  return names_in(value, path:sub(-1) == ":")
end

local function common_prefix(names)
  local prefix = names[1]
  for _, name in ipairs(names) do
    while name:sub(1, #prefix) ~= prefix do prefix = prefix:sub(1, -2) end
  end
  return prefix
end

--- Names in columns of equal width.
local function columns(names)
  local width = 0
  for _, name in ipairs(names) do width = math.max(width, #name + 2) end
  local a_line <const> = math.max(1, pretty.width // width)
  local lines <const> = {}
  for i, name in ipairs(names) do
    local row <const> = (i - 1) // a_line + 1
    lines[row] = (lines[row] or "") .. name .. (" "):rep(width - #name)
  end
  for row, line in ipairs(lines) do lines[row] = line:gsub(" +$", "") end
  return table.concat(lines, "\n")
end

--- Completes the name in front of the cursor.
---@param text string the line up to the cursor
---@param globals table
---@return string? insertion what surely comes next
---@return string? listing the choices, if nothing surely does
function repl.complete(text, globals)
  local path <const>, start <const> = text:match "([%w_%.:%[%]]*[.:])([%a_]?[%w_]*)$"
  local word <const> = start or text:match "([%a_][%w_]*)$" or ""
  local names <const> = {}
  for _, name in ipairs(names_behind(path or "", globals) or {}) do
    if name:sub(1, #word) == word then names[#names + 1] = name end
  end
  if #names == 0 then return nil end
  table.sort(names)
  local insertion <const> = common_prefix(names):sub(#word + 1)
  if insertion ~= "" or #names == 1 then return insertion end
  return nil, columns(names)
end

--- A raised value as people read it: a traceback only where Lua code of theirs is at fault.
local function describe(raised)
  local message <const> = type(raised) == "string" and raised or pretty.show(raised)
  if not message:find "^[^\n]-:%d+: " then return message end
  local trace <const> = debug.traceback(message, 3):gsub("\n%s*%[C%]: in function 'xpcall'.*", "")
  return trace:find "\n.*\n.*\n" and trace or message
end

--- Runs a chunk and prints its values; Ctrl-C stops it.
---@param terminal table
---@param chunk function
---@return boolean ok
---@return string? why
function repl.evaluate(terminal, chunk)
  local results <const> = table.pack(terminal.interruptible(xpcall, chunk, describe))
  if not results[1] or not results[2] then return false, tostring(results[results[1] and 3 or 2]) end
  for i = 3, results.n do print(pretty.show(results[i])) end
  return true
end

--- Reads a chunk, over several lines while it is incomplete.
---@return function|false|nil chunk nil at the end of the input, false if there is nothing to run
---@return string? why
local function read_chunk(line)
  local text, prompt = "", "> "
  while true do
    local typed <const> = line:read(prompt)
    if not typed then return typed end
    if typed:find "%S" then line:add(typed) end
    text = text == "" and typed or text .. "\n" .. typed
    if not text:find "%S" then return false end
    local chunk <const>, why <const>, incomplete <const> = repl.compile(text)
    if chunk then return chunk end
    if not incomplete then return false, why end
    prompt = ">> "
  end
end

--- The file that keeps the history, its folder made; nil where there is no place for one.
local function history_path()
  local home <const> = os.getenv "HOME"
  local state <const> = os.getenv "XDG_STATE_HOME" or home and home .. "/.local/state"
  if not state or state == "" then return nil end
  local folder <const> = state .. "/tangram"
  os.execute(("mkdir -p -m 700 -- '%s' 2>/dev/null"):format(folder:gsub("'", "'\\''")))
  return folder .. "/history"
end

--- Puts help, show and tangram among the globals.
function repl.prepare()
  _G.tangram = require "tangram"
  function _G.help(x) print(help.text(x)) end
  function _G.show(x, depth) print(pretty.show(x, depth)) end
end

--- Talks to a person until Ctrl-D.
---@param terminal table
function repl.interact(terminal)
  print(("tangram %s, %s; help() helps, Ctrl-D leaves"):format(core.version, _VERSION))
  local line <close> = terminal.open(function(text) return repl.complete(text, _G) end, history_path())
  while true do
    local chunk <const>, refused <const> = read_chunk(line)
    if chunk == nil then break end
    local ok, why = true, refused
    if chunk then ok, why = repl.evaluate(terminal, chunk) end
    if not ok or refused then io.stderr:write(why, "\n") end
  end
  print()
end

--- Runs all of the standard input as a script.
---@param terminal table
---@return boolean ok
---@return string? why
function repl.run_script(terminal)
  local chunk <const>, why <const> = load(io.read "a", "=stdin", "t")
  if not chunk then return false, why end
  local _, ok <const>, raised <const> = terminal.interruptible(xpcall, chunk, describe)
  if ok then return true end
  return false, tostring(raised)
end

return repl
