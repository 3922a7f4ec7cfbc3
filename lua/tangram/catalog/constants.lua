--- What the analytic cost model needs beyond datasheets: efficiencies, launch times, shares of links. Each value says where
--- it is from: `fitted` on measured runs (the set's source names them), or `default`: carried over, not determined by data.
---
--- Shares of links turn nominal figures into what collectives reach: `*_link_share` where the rate inside a node is the
--- datasheet's, `*_network_share` under the model's option `network = "nominal"`. Other rates are taken as reached, by all but the
--- reductions at the end of a step: those reach dp_network_share / network_share of them.
local core <const> = require "tangram.core"

local constants <const> = {}

--- Software whose runs were fitted apart from each other.
constants.stacks = { "megatron", "megatron-deepspeed", "fsdp", "oneflow", "alpa" }

local GIB <const> = 2 ^ 30
local UNDETERMINED <const> = "carried over, not determined by data"

--- Every constant: name, unit, the value where no set of the GPU's kind has one, and what that was fitted on, if it was.
local known <const> = {
  { "gemm_efficiency", "", 0.8 }, -- of the peak that large matrix products reach, apart from their bytes
  { "gemm_backward_factor", "", 1.16, "all runs together" }, -- time of a backward product over a forward one
  { "gemm_byte_weight", "", 0.7 }, -- share of a product's bytes that is not hidden behind its arithmetic
  { "fp8_gain", "", 1.56 }, -- speed of FP8 products over 16-bit ones
  { "flash_efficiency", "", 0.439 }, -- of the peak that fused attention reaches forward
  { "flash_backward_factor", "", 1.6 }, -- backward over forward of fused attention, beyond the 2.5 of its arithmetic
  { "unfused_share", "", 0.9 }, -- efficiency of unfused attention's products over gemm_efficiency
  { "memory_efficiency", "", 0.65 }, -- of the memory bandwidth that element-wise operators reach
  { "kernel_s", "s", 2e-6 }, -- a kernel's fixed time
  { "launch_s", "s", 1e-3 }, -- least time of a layer and pass: the host's launches
  { "launch_rank_s", "s", 30e-6 }, -- the same, more for each further rank of tensor parallelism
  { "tp_link_share", "", 0.7 }, -- of the link inside a node, for tensor parallelism and all-to-all
  { "pcie_link_share", "", 0.29, "37 T4 runs of AMP" }, -- of PCIe, where it is all that links a node's GPUs
  { "tp_latency_s", "s", 15e-6 }, -- of an all-reduce, times log2 of the ranks
  { "tp_network_share", "", 1 }, -- of the network, on top of network_share, where tensor parallelism leaves the node
  { "tp_backward_exposed", "", 0.15 }, -- of the backward all-reduces that weight gradients do not hide (without sequence parallelism)
  { "dp_link_share", "", 0.4 }, -- of the link inside a node, for the gradients' reduction
  { "dp_network_share", "", 0.28 }, -- of the network, for the gradients' reduction at the end of a step
  { "network_share", "", 0.8 }, -- of the network, for all else and for reductions that overlap
  { "dp_latency_s", "s", 50e-6 }, -- of the gradients' reduction, times log2 of the ranks
  { "reduce_overlaps", "", 0 }, -- 1: the reduction hides behind the last microbatch's backward
  { "fsdp_exposed", "", 1 }, -- of ZeRO-2/3 traffic inside a microbatch that compute does not hide, at least
  { "cp_exposed", "", 0.1 }, -- of the ring exchange of keys and values that attention does not hide, at least
  { "ep_network_share", "", 1 }, -- time of an all-to-all between nodes over that of its bytes
  { "ep_latency_s", "s", 58e-6 }, -- of an all-to-all
  { "recompute_share", "", 1 }, -- time of a recomputed forward over the first one
  { "step_s", "s", 1e-3 }, -- fixed time of an optimizer step
  { "optimizer_traffic", "bytes", 30 }, -- read and written per parameter in an optimizer step
  { "logit_bytes", "bytes", 8 }, -- per logit at the head's peak: 16-bit and fp32 copies
  { "copy_bytes", "bytes", 0 }, -- per parameter, of further copies that the software holds whole on each replica
  { "context_bytes", "bytes", 1.16 * GIB }, -- context, libraries' workspaces, communicators
  { "host_bytes_per_s", "bytes/s", 1e11 }, -- memory bandwidth of a node's host, shared by its GPUs (offloaded optimizer)
}

local a100 <const> = {
  source = "422 A100 runs: vTrain, BigScience, llm-foundry, Narayanan et al. 2021, Korthikanti et al. 2022",
  fitted = {
    gemm_efficiency = 0.898, flash_efficiency = 0.443, flash_backward_factor = 1.6, memory_efficiency = 0.613, launch_s = 1.12e-3,
    launch_rank_s = 32e-6, tp_link_share = 0.826, tp_latency_s = 62e-6, dp_link_share = 0.85,
  },
}
--- Grouped products of experts, in BF16: below dense ones by a fifth.
local a100_moe <const> = {
  source = "48 A100 runs of LAER-MoE with experts, fully sharded and static", base = a100, fitted = { gemm_efficiency = 0.76 },
}
local h100_dense <const> = {
  source = "24 H100 runs of Megatron-Core: Megatron-Bridge, Megatron-LM, NeMo",
  fitted = {
    gemm_efficiency = 0.904, flash_efficiency = 0.715, flash_backward_factor = 1.085, memory_efficiency = 0.435, tp_link_share = 0.95,
    dp_link_share = 0.346, step_s = 3.2e-3, fp8_gain = 1.93, cp_exposed = 0.1, network_share = 1,
  },
  default = {
    launch_s = 0.3e-3, reduce_overlaps = 1, fsdp_exposed = 0.236, ep_network_share = 0.39, logit_bytes = 6, tp_backward_exposed = 0.5,
  },
}
--- Those runs are all FP8 and tell the product of efficiency and gain, 0.777. It is split so that grouped products in BF16 are to
--- dense ones as on A100; small experts gain little from FP8.
local h100_moe <const> = {
  source = "8 H100 runs of Megatron-Bridge with experts, FP8", base = h100_dense,
  fitted = {
    gemm_efficiency = 0.743, fp8_gain = 1.046, memory_efficiency = 0.411, kernel_s = 8.7e-6, ep_network_share = 0.39, ep_latency_s = 54e-6,
  },
}
local h100_fsdp <const> = {
  source = "59 H100 runs of llm-foundry (FSDP, a Triton flash kernel of 2023)",
  fitted = {
    gemm_efficiency = 0.733, flash_efficiency = 0.211, flash_backward_factor = 1.315, memory_efficiency = 0.605, dp_link_share = 0.337,
    recompute_share = 0.83, fsdp_exposed = 0.277, fp8_gain = 1.59, step_s = 4.2e-3,
  },
  default = { launch_s = 0.3e-3, reduce_overlaps = 1, network_share = 0.64, logit_bytes = 6 },
}
local gh200 <const> = {
  source = "25 GH200 runs of Sailor (Megatron-DeepSpeed in FP32)",
  fitted = {
    gemm_efficiency = 0.9, memory_efficiency = 0.522, launch_s = 1.35e-3, tp_link_share = 0.66, tp_latency_s = 145e-6, step_s = 0.65e-3,
  },
}
local b200 <const> = {
  source = "33 B200 runs of SimuMax (Megatron-Core)",
  fitted = {
    gemm_efficiency = 0.547, flash_efficiency = 0.521, flash_backward_factor = 1.464, memory_efficiency = 0.801, kernel_s = 18.4e-6,
    tp_link_share = 0.398, dp_link_share = 0.398, step_s = 3.9e-3, cp_exposed = 1, ep_latency_s = 82e-6, context_bytes = 1.16 * GIB,
  },
  default = { launch_s = 0.2e-3, reduce_overlaps = 1, fsdp_exposed = 0.236, logit_bytes = 6, ep_network_share = 1 },
}
local v100 <const> = {
  source = "17 V100 runs of Megatron-LM: DLPerf, NVIDIA 2020",
  fitted = {
    gemm_efficiency = 0.93, memory_efficiency = 0.601, tp_link_share = 0.543, tp_network_share = 0.594, dp_link_share = 0.212,
    network_share = 0.68, dp_network_share = 0.579,
  },
}
local v100_oneflow <const> = {
  source = "11 V100 runs of OneFlow: DLPerf", base = v100,
  fitted = {
    gemm_efficiency = 0.886, memory_efficiency = 0.747, tp_link_share = 0.445, tp_network_share = 0.515, dp_link_share = 0.454,
    network_share = 1, dp_network_share = 0.66,
  },
  default = { launch_s = 0.5e-3 },
}
local v100_deepspeed <const> = {
  source = "34 runs of AMP on V100 and T4 together (Megatron-DeepSpeed)", base = v100,
  fitted = { gemm_efficiency = 0.8, memory_efficiency = 0.77, launch_s = 2.4e-3, tp_link_share = 0.6, step_s = 9.5e-3 },
}
local v100_alpa <const> = {
  source = "24 V100 runs of Alpa (XLA)", base = v100,
  fitted = { gemm_efficiency = 0.784, memory_efficiency = 0.812, launch_s = 1.1e-3, tp_link_share = 0.56, dp_link_share = 0.381 },
}
local t4 <const> = {
  source = "37 T4 runs of AMP (Megatron-DeepSpeed)",
  fitted = {
    gemm_efficiency = 0.747, memory_efficiency = 0.404, launch_s = 2.89e-3, launch_rank_s = 30e-6, pcie_link_share = 0.249,
    step_s = 1.1e-3, network_share = 0.336, dp_network_share = 0.284,
  },
}
local geforce_turing <const> = {
  source = "Sailor's profiles of OPT-350M's layers on Titan RTX and RTX 2080 Ti (FP32)", base = t4,
  fitted = { gemm_efficiency = 0.93, memory_efficiency = 0.65, launch_s = 1.4e-3 },
}
local amd <const> = { source = "best GEMM of MI300X, stas00/ml-engineering", fitted = { gemm_efficiency = 0.51 } }
local gaudi <const> = { source = "best GEMM of Gaudi 3, stas00/ml-engineering", fitted = { gemm_efficiency = 0.74 } }

--- Sets by architecture and software; `moe` serves models with experts. What an architecture has no set for takes its
--- `megatron`. An architecture with no runs of its own borrows the nearest one's sets, as defaults; any other has the values of
--- `known`.
local architectures <const> = {
  Ampere = { megatron = a100, moe = a100_moe },
  Ada = { megatron = a100, borrowed = true },
  Hopper = { megatron = h100_dense, moe = h100_moe, fsdp = h100_fsdp, ["megatron-deepspeed"] = gh200 },
  Blackwell = { megatron = b200 },
  Volta = { megatron = v100, oneflow = v100_oneflow, ["megatron-deepspeed"] = v100_deepspeed, alpa = v100_alpa },
  Turing = { megatron = t4 },
  ["Turing, 250 W"] = { megatron = geforce_turing }, -- a T4 has 70 W
  CDNA2 = { megatron = amd, borrowed = true },
  CDNA3 = { megatron = amd },
  Gaudi2 = { megatron = gaudi, borrowed = true },
  Gaudi3 = { megatron = gaudi },
}

local of_key <const> = { ["titan-rtx"] = "Turing, 250 W", rtx2080ti = "Turing, 250 W", rtx2080 = "Turing, 250 W" }

local function find(set, name)
  while set do
    if set.fitted[name] then return set.fitted[name], "fitted", set.source end
    if set.default and set.default[name] then return set.default[name], "default", UNDETERMINED end
    set = set.base
  end
end

--- All constants of a GPU, for the cost model and for the plan's list.
---@param device { arch: string, key: string? } record of the catalogue
---@param use { moe: boolean, stack: string }
---@return table[] { name, value, unit, from, source }, always in the same order
function constants.list(device, use)
  local family <const> = architectures[of_key[device.key] or device.arch]
  local set <const> = family and (use.stack ~= "megatron" and family[use.stack] or use.moe and family.moe or family.megatron)
  local list <const> = {}
  for i, one in ipairs(known) do
    local name <const>, unit <const>, fallback <const>, fitted_on <const> = table.unpack(one)
    local value, from, source = find(set, name)
    if value and family.borrowed and from == "fitted" then
      from, source = "default", "of the nearest architecture: " .. source
    elseif not value then
      value, from, source = fallback, fitted_on and "fitted" or "default", fitted_on or UNDETERMINED
    end
    list[i] = { name = name, value = value, unit = unit, from = from, source = source }
  end
  return list
end

--- What is expected in place of a table of values by name, if it has a name that no constant has (schema's `check`).
---@param values table<string, number>
---@return string? expected
function constants.check(values)
  local names <const>, is_known <const>, wrong = {}, {}, nil
  for i, one in ipairs(known) do
    names[i], is_known[one[1]] = one[1], true
  end
  for name in pairs(values) do
    if not is_known[name] and (not wrong or name < wrong) then wrong = name end
  end
  if not wrong then return nil end
  local near <const> = core.nearest(wrong, names)
  return ("names of constants, not '%s'%s"):format(wrong, near and (" (did you mean '%s'?)"):format(near) or "")
end

return constants
