--- What each plugin sees of a problem: copies of its own, so that whatever it does to them is its own affair.
local costs <const> = require "tangram.cost"
local islands <const> = require "tangram.island"
local plain <const> = require "tangram.plain"
local slices <const> = require "tangram.slice"

local views <const> = {}

---@class tangram.Sight one plugin's view of a problem
---@field slice fun(first: integer, last: integer): tangram.Slice
---@field island fun(index: integer): tangram.Island
---@field context fun(island: integer, microbatches: integer, whole: boolean?): table the ctx of DESIGN.md, section 5

local function is_place(first, last, count)
  return math.type(first) == "integer" and math.type(last) == "integer" and 1 <= first and first <= last and last <= count
end

local function list_of(items) return table.move(items, 1, #items, 1, {}) end

--- The plugin's own copies. The lists that contexts show are others than those that slices and places are made from.
local function copies(problem)
  local own <const> = { model = plain(problem.model), atoms = plain(problem.atoms), training = plain(problem.training), islands = {},
    target = problem.target and plain(problem.target) }
  for i, island in ipairs(problem.islands) do own.islands[i] = islands.new(plain(island)) end
  own.shown_atoms, own.shown_islands = list_of(own.atoms), list_of(own.islands)
  return own
end

--- The ctx of an island and B. A cost model has no ctx.cost.
local function context(problem, own, plugin, index, microbatches, tied_link, cost)
  return {
    model = own.model, atoms = own.shown_atoms, islands = own.shown_islands, training = own.training, microbatches = microbatches,
    samples = problem.training.global_batch // microbatches, successors = 0, capacity_bytes = problem.capacity_bytes[index],
    cost = cost, log = function(text) problem.note(text) end, budget = { share = 1, seconds = problem.seconds },
    tied_link = plain(tied_link), options = plain(plugin.options), memo = {}, target = own.target,
  }
end

--- The sight of one plugin. What it is shown is made when first asked for.
---@param problem tangram.Problem
---@param plugin table
---@return tangram.Sight
local function sight_of(problem, plugin)
  local own <const>, cut <const>, contexts <const> = copies(problem), {}, {}
  local cost
  local sight <const> = {}
  function sight.island(index) return own.islands[index] end
  function sight.slice(first, last)
    local key <const> = is_place(first, last, #problem.atoms) and first * (#problem.atoms + 1) + last
    if not key then
      error(("got atoms %s..%s, expected a run of the model's %d"):format(tostring(first), tostring(last), #problem.atoms), 0)
    end
    cut[key] = cut[key] or slices.new(own.model, own.atoms, first, last)
    return cut[key]
  end
  -- For the whole model there is no tied_link: both ends of a tied vocabulary are on the one island.
  function sight.context(index, microbatches, whole)
    local tied_link <const> = not whole and problem.model.tied and problem.tied_links[index] or nil
    local key <const> = (microbatches * #own.islands + index - 1) * 2 + (tied_link and 1 or 0)
    if not contexts[key] then
      if plugin.kind ~= "cost" then cost = cost or costs.face(problem.cost) end
      contexts[key] = context(problem, own, plugin, index, microbatches, tied_link, cost)
    end
    return contexts[key]
  end
  return sight
end

--- A function that gives each plugin's sight.
---@param problem tangram.Problem
---@return fun(plugin: table): tangram.Sight
function views.new(problem)
  local made <const> = {}
  return function(plugin)
    made[plugin] = made[plugin] or sight_of(problem, plugin)
    return made[plugin]
  end
end

return views
