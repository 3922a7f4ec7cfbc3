--- What nccl-tests measured, as rates within nodes and between them.
local hostlist <const> = require "tangram.input.hostlist"

--- Collectives whose busbw is what passes each GPU of a ring, thus also each node's edge.
local RINGS <const> = { all_reduce = true, all_gather = true, reduce_scatter = true, broadcast = true, reduce = true }

--- The planned nodes that a measurement ran on: by --node, or by the hosts that it names. Nil: it does not say.
local function hosts_of(source, one_name, planned)
  local names = {}
  if source.node then
    names = hostlist.expand(source.node) or {}
  else
    for _, node in ipairs(source.facts.nodes) do names[#names + 1] = node.name end
  end
  local hosts <const>, count = {}, 0
  for _, name in ipairs(names) do
    local one <const> = one_name[name] or name
    if not hosts[one] then count = count + 1 end
    hosts[one] = planned[one] or false
  end
  return count > 0 and hosts or nil, count
end

--- How many nodes it ran on, if that is told or follows from the ranks.
local function node_count_of(measured, count, nodes)
  if measured.nodes then return measured.nodes end
  if count > 0 then return count end
  local most = 0
  for _, node in ipairs(nodes) do most = math.max(most, node.gpu_count) end
  if measured.ranks and #nodes > 1 and measured.ranks > most then return measured.ranks / most end
  return #nodes == 1 and 1 or nil
end

local function read_one(source, result, one_name, planned, nodes)
  local measured <const> = source.facts.measured
  local hosts <const>, named <const> = hosts_of(source, one_name, planned)
  local count <const> = node_count_of(measured, named, nodes)
  if not count then
    return "it does not say whether it ran within a node or between some; say it by --node NAME or --node 'a[1-2]' before it"
  elseif not measured.ranks and count == 1 then
    return "its number of ranks is not known"
  elseif count == 1 then
    if not RINGS[measured.collective] or measured.ranks < 2 then return "it is no ring collective, whose rate each GPU has" end
    for _, node in ipairs(nodes) do
      if (not hosts or hosts[node.name]) and node.gpu_count >= measured.ranks then
        result.within[node.name] = result.within[node.name] or {}
        result.within[node.name][measured.ranks] = measured.busbw_bytes_per_s
      end
    end
    return nil
  end
  local flows = 1 -- sendrecv: of a node's ranks, one sends to the next node
  if measured.collective ~= "sendrecv" then
    flows = RINGS[measured.collective] and measured.ranks and math.tointeger(measured.ranks / count)
    if not flows or flows < 1 then return "its ranks are not spread evenly over nodes, or it is no ring collective" end
  end
  table.insert(result.between, { hosts = hosts, flows = flows, bytes_per_s = measured.busbw_bytes_per_s, path = source.path })
end

--- All measurements of the files.
---@param sources table[] with facts.measured
---@param one_name table<string, string>
---@param nodes table[] planned, with name and gpu_count
---@param warnings string[] added to
---@return table measured within = { [node] = { [size] = bytes_per_s } }, between = { { hosts?, flows, bytes_per_s, path } },
---  unused = why the last one that is not used is not
return function(sources, one_name, nodes, warnings)
  local planned <const>, result <const> = {}, { within = {}, between = {} }
  for _, node in ipairs(nodes) do planned[node.name] = true end
  for _, source in ipairs(sources) do
    if source.facts.measured then
      local why <const> = read_one(source, result, one_name, planned, nodes)
      if why then
        result.unused = ("%s: not used: %s"):format(source.path, why)
        warnings[#warnings + 1] = result.unused
      end
    end
  end
  return result
end
