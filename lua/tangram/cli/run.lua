--- `tangram run`: a Lua script with the library at hand, its further words in arg.
local options <const> = require "tangram.cli.options"

local function run(words)
  local path <const> = words[1]
  if not path or path == "--help" or path == "-h" then
    local out <const> = path and io.stdout or io.stderr
    out:write("Usage: tangram run SCRIPT.lua [WORD ...]\n\nRun a Lua script; require \"tangram\" gives the library.\n\n",
      "Example: tangram run sweep.lua 64 128\n")
    return path and 0 or 2
  end
  local chunk <const>, why <const> = loadfile(path, "t")
  if not chunk then error(why, 0) end
  _G.arg = { [0] = path, table.unpack(words, 2) }
  local recipe <const> = require "tangram.recipe"
  local ok <const>, failure <const> = pcall(chunk, table.unpack(words, 2))
  if ok then return 0 end
  local text <const>, status <const> = recipe.explain(failure)
  io.stderr:write("tangram run: ", text, "\n")
  return status
end

return options.entry("tangram run", "run a Lua script with the library", run)
