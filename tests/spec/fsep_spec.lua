--- Fully sharded experts against LAER-MoE's measurements on 32 A100 (4 nodes; 128 sequences of 8192 tokens in 2 microbatches, all
--- layers recomputed), and the planner's use of them.
local core <const> = require "tangram.core"
local pricing <const> = require "tests.spec.pricing"
local schema <const> = require "tangram.schema"
local support <const> = require "tests.spec.support"
local uniform <const> = dofile "parallelizers/uniform.lua"

local GPUS <const> = 32

--- Largest over mean tokens a GPU in its logs, under static expert parallelism.
local imbalance <const> = { [8] = 1.66, [16] = 1.73 }

local function setup(shape, imbalance_, extra)
  local island <const> = pricing.island { gpus = GPUS, intra = { { 2, 216e9 } }, inter = { rates = { { 1, 89e9 } }, latency_s = 2e-5 } }
  local cost <const> = pricing.wrap("lua/cost/analytic.lua", { imbalance = imbalance_ })
  local ctx <const> = pricing.context({
    family = "mixtral", hidden = shape.hidden, layers = shape.layers_run, heads = shape.heads, kv_heads = shape.kv_heads,
    head_dim = shape.hidden // shape.heads, ffn = shape.ffn, vocab = shape.vocab, experts = shape.experts,
    experts_per_token = shape.top_k, expert_ffn = shape.ffn,
  }, { global_batch = 128, seq_len = 8192 }, island, 2, extra)
  ctx.cost = cost
  return island, ctx
end

local function step_s(stage) return 2 * (stage.forward_s + stage.backward_s) + stage.sync_s end

local function with(fields)
  local strategy <const> = { dp = GPUS, tp = 1, zero = 3 }
  for name, value in pairs(fields) do strategy[name] = value end
  return strategy
end

local mixtral <const> =
  { hidden = 4096, layers_run = 32, heads = 32, kv_heads = 8, ffn = 14336, vocab = 32000, experts = 8, top_k = 2 }

describe("fully sharded experts", function()
  it("FSEP before FSDP + EP on each of the six measured models, by the measured ratio within 10 %", function()
    local path <const> = support.shared "data/galvatron/measured.json"
    if not path then return pending "data/galvatron is not there" end
    local measured_s <const>, shapes <const> = {}, {}
    for _, entry in ipairs(core.json_decode(support.read(path)).entries) do
      if entry.dataset == "wikitext" and entry.aux_loss == 0 then
        measured_s[entry.model_name .. " " .. entry.method] = entry.iter_time_s
        if entry.method == "LAER" then shapes[#shapes + 1] = entry end
      end
    end
    assert.equal(6, #shapes)
    for _, entry in ipairs(shapes) do
      local name <const>, shape <const> = entry.model_name, entry.model
      local island <const>, ctx <const> = setup(shape, imbalance[shape.experts])
      local function priced_s(fields) return step_s(ctx.cost.stage(pricing.run(ctx), island, with(fields), ctx)) end
      local static_s <const> = priced_s { ep = 8, recompute = "full" }
      local sharded_s <const> = priced_s { fsep = true, recompute = "full" }
      assert.is_true(sharded_s < static_s, name)
      assert.near(1, static_s / measured_s[name .. " FSDP"], 0.2, name)
      assert.near(1, sharded_s / measured_s[name .. " LAER"], 0.2, name)
      assert.near(1, static_s / sharded_s / (measured_s[name .. " FSDP"] / measured_s[name .. " LAER"]), 0.1, name)
    end
  end)

  it("holds a 32nd of all states, and rebuilds two experts of eight, twice a microbatch", function()
    local island <const>, ctx <const> = setup(mixtral, 1)
    local run <const> = pricing.run(ctx)
    local sharded <const> = ctx.cost.stage(run, island, with { fsep = true }, ctx)
    local whole <const> = ctx.cost.stage(run, island, with {}, ctx) -- FSDP: all eight experts gathered
    local memory <const> = sharded.parts.memory
    local parameters = 0
    for i = 1, #run do parameters = parameters + run[i].parameters end
    -- 2 bytes of weight, 2 of gradient, 12 of the optimizer; the vocabulary is padded to a multiple of 128: 32000 is one
    assert.near(16 * parameters / GPUS, memory.weights_bytes + memory.gradients_bytes + memory.optimizer_bytes, 1)
    -- current and prefetched weights and a gradient: three times 2 bytes of the six experts that are not gathered
    local expert <const> = 3 * mixtral.hidden * mixtral.ffn
    assert.near((8 - 2) * expert * 6, whole.transient_bytes - sharded.transient_bytes, 1)
    -- hidden behind compute here; without compute to hide behind: 2 experts, weights twice and gradients once, of which 7/32
    -- go to the other GPUs of the node at 216 GB/s and 24/32 through the node's 89 GB/s, which its 8 GPUs share
    local states <const> = require "tangram.formulas.states"
    local s <const> = require("tangram.formulas.setting").new(island,
      { dp = 32, tp = 1, cp = 1, ep = 1, etp = 1, zero = 3, fsep = true, sp = false, offload = "none" },
      { model = ctx.model, training = ctx.training, samples = 64, options = { network = "reached", imbalance = 1 } },
      setmetatable({}, { __index = function() return 1 end }))
    local forward_s <const>, backward_s <const> = states.rebuilding_s(s, 8 * expert)
    assert.near(2 * expert * (3 * 2) * (7 / 32 / 216e9 + 24 / 32 * 8 / 89e9), forward_s + backward_s, 1e-9)
  end)

  it("keeps of the imbalance what LAER-MoE's logs keep", function()
    for experts, left in pairs { [8] = 1.41, [16] = 1.29 } do
      local shape <const> = setmetatable({ experts = experts, top_k = experts // 4 }, { __index = mixtral })
      local island <const>, even <const> = setup(shape, 1)
      local _, uneven <const> = setup(shape, imbalance[experts])
      local function kept(ctx)
        return ctx.cost.stage(pricing.run(ctx, 2, 2), island, with { fsep = true }, ctx).inflight_bytes
      end
      -- a routed copy: input and output of an expert, and three values of its width, 2 bytes each
      local tokens <const> = 2 * 8192
      local routed <const> = tokens * shape.top_k * (4 * shape.hidden + 6 * shape.ffn)
      assert.near(left - 1, (kept(uneven) - kept(even)) / routed, 1e-9)
    end
  end)

  it("is what uniform chooses where experts are uneven, with all GPUs in one stage or in several", function()
    local island <const>, ctx <const> = setup(mixtral, imbalance[8])
    local function best(changes)
      ctx.options, ctx.memo = schema.check(changes, uniform.options, "uniform"), {}
      local found
      for _, plan in ipairs(assert(uniform.plan(pricing.run(ctx), island, ctx))) do
        local latency_s, bottleneck_s, sync_s = 0, 0, 0
        for _, stage in ipairs(plan) do
          local busy_s <const> = stage.forward_s + stage.backward_s
          latency_s, bottleneck_s, sync_s = latency_s + busy_s, math.max(bottleneck_s, busy_s), math.max(sync_s, stage.sync_s)
        end
        local time_s <const> = latency_s + bottleneck_s + sync_s
        if not found or time_s < found.time_s then found = { time_s = time_s, strategy = plan[1].strategy } end
      end
      return found
    end
    local sharded <const>, without <const> = best { max_stages = 4 }, best { max_stages = 4, fsep = false }
    assert.is_true(sharded.strategy.fsep)
    assert.equal(1, sharded.strategy.ep) -- no group of its own: experts are spread over the whole stage
    assert.is_true(sharded.time_s < without.time_s)
  end)
end)
