--- Finds and loads plugins: parallelizers, cost models, pruning policies. A plugin is one file that returns one table; it
--- runs without io, os, debug and bytecode, and can't change what others see.
local contract <const> = require "tangram.contract"
local core <const> = require "tangram.core"
local programs <const> = require "tangram.program"

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

local function shallow(t)
  local copy <const> = {}
  for key, value in pairs(t) do copy[key] = value end
  return copy
end

--- What of the engine plugins may call: arithmetic, nothing that reaches files or other scripts.
local engine_functions <const> = {
  "bears", "knapsack", "max_inflight", "nearest", "operators", "pareto", "partition", "partition_table", "terms",
}

--- A copy of one of the library's modules for one plugin.
local function module_for_plugins(plugin, module)
  if module == "tangram.core" then
    local copy <const> = {}
    for _, name in ipairs(engine_functions) do copy[name] = core[name] end
    return copy
  elseif type(module) == "string" and (module:match "^tangram%.formulas%." or module:match "^tangram%.catalog%f[%.%z]"
        or module:match "^tangram%.aceso%." or module:match "^tangram%.galvatron%." or module == "tangram.strategies"
        or module == "tangram.floors" or module == "tangram.units" or module == "tangram.profile") then
    return shallow(require(module))
  end
  error(("%s: require '%s': plugins can load only tangram's formulas, catalogue, aceso, galvatron, strategies, floors, units "
    .. "and core"):format(plugin, tostring(module)), 3)
end

--- What a plugin may use, made anew for each, so that none can patch it for another.
local function environment(name, granted)
  local env <const> = {
    assert = assert, error = error, ipairs = ipairs, next = next, pairs = pairs, pcall = pcall, print = nil,
    rawequal = rawequal, rawget = rawget, rawlen = rawlen, rawset = rawset, select = select, setmetatable = setmetatable,
    tonumber = tonumber, tostring = tostring, type = type, xpcall = xpcall, _VERSION = _VERSION,
    math = shallow(math), string = shallow(string), table = shallow(table), utf8 = shallow(utf8),
  }
  env.string.dump = nil
  env.getmetatable = function(value)
    if type(value) == "table" then return getmetatable(value) end
    return nil
  end
  local loaded <const> = {}
  env.require = function(module)
    if not loaded[module] then loaded[module] = granted[module] or module_for_plugins(name, module) end
    return loaded[module]
  end
  env._G = env
  return env
end

--- Path and text of the plugin's source.
local function find(kind, name)
  if name:match "/" or name:match "%.lua$" then
    local text <const> = readable(name)
    if not text then return nil, ("%s: no such file, expected a %s plugin"):format(name, kind) end
    return name, text
  end
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

--- What the plugin of that path gets that others don't: the shipped process adapter may run the program that the user's own
--- spec gives it, and only that.
local function grants_of(kind, path, values)
  local place <const> = kind == "parallelizer" and path:match "^(.*)/parallelizers/process%.lua$"
  if not (place and shipped[place]) then return {} end
  local words <const> = programs.words(values.command)
  return { ["tangram.program"] = programs.bind(words or {}) }, words
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

--- Runs a plugin's file and checks what it returns; its options are still the schema.
local function open(kind, name, values)
  local path <const>, text <const> = find(kind, name)
  if not path then error(text, 0) end
  local granted <const>, words <const> = grants_of(kind, path, values)
  local chunk <const>, why <const> = load(text, "@" .. path, "t", environment(path, granted))
  if not chunk then error(why, 0) end
  local ok <const>, plugin <const> = pcall(chunk)
  if not ok then error(("%s: %s"):format(path, tostring(plugin)), 0) end
  local checked <const> = contract.check_plugin(kind, plugin, path)
  checked.path, checked.source, checked.request, checked.program = path, text, name, words
  return checked
end

--- What a plugin says of itself: name, description, and the schema of its options. Raises as `load` does.
---@param kind "parallelizer"|"cost"|"prune"
---@param name string a name or a path
---@return table { name, description, options = schema }
function loader.describe(kind, name)
  local plugin <const> = open(kind, name, {})
  return { name = plugin.name, description = plugin.description, options = plugin.options }
end

--- Loads a plugin by name or path and fills in its options. Raises one line for a plugin that breaks its contract.
---@param kind "parallelizer"|"cost"|"prune"
---@param request string|table a name, a path, or { name =, options = { … } }
---@return table plugin checked; its `options` are values, `option_fields` the schema, `path` and `source` its file
function loader.load(kind, request)
  local name <const> = type(request) == "table" and request.name or request
  if type(name) ~= "string" then
    error(("%s: got a %s, expected a name or { name =, options = }"):format(contract.nouns[kind], type(name)), 0)
  end
  local values <const> = type(request) == "table" and request.options or {}
  local checked <const> = open(kind, name, values)
  checked.option_fields = checked.options
  checked.options = contract.check_options(checked, values, checked.path)
  return checked
end

return loader
