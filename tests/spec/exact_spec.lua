local core <const> = require "tangram.core"
local flat <const> = require "tests.spec.fixtures.flat"
local pricing <const> = require "tests.spec.pricing"
local schema <const> = require "tangram.schema"
local strategies <const> = require "tangram.strategies"
local support <const> = require "tests.spec.support"
local exact <const>, uniform <const> = dofile "parallelizers/exact.lua", dofile "parallelizers/uniform.lua"

local OTHERS <const> = 3 -- GPUs of the other island: more stages never stand behind

local function options(changes) return schema.check(changes or {}, exact.options, "exact") end
local function pick(list) return list[math.random(#list)] end

--- A slice, an island and a context at random; memory from too little to plenty.
local function instance(most_atoms, changes)
  local layers <const> = math.random(1, most_atoms)
  local model <const> = flat.model {
    hidden = pick { 1024, 1536 }, layers = layers, heads = pick { 12, 16 }, experts = 4,
    moe = pick { function() return false end, function(i) return i % 2 == 0 end },
  }
  local isl <const> = flat.island { gpus_per_node = pick { 1, 2, 3, 4 }, node_count = pick { 1, 1, 2 },
    memory_bytes = 2 ^ 30 * (1.2 + 6 * math.random() ^ 2) }
  local ctx <const> = flat.at(flat.context {
    model = model, islands = { isl, flat.island { index = 2, gpus_per_node = OTHERS } }, microbatches = pick { 1, 2, 4, 8 },
    global_batch = pick { 16, 24 }, seq_len = pick { 1024, 3072 }, cost = flat.cost(), options = options(changes),
    successors = math.random(0, OTHERS),
  }, isl)
  local first <const> = math.random(1, layers + 2)
  return flat.slice(ctx, first, math.random(first, math.min(layers + 2, first + most_atoms - 1))), isl, ctx
end

local FIVE <const> = { "stages", "bottleneck_s", "latency_s", "sync_s", "successors" }

local function no_worse(a, b, slack)
  for _, name in ipairs(FIVE) do
    local sign <const> = name == "successors" and -1 or 1
    if sign * a[name] > sign * b[name] + slack * math.abs(b[name]) then return false end
  end
  return true
end

local function covered(one, list, slack)
  for _, other in ipairs(list) do
    if other ~= one and no_worse(other, one, slack) then return true end
  end
  return false
end

--- How many stages it bears behind it, counted up one by one.
local function bears(stage, ctx)
  local count = -1
  while count < 64 and stage.static_bytes + stage.transient_bytes
      + math.min(count + 2, ctx.microbatches) * stage.inflight_bytes <= ctx.capacity_bytes do count = count + 1 end
  return count
end

--- A row's figures, `most` successors counting as all.
local function figures(stages, ctx, most)
  local sum <const> = { stages = #stages, bottleneck_s = 0, latency_s = 0, sync_s = 0, successors = most }
  for i, stage in ipairs(stages) do
    local busy_s <const> = stage.forward_s + stage.backward_s
    sum.bottleneck_s, sum.latency_s = math.max(sum.bottleneck_s, busy_s), sum.latency_s + busy_s
    sum.sync_s, sum.successors = math.max(sum.sync_s, stage.sync_s), math.min(sum.successors, bears(stage, ctx) - (#stages - i))
  end
  return sum
end

--- A plan's figures from stages priced anew, its shape checked.
local function numbers(plan, slice, isl, ctx, most)
  local anew <const>, first, from = {}, 1, 0
  for i, stage in ipairs(plan) do
    anew[i] = flat.stage(slice:run(first, first + stage.atoms - 1), isl, stage.strategy, ctx)
    for _, name in ipairs { "forward_s", "backward_s", "sync_s" } do assert.near(anew[i][name], stage[name], 1e-12) end
    for _, name in ipairs { "static_bytes", "inflight_bytes", "transient_bytes" } do assert.near(anew[i][name], stage[name], 1) end
    local node <const>, last <const> = isl.gpus_per_node, from + stage.gpus - 1
    assert.is_true(from // node == last // node or from % node == 0 and (last + 1) % node == 0)
    first, from = first + stage.atoms, last + 1
  end
  assert.equal(#slice + 1, first)
  assert.equal(isl.gpus, from + (plan.idle or 0))
  local result <const> = figures(anew, ctx, most)
  assert.is_true(result.successors >= ctx.successors)
  return result
end

--- All ways of a stage that no other is as good as: every strategy, every count of recomputed layers that some number of
--- microbatches in flight asks for.
local function ways_of(run, gpus, isl, ctx)
  local ways <const>, layers = {}, 0
  for i = 1, #run do layers = layers + (run[i].kind == "layer" and 1 or 0) end
  for _, strategy in ipairs(strategies.list(gpus, strategies.has_moe(ctx.atoms, 1, #ctx.atoms), isl, ctx, ctx.options)) do
    local most = -1
    for r = 0, strategy.recompute == "none" and layers or 0 do
      local as <const> = setmetatable({ recompute = r > 0 and { kind = "full", layers = r } or nil }, { __index = strategy })
      local stage <const> = flat.stage(run, isl, as, ctx)
      local way <const> = figures({ stage }, ctx, 64)
      if way.successors > most then -- else a smaller count of layers bears as much
        most, way.stage = way.successors, stage
        ways[#ways + 1] = way
      end
    end
  end
  local kept <const> = {}
  for i, way in ipairs(ways) do
    local beaten = false
    for j, other in ipairs(ways) do
      beaten = beaten or j ~= i and no_worse(other, way, 1e-13) and (j < i or not no_worse(way, other, 1e-13))
    end
    if not beaten then kept[#kept + 1] = way end
  end
  return kept
end

--- The figures of every row of stages, idle GPUs at the end. `visit` is called with those that fit.
local function every_row(slice, isl, ctx, most, visit)
  local rows <const>, row <const>, known <const> = {}, {}, {}
  local function extend(first, from)
    if first > #slice then
      local one <const> = figures(row, ctx, most)
      if one.successors >= ctx.successors then
        rows[#rows + 1] = one
        if visit then visit(row) end
      end
      return
    end
    for last = first, #slice do
      for gpus = 1, isl.gpus - from do
        local node <const>, stop <const> = isl.gpus_per_node, from + gpus
        if from // node == (stop - 1) // node or from % node == 0 and stop % node == 0 then
          local key <const> = (first * 64 + last) * 64 + gpus
          known[key] = known[key] or ways_of(slice:run(first, last), gpus, isl, ctx)
          for _, way in ipairs(known[key]) do
            row[#row + 1] = way.stage
            extend(last + 1, stop)
            row[#row] = nil
          end
        end
      end
    end
  end
  extend(1, 0)
  return rows
end

--- The Pareto set by the definition; of equal rows one.
local function best_of(rows)
  local kept <const> = {}
  for _, one in ipairs(rows) do
    if not covered(one, kept, 1e-12) then
      for i = #kept, 1, -1 do
        if no_worse(one, kept[i], 1e-12) then table.remove(kept, i) end
      end
      kept[#kept + 1] = one
    end
  end
  return kept
end

--- Seconds from the stage of GPUs [at, at + own) of the island to that of the next ones (DESIGN.md, section 4).
local function transfer_of(bytes, at, own, next, isl)
  local node <const>, border <const> = isl.gpus_per_node, at + own
  if border % node == 0 then
    local nodes <const> = math.min(math.max(1, own // node), math.max(1, next // node))
    return isl.inter.latency_s + bytes / (nodes * isl:inter_bytes_per_s(math.min(own, next, node)))
  end
  local first <const>, last <const>, group = at % node, (border + next - 1) % node, 1
  while first // group ~= last // group do group = group * 2 end
  return isl.intra_latency_s + bytes / isl:intra_bytes_per_s(math.min(group, node))
end

--- The least simulated time of plans with nothing behind them.
local function fastest_s(plans, slice, isl, ctx)
  local least_s = math.huge
  for _, plan in ipairs(plans or {}) do
    local times <const>, transfer_s <const>, at, last = {}, {}, 0, slice.first - 1
    for i, one in ipairs(plan) do
      times[i] = { forward_s = one.forward_s, backward_s = one.backward_s, sync_s = one.sync_s }
      last = last + one.atoms
      local bytes <const> = ctx.samples * ctx.atoms[last].boundary_bytes
      if i < #plan then transfer_s[i] = transfer_of(bytes, at, one.gpus, plan[i + 1].gpus, isl) end
      at = at + one.gpus
    end
    least_s = math.min(least_s, (core.simulate(times, transfer_s, { microbatches = ctx.microbatches })))
  end
  return least_s
end

local function check_against_every_row(changes, most_of, plugin)
  local planned, refused, mixed = 0, 0, 0
  for _ = 1, support.scale(80) do
    local slice <const>, isl <const>, ctx <const> = instance(3, changes)
    local asked <const> = flat.at(ctx, isl, { cost = flat.cost(plugin) })
    local most <const> = most_of(ctx)
    local expected <const> = best_of(every_row(slice, isl, ctx, most))
    local plans <const>, why <const> = exact.plan(slice, isl, asked)
    if not plans then
      refused = refused + 1
      assert.matches("GiB short", why)
      assert.equal(0, #expected)
    else
      planned = planned + 1
      assert.equal(#expected, #plans)
      local found <const> = {}
      for i, plan in ipairs(plans) do
        found[i] = numbers(plan, slice, isl, ctx, most)
        mixed = mixed + (#plan > 1 and strategies.describe(plan[1].strategy) ~= strategies.describe(plan[2].strategy) and 1 or 0)
      end
      for _, one in ipairs(expected) do assert.is_true(covered(one, found, 1e-9)) end
      for _, one in ipairs(found) do assert.is_true(covered(one, expected, 1e-9)) end
    end
  end
  if support.scale(10) < 10 then return end -- too few to count
  assert.is_true(planned > 40 and refused >= 10 and mixed > 8, ("%d %d %d"):format(planned, refused, mixed))
end

describe("exact", function()
  it("gives the Pareto set of every row of stages tried one by one", function()
    math.randomseed(3)
    check_against_every_row({ objective = "paper" }, function(ctx) return ctx.successors end)
  end)

  it("gives it with successors borne as a fifth figure", function()
    math.randomseed(5)
    check_against_every_row({ objective = "paper", more_successors = true }, function() return OTHERS end)
  end)

  it("gives it under a cost model that prices whole stages", function()
    math.randomseed(9)
    check_against_every_row({ objective = "paper" }, function(ctx) return ctx.successors end, flat.stage_plugin)
  end)

  it("is at least as good as uniform, on any slice, position and memory", function()
    math.randomseed(17)
    local compared, better = 0, 0
    for _ = 1, support.scale(150) do
      local slice <const>, isl <const>, ctx <const> = instance(8, { max_stages = pick { 2, 64 }, objective = "paper" })
      local same <const> = flat.at(ctx, isl,
        { options = schema.check({ max_stages = ctx.options.max_stages }, uniform.options, "uniform") })
      local found <const>, others <const> = {}, {}
      for i, plan in ipairs(exact.plan(slice, isl, ctx) or {}) do found[i] = numbers(plan, slice, isl, ctx, ctx.successors) end
      for i, plan in ipairs(uniform.plan(slice, isl, same) or {}) do
        compared, others[i] = compared + 1, numbers(plan, slice, isl, ctx, ctx.successors)
        assert.is_true(covered(others[i], found, 1e-9))
      end
      for _, one in ipairs(found) do better = better + (covered(one, others, 1e-9) and 0 or 1) end
      if ctx.successors == 0 then
        local own <const> = flat.at(ctx, isl, { options = support.with(ctx.options, { objective = "simulated" }) })
        local least_s <const> = fastest_s(exact.plan(slice, isl, own), slice, isl, ctx)
        for _, one in ipairs { exact.plan(slice, isl, ctx) or {}, uniform.plan(slice, isl, same) or {} } do
          assert.is_true(least_s <= fastest_s(one, slice, isl, ctx) * (1 + 1e-9))
        end
      end
    end
    assert.is_true(compared > support.scale(150) and better > support.scale(80), ("%d %d"):format(compared, better))
  end)

  it("finds the quickest of all rows where nodes are far apart", function()
    math.randomseed(23)
    local tried, crossing = 0, 0
    for _ = 1, support.scale(60) do
      local isl <const> = flat.island { gpus_per_node = math.random(2, 3), node_count = 2, memory_bytes = 2 ^ 30 * pick { 3, 8 },
        inter = { rates = { { 1, 10 ^ (7.5 + 2 * math.random()) } }, latency_s = 2e-5 } }
      local _, _, base <const> = instance(3)
      local ctx <const> = flat.at(base, isl, { islands = { isl }, options = options(), successors = 0 })
      local slice <const> = flat.slice(ctx, 1, math.min(3, #ctx.atoms))
      local least_s, nodes = math.huge, nil
      every_row(slice, isl, ctx, 0, function(row)
        local time_s <const> = fastest_s({ row }, slice, isl, ctx)
        if time_s < least_s then
          least_s, nodes = time_s, 0
          for _, stage in ipairs(row) do nodes = nodes + stage.gpus end
        end
      end)
      local plans <const> = exact.plan(slice, isl, ctx)
      if plans then
        tried, crossing = tried + 1, crossing + (nodes > isl.gpus_per_node and 1 or 0)
        assert.near(1, fastest_s(plans, slice, isl, ctx) / least_s, 1e-9)
      end
    end
    if support.scale(10) >= 10 then assert.is_true(tried > 40 and crossing > 5 and crossing < tried - 5, tried .. " " .. crossing) end
  end)

  it("prices by the analytic model's terms what its stages cost, tied vocabularies and overlapped reductions with them", function()
    local on <const> = pricing.island({ gpus = 4, gpus_per_node = 4, memory_bytes = 40e9 })
    local cost <const> = pricing.wrap "lua/cost/analytic.lua"
    local compared = 0
    for _, tied in ipairs { true, false } do
      local model <const> = { hidden = 2048, layers = 4, heads = 16, vocab = 50304, positions = 2048, tied = tied }
      for _, microbatches in ipairs { 1, 8 } do
        local ctx <const> = pricing.context(model, { global_batch = 32, seq_len = 2048 }, on, microbatches)
        for _, strategy in ipairs(strategies.list(4, false, on, ctx, options())) do
          for _, ends in ipairs { { 1, 6 }, { 1, 3 }, { 3, 6 }, { 2, 5 } } do
            local stage <const> = cost.stage(pricing.run(ctx, ends[1], ends[2]), on, strategy, ctx)
            local time_s <const>, sync_s <const>, borne <const> = cost.terms(on, strategy, ctx):stage(ends[1], ends[2], 1, false)
            local bears_least <const> = bears(stage, ctx)
            if bears_least < 0 then
              assert.is_nil(time_s)
            else
              compared = compared + 1
              assert.near(stage.forward_s + stage.backward_s, time_s, 1e-9 * time_s)
              assert.near(stage.sync_s, sync_s, 1e-9 * sync_s)
              assert.equal(bears_least, math.min(borne, 64))
            end
          end
        end
      end
    end
    assert.is_true(compared > 150)
  end)

  it("takes any number of stages for the most", function()
    local on <const> = pricing.island { gpus = 2, gpus_per_node = 2 }
    local ctx <const> = pricing.context({ hidden = 1024, layers = 2, heads = 16, vocab = 1000 }, { global_batch = 8, seq_len = 512 },
      on, 4, { cost = pricing.wrap "lua/cost/analytic.lua" })
    local function bottleneck_s(most)
      ctx.options, ctx.memo = options { max_stages = most }, {}
      return support.least_bottleneck(exact.plan(pricing.run(ctx), on, ctx))
    end
    assert.equal(bottleneck_s(2), bottleneck_s(1 << 40))
  end)

  it("plans odd nodes, one GPU and one atom", function()
    local model <const> = flat.model { hidden = 1024, layers = 4, heads = 16 }
    local function plans(gpus, nodes, first, last, changes)
      local isl <const> = flat.island { gpus_per_node = gpus, node_count = nodes }
      local ctx <const> = flat.at(flat.context { model = model, islands = { isl }, cost = flat.cost(), options = options(changes),
        microbatches = 4, global_batch = 16 }, isl)
      local slice <const> = flat.slice(ctx, first, last)
      local answer <const>, why <const> = exact.plan(slice, isl, ctx)
      for _, plan in ipairs(answer or {}) do numbers(plan, slice, isl, ctx, 0) end
      return answer, why
    end
    assert.equal(1, #plans(1, 1, 2, 2))
    assert.equal(1, plans(1, 1, 1, 6)[1][1].gpus)
    -- 4 samples, 16 heads: a stage has 1, 2, 4, … GPUs; 3 and 6 GPUs are used whole by stages of 1 and 2, of 2 and 4
    for _, gpus in ipairs { 3, 6, 10 } do
      local whole = false
      for _, plan in ipairs(plans(gpus, 1, 1, 6)) do whole = whole or not plan.idle end
      assert.is_true(whole)
      local one <const> = plans(gpus, 1, 2, 2)
      assert.is_true(#one > 0 and one[1].idle == gpus - one[1][1].gpus)
    end
    assert.same({ nil, "no row of stages fits 1 atoms, 3 GPUs and 4 samples" }, { plans(3, 1, 2, 2, { idle = false }) })
  end)
end)
