local flat <const> = require "tests.spec.fixtures.flat"
local schema <const> = require "tangram.schema"
local support <const> = require "tests.spec.support"
local uniform <const> = dofile "parallelizers/uniform.lua"

local function policy(name, changes)
  local plugin <const> = dofile("lua/prune/" .. name .. ".lua")
  return plugin, schema.check(changes or {}, plugin.options, name)
end

local function pick(list) return list[math.random(#list)] end

local function random_model(layers)
  local odd <const> = math.random(2)
  return flat.model { hidden = pick { 1024, 1536 }, layers = layers, heads = pick { 12, 16 }, experts = 4,
    moe = pick { function() return false end, function(i) return i % 2 == odd - 1 end, function() return true end } }
end

local function random_islands(count)
  local islands <const> = {}
  for i = 1, count do
    islands[i] = flat.island { index = i, gpus_per_node = pick { 1, 2, 3, 4 }, node_count = pick { 1, 1, 2 },
      compute_flops = pick { 0.6e14, 1e14, 3e14 }, memory_bytes = 2 ^ 30 * (2 + 12 * math.random()) }
  end
  return islands
end

local function context(model, islands, changes)
  return flat.context { model = model, islands = islands, cost = flat.cost(), seq_len = pick { 1024, 2048 },
    microbatches = pick { 1, 2, 4, 8, 16 }, global_batch = 16, options = schema.check(changes or {}, uniform.options, "uniform") }
end

--- The least bottleneck of uniform's plans of atoms first..last, or infinity.
local function least_bottleneck(first, last, isl, ctx)
  return support.least_bottleneck((uniform.plan(flat.slice(ctx, first, last), isl, flat.at(ctx, isl))))
end

describe("bounded", function()
  it("never exceeds the bottleneck of a sequence of uniform's plans that holds the pair", function()
    math.randomseed(3)
    local bounded <const> = policy "bounded"
    local checked, tightness = 0, 0
    for _ = 1, 40 do
      local islands <const> = random_islands(math.random(1, 3))
      local ctx <const> = context(random_model(math.random(1, 4)), islands)
      local contexts <const>, bottlenecks <const>, count <const> = {}, {}, #ctx.atoms
      for i, isl in ipairs(islands) do contexts[i] = flat.at(ctx, isl, { options = {} }) end
      local function extend(first, used, pairs_held, bottleneck_s)
        if bottleneck_s == math.huge then return end
        if first > count then
          for _, pair in ipairs(pairs_held) do
            local bound_s <const> = bounded.bound(pair, contexts[pair.island.index])
            assert.is_true(bound_s <= bottleneck_s,
              ("%s on %s: %g > %g"):format(tostring(pair.slice), pair.island.name, bound_s, bottleneck_s))
            checked, tightness = checked + 1, tightness + bound_s / bottleneck_s
          end
          return
        end
        for i, isl in ipairs(islands) do
          for last = first, used & (1 << i) == 0 and count or 0 do
            local key <const> = (i * 64 + first) * 64 + last
            bottlenecks[key] = bottlenecks[key] or least_bottleneck(first, last, isl, ctx)
            pairs_held[#pairs_held + 1] = { slice = flat.slice(ctx, first, last), island = isl }
            extend(last + 1, used | 1 << i, pairs_held, math.max(bottleneck_s, bottlenecks[key]))
            pairs_held[#pairs_held] = nil
          end
        end
      end
      extend(1, 0, {}, 0)
    end
    assert.is_true(checked > 1000 and tightness / checked > 0.4, ("%d %g"):format(checked, tightness / checked))
  end)

  it("is the time of the slice, or of the rest spread over the other islands, where GPUs work alone and layers are alike", function()
    local islands <const> = {}
    for i = 1, 3 do islands[i] = flat.island { index = i, gpus_per_node = 1, compute_flops = i * 1e14 } end
    local ctx <const> = flat.context { model = flat.model { hidden = 1024, layers = 12, heads = 16 }, islands = islands,
      cost = flat.cost(), microbatches = 4, global_batch = 16 }
    local bounded <const> = policy "bounded"
    -- three times the forward FLOPs of four samples at half of 1e14 FLOP/s, and what each stage adds
    local layer_s <const> = 3 * 4 * 1024 * (24 * 1024 ^ 2 + 2 * 1024 * 1024) / 0.5e14
    local head_s <const> = 3 * 4 * 1024 * 2 * 50304 * 1024 / 0.5e14
    local function bound(first, last, i)
      return bounded.bound({ slice = flat.slice(ctx, first, last), island = islands[i] }, flat.at(ctx, islands[i], { options = {} }))
    end
    assert.near(8 * layer_s + flat.stage_s, bound(2, 9, 1), 1e-6 * layer_s) -- layers 1..8: alone 8 against 4 + head over 2 + 3
    assert.near((11 * layer_s + head_s) / 5 + flat.stage_s, bound(1, 2, 1), 1e-6 * layer_s)
    assert.near((11 * layer_s + head_s) / 3 + flat.stage_s, bound(1, 2, 3), 1e-6 * layer_s)
    islands[3], islands[2] = nil, nil
    local alone <const> = flat.at(ctx, islands[1], { options = {} })
    assert.equal(math.huge, bounded.bound({ slice = flat.slice(ctx, 1, 13), island = islands[1] }, alone))
    assert.near(12 * layer_s + head_s + flat.stage_s, bounded.bound({ slice = flat.slice(ctx, 1, 14), island = islands[1] }, alone), 1e-6)
  end)

  it("drops nothing under a cost model that prices whole stages", function()
    local islands <const> = random_islands(2)
    local ctx <const> = context(random_model(3), islands)
    ctx.cost = flat.cost(flat.stage_plugin)
    assert.equal(0, policy("bounded").bound({ slice = flat.slice(ctx, 1, 5), island = islands[1] }, flat.at(ctx, islands[1])))
    assert.is_true(policy("infeasible").keep({ slice = flat.slice(ctx, 1, 5), island = islands[1] }, flat.at(ctx, islands[1])))
  end)
end)

describe("infeasible", function()
  it("never drops what uniform can plan, and drops what is far from fitting", function()
    math.randomseed(5)
    local infeasible <const>, options <const> = policy "infeasible"
    local _, strict <const> = policy("infeasible", { offload = { "none" } })
    local planned, dropped, strictly = 0, 0, 0
    for _ = 1, 250 do
      local isl <const> = random_islands(1)[1]
      isl.memory_bytes = 2 ^ 30 * (1.2 + 3 * math.random() ^ 2)
      local offloads <const> = math.random(2) == 1
      local ctx <const> = context(random_model(math.random(1, 8)), { isl }, offloads and { offload = { "none", "optimizer" } } or {})
      local first <const> = math.random(#ctx.atoms)
      local slice <const> = flat.slice(ctx, first, math.random(first, #ctx.atoms))
      local changes <const> = { successors = math.random(0, 3) }
      local plans <const> = uniform.plan(slice, isl, flat.at(ctx, isl, changes))
      changes.options = options
      local kept <const>, why <const> = infeasible.keep({ slice = slice, island = isl }, flat.at(ctx, isl, changes))
      changes.options = strict
      local kept_strictly <const> = infeasible.keep({ slice = slice, island = isl }, flat.at(ctx, isl, changes))
      if plans then
        planned = planned + 1
        assert.is_true(kept)
        assert.is_true(offloads or kept_strictly)
      end
      if not kept then assert.matches("needs at least %d+%.%d+ GiB of the island's", why) end
      dropped, strictly = dropped + (kept and 0 or 1), strictly + (kept_strictly and 0 or 1)
    end
    assert.is_true(planned > 80 and dropped > 10 and strictly > dropped, ("%d %d %d"):format(planned, dropped, strictly))
  end)

  it("counts the weights of a tied model's two ends once", function()
    local model <const> = flat.model { hidden = 1024, layers = 1, heads = 16 }
    local isl <const> = flat.island { gpus_per_node = 1 }
    local ctx <const> = flat.at(flat.context { model = model, islands = { isl }, cost = flat.cost(), microbatches = 16,
      global_batch = 16 }, isl)
    local infeasible <const>, options <const> = policy("infeasible", { offload = { "none" } })
    ctx.options = options
    -- one embedding and one layer of 18 bytes a parameter fit, two embeddings do not
    ctx.capacity_bytes = 1e9 + 18 * (50304 * 1024 + 12 * 1024 ^ 2) + 1e8
    local pair <const> = { slice = flat.slice(ctx, 1, 3), island = isl }
    assert.is_false(infeasible.keep(pair, ctx))
    model.tied = true
    assert.is_true(infeasible.keep(pair, ctx))
    assert.is_true(infeasible.keep({ slice = flat.slice(ctx, 2, 3), island = isl }, ctx))
  end)
end)

describe("redundant", function()
  local redundant <const> = policy "redundant"

  it("gives equal keys only to pairs of equal answers", function()
    math.randomseed(9)
    local merged, kept = 0, 0
    for _ = 1, 12 do
      local islands <const> = random_islands(2)
      local twin <const> = {}
      for name, value in pairs(islands[1]) do twin[name] = value end
      islands[1].signature, islands[2].signature, twin.index, twin.name = "a", "b", 3, "i3"
      twin.signature = "a"
      islands[3] = flat.island(twin)
      local ctx <const>, answers <const> = context(random_model(math.random(2, 6)), islands), {}
      for _, isl in ipairs(islands) do
        for first = 1, #ctx.atoms do
          for last = first, #ctx.atoms do
            local at <const> = flat.at(ctx, isl)
            local slice <const> = flat.slice(ctx, first, last)
            local key <const> = redundant.key({ slice = slice, island = isl }, at)
            local plans <const>, why <const> = uniform.plan(slice, isl, at)
            if answers[key] then
              merged = merged + 1
              assert.same(answers[key], { plans, why })
            else
              kept = kept + 1
              answers[key] = { plans, why }
            end
          end
        end
      end
    end
    assert.is_true(merged > 2 * kept / 3, ("%d %d"):format(merged, kept))
  end)

  it("tells one end of a tied model from another where links differ", function()
    local isl <const> = flat.island { gpus_per_node = 2 }
    local ctx <const> = context(random_model(3), { isl })
    local function key(first, last, rate)
      local at <const> = flat.at(ctx, isl, { tied_link = { latency_s = 1e-5, bytes_per_s = rate } })
      return redundant.key({ slice = flat.slice(ctx, first, last), island = isl }, at)
    end
    assert.equal(key(1, 2, 1e9), key(1, 2, 2e9))
    ctx.model.tied = true
    assert.not_equal(key(1, 2, 1e9), key(1, 2, 2e9))
    assert.equal(key(2, 3, 1e9), key(2, 3, 2e9)) -- no end
    assert.equal(key(1, 5, 1e9), key(1, 5, 2e9)) -- both
  end)
end)

describe("unbalanced", function()
  it("keeps what is within the band around the island's share of the speed, and the whole model", function()
    -- 2 GPUs of 1e14 beside 2 of 3e14: a quarter and three quarters; 16 layers, the head weighs 4 of them less one tenth
    local islands <const> = { flat.island { gpus_per_node = 2 }, flat.island { index = 2, gpus_per_node = 2, compute_flops = 3e14 } }
    local ctx <const> = context(flat.model { hidden = 1024, layers = 16, heads = 16 }, islands)
    local unbalanced <const>, options <const> = policy("unbalanced", { tolerance = 0.5 })
    local function keep(first, last, i)
      return unbalanced.keep({ slice = flat.slice(ctx, first, last), island = islands[i] }, flat.at(ctx, islands[i], { options = options }))
    end
    local seq_len <const> = ctx.training.seq_len
    local layer <const>, head <const> = 24 * 1024 ^ 2 + 2 * seq_len * 1024, 2 * 50304 * 1024
    local function share(layers) return layers * layer / (16 * layer + head) end
    for layers = 1, 16 do
      for i = 1, 2 do
        local speed <const> = i == 1 and 0.25 or 0.75
        assert.equal(share(layers) >= speed / 1.5 and share(layers) <= speed * 1.5, (keep(2, layers + 1, i)))
      end
    end
    assert.is_true(keep(1, 18, 1))
    assert.same({ false, "0 % of the work, 25 % of the speed" }, { keep(1, 1, 1) })
  end)
end)
