local core <const> = require "tangram.core"
local fields <const> = require "tangram.report.fields"
local flagscale <const> = require "tests.oracle.flagscale"
local output <const> = require "tangram.output"
local placed <const> = require "tests.oracle.placed"
local plans <const> = require "tests.spec.fixtures.plans"
local scripts <const> = require "tests.oracle.scripts"
local support <const> = require "tests.spec.support"

local yaml <const> = require "tests.oracle.yaml"

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

  it("prices the nearest plan from the file", function()
    local plan <const> = plans.three_stages()
    plan.stages[2].strategy.recompute = { kind = "full", layers = 4 }
    local status <const>, _, stderr <const> = export(plan, "--to megatron --set recompute=nearest")
    assert.equal(0, status)
    assert.matches("note: recompute is the first 4 layers of every stage, in place of one setting a stage", stderr)
    assert.matches("%-%-recompute%-num%-layers 4\n", support.read(folder .. "/out/node.sh"))
  end)

  it("writes no name into a script that the shell would run", function()
    local plan <const> = plans.three_stages { islands = { { "a\nrm -rf x", { "a1" } }, { "v", { "v1" } } }, stages = {
      { island = "a\nrm -rf x", gpus = { { "a1", { 0, 1, 2, 3 } } }, layers = 12, strategy = { tp = 4, sp = true } },
      { island = "v", gpus = { { "v1", { 0, 1, 2, 3 } } }, layers = 12, strategy = { tp = 4, sp = true } } } }
    plan.model.name = "m\ntouch y"
    for _, file in ipairs(output.render(plan, "slurm").files) do
      assert.is_nil(file.text:find("\nrm", 1, true) or file.text:find("\ntouch", 1, true))
    end
    for _, name in ipairs { "a1;touch x", "a1\n", "$(touch x)", "a 1", "-o", "" } do
      plan.stages[1].gpus[1].node, plan.cluster.nodes[1].name = name, name
      local ok <const>, why <const> = pcall(output.render, plan, "megatron")
      assert.is_false(ok)
      assert.matches(name == "" and "name" or "stages%[0%].gpus%[0%].node: got '.*', expected the name or address of a host", why)
    end
  end)

  it("says in one line what is wrong with a plan edited by hand, whatever it is", function()
    math.randomseed(73)
    local text <const> = core.json_encode(plans.three_stages())
    local wrong <const> = { core.null, "x", -1, 0, 1.5, true, 1e300, "" }
    --- Sets a random field, some way down, to something else.
    local function spoil(at, depth)
      local keys <const> = {}
      for key in pairs(at) do keys[#keys + 1] = tostring(key) end
      table.sort(keys)
      local key = keys[math.random(#keys)]
      key = at[key] ~= nil and key or math.tointeger(tonumber(key))
      if type(at[key]) == "table" and next(at[key]) ~= nil and (depth < 2 or math.random(4) > 1) then return spoil(at[key], depth + 1) end
      at[key] = wrong[math.random(#wrong)]
    end
    for _ = 1, support.scale(300) do
      local plan <const> = core.json_decode(text)
      spoil(plan, 0)
      for _, name in ipairs(core.plan_check(core.json_encode(plan)) and pcall(fields.check, plan) and { "flagscale", "slurm" } or {}) do
        local ok <const>, why <const> = pcall(output.render, plan, name)
        if not ok then
          assert.matches("^[^\n]+$", why)
          assert.is_nil(why:find "attempt to" or why:find "bad argument" or why:find "internal", why)
        end
      end
    end
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

  it("exports the recipes' plans, or says by code and number why not", function()
    local exported = 0
    for _, recipe in ipairs { "quickstart", "llama-3.1-8b", "qwen3-30b-a3b" } do
      local path <const> = ("%s/%s.json"):format(folder, recipe)
      assert.equal(0, (support.run(("tangram plan recipes/%s.lua --microbatches 32 --gap 0.05 --quiet --json %s"):format(recipe, path))))
      local plan <const> = core.json_decode(support.read(path))
      local stages <const> = placed.plan(plan)
      for _, name in ipairs { "flagscale", "megatron" } do
        local result <const>, files <const> = output.render(plan, name), {}
        for _, file in ipairs(result.files or {}) do files[file.name] = file.text end
        if name == "flagscale" and result.files then
          for s, stage in ipairs(flagscale.stages(yaml(files["config.yaml"]).experiment, yaml(files["train/plan.yaml"]), files.hostfile)) do
            for field, value in pairs(stages[s]) do assert.same(value, stage[field]) end
          end
        elseif result.files then
          assert.same(stages, (placed.megatron(scripts.read(files["node.sh"], files["launch.sh"]))))
        end
        for _, finding in ipairs(result.files and {} or result.findings) do
          assert.matches("^%u%d$", finding.code)
          assert.matches("%d", finding.text)
        end
        exported = exported + (result.files and 1 or 0)
      end
    end
    assert.is_true(exported >= 1) -- FlagScale runs the first as it is composed
  end)

  it("lists the runtimes with their options", function()
    local status <const>, stdout <const> = support.run "tangram export --list"
    assert.equal(0, status)
    assert.matches("megatron: Megatron%-LM: .- %(versions 2026, 2024%)\n  port +of the rendezvous", stdout)
  end)

  it("documents its codes, all and no others", function()
    local used <const>, told <const> = {}, {}
    local list <close> = assert(io.popen "cat lua/tangram/output/*.lua")
    for code in list:read "a":gmatch '["]([A-Z]%d+)"' do used[code] = true end
    for row in support.read "docs/export.md":gmatch "\n| ([A-Z]%d[^|]*) |" do
      local first <const>, last <const> = row:match "^F(%d+) – F(%d+)$"
      for k = first or 1, last or 0 do told["F" .. math.tointeger(k)] = true end
      for code in row:gmatch "[A-Z]%d+" do told[code] = true end
    end
    assert.same(used, told)
  end)
end)
