--- What public sources of measured runs say outside their tables, or leave unsaid: software, defaults of its time, network.
--- Everything else is read from a row's own columns. `assume` stands in for columns that the source leaves empty.
local sources <const> = {}

local GIB <const> = 2 ^ 30

--- `partitioned`: ranks of tensor parallelism send a part each to the next stage (DeepSpeed's pipelines; Megatron-LM's scatter and
--- gather from 2021 on), not the whole.

--- GPT of 2019 to 2022 on Megatron: unfused attention, dropout.
local function megatron_gpt(fields)
  fields.attention, fields.dropout = fields.attention or "unfused", true
  return fields
end

--- Sailor's runs: no dropout (memory grows by one copy of the scores a sample), two FP32 copies beside weights and gradients.
local function fp32_deepspeed(fields)
  local constants <const> = { copy_bytes = 8, context_bytes = 4 * GIB, tp_backward_exposed = 1 } -- the last: its profiles' tp 1 to 8
  for name, value in pairs(fields.constants or {}) do constants[name] = value end
  fields.stack, fields.attention, fields.constants, fields.partitioned = "megatron-deepspeed", "unfused", constants, true
  return fields
end

--- Sailor's MIT nodes. Inside: all-reduces in its profiles of OPT-350M's layers, the time at tp n beyond an n-th of that at tp 1
--- (pairs of RTX 3090 have a bridge). Between nodes: the largest rates of its multizone_bandwidths_het.json. 11 GB: the Ti.
local by_pcie <const> = { [2] = 3.8e9, [4] = 4.6e9, [8] = 4.8e9 }
local mit_nodes <const> = {
  ["RTX-3090"] = { like = "rtx3090", intra = { [2] = 28e9, [4] = 4.75e9, [8] = 1.6e9 }, network_bytes_per_s = 0.116e9 },
  ["RTX-2080"] = { like = "rtx2080ti", intra = by_pcie, network_bytes_per_s = 2.86e9 },
  ["Titan-RTX"] = { like = "titan-rtx", intra = by_pcie, network_bytes_per_s = 2.86e9 },
}

local by_key <const> = {
  vtrain_multi = megatron_gpt { link = "ethernet-100", ports = 8, stack = "megatron-deepspeed", partitioned = true },
  vtrain_single = megatron_gpt { link = "ethernet-100", ports = 8, stack = "megatron-deepspeed", partitioned = true },
  bigscience_a100 = megatron_gpt { -- its messages fit whole ones better
    stack = "megatron-deepspeed", assume = { heads = 64 },
    constants = { context_bytes = 12.5 * GIB }, -- what is printed counts the allocator's reserve
  },
  megatron_sc21 = megatron_gpt { partitioned = true }, korthikanti22 = megatron_gpt { partitioned = true },
  megatron_2020 = megatron_gpt { -- gives the printed FLOP/s to 0.1 %; 1 and 128 replicas take nearly the same time, so it overlaps
    assume = { seq = 1024, vocab = 51200, recompute = "full" }, constants = { reduce_overlaps = 1 },
  },
  dlperf_megatron_v100 = megatron_gpt {},
  dlperf_oneflow_v100 = megatron_gpt { stack = "oneflow", constants = { network_share = 1, dp_network_share = 0.66 } },
  amp_t4 = megatron_gpt { stack = "megatron-deepspeed", partitioned = true, assume = { recompute = "full" } },
  amp_het = megatron_gpt { stack = "megatron-deepspeed", partitioned = true, assume = { recompute = "full" }, link = "ethernet-10" },
  sailor_gh200 = fp32_deepspeed { -- as published; a layer's activations in Sailor's profile are those of 20 heads, not of 32
    shapes = { ["GPT-Neo-2.7B"] = { vocab = 50257, heads = 20, head_dim = 128, kv_heads = 20 } },
  },
  sailor_mit = fp32_deepspeed {
    p2p = "blocking", nodes = mit_nodes, constants = { network_share = 1, dp_network_share = 1 },
  },
  alpa = megatron_gpt { partitioned = true, assume = { zero = "0" } },
  aceso = megatron_gpt { -- rates of its p2p files at the largest messages
    nodes = { ["V100-SXM2-32GB"] = { like = "v100-sxm2-32", intra = 45.6e9, network_bytes_per_s = 5.84e9 } },
    constants = { network_share = 1, dp_network_share = 1 },
  },
  galvatron_laer = { -- rates inside and between nodes as its own cost model has them
    nodes = { ["A100-SXM4-80GB"] = { like = "a100-sxm4-80", intra = 216e9, network_bytes_per_s = 89e9 } },
    constants = { network_share = 1, dp_network_share = 1 },
  },
  simumax_b200 = { gradient_bytes = 4, constants = { reduce_overlaps = 0 } }, -- no overlap by design, fp32 gradients
  mbridge_h100 = { stack = "megatron" }, -- its FSDP is Megatron's too
  nemo_longseq = { assume = { mbs = 1 } },
  mcore_h100 = { assume = { mbs = 1 }, attention_square = true }, -- its FLOP/s count the whole square,
}

--- What is known of a row's source; an empty record for one that is not listed.
---@param row table
---@return table { stack?, attention?, attention_square?, dropout?, shapes?, link?, ports?, gradient_bytes?, assume?, constants?,
---  nodes?, p2p?, partitioned? }
function sources.of(row) return by_key[row.source_key or ""] or {} end

return sources
