--- Rows of data/measured/runs.csv as inputs of a cost model, and their closed-form time (1F1B: the stages' sum and B - 1 times
--- the slowest; interleaved: B times the slowest and (p - 1)/v times the mean) and memory of the fullest stage.
local pricing <const> = require "tests.spec.pricing"
local support <const> = require "tests.spec.support"

local measured <const> = {}

local h100 <const> = {
  flops = 989.4e12, arch = "Hopper", memory = 3352e9, fp8 = 1978.9e12, link = 450e9, network = 400e9, network_share = 1,
}

local function with(base, fields)
  local copy <const> = {}
  for name, value in pairs(base) do copy[name] = value end
  for name, value in pairs(fields) do copy[name] = value end
  return copy
end

--- GPU, links and software by source. `shares` of the node's network (bytes/s each way) that the source's runs reached were
--- fitted together with the constants.
local a100 <const> = { flops = 312e12, arch = "Ampere", memory = 2039e9, link = 300e9, attention = "unfused", dropout = true }
local sources <const> = {
  vtrain_multi = with(a100, { network = 100e9, network_share = 1, dp_share = 0.352 }),
  bigscience_a100 = with(a100, { -- memory is printed with the allocator's reserve
    network = 50e9, network_share = 0.339, dp_share = 0.103, constants = { context_bytes = 14.1 * 2 ^ 30 },
  }),
  megatron_sc21 = with(a100, { network = 200e9, network_share = 0.552, dp_share = 0.276 }),
  korthikanti22 = with(a100, { network = 200e9, network_share = 0.552, dp_share = 0.276 }),
  llmfoundry = {
    ["A100-SXM4-40GB"] = with(a100, { memory = 1555e9, network = 200e9, network_share = 0.914, attention = "flash", dropout = false }),
    ["A100-SXM4-80GB"] = with(a100, { network = 200e9, network_share = 0.914, attention = "flash", dropout = false }),
    ["H100-SXM5-80GB"] = with(h100, { network_share = 0.6, stack = "fsdp" }),
  },
  mbridge_h100 = with(h100, { gated = true, sp = true }),
  dlperf_megatron_v100 = {
    flops = 125e12, arch = "Volta", memory = 900e9, link = 150e9, network = 12.5e9, network_share = 1, dp_share = 0.609, dropout = true,
  },
  simumax_b200 = {
    flops = 2250e12, arch = "Blackwell", memory = 8000e9, link = 900e9, network = 1, gated = true, gradient_bytes = 4,
    constants = { reduce_overlaps = 0 },
  },
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

--- DeepSeek's published shapes: latent attention; shared experts; one leading dense layer in the shortened models.
local function add_deepseek(m, row)
  m.mla = { q_lora_rank = 1536, kv_lora_rank = 512, qk_nope_head_dim = 128, qk_rope_head_dim = 64, v_head_dim = 128 }
  m.head_dim, m.shared_expert_ffn = nil, row.moe_ffn * (row.model:find "v2" and 2 or 1)
  m.layer_mlp = { "dense" }
  for i = 2, row.layers do m.layer_mlp[i] = "moe" end
end

local function model_of(row, source)
  local heads <const> = row.heads or 64
  local m <const> = {
    family = source.gated and "llama" or "gpt2", hidden = row.hidden, layers = row.layers, heads = heads, kv_heads = row.kv_heads,
    head_dim = row.head_dim or row.hidden // heads, ffn = row.ffn, vocab = row.vocab or 51200, experts = row.n_experts,
    experts_per_token = row.topk, expert_ffn = row.moe_ffn,
  }
  if row.model:find "^deepseek" then add_deepseek(m, row) end
  return m
end

local function recompute_of(row)
  local text <const> = row.recompute or "none"
  return text:find "^full" and "full" or text:find "^selective" and "selective" or "none"
end

--- Seconds of a boundary transfer in one direction, between stages of `gpus` GPUs.
local function transfer_s(row, source, gpus, sp)
  local bytes <const> = 2 * row.mbs * row.seq / row.cp * row.hidden / ((row.vpp > 1 or sp) and row.tp or 1)
  if row.n_gpus <= row.gpus_per_node then return bytes / (source.link * 0.95) + 20e-6 end
  return bytes / (source.network * source.network_share / math.min(row.gpus_per_node, gpus)) + 50e-6
end

local function source_of(row)
  local source <const> = sources[row.source_key]
  return source and (source.flops and source or source[row.gpu])
end

--- Island, context, cost model and strategy of a row; nil for a source that is not described here.
local function inputs(row)
  local source <const> = source_of(row)
  if not source then return nil end
  local gpus <const> = row.tp * row.dp * row.cp
  local on <const> = pricing.island({
    gpus = math.max(gpus, row.gpus_per_node), gpus_per_node = row.gpus_per_node, compute_flops = source.flops,
    intra = { { 2, source.link } }, inter = { rates = { { 1, source.network } }, latency_s = 50e-6 },
  }, { arch = source.arch, memory_bytes_per_s = source.memory, link_bytes_per_s = source.link, fp8_flops = source.fp8 })
  local ctx <const> = pricing.context(model_of(row, source), {
    global_batch = row.gbs, seq_len = row.seq, attention = source.attention, dropout = source.dropout or false,
    precision = row.precision:find "fp8" and "fp8" or "bf16", gradient_bytes = source.gradient_bytes or 2,
  }, on, row.gbs // (row.mbs * row.dp))
  local constants <const> = with(source.constants or {}, { network_share = source.network_share, dp_network_share = source.dp_share })
  local cost <const> = pricing.wrap("lua/cost/analytic.lua", { stack = source.stack, network = "nominal", constants = constants })
  local sp = row.seq_par == 1
  if row.seq_par == nil then sp = source.sp or false end
  return on, ctx, cost, {
    dp = row.dp, tp = row.tp, cp = row.cp, ep = row.ep, zero = tonumber(row.zero) or (source.gated and 1 or 0),
    recompute = recompute_of(row), sp = sp and row.tp > 1,
  }, source
end

--- The row's stages, front first.
local function stages_of(row)
  local on <const>, ctx <const>, cost <const>, strategy <const>, source <const> = inputs(row)
  if not on then return nil end
  local stages <const>, first = {}, 1
  for i = 1, row.pp do
    local layers <const> = row.layers // row.pp + (i <= row.layers % row.pp and 1 or 0)
    local last <const> = first + layers - 1 + (i == 1 and 1 or 0) + (i == row.pp and 1 or 0)
    stages[i] = cost.stage(pricing.run(ctx, first, last), on, strategy, ctx)
    first = last + 1
  end
  return stages, transfer_s(row, source, strategy.tp * strategy.dp * strategy.cp, strategy.sp), ctx.microbatches
end

--- Predicted seconds of one iteration and bytes of the fullest GPU; nil for a source that is not described here.
---@return number? seconds, number? bytes
function measured.predict(row)
  local stages <const>, link_s <const>, microbatches <const> = stages_of(row)
  if not stages then return nil end
  local total_s, worst_s, sync_s, bytes = 0, 0, 0, 0
  for i, stage in ipairs(stages) do
    local neighbours <const> = (i > 1 and 1 or 0) + (i < row.pp and 1 or 0)
    local stage_s <const> = stage.forward_s + stage.backward_s + row.vpp * neighbours * link_s
    total_s, worst_s, sync_s = total_s + stage_s, math.max(worst_s, stage_s), math.max(sync_s, stage.sync_s)
    local inflight <const> = math.min(row.pp - i + 1, microbatches) * stage.inflight_bytes
    bytes = math.max(bytes, stage.static_bytes + stage.transient_bytes + inflight)
  end
  if row.vpp > 1 then return microbatches * worst_s + (row.pp - 1) / row.vpp * total_s / row.pp + sync_s, bytes end
  return total_s + (microbatches - 1) * worst_s + sync_s, bytes
end

return measured
