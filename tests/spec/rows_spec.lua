local core <const> = require "tangram.core"
local rows <const> = require "tests.oracle.rows"
local support <const> = require "tests.spec.support"

local MICROBATCHES <const> = { 1, 2, 3, 4, 6, 8, 16, 64 }

--- What a table keeps of the slice's rows, as lists of ways. It knows the transfers inside the island unless `apart`.
local function kept_by(simulated, problem, microbatches, apart)
  local tables <const> = {}
  local function table_of(island)
    local content <const>, bytes <const>, rates <const>, most = {}, {}, {}, -1
    for i = 1, problem.atoms do content[i], bytes[i - 1] = i, i > 1 and problem.bytes[i - 1] or nil end
    for n = 1, island.gpus do rates[n] = 1 / island.inner_s end
    for _, one in ipairs(problem.islands) do most = most + one.gpus end
    local one <const> = core.partition_table { content = content, devices = island.gpus, node = island.gpus,
      microbatches = microbatches, most_successors = math.max(most, 0), most_stages = 8, idle = true, simulated = simulated,
      boundary_bytes = not apart and bytes or nil, intra_bytes_per_s = rates, inter_bytes_per_s = rates, intra_latency_s = 0,
      inter_latency_s = 0 }
    for first = 1, problem.atoms do
      for last = first, problem.atoms do
        for gpus = 1, island.gpus do
          local options <const> = {}
          for w, way in ipairs(island.ways[rows.key(first, last, gpus)]) do
            options[w] = { time_s = way.forward_s + way.backward_s, forward_s = way.forward_s, sync_s = way.sync_s,
              max_successors = way.bears, strategy = w, recomputed = 0 }
          end
          one:set(first, last, gpus, options)
        end
      end
    end
    return one
  end
  return function(island, first, last, successors)
    tables[island] = tables[island] or table_of(island)
    local list <const> = tables[island]:plans(first, last, successors)
    for _, plan in ipairs(list) do
      for s, one in ipairs(plan) do
        local to <const> = one.first + one.atoms - 1
        plan[s] = { way = island.ways[rows.key(one.first, to, one.devices)][one.strategy], last = to }
      end
    end
    return list
  end
end

local function best_s(problem, microbatches, rows_of)
  local result <const> = assert(core.compose(rows.instance(problem, microbatches, rows_of), { gap = 0 }))
  return result.found and result.time_s or math.huge
end

-- Not proved, but measured: of 3200 such problems (400 seeds, each B) 2 were missed, by up to 1.6 %, and 4 by a table that knows
-- nothing of transfers inside an island; by bottleneck, latency and largest sync 59, by up to 12 %.
describe("the rows of stages that are kept", function()
  it("compose to what all rows do, where bottleneck, latency and sync alone lose it", function()
    local lost, tried = 0, 0
    for seed = 1, support.scale(60) do
      local problem <const> = rows.problem(seed, 5, 3)
      local every <const> = {}
      local function all(island, first, last)
        local key <const> = rows.key(first, last, 0)
        every[island] = every[island] or {}
        every[island][key] = every[island][key] or rows.every(island, first, last)
        return every[island][key]
      end
      local microbatches <const> = MICROBATCHES[seed % #MICROBATCHES + 1]
      local least_s <const> = best_s(problem, microbatches, all)
      if least_s < math.huge then
        tried = tried + 1
        local own_s <const> = best_s(problem, microbatches, kept_by(true, problem, microbatches))
        assert(own_s <= least_s * (1 + 1e-9), ("seed %d: %.17g, all rows %.17g"):format(seed, own_s, least_s))
        local papers_s <const> = best_s(problem, microbatches, kept_by(false, problem, microbatches))
        lost = lost + (papers_s > least_s * (1 + 1e-9) and 1 or 0)
      end
    end
    assert.is_true(tried > support.scale(40))
    if support.scale(10) >= 10 then assert.is_true(lost > 0) end
  end)
end)
