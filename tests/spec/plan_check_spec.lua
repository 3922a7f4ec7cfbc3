local core <const> = require "tangram.core"
local oracle <const> = require "tests.oracle.plan_check"
local support <const> = require "tests.spec.support"

local FILE <const> = "tests/golden/plan.json"
local GIB <const> = 2 ^ 30

local function valid() return core.json_decode(support.read(FILE)) end

--- The sentence for the valid plan after a change, or nil if it still passes.
local function why_after(change)
  local plan <const> = valid()
  change(plan)
  return select(2, core.plan_check(core.json_encode(plan)))
end

local function refused(message, change)
  local why <const> = why_after(change)
  assert.is_string(why, "accepted, expected: " .. message)
  assert.is_truthy(why:find(message, 1, true), why)
end

describe("plan_check", function()
  -- Three stages of 1 + 2 s without transfers at 8 microbatches take (8 + 3 - 1) * 3 s; the front stage ends last and adds
  -- its sync of 0.5 s: the time in the file.
  it("accepts the plan made by hand, and so does the oracle", function()
    assert.is_true(core.plan_check(support.read(FILE)))
    assert.same({ true, 30.5 }, { oracle.check(valid()) })
    local status <const>, stdout <const> = support.run("lua5.4 tests/oracle/plan_check.lua " .. FILE)
    assert.same({ 0, "ok, 30.5 s\n" }, { status, stdout })
    local broken <const> = valid()
    broken.time_s = 30
    local folder <const> = support.folder()
    local path <const> = support.write(folder .. "/plan.json", core.json_encode(broken))
    assert.same({ 1, "time_s 30 simulates to 30.5\n", "" }, { support.run("lua5.4 tests/oracle/plan_check.lua " .. path) })
    support.remove(folder)
  end)

  it("simulates the plan's times and gives every operation", function()
    local time_s <const>, operations <const> = core.plan_simulate(support.read(FILE))
    assert.equal(30.5, time_s)
    assert.equal(2 * 3 * 8, #operations)
    assert.same({ stage = 1, microbatch = 1, backward = false, start_s = 0, end_s = 1 }, operations[1])
    assert.same({ stage = 1, microbatch = 8, backward = true, start_s = 28, end_s = 30 }, operations[16])
    assert.same({ stage = 3, microbatch = 1, backward = false, start_s = 2, end_s = 3 }, operations[33])
    assert.matches("^1:1: not JSON", select(2, core.plan_simulate "{"))
  end)

  it("simulates as the oracle does, overlapped and blocking, plain and deeper", function()
    math.randomseed(21)
    for case = 1, 150 do
      local plan <const> = valid()
      plan.p2p = case % 2 == 0 and "blocking" or "overlapped"
      plan.microbatches = 2 ^ math.random(0, 4) | 0
      plan.training.global_batch = 16 * 4
      for _, s in ipairs(plan.stages) do
        s.forward_s, s.backward_s, s.sync_s = math.random() * 2, math.random() * 3, math.random()
        s.transfer_s = s.has_head and core.null or math.random() * math.random(0, 2)
      end
      local depth = 0
      for i = 3, 1, -1 do
        depth = math.min(plan.microbatches, depth + (i < 3 and 1 or 0) + (case % 3 == 0 and math.random(0, 1) or 0))
        plan.warmup[i] = depth
        plan.stages[i].inflight = math.min(depth + 1, plan.microbatches)
      end
      plan.time_s = oracle.simulate(plan)
      plan.bound_s, plan.gap = plan.time_s, 0
      assert.same({ true }, { core.plan_check(core.json_encode(plan)) })
      plan.time_s = plan.time_s * (1 + 1e-7)
      assert.matches("^time_s: .* simulate to", select(2, core.plan_check(core.json_encode(plan))))
      assert.is_nil(oracle.check(plan))
    end
  end)

  it("accepts halves of layers, GPUs left over, the paper's objective and parts of machines", function()
    assert.is_nil(why_after(function(plan)
      plan.granularity, plan.model.layers = "half", 6
      for i, layers in ipairs { 2.5, 2, 1.5 } do plan.stages[i].layers = layers end
      plan.stages[1].strategy.recompute.layers = 5 -- halves, as in strategies
    end))
    assert.is_nil(why_after(function(plan) plan.cluster.nodes[1].gpus = 8 end))
    assert.is_nil(why_after(function(plan) plan.objective, plan.gap = "paper", 0.1 end))
    assert.is_nil(why_after(function(plan)
      plan.cluster.nodes[2].gpus = 4
      plan.stages[3].gpus[1].indices = { 3, 2 }
    end))
  end)

  it("refuses atoms that are not all there once and in order", function()
    refused("stages[1].first: is 7, but the atoms in front end at 6", function(plan) plan.stages[2].first = 7 end)
    refused("stages[0].first: is 1, but the atoms in front end at 0", function(plan) plan.stages[1].first = 1 end)
    refused("stages[1].last: is 6, so the stage from atom 6 on is empty", function(plan) plan.stages[2].last = 6 end)
    refused("stages[2].last: is 13, but the model has 14 atoms", function(plan) plan.stages[3].last = 13 end)
    refused("stages[2].last: expected a whole number from 0 to 14, got 15", function(plan) plan.stages[3].last = 15 end)
    refused("stages[0].has_embedding: is false, but atom 0 is in [0, 6)",
      function(plan) plan.stages[1].has_embedding = false end)
    refused("stages[1].has_head: is true, but atom 13 is not in [6, 10)", function(plan) plan.stages[2].has_head = true end)
    refused("stages[1].layers: is 5, but atoms [6, 10) hold 4", function(plan) plan.stages[2].layers = 5 end)
    refused("stages[0].strategy.recompute.layers: is 6, but the stage has 5",
      function(plan) plan.stages[1].strategy.recompute.layers = 6 end)
    refused("stages[0].strategy.recompute.layers: is 6, but the stage has 5", function(plan)
      plan.granularity, plan.model.layers = "half", 6
      for i, layers in ipairs { 2.5, 2, 1.5 } do plan.stages[i].layers = layers end
      plan.stages[1].strategy.recompute.layers = 6
    end)
    refused("stages[0].strategy.recompute.layers: is 5, expected a count with 'full' alone",
      function(plan) plan.stages[1].strategy.recompute = { kind = "selective", layers = 5 } end)
  end)

  it("refuses GPUs that are used twice, unknown or scattered", function()
    refused("stages[1].gpus[0].indices: GPU 1 of node 'a1' is used twice",
      function(plan) plan.stages[2].gpus[1].indices = { 1, 2 } end)
    refused("stages[1].gpus[0].indices[1]: expected a whole number from 0 to 3, got 4",
      function(plan) plan.stages[2].gpus[1].indices = { 3, 4 } end)
    refused("stages[1].gpus[0]: node 'a2' is not in cluster.nodes", function(plan) plan.stages[2].gpus[1].node = "a2" end)
    refused("stages[2].gpus[1].node: 'v1' is already gpus[0]", function(plan) plan.stages[3].gpus[2].node = "v1" end)
    refused("stages[2].gpus[1]: 1 GPUs of node 'v2', but 2 of 'v1'", function(plan) plan.stages[3].gpus[2].indices = { 0 } end)
    refused("takes whole nodes or aligned parts, not GPUs 1 to 2 of 'v2'", function(plan)
      plan.cluster.nodes[3].gpus = 4
      plan.stages[3].gpus[2].indices = { 1, 2 }
    end)
    refused("stages[0].island: 'a10' is not in islands", function(plan) plan.stages[1].island = "a10" end)
    refused("stages[2].island: islands[1] 'v100' says it is not used", function(plan) plan.islands[2].used = false end)
  end)

  it("refuses degrees that do not fit GPUs or batch", function()
    refused("stages[0].strategy: dp 1 * tp 4 * cp 1 = 4, but the stage has 2 GPUs",
      function(plan) plan.stages[1].strategy.tp = 4 end)
    refused("stages[2].strategy.tp: 4 does not divide the stage's 2 GPUs a node", function(plan)
      plan.stages[3].strategy.tp, plan.stages[3].strategy.dp = 4, 1
    end)
    refused("stages[2].strategy.ep: ep 3 * etp 1 does not divide the stage's 4 GPUs",
      function(plan) plan.stages[3].strategy.ep = 3 end)
    refused("microbatches: 8 does not divide the global batch of 30", function(plan) plan.training.global_batch = 30 end)
    refused("stages[1].strategy.dp: 2 does not divide the microbatch of 3 samples",
      function(plan) plan.training.global_batch = 24 end)
  end)

  it("refuses positions and depths that 1F1B does not give", function()
    refused("stages[0].successors: is 1, but 2 stages are behind it", function(plan) plan.stages[1].successors = 1 end)
    refused("warmup[0]: is 1, but 1F1B needs at least 2 there", function(plan) plan.warmup[1] = 1 end)
    refused("warmup[1]: is 3, less than 4 of the stage behind", function(plan)
      plan.warmup = { 5, 3, 4 }
      plan.stages[1].inflight = 6
    end)
    refused("warmup[0]: is 4, but blocking transfers allow at most 3", function(plan)
      plan.p2p, plan.warmup[1], plan.stages[1].inflight = "blocking", 4, 5
    end)
    refused("stages[1].inflight: is 3, but warmup 1 of 8 microbatches keeps 2", function(plan) plan.stages[2].inflight = 3 end)
    refused("warmup[0]: expected a whole number from 0 to 8, got 9", function(plan) plan.warmup[1] = 9 end)
    refused("warmup: ", function(plan) plan.warmup = { 1, 0 } end)
  end)

  it("refuses memory that does not add up or does not fit", function()
    refused("stages[1].memory.total_bytes: is", function(plan) plan.stages[2].memory.total_bytes = 7 * GIB end)
    refused("but its parts add up to", function(plan) plan.stages[2].memory.activations_bytes = 7 * GIB end)
    refused("stages[2].memory.capacity_bytes: is", function(plan) plan.stages[3].memory.capacity_bytes = 32 * GIB end)
    refused("a margin of 0.125 leaves", function(plan) plan.cluster.nodes[3].memory_bytes = 24 * GIB end)
    refused("more than the capacity", function(plan)
      local memory <const> = plan.stages[3].memory
      memory.activations_bytes = memory.activations_bytes + 8 * GIB
      memory.total_bytes = memory.total_bytes + 8 * GIB
    end)
  end)

  it("refuses times that the stages do not give", function()
    refused("time_s: is 30.25, but the stages simulate to 30.5", function(plan) plan.time_s = 30.25 end)
    refused("but the stages simulate to 30.75", function(plan) plan.stages[1].sync_s = 0.75 end)
    refused("bound_s: is 31, more than time_s 30.5", function(plan) plan.bound_s = 31 end)
    refused("gap: is 0.10000000000000001, but 1 - bound_s / time_s is 0", function(plan) plan.gap = 0.1 end)
    refused("stages[2].transfer_s: expected a number from 0 to 0, got 1", function(plan) plan.stages[3].transfer_s = 1 end)
  end)

  it("refuses what is not of the format, with the field's place", function()
    refused("stages[1].forwad_s: unknown field (did you mean 'forward_s'?)", function(plan) plan.stages[2].forwad_s = 1 end)
    refused("stages[1].strategy.dpp: unknown field", function(plan) plan.stages[2].strategy.dpp = 1 end)
    refused("stages[1].strategy.offload: 'optimiser' is not known (did you mean 'optimizer'?)",
      function(plan) plan.stages[2].strategy.offload = "optimiser" end)
    refused("stages[1].strategy.sp: expected true or false", function(plan) plan.stages[2].strategy.sp = 1 end)
    refused("stages[1].backward_s: expected a number from 0", function(plan) plan.stages[2].backward_s = -1 end)
    refused("stages[1].memory.weights_bytes: expected a number, got a string",
      function(plan) plan.stages[2].memory.weights_bytes = "3 GiB" end)
    refused("stages[0].transfer_s: this field is required", function(plan) plan.stages[1].transfer_s = nil end)
    refused("p2p: 'overlap' is not known (did you mean 'overlapped'?)", function(plan) plan.p2p = "overlap" end)
    refused("format: 'tangram.plan/2' is not known", function(plan) plan.format = "tangram.plan/2" end)
    refused("microbatchs: unknown field (did you mean 'microbatches'?)", function(plan) plan.microbatchs = 8 end)
    refused("stages: expected", function(plan) plan.stages = core.array {} end)
    refused("model.layers: expected a whole number", function(plan) plan.model.layers = 0 end)
    refused("cluster.nodes[1]: node 'a1' is already listed as cluster.nodes[0]",
      function(plan) plan.cluster.nodes[2].name = "a1" end)
    refused("cluster.nodes[0].count: a plan lists each of its nodes by name", function(plan) plan.cluster.nodes[1].count = 2 end)
    refused("are more than 4194304 to simulate", function(plan)
      plan.microbatches = 1 << 20
      for i = 4, 20 do plan.stages[i] = plan.stages[1] end
    end)
    assert.matches("given twice", select(2, core.plan_check '{ "format": "tangram.plan/1", "format": "x" }'))
    assert.matches("^1:1: not JSON", select(2, core.plan_check "{"))
  end)

  it("refuses each field of a stage that is missing or of another type", function()
    local function each(plan, object, path)
      local names <const> = {}
      for name in pairs(object) do names[#names + 1] = name end
      for _, name in ipairs(names) do
        local value <const> = object[name]
        if type(value) == "table" and #value == 0 and name ~= "time_parts" then each(plan, value, path .. name .. ".") end
        for _, other in ipairs { core.null, "x", -1, core.array { core.array {} } } do
          object[name] = other ~= core.null and other or nil
          assert(name == "time_parts" or not core.plan_check(core.json_encode(plan)), path .. name)
        end
        object[name] = value
      end
    end
    local plan <const> = valid()
    each(plan, plan.stages[2], "stages[1].")
    assert.is_true(core.plan_check(core.json_encode(plan)))
  end)

  it("agrees with the oracle on what is broken", function()
    local breaks <const> = {
      function(plan) plan.stages[2].first = 7 end, function(plan) plan.stages[3].last = 13 end,
      function(plan) plan.stages[2].gpus[1].indices = { 1, 2 } end, function(plan) plan.stages[1].strategy.tp = 1 end,
      function(plan) plan.training.global_batch = 24 end, function(plan) plan.stages[2].inflight = 3 end,
      function(plan) plan.stages[2].memory.total_bytes = 1 end, function(plan) plan.training.memory_margin = 0.25 end,
      function(plan) plan.stages[2].forward_s = 1.5 end, function(plan) plan.stages[2].gpus[1].node = "x" end }
    for _, change in ipairs(breaks) do
      local plan <const> = valid()
      change(plan)
      assert.is_nil(oracle.check(plan))
      assert.is_nil(core.plan_check(core.json_encode(plan)))
    end
  end)
end)
