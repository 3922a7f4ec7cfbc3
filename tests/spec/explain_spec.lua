local core <const> = require "tangram.core"
local explained <const> = require "tangram.report.explained"
local recipe <const> = require "tangram.recipe"
local support <const> = require "tests.spec.support"
local tangram <const> = require "tangram"
local terms <const> = require "tangram.formulas.terms"

local function planned()
  recipe.configure({}, {})
  return tangram.plan {
    model = { family = "gpt2", layers = 24, hidden = 4096, heads = 32, vocab = 51200 },
    cluster = {
      nodes = { { name = "a", gpu = "a100-pcie-80", gpus = 2 }, { name = "t", gpu = "t4", gpus = 2 },
        { name = "v", gpu = "v100-pcie-16", gpus = 2 } },
      network = { default = { bytes_per_s = 1e11 } },
    },
    training = { global_batch = 32, seq_len = 1024, precision = "fp16", microbatches = { min = 16, max = 16 } },
  }
end

--- Sum of the figures of a table's second column, in seconds or bytes, between its heading and an empty line.
local UNITS <const> = { s = 1, ms = 1e-3, us = 1e-6, ns = 1e-9, B = 1, KiB = 2 ^ 10, MiB = 2 ^ 20, GiB = 2 ^ 30 }
local function sum_of(text, heading)
  local sum, shares = 0, 0
  for line in text:match(heading .. "[^\n]*\n(.-)\n\n"):gmatch "[^\n]+" do
    local value <const>, unit <const>, share <const> = line:match "  ([%d.]+) (%a+) +([%d.]+) %%  "
    sum, shares = sum + tonumber(value) * UNITS[unit], shares + tonumber(share)
  end
  return sum, shares
end

describe("explain", function()
  local plan <const> = planned()

  it("accounts for every second and byte of a stage", function()
    for i, stage in ipairs(plan.stages) do
      local text <const> = explained.plan(plan, i)
      local busy_s <const>, share <const> = sum_of(text, "a microbatch")
      assert.near(1, busy_s / (stage.forward_s + stage.backward_s), 0.01)
      assert.near(100, share, 1)
      assert.near(1, sum_of(text, "end of a step") / stage.sync_s, 0.01)
      assert.near(1, sum_of(text, "memory, %d+ in flight") / stage.memory.total_bytes, 0.01)
    end
  end)

  it("names the constants of the stage's own island, and where each is from", function()
    assert.is_true(#plan.stages > 1)
    for i, stage in ipairs(plan.stages) do
      local text <const> = explained.plan(plan, i)
      assert.matches("\n  gemm_efficiency on " .. stage.island:gsub("%p", "%%%0") .. " +[%d.]+ +fitted +", text)
      assert.matches("\n  compute_flops on " .. stage.island:gsub("%p", "%%%0") .. " +[%d.e+]+ +FLOP/s +datasheet +NVIDIA", text)
      for _, other in ipairs(plan.stages) do
        if other.island ~= stage.island then assert.is_nil(text:find(" on " .. other.island .. " ", 1, true)) end
      end
    end
    assert.matches("\n  optimizer_traffic +30 +bytes +default +carried over", (explained.plan(plan)))
  end)

  it("has a line for each term that the cost model prices, and no other", function()
    local stage <const> = plan.stages[1]
    for name in pairs(stage.time_parts) do assert.is_table(terms.microbatch[name] or terms.step[name], name) end
    for name in pairs(stage.memory) do
      assert.is_true(name == "total_bytes" or name == "capacity_bytes" or terms.memory[name] ~= nil, name)
    end
    local known <const> = {}
    for _, one in ipairs(plan.constants) do known[one.name:match "^(.-) on " or one.name] = true end
    for _, kind in pairs(terms) do
      for name, term in pairs(kind) do
        for _, constant in ipairs(term[4]) do
          assert.is_true(known[constant] or constant == "fp8_flops" or constant == "inter_bytes_per_s", name .. ": " .. constant)
        end
      end
    end
  end)

  it("shows another cost model's own terms by their names", function()
    local own <const> = core.json_decode(require("tangram.plan").encode(plan))
    for _, stage in ipairs(own.stages) do stage.time_parts = { magic_s = stage.forward_s + stage.backward_s } end
    assert.matches("\n  magic_s +[%d.]+ %a+ +100.0 %%  the cost model's own", (explained.plan(own)))
  end)

  it("as a command: one stage, and a wrong one in a sentence", function()
    local folder <const> = support.folder()
    local path <const> = support.write(folder .. "/plan.json", require("tangram.plan").encode(plan))
    local status <const>, out <const> = support.run(("tangram explain %s --stage 1"):format(path))
    assert.equal(0, status, out)
    assert.matches("^stage 1 of %d+: E%+", out)
    local wrong <const>, _, why <const> = support.run(("tangram explain %s --stage 99"):format(path))
    assert.same({ 2, ("tangram explain: --stage: got 99, expected 1 to %d\n"):format(#plan.stages) }, { wrong, why })
    support.remove(folder)
  end)
end)
