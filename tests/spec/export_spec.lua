local core <const> = require "tangram.core"
local plans <const> = require "tests.spec.fixtures.plans"
local support <const> = require "tests.spec.support"

local folder

local function export(plan, words)
  local path <const> = support.write(folder .. "/plan.json", core.json_encode(plan))
  return support.run(("tangram export %s -o %s/out %s"):format(path, folder, words))
end

describe("tangram export", function()
  before_each(function() folder = support.folder() end)
  after_each(function() support.remove(folder) end)

  it("writes a folder with a README that says all of the plan", function()
    local status <const>, stdout <const> = export(plans.three_stages(), "--to megatron")
    assert.equal(0, status)
    assert.matches("node.sh, launch.sh, README.md, for 12 processes on 2 nodes", stdout)
    local readme <const> = support.read(folder .. "/out/README.md")
    for _, words in ipairs { "| 1 | a | a1:0-3 | 0–3 | embedding, 0–11 |", "| 3 | v | v1:4-7 | 8–11 | 19–23, head |",
      "left out: t (t1): with it 9.5 s at best: it is slow", "1.0 of 28.8 GiB", "padded to 32256" } do
      assert.truthy(readme:find(words, 1, true), words)
    end
    assert.is_nil(io.open(folder .. "/out.tmp/README.md"))
  end)

  it("refuses a folder that holds something, and leaves nothing behind", function()
    assert(os.execute("mkdir " .. folder .. "/out"))
    support.write(folder .. "/out/mine", "x")
    local status <const>, _, stderr <const> = export(plans.three_stages(), "--to megatron")
    assert.equal(2, status)
    assert.matches("out: is there already, expected a new or an empty folder", stderr)
    assert.is_nil(io.open(folder .. "/out.tmp/README.md"))
    assert.is_nil(io.open(folder .. "/out/README.md"))
  end)

  it("refuses by code and sentence with status 2, and writes nothing", function()
    local plan <const> = plans.three_stages()
    plan.stages[1].strategy.tp, plan.stages[1].strategy.dp = 2, 2
    local status <const>, _, stderr <const> = export(plan, "--to megatron")
    assert.equal(2, status)
    assert.matches("plan.json: G2: stage 1 uses tp 2 x dp 2 with sequence parallelism but stage 2 tp 4 x dp 1", stderr)
    assert.matches("plan again with %-%-target megatron", stderr)
    assert.is_nil(io.open(folder .. "/out/README.md"))
  end)

  it("names the nearest word for what it does not know", function()
    local function refused(words, message)
      local status <const>, _, stderr <const> = export(plans.three_stages(), words)
      assert.equal(2, status)
      assert.truthy(stderr:find(message, 1, true), stderr)
    end
    refused("--to megatorn", "did you mean 'megatron'?")
    refused("--to megatron --runtime-version 2025", "megatron: --runtime-version: got '2025', expected one of 2026, 2024")
    refused("--to megatron --set prot=1", "megatron: --set: prot: unknown field (did you mean 'port'?)")
    refused("--to megatron --set port=0", "port: got 0, expected a whole number from 1 to 65535")
    refused("", "expected PLAN --to RUNTIME -o DIR")
  end)

  it("lists the runtimes with their options", function()
    local status <const>, stdout <const> = support.run "tangram export --list"
    assert.equal(0, status)
    assert.matches("megatron: Megatron%-LM: .- %(versions 2026, 2024%)\n  port +of the rendezvous", stdout)
  end)
end)
