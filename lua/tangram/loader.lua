--- Finds and loads plugins: parallelizers, cost models, pruning policies. A plugin is one file that returns one table; it
--- runs without io, os, debug and bytecode, and can't change what others see.
local contract <const> = require "tangram.contract"
local core <const> = require "tangram.core"
local files <const> = require "tangram.files"
local plain <const> = require "tangram.plain"
local programs <const> = require "tangram.program"
local sandbox <const> = require "tangram.sandbox"

local loader <const> = {}

local folders <const> = { parallelizer = "parallelizers", cost = "cost", prune = "prune" }

local places = nil ---@type string[]?
local shipped <const> = {} -- folders of the plugins that come with this library

--- Where plugins are looked up, first to last. The program sets its own folder and the installed one.
function loader.set_places(list)
  places = list
  for _, place in ipairs(list) do shipped[place] = true end
end

--- Looks up plugins in dir before anywhere else.
function loader.add_place(dir) table.insert(loader.places(), 1, dir) end

--- The folders in which plugins are looked up. In stock Lua: the installed one, beside this library.
---@return string[]
function loader.places()
  if not places then
    local here <const> = package.searchpath("tangram.loader", package.path) or ""
    local share <const> = here:match "^(.*)/lua/5%.4/tangram/loader%.lua$"
    loader.set_places { share and share .. "/tangram" or "." }
  end
  return places
end

local function readable(path)
  local file <const> = io.open(path, "rb")
  if not file then return nil end
  local text <const> = file:read "a" -- nil for a folder
  file:close()
  return text
end

--- Path and text of the plugin's source; nil and why where no plugin has the name. Raises one line for a file that can't be read.
local function find(kind, name)
  if name:match "/" or name:match "%.lua$" then return name, files.read(name) end
  for _, place in ipairs(loader.places()) do
    for _, path in ipairs { place .. "/" .. folders[kind] .. "/" .. name .. ".lua", place .. "/" .. name .. ".lua" } do
      local text <const> = readable(path)
      if text then return path, text end
    end
  end
  local known <const> = loader.list(kind)
  local near <const> = core.nearest(name, known)
  return nil, ("unknown %s '%s', expected one of %s%s"):format(contract.nouns[kind], name, table.concat(known, ", "),
    near and (" (did you mean '%s'?)"):format(near) or "")
end

--- Whether a plugin may run the program that the user's own spec gives it, which the shipped process adapter alone may.
local function may_run(kind, path)
  local place <const> = kind == "parallelizer" and path:match "^(.*)/parallelizers/process%.lua$"
  return place and shipped[place] or false
end

--- Names of the plugins of a kind, by letters.
---@param kind "parallelizer"|"cost"|"prune"
---@return string[]
function loader.list(kind)
  local seen <const>, names <const> = {}, {}
  for _, place in ipairs(loader.places()) do
    for _, file in ipairs(core.list_folder(place .. "/" .. folders[kind])) do
      local name <const> = file:match "^([%w_-]+)%.lua$"
      if name and not seen[name] then
        seen[name] = true
        names[#names + 1] = name
      end
    end
  end
  table.sort(names)
  return names
end

--- A plugin from its source, under limits; its options are still the schema. Raises one line if it breaks its contract.
local function open(kind, path, text, values, runs)
  local words <const> = runs and programs.words(values.command)
  local granted <const> = runs and { ["tangram.program"] = programs.bind(words or {}) }
  local chunk <const>, why <const> = load(text, "@" .. path, "t", sandbox.environment(path, granted))
  if not chunk then error(why, 0) end
  local limits <const> = contract.limits
  local ok <const>, checked <const>, cut <const> = core.guarded(limits.seconds, limits.memory_bytes, function()
    return contract.check_plugin(kind, plain(chunk()), path)
  end)
  if not ok then error(cut and ("%s: %s"):format(path, checked) or checked, 0) end
  checked.path, checked.source, checked.program, checked.runs = path, text, words or nil, runs
  return checked
end

--- A plugin from its source, and values for its options. Raises as `load` does.
---@param kind "parallelizer"|"cost"|"prune"
---@param path string its file
---@param text string its source
---@param values table
---@param runs boolean? it may run the program of its options
---@return table plugin as load's, but for `request`
function loader.make(kind, path, text, values, runs)
  local plugin <const>, limits <const> = open(kind, path, text, values, runs), contract.limits
  local ok <const>, options <const>, cut <const> = core.guarded(limits.seconds, limits.memory_bytes, contract.check_options, plugin,
    values, path) -- a schema may have functions
  if not ok then error(cut and ("%s: %s"):format(path, options) or options, 0) end
  plugin.option_fields, plugin.options = plugin.options, options
  return plugin
end

--- What a plugin says of itself: name, description, and the schema of its options. Raises as `load` does.
---@param kind "parallelizer"|"cost"|"prune"
---@param name string a name or a path
---@return table { name, description, options = schema }
function loader.describe(kind, name)
  local path <const>, text <const> = find(kind, name)
  if not path then error(text, 0) end
  local plugin <const> = open(kind, path, text, {}, may_run(kind, path))
  return { name = plugin.name, description = plugin.description, options = plugin.options }
end

--- Loads a plugin by name or path and fills in its options. Raises one line for a plugin that breaks its contract.
---@param kind "parallelizer"|"cost"|"prune"
---@param request string|table a name, a path, or { name =, options = { … } }
---@return table plugin as loader.make's; `request` is its name as asked for
function loader.load(kind, request)
  local name <const> = type(request) == "table" and request.name or request
  if type(name) ~= "string" then
    error(("%s: got a %s, expected a name or { name =, options = }"):format(contract.nouns[kind], type(name)), 0)
  end
  local values <const> = type(request) == "table" and request.options or {}
  local path <const>, text <const> = find(kind, name)
  if not path then error(text, 0) end
  local plugin <const> = loader.make(kind, path, text, values, may_run(kind, path))
  plugin.request = name
  return plugin
end

return loader
