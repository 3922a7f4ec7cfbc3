local core <const> = require "tangram.core"
local exported <const> = require "tests.oracle.exported"
local exports <const> = require "tests.spec.exports"
local output <const> = require "tangram.output"
local placed <const> = require "tests.oracle.placed"
local plans <const> = require "tests.spec.fixtures.plans"
local runnable <const> = require "tests.oracle.target"
local scripts <const> = require "tests.oracle.scripts"
local support <const> = require "tests.spec.support"

local checked <const>, files_of <const>, refusal <const>, warned <const>, mixed <const> =
  exports.checked, exports.files_of, exports.refusal, exports.warned, exports.mixed

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
