--- The partitions of a cluster into islands that a planning tries, with each GPU's record of the catalogue.
local cluster_of <const> = require "tangram.cluster"
local island <const> = require "tangram.island"

local islands <const> = {}

--- Record of the slowest GPU type among an island's nodes.
local function device_of(found, nodes, description)
  local slowest
  for _, index in ipairs(found.node_indices) do
    local node <const> = nodes[index]
    if not slowest or node.compute_flops < slowest.compute_flops then slowest = node end
  end
  return cluster_of.device(description, slowest.gpu)
end

local function partition_of(core_cluster, description, options)
  local found <const>, why <const> = core_cluster:islands(options)
  if not found then error(why, 0) end
  local nodes <const>, list <const> = core_cluster:nodes(), {}
  local merged = false
  for i, record in ipairs(found.islands) do
    record.index, record.device = i, device_of(record, nodes, description)
    merged = merged or record.merged
    list[i] = island.new(record)
  end
  return { islands = list, merged = merged, proved_fewest = found.proved_fewest, found = found }
end

local function same(a, b)
  if #a.islands ~= #b.islands then return false end
  for i, one in ipairs(a.islands) do
    if table.concat(one.nodes, "\0") ~= table.concat(b.islands[i].nodes, "\0") then return false end
  end
  return true
end

--- The fewest islands, and, unless it is the same or not wanted, the merged partition.
---@param core_cluster userdata
---@param description table tangram.cluster/1
---@param spec table tolerance, islands (pins), split_islands, merged
---@return table[] partitions each { islands, merged, proved_fewest, found }; with `warnings`
function islands.partitions(core_cluster, description, spec)
  local first <const> = partition_of(core_cluster, description,
    { tolerance = spec.tolerance, islands = spec.islands, split_islands = spec.split_islands })
  local partitions <const> = { first, warnings = {} }
  if not first.proved_fewest then
    partitions.warnings[1] = "the islands are not proved the fewest (more than 16 groups of unlike nodes)"
  end
  for _, apart in ipairs(first.found.pin_warnings) do
    partitions.warnings[#partitions.warnings + 1] = "pinned islands: " .. cluster_of.apart_text(apart)
  end
  if spec.merged then
    local merged <const> = partition_of(core_cluster, description, { merged = true, split_islands = spec.split_islands })
    if not same(first, merged) then partitions[2] = merged end
  end
  return partitions
end

return islands
