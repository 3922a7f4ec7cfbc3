local cost <const> = require "tangram.cost"
local pricing <const> = require "tests.spec.pricing"

local PATH <const> = "lua/cost/analytic.lua"
local gpt <const> = { family = "gpt2", hidden = 4096, layers = 12, heads = 32, vocab = 51200 }
local small <const> = { family = "gpt2", hidden = 1024, layers = 4, heads = 16, vocab = 51200 }

--- Price and boundaries of three stages of all atoms, one stage behind them.
local function split(wrapped, island, strategy, ctx) return wrapped.terms(island, strategy, ctx):split(1, 14, 3, 1, true) end

describe("ctx.cost of an additive model", function()
  it("gives the engine terms that agree with its stages", function()
    local island <const> = pricing.island()
    local ctx <const> = pricing.context(gpt, { global_batch = 64, seq_len = 2048, attention = "unfused" }, island, 4)
    local wrapped <const> = pricing.wrap(PATH)
    local some = 0
    for _, recompute in ipairs { "none", "selective", "full" } do
      local bottleneck_s <const>, latency_s <const>, bounds <const>, recomputed <const> =
        split(wrapped, island, { dp = 2, tp = 1, zero = 1, recompute = recompute }, ctx)
      local first, sum_s, worst_s = 1, 0, 0
      for i, last in ipairs(bounds) do
        local stage <const> = wrapped.stage(pricing.run(ctx, first, last), island, {
          dp = 2, tp = 1, zero = 1, recompute = recomputed[i] > 0 and { kind = "full", layers = recomputed[i] } or recompute,
        }, ctx)
        local busy_s <const> = stage.forward_s + stage.backward_s
        sum_s, worst_s, first, some = sum_s + busy_s, math.max(worst_s, busy_s), last + 1, some + recomputed[i]
        assert.is_true(stage.static_bytes + stage.transient_bytes + (5 - i) * stage.inflight_bytes <= ctx.capacity_bytes)
      end
      assert.near(worst_s, bottleneck_s, 1e-9)
      assert.near(sum_s, latency_s, 1e-9)
    end
    assert.is_true(some > 0) -- the case is tight: something had to be recomputed
  end)
  it("keeps its own options, memo and context apart from the caller's", function()
    local seen
    local spy <const> = {
      name = "spy",
      atom = function(_, _, _, ctx)
        seen = ctx
        return {
          forward_s = 1, backward_s = 1, recompute_s = 0, static_bytes = 0, inflight_bytes = 0, recomputed_inflight_bytes = 0,
          transient_bytes = 0, recompute_peak_bytes = 0,
        }
      end,
      constants = function() return { stage_s = 0, static_bytes = 0 } end,
    }
    local island <const> = pricing.island()
    local ctx <const> = pricing.context(small, { global_batch = 8, seq_len = 1024 }, island, 8, { options = { theirs = true } })
    cost.wrap(spy, { mine = true }).terms(island, { dp = 1, tp = 8 }, ctx)
    assert.same({ mine = true }, seen.options)
    assert.equal(ctx.atoms, seen.atoms)
    assert.is_nil(seen.successors)
  end)
end)

describe("ctx.cost of a model of whole stages", function()
  --- What the analytic model says of a stage, through an interface that hides its atoms.
  local function whole_stages(inner)
    return { name = "whole", stage = function(run, island, strategy, ctx) return inner.stage(run, island, strategy, ctx) end }
  end
  it("gives the same splits and stages as the additive form", function()
    local island <const> = pricing.island()
    local ctx <const> = pricing.context(gpt, { global_batch = 64, seq_len = 2048, attention = "unfused" }, island, 4)
    local additive <const> = pricing.wrap(PATH)
    local whole <const> = cost.wrap(whole_stages(pricing.wrap(PATH)), {})
    for _, recompute in ipairs { "none", "selective", "full" } do
      local strategy <const> = { dp = 2, tp = 1, zero = 1, recompute = recompute }
      local a_s <const>, a_sum_s <const>, a_bounds <const>, a_recomputed <const> = split(additive, island, strategy, ctx)
      local w_s <const>, w_sum_s <const>, w_bounds <const>, w_recomputed <const> = split(whole, island, strategy, ctx)
      assert.near(a_s, w_s, 1e-9)
      assert.near(a_sum_s, w_sum_s, 1e-9)
      assert.same({ a_bounds, a_recomputed }, { w_bounds, w_recomputed })
    end
    local strategy <const> = { dp = 2, tp = 4 }
    assert.same(additive.stage(pricing.run(ctx, 2, 5), island, strategy, ctx), whole.stage(pricing.run(ctx, 2, 5), island, strategy, ctx))
  end)
  it("finds what stages bear whatever their atoms", function()
    local island <const> = pricing.island()
    local plain <const> = {
      name = "plain",
      stage = function(run)
        return { forward_s = 0.1 + #run, backward_s = 0.2 + 2 * #run, static_bytes = 1000 + 10 * #run, inflight_bytes = 5 * #run,
          transient_bytes = 7 }
      end,
    }
    local function terms(capacity_bytes)
      local ctx <const> = pricing.context(small, { global_batch = 8, seq_len = 1024 }, island, 8, { capacity_bytes = capacity_bytes })
      return cost.wrap(plain, {}).terms(island, { dp = 1, tp = 8 }, ctx)
    end
    local bottleneck_s <const>, latency_s <const> = terms(1e9):split(1, 6, 2, 0, false)
    assert.near(9.3, bottleneck_s, 1e-9) -- three atoms of 3 s, and 0.3 s
    assert.near(18.6, latency_s, 1e-9)
    local all <const> = 1000 + 60 + 30 + 7 -- six atoms on one stage, one microbatch in flight
    assert.is_truthy((terms(all):probe(1, 6, 1, 0, false)))
    assert.is_nil((terms(all - 1):probe(1, 6, 1, 0, false)))
  end)
end)

describe("ctx.cost refuses", function()
  local island <const> = pricing.island()
  local ctx <const> = pricing.context(small, { global_batch = 8, seq_len = 1024 }, island, 8)
  it("a dp that does not divide the microbatch", function()
    assert.has_error(function() pricing.wrap(PATH).stage(pricing.run(ctx), island, { dp = 2, tp = 1 }, ctx) end,
      "strategy: dp: got 2, expected a divisor of the microbatch's 1 samples")
  end)
  it("the attention core of a count of layers, which no runtime recomputes", function()
    local strategy <const> = { dp = 1, tp = 1, recompute = { kind = "selective", layers = 2 } }
    for _, name in ipairs { "stage", "terms" } do
      assert.has_error(function()
        local wrapped <const> = pricing.wrap(PATH)
        if name == "stage" then wrapped.stage(pricing.run(ctx), island, strategy, ctx) else wrapped.terms(island, strategy, ctx) end
      end, "strategy: recompute: got 'selective' of 2 layers, expected a count with 'full' alone")
    end
  end)
  it("what no strategy can be, by its field", function()
    local wrapped <const> = pricing.wrap(PATH)
    for message, strategy in pairs {
      ["strategy: zeros: unknown field (did you mean 'zero'?)"] = { dp = 1, tp = 1, zeros = 3 },
      ["strategy: 1: unknown field, expected one of cp, dp, ep, etp, fsep, offload, recompute, sp, tp, zero"] = { 1, dp = 1, tp = 1 },
      ["strategy: tp: missing, expected a whole number of at least 1"] = { dp = 1 },
      ["strategy: dp: got 0, expected a whole number of at least 1"] = { dp = 0, tp = 1 },
      ["strategy: ep: got 1.5, expected a whole number of at least 1"] = { dp = 1, tp = 1, ep = 1.5 },
      ["strategy: dp: got 2.0, expected a whole number of at least 1, as // gives it"] = { dp = 2.0, tp = 1 },
      ["strategy: cp: got '2', expected a whole number of at least 1"] = { dp = 1, tp = 1, cp = "2" },
      ["strategy: zero: got 4, expected 0, 1, 2 or 3"] = { dp = 1, tp = 1, zero = 4 },
      ["strategy: sp: got 1, expected true or false"] = { dp = 1, tp = 1, sp = 1 },
      ["strategy: offload: got 'disk', expected 'none', 'optimizer', 'activations' or 'both'"] = { dp = 1, tp = 1, offload = "disk" },
      ["strategy: recompute: got 'ful', expected 'none', 'selective', 'full' or { kind = 'full', layers = n }"] =
        { dp = 1, tp = 1, recompute = "ful" },
      ["strategy: recompute: got a table, expected 'none', 'selective', 'full' or { kind = 'full', layers = n }"] =
        { dp = 1, tp = 1, recompute = { kind = "full", layer = 1 } },
      ["ctx.cost: strategy: got 7, expected a table, { dp = 1, tp = 1 }"] = 7,
    } do
      assert.has_error(function() wrapped.stage(pricing.run(ctx), island, strategy, ctx) end, message)
      assert.has_error(function() wrapped.terms(island, strategy, ctx) end, message)
    end
    assert.has_error(function() wrapped.stage(island, pricing.run(ctx), { dp = 1, tp = 1 }, ctx) end,
      "ctx.cost: island: got a table, expected an island: stage(run, island, strategy, ctx), terms(island, strategy, ctx)")
    assert.has_error(function() wrapped.stage(pricing.run(ctx), island, { dp = 1, tp = 1 }) end,
      "ctx.cost: last argument: missing, expected ctx: stage(run, island, strategy, ctx), terms(island, strategy, ctx)")
  end)
  it("terms that are missing or not finite", function()
    local broken <const> = { name = "mine", atom = function() return { forward_s = 1 / 0 } end,
      constants = function() return { stage_s = 0, static_bytes = 0 } end }
    assert.has_error(function() cost.wrap(broken, {}).stage(pricing.run(ctx), island, { dp = 1, tp = 1 }, ctx) end,
      "cost model 'mine': atom: forward_s: got inf, expected a finite number of at least 0")
  end)
  it("atoms that the analytic model does not know", function()
    local other <const> = pricing.context(small, { global_batch = 8, seq_len = 1024 }, island, 8)
    other.atoms = { { kind = "operator", index = 1, hash = "x", parameters = 1 } }
    assert.has_error(function() pricing.wrap(PATH).terms(island, { dp = 1, tp = 1 }, other) end,
      "atom kind 'operator': the analytic cost model prices embedding, layer, attention, mlp and head")
  end)
end)
