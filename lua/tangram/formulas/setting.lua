--- What a strategy on an island comes to for one model and microbatch: degrees, sizes, rates, seconds per byte and FLOP.
--- Made once per strategy; the formulas read it for every atom.
local catalog <const> = require "tangram.catalog"
local collectives <const> = require "tangram.formulas.collectives"

local setting <const> = {}

local max <const>, min <const> = math.max, math.min

--- fp32 products run as TF32 at half of the 16-bit rate; here outside the tensor cores, at about an eighth.
local no_tf32 <const> = { Volta = true, Turing = true }

--- For GPUs that a cluster describes without these figures: V100, A100 and T4 have 139, 153 and 203 16-bit FLOP for each byte
--- of memory bandwidth; sixteen lanes of PCIe 3.
local FLOPS_A_BYTE <const>, PCIE_BYTES_PER_S <const> = 200, 15.75e9

--- Dense FLOP/s of one GPU for the layers' matrix products, and for all else.
local function peaks(island, training, k)
  local device <const>, dense <const> = island.device, island.compute_flops
  if training.precision == "fp32" then
    local fp32 <const> = no_tf32[device.arch] and (device.fp32_flops or dense / 8) or dense / 2
    return fp32, fp32
  elseif training.precision == "fp8" and device.fp8_flops then
    return dense * min(k.fp8_gain, device.fp8_flops / dense), dense
  end
  return dense, dense
end

--- Shares of a rate inside a node that tensor parallelism and the gradients' reduction reach, if it is the datasheet's figure;
--- other rates are taken as reached.
local function link_shares(device, rate, k)
  local link <const> = device.link_bytes_per_s
  if rate == link then return k.tp_link_share, k.dp_link_share end
  for _, value in pairs(type(link) == "table" and link or {}) do
    if value == rate then return k.tp_link_share, k.dp_link_share end
  end
  if rate == device.pcie_bytes_per_s then return k.pcie_link_share, k.pcie_link_share end
  return 1, 1
end

--- A group of the stage's ranks, and the shares of its links that are reached.
local function group_of(s, size, stride)
  local group <const> = collectives.group(s.island, s.per_node, size, stride)
  return group, link_shares(s.island.device, group.intra_bytes_per_s, s.k)
end

local function links(s, k, reached)
  local network <const> = reached and 1 or k.network_share
  if s.t > 1 then
    local group <const>, intra <const> = group_of(s, s.t, 1)
    s.tp_s_per_byte = collectives.ring_s_per_byte(group, intra, network * (reached and 1 or k.tp_network_share))
    s.tp_latency_s = k.tp_latency_s * group.lg * (group.nodes > 1 and 3 or 1)
  end
  if s.c > 1 then
    local group <const>, intra <const> = group_of(s, s.c, s.t)
    s.cp_s_per_byte = max(1 / (group.intra_bytes_per_s * intra),
      group.flows / (group.inter_bytes_per_s * network))
  end
  if s.e > 1 then
    local group <const>, intra <const> = group_of(s, s.e, s.t)
    s.ep_s_per_byte = collectives.all_to_all_s_per_byte(group, intra, network / k.ep_network_share)
  end
  -- reductions at the end of a step reach less than other traffic, whatever the cluster's rates are
  local late <const> = k.reduce_overlaps == 1 and network or reached and min(1, k.dp_network_share / k.network_share) or k.dp_network_share
  local dense <const>, _, dense_intra <const> = group_of(s, s.shards, s.t)
  local expert <const>, _, expert_intra <const> = group_of(s, s.expert_shards, s.e * s.etp)
  s.dp_s_per_byte = collectives.scatter_s_per_byte(dense, dense_intra, late)
  s.expert_dp_s_per_byte = collectives.scatter_s_per_byte(expert, expert_intra, late)
  s.fsdp_s_per_byte = collectives.scatter_s_per_byte(dense, dense_intra, network)
  s.expert_fsdp_s_per_byte = collectives.scatter_s_per_byte(expert, expert_intra, network)
  s.dp_latency_s = k.dp_latency_s * dense.lg
end

--- Fully sharded experts (FORMULAS.md, section 8): every GPU of the stage holds a part of each expert and rebuilds `slots` of
--- them before use; a token goes to a replica in its own node where there is one.
local function fully_sharded_experts(s, model, k, reached)
  local group <const>, intra <const> = group_of(s, s.gpus, 1)
  local network <const> = reached and 1 or k.network_share
  s.slots = min(model.experts, max(model.experts_per_token, math.ceil(model.experts / s.gpus)))
  local replicas_inside <const> = group.inside * s.slots / model.experts
  local near <const> = min(1, replicas_inside)
  s.ep_s_per_byte = near * (1 - 1 / max(1, replicas_inside)) / (group.intra_bytes_per_s * intra)
    + (1 - near) * group.flows / (group.inter_bytes_per_s * network) * k.ep_network_share
  s.unshard_s_per_byte = collectives.all_to_all_s_per_byte(group, intra, network)
end

--- How much of the experts' imbalance is left with fully sharded experts: (max/mean - 1) of LAER-MoE over that of static
--- expert parallelism, 1.41 to 1.66 at 8 experts, 1.29 to 1.73 at 16.
local function balance_gain(experts) return experts <= 8 and 0.41 / 0.66 or 0.29 / 0.73 end

---@param island tangram.Island
---@param strategy table
---@param ctx table the cost model's context
---@param k table<string, number> constants by name
---@return table setting
function setting.new(island, strategy, ctx, k)
  local model <const>, training <const> = ctx.model, ctx.training
  local s <const> = {
    island = island, model = model, k = k, t = strategy.tp, d = strategy.dp, c = strategy.cp, e = strategy.ep, etp = strategy.etp,
    zero = strategy.zero, fsep = strategy.fsep and model.experts > 0, dropout = training.dropout and 1 or 0,
    gradient_bytes = training.precision == "fp32" and 4 or training.gradient_bytes,
    offload_optimizer = strategy.offload == "optimizer" or strategy.offload == "both",
    offload_activations = strategy.offload == "activations" or strategy.offload == "both",
  }
  s.gpus = s.t * s.d * s.c
  s.per_node = min(island.gpus_per_node, s.gpus)
  s.b = ctx.samples / s.d
  s.seq = training.seq_len
  s.tokens = s.b * s.seq / s.c
  s.sp = strategy.sp and s.t > 1
  s.u = s.sp and s.t or 1
  s.y = training.precision == "fp32" and 4 or 2
  s.shards = s.d * s.c
  s.expert_shards = s.shards * s.t / (s.e * s.etp)
  s.flash = training.attention == "flash" or training.attention ~= "unfused" and not catalog.unfused[island.device.arch]
    and training.precision ~= "fp32"
  s.vocab = math.ceil(model.vocab / (128 * s.t)) * 128 * s.t
  local gemm_flops <const>, flops <const> = peaks(island, training, k)
  s.s_per_gemm_flop, s.s_per_flop = 1 / (k.gemm_efficiency * gemm_flops), 1 / (k.gemm_efficiency * flops)
  s.s_per_flash_flop = 1 / (k.flash_efficiency * flops)
  s.s_per_byte = 1 / (k.memory_efficiency * (island.device.memory_bytes_per_s or island.compute_flops / FLOPS_A_BYTE))
  s.host_s_per_byte = 1 / (island.device.pcie_bytes_per_s or PCIE_BYTES_PER_S)
  s.launch_s = k.launch_s + k.launch_rank_s * (s.t - 1)
  s.imbalance = 1
  local reached <const> = ctx.options.network == "reached"
  links(s, k, reached)
  if s.fsep then
    fully_sharded_experts(s, model, k, reached)
    s.imbalance = 1 + (ctx.options.imbalance - 1) * balance_gain(model.experts)
    s.expert_shards, s.expert_parts = s.gpus, 1
  else
    if s.e > 1 then s.imbalance = ctx.options.imbalance end
    s.expert_parts = s.e * s.etp
  end
  return s
end

return setting
