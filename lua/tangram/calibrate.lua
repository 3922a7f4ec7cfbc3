--- Constants of a user's own GPUs from measured runs (tangram calibrate), fitted as the catalogue's are.
local constants <const> = require "tangram.catalog.constants"
local fit <const> = require "tangram.measured.fit"
local loader <const> = require "tangram.loader"
local predict <const> = require "tangram.measured.predict"
local rows <const> = require "tangram.measured.rows"
local setup <const> = require "tangram.measured.setup"
local summary <const> = require "tangram.measured.summary"
local validate <const> = require "tangram.validate"

local calibrate <const> = {}

--- What may be fitted: spread of its logarithm around the catalogue's value, and the largest value that makes sense.
local UNKNOWNS <const> = {
  { "gemm_efficiency", 0.25, 0.95 }, { "memory_efficiency", 0.25, 0.95 }, { "flash_efficiency", 0.25, 0.9 }, { "launch_s", 0.7 },
  { "tp_link_share", 0.4, 1 }, { "pcie_link_share", 0.7, 1 }, { "tp_latency_s", 0.7 }, { "dp_link_share", 0.4, 1 },
  { "network_share", 0.4, 1 }, { "dp_network_share", 0.4, 1 }, { "step_s", 0.7 }, { "fp8_gain", 0.15, 2 }, { "fsdp_exposed", 0.5, 1 },
  { "cp_exposed", 0.7, 1 }, { "ep_network_share", 0.5 }, { "ep_latency_s", 0.7 }, { "recompute_share", 0.1, 1 },
}

--- The only GPU type of a row's ranks, or nil.
local function only_type(s)
  for _, device in ipairs(s.ranks) do
    if device.key ~= s.ranks[1].key then return nil end
  end
  return s.ranks[1]
end

local function errors_of(runs, plugin)
  local list <const> = {}
  for i, s in ipairs(runs.setups) do
    list[i] = { id = runs.ids[i], predicted = predict.of(s, plugin, "overlapped").seconds, measured = runs.measured[i] }
  end
  return summary.of(list)
end

--- Bytes that nothing else explains, so that no run takes more than 5 % beyond its prediction: nil without measured memory.
local function context_bytes(runs, plugin, now)
  local more
  for i, s in ipairs(runs.setups) do
    if runs.bytes[i] then
      local lack <const> = 0.95 * runs.bytes[i] - predict.of(s, plugin, "overlapped").bytes
      more = math.max(more or -math.huge, lack)
    end
  end
  return more and math.max(0, now + more)
end

local function fit_type(runs, device, plugin)
  local start <const>, unknowns <const> = {}, {}
  local moe <const> = runs.setups[1].model.experts > 0
  for _, one in ipairs(constants.list(device, { moe = moe, stack = runs.setups[1].stack })) do start[one.name] = one.value end
  local network <const> = runs.setups[1].network
  start.network_share = network.network_share or start.network_share
  start.dp_network_share = network.dp_network_share or start.dp_network_share
  for _, s in ipairs(runs.setups) do s.network.network_share, s.network.dp_network_share = nil, nil end
  for _, one in ipairs(UNKNOWNS) do
    unknowns[#unknowns + 1] = { name = one[1], spread = one[2], max = one[3] and math.max(one[3], start[one[1]]), start = start[one[1]] }
  end
  local function fitted(list)
    return (fit.run { setups = runs.setups, measured = runs.measured, unknowns = list, plugin = plugin, p2p = "overlapped" })
  end
  local told <const>, list <const> = {}, {}
  for i, one in ipairs(fitted(unknowns)) do
    if one.determined then told[#told + 1] = unknowns[i] end
  end
  for i, one in ipairs(fitted(told)) do -- the rest stays the catalogue's
    list[i] = { name = told[i].name, value = one.value, start = told[i].start, spread = one.spread }
  end
  local context <const> = context_bytes(runs, plugin, start.context_bytes)
  if context then list[#list + 1] = { name = "context_bytes", value = context, start = start.context_bytes } end
  return list
end

--- Fits each GPU type of a CSV's runs, those on several types left out.
---@param text string
---@param where string the file, for messages
---@return table[] types { gpu, runs, before = tangram.Errors, after = tangram.Errors, constants = { name, value, start, spread? }[] }
---@return string[] notes rows that are left out, and why
function calibrate.run(text, where)
  local plugin <const> = loader.load("cost", "analytic")
  local list <const>, notes <const> = rows.parse(text, where)
  local names <const>, by_gpu <const> = {}, {}
  for _, row in ipairs(list) do
    local result <const> = validate.row(row, plugin)
    local device <const> = not result.reason and only_type(setup.of(row, {}))
    if result.reason or result.suspect or not result.measured_s or not device then
      notes[#notes + 1] = ("%s: %s"):format(row.id, result.reason or result.suspect or not device and "several GPU types"
        or "no measured time")
    else
      local key <const> = device.key
      if not by_gpu[key] then
        names[#names + 1] = key
        by_gpu[key] = { setups = {}, measured = {}, bytes = {}, ids = {}, device = device }
      end
      local runs <const> = by_gpu[key]
      local n <const> = #runs.ids + 1
      runs.setups[n], runs.measured[n], runs.ids[n] = setup.of(row, {}), result.measured_s, row.id
      runs.bytes[n] = not result.suspect_memory and result.measured_bytes or false
    end
  end
  table.sort(names)
  local types <const> = {}
  for i, key in ipairs(names) do
    local runs <const> = by_gpu[key]
    local before <const> = errors_of(runs, plugin)
    local fitted <const> = fit_type(runs, runs.device, plugin)
    types[i] = { gpu = key, runs = #runs.ids, before = before, after = errors_of(runs, plugin), constants = fitted }
  end
  if not types[1] then error(where .. ": no run that can be predicted and has a time", 0) end
  return types, notes
end

--- The file: a Lua table as a cluster's `gpus` has it.
---@param types table[] of `calibrate.run`
---@param where string the runs' file
---@return string
function calibrate.encode(types, where)
  local lines <const> = {
    ("-- Constants of the analytic cost model, fitted by tangram calibrate on %s."):format(where:match "[^/]*$"),
    "-- For tangram plan and validate: --gpus THIS_FILE; in a recipe: cluster = { gpus = dofile \"THIS_FILE\", … }.",
    "return {",
  }
  for _, one in ipairs(types) do
    lines[#lines + 1] = ("  [%q] = { -- %d runs, %.1f %% off on average; %.1f %% with the catalogue's constants"):format(one.gpu, one.runs,
      100 * one.after.mape, 100 * one.before.mape)
    lines[#lines + 1] = "    constants = {"
    for _, constant in ipairs(one.constants) do
      lines[#lines + 1] = ("      %s = %.4g, -- %.4g before%s"):format(constant.name, constant.value, constant.start,
        constant.spread and ("; told to within a factor of %.2f"):format(math.exp(constant.spread)) or "")
    end
    lines[#lines + 1] = "    },"
    lines[#lines + 1] = "  },"
  end
  lines[#lines + 1] = "}"
  return table.concat(lines, "\n") .. "\n"
end

return calibrate
