--- What plugins may use: made anew for each, so that none can change what another sees, and without anything that reaches
--- files, other scripts, bytecode, the clock or the random numbers of others.
local core <const> = require "tangram.core"
local plain <const> = require "tangram.plain"

local sandbox <const> = {}

--- What of the engine plugins may call: arithmetic.
local engine_names <const> = {
  "bears", "knapsack", "max_inflight", "max_successors", "nearest", "no_limit", "operators", "pareto", "partition",
  "partition_table", "split", "terms",
}

local function pick(from, names)
  local copy <const> = {}
  for _, name in ipairs(names) do copy[name] = from[name] end
  return copy
end

--- The library's functions that loop in C, where no limit on time is seen, must not loop over what isn't there.
local function check_plain(t, name)
  if type(t) == "table" and getmetatable(t) ~= nil then
    error(("table.%s: got a table with a metatable, expected a plain one"):format(name), 3)
  end
end

local function guarded_table()
  local copy <const> = plain(table)
  for _, name in ipairs { "concat", "insert", "remove", "sort" } do
    local original <const> = table[name]
    copy[name] = function(t, ...)
      check_plain(t, name)
      return original(t, ...)
    end
  end
  copy.move = function(from, first, last, at, to)
    check_plain(from, "move")
    check_plain(to, "move")
    local count <const> = type(from) == "table" and math.tointeger(last) and #from - math.tointeger(last) or 0
    if count < 0 then error(("table.move: got a last index of %d, expected at most %d"):format(last, #from), 2) end
    if to == nil then return table.move(from, first, last, at) end
    return table.move(from, first, last, at, to)
  end
  return copy
end

--- The functions of strings.
function sandbox.strings()
  local copy <const> = plain(string)
  copy.dump = nil
  copy.rep = function(text, count, separator)
    if text == "" and (separator or "") == "" then return "" end
    return string.rep(text, count, separator)
  end
  return copy
end

local function guarded_math()
  local copy <const> = plain(math)
  copy.random, copy.randomseed = nil, nil -- ctx.rng is the plugin's own
  return copy
end

--- Finalizers run where no limit is seen.
local function guarded_setmetatable(t, metatable)
  if type(metatable) == "table" and rawget(metatable, "__gc") ~= nil then
    error("setmetatable: got a metatable with __gc, expected one without: plugins have no finalizers", 2)
  end
  return setmetatable(t, metatable)
end

--- The handler runs behind the failed call, not in it: inside, the hook that ends what runs too long is off.
local function guarded_xpcall(f, handler, ...)
  local function pass(ok, ...)
    if ok then return true, ... end
    return false, handler(...)
  end
  return pass(pcall(f, ...))
end

local function guarded_getmetatable(value)
  if type(value) == "table" then return getmetatable(value) end
  return nil
end

--- Modules of the library that plugins load for themselves, run anew in each plugin's environment.
local open_modules <const> = {
  ["tangram.catalog"] = true, ["tangram.divisors"] = true, ["tangram.floors"] = true, ["tangram.foremost"] = true,
  ["tangram.profile"] = true, ["tangram.strategies"] = true, ["tangram.target.stage"] = true,
}

local function is_open(name)
  local folder <const> = name:match "^tangram%.([%w_]+)%.[%w_]+$"
  return open_modules[name] or folder == "aceso" or folder == "catalog" or folder == "formulas" or folder == "galvatron"
end

local function source_of(name)
  local text <const> = core.library_source(name)
  if text then return text end
  local path <const> = assert(package.searchpath(name, package.path))
  local file <close> = assert(io.open(path, "rb"))
  return file:read "a"
end

local function load_module(plugin, name, env)
  if name == "tangram.core" then
    return pick(core, engine_names)
  elseif name == "tangram.units" or name == "tangram.schema" then
    return plain(require(name)) -- what they need themselves is not for plugins
  elseif type(name) == "string" and is_open(name) then
    return assert(load(source_of(name), "@" .. name, "t", env))(name)
  end
  error(("%s: require '%s': plugins can load only tangram's formulas, catalogue, aceso, divisors, galvatron, profile, strategies, "
    .. "target, floors, schema, units and core"):format(plugin, type(name) == "string" and name or type(name)), 3)
end

--- A new environment.
---@param plugin string its file, for messages
---@param granted table<string, table>? modules for this plugin alone
---@return table
function sandbox.environment(plugin, granted)
  local env <const> = pick(_G, {
    "assert", "error", "ipairs", "next", "pairs", "pcall", "rawequal", "rawget", "rawlen", "rawset", "select", "tonumber",
    "tostring", "type", "_VERSION",
  })
  env.getmetatable, env.setmetatable, env.xpcall = guarded_getmetatable, guarded_setmetatable, guarded_xpcall
  env.math, env.string, env.table, env.utf8 = guarded_math(), sandbox.strings(), guarded_table(), plain(utf8)
  local loaded <const> = {}
  env.require = function(name)
    if name == nil then error("require: got nothing, expected the name of a module", 2) end
    if loaded[name] == nil then loaded[name] = granted and granted[name] or load_module(plugin, name, env) end
    return loaded[name]
  end
  env._G = env
  return env
end

return sandbox
