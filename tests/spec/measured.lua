--- Rows of data/measured/runs.csv as inputs of a cost model, and their closed-form time (calibration: T = sum of the stages
--- and (B - 1) of the slowest; interleaved T = B of the slowest and (p - 1)/v of the mean).
local pricing <const> = require "tests.spec.pricing"
local support <const> = require "tests.spec.support"

local measured <const> = {}

--- Node bandwidth (bytes/s each way) and the shares of it that each source's runs reached: fitted with the constants.
local networks <const> = {
  vtrain_multi = { 100e9, 1, 0.352 }, bigscience_a100 = { 50e9, 0.339, 0.103 }, megatron_sc21 = { 200e9, 0.552, 0.276 },
  korthikanti22 = { 200e9, 0.552, 0.276 },
}

--- Splits one CSV line; commas inside quotes become semicolons.
local function split(line)
  local fields <const> = {}
  local plain <const> = line:gsub('"([^"]*)"', function(quoted) return (quoted:gsub(",", ";")) end)
  for field in (plain .. ","):gmatch "([^,]*)," do fields[#fields + 1] = field end
  return fields
end

---@return table[]? rows by column name; nil without the data
function measured.rows()
  local path <const> = support.shared "data/measured/runs.csv"
  if not path then return nil end
  local names
  local rows <const> = {}
  for line in io.lines(path) do
    local fields <const> = split(line)
    if not names then
      names = fields
    else
      local row <const> = {}
      for i, name in ipairs(names) do
        if fields[i] ~= "" then row[name] = tonumber(fields[i]) or fields[i] end
      end
      rows[#rows + 1] = row
    end
  end
  return rows
end

local function model_of(row)
  local heads <const> = row.heads or 64
  return {
    family = "gpt2", hidden = row.hidden, layers = row.layers, heads = heads, head_dim = row.head_dim or row.hidden // heads,
    ffn = row.ffn, vocab = row.vocab or 51200, positions = row.seq,
  }
end

local function recompute_of(row)
  local text <const> = row.recompute or "none"
  return text:find "^full" and "full" or text:find "^selective" and "selective" or "none"
end

--- Seconds of a boundary transfer in one direction, between stages of `gpus` GPUs.
local function transfer_s(row, network, gpus)
  local bytes <const> = 2 * row.mbs * row.seq * row.hidden / ((row.vpp > 1 or row.seq_par == 1) and row.tp or 1)
  if row.n_gpus <= row.gpus_per_node then return bytes / (300e9 * 0.95) + 20e-6 end
  return bytes / (network[1] * network[2] / math.min(row.gpus_per_node, gpus)) + 50e-6
end

--- Predicted seconds of one iteration of an A100 row of Megatron's kind.
function measured.predict(row)
  local network <const> = networks[row.source_key]
  local gpus <const> = row.tp * row.dp
  local on <const> = pricing.island({
    gpus = math.max(gpus, row.gpus_per_node), gpus_per_node = row.gpus_per_node,
    inter = { rates = { { 1, network[1] } }, latency_s = 50e-6 },
  })
  local microbatches <const> = row.gbs // (row.mbs * row.dp)
  local ctx <const> = pricing.context(model_of(row), {
    global_batch = row.gbs, seq_len = row.seq, attention = "unfused", precision = "fp16", dropout = true,
  }, on, microbatches)
  local cost <const> = pricing.wrap("lua/cost/analytic.lua", {
    constants = { network_share = network[2], dp_network_share = network[3] },
  })
  local strategy <const> = { dp = row.dp, tp = row.tp, zero = row.zero or 0, recompute = recompute_of(row), sp = row.seq_par == 1 }
  local total_s, worst_s, sync_s, first = 0, 0, 0, 1
  for i = 1, row.pp do
    local layers <const> = row.layers // row.pp + (i <= row.layers % row.pp and 1 or 0)
    local last <const> = first + layers - 1 + (i == 1 and 1 or 0) + (i == row.pp and 1 or 0)
    local stage <const> = cost.stage(pricing.run(ctx, first, last), on, strategy, ctx)
    local neighbours <const> = (i > 1 and 1 or 0) + (i < row.pp and 1 or 0)
    local stage_s <const> = stage.forward_s + stage.backward_s + row.vpp * neighbours * transfer_s(row, network, gpus)
    total_s, worst_s, sync_s, first = total_s + stage_s, math.max(worst_s, stage_s), math.max(sync_s, stage.sync_s), last + 1
  end
  if row.vpp > 1 then return microbatches * worst_s + (row.pp - 1) / row.vpp * total_s / row.pp + sync_s end
  return total_s + (microbatches - 1) * worst_s + sync_s
end

return measured
