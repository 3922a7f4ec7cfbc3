local exported <const> = require "tests.oracle.exported"
local exports <const> = require "tests.spec.exports"
local placed <const> = require "tests.oracle.placed"
local plans <const> = require "tests.spec.fixtures.plans"
local scripts <const> = require "tests.oracle.scripts"
local support <const> = require "tests.spec.support"

local files_of <const>, refusal <const>, warned <const>, launched <const>, mixed <const>, alike <const> =
  exports.files_of, exports.refusal, exports.warned, exports.launched, exports.mixed, exports.alike
local folder

describe("export to Galvatron", function()
  before_each(function() folder = support.folder() end)
  after_each(function() support.remove(folder) end)

  it("gives each layer its tp, ZeRO and recompute, read back by the runtime's rules", function()
    local plan <const> = mixed()
    local files <const>, result <const> = files_of(plan, "galvatron")
    local processes <const> = launched(folder, plan, "galvatron", nil, "GALVATRON=/g")
    local stages <const>, layers <const>, config <const> = exported.galvatron(files["galvatron_config.json"], processes)
    assert.same(placed.plan(plan), stages)
    -- zero 2 is the default; dp 1 of stage 2 has none, so it takes the default; 3 of 8 and all of 5 layers recompute
    local want <const> = {}
    for layer = 1, 24 do
      want[layer] = { layer <= 8 and 3 or 2, (layer <= 3 or layer > 15 and layer <= 20) and 1 or 0, 1, 1 }
    end
    assert.same(want, layers)
    assert.same({ 64, 16, "8,7,5,4", 2, 1, 0, 16 }, { config.global_bsz, config.chunks, config.pp_division, config.vtp, config.vcp,
      config.embed_sdp, config.world_size })
    assert.is_nil(warned(result, "T3") or warned(result, "W5"))
    assert.matches("async_grad_reduce: false", files["train.yaml"]) -- else gradients of ZeRO 2 and 3 are held whole
  end)

  it("writes the training beside it, and flags for the version of 2025", function()
    local plan <const> = mixed()
    local yaml <const> = require "tests.oracle.yaml"
    local args <const> = yaml(files_of(plan, "galvatron")["train.yaml"]).runtime
    assert.same({ "bf16", 24, 2048, 8192, 16, 8, 32000, true, true, 64, 16, 2048 }, { args.parallel.mixed_precision, args.model.num_layers,
      args.model.hidden_size, args.model.ffn_hidden_size, args.model.num_attention_heads, args.model.num_query_groups,
      args.model.vocab_size, args.train.sequence_parallel, args.train.use_flash_attn, args.train.global_batch_size, args.train.chunks,
      args.train.seq_length })
    local old <const> = files_of(plan, "galvatron", { version = "2025" })
    local processes <const>, flags <const> = scripts.read(old["node.sh"], old["launch.sh"])
    assert.same({ "zero2", 64, 24, "bf16" }, { flags.default_dp_type, flags.global_train_batch_size, flags.num_hidden_layers,
      flags.mixed_precision })
    assert.same(placed.plan(plan), (exported.galvatron(old["galvatron_config.json"], processes)))
    assert.is_nil(old["galvatron_config.json"]:find "cp_sizes_enc")
    assert.is_true(flags.no_async_grad_reduce)
    local plain <const>, result <const> = files_of(alike { tp = 2, dp = 2, sp = true, zero = 0 }, "galvatron")
    assert.matches("async_grad_reduce: true", plain["train.yaml"])
    assert.is_nil(warned(result, "W5"))
    local both <const> = alike { tp = 2, dp = 2, sp = true, zero = 0 }
    both.stages[2].strategy.zero = 3
    assert.matches("stage 4 %(ZeRO 0%) reduces its gradients at every microbatch, as stage 2", warned(select(2,
      files_of(both, "galvatron")), "W5"))
  end)

  it("says what the ends share where they differ", function()
    local _, result <const> = files_of(mixed { stages = {
      { island = "a", gpus = { { "a1", { 0, 1, 2, 3 } } }, layers = 12, strategy = { tp = 4, sp = true } },
      { island = "a", gpus = { { "a1", { 4, 5, 6, 7 } } }, layers = 12, strategy = { tp = 2, dp = 2, sp = true } } } }, "galvatron")
    assert.matches("embedding of stage 1 takes tp 2 and cp 1 of the head's stage 2", warned(result, "T3"))
  end)

  it("refuses by code and sentence", function()
    local function code(change, options)
      local plan <const> = mixed()
      change(plan.stages, plan)
      return refusal(plan, "galvatron", options)
    end
    local function expect(want, pattern, change, options)
      local got <const>, text <const> = code(change, options)
      assert.same(want, got)
      assert.matches(pattern, text)
    end
    expect("R3", "stage 2 recomputes the attention core alone.+nearest: all layers or none; plan again with %-%-target galvatron",
      function(s) s[2].strategy.recompute = { kind = "selective" } end)
    expect("Z3", "stage 3 uses ZeRO 1, but galvatron has ZeRO 0, 2 and 3; nearest: 2", function(s) s[3].strategy.zero = 1 end)
    expect("Z2", "stage 3 uses ZeRO 0, stage 4 ZeRO 2", function(s) s[3].strategy.zero = 0 end)
    expect("S3", "stage 2 has tp 4 without sequence parallelism", function(s) s[2].strategy.sp = false end)
    expect("D3", "fp8 is planned, but galvatron trains in bf16 or fp16 or fp32", function(_, p)
      p.training.precision = "fp8"
      p.cluster.gpus["a100-sxm4-80"].fp8_flops = 1e15
    end)
    expect("C1", "stage 3 has cp 2, which galvatron has from version 2026 on", function(s)
      s[3].strategy.cp, s[3].strategy.dp = 2, 2
    end, { version = "2025" })
    local uneven <const> = plans.three_stages { stages = {
      { island = "a", gpus = { { "a1", { 0, 1, 2, 3 } } }, layers = 12, strategy = { tp = 4, sp = true } },
      { island = "v", gpus = { { "v1", { 0, 1, 2, 3, 4, 5, 6, 7 } } }, layers = 12, strategy = { tp = 4, dp = 2, sp = true } } } }
    local got <const>, text <const> = refusal(uneven, "galvatron")
    assert.equal("G1", got)
    assert.matches("stage 1 has 4 GPUs, stage 2 8; galvatron needs equal stages; plan again with %-%-target galvatron", text)
  end)

  it("refuses a batch that the least tp and cp of different layers don't divide", function()
    -- tp 4 and cp 4 alone each leave dp 1, but 4 / least tp 1 / least cp 1 = 4, and 6 % 4 = 2
    local plan <const> = mixed { global_batch = 6, microbatches = 6, stages = {
      { island = "a", gpus = { { "a1", { 0, 1, 2, 3 } } }, layers = 12, strategy = { tp = 4, sp = true } },
      { island = "a", gpus = { { "a1", { 4, 5, 6, 7 } } }, layers = 12, strategy = { cp = 4 } } } }
    local got <const>, text <const> = refusal(plan, "galvatron")
    assert.equal("B4", got)
    assert.matches("global batch 6 is not a multiple of 4 GPUs a stage / least tp 1 / least cp 1 = 4; nearest: 4 or 8", text)
  end)

  it("refuses models that its code does not have", function()
    local mla <const> = plans.model { mla = { kv_lora_rank = 64, qk_nope_head_dim = 64, qk_rope_head_dim = 32, v_head_dim = 64 } }
    assert.equal("M3", (refusal(mixed { model = mla }, "galvatron")))
    local kinds <const> = { "dense" }
    for i = 2, 24 do kinds[i] = "moe" end
    local moe <const> = plans.model { experts = 8, experts_per_token = 2, expert_ffn = 1024, layer_mlp = kinds }
    assert.matches("no dense layers among those with experts", (select(2, refusal(mixed { model = moe }, "galvatron"))))
  end)

  it("spreads experts by layer", function()
    local moe <const> = plans.model { experts = 8, experts_per_token = 2, expert_ffn = 1024 }
    local plan <const> = mixed { model = moe }
    plan.stages[1].strategy.ep = 2
    plan.stages[3].strategy.ep = 4
    local files <const> = files_of(plan, "galvatron")
    local processes <const> = { count = 16 }
    for r = 0, 15 do processes[r] = { host = r < 8 and "a1" or "a2", device = r % 8 } end
    local _, layers <const> = exported.galvatron(files["galvatron_config.json"], processes)
    assert.same({ 2, 2, 1, 4, 4, 1 }, { layers[1][3], layers[8][3], layers[9][3], layers[16][3], layers[20][3], layers[21][3] })
    assert.matches("is_moe_model: true", files["train.yaml"])
    assert.equal("M3", (refusal(plan, "galvatron", { version = "2025" })))
  end)
end)
