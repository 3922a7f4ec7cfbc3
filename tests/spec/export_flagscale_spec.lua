local core <const> = require "tangram.core"
local flagscale <const> = require "tests.oracle.flagscale"
local output <const> = require "tangram.output"
local placed <const> = require "tests.oracle.placed"
local plans <const> = require "tests.spec.fixtures.plans"
local scripts <const> = require "tests.oracle.scripts"
local support <const> = require "tests.spec.support"
local yaml <const> = require "tests.oracle.yaml"

local function files_of(plan, options)
  assert.same({ true }, { core.plan_check(core.json_encode(plan)) })
  local result <const>, files <const> = output.render(plan, "flagscale", options), {}
  assert.is_truthy(result.files, (result.findings[1] or {}).text)
  for _, file in ipairs(result.files) do files[file.name] = file.text end
  return files, result
end

local function read(plan, options)
  local files <const> = files_of(plan, options)
  local config <const>, train <const> = yaml(files["config.yaml"]), yaml(files["train/plan.yaml"])
  return flagscale.stages(config.experiment, train, files.hostfile), train, config, files
end

--- The plan's stages with recompute and microbatch, as the oracle gives them.
local function wanted(plan)
  local stages <const> = placed.plan(plan)
  for s, stage in ipairs(plan.stages) do
    local recompute <const> = stage.strategy.recompute
    stages[s].recompute = recompute.kind == "full" and (recompute.layers or stage.layers) or recompute.kind
    stages[s].microbatch = plan.training.global_batch // plan.microbatches // stage.strategy.dp
  end
  return stages
end

--- Codes of what makes the export fail.
local function codes(plan, options)
  local result <const>, list <const> = output.render(plan, "flagscale", options), {}
  for _, finding in ipairs(result.findings) do
    if finding.fatal then list[finding.code] = finding.text end
  end
  assert.equal(next(list) == nil, result.files ~= nil)
  return list
end

--- Two unlike meshes: tp 4 on four A100; tp 2, dp 2 in two stages on eight V100.
local function unlike(changes)
  local v <const> = { tp = 2, dp = 2, sp = true, zero = 1 }
  local spec <const> = {
    stages = {
      { island = "a", gpus = { { "a1", { 0, 1, 2, 3 } } }, layers = 12, strategy = { tp = 4, sp = true } },
      { island = "v", gpus = { { "v1", { 0, 1, 2, 3 } } }, layers = 7, strategy = v },
      { island = "v", gpus = { { "v1", { 4, 5, 6, 7 } } }, layers = 5, strategy = v },
    },
  }
  for name, value in pairs(changes or {}) do spec[name] = value end
  return plans.three_stages(spec)
end

describe("export to FlagScale", function()
  it("writes unlike meshes as the reference's example has them", function()
    local plan <const> = unlike()
    local stages <const>, train <const>, config <const>, files <const> = read(plan)
    assert.same(wanted(plan), stages)
    assert.same({ 4, 1, 1, 1, 1, 2, 1, 1, 2, 2 }, train.system.hetero.hetero_process_meshes)
    assert.same({ 12, 7, 5 }, train.system.hetero.hetero_pipeline_layer_split)
    assert.same({ "a", "v" }, train.system.hetero.hetero_device_types)
    assert.equal("a1 slots=4 type=a\nv1 slots=8 type=v\n", files.hostfile)
    assert.same({ 4, 3, true, true, "torch" }, { train.system.tensor_model_parallel_size, train.system.pipeline_model_parallel_size,
      train.system.sequence_parallel, train.system.use_distributed_optimizer, train.system.checkpoint.ckpt_format })
    assert.same({ 2, 64, 24, true }, { train.model.micro_batch_size, train.model.global_batch_size, train.model.num_layers,
      train.system.precision.fp16 })
    assert.same({ "_self_", { train = "plan" } }, config.defaults)
    assert.is_nil(train.system.recompute)
  end)

  it("gives back the plan, whatever legal plan it is", function()
    math.randomseed(72)
    for _ = 1, support.scale(100) do
      local plan <const> = plans.random(false)
      plan.training.attention = "unfused"
      for _, stage in ipairs(plan.stages) do
        local layers <const> = math.random(0, stage.layers)
        stage.strategy.recompute = layers > 0 and { kind = "full", layers = layers } or { kind = "none" }
      end
      assert.same(wanted(plan), (read(plan)))
    end
  end)

  it("writes the shapes that FlagScale runs in its own tests", function()
    --- A stage a node: { tp, dp, layers, ep }.
    local function shape(rows, changes)
      local spec <const> = { nodes = {}, islands = {}, stages = {} }
      for s, row in ipairs(rows) do
        local tp <const>, dp <const>, layers <const>, ep <const> = table.unpack(row)
        local node <const>, indices <const> = ("n%d"):format(s), {}
        for i = 1, tp * dp do indices[i] = i - 1 end
        spec.nodes[s], spec.islands[s] = { node, "a100-pcie-80", tp * dp }, { ("i%d"):format(s), { node } }
        spec.stages[s] = { island = ("i%d"):format(s), gpus = { { node, indices } }, layers = layers,
          strategy = { tp = tp, dp = dp, ep = ep, sp = tp > 1, zero = dp > 1 and 1 or 0 } }
      end
      for name, value in pairs(changes) do spec[name] = value end
      local plan <const> = plans.make(spec)
      local stages <const>, train <const> = read(plan)
      assert.same(wanted(plan), stages)
      return train.system.hetero, train.model
    end
    local unlike_tp <const> = shape({ { 2, 1, 6 }, { 4, 1, 2 }, { 2, 1, 4 } },
      { model = plans.model { layers = 12 }, global_batch = 32, microbatches = 32 })
    assert.same({ 2, 1, 1, 1, 1, 4, 1, 1, 1, 1, 2, 1, 1, 1, 1 }, unlike_tp.hetero_process_meshes)
    local unlike_dp <const>, model <const> = shape({ { 2, 1, 2 }, { 2, 2, 4 }, { 1, 2, 2 } },
      { model = plans.model { layers = 8 }, global_batch = 1024, microbatches = 256 })
    assert.same({ 2, 1, 1, 1, 1, 2, 1, 1, 2, 1, 1, 1, 1, 2, 1 }, unlike_dp.hetero_process_meshes)
    assert.same({ 4, 1024 }, { model.micro_batch_size, model.global_batch_size })
    local shared <const> = shape({ { 1, 2, 4 }, { 1, 4, 4 } },
      { model = plans.model { layers = 8, tied = true }, global_batch = 64, microbatches = 8 })
    assert.same({ 1, 1, 1, 2, 1, 1, 1, 1, 4, 1 }, shared.hetero_process_meshes)
    assert.is_true(shared.use_partial_reduce_for_shared_embedding)
    local experts <const> = shape({ { 1, 4, 11, 2 }, { 1, 2, 6, 2 }, { 1, 2, 7, 2 } }, { global_batch = 64, microbatches = 16,
      model = plans.model { family = "qwen3_moe", experts = 8, experts_per_token = 2, expert_ffn = 1024 } })
    assert.same({ 1, 1, 2, 4, 1, 1, 1, 2, 2, 1, 1, 1, 2, 2, 1 }, experts.hetero_process_meshes)
    assert.same({ 1, 1, 1 }, experts.expert_tensor_parallel_size_per_process_mesh)
    assert.same({ 11, 6, 7 }, experts.hetero_pipeline_layer_split)
  end)

  it("is YAML and shell to their own parsers", function()
    if os.execute "python3 -c 'import yaml' 2>/dev/null" ~= true then return pending "python3 has no yaml" end
    local folder <const> = support.folder()
    output.write(unlike(), "flagscale", folder .. "/out")
    local status <const>, stdout <const> = support.run(("bash -n %s/out/launch.sh && cd %s/out && python3 -c '%s'"):format(folder, folder,
      "import yaml, json; print(json.dumps([yaml.safe_load(open(f)) for f in (\"config.yaml\", \"train/plan.yaml\")]))"))
    assert.equal(0, status)
    local theirs <const> = core.json_decode(stdout)
    assert.same(yaml(support.read(folder .. "/out/config.yaml")), theirs[1])
    assert.same(yaml(support.read(folder .. "/out/train/plan.yaml")), theirs[2])
    support.remove(folder)
  end)

  it("launches from its folder with absolute places", function()
    local folder <const> = support.folder()
    local stage <const> = scripts.stage(folder)
    output.write(unlike(), "flagscale", folder .. "/out")
    assert(os.execute("mkdir " .. folder .. "/flagscale"))
    assert.equal(0, (support.run(("%s export FLAGSCALE=%s/flagscale; cd / && %s/out/launch.sh"):format(stage, folder, folder))))
    assert.same({ { folder .. "/flagscale", "python", "run.py", "--config-path", folder .. "/out", "--config-name", "config",
      "experiment.runner.hostfile=" .. folder .. "/out/hostfile", "experiment.exp_dir=" .. folder .. "/out/outputs", "action=run" } },
      scripts.calls(folder))
    support.remove(folder)
  end)

  it("gives each mesh a label of its own, save neighbours on one host", function()
    local one <const> = { tp = 2, dp = 1, sp = true }
    local plan <const> = plans.three_stages {
      stages = {
        { island = "a", gpus = { { "a1", { 0, 1 } } }, layers = 6, strategy = one },
        { island = "a", gpus = { { "a1", { 2, 3 } } }, layers = 6, strategy = { tp = 1, dp = 2 } },
        { island = "v", gpus = { { "v1", { 0, 1, 2, 3, 4, 5, 6, 7 } } }, layers = 12, strategy = { tp = 8, sp = true } },
      },
    }
    local stages <const>, train <const>, _, files <const> = read(plan)
    assert.same(wanted(plan), stages)
    assert.same({ "a", "a", "v" }, train.system.hetero.hetero_device_types)
    assert.equal("a1 slots=4 type=a\nv1 slots=8 type=v\n", files.hostfile)
    -- one island, two hosts, other degrees on each: two labels
    local apart <const> = plans.three_stages {
      nodes = { { "a1", "a100-pcie-80", 4 }, { "a2", "a100-pcie-80", 4 } }, islands = { { "a b", { "a1", "a2" } } },
      stages = {
        { island = "a b", gpus = { { "a1", { 0, 1, 2, 3 } } }, layers = 12, strategy = { tp = 4, sp = true } },
        { island = "a b", gpus = { { "a2", { 0, 1, 2, 3 } } }, layers = 12, strategy = { tp = 2, dp = 2, sp = true } },
      },
    }
    local two <const>, labelled <const> = read(apart)
    assert.same(wanted(apart), two)
    assert.same({ "a_b", "a_b_2" }, labelled.system.hetero.hetero_device_types)
  end)

  it("shows a node only the GPUs in use, in order", function()
    local plan <const> = plans.three_stages {
      stages = {
        { island = "a", gpus = { { "a1", { 3, 2 } } }, layers = 12, strategy = { tp = 2, sp = true } },
        { island = "v", gpus = { { "v1", { 4, 5, 6, 7 } } }, layers = 12, strategy = { tp = 4, sp = true } },
      },
    }
    local stages <const>, _, config <const> = read(plan)
    assert.same(wanted(plan), stages)
    assert.same({ a1 = { CUDA_VISIBLE_DEVICES = "3,2" }, v1 = { CUDA_VISIBLE_DEVICES = "4,5,6,7" } }, config.experiment.envs.node_specific)
    local _, result <const> = files_of(plan)
    assert.matches("idle GPUs: 2 of a1 %(0, 1%); 4 of v1 %(0, 1, 2, 3%)", result.findings[#result.findings].text)
  end)

  it("recomputes by stage with the backend of 2025-11 alone", function()
    local plan <const> = unlike()
    plan.stages[2].strategy.recompute = { kind = "full", layers = 7 }
    plan.stages[3].strategy.recompute = { kind = "full", layers = 4 }
    local stages <const>, train <const> = read(plan)
    assert.same(wanted(plan), stages)
    assert.same({ { 1, 32, 0 }, { 2, 32, 1 } }, train.system.recompute.recompute_granularity_per_stage_micro_batch)
    assert.same({ { 2, 32, 0 }, { 1, 32, 1 } }, train.system.recompute.recompute_method_per_stage_micro_batch)
    assert.same({ { 2, 32, 1 }, { 1, 32, 4 } }, train.system.recompute.recompute_num_layers_per_stage_micro_batch)
    assert.matches("ignores settings by stage", codes(plan, { version = "2026-07" }).R2)
    -- what the newer one takes in its place is one setting for all
    local near <const>, result <const> = files_of(plan, { version = "2026-07", set = { recompute = "nearest" } })
    local recompute <const> = yaml(near["train/plan.yaml"]).system.recompute
    assert.same({ recompute_granularity = "full", recompute_method = "block", recompute_num_layers = 7 }, recompute)
    assert.matches("recompute is the first 7 layers of every stage", result.notes[1])
    plan.stages[1].strategy.recompute = { kind = "selective" }
    assert.matches("can't set stage 1 to the attention core alone", codes(plan).R2)
  end)

  it("pads the vocabulary of unlike end stages to one size", function()
    for _, case in ipairs { { 32000, 4, 2 }, { 50257, 1, 8 }, { 151936, 2, 8 }, { 250880, 4, 4 }, { 32003, 4, 1 } } do
      local vocab <const>, a <const>, b <const> = table.unpack(case)
      local front <const>, rear <const> = { tp = a, dp = 4 // a, sp = a > 1 }, { tp = b, dp = 8 // b, sp = b > 1 }
      local plan <const> = plans.three_stages { model = plans.model { vocab = vocab },
        stages = {
          { island = "a", gpus = { { "a1", { 0, 1, 2, 3 } } }, layers = 12, strategy = front },
          { island = "v", gpus = { { "v1", { 0, 1, 2, 3, 4, 5, 6, 7 } } }, layers = 12, strategy = rear },
        }, global_batch = 64, microbatches = 8 }
      local _, train <const> = read(plan)
      local multiple <const> = train.data.tokenizer.make_vocab_size_divisible_by
      local function padded(tp) return math.ceil(vocab / (multiple * tp)) * multiple * tp end
      assert.equal(padded(a), padded(b))
      assert.is_true(padded(b) >= vocab and padded(b) - vocab < 128 * math.max(a, b))
      assert.equal(0, padded(b) % (128 * math.max(a, b)))
    end
  end)
end)

describe("FlagScale's checks", function()
  --- The plan that passes, and with `over` set, or changed by `change`, is refused with the code and the words.
  local function fails(code, words, over, change, changes)
    local plan <const> = unlike(changes)
    if not change then assert.same({}, codes(plan)) end
    if change then change(plan) end
    local text <const> = codes(plan, { set = over })[code]
    assert.is_string(text, code)
    assert.truthy(text:find(words, 1, true), text)
  end
  local function hetero(values) return { system = { hetero = values } } end

  it("F1: five numbers a mesh", function()
    fails("F1", "holds 9 numbers", hetero { hetero_process_meshes = { 4, 1, 1, 1, 1, 2, 1, 1, 2 } })
  end)
  it("F2: pp adds up", function()
    fails("F2", "pipeline_model_parallel_size is 4, but the meshes' pp add up to 3", { system = { pipeline_model_parallel_size = 4 } })
  end)
  it("F3: a label a mesh", function()
    fails("F3", "holds 3 labels, expected one a mesh, 2", hetero { hetero_device_types = { "a", "b", "c" } })
  end)
  it("F4: the current label is one of them", function()
    fails("F4", "'x' is not one of [a, v]", hetero { hetero_current_device_type = "x" })
  end)
  it("F5: dp of the first mesh times the microbatch is a multiple of each dp", function()
    fails("F5", "dp 1 of mesh 0 x micro_batch_size 3 = 3 is not a multiple of dp 2 of mesh 1; the next micro_batch_size that works is 4",
      { model = { micro_batch_size = 3 } })
  end)
  it("F6: cp is 1", function()
    local function longer(plan)
      for _, stage in ipairs(plan.stages) do
        if stage.island == "v" then stage.strategy.cp, stage.strategy.dp = 2, 1 end
      end
    end
    fails("C1", "stage 2 has cp 2, but flagscale needs cp 1 in every stage", nil, longer)
    fails("F6", "mesh 1 has cp 2", hetero { hetero_process_meshes = { 4, 1, 1, 1, 1, 2, 2, 1, 1, 2 } })
  end)
  it("F7: ep is 1 in all meshes or in none", function()
    local moe <const> = plans.model { family = "qwen3_moe", experts = 8, experts_per_token = 2, expert_ffn = 1024 }
    local function spread(plan) plan.stages[2].strategy.ep, plan.stages[3].strategy.ep = 2, 2 end
    fails("E1", "stage 1 has ep 1, stage 2 ep 2", nil, spread, { model = moe })
    fails("F7", "mesh 0 has ep 1 and mesh 1 ep 2: all must be 1 or none",
      hetero { hetero_process_meshes = { 4, 1, 1, 1, 1, 2, 1, 2, 2, 2 } })
  end)
  it("F8: the split covers the layers", function()
    fails("F8", "[12, 7, 4] adds up to 23, but num_layers is 24", hetero { hetero_pipeline_layer_split = { 12, 7, 4 } })
    fails("F8", "holds 2 numbers, expected one a stage, 3", hetero { hetero_pipeline_layer_split = { 12, 12 } })
  end)
  it("F9: the meshes take all processes", function()
    fails("F9", "the meshes take 8 processes, but the hosts start 12", hetero { hetero_process_meshes = { 4, 1, 1, 1, 1, 2, 1, 1, 1, 2 } })
  end)
  it("F10: expert groups divide a mesh", function()
    fails("F10", "holds 1 numbers, expected one a mesh, 2", hetero { expert_tensor_parallel_size_per_process_mesh = { 1 } })
    fails("F10", "mesh 0 has 4 processes, which etp 4 x ep 3 x pp 1 do not divide",
      hetero { hetero_process_meshes = { 4, 1, 3, 1, 1, 2, 1, 3, 2, 2 } })
  end)
  it("F11: tied ends have the same tp, and dp that divide", function()
    local tied <const> = plans.model { tied = true }
    fails("T1", "stage 1 has tp 4 and stage 3 tp 2; flagscale needs them equal", nil, function() end, { model = tied })
    fails("F11", "multi-token prediction: the first mesh has tp 4 and the last tp 2", { model = { mtp_num_layers = 1 } })
    -- dp 2 in front and 4 at the end: passes only with the partial reduction, which is written
    local same <const> = plans.three_stages { model = tied, global_batch = 64, microbatches = 16, stages = {
      { island = "a", gpus = { { "a1", { 0, 1, 2, 3 } } }, layers = 12, strategy = { tp = 2, dp = 2, sp = true, zero = 1 } },
      { island = "v", gpus = { { "v1", { 0, 1, 2, 3, 4, 5, 6, 7 } } }, layers = 12, strategy = { tp = 2, dp = 4, sp = true, zero = 1 } },
    } }
    local _, train <const> = read(same)
    assert.is_true(train.system.hetero.use_partial_reduce_for_shared_embedding)
    assert.matches("need use_partial_reduce_for_shared_embedding true",
      codes(same, { set = hetero { use_partial_reduce_for_shared_embedding = false } }).F11)
  end)
  it("F12: no virtual pipeline", function()
    fails("F12", "num_layers_per_virtual_pipeline_stage is 2", { system = { num_layers_per_virtual_pipeline_stage = 2 } })
  end)
  it("F13: no stage of the embedding alone", function()
    fails("F13", "standalone_embedding_stage is true, expected false", hetero { standalone_embedding_stage = true })
  end)
  it("F14: one instance of the optimizer", function()
    fails("F14", "num_distributed_optimizer_instances is 2, expected 1", { system = { num_distributed_optimizer_instances = 2 } })
  end)
  it("F15: recompute lists cover stages and microbatches with flags of 0 and 1", function()
    local function lists(values)
      values.recompute_granularity, values.recompute_method = values.recompute_granularity or "full", "uniform"
      return { system = { recompute = values } }
    end
    local name <const> = "recompute_granularity_per_stage_micro_batch"
    assert.same({}, codes(unlike(), { set = lists { [name] = { { 1, 32, 0 }, { 2, 30, 1, 2, 0 } } } }))
    fails("F15", "the rows cover 2 stages, expected 3", lists { [name] = { { 2, 32, 1 } } })
    fails("F15", "covers 31 microbatches, expected 32", lists { [name] = { { 3, 31, 1 } } })
    fails("F15", "holds the flag 2, expected 0 or 1", lists { [name] = { { 3, 32, 2 } } })
    fails("F15", "needs recompute_granularity full and a recompute_method, got selective and uniform",
      lists { [name] = { { 3, 32, 1 } }, recompute_granularity = "selective" })
  end)
  it("F16: sequence parallelism wherever there is tp", function()
    fails("F16", "mesh 0 has tp 4 without sequence_parallel", { system = { sequence_parallel = false } })
    fails("F16", "sequences of 2050 tokens are not divisible by tp 4 of mesh 0; nearest: 2052", { model = { seq_length = 2050 } })
  end)
  it("P1: a node's stages are neighbours", function()
    local halves <const> = plans.three_stages {
      nodes = { { "a1", "a100-pcie-80", 4 }, { "v1", "v100-sxm2-32", 8 } },
      islands = { { "v:0", { "v1:0-3" } }, { "a", { "a1" } }, { "v:4", { "v1:4-7" } } },
      stages = {
        { island = "v:0", gpus = { { "v1", { 0, 1, 2, 3 } } }, layers = 8, strategy = { tp = 4, sp = true } },
        { island = "a", gpus = { { "a1", { 0, 1, 2, 3 } } }, layers = 8, strategy = { tp = 4, sp = true } },
        { island = "v:4", gpus = { { "v1", { 4, 5, 6, 7 } } }, layers = 8, strategy = { tp = 4, sp = true } },
      },
    }
    assert.matches("node v1 holds stages 1 and 3 with others between them", codes(halves).P1)
  end)
  it("V2: other vendors talk over the CPU", function()
    local mixed <const> = unlike { nodes = { { "a1", "a100-pcie-80", 4 }, { "v1", "mi300x", 8 } },
      islands = { { "a", { "a1" } }, { "v", { "v1" } } } }
    assert.matches("needs %-%-set system.hetero.hetero_use_cpu_communication=true", codes(mixed).V2)
    assert.same({}, codes(mixed, { set = hetero { hetero_use_cpu_communication = true } }))
  end)
end)
