--- Files that people name: read and written alike by all that do, with one sentence for each way in which that fails.
local core <const> = require "tangram.core"

local files <const> = {}

--- The text of a file, or of standard input for "-". Raises one line.
---@param path string
---@param largest integer? bytes; more are refused
---@param what string? what was expected of a file that is larger
---@return string
function files.read(path, largest, what)
  local file, why = io.stdin, nil
  if path ~= "-" then file, why = io.open(path, "rb") end
  if not file then error(why .. ", expected a readable file", 0) end
  local text <const>, refused <const> = file:read(largest and largest + 1 or "a") -- nil and nothing more: it is empty
  if path ~= "-" then file:close() end
  if refused then error(("%s: %s, expected a readable file"):format(path, refused), 0) end
  if text and largest and #text > largest then
    error(("%s: over %d KiB, expected %s"):format(path, largest >> 10, what), 0)
  end
  return text or ""
end

--- A place and what core says about JSON from there, which may begin with line and column.
---@param where string
---@param why string
---@return string
function files.at(where, why) return ("%s:%s%s"):format(where, why:find "^%d+:%d+: " and "" or " ", why) end

--- The value that a text of JSON stands for. Raises one line.
---@param text string
---@param where string the file it comes from
---@return any
function files.decode(text, where)
  local value <const>, why <const> = core.json_decode(text)
  if why then error(files.at(where, why), 0) end
  return value
end

--- The table in a file of JSON. Raises one line.
---@param path string
---@param what string? what it should hold
---@return table
function files.table(path, what)
  local value <const> = files.decode(files.read(path), path)
  if type(value) ~= "table" then error(("%s: expected %s"):format(path, what or "an object"), 0) end
  return value
end

--- Writes all of a file or leaves it as it was; "-" is standard output. Raises one line.
---@param path string
---@param text string
function files.write(path, text)
  if path == "-" then
    io.stdout:write(text)
    return
  end
  local written <const>, why <const> = core.write_file(path, text)
  if not written then error(why, 0) end
end

return files
