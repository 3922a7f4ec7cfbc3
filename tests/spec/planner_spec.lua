local clusters <const> = require "tangram.cluster"
local core <const> = require "tangram.core"
local loader <const> = require "tangram.loader"
local plan_file <const> = require "tangram.plan"
local planner <const> = require "tangram.planner"
local recipe <const> = require "tangram.recipe"
local search <const> = require "tangram.search"
local slices <const> = require "tangram.slice"
local support <const> = require "tests.spec.support"

local recipes <const> = { "llama-3.1-8b", "quickstart", "qwen3-30b-a3b" }
for i = #recipes, math.max(support.scale(#recipes), 1) + 1, -1 do recipes[i] = nil end

--- The table that a recipe gives to tangram.plan.
local function spec_of(name)
  local caught
  recipe.configure { function(spec)
    caught = spec
    error("caught", 0)
  end }
  local _, why <const> = recipe.run("recipes/" .. name .. ".lua", 10)
  recipe.configure {}
  assert(caught, why)
  return caught
end

--- Plans are made once for all specs of this file.
local made <const> = {}
local function plan_of(name)
  if not made[name] then made[name] = assert(planner.plan(support.with(spec_of(name), { gap = 0 }))) end
  return made[name]
end

local function checked_by_oracle(plan)
  local path <const> = support.write(os.tmpname(), plan_file.encode(plan))
  local ok <const> = os.execute("lua5.4 tests/oracle/plan_check.lua " .. path .. " >/dev/null")
  os.remove(path)
  return ok
end

describe("planner", function()
  for _, name in ipairs(recipes) do
    describe(name, function()
      it("gives a plan that both checks pass", function()
        local plan <const> = plan_of(name)
        assert.is_true(plan.proved)
        assert.is_true(core.plan_check(plan_file.encode(plan)))
        assert.is_true(checked_by_oracle(plan))
      end)

      it("is never slower than an island alone or than the merged partition", function()
        local spec <const>, best_s <const> = spec_of(name), plan_of(name).time_s
        local all <const> = clusters.describe(spec.cluster)
        for _, island in ipairs(require("tangram.islands").group(all).islands) do
          local mine <const>, others <const> = {}, {}
          for _, node in ipairs(island.nodes) do mine[node] = true end
          for _, node in ipairs(all.nodes) do
            if not mine[node.name] then others[#others + 1] = node.name end
          end
          -- precision stays that of the whole cluster, so that the times compare
          local training <const> = support.with(spec.training, { precision = plan_of(name).training.precision })
          local alone <const> = planner.plan(support.with(spec, { gap = 0, exclude = others, training = training, merged = false }))
          if alone then assert.is_true(best_s <= alone.time_s * (1 + 1e-12), island.name .. " alone is faster") end
        end
        local merged <const> = planner.plan(support.with(spec, { gap = 0, tolerance = { 1e9, 1e9, 1e9 }, merged = false }))
        if merged then assert.is_true(best_s <= merged.time_s * (1 + 1e-12), "merged is faster") end
      end)

      it("adds up: stages, pairs, tokens, time", function()
        local plan <const> = plan_of(name)
        local dropped = 0
        for _, count in pairs(plan.pairs.pruned) do dropped = dropped + count end
        assert.is_true(dropped < plan.pairs.all)
        assert.is_true(plan.pairs.queried >= plan.pairs.all - dropped)
        assert.near(plan.training.global_batch * plan.training.seq_len, plan.tokens_per_s * plan.time_s, 1)
        assert.is_true(plan.bound_s <= plan.time_s and plan.gap == 1 - plan.bound_s / plan.time_s)
        for _, stage in ipairs(plan.stages) do
          local sync_s, busy_s = 0, 0
          for part, seconds in pairs(stage.time_parts) do
            if part == "reduce_s" or part == "optimizer_s" or part == "tied_s" then sync_s = sync_s + seconds
            else busy_s = busy_s + seconds end
          end
          assert.near(stage.forward_s + stage.backward_s, busy_s, 1e-9 * busy_s)
          assert.near(stage.sync_s, sync_s, 1e-9 * math.max(sync_s, 1e-3))
        end
        assert.is_true(#plan.constants > 0)
        for _, constant in ipairs(plan.constants) do
          assert.is_true(type(constant.name) == "string" and constant.source ~= nil and constant.from ~= nil)
        end
      end)

      it("prices the same when asked again", function()
        local plan <const> = plan_of(name)
        local again <const> = require("tangram.recost").plan(core.json_decode(plan_file.encode(plan)), name)
        assert.near(plan.time_s, again.time_s, 1e-9 * plan.time_s)
        assert.near(plan.paper_s, again.paper_s, 1e-9 * plan.paper_s)
      end)
    end)
  end

  it("gives the same bytes again", function()
    local again <const> = planner.plan(support.with(spec_of(recipes[#recipes]), { gap = 0 }))
    assert.equal(plan_file.encode(plan_of(recipes[#recipes])), plan_file.encode(again))
  end)

  it("plans one island or two of one GPU with no policy at all, whose slices have few positions or none", function()
    local spec <const> = support.with(spec_of "quickstart", { prune = {}, gap = 0, merged = false,
      model = { name = "tiny", family = "gpt2", layers = 3, hidden = 512, heads = 8, vocab = 1000, positions = 1024 } })
    spec.training.seq_len = 512
    local node <const> = { name = "a", gpu = "a100-sxm4-40", gpus = 1 }
    for _, nodes in ipairs { { node }, { node, { name = "t", gpu = "t4", gpus = 1 } } } do
      spec.cluster = { nodes = nodes, network = { default = { bytes_per_s = "10 GB/s" } } }
      local plan <const> = assert(planner.plan(spec))
      assert.is_true(core.plan_check(plan_file.encode(plan)))
      assert.equal(0, plan.pairs.saved) -- one position at most for each slice asked for
    end
  end)

  it("on one island plans what the parallelizer itself finds best for the whole model", function()
    local spec <const> = support.with(spec_of "llama-3.1-8b", { exclude = { "l1" }, gap = 0 })
    local plan <const> = assert(planner.plan(spec))
    assert.equal(1, #plan.islands)
    local setting <const> = planner.setting(require("tangram.schema").check(spec, planner.fields, "spec"))
    local group <const> = require("tangram.islands").group(setting.cluster)
    local problem <const> = planner.problem(setting, group)
    search.prepare(problem)
    local adapter <const>, best_s = loader.load("parallelizer", planner.fields.parallelizer.default), math.huge
    for _, microbatches in ipairs(problem.microbatches) do
      local ctx <const> = search.context(problem, group.islands[1], microbatches)
      ctx.options, ctx.memo = adapter.options, {}
      local slice <const> = slices.new(setting.model, setting.atoms, 1, #setting.atoms)
      for _, stages in ipairs(adapter.plan(slice, group.islands[1], ctx) or {}) do
        local counts <const>, transfer_s <const>, at = {}, {}, 0
        for s, stage in ipairs(stages) do counts[s] = stage.gpus end
        local _, links <const> = group.cluster:place(group.islands[1], counts, stages.idle or 0)
        for s = 1, #stages - 1 do
          at = at + stages[s].atoms
          transfer_s[s] = links[s].latency_s + ctx.samples * setting.atoms[at].boundary_bytes / links[s].bytes_per_s
        end
        local times <const> = {}
        for s, stage in ipairs(stages) do
          times[s] = { forward_s = stage.forward_s, backward_s = stage.backward_s, sync_s = stage.sync_s }
        end
        best_s = math.min(best_s, (core.simulate(times, transfer_s, { microbatches = microbatches })))
      end
    end
    assert.near(best_s, plan.time_s, 1e-12 * best_s)
  end)

  it("says what holds up each island that is left out", function()
    local spec <const> = support.with(spec_of "quickstart", { gap = 0 })
    local slow <const> = clusters.describe(spec.cluster)
    for _, link in ipairs(slow.network.links) do
      if link.between[1] == "t1" or link.between[2] == "t1" then link.bytes_per_s = 2e7 end
    end
    local untied <const> = support.with(spec.model, { tied = false }) -- else the charge for tied embeddings hides the link
    local plan <const> = assert(planner.plan(support.with(spec, { cluster = slow, model = untied, gap = 0.005 })))
    for _, island in ipairs(plan.islands) do
      if island.name == "t4" then
        assert.is_false(island.used)
        assert.is_true(island.best_with_s >= plan.time_s)
        assert.matches("the link from .*t4.* takes", island.reason)
      end
    end
  end)
end)

describe("an adapter with atoms and times of its own", function()
  it("is planned, with no pair dropped by the cost model, and its plan passes both checks", function()
    local plan <const> = assert(planner.plan {
      model = { name = "m", family = "gpt2", layers = 4, hidden = 1024, heads = 16, vocab = 50272 },
      cluster = {
        nodes = { { name = "a", gpu = "a100-sxm4-40", gpus = 4 }, { name = "t", gpu = "t4", gpus = 4 } },
        network = { default = { bytes_per_s = 1e11 } },
      },
      training = { global_batch = 32, seq_len = 1024 }, parallelizer = "tests/spec/fixtures/thirds.lua", gap = 0,
    })
    assert.equal("adapter", plan.granularity)
    assert.equal(12, plan.atoms)
    assert.is_nil(plan.pairs.pruned.bounded)
    assert.is_nil(plan.pairs.pruned.infeasible)
    assert.is_true(checked_by_oracle(plan))
    -- 312 against 65 TFLOP/s: 10 of 12 thirds on the A100s balance best
    assert.equal(2, #plan.stages)
    for _, stage in ipairs(plan.stages) do
      assert.equal(stage.island == "t4" and 2 or 10, stage.last - stage.first)
    end
  end)
end)

describe("a plan that does not fit", function()
  local spec <const> = {
    model = { name = "gpt3-13b", family = "gpt2", layers = 40, hidden = 5120, heads = 40, vocab = 50272, positions = 2048 },
    cluster = {
      nodes = { { name = "t1", gpu = "t4", gpus = 4, intra_bytes_per_s = "5.9 GB/s" } },
      network = { default = { bytes_per_s = "1 GB/s" } },
    },
    training = { global_batch = 8, seq_len = 2048 },
  }

  it("is refused with stage, shortage and the smallest change that helps", function()
    local plan <const>, why <const>, status <const> = planner.plan(spec)
    assert.is_nil(plan)
    assert.equal(3, status)
    assert.matches("on island t4, atoms %d+%.%.%d+ .*stage %d+ of %d+ is [%d.]+ GiB short", why)
    local count <const> = tonumber(why:match "it fits with (%d+) more node")
    assert.is_truthy(count, why)
    -- the change holds, and one node fewer does not
    local function nodes(n)
      local cluster <const> = { nodes = {}, network = spec.cluster.network }
      for i = 1, n do cluster.nodes[i] = { name = "t" .. i, gpu = "t4", gpus = 4, intra_bytes_per_s = "5.9 GB/s" } end
      return planner.plan(support.with(spec, { cluster = cluster, merged = false, gap = 0.5 }))
    end
    assert.is_truthy(nodes(1 + count))
    assert.is_nil(nodes(count))
  end)

  it("names a memory margin if that is enough", function()
    local tight <const> = support.with(spec, {
      model = { name = "small", family = "gpt2", layers = 11, hidden = 2048, heads = 16, vocab = 50272 },
      cluster = { nodes = { { name = "t1", gpu = "t4", gpus = 1 } } },
      training = { global_batch = 1, seq_len = 1024, memory_margin = 0.3 },
    })
    local plan <const>, why <const>, status <const> = planner.plan(tight)
    assert.is_nil(plan)
    assert.equal(3, status)
    assert.matches("it fits with a memory margin of", why)
  end)

  it("ends where islands are too many to count, with a plan that no island beats alone", function()
    local nodes <const> = {}
    for _, gpu in ipairs { "h100-sxm", "a100-sxm4-80", "a100-sxm4-40", "v100-sxm2-32", "t4" } do
      for _, gpus in ipairs { 1, 2, 4 } do
        nodes[#nodes + 1] = { name = ("n%d"):format(#nodes + 1), gpu = gpu, gpus = gpus }
      end
    end
    local model <const> = { name = "small", family = "llama", layers = 10, hidden = 1024, heads = 8, vocab = 32000,
      positions = 2048, ffn = 2816 }
    local function plan(bytes_per_s, changes)
      return planner.plan(support.with({
        model = model, training = { global_batch = 32, seq_len = 2048, precision = "fp16" }, merged = false,
        cluster = { nodes = nodes, network = { default = { bytes_per_s = bytes_per_s, latency_s = 2e-5 } } },
      }, changes or {}))
    end
    for _, bytes_per_s in ipairs { "25 GB/s", "0.2 GB/s" } do
      local best <const> = assert(plan(bytes_per_s))
      assert.equal(15, #best.islands)
      assert.is_true(core.plan_check(plan_file.encode(best)))
      assert.is_true(checked_by_oracle(best))
      assert.is_true(best.bound_s <= best.time_s)
      for i, node in ipairs(nodes) do
        local others <const> = {}
        for j, other in ipairs(nodes) do others[#others + 1] = j ~= i and other.name or nil end
        local alone <const> = plan(bytes_per_s, { exclude = others })
        if alone then assert.is_true(best.time_s <= alone.time_s * (1 + 1e-12), node.name .. " alone is faster") end
      end
      assert.equal(plan_file.encode(best), plan_file.encode(assert(plan(bytes_per_s, { workers = 2 }))))
    end
  end)
end)
