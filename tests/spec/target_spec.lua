local core <const> = require "tangram.core"
local every_plan <const> = require "tests.spec.fixtures.every_plan"
local plan_file <const> = require "tangram.plan"
local planner <const> = require "tangram.planner"
local support <const> = require "tests.spec.support"
local targets <const> = require "tangram.targets"

local function with(spec, changes)
  local copy <const> = {}
  for key, value in pairs(spec) do copy[key] = value end
  for key, value in pairs(changes) do copy[key] = value end
  return copy
end

--- Two islands, whose GPUs hold so many GiB.
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
    training = { global_batch = 12, seq_len = 1024, microbatches = { min = 1, max = 4 }, memory_margin = 0.01 },
  }
end

local function checked_by_oracle(plan)
  local path <const> = support.write(os.tmpname(), plan_file.encode(plan))
  local ok <const> = os.execute("lua5.4 tests/oracle/plan_check.lua " .. path .. " >/dev/null")
  os.remove(path)
  return ok
end

local runtimes <const> = targets.names()

describe("target", function()
  local cases <const> = {
    { "one stage recomputes more", small(1.6, 1.6) }, { "the head alone", small(2, 1.4) }, { "block", small(2.6, 1.6) },
  }
  for i = support.scale(#cases) + 1, #cases do cases[i] = nil end
  for _, case in ipairs(cases) do
    it("gives the best of all plans that the runtime can run: " .. case[1], function()
      local best_s <const> = every_plan.best_s(case[2], runtimes)
      local free <const> = planner.plan(case[2])
      assert.near(best_s[false], free and free.time_s or math.huge, 1e-12)
      for _, name in ipairs(runtimes) do
        local plan <const> = planner.plan(with(case[2], { target = name }))
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
end)
