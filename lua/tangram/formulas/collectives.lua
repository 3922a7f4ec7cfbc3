--- Times of collectives by where their ranks stand (FORMULAS.md, section 7; Megatron's rank order: tensor parallelism
--- innermost, then context, then data; expert groups are laid out with expert tensor parallelism innermost).
local collectives <const> = {}

local max <const>, min <const>, ceil <const>, log <const> = math.max, math.min, math.ceil, math.log

---@class tangram.Group
---@field size integer ranks
---@field inside integer ranks of it in one node
---@field nodes integer nodes it spans
---@field flows integer GPUs of a node that send to another node at once
---@field intra_bytes_per_s number per rank, inside a node
---@field inter_bytes_per_s number total of a node's flows
---@field lg number log2 of the ranks

--- A group of `size` ranks that are `stride` GPUs apart, on nodes of which the stage uses `per_node` GPUs.
---@param island tangram.Island
---@param per_node integer
---@param size number
---@param stride number
---@return tangram.Group rates as the island states them
function collectives.group(island, per_node, size, stride)
  local inside <const> = min(size, max(1, per_node // stride))
  local nodes <const> = ceil(size / inside)
  local flows <const> = max(1, min(per_node, stride * inside) // 1)
  return {
    size = size, inside = inside, nodes = nodes, flows = flows, lg = log(size, 2),
    intra_bytes_per_s = island:intra_bytes_per_s(max(2, min(per_node, stride * inside) // 1)),
    inter_bytes_per_s = nodes > 1 and island:inter_bytes_per_s(flows) or math.huge,
  }
end

--- Seconds a byte of a reduce-scatter or an all-gather (half an all-reduce): inside the nodes, then between them with one
--- share of the bytes a rank.
---@param group tangram.Group
---@param intra_share number of the link inside a node that is reached
---@param inter_share number of the network that is reached
---@return number
function collectives.scatter_s_per_byte(group, intra_share, inter_share)
  local inside <const>, nodes <const> = group.inside, group.nodes
  return (inside - 1) / inside / (group.intra_bytes_per_s * intra_share)
    + (nodes - 1) / nodes / inside * group.flows / (group.inter_bytes_per_s * inter_share)
end

--- Seconds a byte of one ring over all ranks, as tensor parallelism does it: the slowest link sets its pace.
---@param group tangram.Group
---@param intra_share number
---@param inter_share number
---@return number
function collectives.ring_s_per_byte(group, intra_share, inter_share)
  local rate <const> = min(group.intra_bytes_per_s * intra_share, group.inter_bytes_per_s * inter_share)
  return 2 * (group.size - 1) / group.size / rate
end

--- Seconds a byte of what each rank sends to all others, evenly: a share stays on the rank, a share in the node.
---@param group tangram.Group
---@param intra_share number
---@param inter_share number time of the network's part is multiplied by 1 / inter_share
---@return number
function collectives.all_to_all_s_per_byte(group, intra_share, inter_share)
  local size <const>, inside <const> = group.size, group.inside
  return (inside - 1) / size / (group.intra_bytes_per_s * intra_share)
    + (size - inside) / size * group.flows / (group.inter_bytes_per_s * inter_share)
end

return collectives
