--- A worker's state: a problem as one text, and from it, in a state of its own, the function that answers queries. No Lua
--- value goes from one state to another.
local asking <const> = require "tangram.asking"
local core <const> = require "tangram.core"
local costs <const> = require "tangram.cost"
local identities <const> = require "tangram.identity"
local islands <const> = require "tangram.island"
local loader <const> = require "tangram.loader"
local sandbox <const> = require "tangram.sandbox"
local views <const> = require "tangram.views"

local worker <const> = {}

--- Plain data as a Lua expression that gives it back to the last bit; keys in order, so that equal data give equal texts.
local function literal(value)
  if value == core.null then return "null" end
  if type(value) ~= "table" then return ("%q"):format(value) end
  local keys <const>, parts <const> = {}, {}
  for key in next, value do keys[#keys + 1] = key end
  table.sort(keys, function(a, b)
    if type(a) ~= type(b) then return type(a) == "number" end
    return a < b
  end)
  for i, key in ipairs(keys) do parts[i] = ("[%q]=%s"):format(key, literal(value[key])) end
  return "{" .. table.concat(parts, ",") .. "}"
end

local carried_fields <const> = { "model", "atoms", "islands", "training", "microbatches", "capacity_bytes", "tied_links", "seconds",
  "memory_bytes", "target" }

--- The text that `open` takes.
---@param problem tangram.Problem prepared
---@return string
function worker.describe(problem)
  local carried <const> = {}
  for _, name in ipairs(carried_fields) do carried[name] = problem[name] end
  for _, name in ipairs { "parallelizer", "cost_plugin" } do
    local plugin <const> = problem[name]
    carried[name] = { path = plugin.path, source = plugin.source, options = plugin.options, runs = plugin.runs }
  end
  return "return " .. literal(carried)
end

--- The functions that answer queries about the problem, and that identify them for a store (tg_identity).
---@param text string of `describe`
---@return function plan, function identify
function worker.open(text)
  getmetatable("").__index = sandbox.strings() -- methods of strings are plugins' too
  local problem <const> = assert(load(text, "=problem", "t", { null = core.null }))()
  for i, record in ipairs(problem.islands) do problem.islands[i] = islands.new(record) end
  for name, kind in pairs { parallelizer = "parallelizer", cost_plugin = "cost" } do
    local plugin <const> = problem[name]
    problem[name] = loader.make(kind, plugin.path, plugin.source, plugin.options, plugin.runs)
  end
  problem.note = function() end
  problem.sight = views.new(problem)
  problem.cost = costs.wrap(problem.cost_plugin, problem.cost_plugin.options, problem.sight(problem.cost_plugin))
  local query_of <const>, identify <const> = asking.queries(problem), identities.of(problem)
  return asking.plan(problem, query_of), function(...) return identify(query_of(...)) end
end

return worker
