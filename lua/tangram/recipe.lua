--- Runs recipes: the user's own scripts, with full Lua, under a limit on time that planning doesn't count against.
local core <const> = require "tangram.core"
local planner <const> = require "tangram.planner"

local recipe <const> = {}

--- What stops a recipe without being its fault: no plan (status 3 or 4).
local no_plan_class <const> = { __tostring = function(self) return self.why end, __name = "tangram.NoPlan" }

local session <const> = { overrides = {}, hooks = nil, plans = {} }

--- Sets what overrides the tables of tangram.plan, and the hooks of planning, until the next call.
---@param overrides fun(spec: table)[] applied in order to a copy of the spec
---@param hooks table?
function recipe.configure(overrides, hooks)
  session.overrides, session.hooks, session.plans = overrides or {}, hooks, {}
end

local function copy(value)
  if type(value) ~= "table" then return value end
  local result <const> = setmetatable({}, getmetatable(value))
  for key, item in pairs(value) do result[key] = copy(item) end
  return result
end

--- tangram.plan: see there.
function recipe.plan(spec)
  if type(spec) ~= "table" then
    error(("tangram.plan: got a %s, expected a table { model =, cluster =, training =, … }"):format(type(spec)), 2)
  end
  local own <const> = copy(spec)
  for _, override in ipairs(session.overrides) do override(own) end
  local plan <const>, why <const>, status <const> = core.unlimited(planner.plan, own, session.hooks)
  if not plan then error(setmetatable({ why = why, status = status }, no_plan_class), 0) end
  session.plans[#session.plans + 1] = plan
  return plan
end

--- Why a recipe ended without a plan: sentence and exit status.
---@param failure any what was raised
---@return string why, integer status
function recipe.explain(failure)
  if getmetatable(failure) == no_plan_class then return failure.why, failure.status end
  return tostring(failure), 2
end

local function is_plan(value) return type(value) == "table" and value.format == "tangram.plan/1" end

--- Runs a recipe's file.
---@param path string
---@param seconds number limit on its own time
---@return table? plan the one it returns
---@return any failure what to give to recipe.explain
function recipe.run(path, seconds)
  local chunk <const>, why <const> = loadfile(path, "t")
  if not chunk and why:find ":1: unexpected symbol near '[{%[]'$" then
    return nil, path .. ": looks like JSON, expected a recipe, a Lua script that returns tangram.plan { … }"
  elseif not chunk then
    return nil, why
  end
  local ok <const>, result <const> = core.limited(seconds, chunk, path)
  if not ok and result == "time limit reached" then
    return nil, ("%s: still running after %g s of its own time, expected an end"):format(path, seconds)
  elseif not ok then
    return nil, result
  end
  if not is_plan(result) then
    return nil, ("%s: returns %s, expected the plan of tangram.plan { … }"):format(path,
      result == nil and "nothing" or "a " .. type(result))
  end
  return result
end

return recipe
