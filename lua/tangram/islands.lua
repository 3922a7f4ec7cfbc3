--- A cluster's islands as the planner takes them: what the engine finds, joined with the records of the GPUs.
local apart <const> = require "tangram.apart"
local cluster <const> = require "tangram.cluster"
local core <const> = require "tangram.core"
local island <const> = require "tangram.island"
local schema <const> = require "tangram.schema"

local islands <const> = {}

--- What all members of an island have: the record of the slowest, and of each figure the smallest; a figure that one member
--- lacks is missing.
local function device_of(records)
  local device <const> = {}
  local slowest = records[1]
  for _, record in ipairs(records) do
    if cluster.compute_flops(record) < cluster.compute_flops(slowest) then slowest = record end
  end
  for name, value in pairs(slowest) do device[name] = value end
  for name in pairs(cluster.figures) do
    for _, record in ipairs(records) do
      device[name] = device[name] and record[name] and math.min(device[name], record[name]) or nil
    end
  end
  return device
end

--- Records of the engine's nodes, in its order.
local function records_by_node(description, built)
  local by_machine <const>, records <const> = {}, {}
  for _, node in ipairs(description.nodes) do by_machine[node.name] = node end
  for n, part in ipairs(built:nodes()) do
    local node <const> = by_machine[part.machine]
    local first = 1
    for _, kind in ipairs(cluster.kinds_of(node)) do
      if part.first >= first and part.first < first + kind.count then records[n] = cluster.record_of(description, node, kind) end
      first = first + kind.count
    end
  end
  return records
end

--- What `islands.group` takes.
islands.options = {
  tolerance = { type = "list", item = { type = "number", min = 0 }, min = 3, max = 3, default = { 0.1, 0.1, 0.2 },
    doc = "by how much compute, memory and intra-node rate may differ inside an island" },
  islands = { type = "list", item = { type = "list", item = { type = "string" }, min = 1 }, default = {},
    doc = "islands that are set, as lists of node names" },
  cut_nodes = { type = "integer", min = 1, doc = "cut nodes of more GPUs, a multiple of it, into parts of so many" },
  split_islands = { type = "integer", min = 1, doc = "split islands of more nodes, a multiple of it, into parts of so many" },
  merged = { type = "boolean", default = false, doc = "the merged partition: whatever the tolerances" },
  apart = { type = "boolean", default = false, doc = "say why each pair of nodes is apart" },
}

--- Groups a described cluster into the fewest islands. Raises on wrong options or a wrong cluster.
---@param description table of `cluster.describe`
---@param options table? see islands.options
---@param where string? what the cluster is, for errors
---@return table result { cluster = the engine's, islands = tangram.Island[], proved_fewest, warnings = string[], apart? =
--- { nodes, constraint, why }[] }
function islands.group(description, options, where)
  where = where or "cluster"
  local given <const> = schema.check(options or {}, islands.options, where)
  local built <const>, why <const> = cluster.build(description, given.cut_nodes)
  if not built then error(("%s: %s"):format(where, why), 0) end
  local known <const>, names <const> = {}, {}
  for n, node in ipairs(built:nodes()) do known[node.name], names[n] = true, node.name end
  for p, pin in ipairs(given.islands) do
    for _, name in ipairs(pin) do
      if not known[name] then schema.fail(("%s: islands[%d]"):format(where, p), name, "the name of a node", core.nearest(name, names)) end
    end
  end
  local found <const>, refused <const> = built:islands(given)
  if not found then error(("%s: %s"):format(where, refused), 0) end
  local result <const> = { cluster = built, islands = {}, proved_fewest = found.proved_fewest, warnings = {} }
  local records <const> = records_by_node(description, built)
  for i, record in ipairs(found.islands) do
    local devices <const> = {}
    for d, node in ipairs(record.node_indices) do devices[d] = records[node] end
    record.index, record.device = i, device_of(devices)
    result.islands[i] = island.new(record)
  end
  for _, broken in ipairs(found.pin_warnings) do
    result.warnings[#result.warnings + 1] = "pinned island: " .. apart.pin(broken)
  end
  for _, name in ipairs(found.unsplit) do
    result.warnings[#result.warnings + 1] = ("island '%s' is left whole: its nodes are no multiple of %d"):format(
      name, given.split_islands)
  end
  if found.apart then
    result.apart = core.array {}
    for i, pair in ipairs(found.apart) do
      result.apart[i] = { nodes = core.array(pair.nodes), constraint = pair.constraint or core.null, why = apart.pair(pair) }
    end
  end
  return result
end

return islands
