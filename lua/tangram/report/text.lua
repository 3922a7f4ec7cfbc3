--- A plan for the terminal: islands and why, stages with their place, strategy, time and memory, what was searched, what
--- was left out.
local core <const> = require "tangram.core"
local grid <const> = require "tangram.report.grid"
local islands <const> = require "tangram.islands"
local units <const> = require "tangram.units"

local text <const> = {}

local function thousands(n)
  local digits = ("%d"):format(n)
  while true do
    local more <const>, count <const> = digits:gsub("^(%d+)(%d%d%d)", "%1,%2")
    digits = more
    if count == 0 then return digits end
  end
end

--- 0,1,2,3,6 as 0-3,6
local function ranges(indices)
  local words, from = {}, 1
  for i = 1, #indices do
    if indices[i + 1] ~= indices[i] + 1 then
      words[#words + 1] = from == i and ("%d"):format(indices[i]) or ("%d-%d"):format(indices[from], indices[i])
      from = i + 1
    end
  end
  return table.concat(words, ",")
end

local function gpus_text(stage)
  local words <const> = {}
  for i, one in ipairs(stage.gpus) do words[i] = one.node .. ":" .. ranges(one.indices) end
  if #words > 3 then return ("%s … %s"):format(words[1], words[#words]) end
  return table.concat(words, " ")
end

local function recompute_text(recompute, layers)
  if recompute.kind ~= "full" then return recompute.kind end
  if not recompute.layers or recompute.layers >= layers then return "full" end
  return recompute.layers == 0 and "none" or ("full on %d of %d"):format(recompute.layers, layers)
end

--- dp2 tp4, and what else is not 1 or off.
local function strategy_text(s)
  local words <const> = { ("dp%d tp%d"):format(s.dp, s.tp) }
  for _, name in ipairs { "cp", "ep", "etp" } do
    if s[name] and s[name] > 1 then words[#words + 1] = name .. s[name] end
  end
  if s.fsep then words[#words + 1] = "fsep" end
  if (s.zero or 0) > 0 then words[#words + 1] = "zero" .. s.zero end
  if s.offload and s.offload ~= "none" then words[#words + 1] = "offload " .. s.offload end
  return table.concat(words, " ")
end

local function layers_text(stage)
  return ("%s%d%s"):format(stage.has_embedding and "E+" or "", stage.layers, stage.has_head and "+H" or "")
end

local function stage_rows(plan)
  local rows <const> = { { "stage", "island", "GPUs", "layers", "strategy", "recompute", "forward", "backward", "sync", "send",
    "memory", "" } }
  for i, stage in ipairs(plan.stages) do
    local memory <const> = stage.memory
    rows[#rows + 1] = {
      ("%d"):format(i), stage.island, gpus_text(stage), layers_text(stage), strategy_text(stage.strategy),
      recompute_text(stage.strategy.recompute, stage.layers), units.format_time(stage.forward_s),
      units.format_time(stage.backward_s), units.format_time(stage.sync_s),
      stage.transfer_s ~= core.null and units.format_time(stage.transfer_s) or "-",
      ("%.1f of %.1f GiB"):format(memory.total_bytes / 2 ^ 30, memory.capacity_bytes / 2 ^ 30),
      ("%3.0f %%"):format(100 * memory.total_bytes / memory.capacity_bytes),
    }
  end
  return rows
end

local function precision_text(training) return training.precision .. (training.precision == "fp16" and " with loss scaling" or "") end

local function headline(plan)
  local training <const> = plan.training
  return ("%s: %s an iteration, %s tokens/s, %.1f %% of the GPUs' peak; %d microbatches of %d sample%s; %s\n"):format(
    plan.model.name, units.format_time(plan.time_s), thousands(plan.tokens_per_s // 1), 100 * plan.model_flops_utilisation,
    plan.microbatches, training.global_batch // plan.microbatches, training.global_batch == plan.microbatches and "" or "s",
    plan.stopped ~= core.null and ("stopped by " .. plan.stopped .. (", at most %.2f %% from the best"):format(100 * plan.gap))
    or plan.gap <= 1e-9 and "proved the best of the plans asked for"
    or ("proved within %.2f %% of the best of the plans asked for"):format(100 * plan.gap))
end

local function island_rows(plan)
  local rows <const> = { { "island", "nodes", "GPUs", "used" } }
  local nodes <const> = {}
  for _, node in ipairs(plan.cluster.nodes) do nodes[node.name] = node end
  for _, island in ipairs(plan.islands) do
    local first <const> = nodes[island.nodes[1]] or nodes[island.nodes[1]:match "^[^:]+"] or {}
    rows[#rows + 1] = {
      island.name .. (island.merged and " (merged)" or ""), table.concat(island.nodes, " "),
      ("%s × %s"):format(tostring(first.gpus or "?"), tostring(first.gpu or "?")),
      island.used and (island.idle > 0 and ("yes, %d idle"):format(island.idle) or "yes") or "no",
    }
  end
  return rows
end

local function sorted_names(t)
  local names <const> = {}
  for name in pairs(t) do names[#names + 1] = name end
  table.sort(names)
  return names
end

local function pairs_line(counts)
  local words <const> = {}
  for _, name in ipairs(sorted_names(counts.pruned)) do
    words[#words + 1] = ("%s %s"):format(thousands(counts.pruned[name]), name)
  end
  return ("%s pairs of slice and island; dropped: %s; %s queries of the parallelizer%s\n"):format(thousands(counts.all),
    #words > 0 and table.concat(words, ", ") or "none", thousands(counts.queried),
    #counts.failed > 0 and (", %d failed"):format(#counts.failed) or "")
end

--- Why islands are apart: one line for each two of them, by their first nodes.
local function apart_lines(plan)
  local group <const> = islands.group(plan.cluster, { apart = true })
  local first <const>, lines <const> = {}, {}
  for _, island in ipairs(plan.islands) do first[island.nodes[1]] = island.name end
  for _, pair in ipairs(group.apart) do
    local a <const>, b <const> = first[pair.nodes[1]], first[pair.nodes[2]]
    if a and b then lines[#lines + 1] = ("  %s and %s are apart: %s\n"):format(a, b, pair.why) end
  end
  return table.concat(lines)
end

--- The report.
---@param plan table tangram.plan/1
---@return string
function text.plan(plan)
  local out <const> = {}
  local function add(s, ...) out[#out + 1] = select("#", ...) > 0 and s:format(...) or s end
  add(headline(plan))
  add("%s, sequences of %d tokens, global batch %d, %s; parallelizer %s, cost model %s\n\n", plan.model.name,
    plan.training.seq_len, plan.training.global_batch, precision_text(plan.training), plan.parallelizer.name, plan.cost.name)
  add(grid.render(island_rows(plan)))
  add(apart_lines(plan))
  add "\n"
  add(grid.render(stage_rows(plan), { right = { 1, 7, 8, 9, 10, 11, 12 } }))
  add "\n"
  for _, island in ipairs(plan.islands) do
    if not island.used then add("left out %s: %s\n", island.name, island.reason) end
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
