--- The search of one partition into islands: what the engine's enumeration asks, answered by the loaded plugins.
local core <const> = require "tangram.core"
local identities <const> = require "tangram.identity"
local slices <const> = require "tangram.slice"

local search <const> = {}

---@class tangram.Problem what a search is about
---@field model table the model's description
---@field atoms table[] core.atoms
---@field cluster userdata core.cluster
---@field islands tangram.Island[]
---@field training table resolved
---@field microbatches integer[] falling
---@field parallelizer table plugin
---@field cost table plugin, wrapped (tangram.cost)
---@field policies table[] plugins
---@field log fun(text: string)

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
    problem.tied_links[i] = slowest_link(problem, island)
  end
end

--- The ctx that plugins see, one for each island and number of microbatches; each plugin gets its own view of it.
---@param problem tangram.Problem prepared
---@param island tangram.Island
---@param microbatches integer
function search.context(problem, island, microbatches)
  local training <const> = problem.training
  return {
    model = problem.model, atoms = problem.atoms, islands = problem.islands, training = training,
    microbatches = microbatches, samples = training.global_batch // microbatches, successors = 0,
    capacity_bytes = problem.capacity_bytes[island.index], cost = problem.cost,
    log = function(text) (problem.note or problem.log)(tostring(text)) end,
    budget = { share = 1, seconds = problem.seconds }, tied_link = problem.model.tied and problem.tied_links[island.index] or nil,
  }
end

local function views(problem)
  local made <const> = {}
  --- The view of a plugin: options and memo of its own.
  return function(plugin, island, microbatches)
    local key <const> = microbatches * #problem.islands + island - 1
    local of_plugin = made[plugin]
    if not of_plugin then
      of_plugin = {}
      made[plugin] = of_plugin
    end
    local view = of_plugin[key]
    if not view then
      view = search.context(problem, problem.islands[island], microbatches)
      view.options, view.memo = plugin.options, {}
      of_plugin[key] = view
    end
    return view
  end
end

--- Whether all stages of an answer were priced by the chosen cost model.
local function priced_by_cost(problem, answer)
  for _, plan in ipairs(answer) do
    for _, stage in ipairs(plan) do
      if not problem.cost.made(stage) then return false end
    end
  end
  return true
end

--- While the result is open, what plugins log goes to lines: it belongs to the answer, and is kept with it.
local function noting(problem, lines)
  problem.note = function(text) lines[#lines + 1] = text:gsub("%c", " ") end
  return setmetatable({}, { __close = function() problem.note = nil end })
end

--- A query as the adapter gets it.
local function asker(problem, slice_of, view_of)
  local total_flops = 0
  for _, atom in ipairs(problem.atoms) do total_flops = total_flops + atom.flops end
  return function(island, first, last, microbatches, successors)
    local ctx <const> = view_of(problem.parallelizer, island, microbatches)
    ctx.successors = successors
    local flops = 0 -- summed from the slice's first atom on, so that equal slices have equal shares
    for i = first, last do flops = flops + problem.atoms[i].flops end
    ctx.budget.share = flops / total_flops
    return slice_of(first, last), problem.islands[island], ctx
  end
end

--- core.enumerate's plan.
local function planner(problem, query_of)
  local adapter <const> = problem.parallelizer
  local function ask(slice, island, ctx)
    if adapter.supports then
      local yes <const>, why <const> = adapter.supports(slice, island, ctx)
      if not yes then return nil, why end
    end
    return adapter.plan(slice, island, ctx)
  end
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
    local answer <const>, why <const> = ask(slice, place, ctx)
    local own_times <const> = type(answer) == "table" and not priced_by_cost(problem, answer)
    return answer, why, own_times, #lines > 0 and table.concat(lines, "\n") or nil
  end
end

--- keep, key and bound of all policies in one function each; nil where no policy has it.
local function policies(problem, slice_of, view_of)
  local having <const> = function(name)
    local list <const> = {}
    for _, policy in ipairs(problem.policies) do
      if policy[name] and (problem.bounds or not policy.by_cost) then list[#list + 1] = policy end
    end
    return #list > 0 and list or nil
  end
  local pair_of <const> = function(island, first, last)
    return { slice = slice_of(first, last), island = problem.islands[island] }
  end
  local keeping <const>, keyed <const>, bounding <const> = having "keep", having "key", having "bound"
  local keep <const> = keeping and function(island, first, last, microbatches)
    local pair <const> = pair_of(island, first, last)
    for _, policy in ipairs(keeping) do
      if not policy.keep(pair, view_of(policy, island, microbatches)) then return policy.name end
    end
  end
  local key <const> = keyed and function(island, first, last)
    local pair <const>, keys <const> = pair_of(island, first, last), {}
    for i, policy in ipairs(keyed) do keys[i] = policy.key(pair, view_of(policy, island, problem.microbatches[1])) end
    return table.concat(keys, "|")
  end
  local bound <const> = bounding and function(island, first, last, microbatches)
    local pair <const>, most = pair_of(island, first, last), 0
    for _, policy in ipairs(bounding) do
      most = math.max(most, policy.bound(pair, view_of(policy, island, microbatches)))
    end
    return most
  end
  return keep, key, bound
end

local function fields_of(list, name, count)
  local values <const> = {}
  for i = 1, count or #list do values[i] = list[i][name] end
  return values
end

--- Searches one partition. The result is core.enumerate's; nil, why for a plugin that failed where no pair can bear it.
---@param problem tangram.Problem
---@param options table gap, top, cutoff, time_limit_s, objective, p2p, warmup, left_out, progress
---@return table? result, string? why
function search.run(problem, options)
  local cache <const> = {}
  local function slice_of(first, last)
    local key <const> = first * (#problem.atoms + 1) + last
    local slice = cache[key]
    if not slice then
      slice = slices.new(problem.model, problem.atoms, first, last)
      cache[key] = slice
    end
    return slice
  end
  search.prepare(problem)
  local found <const> = { own_times = false }
  local view_of <const> = views(problem)
  local keep <const>, key <const>, bound <const> = policies(problem, slice_of, view_of)
  local function link(from, to, latency_s, bytes_per_s)
    return problem.cost.link(
      { from = problem.islands[from], to = problem.islands[to], latency_s = latency_s, bytes_per_s = bytes_per_s },
      view_of(problem.cost_plugin, from, problem.microbatches[1]))
  end
  local function answered(own_times, notes)
    found.own_times = found.own_times or own_times and problem.bounds
    for line in (notes or ""):gmatch "[^\n]+" do problem.log(line) end
  end
  local query_of <const> = asker(problem, slice_of, view_of)
  local identify <const> = problem.store and identities.of(problem)
  local result <const>, why <const> = core.enumerate {
    cluster = problem.cluster, islands = problem.islands, capacity_bytes = problem.capacity_bytes,
    flops = fields_of(problem.atoms, "flops"),
    boundary_bytes = fields_of(problem.atoms, "boundary_bytes", #problem.atoms - 1),
    global_batch = problem.training.global_batch, microbatches = problem.microbatches,
    gap = options.gap, top = options.top, cutoff = options.cutoff, time_limit_s = options.time_limit_s,
    objective = options.objective, p2p = options.p2p, warmup = options.warmup, left_out = options.left_out, any = options.any,
    plan = planner(problem, query_of), store = problem.store,
    identity = identify and function(...) return identify(query_of(...)) end,
    answered = answered, keep = keep, key = key, bound = bound, link = link,
    progress = options.progress,
  }
  if result and found.own_times then
    -- the bounds came from another cost model than the times: search again without them
    problem.bounds = false
    problem.log(("%s: its times don't come from the cost model %s, so no pair is dropped by a bound"):format(
      problem.parallelizer.name, problem.cost.name))
    return search.run(problem, options)
  end
  return result, why
end

return search
