--- The nodes that several files describe, each once: by name, short or full, with the figures of the surest file.
local catalog <const> = require "tangram.catalog"
local grammar <const> = require "tangram.input.grammar"
local hostlist <const> = require "tangram.input.hostlist"

--- Kinds from what the hardware says to what people wrote down. The first that knows a figure is believed.
local SUREST_FIRST <const> = { "nvidia-smi-csv", "nvidia-smi-L", "rocm-smi", "nccl-topo-xml", "nvidia-smi-topo",
  "nvidia-smi-p2p", "nvidia-smi-nvlink", "kubernetes", "slurm-nodes", "sinfo", "gres-conf", "ray", "hostfile",
  "nccl-tests" } -- a run may be on some of a node's GPUs
local rank_of <const> = {}
for i, kind in ipairs(SUREST_FIRST) do rank_of[kind] = i end

local function short_of(name)
  return not name:find "^[%d.]+$" and name:match "^([^.]+)%." or nil -- an address is no name with a domain
end

--- The one name of each node: "a1" and "a1.cluster.local" are the same unless two nodes may be meant.
local function one_name_each(names)
  local full_of <const>, one <const> = {}, {}
  for _, name in ipairs(names) do
    local short <const> = short_of(name)
    if short then
      full_of[short] = full_of[short] or {}
      full_of[short][name] = true
    end
  end
  for _, name in ipairs(names) do
    local full <const>, second = next(full_of[name] or {})
    if full then second = next(full_of[name], full) end
    if second then
      local both <const> = { full, second }
      table.sort(both)
      return nil, ("node '%s' may be %s or %s, expected one name for it in all files"):format(name, both[1], both[2])
    end
    one[name] = one[name] or name
    if full then one[full] = name end
  end
  return one
end

--- The names that a file's node stands for: its own, those of --node, or none.
local function names_for(source, node)
  if not source.node then return { node.name }, nil end
  if node.name then
    return nil, ("%s: names its nodes itself (%s), expected it before the first --node"):format(source.path, node.name)
  end
  local names <const>, why <const> = hostlist.expand(source.node)
  return names, why and "--node " .. why
end

--- Every node as a list of what files say of it: { name, parts = { { source, node } } }, in the order of the files.
local function collect(sources)
  local all <const>, entries <const>, kinds_here <const> = {}, {}, {}
  local unnamed
  for _, source in ipairs(sources) do
    for _, node in ipairs(source.facts.nodes) do
      local names <const>, why <const> = names_for(source, node)
      if not names then return nil, why end
      if node.name and not node.name:find "^[%w._:-]+$" then
        return nil, ("%s: '%s' is no name of a node"):format(source.path, grammar.quote(node.name))
      end
      if #names == 0 then
        local kind <const> = source.facts.kind
        if kinds_here[kind] then
          return nil, ("%s and %s: two of one kind, of which nodes? expected --node NAME before each"):format(kinds_here[kind], source.path)
        end
        kinds_here[kind] = source.path
        unnamed = unnamed or source
      end
      for _, name in ipairs(names) do all[#all + 1] = name end
      entries[#entries + 1] = { names = names, part = { source = source, node = node } }
    end
  end
  if unnamed and #all > 0 then
    return nil, ("%s: of which node is it? expected --node NAME before it (a list such as --node 'a[1-4]' for several alike)"):format(
      unnamed.path)
  end
  for _, source in ipairs(sources) do
    for _, leaf in ipairs(source.facts.switches and source.facts.switches.leaves or {}) do
      table.move(leaf.nodes, 1, #leaf.nodes, #all + 1, all)
    end
  end
  local one <const>, why <const> = one_name_each(all)
  if not one then return nil, why end
  local nodes <const>, by_name <const> = {}, {}
  for _, entry in ipairs(entries) do
    for _, given in ipairs(#entry.names > 0 and entry.names or { "node1" }) do
      local name <const> = one[given] or given
      if not by_name[name] then
        by_name[name] = { name = name, parts = {} }
        nodes[#nodes + 1] = by_name[name]
      end
      table.insert(by_name[name].parts, entry.part)
    end
  end
  return nodes, nil, one
end

local function total(gpus)
  local sum = 0
  for _, one in ipairs(gpus) do sum = sum + one.count end
  return sum
end

local function kinds_text(gpus)
  local words <const> = {}
  for i, one in ipairs(gpus) do words[i] = ("%d x %s"):format(one.count, one.name or "?") end
  return table.concat(words, " + ")
end

--- May two names mean the same type of GPU? A name that the catalogue lacks agrees with any.
local function agree(a, b, gpu_types)
  local function meant(name)
    local told <const> = gpu_types[name:lower()]
    return told and { { key = told } } or catalog.candidates(name)
  end
  local first <const>, second <const> = meant(a), meant(b)
  if a:lower() == b:lower() or #first == 0 or #second == 0 then return true end
  for _, x in ipairs(first) do
    for _, y in ipairs(second) do
      if x.key == y.key then return true end
    end
  end
  return false
end

--- Fills what the surer runs leave open from other ones: by place if they run alike, else if the others are all of one type.
local function fill(gpus, others)
  local alike = #gpus == #others
  for i = 1, alike and #gpus or 0 do alike = alike and gpus[i].count == others[i].count end
  for i, one in ipairs(gpus) do
    local other <const> = alike and others[i] or #others == 1 and others[1] or nil
    if other then
      for _, field in ipairs { "name", "memory_bytes", "nominal_bytes", "pcie_bytes_per_s", "compute_capability" } do
        if one[field] == nil then
          one[field] = other[field]
          if field == "name" then one.named_by = other.named_by end
        end
      end
    end
  end
end

local function copy_runs(part)
  local runs <const> = {}
  for i, one in ipairs(part.node.gpus or {}) do
    runs[i] = { named_by = part.source }
    for key, value in pairs(one) do runs[i][key] = value end
  end
  return runs
end

--- Network cards of all files by name: ibstat knows rates, topo -m which GPUs are near.
local function join_nics(parts)
  local nics <const>, by_name <const> = {}, {}
  for _, part in ipairs(parts) do
    for _, nic in ipairs(part.node.nics or {}) do
      local one = by_name[nic.name]
      if not one then
        one = {}
        by_name[nic.name] = one
        nics[#nics + 1] = one
      end
      for key, value in pairs(nic) do
        if one[key] == nil then one[key] = value end
      end
    end
  end
  return nics[1] and nics or nil
end

--- One node from all that is said of it.
local function merge(entry, gpu_types, keep, warnings)
  local parts <const> = entry.parts
  table.sort(parts, function(a, b)
    local first <const>, second <const> = rank_of[a.source.facts.kind] or 99, rank_of[b.source.facts.kind] or 99
    if first ~= second then return first < second end
    return a.source.index < b.source.index
  end)
  local node <const> = { name = entry.name, gpus = {}, nics = join_nics(parts), parts = parts }
  local base
  for _, part in ipairs(parts) do
    local runs <const> = copy_runs(part)
    if #runs > 0 and not base then
      node.gpus, base = runs, part
    elseif #runs > 0 then
      local partial <const> = part.source.facts.kind == "nccl-tests" and total(runs) < total(node.gpus)
      if total(runs) ~= total(node.gpus) and not partial then
        warnings[#warnings + 1] = ("node %s: %d GPUs in %s, %d in %s; %d are taken"):format(entry.name, total(node.gpus),
          base.source.path, total(runs), part.source.path, total(node.gpus))
      end
      for _, one in ipairs(runs) do
        local known <const> = node.gpus[1].name
        if #node.gpus == 1 and one.name and known and not agree(known, one.name, gpu_types) then
          warnings[#warnings + 1] = ("node %s: %s in %s, %s in %s; the first is taken"):format(entry.name, kinds_text(node.gpus),
            base.source.path, kinds_text(runs), part.source.path)
          break
        end
      end
      fill(node.gpus, runs)
    end
    for _, field in ipairs { "matrix", "nvlink_bytes_per_s", "nvlink_domain" } do
      if node[field] == nil and part.node[field] ~= nil then node[field], node[field .. "_from"] = part.node[field], part.source end
    end
    local hides <const> = part.node.left_out and not (keep[entry.name] and #(part.node.gpus or {}) > 0)
    if hides and not node.left_out then node.left_out, node.left_out_by = part.node.left_out, part.source end
  end
  if node.left_out == "no GPU" and #node.gpus > 0 then
    warnings[#warnings + 1] = ("node %s: no GPU in %s, %d in %s; the latter is taken"):format(entry.name, node.left_out_by.path,
      total(node.gpus), base.source.path)
    node.left_out = nil
  end
  if #node.gpus == 0 and not node.left_out then node.left_out = "nothing says how many GPUs it has" end
  return node
end

--- All nodes of all files, those that are not planned with having `left_out`.
---@param sources table[] each { path, index, facts, node = nil|"NAME of --node" }
---@param gpu_types table<string, string> what --gpu-type says, labels in lower case
---@param keep table<string, boolean> nodes that are planned with whatever their state
---@param warnings string[] added to
---@return table[]? nodes
---@return string|table why, or the one name of each given name
return function(sources, gpu_types, keep, warnings)
  local entries <const>, why <const>, one_name <const> = collect(sources)
  if not entries then return nil, why end
  local nodes <const> = {}
  for i, entry in ipairs(entries) do nodes[i] = merge(entry, gpu_types, keep, warnings) end
  return nodes, one_name
end
