local core <const> = require "tangram.core"
local support <const> = require "tests.spec.support"

--- Every case: what is run in a folder with good files, the status, and a pattern of the one line on standard error.
describe("wrong input", function()
  local folder
  local config <const> = {
    model_type = "llama", num_hidden_layers = 4, hidden_size = 512, num_attention_heads = 6, num_key_value_heads = 6, head_dim = 64,
    intermediate_size = 1536, vocab_size = 32000, tie_word_embeddings = false,
  }
  local cluster <const> = {
    format = "tangram.cluster/1",
    nodes = { { name = "a", gpu = "a100-sxm4-40", gpus = 4 }, { name = "t", gpu = "t4", gpus = 4 } },
    network = { default = { bytes_per_s = 1e9 } },
  }

  local function changed(value, change)
    local copy <const> = core.json_decode(core.json_encode(value))
    change(copy)
    return core.json_encode(copy)
  end

  setup(function()
    folder = support.folder()
    support.write(folder .. "/model.json", core.json_encode(config))
    support.write(folder .. "/cluster.json", core.json_encode(cluster))
  end)
  teardown(function() support.remove(folder) end)

  local function plan(options)
    return support.run(("tangram plan --model %s/model.json --cluster %s/cluster.json --global-batch 8 --seq-len 512 --quiet %s"):format(
      folder, folder, options or ""))
  end

  local function refused(status, err, pattern, wanted)
    assert.equal(wanted or 2, status, err)
    assert.equal(1, select(2, err:gsub("\n", "")), err)
    assert.matches(pattern, err)
  end

  it("is not there in the files that the cases change", function()
    local status <const>, out <const>, err <const> = plan "--json -"
    assert.equal(0, status, err)
    assert.equal("tangram.plan/1", core.json_decode(out).format)
  end)

  for _, case in ipairs {
    { "no layers", function(c) c.num_hidden_layers = nil end, "num_hidden_layers" },
    { "0 layers", function(c) c.num_hidden_layers = 0 end, "num_hidden_layers: got 0" },
    { "negative hidden", function(c) c.hidden_size = -8 end, "hidden_size: got %-8" },
    { "fractional heads", function(c) c.num_attention_heads = 6.5 end, "num_attention_heads: got 6.5" },
    { "huge vocabulary", function(c) c.vocab_size = 1e30 end, "vocab_size: got 1e%+30" },
    { "an unknown family", function(c) c.model_type = "zebra" end, "zebra" },
  } do
    it("refuses a config with " .. case[1], function()
      support.write(folder .. "/bad.json", changed(config, case[2]))
      local status <const>, _, err <const> = support.run(
        ("tangram plan --model %s/bad.json --cluster %s/cluster.json --global-batch 8 --seq-len 512"):format(folder, folder))
      refused(status, err, "bad%.json.*" .. case[3])
    end)
  end

  for _, case in ipairs {
    { "a GPU that nobody knows", function(c) c.nodes[1].gpu = "a100-sxm4-4O" end, "a100%-sxm4%-4O.*a100%-sxm4%-40" },
    { "bandwidth 0", function(c) c.network.default.bytes_per_s = 0 end, "bytes_per_s.*0" },
    { "two nodes of one name", function(c) c.nodes[2].name = "a" end, "two nodes have this name" },
    { "an unknown field", function(c) c.nodes[1].gpuss = 1 end, "gpuss: unknown field %(did you mean 'gpus'" },
    { "no nodes", function(c) c.nodes = core.array {} end, "nodes: got 0 items" },
  } do
    it("refuses a cluster with " .. case[1], function()
      support.write(folder .. "/bad.json", changed(cluster, case[2]))
      local status <const>, _, err <const> = support.run(
        ("tangram plan --model %s/model.json --cluster %s/bad.json --global-batch 8 --seq-len 512"):format(folder, folder))
      refused(status, err, "bad%.json.*" .. case[3])
    end)
  end

  for _, case in ipairs {
    { "--global-batch 7 --microbatches 3..5", "microbatches: got 3..5, expected a range that holds a divisor of global_batch = 7" },
    { "--global-batch 0", "global_batch: got 0" },
    { "--global-batch 1e30", "global_batch: got 1e%+30" },
    { "--seq-len 2.5", "seq_len: got 2.5" },
    { "--seq-len many", "seq%-len: got 'many', expected a number" },
    { "--precision fp61", "fp61.*did you mean 'fp16'" },
    { "--precision bf16", "bf16.*t4" },
    { "--memory-margin 2", "memory_margin: got 2" },
    { "--gap 5", "gap: got 5" },
    { "--gap -1", "gap: got %-1, expected a number from 0" },
    { "--query-memory -.5", "query%-memory: got '%-.5', expected bytes" },
    { "--microbatches ..", "microbatches: got '..', expected LO..HI" },
    { "--lua-dir nowhere", "lua%-dir: nowhere: no such folder" },
    { "--exclude b", "exclude: got 'b', expected the name of a node" },
    { "--exclude a --exclude t", "leaves no node" },
    { "--parallelizer unifrom", "unknown parallelizer 'unifrom'.*did you mean 'uniform'" },
    { "--cost analytik", "unknown cost model 'analytik'.*did you mean 'analytic'" },
    { "--prune bounds", "unknown pruning policy 'bounds'.*did you mean 'bounded'" },
    { "--set training.sequence=3", "training: sequence: unknown field" },
    { "--set parallelizer.options.max_pt=3", "max_pt: unknown field %(did you mean 'max_tp'" },
    { "--set 'parallelizer.options.offload={}'", "offload: got .*expected a list" },
    { "--parallelizer aceso --set parallelizer.options.database.x=1", "database: got a table, expected what tangram.input.aceso's read" },
    { "--cost aceso --set cost.options.database.x=1", "database: got a table, expected what tangram.input.aceso's read gives" },
    { "--set nonsense", "%-%-set: got 'nonsense', expected KEY=VALUE" },
    { "--json /nowhere/plan.json", "/nowhere/plan.json.*No such file" },
    { "--microbatchs 3", "unknown option '%-%-microbatchs'" },
  } do
    it("refuses " .. case[1], function()
      local status <const>, _, err <const> = plan(case[1])
      refused(status, err, case[2])
    end)
  end

  for words, pattern in pairs {
    ["plan recipes/quickstart.lua --model x"] = "%-%-model: got one beside a recipe",
    ["plan recipes/quickstart.lua --vocab 3"] = "%-%-vocab: got one beside a recipe",
    ["plan recipes/models/llama-3.1-8b.json"] = "llama.*json: looks like JSON, expected a recipe",
    ["plan recipes/quickstart.lua --recipe-seconds x"] = "recipe%-seconds: got 'x', expected a number; see 'tangram plan %-%-help'",
    ["compose --generate 1,4,2,2 --top 1e12"] = "top: got '1e12', expected a whole number up to 2147483647",
    ["compose --generate 99999999999,4,2,2"] = "generate: got '99999999999,4,2,2', expected whole numbers",
    ["compose --generate 1,4,2,2 --top -1"] = "top: expected 1 to 10000, got %-1",
    ["compose --generate 1,4,x,2"] = "generate: got '1,4,x,2', expected whole numbers SEED",
    ["compose --generate -1,4,2"] = "generate: got '%-1,4,2', expected whole numbers SEED",
    ["compose --generate 1,4,2,2 --gap x"] = "gap: got 'x', expected a number; see",
    ["islands --cluster x --cut-nodes 0"] = "cut%-nodes: got '0', expected a whole number of at least 1",
    ["store prune x --unused-days -1"] = "unused%-days: got '%-1', expected a number of at least 0",
    ["validate x --set x"] = "set: got 'x', expected KEY=VALUE",
    ["explain x --stage x"] = "stage: got 'x', expected a whole number",
  } do
    it("is told with the option's name: " .. words, function()
      local status <const>, out <const>, err <const> = support.run("tangram " .. words)
      refused(status, err, "^tangram %l+: .*" .. pattern)
      assert.equal("", out)
    end)
  end

  it("plans a head count that tp can't divide without that tp", function()
    local status <const>, out <const> = plan "--json -"
    assert.equal(0, status)
    for _, stage in ipairs(core.json_decode(out).stages) do assert.equal(0, config.num_attention_heads % stage.strategy.tp) end
  end)

  for _, case in ipairs {
    { "error 'boom'", "bad%.lua:1: boom" },
    { "return", "returns nothing, expected the plan of tangram.plan" },
    { "return 7", "returns a number, expected the plan" },
    { "x = = 1", "bad%.lua:1: unexpected symbol" },
    { "while true do end", "still running after 0.2 s of its own time" },
    { "while true do pcall(function() while true do end end) end", "still running after 0.2 s" },
    { "return require('tangram').plan(5)", "tangram.plan: got a number, expected a table" },
    { "return require('tangram').plan { modle = 1 }", "modle: unknown field %(did you mean 'model'" },
  } do
    it("refuses the recipe " .. case[1], function()
      support.write(folder .. "/bad.lua", case[1])
      local status <const>, _, err <const> = support.run(("tangram plan %s/bad.lua --recipe-seconds %g"):format(folder,
        case[1]:find "while" and 0.2 or 60))
      refused(status, err, case[2])
    end)
  end

  it("says which stage is short, by how much and what would help, with status 3", function()
    support.write(folder .. "/large.json", changed(config, function(c) c.num_hidden_layers, c.intermediate_size = 96, 120000 end))
    local status <const>, _, err <const> = support.run(
      ("tangram plan --model %s/large.json --cluster %s/cluster.json --global-batch 8 --seq-len 512 --quiet"):format(folder, folder))
    refused(status, err, "stage %d+ of %d+ is [%d.]+ GiB short.*; it fits with ", 3)
  end)

  it("refuses a plan edited by hand in one sentence, and takes the right one", function()
    assert.equal(0, (plan("--json " .. folder .. "/plan.json")))
    assert.equal(0, (support.run("tangram simulate " .. folder .. "/plan.json")))
    local good <const> = core.json_decode(support.read(folder .. "/plan.json"))
    for _, case in ipairs {
      { function(p) p.stages[1].forward_s = p.stages[1].forward_s * 2 end, "time_s" },
      { function(p) p.stages[1].first = 1 end, "stages%[0%].first" },
      { function(p) p.stages[1].gpus[1].node = "z" end, "node 'z' is not in cluster.nodes" },
      { function(p) p.stages[1].memory.total_bytes = 1e15 end, "total_bytes" },
      { function(p) p.stagess = {} end, "stagess.*did you mean 'stages'" },
    } do
      local copy <const> = core.json_decode(core.json_encode(good))
      case[1](copy)
      support.write(folder .. "/bad.json", core.json_encode(copy))
      local status <const>, _, err <const> = support.run(("tangram simulate %s/bad.json"):format(folder))
      refused(status, err, "bad%.json: .*" .. case[2])
    end
  end)
end)
