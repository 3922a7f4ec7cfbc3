--- Cluster files: tangram.cluster/1, a plan (its cluster), or a Lua file that returns such a table (or a recipe that holds it
--- as `cluster`).
local cluster <const> = require "tangram.cluster"
local files <const> = require "tangram.files"

local cluster_json <const> = {}

local function from_lua(path)
  local chunk <const>, why <const> = loadfile(path)
  if not chunk then error(why, 0) end
  local result <const> = chunk(path)
  if type(result) ~= "table" then error(path .. ": expected the file to return a table", 0) end
  return type(result.cluster) == "table" and result.cluster or result
end

--- The full description of the cluster in a file. Raises one line that names file and field.
---@param path string *.lua is run as Lua (it is the user's own), all else is JSON
---@return table description see `cluster.describe`
function cluster_json.read(path)
  if path:match "%.lua$" then return cluster.describe(from_lua(path), path) end
  local input <const> = files.table(path)
  return cluster.describe(input.format == "tangram.plan/1" and input.cluster or input, path)
end

return cluster_json
