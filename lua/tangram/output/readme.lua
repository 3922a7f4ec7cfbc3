--- The README of an exported folder: the plan in words.
local checks <const> = require "tangram.output.checks"
local units <const> = require "tangram.units"
local words <const> = require "tangram.report.words"

local readme <const> = {}

local function gpus_text(stage)
  return words.gpus { gpus = stage.hosts }
end

local function degrees(stage)
  local strategy <const> = { dp = stage.dp, tp = stage.tp, cp = stage.cp, ep = stage.ep, etp = stage.etp, zero = stage.zero }
  return words.strategy(strategy) .. (stage.sp and stage.tp > 1 and " sp" or "")
end

local function recompute(stage)
  local own <const> = stage.recompute
  return own.kind == "full" and ("%d of %d layers"):format(own.layers, stage.layers) or own.kind
end

local function layer_range(stage)
  if stage.layers == 0 then return "none" end
  return ("%d–%d"):format(stage.first_layer, stage.first_layer + stage.layers - 1)
end

local function memory(stage)
  local bytes <const> = stage.predicted.memory
  return ("%.1f of %.1f GiB"):format(bytes.total_bytes / 2 ^ 30, bytes.capacity_bytes / 2 ^ 30)
end

local function stage_table(launch, add)
  add "| stage | island | GPUs | ranks | layers | degrees | microbatch | recompute | forward + backward | memory |\n"
  add "| ---: | --- | --- | --- | --- | --- | ---: | --- | ---: | ---: |\n"
  for _, stage in ipairs(launch.stages) do
    add("| %d | %s | %s | %d–%d | %s%s%s | %s | %d | %s | %s | %s |\n", stage.index, stage.island, gpus_text(stage), stage.ranks.first,
      stage.ranks.last - 1, stage.has_embedding and "embedding, " or "", layer_range(stage), stage.has_head and ", head" or "",
      degrees(stage), stage.microbatch, recompute(stage),
      units.format_time(stage.predicted.forward_s + stage.predicted.backward_s), memory(stage))
  end
end

--- The most that a rank keeps of the plan's stages' order: who is the slowest, and by what.
local function slowest_line(launch, add)
  local slowest = launch.stages[1]
  local function work_s(stage) return stage.predicted.forward_s + stage.predicted.backward_s end
  for _, stage in ipairs(launch.stages) do
    if work_s(stage) > work_s(slowest) then slowest = stage end
  end
  add("\nStage %d on %s sets the pace: %s a microbatch.\n", slowest.index, slowest.island, units.format_time(work_s(slowest)))
end

local function memory_line(add)
  add "Memory is of a stage's fullest GPU: weights, gradients, optimizer, activations of the microbatches in flight, transient,\n"
  add "buffers and context, against what the margin leaves.\n"
end

local function left_out(launch, add)
  for _, one in ipairs(launch.idle) do
    add("- idle: GPU%s %s of %s\n", #one.indices == 1 and "" or "s", table.concat(one.indices, ", "), one.node)
  end
  for _, island in ipairs(launch.dropped) do
    add("- left out: %s (%s): %s\n", island.name, table.concat(island.nodes, ", "), island.reason)
  end
end

--- The padded vocabulary by tp of the end stages, for checkpoints that move between plans.
local function vocabulary_line(launch, multiple, add)
  local first <const>, last <const> = launch.stages[1], launch.stages[#launch.stages]
  add("Vocabulary %d, padded to %d at tp %d of stage 1", launch.model.vocab, checks.padded_vocabulary(launch, first.tp, multiple),
    first.tp)
  if last ~= first then add(" and to %d at tp %d of stage %d", checks.padded_vocabulary(launch, last.tp, multiple), last.tp, last.index) end
  add(" (a multiple of %d times tp).\n", multiple)
end

---@param exporter table
---@param launch table
---@param options table checked
---@param result { findings: table[], notes: string[] }
---@return string markdown
function readme.of(exporter, launch, options, result)
  local out <const> = {}
  local function add(s, ...) out[#out + 1] = select("#", ...) > 0 and s:format(...) or s end
  add("# %s for %s\n\n", launch.name, exporter.name)
  add("%d processes on %d node%s, in the order of the pipeline. %d stages, %d microbatches of %d samples (global batch %d), sequences\n"
    .. "of %d tokens, %s%s. Predicted: %s an iteration, %s tokens/s. Runtime version: %s.\n\n", launch.world, #launch.hosts,
    #launch.hosts == 1 and "" or "s", #launch.stages, launch.microbatches, launch.samples, launch.training.global_batch,
    launch.training.seq_len, launch.precision, launch.precision == "fp16" and " with loss scaling" or "",
    units.format_time(launch.time_s), words.thousands(launch.tokens_per_s // 1), options.version)
  add("## Launch\n\n%s\n## The plan\n\n", exporter.start(launch, options))
  stage_table(launch, add)
  slowest_line(launch, add)
  memory_line(add)
  if exporter.vocab_multiple then vocabulary_line(launch, exporter.vocab_multiple(launch), add) end
  if #launch.idle + #launch.dropped > 0 then
    add "\n## Not in use\n\n"
    left_out(launch, add)
  end
  if #result.findings + #result.notes + #launch.warnings > 0 then add "\n## Mind\n\n" end
  for _, finding in ipairs(result.findings) do add("- %s: %s\n", finding.code, finding.text) end
  for _, note in ipairs(result.notes) do add("- %s\n", note) end
  for _, note in ipairs(launch.warnings) do add("- %s\n", note) end
  return table.concat(out)
end

return readme
