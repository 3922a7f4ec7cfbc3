local core <const> = require "tangram.core"
local every_plan <const> = require "tests.spec.fixtures.every_plan"
local plan_file <const> = require "tangram.plan"
local planner <const> = require "tangram.planner"
local support <const> = require "tests.spec.support"
local targets <const> = require "tangram.target.branch"

--- Two islands, whose GPUs hold so many GiB. Attention is set, as a runtime with one implementation for all changes "auto".
local function small(a_gib, v_gib, fields)
  local model <const> = { name = "small", family = "gpt2", layers = 3, hidden = 1024, heads = 16, vocab = 8192, positions = 1024 }
  for name, value in pairs(fields or {}) do model[name] = value end
  return {
    model = model, gap = 0, merged = false,
    cluster = {
      nodes = {
        { name = "a", gpu = "a100-pcie-40", gpus = 2, memory_bytes = a_gib * 2 ^ 30, intra_bytes_per_s = "100 GB/s" },
        { name = "v", gpu = "v100-sxm2-32", gpus = 2, memory_bytes = v_gib * 2 ^ 30, intra_bytes_per_s = "20 GB/s" },
      },
      network = { default = { bytes_per_s = "40 GB/s", latency_s = "5 us" } },
    },
    training = { global_batch = 12, seq_len = 1024, microbatches = { min = 2, max = 3 }, memory_margin = 0.01,
      attention = "flash" },
  }
end

local function checked_by_oracle(plan)
  local path <const> = support.write(os.tmpname(), plan_file.encode(plan))
  local ok <const> = os.execute("lua5.4 tests/oracle/plan_check.lua " .. path .. " >/dev/null")
  os.remove(path)
  return ok
end

local runtimes <const> = targets.names()

--- 4 A100 and 8 V100, the case of the reference.
local function twelve()
  return {
    model = { name = "gpt", family = "gpt2", layers = 24, hidden = 2048, heads = 16, vocab = 50272, positions = 2048 },
    cluster = {
      nodes = {
        { name = "a", gpu = "a100-pcie-40", gpus = 4, intra_bytes_per_s = "100 GB/s" },
        { name = "v", gpu = "v100-sxm2-32", gpus = 8, intra_bytes_per_s = "50 GB/s" },
      },
      network = { default = { bytes_per_s = "10 GB/s" } },
    },
    training = { global_batch = 64, seq_len = 2048, microbatches = { min = 16, max = 16 } },
  }
end

describe("target", function()
  local cases <const> = {
    { "block recompute", small(2.6, 1.6) }, { "one stage recomputes more", small(1.6, 1.6) },
  }
  cases[1][2].training.microbatches, cases[2][2].training.microbatches = { min = 2, max = 2 }, { min = 4, max = 4 }
  -- of unlike layers, with experts; FSEP is no runtime's
  local experts <const> = small(2.4, 2, { family = "mixtral", ffn = 2048, experts = 2, experts_per_token = 2, expert_ffn = 1024,
    layer_mlp = { "dense", "moe", "moe" }, positions = 0, tied = true })
  experts.training.microbatches = { min = 4, max = 4 }
  experts.parallelizer = { name = "exact", options = { fsep = false } }
  cases[3] = { "experts", experts }
  for i = support.scale(#cases) + 1, #cases do cases[i] = nil end
  for _, case in ipairs(cases) do
    it("gives the best of all plans that the runtime can run: " .. case[1], function()
      local best_s <const> = every_plan.best_s(case[2], runtimes)
      local free <const> = planner.plan(case[2])
      assert.near(best_s[false], free and free.time_s or math.huge, 1e-12)
      for _, name in ipairs(runtimes) do
        local plan <const> = planner.plan(support.with(case[2], { target = name, p2p = "overlapped" }))
        assert.near(best_s[name], plan and plan.time_s or math.huge, 1e-12 * best_s[false], name)
        if plan then
          assert.equal(name, plan.target)
          assert.is_true(core.plan_check(plan_file.encode(plan)))
          assert.is_true(checked_by_oracle(plan))
          assert.is_true(plan.proved and free.time_s <= plan.time_s)
        end
      end
    end)
  end

  it("has stages wait for transfers where the runtime does, unless asked otherwise", function()
    for name, p2p in pairs { megatron = "blocking", flagscale = "blocking", deepspeed = "overlapped" } do
      assert.equal(p2p, assert(planner.plan(support.with(small(2.6, 1.6), { target = name }))).p2p)
    end
    assert.equal("overlapped", assert(planner.plan(support.with(small(2.6, 1.6), { target = "megatron", p2p = "overlapped" }))).p2p)
  end)

  it("plans 4 A100 and 8 V100 for Megatron as three stages of 4 GPUs", function()
    local plan <const> = assert(planner.plan(support.with(twelve(), { target = "megatron" })))
    local places <const> = {}
    for i, stage in ipairs(plan.stages) do
      places[i] = ("%s %d-%d"):format(stage.gpus[1].node, stage.gpus[1].indices[1], stage.gpus[1].indices[4])
      assert.equal(4, #stage.gpus[1].indices)
    end
    assert.equal(3, #plan.stages)
    assert.is_truthy(({ ["a 0-3, v 0-3, v 4-7"] = true, ["v 0-3, v 4-7, a 0-3"] = true })[table.concat(places, ", ")])
    assert.is_true(checked_by_oracle(plan))
  end)

  for _, adapter in ipairs { "uniform", "alpa", "aceso", "galvatron" } do
    local made
    it("lets no plan of an adapter pass that the runtime can't run: " .. adapter, function()
      for _, name in ipairs { "galvatron", "megatron" } do
        local plan <const>, why <const>, status <const> =
          planner.plan(support.with(small(2.6, 1.6), { target = name, parallelizer = adapter }))
        if plan then assert.is_true(checked_by_oracle(plan), name) else assert.equal(3, status, why) end
        made = made or plan
      end
      assert.is_truthy(made)
    end)
  end

  it("drops what an adapter that knows of no target gives, and says how much", function()
    local path <const> = support.write(os.tmpname() .. ".lua", [[
      return { api = 1, kind = "parallelizer", name = "blind", plan = function(slice, island, ctx)
        local plans = {}
        for tp = 1, island.gpus do
          if island.gpus % tp == 0 and ctx.samples % (island.gpus // tp) == 0 then
            plans[#plans + 1] = { ctx.cost.stage(slice, island, { dp = island.gpus // tp, tp = tp, zero = 2 }, ctx) }
          end
        end
        return plans
      end }]])
    local spec <const> = support.with(twelve(), { parallelizer = path, merged = false })
    local plan <const> = assert(planner.plan(support.with(spec, { target = "flagscale" })))
    os.remove(path)
    assert.is_true(checked_by_oracle(plan))
    local told = false
    for _, line in ipairs(plan.warnings) do
      told = told or line:match "^flagscale can't run some plans that blind gave, dropped: %d+ for "
    end
    assert.is_truthy(told)
  end)

  it("keeps answers for a target apart in a store", function()
    local store <const> = os.tmpname()
    os.remove(store)
    local apart <const> = small(1.6, 1.6)
    apart.training.microbatches = { min = 4, max = 4 }
    local spec <const> = support.with(apart, { store = store })
    local free <const>, bound <const> = planner.plan(spec), planner.plan(support.with(spec, { target = "megatron" }))
    assert.equal(bound.time_s, planner.plan(support.with(apart, { target = "megatron" })).time_s)
    assert.is_true(free.time_s < bound.time_s)
    assert.equal(free.time_s, planner.plan(spec).time_s)
    os.remove(store)
  end)

  for _, name in ipairs(runtimes) do
    it("gives plans that can be exported: " .. name, function()
      local spec <const> = support.with(small(2.6, 1.6), { target = name })
      spec.training.microbatches, spec.training.attention = { min = 3, max = 3 }, "unfused" -- V100s know no other
      local plan <const> = assert(planner.plan(spec))
      local folder <const> = support.folder()
      local path <const> = support.write(folder .. "/plan.json", plan_file.encode(plan))
      local own <const> = name == "torchtitan" and "--set module=mine --set config=mine" or "" -- it knows models by name
      local status <const>, _, err <const> = support.run(("tangram export %s --to %s %s -o %s/out"):format(path, name, own, folder))
      support.remove(folder)
      assert.equal(0, status, err)
      local refused
      for _, line in ipairs(plan.warnings) do refused = refused or line:match "^the export to %S+ is refused as it stands: (%u%d):" end
      assert.equal(name == "torchtitan" and "M3" or nil, refused)
    end)
  end

  it("says which rule is in the way where no plan meets all", function()
    -- a layer fits the A100s only with tp 2, and all three layers neither node alone
    local spec <const> = small(1.6, 1.9, { tied = false })
    spec.cluster.nodes[2].gpus, spec.training.microbatches = 1, { min = 4, max = 4 }
    local plan <const>, why <const>, status <const> = planner.plan(support.with(spec, { target = "megatron" }))
    assert.is_nil(plan)
    assert.equal(3, status)
    assert.is_truthy(why:find("its rule of equal numbers of GPUs in all stages is in the way", 1, true), why)
    assert.is_truthy(why:find("there is one with --target flagscale", 1, true), why)
    assert.is_truthy(why:find("it fits with ", 1, true), why)
    spec.model.tied = true
    local _, other <const> = planner.plan(support.with(spec, { target = "flagscale" }))
    assert.is_truthy(other:find("its rule of equal tp of the ends", 1, true), other)
  end)

  it("leaves out an island of a node whose stages have others between them", function()
    local rules <const> = targets.rules "flagscale"
    local function stage(island, host)
      return { island = island, hosts = { host }, gpus = 1, layers = 1, strategy = { dp = 1, tp = 1, cp = 1, ep = 1, zero = 0 } }
    end
    local model <const>, mode <const> = { tied = false }, { name = "flagscale", zero = { 0, 1 }, min_layers = 1 }
    assert.is_nil(targets.branch(rules, mode, { stage("a", "m"), stage("b", "m"), stage("c", "n") }, model))
    local parts <const> = targets.branch(rules, mode, { stage("a", "m"), stage("c", "n"), stage("b", "m") }, model)
    assert.is_true(parts.partial)
    assert.same({ { a = true }, { b = true } }, { parts[1].without, parts[2].without })
    assert.equal(2, #parts)
    local target <const> = require "tangram.target.stage"
    assert.is_false(target.fits_on(parts[1], { name = "a", device = {}, gpus = 1, gpus_per_node = 1 }))
    assert.is_true(target.fits_on(parts[1], { name = "c", device = {}, gpus = 1, gpus_per_node = 1 }))
  end)

  it("lists only plans that the runtime can run", function()
    local spec <const> = support.with(small(1.6, 1.6), { target = "megatron", top = 50 })
    spec.training.microbatches = { min = 4, max = 4 }
    local plan <const> = assert(planner.plan(spec))
    assert.equal(plan.time_s, plan.top[1].time_s)
    spec.target = nil
    local free <const> = assert(planner.plan(spec))
    assert.is_true(#plan.top < #free.top)
  end)

  it("is refused for an unknown runtime and for halves of layers", function()
    local ok, why = pcall(planner.plan, support.with(small(2, 2), { target = "megatrn" }))
    assert.is_false(ok)
    assert.is_truthy(why:find("target", 1, true) and why:find("did you mean 'megatron'?", 1, true), why)
    ok, why = pcall(planner.plan, support.with(small(2, 2), { target = "megatron", granularity = "half" }))
    assert.is_false(ok)
    assert.is_truthy(why:find("no runtime cuts inside a layer", 1, true), why)
  end)

  it("stands in the help, and in the report of a plan", function()
    local status <const>, out <const> = support.run "tangram plan --help"
    assert.equal(0, status)
    assert.is_truthy(out:find("--target", 1, true))
    local made <const> = support.with(small(40, 32), { target = "megatron" })
    assert.is_truthy(require("tangram").report(assert(planner.plan(made))):find("; megatron can run it\n", 1, true))
  end)
end)
