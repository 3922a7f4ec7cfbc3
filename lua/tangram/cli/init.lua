--- The program's entry: finds the command and runs it. A command is a file of this folder that returns what
--- `options.entry` makes.
local commands <const> = {
  "plan", "compare", "islands", "compose", "simulate", "explain", "validate", "calibrate", "report", "export", "cluster",
  "model", "adapter", "store", "run", "repl", "version",
}

local function usage(out)
  out:write("Usage: tangram COMMAND [OPTION ...]   (tangram COMMAND --help for one command)\n\n")
  for _, name in ipairs(commands) do
    out:write(("  %-10s %s\n"):format(name, require("tangram.cli." .. name).summary))
  end
end

--- A script as lua5.4 runs it: arg[0] is its name; the file's own arguments follow.
local function run_script(path)
  local chunk <const>, why <const> = loadfile(path)
  if not chunk then
    io.stderr:write("tangram: ", why, "\n")
    return 2
  end
  local shifted <const> = {}
  for i = 0, #arg do shifted[i - 1] = arg[i] end
  _G.arg = shifted
  chunk(table.unpack(shifted))
  return 0
end

---@param program_dir string? the folder of the program, for plugins beside it
---@param install_dir string the installed plugins
---@return integer exit status
return function(program_dir, install_dir)
  require("tangram.loader").set_places { program_dir or install_dir, install_dir }
  local name, words = arg[1], { table.unpack(arg, 2) }
  if name == "help" and words[1] then -- `help cluster import` is `cluster import --help`
    name = table.remove(words, 1)
    words[#words + 1] = "--help"
  end
  if not name or name == "help" or name == "--help" or name == "-h" then
    usage(name and io.stdout or io.stderr)
    return name and 0 or 2
  elseif name == "--version" then
    return require("tangram.cli.version").run {}
  end
  for _, command in ipairs(commands) do
    if command == name then return require("tangram.cli." .. name).run(words) end
  end
  local file <const> = io.open(name, "r")
  if file then
    file:close()
    return run_script(name)
  end
  local near <const> = require("tangram.core").nearest(name, commands)
  io.stderr:write(("tangram: unknown command '%s'%s; 'tangram --help' lists them\n"):format(
    name, near and (", did you mean '" .. near .. "'?") or ""))
  return 2
end
