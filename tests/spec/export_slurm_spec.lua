local output <const> = require "tangram.output"
local placed <const> = require "tests.oracle.placed"
local plans <const> = require "tests.spec.fixtures.plans"
local scripts <const> = require "tests.oracle.scripts"
local support <const> = require "tests.spec.support"

local folder

--- The components of a job script: { nodes = names, count, tasks_per_node, gres, partition }.
local function components_of(text)
  local list <const> = { {} }
  for line in text:gmatch "[^\n]+" do
    local words <const> = line:match "^#SBATCH (.*)$"
    if words == "hetjob" then
      list[#list + 1] = {}
    else
      for name, value in (words or ""):gmatch "%-%-([%w-]+)=(%S+)" do list[#list][name] = value end
    end
  end
  return list
end

--- Runs the job as Slurm would, on nodes named as `rename` says, and gives what was started.
local function submitted(plan, set, rename)
  local stage <const> = scripts.stage(folder)
  local result <const> = output.write(plan, "slurm", folder .. "/out", { set = set })
  assert.is_truthy(result.files, (result.findings[1] or {}).text)
  local text <const> = support.read(folder .. "/out/job.sbatch")
  local components <const>, variables <const> = components_of(text), {}
  for c, one in ipairs(components) do
    local _, commas <const> = one.nodelist:gsub(",", ",")
    assert.equal(tonumber(one.nodes), commas + 1)
    variables[c] = ("SLURM_JOB_NODELIST%s=%s"):format(#components > 1 and ("_HET_GROUP_%d"):format(c - 1) or "",
      (one.nodelist:gsub("[^,]+", rename or "%0")))
  end
  local status <const>, _, stderr <const> = support.run(
    ("%s export SLURM_JOB_ID=7 SLURM_SUBMIT_DIR=%s/out %s; cd / && bash %s/out/job.sbatch"):format(stage, folder,
      table.concat(variables, " "), folder))
  assert.same({ 0, "" }, { status, stderr })
  return scripts.calls(folder), components, text
end

describe("export to Slurm", function()
  before_each(function() folder = support.folder() end)
  after_each(function() support.remove(folder) end)

  it("starts every node of a heterogeneous job with its rank", function()
    local plan <const> = plans.three_stages()
    local calls <const>, components <const> = submitted(plan, { partition = { a = "amp" }, gres_type = { v = "v100" }, account = "lab" })
    assert.same({ "1", "gpu:4", "amp", "a1" }, { components[1].nodes, components[1].gres, components[1].partition, components[1].nodelist })
    assert.same({ "1", "gpu:v100:8", nil, "v1" }, { components[2].nodes, components[2].gres, components[2].partition,
      components[2].nodelist })
    assert.equal("lab", components[1].account)
    assert.same(placed.plan(plan), (placed.megatron(scripts.processes(calls))))
  end)

  it("takes like nodes as one component, and the first node it was given as the meeting place", function()
    local strategy <const> = { tp = 4, sp = true }
    local plan <const> = plans.three_stages {
      nodes = { { "v1", "v100-sxm2-32", 4 }, { "v2", "v100-sxm2-32", 4 }, { "v3", "v100-sxm2-32", 4 } },
      islands = { { "v", { "v1", "v2", "v3" } } },
      stages = {
        { island = "v", gpus = { { "v1", { 0, 1, 2, 3 } } }, layers = 10, strategy = strategy },
        { island = "v", gpus = { { "v2", { 0, 1, 2, 3 } } }, layers = 8, strategy = strategy },
        { island = "v", gpus = { { "v3", { 0, 1, 2, 3 } } }, layers = 6, strategy = strategy },
      },
    }
    local calls <const>, components <const>, text <const> = submitted(plan, {}, "x-%0")
    assert.equal(1, #components)
    assert.is_nil(text:find("het", 1, true))
    local processes <const>, args <const> = scripts.processes(calls)
    assert.equal("x-v1", args["master-addr"])
    local stages <const> = placed.megatron(processes, args)
    assert.same({ "x-v2:0", "x-v2:1", "x-v2:2", "x-v2:3" }, stages[2].gpus)
  end)

  it("parts an island's nodes of which the plan uses unlike numbers of GPUs", function()
    local plan <const> = plans.three_stages {
      nodes = { { "v1", "v100-sxm2-32", 4 }, { "v2", "v100-sxm2-32", 4 } }, islands = { { "v", { "v1", "v2" } } },
      stages = {
        { island = "v", gpus = { { "v1", { 0, 1 } } }, layers = 10, strategy = { tp = 2, sp = true } },
        { island = "v", gpus = { { "v1", { 2, 3 } } }, layers = 8, strategy = { tp = 2, sp = true } },
        { island = "v", gpus = { { "v2", { 0, 1 } } }, layers = 6, strategy = { tp = 2, sp = true } },
      },
    }
    local calls <const>, components <const> = submitted(plan, {})
    assert.same({ { "gpu:4", "v1" }, { "gpu:2", "v2" } }, { { components[1].gres, components[1].nodelist },
      { components[2].gres, components[2].nodelist } })
    assert.same(placed.plan(plan), (placed.megatron(scripts.processes(calls))))
  end)

  it("leaves the choice of GPUs to Slurm where some of a node's are asked for", function()
    local plan <const> = plans.three_stages {
      stages = {
        { island = "a", gpus = { { "a1", { 2, 3 } } }, layers = 12, strategy = { tp = 2, sp = true } },
        { island = "v", gpus = { { "v1", { 4, 5 } } }, layers = 12, strategy = { tp = 2, sp = true } },
      },
    }
    local calls <const>, components <const> = submitted(plan, {})
    assert.same({ "gpu:2", "gpu:2" }, { components[1].gres, components[2].gres })
    assert.same({ "all", "all" }, { calls[1][2], calls[2][2] })
  end)

  it("gives FlagScale a hostfile of the nodes that the job got", function()
    local calls <const> = submitted(plans.three_stages(), { around = "flagscale" }, "n-%0")
    assert.equal(1, #calls) -- FLAGSCALE stands for a folder that is there: the root
    assert.same({ "/", "python", "run.py" }, { calls[1][1], calls[1][2], calls[1][3] })
    assert.equal("n-a1 slots=4 type=a\nn-v1 slots=8 type=v\n", support.read(folder .. "/out/hostfile.7"))
    assert.equal(("experiment.runner.hostfile=%s/out/hostfile.7"):format(folder), calls[1][8])
  end)

  it("refuses what the runtime inside refuses, by the same words", function()
    local plan <const> = plans.three_stages()
    plan.stages[1].strategy.tp, plan.stages[1].strategy.dp = 2, 2
    local bare <const> = output.render(plan, "megatron")
    assert.is_nil(output.render(plan, "slurm").files)
    assert.same(bare.findings, output.render(plan, "slurm").findings)
    local ok <const>, why <const> = pcall(output.render, plan, "slurm", { set = { around = "flagscal" } })
    assert.is_false(ok)
    assert.matches("did you mean 'flagscale'", why)
    assert.matches("got 'slurm', expected another runtime", select(2, pcall(output.render, plan, "slurm", { set = { around = "slurm" } })))
    assert.matches("megatron: %-%-set: recomput: unknown field %(did you mean 'recompute'%?%)",
      select(2, pcall(output.render, plan, "slurm", { set = { options = { recomput = "nearest" } } })))
  end)
end)
