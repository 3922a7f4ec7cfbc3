local exported <const> = require "tests.oracle.exported"
local exports <const> = require "tests.spec.exports"
local output <const> = require "tangram.output"
local placed <const> = require "tests.oracle.placed"
local plans <const> = require "tests.spec.fixtures.plans"
local support <const> = require "tests.spec.support"

local files_of <const>, refusal <const>, warned <const>, launched <const>, python <const>, alike <const>, mixed <const>, llama <const> =
  exports.files_of, exports.refusal, exports.warned, exports.launched, exports.python, exports.alike, exports.mixed, exports.llama
local folder

describe("export to torchtitan", function()
  before_each(function() folder = support.folder() end)
  after_each(function() support.remove(folder) end)

  it("names every module of the model once, in its stage", function()
    if not exports.has_python then return pending "python3 is absent" end
    local plan <const> = llama { tp = 2, dp = 2, sp = true, zero = 1, recompute = { kind = "full" } }
    local files <const> = files_of(plan, "torchtitan")
    local c <const> = python(folder, files, "torchtitan %s llama3 llama3_8b late")
    local processes <const>, flags <const> = launched(folder, plan, "torchtitan", nil, "TORCHTITAN=/")
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
    local early <const> = python(folder, files, "torchtitan %s llama3 llama3_8b early")
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
