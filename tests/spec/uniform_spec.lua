local core <const> = require "tangram.core"
local exhaustive <const> = require "tests.spec.fixtures.exhaustive"
local flat <const> = require "tests.spec.fixtures.flat"
local schema <const> = require "tangram.schema"
local uniform <const> = dofile "parallelizers/uniform.lua"

local function options(changes) return schema.check(changes or {}, uniform.options, "uniform") end

--- The numbers of a plan, from stages priced anew by the oracle.
local function numbers(plan, slice, isl, ctx)
  local result <const> = { stages = #plan, bottleneck_s = 0, latency_s = 0, sync_s = 0, successors = 64, gpus = 0 }
  local first = 1
  for i, stage in ipairs(plan) do
    local anew <const> = flat.stage(slice:run(first, first + stage.atoms - 1), isl, stage.strategy, ctx)
    for _, name in ipairs { "forward_s", "backward_s", "sync_s" } do assert.near(anew[name], stage[name], 1e-9 * anew[name]) end
    for _, name in ipairs { "static_bytes", "inflight_bytes", "transient_bytes" } do assert.near(anew[name], stage[name], 1) end
    local busy_s <const> = anew.forward_s + anew.backward_s
    result.bottleneck_s, result.latency_s = math.max(result.bottleneck_s, busy_s), result.latency_s + busy_s
    result.sync_s, result.gpus = math.max(result.sync_s, anew.sync_s), result.gpus + stage.gpus
    local bears <const> = core.bears(anew.static_bytes, anew.transient_bytes, anew.inflight_bytes, ctx.capacity_bytes,
      ctx.microbatches)
    result.successors, first = math.min(result.successors, bears - (#plan - i)), first + stage.atoms
  end
  assert.equal(#slice + 1, first)
  assert.equal(isl.gpus, result.gpus + (plan.idle or 0))
  assert.is_true(result.successors >= ctx.successors)
  return result
end

local function no_worse(a, b, fields)
  for _, name in ipairs(fields) do
    local sign <const> = name == "successors" and -1 or 1
    if sign * a[name] > sign * b[name] + 1e-9 * math.abs(b[name]) then return false end
  end
  return true
end
local FIVE <const> = { "stages", "bottleneck_s", "latency_s", "sync_s", "successors" }

local function covered(one, plans, fields)
  for _, plan in ipairs(plans) do
    if no_worse(plan, one, fields) then return true end
  end
  return false
end

local function pick(list) return list[math.random(#list)] end

--- A slice, an island and a context at random; memory from too little to plenty.
local function instance()
  local layers <const> = math.random(1, 5)
  local model <const> = flat.model {
    hidden = pick { 1024, 1536 }, layers = layers, heads = pick { 12, 16 }, experts = 4,
    moe = pick { function() return false end, function(i) return i % 2 == 0 end },
  }
  local per_node <const> = pick { 1, 2, 3, 4, 4 }
  local isl <const> = flat.island { gpus_per_node = per_node, node_count = pick { 1, 1, 2 },
    memory_bytes = 2 ^ 30 * (1.2 + 6 * math.random() ^ 2) }
  local ctx <const> = flat.at(flat.context {
    model = model, islands = { isl, flat.island { index = 2, gpus_per_node = 4 } }, microbatches = pick { 1, 2, 4, 8 },
    global_batch = pick { 16, 24 }, seq_len = pick { 1024, 3072 }, cost = flat.cost(), options = options(), successors = math.random(0, 3),
  }, isl)
  local first <const> = math.random(1, layers + 2)
  return flat.slice(ctx, first, math.random(first, math.min(layers + 2, first + 4))), isl, ctx
end

describe("uniform", function()
  it("agrees with every strategy, cut and count of recomputed layers tried one by one", function()
    math.randomseed(7)
    local planned, refused, recomputed = 0, 0, 0
    for _ = 1, 120 do
      local slice <const>, isl <const>, ctx <const> = instance()
      local candidates, tried = exhaustive.candidates(isl.gpus, slice, isl, ctx)
      for used = isl.gpus - 1, 1, -1 do
        if tried > 0 then break end
        candidates, tried = exhaustive.candidates(used, slice, isl, ctx)
      end
      local plans <const>, why <const> = uniform.plan(slice, isl, ctx)
      if not plans then
        refused = refused + 1
        assert.matches("GiB short", why)
        assert.equal(0, #candidates)
      else
        planned = planned + 1
        local most <const> = math.max(ctx.microbatches, ctx.successors) -- more microbatches are never in flight
        local found <const> = {}
        for i, plan in ipairs(plans) do
          found[i] = numbers(plan, slice, isl, ctx)
          found[i].successors = math.min(found[i].successors, most)
          for _, stage in ipairs(plan) do
            recomputed = recomputed + (type(stage.strategy.recompute) == "table" and 1 or 0)
          end
        end
        for _, one in ipairs(found) do
          local others <const> = {}
          for _, other in ipairs(found) do if other ~= one then others[#others + 1] = other end end
          local strict <const> = setmetatable({ bottleneck_s = one.bottleneck_s * (1 - 1e-8) }, { __index = one })
          assert.is_false(covered(strict, others, FIVE))
        end
        for _, one in ipairs(candidates) do
          one.successors = math.min(one.successors, most)
          assert.is_true(covered(one, found, one.alone and FIVE or { "stages", "bottleneck_s", "latency_s" }))
        end
      end
    end
    assert.is_true(planned > 60 and refused > 20 and recomputed > 15, ("%d %d %d"):format(planned, refused, recomputed))
  end)

  it("is never worse with more memory or with fewer stages behind", function()
    math.randomseed(11)
    local compared = 0
    for _ = 1, 60 do
      local slice <const>, isl <const>, ctx <const> = instance()
      local plans <const> = uniform.plan(slice, isl, ctx)
      local roomy <const> = flat.at(ctx, isl, { cost = flat.cost() })
      roomy.capacity_bytes = ctx.capacity_bytes * 1.3
      local near <const> = flat.at(ctx, isl, { successors = math.max(0, ctx.successors - 1) })
      for _, easier in ipairs { roomy, near } do
        local answer <const>, found <const> = uniform.plan(slice, isl, easier), {}
        for i, plan in ipairs(answer or {}) do found[i] = numbers(plan, slice, isl, easier) end
        for _, plan in ipairs(plans or {}) do
          compared = compared + 1
          assert.is_true(covered(numbers(plan, slice, isl, ctx), found, { "stages", "bottleneck_s", "latency_s" }))
        end
      end
    end
    assert.is_true(compared > 100)
  end)

  it("plans as well under a cost model that prices whole stages", function()
    math.randomseed(13)
    local planned = 0
    for _ = 1, 60 do
      local slice <const>, isl <const>, ctx <const> = instance()
      local stages <const> = flat.at(ctx, isl, { cost = flat.cost(flat.stage_plugin) })
      local plans <const>, others <const> = uniform.plan(slice, isl, ctx) or {}, uniform.plan(slice, isl, stages) or {}
      assert.equal(#plans, #others)
      for i, plan in ipairs(plans) do
        planned = planned + 1
        local a <const>, b <const> = numbers(plan, slice, isl, ctx), numbers(others[i], slice, isl, ctx)
        for name, value in pairs(a) do assert.near(value, b[name], 1e-9 * math.abs(value)) end
      end
    end
    assert.is_true(planned > 100)
  end)

  it("plans one atom on any island, idle GPUs only where nothing divides", function()
    local model <const> = flat.model { hidden = 1024, layers = 2, heads = 16 }
    local function plan(gpus, nodes, changes)
      local isl <const> = flat.island { gpus_per_node = gpus, node_count = nodes }
      local ctx <const> = flat.at(flat.context { model = model, islands = { isl }, cost = flat.cost(), options = options(changes),
        microbatches = 4, global_batch = 16 }, isl)
      local answer <const>, why <const> = uniform.plan(flat.slice(ctx, 2, 2), isl, ctx)
      for _, one in ipairs(answer or {}) do numbers(one, flat.slice(ctx, 2, 2), isl, ctx) end
      return answer, why
    end
    assert.equal(1, plan(1, 1)[1][1].gpus)
    -- 3, 6 and 10 GPUs: neither 4 samples nor 16 heads divide by 3 or 5, so 2, 4 and 8 work
    assert.same({ 2, 1 }, { plan(3, 1)[1][1].gpus, plan(3, 1)[1].idle })
    assert.same({ 4, 2 }, { plan(6, 1)[1][1].gpus, plan(6, 1)[1].idle })
    assert.same({ 8, 2 }, { plan(10, 1)[1][1].gpus, plan(10, 1)[1].idle })
    assert.same({ 2, 4 }, { plan(3, 2)[1][1].gpus, plan(3, 2)[1].idle }) -- 4 would lie across two nodes of 3
    assert.is_nil(plan(4, 1)[1].idle)
    assert.same({ nil, "no dp, tp, cp divide 3 GPUs for 1 atoms and 4 samples" }, { plan(3, 1, { idle = false }) })
  end)

  it("spreads experts, and shards them fully where memory asks for it", function()
    local model <const> = flat.model { hidden = 1024, layers = 4, heads = 16, experts = 6, moe = function() return true end }
    local isl <const> = flat.island { gpus_per_node = 4 }
    local function has(test, changes)
      local ctx <const> = flat.at(flat.context { model = model, islands = { isl }, cost = flat.cost(), options = options(changes),
        microbatches = 4, global_batch = 16 }, isl)
      for _, plan in ipairs(assert(uniform.plan(flat.slice(ctx, 1, 6), isl, ctx))) do
        if test(plan[1].strategy) then return true end
      end
      return false
    end
    assert.is_true(has(function(strategy) return strategy.ep > 1 end))
    assert.is_true(has(function(strategy) return strategy.fsep end, { zero = { 3 }, max_tp = 1 }))
    assert.is_false(has(function(strategy) return strategy.fsep end, { zero = { 3 }, max_tp = 1, fsep = false }))
  end)

  it("says which stage lacks how much under the strategy nearest to fitting", function()
    -- One GPU, one stage, ZeRO has nothing to share: 50304·1024 + 2·12·1024² parameters of 18 bytes, 1 GB for the context,
    -- 4096 tokens in flight: 8 bytes·hidden of the embedding and 2 of each recomputed layer, 34 while one is recomputed.
    local isl <const> = flat.island { gpus_per_node = 1, memory_bytes = 2 ^ 30 }
    local ctx <const> = flat.at(flat.context { model = flat.model { hidden = 1024, layers = 2, heads = 16 }, islands = { isl },
      cost = flat.cost(), options = options(), microbatches = 4, global_batch = 16 }, isl)
    local needed <const> = (50304 * 1024 + 24 * 1024 ^ 2) * 18 + 1e9 + 4096 * 1024 * (8 + 2 * 2 + 34)
    assert.same({ nil, ("stage 1 of 1 is %.2f GiB short with dp 1, tp 1, the nearest to fitting"):format(
      (needed - 0.9 * 2 ^ 30) / 2 ^ 30) }, { uniform.plan(flat.slice(ctx, 1, 3), isl, ctx) })
  end)
end)
