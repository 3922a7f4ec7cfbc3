local core <const> = require "tangram.core"
local exported <const> = require "tests.oracle.exported"
local exports <const> = require "tests.spec.exports"
local placed <const> = require "tests.oracle.placed"
local plans <const> = require "tests.spec.fixtures.plans"
local support <const> = require "tests.spec.support"

local files_of <const>, refusal <const>, warned <const>, launched <const>, python <const>, mixed <const>, alike <const> =
  exports.files_of, exports.refusal, exports.warned, exports.launched, exports.python, exports.mixed, exports.alike
local folder

describe("export to DeepSpeed", function()
  before_each(function() folder = support.folder() end)
  after_each(function() support.remove(folder) end)

  it("writes a PipelineModule whose ranks hold the plan's layers", function()
    if not exports.has_python then return pending "python3 is absent" end
    local plan <const> = plans.three_stages()
    local files <const>, result <const> = files_of(plan, "deepspeed")
    local ran <const> = python(folder, files, "deepspeed %s")
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
    if not exports.has_python then return pending "python3 is absent" end
    local plan <const> = alike({ tp = 2, dp = 2, sp = true, zero = 1, recompute = { kind = "full" } },
      { nodes = { { "a1", "a100-sxm4-80", 8 }, { "a2", "a100-sxm4-80", 8 }, { "a3", "a100-sxm4-80", 8 } },
        islands = { { "a", { "a1", "a2", "a3" } } } })
    plan.stages[4].gpus[1] = { node = "a3", indices = { 2, 3, 6, 7 } }
    plan.stages[3].gpus[1] = { node = "a2", indices = { 0, 1, 4, 5 } }
    local files <const> = files_of(plan, "deepspeed")
    local ran <const> = python(folder, files, "deepspeed %s")
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
    local processes <const>, args <const> = launched(folder, plan, "deepspeed", { set = { launcher = "torchrun" } }, "TANGRAM_LAYERS=mine")
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
