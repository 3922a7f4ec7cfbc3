--- GPUs' own constants from a file of `tangram calibrate`.
local constants <const> = require "tangram.catalog.constants"
local schema <const> = require "tangram.schema"

local own <const> = {}

local FIELDS <const> = {
  constants = { type = "map", item = { type = "number", min = 0 }, check = constants.check, required = true, doc = "values by name" },
}

--- The table of a file, by GPU type; raises one line.
---@param path string
---@return table<string, { constants: table<string, number> }>
function own.read(path)
  local chunk <const>, why <const> = loadfile(path, "t", {})
  if not chunk then error(why, 0) end
  local ok <const>, value <const> = pcall(chunk)
  if not ok or type(value) ~= "table" then error(path .. ": expected a table by GPU type, as tangram calibrate writes it", 0) end
  for gpu, record in pairs(value) do schema.check(record, FIELDS, ("%s: %s"):format(path, tostring(gpu))) end
  return value
end

return own
