local core <const> = require "tangram.core"
local planner <const> = require "tangram.planner"
local support <const> = require "tests.spec.support"

local recipe <const> = "tests/spec/fixtures/small_recipe.lua"

--- What the recipe plans, with changes.
local function spec_of(changes)
  local spec <const> = {
    model = { name = "small", family = "gpt2", layers = 4, hidden = 1024, heads = 16, vocab = 50272, positions = 1024 },
    cluster = { nodes = { { name = "a1", gpu = "a100-pcie-80", gpus = 1 }, { name = "t1", gpu = "t4", gpus = 1 } },
      network = { default = { bytes_per_s = "3 GB/s", latency_s = "20 us" } } },
    training = { global_batch = 4, seq_len = 1024 },
  }
  for name, value in pairs(changes or {}) do spec[name] = value end
  return spec
end

describe("compare", function()
  it("plans with each parallelizer, as planning with it does", function()
    local status <const>, out <const>, err <const> = support.run(
      ("tangram compare %s --with recipe,uniform,aceso,uniform --gap 0 --json -"):format(recipe))
    assert.equal(0, status, err)
    local rows <const> = core.json_decode(out).rows
    assert.equal(3, #rows)
    for i, name in ipairs { "exact", "uniform", "aceso" } do
      local plan <const> = assert(planner.plan(spec_of { parallelizer = name, gap = 0 }))
      assert.near(plan.time_s, rows[i].time_s, 1e-12)
      assert.equal(plan.tokens_per_s, rows[i].tokens_per_s)
      assert.equal(plan.pairs.queried, rows[i].queried)
      assert.equal(#plan.stages, rows[i].stages)
    end
    assert.equal("recipe", rows[1].name)
  end)

  it("shows them against the best", function()
    local status <const>, out <const> = support.run(("tangram compare %s --with exact,uniform"):format(recipe))
    assert.equal(0, status)
    assert.matches("parallelizer +iteration +tokens/s", out)
    assert.matches("\n  exact +%S+ %a+ += ", out)
    assert.matches("\n  uniform +%S+ %a+ ", out)
  end)

  it("says why there is no plan, and fails only where no one has one", function()
    local path <const> = support.write(os.tmpname() .. ".lua",
      'return { api = 1, kind = "parallelizer", name = "none", plan = function() return nil, "never" end }')
    local status <const>, out <const> = support.run(("tangram compare %s --with exact,%s"):format(recipe, path))
    assert.equal(0, status)
    assert.matches("no plan\n", out)
    assert.equal(3, (support.run(("tangram compare %s --with %s"):format(recipe, path))))
    os.remove(path)
  end)

  it("refuses what is no parallelizer", function()
    local status <const>, _, err <const> = support.run(("tangram compare %s --with exact,unifrm"):format(recipe))
    assert.equal(2, status)
    assert.is_truthy(err:find("did you mean 'uniform'?", 1, true), err)
    assert.equal(2, (support.run(("tangram compare %s"):format(recipe))))
  end)
end)

describe("plan --ablate", function()
  it("tells what each feature in use is worth", function()
    local spec <const> = spec_of()
    local plan <const> = assert(planner.plan(spec))
    local rows <const> = {}
    for _, row in ipairs(require("tangram.ablate").rows(plan, spec)) do rows[row.name] = row end
    assert.equal(plan.time_s, rows.all.time_s)
    local alone_s = math.huge
    for _, node in ipairs { "a1", "t1" } do
      local training <const> = { global_batch = 4, seq_len = 1024, precision = plan.training.precision }
      local alone <const> = planner.plan(spec_of { exclude = { node }, training = training })
      alone_s = math.min(alone_s, alone and alone.time_s or math.huge)
    end
    assert.near(alone_s, (rows["composition: a1 alone"] or rows["composition: a100-pcie-80 alone"]).time_s, 1e-12)
    local function options(name, value) return { parallelizer = { name = "exact", options = { [name] = value } } } end
    for name, changes in pairs {
      ["the merged partition"] = { merged = false }, ["policy bounded"] = { prune = { "infeasible", "redundant" } },
      ["recompute of whole layers"] = options("full_recompute", false), ["pipelines inside an island"] = options("max_stages", 1),
    } do
      local without <const> = assert(planner.plan(spec_of(changes)))
      assert.equal(without.time_s, rows[name].time_s, name)
      assert.equal(without.pairs.queried, rows[name].queried, name)
    end
    assert.is_nil(rows["fully sharded experts"]) -- there are none
  end)

  it("stands below the report, or on standard error beside JSON", function()
    local status <const>, out <const> = support.run(("tangram plan %s --ablate"):format(recipe))
    assert.equal(0, status)
    assert.matches("\n  without +iteration", out)
    assert.matches("\n  policy redundant +%S+ %a+ +=", out)
    local _, json <const>, err <const> = support.run(("tangram plan %s --ablate --json -"):format(recipe))
    assert.equal("tangram.plan/1", core.json_decode(json).format)
    assert.matches("  without +iteration", err)
  end)
end)
