local exact <const> = dofile "parallelizers/exact.lua"
local pricing <const> = require "tests.spec.pricing"
local schema <const> = require "tangram.schema"

local PATH <const> = "lua/cost/analytic.lua"

describe("analytic: against measured runs", function()
  it("fully sharded experts: LAER-MoE's figures on 32 A100, given its logs' imbalance", function()
    local e8 <const> = {
      family = "mixtral", hidden = 4096, layers = 32, heads = 32, kv_heads = 8, head_dim = 128, ffn = 14336, vocab = 32000,
      experts = 8, experts_per_token = 2, expert_ffn = 14336,
    }
    local e16 <const> = {
      family = "mixtral", hidden = 4096, layers = 24, heads = 32, kv_heads = 8, head_dim = 128, ffn = 14336, vocab = 32000,
      experts = 16, experts_per_token = 4, expert_ffn = 7168,
    }
    -- model, imbalance of static expert parallelism, seconds of FSDP + EP and of FSEP
    for _, case in ipairs { { e8, 1.66, 35.66, 26.33 }, { e16, 1.73, 27.79, 18.85 } } do
      local description <const>, imbalance <const>, static_s <const>, sharded_s <const> = table.unpack(case)
      local island <const> = pricing.island {
        gpus = 32, intra = { { 2, 216e9 } }, inter = { rates = { { 1, 89e9 } }, latency_s = 2e-5 },
      }
      local ctx <const> = pricing.context(description, { global_batch = 128, seq_len = 8192 }, island, 2)
      local cost <const> = pricing.wrap(PATH, { imbalance = imbalance })
      local function step_s(strategy)
        local stage <const> = cost.stage(pricing.run(ctx), island, strategy, ctx)
        return 2 * (stage.forward_s + stage.backward_s) + stage.sync_s
      end
      local static <const> = step_s { dp = 32, tp = 1, ep = 8, zero = 3, recompute = "full" }
      local sharded <const> = step_s { dp = 32, tp = 1, fsep = true, zero = 3, recompute = "full" }
      assert.near(1, static / static_s, 0.2)
      assert.near(1, sharded / sharded_s, 0.2)
      assert.near(1, static / sharded / (static_s / sharded_s), 0.1)
    end
  end)

  it("the paper's first step of C3: 32 s on 4 A100, attention recomputed in front", function()
    local island <const> = pricing.island {
      gpus = 4, gpus_per_node = 4, intra = { { 2, 253.5e9 }, { 4, 44.2e9 } },
    }
    local gpt_13b <const> = { family = "gpt2", hidden = 5120, layers = 40, heads = 40, vocab = 50272, positions = 2048 }
    local ctx <const> = pricing.context(gpt_13b, {
      global_batch = 128, seq_len = 2048, precision = "fp16", attention = "unfused", dropout = true, memory_margin = 0.08,
    }, island, 128)
    ctx.cost, ctx.memo = pricing.wrap(PATH), {}
    ctx.options = schema.check({ max_tp = 1, max_cp = 1, full_recompute = false }, exact.options, "exact")
    local best_s, kinds = math.huge, nil
    for _, plan in ipairs(exact.plan(pricing.run(ctx), island, ctx)) do
      local sum_s, worst_s, sync_s, recomputed = 0, 0, 0, {}
      for i, stage in ipairs(plan) do
        local busy_s <const> = stage.forward_s + stage.backward_s
        sum_s, worst_s, sync_s = sum_s + busy_s, math.max(worst_s, busy_s), math.max(sync_s, stage.sync_s)
        recomputed[i] = stage.strategy.recompute
      end
      local step_s <const> = sum_s + 127 * worst_s + sync_s
      if step_s < best_s then best_s, kinds = step_s, recomputed end
    end
    assert.near(31.1, best_s, 3.1)
    assert.same({ "selective", "selective", "none", "none" }, kinds)
  end)
end)
