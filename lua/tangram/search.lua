--- The search of one partition into islands: what the engine's enumeration asks, answered by the loaded plugins.
local core <const> = require "tangram.core"
local plain <const> = require "tangram.plain"
local policies <const> = require "tangram.policies"
local schema <const> = require "tangram.schema"
local worker <const> = require "tangram.worker"

local search <const> = {}

---@class tangram.Problem what a search is about
---@field model table the model's description
---@field atoms table[] core.atoms
---@field cluster userdata core.cluster
---@field islands tangram.Island[]
---@field training table resolved
---@field microbatches integer[] falling
---@field parallelizer table plugin
---@field cost_plugin table plugin
---@field cost table the same, wrapped (tangram.cost)
---@field policies table[] plugins
---@field sight fun(plugin: table): tangram.Sight what each plugin sees
---@field workers integer
---@field seconds number limit of a query, and of a policy's call
---@field memory_bytes number the same
---@field log fun(text: string) for the report
---@field target table? what each stage must be (tangram.target.stage)
---@field unfit fun(what: string, count: integer)? told of plans that the target can't run
---@field note fun(text: string) where plugins' ctx.log goes

--- Slowest link between an island and any other, what tied embeddings are summed over; nil for a single island.
local function slowest_link(problem, island)
  local slowest
  for _, other in ipairs(problem.islands) do
    if other ~= island then
      local one <const> = { nodes = 1, gpus_per_node = 1 }
      local link <const> = problem.cluster:transfer(island, one, other, one)
      if not slowest or link.bytes_per_s < slowest.bytes_per_s then slowest = link end
    end
  end
  return slowest
end

--- Works out what contexts hold of each island.
---@param problem tangram.Problem
function search.prepare(problem)
  problem.capacity_bytes, problem.tied_links = {}, {}
  for i, island in ipairs(problem.islands) do
    problem.capacity_bytes[i] = (1 - problem.training.memory_margin) * island.memory_bytes
    problem.tied_links[i] = slowest_link(problem, island) or false
  end
end

--- The ctx of an island and B as the parallelizer sees it, but new.
---@param problem tangram.Problem
---@param island tangram.Island
---@param microbatches integer
---@param whole boolean? for a slice of the whole model
function search.context(problem, island, microbatches, whole)
  local ctx <const> = {}
  for name, value in pairs(problem.sight(problem.parallelizer).context(island.index, microbatches, whole)) do ctx[name] = value end
  ctx.budget, ctx.memo = plain(ctx.budget), {}
  return ctx
end

local constant_rows <const> = { type = "list", item = { type = "table", fields = {
  name = { type = "string", required = true }, value = { type = "number", required = true }, unit = { type = "string", required = true },
  from = { type = "string", required = true }, source = { type = "string", required = true },
} } }

--- The constants that the cost model has in use on an island; none, and a line in the report, where it fails.
---@param problem tangram.Problem
---@param island tangram.Island
---@return table[] { name, value, unit, from, source }
function search.constants(problem, island)
  local ok <const>, list <const> = core.guarded(problem.seconds, problem.memory_bytes, function()
    return schema.value(problem.cost.constants(island, search.context(problem, island, problem.microbatches[1])), constant_rows,
      "constants_used")
  end)
  if ok then return list end
  problem.log(("cost model '%s': no list of its constants on %s: %s"):format(problem.cost.name, island.name, list))
  return {}
end

local function fields_of(list, name, count)
  local values <const> = {}
  for i = 1, count or #list do values[i] = list[i][name] end
  return values
end

--- By atom, 1 for what can be recomputed.
local function recomputable(atoms)
  local list <const> = {}
  for i, atom in ipairs(atoms) do list[i] = (atom.kind == "embedding" or atom.kind == "head") and 0 or 1 end
  return list
end

--- Searches one partition. The result is core.enumerate's; nil, why for a plugin that failed where no pair can bear it.
---@param problem tangram.Problem
---@param options table gap, top, cutoff, time_limit_s, objective, p2p, warmup, left_out, any, progress, ranks
---@return table? result, string? why
function search.run(problem, options)
  local own_times = false
  local asked <const> = policies.callbacks(problem)
  local function answered(own, notes)
    own_times = own_times or own and problem.bounds
    for line in (notes or ""):gmatch "[^\n]+" do
      local count <const>, what <const> = line:match "^\t(%d+)\t(.*)$" -- no plugin's line has a tab
      if count then problem.unfit(what, tonumber(count)) else problem.log(line) end
    end
  end
  local result <const>, why <const> = core.enumerate {
    cluster = problem.cluster, islands = problem.islands, capacity_bytes = problem.capacity_bytes,
    flops = fields_of(problem.atoms, "flops"), recomputable = recomputable(problem.atoms),
    boundary_bytes = fields_of(problem.atoms, "boundary_bytes", #problem.atoms - 1),
    global_batch = problem.training.global_batch, microbatches = problem.microbatches,
    gap = options.gap, top = options.top, cutoff = options.cutoff, time_limit_s = options.time_limit_s,
    objective = options.objective, p2p = options.p2p, warmup = options.warmup, left_out = options.left_out, any = options.any,
    worker = worker.describe(problem), workers = problem.workers, ranks = options.ranks, store = problem.store,
    query_seconds = problem.seconds, query_memory_bytes = problem.memory_bytes, answered = answered,
    keep = asked.keep, key = asked.key, bound = asked.bound, link = asked.link, progress = options.progress,
  }
  if result and own_times then
    -- the bounds came from another cost model than the times: search again without them
    problem.bounds = false
    problem.log(("%s: its times don't come from the cost model %s, so no pair is dropped by a bound"):format(
      problem.parallelizer.name, problem.cost.name))
    return search.run(problem, options)
  end
  for _, one in ipairs(result and result.unsteady or {}) do
    problem.log(("%s is not steady: atoms %d..%d on %s at %d microbatches got %s; the plan may not be the best"):format(
      problem.parallelizer.name, one.first, one.last, problem.islands[one.island].name, one.microbatches, one.why))
  end
  return result, why
end

return search
