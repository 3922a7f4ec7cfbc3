--- What an adapter's answer depends on, as text: equal texts, equal answers. A store finds answers by its hash (DESIGN.md,
--- section 6), ranks compare it.
local contract <const> = require "tangram.contract"
local core <const> = require "tangram.core"
local programs <const> = require "tangram.program"

local identity <const> = {}

local write

local function write_table(value, out)
  local names <const> = {}
  for name in pairs(value) do names[#names + 1] = name end
  table.sort(names, function(a, b)
    if type(a) ~= type(b) then return type(a) < type(b) end
    return a < b
  end)
  out[#out + 1] = "{"
  for _, name in ipairs(names) do
    write(name, out)
    write(value[name], out)
  end
  out[#out + 1] = "}"
end

--- Appends a value; no two different ones read the same. Functions (methods) say nothing.
function write(value, out)
  local kind <const> = math.type(value) or type(value)
  if kind == "table" then
    write_table(value, out)
  elseif kind == "string" then
    out[#out + 1] = ("s%d:%s"):format(#value, value)
  elseif kind == "float" then
    out[#out + 1] = ("f%.17g,"):format(value)
  elseif kind ~= "function" then
    out[#out + 1] = kind == "userdata" and "null," or ("%s,"):format(value)
  end
end

--- The canonical text of a value made of tables, strings, numbers and booleans.
---@param value any
---@return string
function identity.text(value)
  local out <const> = {}
  write(value, out)
  return table.concat(out)
end

--- All of an island but for its place and its names.
local function of_island(island)
  local copy <const> = {}
  for name, value in pairs(island) do copy[name] = value end
  for _, name in ipairs { "index", "name", "nodes", "node_indices" } do copy[name] = nil end
  return copy
end

--- Which numbers of microbatches a run tries says nothing about the answers at one of them.
local function of_training(training)
  local copy <const> = {}
  for name, value in pairs(training) do copy[name] = value end
  copy.microbatches = nil
  return copy
end

local function of_plugin(plugin)
  return {
    name = plugin.name, source = plugin.source, options = plugin.options,
    program = plugin.program and programs.files(plugin.program),
  }
end

--- The constants in use, as text; a cost model that can't list them is known by its source and options alone.
local function constants_of(problem, island, ctx)
  local ok <const>, text <const> = core.guarded(problem.seconds, problem.memory_bytes, function()
    return identity.text(problem.cost.constants(island, ctx))
  end)
  return ok and text or false
end

--- A function that identifies a problem's queries: identify(slice, ctx) -> scope, description, rest (core.enumerate). ctx is
--- the adapter's view of the island at a number of microbatches.
---@param problem tangram.Problem prepared
function identity.of(problem)
  local common <const> = core.sha256(identity.text {
    contract.api, of_plugin(problem.parallelizer), of_plugin(problem.cost_plugin), problem.model, problem.atoms,
    of_training(problem.training), problem.target or false,
  })
  local scopes <const> = {}
  local function scope_of(island, ctx)
    local key <const> = (ctx.microbatches * #problem.islands + island.index - 1) * 2 + (ctx.tied_link and 1 or 0)
    local scope = scopes[key]
    if not scope then
      scope = {
        digest = core.sha256(common .. identity.text {
          of_island(island), ctx.microbatches, ctx.capacity_bytes, ctx.tied_link or false, ctx.budget.seconds,
          constants_of(problem, island, ctx),
        }),
        description = core.json_encode {
          parallelizer = problem.parallelizer.name, cost = problem.cost.name, model = problem.model.name,
          island = ("%d × %s"):format(island.gpus, island.gpu), microbatches = ctx.microbatches,
        },
      }
      scopes[key] = scope
    end
    return scope
  end
  return function(slice, island, ctx)
    local scope <const> = scope_of(island, ctx)
    return scope.digest, scope.description, ("%s|%d|%.17g"):format(slice.signature, ctx.successors, ctx.budget.share)
  end
end

return identity
