--- What the analytic cost model needs beyond datasheets: efficiencies, launch times, shares of links. Each value says where
--- it is from: `fitted` on measured runs (the set's source names them), or `default`: carried over, not determined by data.
---
--- Shares of links (`*_link_share`, `*_network_share`) turn a datasheet's figure into what collectives reach. They do not
--- apply to rates that a cluster file states: those are taken as reached.
local constants <const> = {}

local GIB <const> = 2 ^ 30

--- Every constant: name, unit, what it is, and the value where no set of the GPU's kind has one.
local known <const> = {
  { "gemm_efficiency", "", "of the peak that large matrix products reach, apart from their bytes", 0.8 },
  { "gemm_backward_factor", "", "time of a backward product over a forward one", 1.16 },
  { "gemm_byte_weight", "", "share of a product's bytes that is not hidden behind its arithmetic", 0.7 },
  { "fp8_gain", "", "speed of FP8 products over 16-bit ones", 1.56 },
  { "flash_efficiency", "", "of the peak that fused attention reaches forward", 0.439 },
  { "flash_backward_factor", "", "backward over forward of fused attention, beyond the 2.5 of its arithmetic", 1.6 },
  { "unfused_share", "", "efficiency of unfused attention's products over gemm_efficiency", 0.9 },
  { "memory_efficiency", "", "of the memory bandwidth that element-wise operators reach", 0.65 },
  { "kernel_s", "s", "a kernel's fixed time", 2e-6 },
  { "launch_s", "s", "least time of a layer and pass: the host's launches", 1e-3 },
  { "launch_rank_s", "s", "the same, more for each further rank of tensor parallelism", 30e-6 },
  { "tp_link_share", "", "of the link inside a node, for tensor parallelism and all-to-all", 0.7 },
  { "tp_latency_s", "s", "of an all-reduce, times log2 of the ranks", 15e-6 },
  { "tp_network_share", "", "of the network, on top of network_share, where tensor parallelism leaves the node", 1 },
  { "tp_backward_exposed", "", "of the backward all-reduces that weight gradients do not hide (without sequence parallelism)", 0.15 },
  { "dp_link_share", "", "of the link inside a node, for the gradients' reduction", 0.4 },
  { "dp_network_share", "", "of the network, for the gradients' reduction at the end of a step", 0.28 },
  { "network_share", "", "of the network, for all else and for reductions that overlap", 0.8 },
  { "dp_latency_s", "s", "of the gradients' reduction, times log2 of the ranks", 50e-6 },
  { "reduce_overlaps", "", "1: the reduction hides behind the last microbatch's backward", 0 },
  { "fsdp_exposed", "", "of ZeRO-2/3 traffic inside a microbatch that compute does not hide, at least", 1 },
  { "cp_exposed", "", "of the ring exchange of keys and values that attention does not hide", 1 },
  { "ep_network_share", "", "time of an all-to-all between nodes over that of its bytes", 1 },
  { "ep_latency_s", "s", "of an all-to-all", 58e-6 },
  { "recompute_share", "", "time of a recomputed forward over the first one", 1 },
  { "step_s", "s", "fixed time of an optimizer step", 1e-3 },
  { "optimizer_traffic", "bytes", "read and written per parameter in an optimizer step", 30 },
  { "logit_bytes", "bytes", "per logit at the head's peak: 16-bit and fp32 copies", 8 },
  { "context_bytes", "bytes", "context, libraries' workspaces, communicators", 1.16 * GIB },
  { "host_bytes_per_s", "bytes/s", "memory bandwidth of a node's host, shared by its GPUs (offloaded optimizer)", 1e11 },
}

local a100 <const> = {
  source = "422 A100 runs: vTrain, BigScience, llm-foundry, Narayanan et al. 2021, Korthikanti et al. 2022",
  fitted = {
    gemm_efficiency = 0.93, flash_efficiency = 0.439, flash_backward_factor = 1.6, memory_efficiency = 0.612, launch_s = 1.12e-3,
    launch_rank_s = 31e-6, tp_link_share = 0.95, tp_latency_s = 65e-6, dp_link_share = 0.705,
  },
}
local h100_dense <const> = {
  source = "24 H100 runs of Megatron-Core: Megatron-Bridge, Megatron-LM, NeMo",
  fitted = {
    gemm_efficiency = 0.854, flash_efficiency = 0.711, flash_backward_factor = 1.07, memory_efficiency = 0.45, tp_link_share = 0.95,
    dp_link_share = 0.346, step_s = 3.6e-3, fp8_gain = 2, cp_exposed = 0.035, network_share = 1,
  },
  default = { launch_s = 0.3e-3, reduce_overlaps = 1, fsdp_exposed = 0.236, ep_network_share = 0.44, logit_bytes = 6 },
}
local h100_moe <const> = {
  source = "12 H100 runs of Megatron-Bridge with experts, FP8", base = h100_dense,
  fitted = {
    gemm_efficiency = 0.486, memory_efficiency = 0.507, kernel_s = 18e-6, ep_network_share = 0.44, ep_latency_s = 58e-6,
  },
}
local h100_fsdp <const> = {
  source = "59 H100 runs of llm-foundry (FSDP)",
  fitted = {
    gemm_efficiency = 0.693, flash_efficiency = 0.22, flash_backward_factor = 1.42, memory_efficiency = 0.686, dp_link_share = 0.341,
    recompute_share = 0.717, fsdp_exposed = 0.236, fp8_gain = 1.56,
  },
  default = { launch_s = 0.3e-3, reduce_overlaps = 1, network_share = 0.6, logit_bytes = 6 },
}
local b200 <const> = {
  source = "33 B200 runs of SimuMax",
  fitted = {
    gemm_efficiency = 0.526, flash_efficiency = 0.547, flash_backward_factor = 1.49, memory_efficiency = 0.92, kernel_s = 20e-6,
    tp_link_share = 0.399, step_s = 2.2e-3, cp_exposed = 1, ep_network_share = 1, ep_latency_s = 124e-6, context_bytes = 1.16 * GIB,
  },
  default = { launch_s = 0.2e-3, reduce_overlaps = 1, fsdp_exposed = 0.236, logit_bytes = 6 },
}
local v100 <const> = {
  source = "25 V100 runs of DLPerf: Megatron-LM, OneFlow",
  fitted = {
    gemm_efficiency = 0.93, memory_efficiency = 0.688, tp_link_share = 0.445, tp_network_share = 0.449, dp_link_share = 0.184,
    step_s = 1.3e-3, dp_network_share = 0.609, network_share = 1,
  },
}
local t4 <const> = {
  source = "37 T4 runs of AMP",
  fitted = {
    gemm_efficiency = 0.681, memory_efficiency = 0.4, launch_s = 3.01e-3, launch_rank_s = 19e-6, tp_link_share = 0.285,
    dp_link_share = 0.187, step_s = 1.1e-3, network_share = 0.194, dp_network_share = 0.262,
  },
}
local amd <const> = { source = "best GEMM of MI300X, stas00/ml-engineering", fitted = { gemm_efficiency = 0.51 } }
local gaudi <const> = { source = "best GEMM of Gaudi 3, stas00/ml-engineering", fitted = { gemm_efficiency = 0.74 } }

--- Sets by architecture. `moe` serves models with experts, `fsdp` the plugin's option `stack = "fsdp"`. An architecture with
--- no runs of its own borrows the nearest one's set, as defaults; any other has the values of `known`.
local architectures <const> = {
  Ampere = { dense = a100 },
  Ada = { dense = a100, borrowed = true },
  Hopper = { dense = h100_dense, moe = h100_moe, fsdp = h100_fsdp },
  Blackwell = { dense = b200 },
  Volta = { dense = v100 },
  Turing = { dense = t4 },
  CDNA2 = { dense = amd, borrowed = true },
  CDNA3 = { dense = amd },
  Gaudi2 = { dense = gaudi, borrowed = true },
  Gaudi3 = { dense = gaudi },
}

local function find(set, name)
  while set do
    if set.fitted[name] then return set.fitted[name], "fitted", set.source end
    if set.default and set.default[name] then return set.default[name], "default", "carried over, not determined by data" end
    set = set.base
  end
end

--- All constants of a GPU, for the cost model and for the plan's list.
---@param arch string architecture of the catalogue
---@param use { moe: boolean, stack: string }
---@return table[] { name, value, unit, from, source }, always in the same order
function constants.list(arch, use)
  local family <const> = architectures[arch]
  local set <const> = family and (use.stack == "fsdp" and family.fsdp or use.moe and family.moe or family.dense)
  local list <const> = {}
  for i, one in ipairs(known) do
    local name <const>, unit <const>, meaning <const>, fallback <const> = table.unpack(one)
    local value, from, source = find(set, name)
    if value and family.borrowed and from == "fitted" then
      from, source = "default", "of the nearest architecture: " .. source
    elseif not value then
      value, from, source = fallback, "default", "carried over, not determined by data"
    end
    list[i] = { name = name, value = value, unit = unit, from = from, source = source, meaning = meaning }
  end
  return list
end

--- The names of all constants, for the message of a wrong one.
---@return string[]
function constants.names()
  local names <const> = {}
  for i, one in ipairs(known) do names[i] = one[1] end
  return names
end

return constants
