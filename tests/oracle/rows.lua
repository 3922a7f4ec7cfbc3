--- Small whole-cluster problems and every row of stages of them, to hold against those that a table of the engine keeps:
--- random times, each other kind of trouble by the seed (uneven atoms, slow links, large syncs, memory that bounds successors).
local core <const> = require "tangram.core"
local instances <const> = require "tests.oracle.instances"

local rows <const> = {}

local array_type <const> = getmetatable(core.json_decode "[]")
local function array(list) return setmetatable(list, array_type) end

local NO_LIMIT <const> = 64 -- more stages than there ever are

--- Ways of a stage: fast with a large sync, slow with a small one, recomputing where memory asks for it.
local function ways_of(work, parameters, gpus, island, of)
  local forward_s <const> = work / (island.speed * gpus * island.efficiency[gpus]) + 0.002
  local bears <const> = of.limited and of.random(0, 3) or NO_LIMIT
  local list <const> = {}
  local function add(slower, backward, sync_s, most)
    list[#list + 1] = { forward_s = forward_s * slower, backward_s = forward_s * slower * backward, sync_s = sync_s, bears = most }
  end
  add(1, island.ratio, of.sync * parameters * (gpus > 1 and 1 or 0.3), bears)
  if gpus > 1 then add(island.slower, island.ratio, of.sync * parameters / gpus, bears) end
  if bears < NO_LIMIT then add(1, island.ratio + 1, of.sync * parameters * (gpus > 1 and 1 or 0.3), NO_LIMIT) end
  return list
end

--- { atoms, islands = { { gpus, inner_s, ways } }, bytes, link_s }; ways by rows.key.
function rows.problem(seed, most_atoms, most_gpus)
  local random <const> = instances.random(seed)
  local problem <const> = { atoms = random(3, most_atoms), islands = {}, bytes = {}, link_s = {} }
  local even <const>, work <const>, parameters <const> = random(0, 2) == 0, {}, {}
  for i = 1, problem.atoms do
    work[i] = even and 1 or 0.4 + 1.2 * random()
    parameters[i] = work[i] * (0.5 + random())
    problem.bytes[i] = 0.8 + 0.4 * random()
  end
  if random(0, 1) == 0 then work[1], parameters[1] = 0.1, 1.5 end -- as an embedding's
  local link_s <const> = ({ 0.002, 0.03, 0.1, 0.4 })[random(1, 4)]
  local inner_s <const> = link_s * ({ 0.01, 0.1, 0.3 })[random(1, 3)]
  local of <const> = { random = random, sync = ({ 0, 0.3, 1, 4 })[random(1, 4)], limited = random(0, 1) == 0 }
  local count <const> = random(1, 3)
  for k = 1, count do
    local island <const> = { gpus = random(1, most_gpus), speed = 0.5 + 1.5 * random(), inner_s = inner_s * (0.5 + random()),
      ratio = 1 + random(), slower = 1.05 + 0.3 * random(), efficiency = { 1 }, ways = {} }
    for d = 2, island.gpus do island.efficiency[d] = 0.7 + 0.3 * random() end
    for i = 1, problem.atoms do
      local sum, held = 0, 0
      for j = i, problem.atoms do
        sum, held = sum + work[j], held + parameters[j]
        for d = 1, island.gpus do island.ways[rows.key(i, j, d)] = ways_of(sum, held, d, island, of) end
      end
    end
    problem.islands[k], problem.link_s[k] = island, {}
    for other = 1, count do problem.link_s[k][other] = link_s * (0.5 + random()) end
  end
  return problem
end

function rows.key(first, last, gpus) return (first << 8 | last) << 8 | gpus end

--- Every row of stages of the slice, on all or some of the GPUs.
---@return table[] rows lists of { way, last }
function rows.every(island, first, last)
  local found <const>, row <const> = {}, {}
  local function extend(from, left)
    if from > last then
      found[#found + 1] = { table.unpack(row) }
      return
    end
    for to = from, last do
      for gpus = 1, left do
        for _, way in ipairs(island.ways[rows.key(from, to, gpus)]) do
          row[#row + 1] = { way = way, last = to }
          extend(to + 1, left - gpus)
          row[#row] = nil
        end
      end
    end
  end
  extend(first, island.gpus)
  return found
end

--- The composer's problem of rows_of(island, first, last, successors), each row where it is listed.
---@return string tangram.instance/1
function rows.instance(problem, microbatches, rows_of)
  local plans <const>, most = array {}, -1
  local instance <const> = { format = "tangram.instance/1", atoms = problem.atoms, microbatches = microbatches,
    boundary_bytes = array { table.unpack(problem.bytes, 1, problem.atoms - 1) }, islands = {}, links = {}, plans = plans }
  for k, island in ipairs(problem.islands) do
    most = most + island.gpus
    instance.islands[k], instance.links[k] = "i" .. k, {}
    for other = 1, #problem.islands do
      instance.links[k][other] = other == k and core.null or { latency_s = 0, bytes_per_s = 1 / problem.link_s[k][other] }
    end
  end
  for k, island in ipairs(problem.islands) do
    for first = 1, problem.atoms do
      for last = first, problem.atoms do
        for successors = last < problem.atoms and 1 or 0, last < problem.atoms and most or 0 do
          for _, row in ipairs(rows_of(island, first, last, successors)) do
            local stages <const>, inner <const> = {}, {}
            local fits = true
            for s, one in ipairs(row) do
              local way <const> = one.way
              fits = fits and way.bears >= successors + #row - s
              stages[s] = { forward_s = way.forward_s, backward_s = way.backward_s, sync_s = way.sync_s }
              if s < #row then inner[s] = island.inner_s * problem.bytes[one.last] end
            end
            if fits then
              plans[#plans + 1] = { island = k - 1, first = first - 1, last = last, gpus = 1, stages = stages,
                inner_transfer_s = array(inner), min_successors = successors, max_successors = successors }
            end
          end
        end
      end
    end
  end
  return core.json_encode(instance)
end

return rows
