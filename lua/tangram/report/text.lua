--- A plan for the terminal: islands and why, stages with their place, strategy, time and memory, what was searched, what
--- was left out.
local fields <const> = require "tangram.report.fields"
local grid <const> = require "tangram.report.grid"
local machines <const> = require "tangram.report.machines"
local sorted_keys <const> = require "tangram.sorted_keys"
local units <const> = require "tangram.units"
local words <const> = require "tangram.report.words"

local text <const> = {}
local APART_SHOWN <const> = 10 -- pairs of islands; 5 unlike islands have as many

local function stage_rows(plan)
  local rows <const> = { { "stage", "island", "GPUs", "layers", "strategy", "recompute", "forward", "backward", "sync", "send",
    "memory", "" } }
  for i, stage in ipairs(plan.stages) do
    local memory <const> = stage.memory
    rows[#rows + 1] = {
      ("%d"):format(i), stage.island, words.gpus(stage), words.layers(stage), words.strategy(stage.strategy),
      words.recompute(stage), units.format_time(stage.forward_s),
      units.format_time(stage.backward_s), units.format_time(stage.sync_s),
      math.type(stage.transfer_s) and units.format_time(stage.transfer_s) or "-",
      ("%.1f of %.1f GiB"):format(memory.total_bytes / 2 ^ 30, memory.capacity_bytes / 2 ^ 30),
      ("%3.0f %%"):format(100 * memory.total_bytes / memory.capacity_bytes),
    }
  end
  return rows
end

local function precision_text(training) return training.precision .. (training.precision == "fp16" and " with loss scaling" or "") end

local function headline(plan)
  local training <const> = plan.training
  local samples <const> = training.global_batch // plan.microbatches
  return ("%s: %s an iteration, %s tokens/s, %.1f %% of the GPUs' peak; %d microbatch%s of %d sample%s; %s\n"):format(
    plan.model.name, units.format_time(plan.time_s), words.thousands(plan.tokens_per_s // 1), 100 * plan.model_flops_utilisation,
    plan.microbatches, plan.microbatches == 1 and "" or "es", samples, samples == 1 and "" or "s", words.proof(plan))
end

local function island_rows(plan)
  local rows <const> = { { "island", "nodes", "GPUs", "used" } }
  local find <const> = machines.finder(plan)
  for _, island in ipairs(plan.islands) do
    rows[#rows + 1] = {
      island.name .. (island.merged and " (merged)" or ""), table.concat(island.nodes, " "),
      machines.text(find(island.nodes[1])),
      island.used and ((island.idle or 0) > 0 and ("yes, %d idle"):format(island.idle) or "yes") or "no",
    }
  end
  return rows
end

local function pairs_line(counts)
  local dropped <const> = {}
  for _, name in ipairs(sorted_keys(counts.pruned)) do
    dropped[#dropped + 1] = ("%s %s"):format(words.thousands(counts.pruned[name]), name)
  end
  local saved <const> = counts.saved and (" (%s saved by plans that fit at several positions)"):format(words.thousands(counts.saved)) or ""
  return ("%s pairs of slice and island; dropped: %s; %s queries of the parallelizer%s%s\n"):format(words.thousands(counts.all),
    #dropped > 0 and table.concat(dropped, ", ") or "none", words.thousands(counts.queried), saved,
    #counts.failed > 0 and (", %d failed"):format(#counts.failed) or "")
end

--- The report.
---@param plan table tangram.plan/1
---@return string
function text.plan(plan)
  plan = fields.check(plan)
  local out <const> = {}
  local function add(s, ...) out[#out + 1] = select("#", ...) > 0 and s:format(...) or s end
  add(headline(plan))
  add("%s, sequences of %d tokens, global batch %d, %s; parallelizer %s, cost model %s%s\n\n", plan.model.name,
    plan.training.seq_len, plan.training.global_batch, precision_text(plan.training), plan.parallelizer.name, plan.cost.name,
    words.target(plan))
  add(grid.render(island_rows(plan)))
  local apart <const> = words.apart(plan)
  for i = 1, math.min(#apart, APART_SHOWN) do add("  %s\n", apart[i]) end
  if #apart > APART_SHOWN then add("  … and %d more pairs apart: tangram islands --cluster PLAN\n", #apart - APART_SHOWN) end
  add "\n"
  add(grid.render(stage_rows(plan), { right = { 1, 7, 8, 9, 10, 11, 12 } }))
  add "\n"
  for _, island in ipairs(plan.islands) do
    if not island.used then add("left out %s: %s\n", island.name, island.reason or "no reason is given") end
  end
  add(pairs_line(plan.pairs))
  for i = 1, math.min(#plan.pairs.failed, 5) do
    local one <const> = plan.pairs.failed[i]
    add("failed: atoms %d..%d on %s: %s\n", one.slice[1], one.slice[2] - 1, one.island, one.reason)
  end
  if #plan.pairs.failed > 5 then add("… and %d more failed, in the JSON\n", #plan.pairs.failed - 5) end
  for i, row in ipairs(#plan.top > 1 and plan.top or {}) do
    add("%2d. %s with %d microbatches, %d stages\n", i, units.format_time(row.time_s), row.microbatches, row.stages)
  end
  for _, warning in ipairs(plan.warnings) do add("note: %s\n", warning) end
  return table.concat(out)
end

return text
