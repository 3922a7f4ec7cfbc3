--- The conformance suite of parallelizers: small models on islands of each kind, asked as a planning asks, and what every
--- answer must hold. `tangram adapter check` prints it.
local contract <const> = require "tangram.contract"
local core <const> = require "tangram.core"
local costs <const> = require "tangram.cost"
local islands <const> = require "tangram.islands"
local plain <const> = require "tangram.plain"
local planner <const> = require "tangram.planner"
local schema <const> = require "tangram.schema"
local search <const> = require "tangram.search"
local slices <const> = require "tangram.slice"

local conformance <const> = {}

local SLACK <const> = 1 + 1e-9
local MOST_PLANS <const> = 10000 -- the engine's limit
local SUCCESSORS <const> = { 2, 1, 0 } -- the other island has two GPUs
local SHARES <const> = { 0.07, 0.2, 1 } -- of a GPU's memory, from too little to plenty

local models <const> = {
  dense = { name = "small GPT", family = "gpt2", layers = 4, hidden = 2048, heads = 16, vocab = 50304, positions = 2048 },
  experts = { name = "small mixture of experts", family = "mixtral", layers = 4, hidden = 1024, heads = 16, kv_heads = 8, ffn = 2048,
    vocab = 32000, experts = 8, experts_per_token = 2, expert_ffn = 2048 },
}

--- name, model, nodes, GPUs of each
local cases <const> = {
  { "one GPU", "dense", 1, 1 }, { "a node of 4 GPUs", "dense", 1, 4 }, { "2 nodes of 4 GPUs", "dense", 2, 4 },
  { "a node of 3 GPUs", "dense", 1, 3 }, { "a node of 6 GPUs", "dense", 1, 6 }, { "a node of 10 GPUs", "dense", 1, 10 },
  { "a model with experts on a node of 4 GPUs", "experts", 1, 4 },
}

--- The problem of a case, as a planning states it: the island to be tested, and one of two other GPUs.
local function problem_of(case, parallelizer, cost, seconds)
  local spec <const> = schema.check({
    model = models[case[2]],
    cluster = {
      nodes = {
        { name = "t", count = case[3], gpu = "a100-sxm4-40", gpus = case[4], intra_bytes_per_s = "300 GB/s" },
        { name = "o", gpu = "v100-sxm2-32", gpus = 2, intra_bytes_per_s = "100 GB/s" },
      },
      network = { default = { bytes_per_s = "10 GB/s" } },
    },
    training = { global_batch = 16, seq_len = 1024, microbatches = { 2, 8 } },
    parallelizer = parallelizer, cost = cost, prune = { "redundant" }, merged = false,
    query_seconds = seconds,
  }, planner.fields, "conformance")
  local setting <const> = planner.setting(spec)
  local problem <const> = planner.problem(setting, islands.group(setting.cluster))
  problem.bounds, problem.costs = false, {}
  for _, island in ipairs(problem.islands) do
    if island.gpu == "a100-sxm4-40" then problem.tested = island end
  end
  return problem
end

--- An answer's plans without metatables, so that nothing of the adapter's runs where no limit is seen.
local function plans_of(answer)
  if type(answer) ~= "table" then return nil end
  if rawlen(answer) > MOST_PLANS then error(("plan() returned %d plans, expected 1 to %d"):format(rawlen(answer), MOST_PLANS), 0) end
  return plain(answer)
end

local function line_of(why) return type(why) == "string" and why:sub(1, 500):gsub("%c", " ") or nil end

--- Asks for one slice with nothing remembered, unless ctx is given. `share` of the GPU's memory may be used.
local function ask(problem, query, ctx)
  local adapter <const> = problem.parallelizer
  if not ctx then
    ctx = search.context(problem, problem.tested, query.microbatches, query.whole)
    ctx.options, ctx.memo = adapter.options, {}
    ctx.capacity_bytes = ctx.capacity_bytes * query.share
    -- prices and terms hold for one capacity
    problem.costs[query.share] = problem.costs[query.share] or costs.wrap(problem.cost_plugin, problem.cost_plugin.options)
    ctx.cost = problem.costs[query.share]
  end
  local state = 1
  ctx.rng = function()
    state = state * 16807 % 2147483647
    return state / 2147483647
  end
  ctx.successors = query.successors
  ctx.budget = { share = (query.last - query.first + 1) / #problem.atoms, seconds = problem.seconds }
  local slice <const> = slices.new(problem.model, problem.atoms, query.first, query.last)
  local ok <const>, answer <const>, why <const> = core.guarded(problem.seconds, contract.limits.memory_bytes, function()
    if adapter.supports then
      local yes <const>, reason <const> = adapter.supports(slice, problem.tested, ctx)
      if not yes then return nil, reason end
    end
    return adapter.plan(slice, problem.tested, ctx)
  end)
  local taken <const>, plans <const> = pcall(plans_of, ok and answer)
  return { ok = ok, plans = taken and plans or nil, why = line_of(ok and why or answer), slice = slice, ctx = ctx,
    cut = not ok and why or nil, refused = not taken and plans or nil }
end

local function describe(case, query)
  return ("%s, atoms %d..%d, %d microbatches, %d stages behind, %.0f %% of memory"):format(case[1], query.first, query.last,
    query.microbatches, query.successors, 100 * query.share)
end

--- The queries of a case: the whole model, its halves, single atoms; with memory from ample to scarce.
local function queries_of(problem)
  local count <const>, list <const> = #problem.atoms, {}
  for _, run in ipairs { { 1, count }, { 1, count // 2 }, { count // 2 + 1, count }, { 1, 1 }, { 2, 2 } } do
    for _, microbatches in ipairs(problem.microbatches) do
      for _, share in ipairs(SHARES) do
        for _, successors in ipairs(SUCCESSORS) do
          list[#list + 1] = { first = run[1], last = run[2], whole = run[2] - run[1] + 1 == count, microbatches = microbatches,
            share = share, successors = successors }
        end
      end
    end
  end
  return list
end

--- Equal to the last bit?
local function equal(a, b)
  if type(a) ~= "table" or type(b) ~= "table" then return a == b end
  for name, value in pairs(a) do
    if not equal(value, b[name]) then return false end
  end
  for name in pairs(b) do
    if a[name] == nil then return false end
  end
  return true
end

--- Seconds of an iteration of the plan alone, with the transfers between its stages.
local function simulated_s(plan, answer, problem)
  local counts <const>, times <const>, transfer_s <const>, last = {}, {}, {}, answer.slice.first - 1
  for s, stage in ipairs(plan) do
    counts[s] = stage.gpus
    times[s] = { forward_s = stage.forward_s, backward_s = stage.backward_s, sync_s = stage.sync_s }
  end
  local _, links <const> = problem.cluster:place(problem.tested, counts, plan.idle or 0)
  for s = 1, #plan - 1 do
    last = last + plan[s].atoms
    local bytes <const> = answer.ctx.samples * problem.atoms[last].boundary_bytes
    transfer_s[s] = plan[s].transfer_s or links[s].latency_s + bytes / links[s].bytes_per_s
  end
  return (core.simulate(times, transfer_s, { microbatches = answer.ctx.microbatches }))
end

--- Of an answer the least bottleneck, the least Σ t + (B - 1)·max t and the least time of an iteration.
local function best_of(answer, microbatches, problem)
  local bottleneck_s, total_s, iteration_s = math.huge, math.huge, math.huge
  for _, plan in ipairs(answer.plans or {}) do
    local sum_s, most_s = 0, 0
    for _, stage in ipairs(plan) do
      local busy_s <const> = stage.forward_s + stage.backward_s
      sum_s, most_s = sum_s + busy_s, math.max(most_s, busy_s)
    end
    bottleneck_s, total_s = math.min(bottleneck_s, most_s), math.min(total_s, sum_s + (microbatches - 1) * most_s)
    iteration_s = math.min(iteration_s, simulated_s(plan, answer, problem))
  end
  return bottleneck_s, total_s, iteration_s
end

--- Every pair of a whole planning, judged by the engine as there, on the case's island and on another.
local function check_contract(run, case)
  local problem <const> = run.problems[case]
  local result <const>, why <const> = search.run(problem, { gap = 0.005, top = 1, objective = "simulated", p2p = "overlapped",
    warmup = "1f1b" })
  if not result then return ("%s: %s"):format(case[1], why) end
  run.answers = run.answers + result.queried
  local one <const> = result.failed[1]
  if not one then return nil end
  local island <const> = problem.islands[one.island]
  return ("%s, atoms %d..%d, %d microbatches, %d stages behind: %s"):format(island == problem.tested and case[1]
    or ("beside %s, on an island of %d GPUs"):format(case[1], island.gpus), one.first, one.last, one.microbatches, one.successors,
    one.why)
end

local function check_why(_, case, query, answer)
  if not answer.ok then return ("%s: raises %s"):format(describe(case, query), tostring(answer.why)) end
  if not answer.plans and type(answer.why) ~= "string" then
    return ("%s: no plan and no reason, expected nil and a sentence"):format(describe(case, query))
  end
  if answer.plans and #answer.plans == 0 then return describe(case, query) .. ": an empty list, expected plans, or nil and a sentence" end
end

local function check_determinism(run, case, query, answer)
  if query.successors ~= 1 then return end -- enough, and each costs two answers more, with nothing remembered
  local anew <const>, again <const> = ask(run.problems[case], query), ask(run.problems[case], query)
  run.unsteady = not equal(anew.plans, again.plans) or not equal(anew.plans, answer.plans)
  if not run.unsteady then return nil end
  return describe(case, query) .. (equal(anew.plans, again.plans)
    and ": it answers differently after other slices (what it keeps in ctx.memo?)" or ": asked twice, it answers differently")
end

--- What plans say of memory against the cost model, and whether they fit where they were asked for.
local function check_memory(run, case, query, answer)
  if run.plugin.own_times then return end
  local problem <const>, ctx <const> = run.problems[case], answer.ctx
  for p, plan in ipairs(answer.plans or {}) do
    local first = 1
    for s, stage in ipairs(plan) do
      local priced <const> = ctx.cost.stage(answer.slice:run(first, first + stage.atoms - 1), problem.tested, stage.strategy, ctx)
      first = first + stage.atoms
      for _, name in ipairs { "static_bytes", "inflight_bytes", "transient_bytes" } do
        if stage[name] * SLACK + 1 < priced[name] then
          return ("%s: plan %d, stage %d: %s %.0f, the cost model has %.0f"):format(describe(case, query), p, s, name, stage[name],
            priced[name])
        end
      end
      local held <const> = math.min(query.successors + #plan - s + 1, query.microbatches)
      local needed <const> = priced.static_bytes + priced.transient_bytes + held * priced.inflight_bytes
      if needed > ctx.capacity_bytes * SLACK then
        return ("%s: plan %d, stage %d: needs %.2f GiB with %d microbatches in flight, has %.2f GiB"):format(describe(case, query), p, s,
          needed / 2 ^ 30, held, ctx.capacity_bytes / 2 ^ 30)
      end
    end
  end
end

--- How the answer to an easier question is worse than that to a harder one, or nil. Worse only if all figures are: an adapter
--- may trade one for another.
local function worse_by(easier, harder, microbatches, problem)
  local now <const>, was <const> = { best_of(easier, microbatches, problem) }, { best_of(harder, microbatches, problem) }
  for i = 1, #now do
    if now[i] <= was[i] * SLACK then return nil end
  end
  return easier.plans and ("%.4g s an iteration against %.4g s"):format(now[3], was[3]) or "no plan: " .. tostring(easier.why)
end

--- Against the queries before it that differ in one thing alone, which makes them harder.
local function check_monotonicity(run, case, query, answer)
  if run.unsteady then return end
  local seen <const> = run.seen[case] or {}
  run.seen[case] = seen
  local function key(share, successors)
    return ("%d,%d,%d,%g,%d"):format(query.first, query.last, query.microbatches, share, successors)
  end
  seen[key(query.share, query.successors)] = answer
  local fewer <const> = seen[key(query.share, query.successors + 1)]
  local by = fewer and worse_by(answer, fewer, query.microbatches, run.problems[case])
  if by then return ("%s: worse than with one stage more behind it, %s"):format(describe(case, query), by) end
  for _, share in ipairs(SHARES) do
    local less <const> = share < query.share and seen[key(share, query.successors)]
    by = less and worse_by(answer, less, query.microbatches, run.problems[case])
    if by then return ("%s: worse than with %.0f %% of memory, %s"):format(describe(case, query), 100 * share, by) end
  end
end

local checks <const> = {
  { "reasons", check_why, "raises nothing; gives plans, or nil and why" },
  { "determinism", check_determinism, "the same question, the same answer" },
  { "memory", check_memory, "bytes no less than the cost model's, plans that fit, or nil and why" },
  { "monotonicity", check_monotonicity, "more memory or fewer stages behind are never worse" },
}

--- What a case planned, for people; and whether anything was.
local function notes_of(run)
  local notes <const>, planned = {}, false
  for _, case in ipairs(cases) do
    if run.planned[case] then
      planned = true
    else
      notes[#notes + 1] = ("plans nothing on %s: %s"):format(case[1], tostring(run.reasons[case]))
    end
  end
  return notes, planned
end

--- Asks a case's questions and judges the answers. Stops at an answer that a limit ended: there would be many more.
---@param why_of table an example of what fails, by check
---@return string? cut
local function judge(run, case, why_of)
  run.remembered = {}
  for _, query in ipairs(queries_of(run.problems[case])) do
    local key <const> = ("%d,%g,%s"):format(query.microbatches, query.share, query.whole)
    local answer <const> = ask(run.problems[case], query, run.remembered[key]) -- as in a planning, after other slices
    run.remembered[key], run.answers = answer.ctx, run.answers + 1
    if answer.cut then
      return ("%s: no answer within %s"):format(describe(case, query), answer.cut == "time" and
        ("%g s (--query-seconds)"):format(run.problems[case].seconds) or ("%g MiB"):format(contract.limits.memory_bytes / 2 ^ 20))
    end
    if answer.refused then return describe(case, query) .. ": " .. answer.refused end
    run.planned[case] = run.planned[case] or answer.plans ~= nil
    run.reasons[case] = answer.why
    for _, check in ipairs(checks) do
      if not why_of[check] then
        local ok <const>, why <const> = pcall(check[2], run, case, query, answer)
        why_of[check] = ok and why or not ok and ("%s: %s"):format(describe(case, query), tostring(why)) or nil
      end
    end
  end
end

--- A result as a line for people.
---@param result table one of check's
---@return string
function conformance.line(result)
  local what = result.what
  if result.why then what = (result.why:find "expected" and "%s" or "%s; expected: %s"):format(result.why, result.what) end
  return ("%-6s  %-12s  %s"):format(result.why and "FAILED" or result.unjudged and "-" or "ok", result.name, what)
end

--- Runs the suite. Raises one line if the adapter can't be loaded. Where a question takes too long, or the engine can't take an
--- answer, nothing else is judged.
---@param parallelizer string|table name, path, or { name =, options = }
---@param cost string|table? cost model, default analytic
---@param seconds number? limit of a question, default 10
---@return table { path, results = { name, what, why = nil | an example of what fails, unjudged }[], notes = string[], answers, failed }
function conformance.check(parallelizer, cost, seconds)
  local run <const> = { problems = {}, seen = {}, planned = {}, reasons = {}, answers = 0 }
  for _, case in ipairs(cases) do
    run.problems[case] = problem_of(case, parallelizer, cost, seconds or 10)
    run.plugin = run.problems[case].parallelizer
  end
  local why_of <const>, broken = {}, nil
  for _, case in ipairs(cases) do broken = broken or judge(run, case, why_of) or check_contract(run, case) end
  local notes <const>, planned <const> = notes_of(run)
  local results <const> = {
    { name = "contract", what = "the engine takes every answer, within the limits", why = broken },
    { name = "plans", what = "something is planned", why = not planned and notes[1] or nil },
  }
  for _, check in ipairs(checks) do
    results[#results + 1] = { name = check[1], what = check[3], why = why_of[check] }
  end
  local failed = 0
  for i, result in ipairs(results) do
    if broken and i > 1 then result.why, result.unjudged = nil, true end
    failed = failed + (result.why and 1 or 0)
  end
  return { path = run.plugin.path, results = results, notes = broken and {} or notes, answers = run.answers, failed = failed }
end

return conformance
