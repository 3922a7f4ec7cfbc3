--- Weights, gradients, optimizer states: their bytes, their traffic, the optimizer's step (FORMULAS.md, sections 4, 7, 9).
local states <const> = {}

--- Parameters of an atom on one rank before any sharding over data parallelism: shared ones, and routed experts.
---@param s table setting
---@param atom table
---@return number dense, number expert
function states.parameters(s, atom)
  local padding <const> = (atom.kind == "embedding" or atom.kind == "head") and (s.vocab - s.model.vocab) * s.model.hidden or 0
  local expert <const> = atom.expert_parameters or 0
  return (atom.parameters - expert + padding) / s.t, expert / s.expert_parts
end

--- Bytes of the three kinds on one rank. ZeRO 1 shards the optimizer, 2 the gradients too, 3 all.
---@return number weights_bytes, number gradients_bytes, number optimizer_bytes
function states.bytes(s, dense, expert)
  local n <const>, en <const>, zero <const> = s.shards, s.expert_shards, s.zero
  local held <const> = s.y == 4 and 8 or 12 -- two Adam moments, and the fp32 master copy of 16-bit weights
  local function sharded(bytes, from)
    local experts <const> = (zero >= from or s.fsep) and expert / en or expert
    return bytes * ((zero >= from and dense / n or dense) + experts)
  end
  local copies <const> = s.k.copy_bytes * (dense + expert)
  return sharded(s.y, 3), sharded(s.gradient_bytes, 2), (s.offload_optimizer and 0 or sharded(held, 1)) + copies
end

--- Bytes of gathered weights and whole gradients that a sharded atom needs while it is computed: with ZeRO-3 its own weights and
--- the next atom's ahead of time, from ZeRO-2 on its gradients before they are reduced.
function states.gathered_bytes(s, dense, expert)
  local function bytes(zero) return (zero == 3 and 2 * s.y or 0) + (zero >= 2 and s.gradient_bytes or 0) end
  local slots <const> = s.fsep and bytes(3) * s.slots / s.model.experts or bytes(s.zero)
  return bytes(s.zero) * dense + slots * expert
end

--- Seconds of the traffic inside each microbatch, before overlap: ZeRO-3 gathers weights forward and backward and reduces
--- gradients, ZeRO-2 reduces gradients.
---@return number forward_s, number backward_s
function states.sharded_traffic_s(s, dense, expert)
  if s.zero < 2 then return 0, 0 end
  local once_s <const> = dense * s.fsdp_s_per_byte + (s.fsep and 0 or expert * s.expert_fsdp_s_per_byte)
  local gather_s <const> = s.zero == 3 and s.y * once_s or 0
  return gather_s, gather_s + s.gradient_bytes * once_s
end

--- The same of fully sharded experts: rebuilt before each use, forward and backward, and their gradients sent home.
---@return number forward_s, number backward_s
function states.rebuilding_s(s, expert)
  if not s.fsep then return 0, 0 end
  local once_s <const> = s.slots / s.model.experts * expert * s.unshard_s_per_byte
  return s.y * once_s, (s.y + s.gradient_bytes) * once_s
end

--- Seconds of the reduction at the end of a step, before overlap: an all-reduce of gradients, or with a sharded optimizer a
--- reduce-scatter of gradients (ZeRO-2 did it inside) and an all-gather of weights.
function states.reduce_s(s, dense, expert)
  local bytes <const> = ({ [0] = 2 * s.gradient_bytes, s.gradient_bytes + s.y, s.y, 0 })[s.zero]
  local per_expert <const> = s.fsep and 0 or bytes * s.expert_dp_s_per_byte
  return dense * bytes * s.dp_s_per_byte + expert * per_expert
end

--- Seconds of the optimizer's step. Offloaded: gradients down and weights up over PCIe, Adam at the host's memory bandwidth.
function states.optimizer_s(s, dense, expert)
  local mine <const> = (s.zero >= 1 and dense / s.shards or dense)
    + ((s.zero >= 1 or s.fsep) and expert / s.expert_shards or expert)
  if not s.offload_optimizer then return mine * s.k.optimizer_traffic * s.s_per_byte end
  return mine * ((s.gradient_bytes + s.y) * s.host_s_per_byte
    + s.k.optimizer_traffic * s.per_node / s.k.host_bytes_per_s)
end

return states
