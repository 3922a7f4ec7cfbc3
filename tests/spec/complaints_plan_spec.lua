--- Cases that people complained about and that planning answers (the numbers are those of the list of complaints).
local core <const> = require "tangram.core"
local planner <const> = require "tangram.planner"
local tangram <const> = require "tangram"
local support <const> = require "tests.spec.support"

--- Nodes of one GPU, each an island, so that all of them together can only be a pipeline.
local function row_of(gpus, fields)
  local nodes <const>, islands <const> = {}, {}
  for i, gpu in ipairs(gpus) do nodes[i], islands[i] = { name = "n" .. i, gpu = gpu, gpus = 1 }, { "n" .. i } end
  return support.with({
    model = { name = "wide vocabulary", family = "llama", layers = 16, hidden = 2048, heads = 16, ffn = 5632, vocab = 256000,
      tied = false },
    cluster = { nodes = nodes, network = { default = { bytes_per_s = "10 GB/s" } } }, islands = islands, merged = false,
    training = { global_batch = 32, seq_len = 2048 }, gap = 0.02,
  }, fields or {})
end

local function layers_of(plan)
  local list <const> = {}
  for i, stage in ipairs(plan.stages) do list[i] = stage.layers end
  return list
end

describe("complaint", function()
  it("C14: the head's stage holds its logits in float32, over its tp", function()
    local function transient(vocab, tp)
      local spec <const> = row_of { "h100-sxm" }
      spec.cluster.nodes[1].gpus = tp
      local plan <const> = assert(planner.plan(support.with(spec, { model = support.with(spec.model, { vocab = vocab }),
        parallelizer = { name = "uniform", options = { max_stages = 1, max_cp = 1 } },
        training = support.with(spec.training, { microbatches = { min = 32, max = 32 } }) })))
      assert.same({ 1, tp, 1 }, { #plan.stages, plan.stages[1].strategy.tp, plan.stages[1].strategy.dp })
      return plan.stages[1].memory.transient_bytes
    end
    for _, tp in ipairs { 1, 2 } do
      local more <const>, float32 <const> = transient(256000, tp) - transient(128000, tp), 4 * 2048 * (256000 - 128000) / tp
      -- the logits, and at most their gradient beside them
      assert.is_true(more > 0.99 * float32 and more < 2.01 * float32, ("%g bytes more, float32 is %g"):format(more, float32))
    end
  end)

  it("C10: embedding and head weigh and take time, and their stages get fewer layers", function()
    local spec <const> = row_of { "a100-pcie-80", "a100-pcie-80", "a100-pcie-80", "a100-pcie-80" }
    local plan <const> = assert(planner.plan(spec))
    local layers <const> = layers_of(plan)
    assert.equal(4, #layers)
    -- the head does 2·2048·256000 FLOPs a token, a layer some 2·51e6 and attention: it is worth eight layers and more
    assert.is_true(layers[4] < layers[2] and layers[4] < layers[3] and layers[1] >= layers[4], table.concat(layers, " "))
    local narrow <const> = layers_of(assert(planner.plan(support.with(spec, { model = support.with(spec.model, { vocab = 1024 }) }))))
    assert.is_true(layers[4] < narrow[#narrow])
    local atoms <const> = core.atoms(tangram.model(spec.model), { seq_len = 2048 })
    assert.equal("head", atoms[#atoms].kind)
    assert.equal(2 * 2048 * 256000 * 2048, atoms[#atoms].flops) -- forward: multiply and add for each weight and token
    assert.equal(2048 * 256000, atoms[1].parameters)
  end)

  it("C20: memory goes by each stage's own layers and place: stage s of p holds p - s microbatches", function()
    local plan <const> = assert(planner.plan(row_of({ "a100-pcie-80", "a100-pcie-80", "a100-pcie-80", "a100-pcie-80" },
      { training = { global_batch = 32, seq_len = 2048, microbatches = { min = 32, max = 32 } } })))
    local count <const>, each = #plan.stages, nil
    assert.equal(4, count)
    for s, stage in ipairs(plan.stages) do
      assert.equal(count - s + 1, stage.inflight)
      if not stage.has_embedding and not stage.has_head and stage.strategy.recompute.kind == "none" then
        local one <const> = stage.memory.activations_bytes / (stage.layers * (count - s + 1))
        assert.near(each or one, one, 1e-6 * one)
        each = one
      end
    end
    assert.is_truthy(each)
  end)

  it("C22: a figure of memory has all of it: states, activations, buffers, the context", function()
    local plan <const> = assert(planner.plan(row_of { "a100-pcie-40", "a100-pcie-40" }))
    for _, stage in ipairs(plan.stages) do
      local memory <const>, sum = stage.memory, 0
      for _, name in ipairs { "weights", "gradients", "optimizer", "activations", "transient", "buffers", "context" } do
        assert.is_number(memory[name .. "_bytes"], name)
        sum = sum + memory[name .. "_bytes"]
      end
      assert.near(memory.total_bytes, sum, 1e-9 * sum)
      assert.is_true(0.5e9 <= memory.context_bytes and memory.context_bytes <= 1.5e9)
      assert.is_true(memory.activations_bytes > 0)
      -- Adam in mixed precision: weights 2, gradients 4, optimizer 12 bytes a parameter, on one GPU a stage
      assert.near(6, memory.optimizer_bytes / memory.weights_bytes, 0.01)
      assert.near(2, memory.gradients_bytes / memory.weights_bytes, 0.01)
    end
    local page <const> = require("tangram.report.html").plan(plan)
    for _, name in ipairs { "weights", "gradients", "optimizer", "activations", "buffers", "context" } do
      assert.is_truthy(page:find(name, 1, true), name)
    end
  end)

  it("C24: a limit on memory is the user's, for each node, with a margin of a tenth by default", function()
    local spec <const> = row_of { "a100-pcie-80", "a100-pcie-80" }
    local limits <const> = { n1 = 30 * 2 ^ 30, n2 = 80 * 2 ^ 30 }
    spec.cluster.nodes[1].memory_bytes, spec.tolerance = limits.n1, { 0.1, 0.1, 0.2 }
    local free <const> = assert(planner.plan(row_of { "a100-pcie-80", "a100-pcie-80" }))
    for _, margin in ipairs { false, 0.2 } do
      local training <const> = support.with(spec.training, { memory_margin = margin or nil })
      local plan <const> = assert(planner.plan(support.with(spec, { training = training })))
      for _, stage in ipairs(plan.stages) do
        assert.near((1 - (margin or 0.1)) * limits[stage.gpus[1].node], stage.memory.capacity_bytes, 1)
        assert.is_true(stage.memory.total_bytes <= stage.memory.capacity_bytes)
      end
      assert.is_true(plan.time_s >= free.time_s)
    end
  end)

  it("C30: unlike GPUs: the report says which stage goes where, with its time and memory, and why one is left out", function()
    local spec <const> = row_of { "h100-sxm", "h100-sxm", "a6000", "a6000" }
    local plan <const> = assert(planner.plan(spec))
    local text <const>, on <const> = tangram.report(plan), { h = 0, a = 0 }
    for i, stage in ipairs(plan.stages) do
      local kind <const> = stage.gpus[1].node < "n3" and "h" or "a"
      on[kind] = on[kind] + stage.layers
      assert.matches(("\n +%d  %s +%s:0 "):format(i, stage.island:gsub("%p", "%%%0"), stage.gpus[1].node), text)
    end
    assert.is_true(on.h > on.a and on.a > 0) -- the faster GPUs get more
    spec.cluster.network.default.bytes_per_s = "0.05 GB/s"
    assert.matches("\nleft out [^\n]+: with it [%d.]+ s at best: ", tangram.report(assert(planner.plan(spec))))
  end)

  it("C34: the oldest GPU decides on precision, and attention is unfused where it has no kernel", function()
    local plan <const> = assert(planner.plan(row_of { "a100-pcie-40", "v100-sxm2-32" }))
    assert.equal("fp16", plan.training.precision)
    local told = false
    for _, warning in ipairs(plan.warnings) do
      told = told or warning == "precision is fp16 with loss scaling, as v100-sxm2-32 can't do bf16"
    end
    assert.is_true(told)
    local function alone(gpu, attention)
      return assert(planner.plan(row_of({ gpu }, {
        training = { global_batch = 32, seq_len = 2048, attention = attention },
        model = { name = "one", family = "llama", layers = 4, hidden = 1024, heads = 8, ffn = 4096, vocab = 32000 },
      })))
    end
    assert.equal("bf16", alone("a100-pcie-40").training.precision)
    assert.equal(alone("v100-sxm2-32", "unfused").time_s, alone("v100-sxm2-32", "auto").time_s)
    assert.is_true(alone("a100-pcie-40", "auto").time_s < alone("a100-pcie-40", "unfused").time_s)
    local ok <const>, why <const> = pcall(planner.plan, support.with(row_of { "a100-pcie-40", "v100-sxm2-32" },
      { training = { global_batch = 32, seq_len = 2048, precision = "bf16" } }))
    assert.is_false(ok)
    assert.is_truthy(why:find("v100-sxm2-32 can't", 1, true), why)
  end)

  describe("C48: long sequences", function()
    local function long(fields)
      return support.with({
        model = { name = "long", family = "llama", layers = 8, hidden = 4096, heads = 32, kv_heads = 8, ffn = 14336, vocab = 32000 },
        cluster = { nodes = { { name = "h", gpu = "h100-sxm", gpus = 8 } }, network = {} },
        training = { global_batch = 2, seq_len = 262144 }, gap = 0.05,
      }, fields or {})
    end
    local function exact(options) return { parallelizer = { name = "exact", options = options } } end

    it("that don't fit with cp 1 are said to fit with cp, with the bytes predicted", function()
      local plan <const>, why <const>, status <const> = planner.plan(long(exact { max_cp = 1, max_tp = 1 }))
      assert.is_nil(plan)
      assert.equal(3, status)
      local cp <const> = math.tointeger(tonumber(
        why:match "it fits with context parallelism, as 2 x cp divides 262144 tokens .-on the fullest GPU, .-cp(%d+)"))
      assert.is_truthy(cp and cp > 1 and 262144 % (2 * cp) == 0, why)
      local used <const>, room <const> = why:match ": ([%d.]+) of ([%d.]+) GiB on the fullest GPU"
      assert.near(0.9 * 80, tonumber(room), 1)
      assert.is_true(tonumber(used) <= tonumber(room))
    end)

    it("that don't fit as nothing is recomputed are said to fit with recompute", function()
      local training <const> = { global_batch = 2, seq_len = 524288 }
      local _, why <const> = planner.plan(long(support.with(exact { full_recompute = false, selective = false }, { training = training })))
      assert.matches("it fits with more recompute %(exact's option full_recompute at its default%): [%d.]+ of [%d.]+ GiB on the "
        .. "fullest GPU, .*recompute full", why)
    end)

    it("that a runtime with cp 1 can't run are said to fit another", function()
      local _, why <const> = planner.plan(long(support.with(exact { max_tp = 1 }, { target = "flagscale" })))
      assert.is_truthy(why:find("its rule of cp 1 is in the way; there is one with --target ", 1, true), why)
      assert.matches("%-%-target [^;]*megatron", why)
    end)
  end)
end)
