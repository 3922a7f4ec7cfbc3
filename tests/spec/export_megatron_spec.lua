local core <const> = require "tangram.core"
local layout <const> = require "tests.oracle.layout"
local placed <const> = require "tests.oracle.placed"
local plans <const> = require "tests.spec.fixtures.plans"
local scripts <const> = require "tests.oracle.scripts"
local output <const> = require "tangram.output"
local support <const> = require "tests.spec.support"

local folder, stage
local count = 0

--- Exports with all scripts checked by bash, runs launch.sh, and gives its torchrun calls.
local function launched(plan, options)
  assert.same({ true }, { core.plan_check(core.json_encode(plan)) })
  count = count + 1
  local out <const> = ("%s/%d"):format(folder, count)
  local result <const> = output.write(plan, "megatron", out, options)
  assert.is_truthy(result.files, (result.findings[1] or {}).text)
  local status <const>, _, stderr <const> = support.run(("%s cd / && %s/launch.sh"):format(stage, out))
  assert.same({ 0, "" }, { status, stderr })
  return scripts.calls(folder)
end

--- The plan's arguments alone, read from the text.
local function arguments(plan, options)
  assert.same({ true }, { core.plan_check(core.json_encode(plan)) })
  local files <const> = output.render(plan, "megatron", options).files
  return select(2, scripts.read(files[1].text, files[2].text))
end

local function refusal(plan, options)
  local result <const> = output.render(plan, "megatron", options)
  assert.is_nil(result.files)
  for _, finding in ipairs(result.findings) do
    if finding.fatal then return finding.code, finding.text end
  end
end

describe("Megatron layouts, by the grammar", function()
  local function units(text, pp, layers, mtp)
    local read <const> = assert(layout.parse(text, pp, layers, mtp))
    local ranks <const> = {}
    for rank = 1, pp do
      local chunks <const> = {}
      for c, one in ipairs(read.ranks[rank]) do chunks[c] = table.concat(one) end
      ranks[rank] = table.concat(chunks, " ")
    end
    return read.vpp, ranks, read.empty
  end
  local function t(n) return ("t"):rep(n) end

  it("are accepted as the runtime's own parser does", function()
    assert.same({ 1, { "E" .. t(8), t(12), t(12), t(8) .. "L" }, false }, { units("Et*8|t*12|t*12|t*8L", 4, 40) })
    assert.same({ 2, { "E" .. t(8) .. " " .. t(12), t(12) .. " " .. t(8) .. "L" }, false }, { units("Et*8|t*12|t*12|t*8L", 2, 40) })
    assert.same({ 1, { "E", t(4), t(4), "L" }, false }, { units("E|t*4|t*4|L", 4, 8) })
    assert.same({ 1, { "E" .. t(11), t(8), t(5) .. "L" }, false }, { units("Et*11|t*8|t*5L", 3, 24) })
    assert.same({ 1, { "E" .. t(10), t(10), t(10), t(10), "L" }, false }, { units("Et*10|t*10|t*10|t*10|L", 5, 40) })
    assert.is_true(layout.parse("E||t|L", 4, 1).empty)
    assert.is_true(layout.parse("Et*2|t*0|t*2L", 3, 4).empty)
    assert.equal(2, layout.parse("Et*3|(tt|)*29,m|L", 16, 61, 1).vpp)
    assert.equal(5, layout.parse("Et*2|(t*2|)*34,t*3|(t*2|)*3,tL", 8, 80).vpp)
    assert.equal(1, layout.parse("Et*4|mL", 2, 4, 1).vpp)
  end)

  it("are refused as the runtime's own parser does", function()
    for _, case in ipairs { { "t*4E|t*4L", 2, 8 }, { "Et*4|t*4", 2, 8 }, { "Et*4|t*3L", 2, 8 }, { "Et*4|t*4L", 3, 8 }, { "E t|tL", 2, 2 },
      { "(Et|)*2L", 3, 2 }, { "Ett|((t|)*2)*2L", 6, 6 }, { "Etm|tL", 2, 2, 1 } } do
      assert.is_nil(layout.parse(table.unpack(case)), case[1])
    end
  end)
end)

describe("export to Megatron-LM", function()
  before_each(function()
    folder = support.folder()
    stage = scripts.stage(folder)
  end)
  after_each(function() support.remove(folder) end)

  it("puts each stage on its GPUs, in the order of ranks", function()
    local plan <const> = plans.three_stages()
    local processes <const>, args <const> = scripts.processes(launched(plan))
    assert.equal("Et*12|t*7|t*5L", args["pipeline-model-parallel-layout"])
    assert.same(placed.plan(plan), (placed.megatron(processes, args)))
    assert.equal("a1", args["master-addr"])
    assert.equal("/megatron/pretrain_gpt.py", args[1])
    assert.same({ 4, 3, true, true, "1" }, { args["tensor-model-parallel-size"], args["pipeline-model-parallel-size"],
      args["sequence-parallel"], args.fp16, processes.connections })
  end)

  it("gives back the plan, whatever legal plan it is", function()
    math.randomseed(71)
    for case = 1, support.scale(100) do
      local plan <const> = plans.random(true)
      assert.same({ true }, { core.plan_check(core.json_encode(plan)) })
      local files <const> = output.render(plan, "megatron").files
      local processes <const>, args <const> = scripts.read(files[1].text, files[2].text)
      local stages <const>, microbatches <const> = placed.megatron(processes, args)
      if case == 1 then assert.same(stages, (placed.megatron(scripts.processes(launched(plan))))) end
      assert.same(placed.plan(plan), stages)
      assert.equal(plan.microbatches, microbatches)
    end
  end)

  it("starts a machine's halves one by one when other stages lie between", function()
    local plan <const> = plans.three_stages {
      nodes = { { "a1", "a100-pcie-80", 4 }, { "v1", "v100-sxm2-32", 8 } },
      islands = { { "v:0", { "v1:0-3" } }, { "a", { "a1" } }, { "v:4", { "v1:4-7" } } },
      stages = {
        { island = "v:0", gpus = { { "v1", { 0, 1, 2, 3 } } }, layers = 8, strategy = { tp = 2, dp = 2 } },
        { island = "a", gpus = { { "a1", { 0, 1, 2, 3 } } }, layers = 8, strategy = { tp = 2, dp = 2 } },
        { island = "v:4", gpus = { { "v1", { 7, 6, 5, 4 } } }, layers = 8, strategy = { tp = 2, dp = 2 } },
      },
    }
    local processes <const>, args <const> = scripts.processes(launched(plan))
    assert.same(placed.plan(plan), (placed.megatron(processes, args)))
    assert.is_nil(args["pipeline-model-parallel-layout"]) -- 8, 8, 8 is even
    assert.same({ host = "v1", device = 7 }, processes[8])
  end)

  it("knows versions before layouts", function()
    local function split(...)
      local plan <const> = plans.three_stages()
      for s, layers in ipairs { ... } do plan.stages[s].layers = layers end
      local at = 0
      for s, one in ipairs(plan.stages) do
        one.first, one.last = at, at + one.layers + (s ~= 2 and 1 or 0)
        at = one.last
      end
      return plan
    end
    for _, layers in ipairs { { 12, 7, 5 }, { 8, 8, 8 }, { 10, 7, 7 }, { 7, 7, 10 } } do
      local plan <const> = split(table.unpack(layers))
      local args <const> = arguments(plan, { version = "2024" })
      assert.is_nil(args["pipeline-model-parallel-layout"])
      assert.same(layers, placed.megatron_layers(args))
    end
  end)

  it("refuses a split that first and last can't say, with the nearest", function()
    local strategy <const> = { tp = 4 }
    local plan <const> = plans.three_stages {
      nodes = { { "a1", "a100-pcie-80", 8 }, { "v1", "v100-sxm2-32", 8 } }, islands = { { "a", { "a1" } }, { "v", { "v1" } } },
      stages = {
        { island = "a", gpus = { { "a1", { 0, 1, 2, 3 } } }, layers = 8, strategy = strategy },
        { island = "a", gpus = { { "a1", { 4, 5, 6, 7 } } }, layers = 7, strategy = strategy },
        { island = "v", gpus = { { "v1", { 0, 1, 2, 3 } } }, layers = 5, strategy = strategy },
        { island = "v", gpus = { { "v1", { 4, 5, 6, 7 } } }, layers = 4, strategy = strategy },
      },
    }
    local code <const>, text <const> = refusal(plan, { version = "2024" })
    assert.equal("L4", code)
    assert.matches("hold 8, 7, 5, 4 layers; .* nearest: 8, 6, 6, 4; or take %-%-runtime%-version 2026", text)
    assert.equal("Et*8|t*7|t*5|t*4L", arguments(plan)["pipeline-model-parallel-layout"])
  end)

  it("says one recompute setting as the runtime does", function()
    local function flags(...)
      local plan <const> = plans.three_stages()
      for s, recompute in ipairs { ... } do plan.stages[s].strategy.recompute = recompute end
      local args <const> = arguments(plan)
      return { args["recompute-granularity"], args["recompute-method"], args["recompute-num-layers"] }
    end
    local function full(layers) return { kind = "full", layers = layers } end
    local selective <const> = { kind = "selective" }
    assert.same({}, flags())
    assert.same({ "full", "uniform", 1 }, flags(full(12), full(7), full(5)))
    assert.same({ "full", "block", 6 }, flags(full(6), full(6), full(5))) -- the last has but 5 layers
    assert.same({ "selective" }, flags(selective, selective, selective))
  end)

  it("refuses recompute that differs by stage, naming the nearest", function()
    local plan <const> = plans.three_stages()
    plan.stages[2].strategy.recompute = { kind = "full", layers = 4 }
    local code <const>, text <const> = refusal(plan)
    assert.equal("R1", code)
    assert.matches("stage 1 recomputes nothing, stage 2 4 of 7 layers; megatron has one setting for all stages, nearest: the first 4"
      .. " layers of every stage; %-%-set recompute=nearest", text)
  end)

  it("takes the nearest recompute setting if asked, priced anew", function()
    local plan <const> = plans.three_stages()
    plan.stages[2].strategy.recompute = { kind = "full", layers = 4 }
    local result <const> = output.write(plan, "megatron", folder .. "/near", { set = { recompute = "nearest" } })
    assert.matches("recompute is the first 4 layers of every stage, in place of one setting a stage: .* GiB$", result.notes[1])
    local node <const> = support.read(folder .. "/near/node.sh")
    assert.matches("%-%-recompute%-granularity full\n  %-%-recompute%-method block\n  %-%-recompute%-num%-layers 4", node)
    assert.matches("recompute is the first 4 layers of every stage", support.read(folder .. "/near/README.md"))
    -- more is recomputed on the first and the last stage: dearer than the same plan without recompute, by the same model
    local priced <const> = require("tangram.recost").plan(core.json_decode(core.json_encode(plans.three_stages())), "plan")
    assert.is_true(result.launch.time_s > priced.time_s)
  end)

  it("describes the model: experts, key-value heads, windows, latent attention", function()
    local function args_of(changes, stages)
      return arguments(plans.three_stages { model = plans.model(changes), stages = stages })
    end
    local dense <const> = args_of {}
    assert.same({ 24, 2048, 8192, 16, 8, 128, "RMSNorm", true, true, true, "rope" }, {
      dense["num-layers"], dense["hidden-size"], dense["ffn-hidden-size"], dense["num-attention-heads"], dense["num-query-groups"],
      dense["kv-channels"], dense.normalization, dense.swiglu, dense["disable-bias-linear"],
      dense["untie-embeddings-and-output-weights"], dense["position-embedding-type"] })
    local gpt <const> = args_of { family = "gpt2", kv_heads = 16, positions = 2048 }
    assert.is_nil(gpt.swiglu or gpt.normalization or gpt["group-query-attention"] or gpt["disable-bias-linear"]
      or gpt["untie-embeddings-and-output-weights"])
    assert.equal("learned_absolute", gpt["position-embedding-type"])
    local kinds <const> = {}
    for layer = 1, 24 do kinds[layer] = layer <= 3 and "dense" or "moe" end
    local strategy <const> = { tp = 2, dp = 2, ep = 2, etp = 1, sp = true }
    local base <const> = plans.three_stages().stages
    local stages <const> = {}
    for s, layers in ipairs { 12, 7, 5 } do
      stages[s] = { island = base[s].island, gpus = { { base[s].gpus[1].node, base[s].gpus[1].indices } }, layers = layers,
        strategy = strategy }
    end
    local moe <const> = args_of({ family = "qwen3_moe", experts = 8, experts_per_token = 2, expert_ffn = 1024, layer_mlp = kinds }, stages)
    assert.same({ 8, 2, 1024, "[0]*3+[1]*21", 2, 1, "alltoall", true }, { moe["num-experts"], moe["moe-router-topk"],
      moe["moe-ffn-hidden-size"], moe["moe-layer-freq"], moe["expert-model-parallel-size"], moe["expert-tensor-parallel-size"],
      moe["moe-token-dispatcher-type"], moe["qk-layernorm"] })
    local window <const> = args_of { family = "gemma2", window = 512 }
    assert.equal("511,0", window["window-size"])
    assert.is_nil(window["window-attn-skip-freq"]) -- all layers
    local mla <const> = args_of { family = "deepseek_v3", mla = { q_lora_rank = 512, kv_lora_rank = 256, qk_nope_head_dim = 128,
      qk_rope_head_dim = 64, v_head_dim = 128 } }
    assert.same({ true, 512, 256, 128, 64, 128 }, { mla["multi-latent-attention"], mla["q-lora-rank"], mla["kv-lora-rank"],
      mla["qk-head-dim"], mla["qk-pos-emb-head-dim"], mla["v-head-dim"] })
    assert.is_nil(mla["group-query-attention"] or mla["kv-channels"])
  end)

  it("describes a model that its reader of arguments reads as the plan's", function()
    local sixteen <const> = { kv_heads = 16 }
    for _, changes in ipairs { {}, { family = "gpt2", kv_heads = 16, positions = 2048 }, sixteen,
      { family = "qwen3_moe", experts = 8, experts_per_token = 2, expert_ffn = 1024, shared_expert_ffn = 2048 } } do
      local model <const> = plans.model(changes)
      local script <const> = output.render(plans.three_stages { model = model }, "megatron").files[1].text
      local read <const> = require("tangram.input.megatron_args").parse(script, { file = "node.sh", name = "toy" })
      assert.equal(model.vocab - 1, read.vocab) -- the null tokenizer adds one
      read.vocab, read.family = model.vocab, model.family
      assert.same(model, read)
    end
  end)

  it("sets precision, kernels and ZeRO by the plan and its oldest GPU", function()
    local new <const> = { nodes = { { "a1", "h100-sxm", 4 }, { "v1", "h100-sxm", 8 } }, islands = { { "a", { "a1" } }, { "v", { "v1" } } } }
    local function args_of(training, strategy)
      local plan <const> = plans.three_stages { nodes = new.nodes, islands = new.islands, training = training }
      for _, one in ipairs(plan.stages) do
        for name, value in pairs(strategy or {}) do one.strategy[name] = value end
      end
      return arguments(plan)
    end
    local bf16 <const> = args_of { precision = "bf16", attention = "auto" }
    assert.same({ true, "transformer_engine" }, { bf16.bf16, bf16["transformer-impl"] })
    assert.is_nil(bf16.fp16 or bf16["fp8-format"] or bf16["attention-backend"] or bf16["use-distributed-optimizer"])
    local fp8 <const> = args_of { precision = "fp8", attention = "flash" }
    assert.same({ true, "hybrid", "flash" }, { fp8.bf16, fp8["fp8-format"], fp8["attention-backend"] })
    local fp32 <const> = args_of { precision = "fp32" }
    assert.is_nil(fp32.bf16 or fp32.fp16)
    assert.is_true(args_of({ precision = "bf16", gradient_bytes = 2 })["grad-reduce-in-bf16"])
    assert.is_true(args_of({}, { tp = 2, dp = 2, zero = 1 })["use-distributed-optimizer"])
    local one <const> = plans.three_stages { microbatches = 16, stages = {
      { island = "v", gpus = { { "v1", { 0, 1, 2, 3, 4, 5, 6, 7 } } }, layers = 24, strategy = { tp = 2, dp = 4, zero = 3, sp = true } } } }
    local sharded <const> = arguments(one) -- only without a pipeline
    assert.same({ true, "optim_grads_params", "fsdp_dtensor", 1 }, { sharded["use-megatron-fsdp"],
      sharded["data-parallel-sharding-strategy"], sharded["ckpt-format"], sharded["pipeline-model-parallel-size"] })
    assert.is_nil(output.render(one, "megatron").files[1].text:find("CUDA_DEVICE_MAX_CONNECTIONS", 1, true))
    assert.equal("Z1", (refusal(one, { version = "2024" })))
    local long <const> = args_of({ seq_len = 4096 }, { tp = 2, cp = 2, dp = 1 })
    assert.same({ 2, 4096, 4096 }, { long["context-parallel-size"], long["seq-length"], long["max-position-embeddings"] })
    local old <const> = arguments(plans.three_stages())
    assert.same({ "local", "unfused", true }, { old["transformer-impl"], old["attention-backend"],
      old["accumulate-allreduce-grads-in-fp32"] })
  end)
end)
