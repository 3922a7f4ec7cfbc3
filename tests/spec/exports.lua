--- What specs of exporters share: what is exported, refused or started, and plans to export.
local assert <const> = require "luassert"
local core <const> = require "tangram.core"
local output <const> = require "tangram.output"
local plans <const> = require "tests.spec.fixtures.plans"
local scripts <const> = require "tests.oracle.scripts"
local support <const> = require "tests.spec.support"

local exports <const> = { has_python = os.execute "python3 -c '' 2>/dev/null" }

function exports.checked(plan)
  assert.same({ true }, { core.plan_check(core.json_encode(plan)) })
  return plan
end

--- The files of an export by name.
function exports.files_of(plan, name, options)
  local result <const>, files <const> = output.render(exports.checked(plan), name, options), {}
  assert.is_truthy(result.files, (result.findings[1] or {}).text)
  for _, file in ipairs(result.files) do files[file.name] = file.text end
  return files, result
end

--- Code and sentence of the first finding that stops an export.
function exports.refusal(plan, name, options)
  local result <const> = output.render(exports.checked(plan), name, options)
  assert.is_nil(result.files)
  for _, finding in ipairs(result.findings) do
    if finding.fatal then return finding.code, finding.text end
  end
end

function exports.warned(result, code)
  for _, finding in ipairs(result.findings) do
    if finding.code == code then return finding.text end
  end
end

--- Writes files below folder, runs launch.sh with stand-ins for ssh and torchrun: processes, arguments.
function exports.launched(folder, plan, name, options, environment)
  local out <const> = folder .. "/out"
  assert.is_truthy(output.write(exports.checked(plan), name, out, options).files)
  local stage <const> = scripts.stage(folder)
  local status <const>, _, stderr <const> = support.run(("%s cd / && %s %s/launch.sh"):format(stage, environment, out))
  assert.same({ 0, "" }, { status, stderr })
  return scripts.processes(scripts.calls(folder))
end

--- Prints of oracle/runtimes.py for the files of an export, which go below folder.
function exports.python(folder, files, words)
  local dir <const> = folder .. "/python"
  assert(os.execute("mkdir -p " .. dir))
  for name, text in pairs(files) do
    if name:find "%.py$" then support.write(dir .. "/" .. name, text) end
  end
  local status <const>, stdout <const>, stderr <const> = support.run("python3 -S tests/oracle/runtimes.py " .. words:format(dir))
  assert.same({ 0, "" }, { status, stderr })
  return core.json_decode(stdout)
end

--- Eight A100 in three nodes' worth of stages, bf16, that differ in tp, ZeRO and recompute.
function exports.mixed(changes)
  local function stage(node, indices, layers, strategy)
    return { island = "a", gpus = { { node, indices } }, layers = layers, strategy = strategy }
  end
  local low <const>, high <const> = { 0, 1, 2, 3 }, { 4, 5, 6, 7 }
  local spec <const> = {
    nodes = { { "a1", "a100-sxm4-80", 8 }, { "a2", "a100-sxm4-80", 8 } }, islands = { { "a", { "a1", "a2" } } },
    stages = {
      stage("a1", low, 8, { tp = 2, dp = 2, sp = true, zero = 3, recompute = { kind = "full", layers = 3 } }),
      stage("a1", high, 7, { tp = 4, sp = true }),
      stage("a2", low, 5, { dp = 4, zero = 2, recompute = { kind = "full", layers = 5 } }),
      stage("a2", high, 4, { tp = 2, dp = 2, sp = true, zero = 2 }),
    },
    global_batch = 64, microbatches = 16, training = { precision = "bf16", attention = "flash" },
  }
  for name, value in pairs(changes or {}) do spec[name] = value end
  return plans.make(spec)
end

--- The same, all stages alike.
function exports.alike(strategy, changes)
  local plan <const> = exports.mixed(changes)
  for _, stage in ipairs(plan.stages) do
    stage.strategy.recompute = { kind = "none" }
    stage.strategy.cp = 1
    for name, value in pairs(strategy) do stage.strategy[name] = value end
  end
  return plan
end

local llama8 <const> = { model = plans.model { layers = 32, hidden = 4096, heads = 32, ffn = 14336, vocab = 128256 } }

--- Llama 3 8B on the same GPUs.
function exports.llama(strategy)
  local spec <const> = { model = llama8.model }
  local plan <const> = exports.alike(strategy, spec)
  for s, count in ipairs { 9, 9, 8, 6 } do plan.stages[s].layers = count end
  local at = 0
  for s, stage in ipairs(plan.stages) do
    stage.first = at
    at = at + stage.layers + (s == 1 and 1 or 0) + (s == 4 and 1 or 0)
    stage.last = at
  end
  return plan
end

return exports
