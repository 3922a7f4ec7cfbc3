--- The search for a plan that a runtime can run: the modes of branch.lua, most promising first, each a search with the best of
--- those before as its cutoff. A mode that cannot beat that, or fit, is not searched, if the policies that tell so are in use.
local floors <const> = require "tangram.floors"
local searches <const> = require "tangram.search"
local strategies <const> = require "tangram.strategies"
local targets <const> = require "tangram.target.branch"

local targeted <const> = {}

--- Differences of sums may be off by their rounding.
local ROUNDED <const> = 1 - 1e-9

local function policy_of(problem, name)
  for _, policy in ipairs(problem.policies) do
    if policy.name == name and policy.safe and problem.bounds and problem.cost.additive then return policy end
  end
end

--- The sum over atoms of the least of what the islands ask for, each weighted; 0 islands: nothing can be done.
local function least_sum(lists, atoms)
  local sum = 0
  for i = 1, #lists > 0 and atoms or 0 do
    local least = math.huge
    for _, one in ipairs(lists) do least = math.min(least, one.weight * (one.sums[i] - one.sums[i - 1])) end
    sum = sum + least
  end
  return sum
end

--- Seconds that no iteration of a plan in this mode is under: prune/bounded.lua's (3) for all atoms, times B.
local function bound_s(problem, sight, microbatches)
  local lists <const>, atoms <const>, stage_s = {}, #problem.atoms, math.huge
  local speed = 0
  for i = 1, #problem.islands do
    local on <const> = floors.time(sight.island(i), sight.context(i, microbatches))
    local whole_s <const> = on.share_s[atoms]
    if whole_s < math.huge then
      lists[#lists + 1] = { sums = on.share_s, weight = 1 / whole_s }
      speed, stage_s = speed + 1 / whole_s, math.min(stage_s, on.stage_s)
    end
  end
  if #lists == 0 then return math.huge end
  return microbatches * (least_sum(lists, atoms) / speed + stage_s) * ROUNDED
end

--- Whether the cluster's memory could hold the model in this mode: prune/infeasible.lua's sum for all atoms, on the islands
--- where that is least.
local function may_fit(problem, sight, policy, microbatches)
  local lists <const>, room = {}, 0
  for i, island in ipairs(problem.islands) do
    local ctx <const> = sight.context(i, microbatches)
    local sums <const>, stage_bytes <const> = floors.memory(sight.island(i), ctx, 1, policy.options.offload)
    if sums[#problem.atoms] < math.huge then
      lists[#lists + 1] = { sums = sums, weight = 1 }
      room = room + island.gpus * math.max(0, ctx.capacity_bytes - stage_bytes)
    end
  end
  return #lists > 0 and least_sum(lists, #problem.atoms) * ROUNDED <= room
end

--- A mode made ready: its problem, and what is known of it before any search. All its plans take known_s at least.
local function prepare(mode, problem, known_s, order)
  local one <const> = { mode = mode, problem = problem, bounds_s = {}, least_s = known_s, dropped = {}, order = order }
  local bounded <const>, infeasible <const> = policy_of(problem, "bounded"), policy_of(problem, "infeasible")
  local policy <const> = bounded or infeasible
  for _, microbatches in ipairs(problem.microbatches) do one.bounds_s[microbatches] = known_s end
  if not policy then return one end
  local sight <const>, kept <const> = problem.sight(policy), {}
  one.least_s = math.huge
  for _, microbatches in ipairs(problem.microbatches) do
    local least_s <const> = bound_s(problem, sight, microbatches)
    if least_s == math.huge then
      one.dropped[#one.dropped + 1] = "target"
    elseif infeasible and not may_fit(problem, sight, infeasible, microbatches) then
      one.dropped[#one.dropped + 1] = "infeasible"
    else
      kept[#kept + 1] = microbatches
      one.bounds_s[microbatches] = math.max(known_s, bounded and least_s or 0)
      one.least_s = math.min(one.least_s, one.bounds_s[microbatches])
    end
  end
  problem.microbatches = kept
  return one
end

--- Counts the pairs of numbers of microbatches that are not searched.
local function count(outcome, problem, reasons)
  local sum <const>, atoms <const> = outcome.counts, #problem.atoms
  local each <const> = atoms * (atoms + 1) // 2 * #problem.islands
  for _, name in ipairs { "all", "queried", "reused", "saved" } do sum[name] = sum[name] or 0 end
  sum.pruned = sum.pruned or {}
  for _, reason in ipairs(reasons) do
    sum.all, sum.pruned[reason] = sum.all + each, (sum.pruned[reason] or 0) + each
  end
end

--- Leaves the numbers of microbatches that may beat the best so far, to within the gap.
local function cut(one, outcome, gap)
  local best_s <const> = outcome.best and outcome.best.best.time_s or math.huge
  local kept <const>, reasons <const> = {}, one.dropped
  for _, microbatches in ipairs(one.problem.microbatches) do
    local least_s <const> = one.bounds_s[microbatches]
    if least_s < best_s * (1 - gap) or best_s == math.huge then
      kept[#kept + 1] = microbatches
    else
      outcome.bound_s = math.min(outcome.bound_s, least_s)
      reasons[#reasons + 1] = "bounded"
    end
  end
  one.problem.microbatches, one.dropped = kept, {}
  count(outcome, one.problem, reasons)
  return #kept > 0
end

--- Is a mode to be searched after another? Those with the least bound come first, of about equal ones those with large stages,
--- which are searched quickest: an early best time cuts the others short.
local function later(a, b)
  local function step(one) return one.least_s > 0 and one.least_s < math.huge and math.log(one.least_s, 1.25) // 1 or one.least_s end
  if step(a) ~= step(b) then return step(a) > step(b) end
  local x <const>, y <const> = a.mode.gpus or 0, b.mode.gpus or 0
  if x ~= y then return x < y end
  if a.least_s ~= b.least_s then return a.least_s > b.least_s end
  return a.order > b.order
end

--- The stages of a plan, as branch.lua looks at them.
local function stages_of(problem, best)
  local batch <const>, atoms <const> = problem.training.global_batch, problem.atoms
  local list <const> = { samples = batch // best.microbatches, global_batch = batch }
  for _, chosen in ipairs(best.plans) do
    local first, counts <const> = chosen.first, {}
    for s, stage in ipairs(chosen.stages) do counts[s] = stage.gpus end
    local places <const> = assert(problem.cluster:place(problem.islands[chosen.island], counts, chosen.idle))
    for s, stage in ipairs(chosen.stages) do
      local last <const> = first + stage.atoms - 1
      local has_embedding <const>, has_head <const>, hosts <const> = first == 1, last == #atoms, {}
      for i, range in ipairs(places[s]) do hosts[i] = range.machine end
      list[#list + 1] = {
        gpus = stage.gpus, strategy = stage.strategy, moe = strategies.has_moe(atoms, first, last),
        layers = stage.atoms - (has_embedding and 1 or 0) - (has_head and 1 or 0), has_embedding = has_embedding, has_head = has_head,
        island = problem.islands[chosen.island].name, hosts = hosts,
      }
      first = last + 1
    end
  end
  return list
end

--- Searches one partition for plans that meet the setting's rules; the best goes to the outcome.
---@param setting table planner.setting
---@param partition table islands.group
---@param outcome table planner.search's
---@param problem_of fun(mode: table): tangram.Problem
---@param search fun(problem: tangram.Problem): table? one search with the outcome's cutoff; nil: out of time
function targeted.search(setting, partition, outcome, problem_of, search)
  local rules <const>, gap <const> = setting.rules, setting.spec.gap
  local waiting <const>, made = {}, 0
  local function add(modes, least_s)
    for _, mode in ipairs(modes) do
      made = made + 1
      waiting[#waiting + 1] = prepare(mode, problem_of(mode), least_s, made)
    end
    table.sort(waiting, later)
  end
  add(targets.roots(setting.spec.target, rules, partition.islands, setting.model), 0)
  while #waiting > 0 and not outcome.stopped do
    local one <const> = table.remove(waiting)
    local result <const> = cut(one, outcome, gap) and search(one.problem)
    local function parts_for(choice) return targets.branch(rules, one.mode, stages_of(one.problem, choice), setting.model) end
    local parts <const> = result and result.found and parts_for(result.best)
    if parts then
      add(parts, result.bound_s)
      if parts.partial then outcome.bound_s = math.min(outcome.bound_s, result.bound_s) end
    elseif result then
      outcome.bound_s = math.min(outcome.bound_s, result.bound_s)
      if result.found then
        outcome.best, outcome.partition, outcome.problem = result, partition, one.problem
        for i = #result.top, 1, -1 do -- of those that are listed beside the best, some may break a rule
          if parts_for(result.top[i]) then table.remove(result.top, i) end
        end
      end
    end
  end
  if outcome.stopped then outcome.bound_s = 0 end
end

--- For each island that the best plan leaves out, the best with it in the mode of that plan: stages of the same size and degrees.
---@param outcome table planner.search's, with a plan
---@param options table search.run's
function targeted.work_out_left_out(outcome, options)
  local used <const> = {}
  for _, chosen in ipairs(outcome.best.best.plans) do used[chosen.island] = true end
  for i in ipairs(outcome.problem.islands) do
    if not used[i] then
      local again <const> = searches.run(outcome.problem, options)
      outcome.best.left_out = again and again.left_out
      return
    end
  end
end

return targeted
