local catalog <const> = require "tangram.catalog"
local pricing <const> = require "tests.spec.pricing"

local PATH <const> = "lua/cost/analytic.lua"
local GIB <const> = 2 ^ 30

--- A GPT whose layers are 12 h^2 matrices and nothing else.
local function bare_gpt(hidden, layers, heads, vocab)
  return {
    family = "gpt2", hidden = hidden, layers = layers, heads = heads, vocab = vocab or 51200, norm_parameters = 0, bias = false,
    tied = true,
  }
end

local moe <const> = {
  family = "mixtral", hidden = 2048, layers = 8, heads = 32, kv_heads = 4, head_dim = 128, ffn = 6144, vocab = 151936, experts = 16,
  experts_per_token = 4, expert_ffn = 768, gated = true,
}
local mla <const> = {
  family = "deepseek_v3", hidden = 4096, layers = 8, heads = 32, vocab = 129280, ffn = 8192, gated = true, experts = 32,
  experts_per_token = 4, expert_ffn = 1024, shared_expert_ffn = 1024,
  layer_mlp = { "dense", "moe", "moe", "moe", "moe", "moe", "moe", "moe" },
  mla = { q_lora_rank = 1536, kv_lora_rank = 512, qk_nope_head_dim = 128, qk_rope_head_dim = 64, v_head_dim = 128 },
}

describe("analytic: activations of Korthikanti et al. 2022", function()
  --- GiB of the first stage's layers: layer terms by in-flight microbatches by the interleaving factor.
  local function first_stage_gib(case, strategy)
    local layers <const>, hidden <const>, heads <const>, b <const>, p <const>, v <const> = table.unpack(case)
    local island <const> = pricing.island()
    local ctx <const> = pricing.context(bare_gpt(hidden, layers, heads), {
      global_batch = b, seq_len = 2048, attention = "unfused", dropout = true,
    }, island, 1)
    local stage <const> = pricing.wrap(PATH).stage(pricing.run(ctx, 2, 2), island, strategy, ctx)
    return stage.inflight_bytes * layers * (1 + (p - 1) / (p * v)) / GIB
  end
  local cases <const> = { -- layers, hidden, heads, b, p, v; GiB none, GiB SP + selective; % of none: SP, selective, full
    { { 48, 6144, 64, 4, 1, 1 }, 59.25, 9.5625, 66.77, 49.37, 7.59 },
    { { 96, 12288, 96, 1, 8, 3 }, 66.84375, 12.3515625, 61.96, 56.52, 8.70 },
    { { 105, 20480, 128, 1, 35, 3 }, 114.0234, 23.0762, 58.33, 61.90, 9.52 },
    { { 128, 25600, 160, 1, 64, 1 }, 131.25, 26.5625, 58.33, 61.90, 9.52 },
  }
  for _, case in ipairs(cases) do
    it(("of %d layers of %d"):format(case[1][1], case[1][2]), function()
      -- the paper's interleaving factor is left out where v is 1
      if case[1][6] == 1 then case[1][5] = 1 end
      local none <const> = first_stage_gib(case[1], { dp = 1, tp = 8, sp = false })
      local both <const> = first_stage_gib(case[1], { dp = 1, tp = 8, sp = true, recompute = "selective" })
      assert.near(case[2], none, 1e-4)
      assert.near(case[3], both, 1e-4)
      assert.near(case[4], 100 * first_stage_gib(case[1], { dp = 1, tp = 8, sp = true }) / none, 5e-3)
      assert.near(case[5], 100 * first_stage_gib(case[1], { dp = 1, tp = 8, sp = false, recompute = "selective" }) / none, 5e-3)
      assert.near(case[6], 100 * first_stage_gib(case[1], { dp = 1, tp = 8, sp = false, recompute = "full" }) / none, 5e-3)
    end)
  end
end)

describe("analytic: states", function()
  local function states_gib(hidden, layers, heads, strategy, training)
    local island <const> = pricing.island { gpus = 64 }
    local full <const> = { global_batch = 64, seq_len = 2048, gradient_bytes = 4 }
    for name, value in pairs(training or {}) do full[name] = value end
    local ctx <const> = pricing.context(bare_gpt(hidden, layers, heads), full, island, 1)
    local parts <const> = pricing.wrap(PATH).stage(pricing.run(ctx, 2, layers + 1), island, strategy, ctx).parts.memory
    return (parts.weights_bytes + parts.gradients_bytes + parts.optimizer_bytes) / GIB
  end
  it("of Megatron's mixed precision, 18 bytes a parameter", function()
    assert.near(45.5625, states_gib(6144, 48, 64, { dp = 1, tp = 8 }), 1e-9)
    assert.near(45.5625, states_gib(12288, 96, 96, { dp = 1, tp = 8 }) / 8, 1e-9)
  end)
  it("of ZeRO 0 to 3, 16 bytes a parameter sharded over 8", function()
    local gib <const> = 12 * 6144 ^ 2 * 48 / GIB
    for zero, bytes in pairs { [0] = 16, 4 + 12 / 8, 2 + 14 / 8, 16 / 8 } do
      assert.near(bytes * gib, states_gib(6144, 48, 64, { dp = 4, tp = 1, cp = 2, zero = zero }, { gradient_bytes = 2 }), 1e-6)
    end
  end)
  it("of experts, sharded over dp cp tp / ep", function()
    local island <const> = pricing.island()
    local ctx <const> = pricing.context(moe, { global_batch = 8, seq_len = 1024, gradient_bytes = 2 }, island, 1)
    local parts <const> = pricing.wrap(PATH).stage(pricing.run(ctx, 2, 2), island, { dp = 4, tp = 2, ep = 2, zero = 1 }, ctx).parts.memory
    local experts <const> = 16 * 3 * 2048 * 768
    local rest <const> = ctx.atoms[2].parameters - experts
    assert.near(2 * (experts / 2 + rest / 2), parts.weights_bytes, 1)
    assert.near(12 * (experts / 2 / 4 + rest / 2 / 4), parts.optimizer_bytes, 1)
  end)
  it("of a tied model on one stage hold the vocabulary once", function()
    local island <const> = pricing.island()
    local ctx <const> = pricing.context(bare_gpt(1024, 2, 16, 51200), { global_batch = 8, seq_len = 1024 }, island, 1)
    local weights <const> = pricing.wrap(PATH).stage(pricing.run(ctx), island, { dp = 1, tp = 8 }, ctx).parts.memory.weights_bytes
    assert.near(2 * (51200 * 1024 + 2 * 12 * 1024 ^ 2) / 8, weights, 1)
  end)
  it("pads the vocabulary to a multiple of 128 tp", function()
    local island <const> = pricing.island()
    local ctx <const> = pricing.context(bare_gpt(1024, 2, 16, 50257), { global_batch = 8, seq_len = 1024 }, island, 1)
    local weights <const> = pricing.wrap(PATH).stage(pricing.run(ctx, 1, 1), island, { dp = 1, tp = 8 }, ctx).parts.memory.weights_bytes
    assert.near(2 * 51200 * 1024 / 8, weights, 1) -- 50 * 1024
  end)
end)

describe("analytic: arithmetic", function()
  --- A machine that pays for FLOPs alone: 10^12 a second.
  local free <const> = {
    gemm_efficiency = 1, unfused_share = 1, gemm_backward_factor = 1, memory_efficiency = 1e15, launch_s = 0, launch_rank_s = 0,
    kernel_s = 0,
  }
  local function tflops(strategy)
    local island <const> = pricing.island { compute_flops = 1e12 }
    local training <const> = { global_batch = 8, seq_len = 1024, attention = "unfused" }
    local ctx <const> = pricing.context(bare_gpt(2048, 4, 16, 51200), training, island, 1)
    local stage <const> = pricing.wrap(PATH, { constants = free }).stage(pricing.run(ctx), island, strategy, ctx)
    return stage.forward_s + stage.backward_s
  end
  local b <const>, s <const>, l <const>, h <const>, v <const> = 8, 1024, 4, 2048, 51200
  it("is that of Narayanan and Korthikanti", function()
    assert.near(72 * b * s * l * h ^ 2 * (1 + s / (6 * h) + v / (12 * l * h)) / 1e12, tflops { dp = 1, tp = 1 }, 1e-5)
    local function more(recompute) return tflops { dp = 1, tp = 1, recompute = recompute } - tflops { dp = 1, tp = 1 } end
    assert.near(24 * b * s * l * h ^ 2 * (1 + s / (6 * h)) / 1e12, more "full", 1e-5)
    assert.near(4 * b * s * s * h * l / 1e12, more "selective", 1e-5)
  end)
  it("is divided by dp", function() assert.near(tflops { dp = 1, tp = 1 } / 8, tflops { dp = 8, tp = 1 }, 1e-5) end)
  it("recomputes a count of layers", function()
    local one <const> = 24 * b * s * h ^ 2 * (1 + s / (6 * h)) / 1e12
    assert.near(3 * one, tflops { dp = 1, tp = 1, recompute = { kind = "full", layers = 3 } } - tflops { dp = 1, tp = 1 }, 1e-5)
  end)
end)

describe("analytic: collectives", function()
  local function parts(description, fields, strategy, options, training, from)
    local island <const> = pricing.island(fields)
    local full <const> = { global_batch = 16, seq_len = 1024 }
    for name, value in pairs(training or {}) do full[name] = value end
    local ctx <const> = pricing.context(description, full, island, 1)
    return pricing.wrap(PATH, options).stage(pricing.run(ctx, from or 2, from or 2), island, strategy, ctx).parts.time, ctx
  end
  local gpt <const> = bare_gpt(2048, 4, 16, 51200)
  local fast <const> = { constants = {
    tp_latency_s = 0, dp_latency_s = 0, ep_latency_s = 0, fsdp_exposed = 1, network_share = 1, dp_network_share = 1,
  } }
  it("of tensor parallelism: two all-reduces each way in a node, as measured", function()
    local time <const> = parts(gpt, {}, { dp = 1, tp = 4 }, fast)
    assert.near(4 * 2 * 3 / 4 * 2 * 16 * 1024 * 2048 / 300e9, time.tp_s, 1e-9)
  end)
  it("take the rate of the group's size, and a share of a datasheet's", function()
    local pairs_of_links <const> = { intra = { { 2, 250e9 }, { 4, 44e9 } } }
    local message <const> = 2 * 16 * 1024 * 2048
    assert.near(4 * message / 250e9, parts(gpt, pairs_of_links, { dp = 1, tp = 2 }, fast).tp_s, 1e-9)
    assert.near(4 * 2 * 3 / 4 * message / 44e9, parts(gpt, pairs_of_links, { dp = 1, tp = 4 }, fast).tp_s, 1e-9)
    assert.near(4 * message / (310e9 * 0.826), parts(gpt, { intra = { { 2, 310e9 } } }, { dp = 1, tp = 2 }, fast).tp_s, 1e-9)
  end)
  it("take a share of the network where its rates are nominal", function()
    local options <const> = { network = "nominal", constants = { dp_latency_s = 0, dp_network_share = 0.25 } }
    local bytes <const> = 2 * 12 * 2048 ^ 2
    local time <const> = parts(gpt, { gpus = 16 }, { dp = 16, tp = 1 }, options)
    assert.near(2 * (7 / 8 * bytes / 300e9 + 1 / 2 * bytes / 8 / (25e9 / 8)), time.reduce_s, 1e-9)
  end)
  it("of the gradients: inside each node, then one share between the nodes", function()
    local two <const> = { gpus = 16 }
    local bytes <const> = 2 * 12 * 2048 ^ 2
    local time <const> = parts(gpt, two, { dp = 16, tp = 1 }, fast)
    assert.near(2 * (7 / 8 * bytes / 300e9 + 1 / 2 * bytes / 8 / (100e9 / 8)), time.reduce_s, 1e-9)
    -- reductions reach less of a network than other traffic: 0.4 of it to 0.8, so half of what the cluster states as reached
    local slow <const> = { constants = { dp_latency_s = 0, network_share = 0.8, dp_network_share = 0.4 } }
    assert.near(2 * (7 / 8 * bytes / 300e9 + 1 / 2 * bytes / 8 / (50e9 / 8)), parts(gpt, two, { dp = 16, tp = 1 }, slow).reduce_s, 1e-9)
    -- tp 8 inside the node: all eight shards cross at once
    local across <const> = parts(gpt, two, { dp = 2, tp = 8 }, fast)
    assert.near(2 * 1 / 2 * bytes / 8 / (100e9 / 8), across.reduce_s, 1e-9)
  end)
  it("of ZeRO-3 inside each microbatch: two gathers and a reduction", function()
    local time <const> = parts(gpt, {}, { dp = 8, tp = 1, zero = 3 }, fast)
    assert.near(3 * 7 / 8 * 2 * 12 * 2048 ^ 2 / 300e9, time.fsdp_s, 1e-9)
    assert.equal(0, time.reduce_s)
  end)
  it("of experts: two all-to-alls each way", function()
    local time <const> = parts(moe, { gpus = 16 }, { dp = 16, tp = 1, ep = 16 }, fast)
    local sent <const> = 2 * 1024 * 4 * 2048
    assert.near(4 * (7 / 16 * sent / 300e9 + 8 / 16 * sent / (100e9 / 8)), time.ep_s, 1e-9)
  end)
  it("of fully sharded experts: tokens find replicas in their node, experts are rebuilt beside that", function()
    local on <const> = { gpus = 16 }
    local instant <const> = {
      gemm_efficiency = 1e9, flash_efficiency = 1e9, memory_efficiency = 1e9, launch_s = 0, kernel_s = 0, ep_latency_s = 0,
    }
    local time <const> = parts(moe, on, { dp = 16, tp = 1, fsep = true }, { constants = instant })
    local sent <const> = 2 * 1024 * 4 * 2048 -- 4 slots a GPU: 2 replicas of each of the 16 experts in a node
    local exchange_s <const> = 2 * sent / 2 / 300e9
    assert.near(2 * exchange_s, time.ep_s, 1e-9)
    local slots <const> = 4 * 2 * 3 * 2048 * 768
    local rebuilt_s <const> = 7 / 16 * slots / 300e9 + 8 / 16 * slots / (100e9 / 8)
    assert.near(3 * rebuilt_s - 2 * 0.9 * exchange_s, time.fsep_s, 1e-8)
  end)
  it("of the ring of keys and values: what attention does not hide, and at least a share", function()
    local sent_s <const> = 3 * 2 * 2 * 16 * 256 * 2048 / 300e9 -- three steps of keys and values, 16 samples of 256 tokens here
    local instant <const> = { cp_exposed = 0.5, flash_efficiency = 1e9, kernel_s = 0 }
    assert.near(3 * sent_s, parts(gpt, {}, { dp = 1, tp = 1, cp = 4 }, { constants = instant }).cp_s, 1e-9)
    local slow <const> = { cp_exposed = 0.5, flash_efficiency = 1e-3 }
    assert.near(3 * 0.5 * sent_s, parts(gpt, {}, { dp = 1, tp = 1, cp = 4 }, { constants = slow }).cp_s, 1e-9)
  end)
  it("of a tied embedding over the slowest link, at one end only", function()
    local time <const>, ctx <const> = parts(gpt, {}, { dp = 1, tp = 1 }, fast, {}, 1)
    assert.near(2 * 2e-5 + 51200 * 2048 * 2 / 100e9, time.tied_s, 1e-9)
    local island <const> = ctx.islands[1]
    assert.equal(0, pricing.wrap(PATH).stage(pricing.run(ctx), island, { dp = 1, tp = 1 }, ctx).parts.time.tied_s)
    ctx.tied_link = { latency_s = 1, bytes_per_s = 1e9 }
    local far <const> = pricing.wrap(PATH).stage(pricing.run(ctx, 1, 2), island, { dp = 1, tp = 1 }, ctx)
    assert.near(2 + 51200 * 2048 * 2 / 1e9, far.parts.time.tied_s, 1e-9)
  end)
end)

describe("analytic: offload", function()
  it("moves optimizer states to the host and pays for PCIe", function()
    local island <const> = pricing.island()
    local ctx <const> = pricing.context(bare_gpt(2048, 4, 16), { global_batch = 8, seq_len = 1024 }, island, 1)
    local cost <const> = pricing.wrap(PATH, { constants = { host_bytes_per_s = 1e11, step_s = 0, optimizer_traffic = 30 } })
    local off <const> = cost.stage(pricing.run(ctx, 2, 2), island, { dp = 8, tp = 1, zero = 1, offload = "optimizer" }, ctx)
    local mine <const> = 12 * 2048 ^ 2 / 8
    assert.equal(0, off.parts.memory.optimizer_bytes)
    assert.near(mine * (4 / 31.5e9 + 30 * 8 / 1e11), off.parts.time.optimizer_s, 1e-9)
  end)
  it("keeps activations on the host, and is slower only by what compute does not hide", function()
    local island <const> = pricing.island()
    local ctx <const> = pricing.context(bare_gpt(2048, 4, 16), { global_batch = 8, seq_len = 1024 }, island, 1)
    local cost <const> = pricing.wrap(PATH)
    local plain <const> = cost.stage(pricing.run(ctx, 2, 2), island, { dp = 1, tp = 1 }, ctx)
    local off <const> = cost.stage(pricing.run(ctx, 2, 2), island, { dp = 1, tp = 1, offload = "activations" }, ctx)
    assert.equal(0, off.inflight_bytes)
    assert.near(plain.transient_bytes + 2 * plain.inflight_bytes, off.transient_bytes, 1)
    local copy_s <const> = plain.inflight_bytes / 31.5e9
    local function beside(pass_s) return math.max(0, copy_s - 0.9 * pass_s) end
    assert.near(beside(plain.forward_s) + beside(plain.backward_s), off.parts.time.offload_s, 1e-9)
  end)
end)

describe("analytic: everywhere", function()
  local models <const> = { dense = bare_gpt(2048, 8, 32), moe = moe, mla = mla }
  local strategies <const> = {
    { dp = 8, tp = 1 }, { dp = 1, tp = 8 }, { dp = 2, tp = 4, zero = 1 }, { dp = 4, tp = 2, zero = 2, recompute = "full" },
    { dp = 8, tp = 1, zero = 3, recompute = "selective" }, { dp = 2, tp = 2, cp = 2, recompute = { kind = "full", layers = 2 } },
    { dp = 8, tp = 1, ep = 8, zero = 1 }, { dp = 4, tp = 2, ep = 4, etp = 2 }, { dp = 8, tp = 1, fsep = true, zero = 3 },
    { dp = 8, tp = 1, offload = "both", zero = 1 }, { dp = 2, tp = 4, recompute = "selective" },
  }
  local numbers <const> = { "forward_s", "backward_s", "sync_s", "static_bytes", "inflight_bytes", "transient_bytes" }
  local gpus <const> = { { key = "a GPU of which little is known", fp16_flops = 1e14, memory_bytes = 16 * GIB } }
  for i, gpu in ipairs(catalog.gpus) do gpus[i + 1] = gpu end
  it("ZeRO's higher levels and more offload save no time of a microbatch and take no more bytes, as floors assume", function()
    local cost <const>, island <const> = pricing.wrap(PATH), pricing.island()
    local offloads <const> = { none = { "optimizer", "activations", "both" }, optimizer = { "both" }, activations = { "both" } }
    for _, description in pairs(models) do
      local ctx <const> = pricing.context(description, { global_batch = 64, seq_len = 2048 }, island, 4)
      for _, degrees in ipairs { { 8, 1, 1 }, { 4, 2, 1 }, { 2, 2, 2 }, { 1, 4, 2 } } do
        for _, ep in ipairs(description.experts and { 1, degrees[1] * degrees[3] } or { 1 }) do
          local function terms(atom, zero, offload)
            local strategy <const> = { dp = degrees[1], tp = degrees[2], cp = degrees[3], ep = ep, zero = zero, offload = offload }
            return (cost.atom(atom, island, strategy, ctx))
          end
          local function no_better(less, more)
            assert.is_true(more.forward_s + more.backward_s >= (less.forward_s + less.backward_s) * (1 - 1e-12))
            assert.is_true(more.static_bytes <= less.static_bytes * (1 + 1e-12))
            assert.is_true(more.recomputed_inflight_bytes <= less.recomputed_inflight_bytes * (1 + 1e-12))
          end
          for _, atom in ipairs(ctx.atoms) do
            for zero = 0, 3 do
              if zero < 3 then no_better(terms(atom, zero, "none"), terms(atom, zero + 1, "none")) end
              for less, list in pairs(offloads) do
                for _, more in ipairs(list) do no_better(terms(atom, zero, less), terms(atom, zero, more)) end
              end
            end
          end
        end
      end
    end
  end)
  for _, gpu in ipairs(gpus) do
    it("prices are positive, finite and add up on " .. gpu.key, function()
      local cost <const> = pricing.wrap(PATH)
      for _, precision in ipairs { "bf16", "fp8", "fp32" } do
        local island <const> = pricing.island {
          compute_flops = math.max(gpu.bf16_flops or 0, gpu.fp16_flops or 0), memory_bytes = gpu.memory_bytes, device = gpu,
        }
        for _, description in pairs(models) do
          local ctx <const> = pricing.context(description, { global_batch = 64, seq_len = 2048, precision = precision }, island, 4)
          for _, strategy in ipairs(strategies) do
            local stage <const> = cost.stage(pricing.run(ctx), island, strategy, ctx)
            for _, field in ipairs(numbers) do
              assert.is_true(stage[field] >= 0 and stage[field] < math.huge, field)
            end
            assert.is_true(stage.forward_s > 0 and stage.backward_s > stage.forward_s)
            local time <const>, memory <const> = stage.parts.time, stage.parts.memory
            local inside = stage.forward_s + stage.backward_s
            for name, value in pairs(time) do
              if name ~= "reduce_s" and name ~= "optimizer_s" and name ~= "tied_s" then inside = inside - value end
            end
            assert.near(0, inside, 1e-9)
            assert.near(stage.sync_s, time.reduce_s + time.optimizer_s + time.tied_s, 1e-12)
            local held = 0
            for _, value in pairs(memory) do held = held + value end
            assert.near(stage.static_bytes, held, 1)
            assert.equal(8, stage.gpus)
          end
        end
      end
    end)
  end

  local function stage_of(description, strategy, training, microbatches, granularity)
    local island <const> = pricing.island()
    local full <const> = { global_batch = 64, seq_len = 2048 }
    for name, value in pairs(training or {}) do full[name] = value end
    local ctx <const> = pricing.context(description, full, island, microbatches or 4, { granularity = granularity })
    return pricing.wrap(PATH).stage(pricing.run(ctx), island, strategy, ctx)
  end
  local function bytes(stage) return stage.static_bytes + stage.inflight_bytes + stage.transient_bytes end

  it("more tensor parallelism takes less memory", function()
    for _, description in pairs(models) do
      local last = math.huge
      for _, tp in ipairs { 1, 2, 4, 8 } do
        local now <const> = bytes(stage_of(description, { dp = 1, tp = tp }))
        assert.is_true(now < last)
        last = now
      end
    end
  end)
  it("each level of ZeRO takes less static memory and no less time a microbatch", function()
    local static, busy = math.huge, 0
    for zero = 0, 3 do
      local stage <const> = stage_of(models.dense, { dp = 8, tp = 1, zero = zero })
      assert.is_true(stage.static_bytes < static and stage.forward_s + stage.backward_s >= busy)
      static, busy = stage.static_bytes, stage.forward_s + stage.backward_s
    end
  end)
  it("more microbatches are smaller ones", function()
    local few <const>, many <const> = stage_of(models.moe, { dp = 4, tp = 2 }, {}, 2), stage_of(models.moe, { dp = 4, tp = 2 }, {}, 16)
    assert.is_true(many.inflight_bytes < few.inflight_bytes and many.forward_s < few.forward_s)
  end)
  it("equal atoms have equal prices, and a run's place does not matter", function()
    local island <const> = pricing.island()
    local ctx <const> = pricing.context(models.mla, { global_batch = 64, seq_len = 2048 }, island, 4)
    local cost <const> = pricing.wrap(PATH)
    local strategy <const> = { dp = 4, tp = 2, ep = 2 }
    assert.same(cost.stage(pricing.run(ctx, 3, 5), island, strategy, ctx), cost.stage(pricing.run(ctx, 6, 8), island, strategy, ctx))
  end)
  it("halves add up to their layer: bytes exactly, times where compute dominates the launches", function()
    for _, description in pairs(models) do
      for _, recompute in ipairs { "none", "selective", "full" } do
        local training <const> = { attention = "unfused", global_batch = 256 }
        local strategy <const> = { dp = 1, tp = 2, recompute = recompute }
        local whole <const> = stage_of(description, strategy, training, 4)
        local halves <const> = stage_of(description, strategy, training, 4, "half")
        assert.near(1, halves.inflight_bytes / whole.inflight_bytes, 1e-12)
        assert.near(1, halves.static_bytes / whole.static_bytes, 1e-12)
        assert.near(1, halves.forward_s / whole.forward_s, 1e-3)
        assert.near(1, halves.backward_s / whole.backward_s, 1e-3)
      end
    end
  end)
  it("lists its constants with their origin; a GPU's own and the option's come first", function()
    local island <const> = pricing.island({}, { constants = { step_s = 0.25, kernel_s = 3e-6 } })
    local ctx <const> = pricing.context(models.dense, { global_batch = 8, seq_len = 1024 }, island, 1)
    local seen <const> = {}
    for _, one in ipairs(pricing.wrap(PATH, { constants = { step_s = 0.5 } }).constants(island, ctx)) do
      assert.is_true(({ fitted = true, default = true, measured = true })[one.from]) -- the spec's GPU names no datasheet
      assert.is_true(#one.source > 0)
      seen[one.name] = one.value
    end
    assert.same({ 0.898, 0.5, 3e-6 }, { seen.gemm_efficiency, seen.step_s, seen.kernel_s })
    assert.has_error(function() pricing.wrap(PATH, { constants = { step = 1 } }) end,
      PATH .. ": constants: got a table, expected names of constants, not 'step' (did you mean 'step_s'?)")
  end)
end)
