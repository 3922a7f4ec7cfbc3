local calibrate <const> = require "tangram.calibrate"
local loader <const> = require "tangram.loader"
local own <const> = require "tangram.measured.own"
local rows <const> = require "tangram.measured.rows"
local support <const> = require "tests.spec.support"
local validate <const> = require "tangram.validate"

local HEAD <const> = "id,gpu,n_gpus,gpus_per_node,interconnect,layers,hidden,heads,vocab,seq,tp,pp,dp,mbs,gbs,precision,recompute,"
  .. "iter_time_s,mem_gib\n"

--- Runs on GPUs whose constants are `truth`: what the formulas give for them stands for what was measured.
local function runs_of(truth, shapes)
  local plugin <const> = loader.load("cost", { name = "analytic", options = { constants = truth } })
  local lines <const> = {}
  for i, shape in ipairs(shapes) do
    local line <const> = ("run%d,A100-SXM4-80GB,8,8,,%s,bf16,full"):format(i, shape)
    local result <const> = validate.row(rows.parse(HEAD .. line .. ",,\n", "x")[1], plugin)
    lines[i] = ("%s,%.9g,%.9g"):format(line, result.predicted_s, result.predicted_bytes / 2 ^ 30)
  end
  return HEAD .. table.concat(lines, "\n") .. "\n"
end

--- layers, hidden, heads, vocab, seq, tp, pp, dp, mbs, gbs
local big <const>, small <const>, tensor <const> = "24,4096,32,51200,2048,1,1,8,4,64", "24,1024,16,51200,1024,1,1,8,1,64",
  "24,4096,32,51200,2048,8,1,1,8,64"

local function value_of(types, name)
  for _, one in ipairs(types[1].constants) do
    if one.name == name then return one.value end
  end
end

describe("calibrate", function()
  it("three runs tell the efficiency, the launch time and the link", function()
    local truth <const> = { gemm_efficiency = 0.7, launch_s = 2e-3, tp_link_share = 0.5 }
    local text <const> = runs_of(truth, { big, small, tensor })
    local types <const>, notes <const> = calibrate.run(text, "runs.csv")
    assert.same({}, notes)
    assert.equal("a100-sxm4-80", types[1].gpu)
    assert.is_true(types[1].before.mape > 0.2)
    assert.is_true(types[1].after.mape < 0.03, ("%.3f"):format(types[1].after.mape))
    assert.near(2e-3, value_of(types, "launch_s"), 1e-4)
    assert.is_true(value_of(types, "gemm_efficiency") < 0.8)
  end)

  it("what the runs say nothing about keeps the catalogue's value", function()
    local types <const> = calibrate.run(runs_of({ launch_s = 3e-3 }, { small, small, small }), "runs.csv")
    assert.near(3e-3, value_of(types, "launch_s"), 1e-4)
    for _, name in ipairs { "tp_link_share", "network_share", "fp8_gain", "flash_efficiency" } do assert.is_nil(value_of(types, name)) end
  end)

  it("memory: no run takes more than 5 % beyond its prediction", function()
    local GIB <const> = 2 ^ 30
    local types <const> = calibrate.run(runs_of({ context_bytes = 6 * GIB }, { big, small, tensor }), "runs.csv")
    local context <const> = value_of(types, "context_bytes")
    assert.is_true(context < 6 * GIB and context > 4 * GIB)
  end)

  it("writes a file that validate and plan take", function()
    local folder <const> = support.folder()
    support.write(folder .. "/runs.csv", runs_of({ gemm_efficiency = 0.6, launch_s = 2e-3 }, { big, small, tensor }))
    local status <const>, _, err <const> = support.run(("tangram calibrate %s/runs.csv -o %s/my.lua"):format(folder, folder))
    assert.equal(0, status)
    assert.matches("^a100%-sxm4%-80: 3 runs, ", err)
    assert.is_number(own.read(folder .. "/my.lua")["a100-sxm4-80"].constants.launch_s)
    local _, out <const> = support.run(("tangram validate %s/runs.csv --gpus %s/my.lua --json -"):format(folder, folder))
    assert.is_true(tonumber(out:match '"mape":%s*([%d.e-]+)') < 0.03)
    support.write(folder .. "/recipe.lua", ([[
      local tangram = require "tangram"
      return tangram.plan { model = { family = "gpt2", hidden = 2048, layers = 24, heads = 16, vocab = 51200 },
        cluster = { nodes = { { name = "a", gpu = "a100-sxm4-80", gpus = 8 } } }, training = { global_batch = 64, seq_len = 1024 } }
    ]]))
    local planned <const>, plan <const> = support.run(("tangram plan %s/recipe.lua --gpus %s/my.lua --json -"):format(folder, folder))
    assert.equal(0, planned)
    assert.matches("option 'gpus'", plan)
    support.write(folder .. "/bad.lua", "return { t4 = { constants = { gem_efficiency = 1 } } }")
    local bad <const>, _, why <const> = support.run(("tangram validate %s/runs.csv --gpus %s/bad.lua"):format(folder, folder))
    assert.equal(2, bad)
    assert.matches("t4: constants: .*did you mean 'gemm_efficiency'", why)
    support.remove(folder)
  end)
end)
