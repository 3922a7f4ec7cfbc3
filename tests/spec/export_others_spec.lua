local core <const> = require "tangram.core"
local exported <const> = require "tests.oracle.exported"
local output <const> = require "tangram.output"
local placed <const> = require "tests.oracle.placed"
local runnable <const> = require "tests.oracle.target"
local plans <const> = require "tests.spec.fixtures.plans"
local scripts <const> = require "tests.oracle.scripts"
local support <const> = require "tests.spec.support"

local has_python <const> = os.execute "python3 -c '' 2>/dev/null"
local folder

local function checked(plan)
  assert.same({ true }, { core.plan_check(core.json_encode(plan)) })
  return plan
end

--- The files of an export by name.
local function files_of(plan, name, options)
  local result <const>, files <const> = output.render(checked(plan), name, options), {}
  assert.is_truthy(result.files, (result.findings[1] or {}).text)
  for _, file in ipairs(result.files) do files[file.name] = file.text end
  return files, result
end

--- Code and sentence of the first finding that stops an export.
local function refusal(plan, name, options)
  local result <const> = output.render(checked(plan), name, options)
  assert.is_nil(result.files)
  for _, finding in ipairs(result.findings) do
    if finding.fatal then return finding.code, finding.text end
  end
end

local function warned(result, code)
  for _, finding in ipairs(result.findings) do
    if finding.code == code then return finding.text end
  end
end

--- Writes files, runs launch.sh with stand-ins for ssh and torchrun: processes, arguments.
local function launched(plan, name, options, environment)
  local out <const> = folder .. "/out"
  assert.is_truthy(output.write(checked(plan), name, out, options).files)
  local stage <const> = scripts.stage(folder)
  local status <const>, _, stderr <const> = support.run(("%s cd / && %s %s/launch.sh"):format(stage, environment, out))
  assert.same({ 0, "" }, { status, stderr })
  return scripts.processes(scripts.calls(folder))
end

--- Prints of oracle/runtimes.py for the files of an export.
local function python(files, words)
  local dir <const> = folder .. "/python"
  assert(os.execute("mkdir -p " .. dir))
  for name, text in pairs(files) do
    if name:find "%.py$" then support.write(dir .. "/" .. name, text) end
  end
  local status <const>, stdout <const>, stderr <const> = support.run("python3 -S tests/oracle/runtimes.py " .. words:format(dir))
  assert.same({ 0, "" }, { status, stderr })
  return core.json_decode(stdout)
end

--- Eight A100 in three nodes' worth of stages, bf16, that differ in tp, ZeRO and recompute.
local function mixed(changes)
  local function stage(node, indices, layers, strategy)
    return { island = "a", gpus = { { node, indices } }, layers = layers, strategy = strategy }
  end
  local low <const>, high <const> = { 0, 1, 2, 3 }, { 4, 5, 6, 7 }
  local spec <const> = {
    nodes = { { "a1", "a100-sxm4-80", 8 }, { "a2", "a100-sxm4-80", 8 } }, islands = { { "a", { "a1", "a2" } } },
    stages = {
      stage("a1", low, 8, { tp = 2, dp = 2, sp = true, zero = 3, recompute = { kind = "full", layers = 3 } }),
      stage("a1", high, 7, { tp = 4, sp = true }),
      stage("a2", low, 5, { dp = 4, zero = 2, recompute = { kind = "full", layers = 5 } }),
      stage("a2", high, 4, { tp = 2, dp = 2, sp = true, zero = 2 }),
    },
    global_batch = 64, microbatches = 16, training = { precision = "bf16", attention = "flash" },
  }
  for name, value in pairs(changes or {}) do spec[name] = value end
  return plans.make(spec)
end

--- The same, all stages alike.
local function alike(strategy, changes)
  local plan <const> = mixed(changes)
  for _, stage in ipairs(plan.stages) do
    stage.strategy.recompute = { kind = "none" }
    stage.strategy.cp = 1
    for name, value in pairs(strategy) do stage.strategy[name] = value end
  end
  return plan
end

local llama8 <const> = { model = plans.model { layers = 32, hidden = 4096, heads = 32, ffn = 14336, vocab = 128256 } }

--- Llama 3 8B on the same GPUs.
local function llama(strategy)
  local spec <const> = { model = llama8.model }
  local plan <const> = alike(strategy, spec)
  for s, count in ipairs { 9, 9, 8, 6 } do plan.stages[s].layers = count end
  local at = 0
  for s, stage in ipairs(plan.stages) do
    stage.first = at
    at = at + stage.layers + (s == 1 and 1 or 0) + (s == 4 and 1 or 0)
    stage.last = at
  end
  return plan
end

describe("exporters' rules", function()
  it("are of the table of rules, and each exporter that starts processes says how under Slurm", function()
    for _, exporter in ipairs(output.list()) do
      assert.is_table(exporter.rules)
      assert.equal(exporter.name, output.find(exporter.name).name)
    end
  end)
end)

describe("a node's name that is no host's", function()
  it("is refused, as it would stand in scripts", function()
    local function stages(node)
      return { { island = "a", gpus = { { node, { 0, 1, 2, 3 } } }, layers = 24, strategy = { tp = 4, sp = true } } }
    end
    for _, name in ipairs { "a'; rm -rf ~; '", "$(id)", "-oProxyCommand=id", "a b" } do
      local plan <const> = mixed { nodes = { { name, "a100-sxm4-80", 8 } }, islands = { { "a", { name } } }, stages = stages(name) }
      for _, runtime in ipairs(output.names) do
        local ok <const>, why <const> = pcall(output.render, plan, runtime)
        assert.is_false(ok)
        assert.matches("^plan: stages%[0%].gpus%[0%].node: got .+, expected the name or address of a host", why)
      end
    end
  end)
end)

describe("a stage without a transformer layer", function()
  it("is refused by runtimes that hang or fail on it", function()
    local all <const> = { 0, 1, 2, 3 }
    local plan <const> = mixed { stages = {
      { island = "a", gpus = { { "a1", all } }, layers = 0, strategy = { tp = 4, sp = true } },
      { island = "a", gpus = { { "a2", all } }, layers = 24, strategy = { tp = 4, sp = true } } } }
    for _, name in ipairs { "deepspeed", "galvatron", "primus", "torchtitan", "sailor-json" } do
      local code <const>, text <const> = refusal(plan, name)
      assert.equal("L2", code)
      assert.matches("stage 1 holds no transformer layer, and " .. name:gsub("%-", "%%-") .. " needs at least one in each", text)
    end
  end)
end)

describe("export to Galvatron", function()
  before_each(function() folder = support.folder() end)
  after_each(function() support.remove(folder) end)

  it("gives each layer its tp, ZeRO and recompute, read back by the runtime's rules", function()
    local plan <const> = mixed()
    local files <const>, result <const> = files_of(plan, "galvatron")
    local processes <const> = launched(plan, "galvatron", nil, "GALVATRON=/g")
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

describe("export to DeepSpeed", function()
  before_each(function() folder = support.folder() end)
  after_each(function() support.remove(folder) end)

  it("writes a PipelineModule whose ranks hold the plan's layers", function()
    if not has_python then return pending "python3 is absent" end
    local plan <const> = plans.three_stages()
    local files <const>, result <const> = files_of(plan, "deepspeed")
    local ran <const> = python(files, "deepspeed %s")
    local include <const> = files["launch.sh"]:match "%-%-include '([^']*)'"
    local processes <const> = exported.hostfile(files.hostfile, include)
    assert.same(placed.plan(plan), exported.deepspeed(ran.ranks, processes, 24))
    assert.same({ 0, true }, { ran.options.activation_checkpoint_interval, ran.refuses_other_counts })
    assert.matches("BOUNDS = %[0, 13, 20, 27%]", files["tangram_pipe.py"]) -- as the reference has it for 12/7/5
    assert.matches("code, not configuration", files["tangram_pipe.py"])
    assert.matches("%*%*Experimental%.%*%*", files["README.md"])
    assert.matches("balances nothing", warned(result, "W2"))
  end)

  it("puts replicas, tensor parallelism and part of a node in their places", function()
    if not has_python then return pending "python3 is absent" end
    local plan <const> = alike({ tp = 2, dp = 2, sp = true, zero = 1, recompute = { kind = "full" } },
      { nodes = { { "a1", "a100-sxm4-80", 8 }, { "a2", "a100-sxm4-80", 8 }, { "a3", "a100-sxm4-80", 8 } },
        islands = { { "a", { "a1", "a2", "a3" } } } })
    plan.stages[4].gpus[1] = { node = "a3", indices = { 2, 3, 6, 7 } }
    plan.stages[3].gpus[1] = { node = "a2", indices = { 0, 1, 4, 5 } }
    local files <const> = files_of(plan, "deepspeed")
    local ran <const> = python(files, "deepspeed %s")
    local processes <const> = exported.hostfile(files.hostfile, files["launch.sh"]:match "%-%-include '([^']*)'")
    assert.same(placed.plan(plan), exported.deepspeed(ran.ranks, processes, 24))
    assert.equal(1, ran.options.activation_checkpoint_interval)
    assert.equal("a1 slots=8\na2 slots=8\na3 slots=8\n", files.hostfile)
  end)

  it("writes batch arithmetic that DeepSpeed's own check takes", function()
    local config <const> = core.json_decode(files_of(plans.three_stages(), "deepspeed")["ds_config.json"])
    assert.equal(64, config.train_micro_batch_size_per_gpu * config.gradient_accumulation_steps * 1)
    assert.same({ 64, 0, true, false }, { config.train_batch_size, config.zero_optimization.stage, config.fp16.enabled,
      config.bf16.enabled })
  end)

  it("starts the same processes by torchrun", function()
    local plan <const> = plans.three_stages()
    local processes <const>, args <const> = launched(plan, "deepspeed", { set = { launcher = "torchrun" } }, "TANGRAM_LAYERS=mine")
    assert.same({ 12, "train.py", "a1" }, { processes.count, args[1], args["master-addr"] })
    assert.same({ "v1", 7 }, { processes[11].host, processes[11].device })
  end)

  it("refuses by code and sentence", function()
    local function expect(want, pattern, plan, options)
      local got <const>, text <const> = refusal(plan, "deepspeed", options)
      assert.same(want, got)
      assert.matches(pattern, text)
    end
    expect("G2", "stage 1 uses tp 2 x dp 2 with sequence parallelism but stage 2 tp 4 x dp 1", mixed())
    expect("Z1", "stage 1 uses ZeRO 2, but deepspeed has at most ZeRO 1 with a pipeline", alike { tp = 2, dp = 2, sp = true, zero = 2 })
    local half <const> = alike { tp = 4, dp = 1, sp = true, zero = 0 }
    half.stages[2].strategy.recompute = { kind = "full", layers = 2 }
    expect("R3", "stage 1 recomputes 0 of 8 layers, stage 2 2 of 7.+%-%-set recompute=nearest", half)
    expect("E2", "stage 1 has ep 4, but 6 experts are not divisible by it; legal ep: 1, 2, 3, 6",
      alike({ tp = 1, dp = 4, ep = 4, zero = 1, sp = false },
        { model = plans.model { experts = 6, experts_per_token = 2, expert_ffn = 1024 } }))
    expect("E5", "stage 1 has ep 4 x etp 1, but pipelines of deepspeed have ep 1", alike({ tp = 1, dp = 4, ep = 4, zero = 1, sp = false },
      { model = plans.model { experts = 8, experts_per_token = 2, expert_ffn = 1024 } }))
    expect("N1", "node a1 runs 4 processes, node v1 8; the launcher of mpich needs the same", plans.three_stages(),
      { set = { launcher = "mpich" } })
    local split <const> = alike { tp = 4, dp = 1, sp = true, zero = 0 }
    split.stages[2].gpus[1], split.stages[3].gpus[1] = split.stages[3].gpus[1], split.stages[2].gpus[1]
    expect("P1", "node a1 holds stages 1 and 3 with others between them, .+ %-%-set launcher=torchrun", split)
    local order <const> = alike { tp = 4, dp = 1, sp = true, zero = 0 }
    order.stages[1].gpus[1], order.stages[2].gpus[1] = order.stages[2].gpus[1], order.stages[1].gpus[1]
    expect("P1", "GPU 7 of node a1 comes before its GPU 0", order)
    files_of(order, "deepspeed", { set = { launcher = "torchrun" } })
  end)
end)

describe("export to torchtitan", function()
  before_each(function() folder = support.folder() end)
  after_each(function() support.remove(folder) end)

  it("names every module of the model once, in its stage", function()
    if not has_python then return pending "python3 is absent" end
    local plan <const> = llama { tp = 2, dp = 2, sp = true, zero = 1, recompute = { kind = "full" } }
    local files <const> = files_of(plan, "torchtitan")
    local c <const> = python(files, "torchtitan %s llama3 llama3_8b late")
    local processes <const>, flags <const> = launched(plan, "torchtitan", nil, "TORCHTITAN=/")
    local stages <const> = exported.in_a_row(processes, { 9, 9, 8, 6 }, function()
      return c.tensor_parallel_degree, c.context_parallel_degree
    end)
    assert.same(placed.plan(plan), stages)
    for s, stage in ipairs(exported.modules(c.pipeline_parallel_module_fqns_per_model_part, 32)) do
      assert.same({ stages[s].first, stages[s].last, stages[s].embedding, stages[s].head },
        { stage.first, stage.last, stage.embedding, stage.head })
    end
    -- dp_replicate * dp_shard * cp * tp * pp is the world
    assert.equal(16, c.data_parallel_replicate_degree * c.data_parallel_shard_degree * c.context_parallel_degree
      * c.tensor_parallel_degree * c.pipeline_parallel_degree)
    assert.same({ 2, "never", "1F1B", 16, 2 * 2048, 64 * 2048, 2048, "full", "bfloat16" }, { c.data_parallel_shard_degree,
      c.fsdp_reshard_after_forward, c.pipeline_parallel_schedule, c.num_pp_microbatches, c.num_tokens_per_microbatch_per_dp_rank,
      c.num_tokens_per_train_step, c.max_context_length, c.recompute, c.mixed_precision_param })
    assert.same({ "tangram_plan", "plan" }, { flags.module, flags.config })
    local early <const> = python(files, "torchtitan %s llama3 llama3_8b early")
    assert.same({ c.pipeline_parallel_module_fqns_per_model_part, 2048, "full" }, { early.module_fqns_per_model_part, early.seq_len,
      early.recompute })
  end)

  it("shards without a pipeline as FSDP does", function()
    local function flags(zero)
      local all <const> = { 0, 1, 2, 3 }
      local plan <const> = mixed { stages = {
        { island = "a", gpus = { { "a1", all } }, layers = 24, strategy = { dp = 4, zero = zero } } } }
      local files <const>, result <const> = files_of(plan, "torchtitan", { set = { module = "mine", config = "small" } })
      local read <const> = exported.settings(files["tangram_plan.py"])
      return { read.data_parallel_replicate_degree, read.data_parallel_shard_degree, read.fsdp_reshard_after_forward,
        warned(result, "W6") ~= nil }
    end
    assert.same({ 4, 1, "never", false }, flags(0))
    assert.same({ 1, 4, "never", true }, flags(1))
    assert.same({ 1, 4, "never", false }, flags(2))
    assert.same({ 1, 4, "always", false }, flags(3))
  end)

  it("cuts at split points in the TOML of 2025", function()
    local plan <const> = llama { tp = 2, dp = 2, sp = true, zero = 1 }
    local files <const> = files_of(plan, "torchtitan", { version = "2025" })
    local toml <const> = exported.toml(files["plan.toml"])
    local p <const>, t <const> = toml.parallelism, toml.training
    assert.same({ "layers.9", "layers.18", "layers.26" }, p.pipeline_parallel_split_points)
    assert.same({ "llama3", "8B" }, { toml.model.name, toml.model.flavor })
    -- local batch = microbatch 2 * 16 microbatches; times dp 2 it is the global batch
    assert.same({ 32, 64, 2, 4, 2, 2, "never", "none" }, { t.local_batch_size, t.global_batch_size, p.pipeline_parallel_microbatch_size,
      p.pipeline_parallel_degree, p.tensor_parallel_degree, p.data_parallel_shard_degree, p.fsdp_reshard_after_forward,
      toml.activation_checkpoint.mode })
  end)

  it("refuses by code and sentence", function()
    local function expect(want, pattern, plan, options)
      local got <const>, text <const> = refusal(plan, "torchtitan", options)
      assert.same(want, got)
      assert.matches(pattern, text)
    end
    expect("D3", "fp16 is planned, but torchtitan trains in bf16 or fp32", plans.three_stages())
    expect("M3", "no size of torchtitan's llama3 is known to have 24 layers of hidden size 2048; %-%-set config=NAME",
      alike { tp = 2, dp = 2, sp = true, zero = 1 })
    expect("M3", "%-%-set flavor=NAME names the flavor", alike { tp = 2, dp = 2, sp = true, zero = 1 }, { version = "2025" })
    expect("M3", "no model of family gpt2 by name; %-%-set module=NAME", alike({ tp = 2, dp = 2, sp = true, zero = 1 },
      { model = require("tangram.model").new { layers = 24, hidden = 2048, heads = 16, vocab = 32000, tied = false } }))
    expect("Z1", "stage 1 uses ZeRO 2, but torchtitan has at most ZeRO 1 with a pipeline", llama { tp = 2, dp = 2, sp = true, zero = 2 })
    expect("Z4", "dp 2 is planned as ZeRO 0, .+nearest: ZeRO 1", llama { tp = 2, dp = 2, sp = true, zero = 0 }, { version = "2025" })
    expect("S3", "without sequence parallelism", llama { tp = 2, dp = 2, sp = false, zero = 1 })
    expect("H2", "stage 1 has tp 4, but the model has 2 key%-value heads, and torchtitan needs tp to divide them; legal tp: 1, 2",
      alike({ tp = 4, dp = 1, sp = true, zero = 0 }, { model = plans.model { kv_heads = 2 } }))
    expect("T4", "embedding and head are tied", alike({ tp = 2, dp = 2, sp = true, zero = 1 }, { model = plans.model { tied = true } }))
    files_of(alike { tp = 2, dp = 2, sp = true, zero = 1 }, "torchtitan", { set = { module = "mine", config = "small" } })
    assert.error_matches(function()
      output.render(llama { tp = 2, dp = 2, sp = true, zero = 1 }, "torchtitan", { set = { config = "x()\nimport os" } })
    end, "^torchtitan: %-%-set: config: got 'x%(%) import os', expected letters, digits")
  end)
end)

describe("recompute=nearest of runtimes that recompute all layers or none", function()
  it("recomputes all and prices it, and leaves alone what they can run", function()
    local plan <const> = plans.three_stages()
    plan.stages[2].strategy.recompute = { kind = "full", layers = 4 }
    local files <const>, result <const> = files_of(plan, "deepspeed", { set = { recompute = "nearest" } })
    assert.matches("RECOMPUTE = True", files["tangram_pipe.py"])
    assert.matches("^recompute is all layers of every stage, in place of one setting a stage: .* GiB$", result.notes[1])
    for _, stage in ipairs(result.launch.stages) do assert.equal(stage.layers, stage.recompute.layers) end
    local priced <const> = require("tangram.recost").plan(core.json_decode(core.json_encode(plans.three_stages())), "plan")
    -- a full recompute adds a forward to each stage: between 5 and 40 % of forward and backward together
    assert.is_true(result.launch.time_s > 1.05 * priced.time_s and result.launch.time_s < 1.4 * priced.time_s)
    local _, same <const> = files_of(plans.three_stages(), "deepspeed", { set = { recompute = "nearest" } })
    assert.same({}, same.notes)
  end)
end)

describe("export to Primus", function()
  it("is Megatron with a plain list of layers by stage", function()
    local plan <const> = plans.three_stages()
    local files <const> = files_of(plan, "primus")
    local args <const>, layers <const> = exported.primus(files["experiment.yaml"])
    local text <const> = files["node.sh"]:gsub("\nPRIMUS=", "\nPLAN=(\n)\nPRIMUS=")
    local stages <const> = exported.in_a_row((scripts.read(text, files["launch.sh"])), layers, function()
      return args.tensor_model_parallel_size, args.context_parallel_size
    end)
    assert.same(placed.plan(plan), stages)
    assert.same({ 12, 7, 5 }, args.decoder_pipeline_manual_split_list)
    assert.same({ 2, 64, true, false, true, true, true, false }, { args.micro_batch_size, args.global_batch_size, args.swiglu,
      args.add_bias_linear, args.untie_embeddings_and_output_weights, args.sequence_parallel, args.fp16,
      args.use_distributed_optimizer })
    local gpt <const> = exported.primus(files_of(plans.three_stages { model = require("tangram.model").new {
      layers = 24, hidden = 2048, heads = 16, vocab = 32000 } }, "primus")["experiment.yaml"])
    assert.same({ false, true, false }, { gpt.swiglu, gpt.add_bias_linear, gpt.untie_embeddings_and_output_weights })
  end)

  it("refuses what Megatron can't run", function()
    local plan <const> = plans.three_stages()
    plan.stages[1].strategy.tp, plan.stages[1].strategy.dp = 2, 2
    assert.equal("G2", (refusal(plan, "primus")))
    local other <const> = plans.three_stages()
    other.stages[2].strategy.recompute = { kind = "full", layers = 3 }
    assert.equal("R1", (refusal(other, "primus")))
  end)
end)

describe("export to Sailor", function()
  it("gives the planner's form and ranks by stage and replica", function()
    local plan <const> = plans.three_stages()
    local files <const> = files_of(plan, "sailor-json")
    local stages <const>, read <const>, world <const> = exported.sailor(files["plan_config.json"], files["dist_config.json"])
    assert.equal(12, world)
    assert.same({ 2, 64 }, { read.mbs, read.gbs })
    -- embedding is 0, layers 1 to 24, then norm and head of a LLaMA model
    assert.same({ { first = 0, last = 12, gpus = { "A100-80" }, tp = 4, dp = 1 },
      { first = 13, last = 19, gpus = { "V100-32" }, tp = 4, dp = 1 },
      { first = 20, last = 26, gpus = { "V100-32" }, tp = 4, dp = 1 } }, stages)
    local named <const> = exported.sailor(files_of(plan, "sailor-json", { set = { gpus = { ["v100-sxm2-32"] = "V100-16" },
      norm_apart = false } })["plan_config.json"], files["dist_config.json"])
    assert.same({ "V100-16", 25 }, { named[3].gpus[1], named[3].last })
  end)

  it("refuses unequal replicas, and says what its form has no place for", function()
    local code <const>, text <const> = refusal(mixed(), "sailor-json")
    assert.equal("G3", code)
    assert.matches("stage 1 has 2 replicas, stage 2 1", text)
    local plan <const> = plans.three_stages()
    plan.stages[2].strategy.recompute = { kind = "full" }
    local _, result <const> = files_of(plan, "sailor-json")
    assert.matches("stage 2 is planned with recompute", warned(result, "W1"))
    local all <const> = { 0, 1, 2, 3, 4, 5, 6, 7 }
    local merged <const> = mixed { nodes = { { "a1", "a100-sxm4-80", 8 }, { "a2", "a100-pcie-80", 8 } },
      stages = { { island = "a", gpus = { { "a1", all }, { "a2", all } }, layers = 24, strategy = { tp = 4, dp = 4, sp = true } } } }
    assert.matches("stage 1 is on a100%-sxm4%-80 and a100%-pcie%-80; all of it is written as the first", warned(select(2,
      files_of(merged, "sailor-json")), "W1"))
  end)
end)

describe("plans at random", function()
  local state = 20261130
  local function random(n) -- Park and Miller's generator
    state = state * 16807 % 2147483647
    return state % n + 1
  end
  local function one_of(list) return list[random(#list)] end

  --- Two to four stages of four GPUs, often alike; layers, degrees, ZeRO and recompute at random.
  local function plan_of()
    local stages <const>, count <const>, alike_too <const> = {}, 1 + random(3), random(2) == 1
    local left, common = 24, nil
    for s = 1, count do
      local layers <const> = s == count and left or random(left - 2 * (count - s))
      left = left - layers
      local tp <const> = one_of { 1, 2, 4 }
      local cp <const> = random(4) == 1 and one_of { 1, 2 } or 1
      local strategy = { tp = tp, cp = tp * cp > 4 and 1 or cp, sp = tp > 1, zero = one_of { 0, 0, 1, 1, 2, 3 } }
      strategy.dp = 4 // (strategy.tp * strategy.cp)
      if strategy.dp * strategy.cp == 1 then strategy.zero = 0 end
      common = common or strategy
      if alike_too then
        strategy = {}
        for name, value in pairs(common) do strategy[name] = value end
      end
      strategy.recompute = one_of { { kind = "none" }, { kind = "none" }, { kind = "full", layers = random(layers) },
        { kind = "selective" } }
      if alike_too then strategy.recompute = { kind = common.tp == 2 and "full" or "none" } end
      local node <const>, first <const> = s < 3 and "a1" or "a2", s % 2 == 1 and 0 or 4
      stages[s] = { island = "a", gpus = { { node, { first, first + 1, first + 2, first + 3 } } }, layers = layers, strategy = strategy }
    end
    return mixed { stages = stages }
  end

  local function processes_of(files)
    return (scripts.read((files["node.sh"]:gsub("\n[A-Z]+=%$", "\nPLAN=(\n)%0", 1)), files["launch.sh"]))
  end
  local ranked <const> = {
    galvatron = function(files) return (exported.galvatron(files["galvatron_config.json"], processes_of(files))) end,
    primus = function(files)
      local args <const>, layers <const> = exported.primus(files["experiment.yaml"])
      return exported.in_a_row(processes_of(files), layers, function()
        return args.tensor_model_parallel_size, args.context_parallel_size
      end)
    end,
    torchtitan = function(files)
      local set <const>, lists <const>, layers <const> = exported.settings(files["tangram_plan.py"]), {}, {}
      for line in files["tangram_plan.py"]:match "MODULES = %[\n(.-)\n%]":gmatch "[^\n]+" do
        lists[#lists + 1] = {}
        for name in line:gmatch '"([^"]+)"' do table.insert(lists[#lists], name) end
      end
      for s, stage in ipairs(exported.modules(lists, 24)) do layers[s] = stage.last - stage.first end
      return exported.in_a_row(processes_of(files), layers, function()
        return set.tensor_parallel_degree, set.context_parallel_degree
      end)
    end,
    deepspeed = function(files)
      local text <const>, bounds <const>, ranks <const> = files["tangram_pipe.py"], {}, {}
      for number in text:match "BOUNDS = %[([%d, ]+)%]":gmatch "%d+" do bounds[#bounds + 1] = math.tointeger(tonumber(number)) end
      local pp <const>, tp <const>, dp <const> = text:match "STAGES, TP, DP = (%d+), (%d+), (%d+)"
      for s = 0, pp - 1 do
        for d = 0, dp - 1 do
          for t = 0, tp - 1 do ranks[#ranks + 1] = { s, bounds[s + 1], bounds[s + 2], d, t } end
        end
      end
      return exported.deepspeed(ranks, exported.hostfile(files.hostfile, files["launch.sh"]:match "%-%-include '([^']*)'"), 24)
    end,
  }

  it("are taken where independent rules say so, and read back as they were", function()
    local taken <const>, refused <const> = {}, {}
    for _ = 1, support.scale(40) do
      local plan <const> = checked(plan_of())
      for name, read in pairs(ranked) do
        local set <const> = name == "torchtitan" and { module = "mine", config = "small" } or nil
        local result <const>, files <const> = output.render(plan, name, { set = set }), {}
        local right <const>, wrong <const> = runnable.check(name, plan.stages, plan.model, 4)
        assert.equal(right or false, result.files ~= nil, ("%s: %s; %s"):format(name, wrong, (result.findings[1] or {}).text))
        if result.files then
          for _, file in ipairs(result.files) do files[file.name] = file.text end
          assert.same(placed.plan(plan), read(files))
        end
        local counts <const> = result.files and taken or refused
        counts[name] = (counts[name] or 0) + 1
      end
    end
    for name in pairs(ranked) do assert.is_truthy(taken[name] and refused[name], name) end
  end)
end)
