--- Asks an adapter for the plans of a pair: core.enumerate's `plan`, in a worker's state.
local costs <const> = require "tangram.cost"
local strategies <const> = require "tangram.strategies"
local target <const> = require "tangram.target.stage"

local asking <const> = {}

local MOST_LINES <const> = 100 -- of what plugins log in one query

--- A generator of uniform numbers in [0, 1), the same for the same seed on every machine (xorshift64*).
local function generator(seed)
  local state = 0
  for i = 1, #seed do state = (state ~ seed:byte(i)) * 1099511628211 end
  if state == 0 then state = 1 end
  return function()
    state = state ~ (state >> 12)
    state = state ~ (state << 25)
    state = state ~ (state >> 27)
    return ((state * 2685821657736338717) >> 11) * 2.0 ^ -53
  end
end

--- Whether all stages of an answer were priced by the chosen cost model. Calls no metamethod of the adapter's.
local function priced_by_cost(problem, answer)
  for p = 1, rawlen(answer) do
    local plan <const> = rawget(answer, p)
    for s = 1, type(plan) == "table" and rawlen(plan) or 0 do
      if not problem.cost.made(rawget(plan, s)) then return false end
    end
  end
  return true
end

--- While the result is open, what plugins log goes to lines: it belongs to the answer, and is kept with it.
local function noting(problem, lines)
  local outer <const> = problem.note
  problem.note = function(text)
    if #lines < MOST_LINES then lines[#lines + 1] = tostring(text):sub(1, 300):gsub("%c", " ") end
  end
  return setmetatable({}, { __close = function() problem.note = outer end })
end

local function answer_of(adapter, slice, island, ctx)
  if adapter.supports then
    local yes <const>, why <const> = adapter.supports(slice, island, ctx)
    if not yes then return nil, why end
  end
  return adapter.plan(slice, island, ctx)
end

--- Layers of atoms first..last.
local function layers_of(atoms, first, last)
  return last - first + 1 - (atoms[first].kind == "embedding" and 1 or 0) - (atoms[last].kind == "head" and 1 or 0)
end

--- What the target can't run of a plan; nil also for what is no plan at all, which the engine refuses.
local function broken(plan, mode, slice, atoms)
  if type(plan) ~= "table" then return nil end
  local first = slice.first
  for s = 1, rawlen(plan) do
    local stage <const> = rawget(plan, s)
    local count <const> = type(stage) == "table" and math.tointeger(rawget(stage, "atoms"))
    local last <const> = count and first + count - 1
    if not last or last < first or last > slice.last then return nil end
    local ok <const>, met <const>, what <const> = pcall(function()
      return target.meets(mode, {
        strategy = costs.complete(stage.strategy), layers = layers_of(atoms, first, last),
        moe = strategies.has_moe(atoms, first, last), has_embedding = first == 1, has_head = last == #atoms,
      }, slice.model)
    end)
    if ok and not met then return what end
    first = last + 1
  end
  return nil
end

--- The plans that the target can run. How many it can't, by what is wrong, goes to lines, for the report's sums.
local function filtered(problem, answer, slice, lines)
  local kept <const>, dropped <const>, order <const> = {}, {}, {}
  for p = 1, rawlen(answer) do
    local what <const> = broken(rawget(answer, p), problem.target, slice, problem.atoms)
    if not what then kept[#kept + 1] = rawget(answer, p) end
    if what and not dropped[what] then order[#order + 1] = what end
    if what then dropped[what] = (dropped[what] or 0) + 1 end
  end
  for _, what in ipairs(order) do lines[#lines + 1] = ("\t%d\t%s"):format(dropped[what], what) end
  if #order > 0 and #kept == 0 then
    return nil, ("%s can run none of its %d plans: %s"):format(problem.target.name, rawlen(answer), table.concat(order, ", "))
  end
  return kept
end

--- A function that gives a query as the adapter gets it: slice, island, ctx.
---@param problem tangram.Problem with the fields that workers need (tangram.worker)
---@return fun(island: integer, first: integer, last: integer, microbatches: integer, successors: integer): ...
function asking.queries(problem)
  local sight <const> = problem.sight(problem.parallelizer)
  local total_flops = 0
  for _, atom in ipairs(problem.atoms) do total_flops = total_flops + atom.flops end
  return function(island, first, last, microbatches, successors)
    local ctx <const> = sight.context(island, microbatches, last - first + 1 == #problem.atoms)
    local flops = 0 -- summed from the slice's first atom on, so that equal slices have equal shares
    for i = first, last do flops = flops + problem.atoms[i].flops end
    ctx.successors, ctx.budget = successors, { share = flops / total_flops, seconds = problem.seconds }
    return sight.slice(first, last), sight.island(island), ctx
  end
end

--- The function that answers queries.
---@param problem tangram.Problem
---@param query_of function of `queries`
---@return fun(island: integer, first: integer, last: integer, microbatches: integer, successors: integer): ...
function asking.plan(problem, query_of)
  local adapter <const> = problem.parallelizer
  return function(island, first, last, microbatches, successors)
    local slice <const>, place <const>, ctx <const> = query_of(island, first, last, microbatches, successors)
    local seed <const> = ("%s|%s|%d|%d"):format(slice.signature, place.signature, microbatches, successors)
    local random
    ctx.rng = function()
      random = random or generator(seed)
      return random()
    end
    local lines <const> = {}
    local _ <close> = noting(problem, lines)
    local answer, why = answer_of(adapter, slice, place, ctx)
    local own_times <const> = type(answer) == "table" and not priced_by_cost(problem, answer)
    if problem.target and type(answer) == "table" then answer, why = filtered(problem, answer, slice, lines) end
    return answer, why, own_times, #lines > 0 and table.concat(lines, "\n") or nil
  end
end

return asking
