--- Slurm's topology.conf (tree, block, ring) and topology.yaml: which nodes share a switch or an NVLink block. LinkSpeed= is
--- unused by Slurm, so no rate is taken from it.
local grammar <const> = require "tangram.input.grammar"
local hostlist <const> = require "tangram.input.hostlist"
local yaml <const> = require "tangram.input.yaml"

local refuse <const>, quote <const> = grammar.refuse, grammar.quote

local COMMAND <const> = "cat /etc/slurm/topology.conf"
local MOST_ENTRIES <const> = 4 * hostlist.most -- of all lists of a file together

--- The switches of one topology as they are collected.
local function new_topology(kind)
  return { kind = kind, leaves = {}, parents = {}, order = {}, seen = {}, leaf_of = {}, entries = 0 }
end

local function names_of(all, line, list)
  local names <const>, why <const> = hostlist.expand(list)
  if not names then refuse(line, "%s", why) end
  all.entries = all.entries + #names
  if all.entries > MOST_ENTRIES then refuse(line, "more nodes than a cluster has") end
  return names
end

--- Adds a switch with the nodes or the switches below it.
local function add(all, line, name, nodes, children)
  if all.seen[name] then refuse(line, "'%s' stands twice, expected each switch once", quote(name)) end
  if not nodes and not children then refuse(line, "'%s' has neither nodes nor switches", quote(name)) end
  all.seen[name], all.order[#all.order + 1] = true, name
  for _, child in ipairs(children and names_of(all, line, children) or {}) do
    if all.parents[child] then
      refuse(line, "'%s' lies below '%s' and '%s', expected one of them", child, quote(all.parents[child]), quote(name))
    end
    all.parents[child] = name
  end
  local leaf <const> = { switch = name, nodes = nodes and names_of(all, line, nodes) }
  for _, node in ipairs(leaf.nodes or {}) do
    if all.leaf_of[node] then
      refuse(line, "node '%s' is on '%s' and '%s', expected one of them", node, quote(all.leaf_of[node]), quote(name))
    end
    all.leaf_of[node] = name
  end
  if nodes then all.leaves[#all.leaves + 1] = leaf end
end

--- The facts of a topology, once no switch lies above itself. A leaf is a switch with nodes.
local function facts_of(all, warnings)
  local below_root <const> = {}
  for _, start in ipairs(all.order) do
    local path <const>, at = {}, start
    while at and not below_root[at] do
      if path[at] then refuse(nil, "switch '%s' lies below itself", quote(at)) end
      path[at] = true
      at = all.parents[at]
    end
    for switch in pairs(path) do below_root[switch] = true end
  end
  return { nodes = {}, warnings = warnings, switches = { kind = all.kind, leaves = all.leaves, parents = all.parents } }
end

local FORMS <const> = { switchname = "tree", blockname = "block", ringname = "ring" }

local function fields_of(line, number)
  local fields <const> = {}
  for word in line:gmatch "%S+" do
    local key <const>, value <const> = word:match "^([%a_]+)=(.+)$"
    if not key then refuse(number, "got '%s', expected fields such as SwitchName=s0 Nodes=n[1-4]", quote(word)) end
    fields[key:lower()] = value
  end
  return fields
end

local function read_conf(text)
  local all
  local warnings <const> = {}
  for number, line in grammar.lines(text) do
    local fields <const> = fields_of(line:gsub("#.*", "") .. "", number)
    for key, kind in pairs(FORMS) do
      if fields[key] then
        all = all or new_topology(kind)
        if all.kind ~= kind then refuse(number, "a %s in a file of %ss, expected one kind a file", kind, all.kind) end
        add(all, number, fields[key], fields.nodes, fields.switches)
      end
    end
    if fields.linkspeed and #warnings == 0 then
      warnings[1] = ("line %d: LinkSpeed= is not taken for a rate: Slurm does not use it, so nobody keeps it right"):format(number)
    end
  end
  if not all then refuse(nil, "no SwitchName= or BlockName=, expected %s", COMMAND) end
  return facts_of(all, warnings)
end

--- Of topology.yaml: the list of a topology's units, and the names of their fields.
local UNITS <const> = {
  { key = "tree", list = "switches", name = "switch", kind = "tree" }, { key = "block", list = "blocks", name = "block", kind = "block" },
  { key = "ring", list = "rings", name = "ring", kind = "ring" }, { key = "torus3d", list = "toruses", name = "name", kind = "torus" },
}

local function text_of(value) return (type(value) == "string" or type(value) == "number") and tostring(value) or nil end

local function read_topology(topology)
  for _, unit in ipairs(UNITS) do
    local body <const> = topology[unit.key]
    if body ~= nil then
      local all <const> = new_topology(unit.kind)
      local list <const> = type(body) == "table" and body[unit.list]
      if type(list) ~= "table" or #list == 0 then refuse(nil, "%s: no list '%s'", unit.key, unit.list) end
      for i, one in ipairs(list) do
        local name <const> = type(one) == "table" and text_of(one[unit.name])
        if not name then refuse(nil, "%s: %s[%d]: no '%s'", unit.key, unit.list, i, unit.name) end
        add(all, nil, name, text_of(one.nodes), text_of(one.children))
      end
      return all
    end
  end
  return topology.flat ~= nil and new_topology "flat" or nil
end

local function read_yaml(text)
  local documents <const>, why <const> = yaml.read(text)
  if not documents then refuse(nil, "%s", why) end
  local list <const>, warnings <const> = documents[1], {}
  if type(list) ~= "table" or type(list[1]) ~= "table" then
    refuse(nil, "no list of topologies, expected '- topology: NAME' and its kind")
  end
  local chosen
  for _, topology in ipairs(list) do
    if type(topology) == "table" and topology.cluster_default == true then
      if chosen then refuse(nil, "two topologies have cluster_default: true, expected one") end
      chosen = topology
    end
  end
  if not chosen then
    chosen = list[1]
    if #list > 1 then
      warnings[1] = ("no topology has cluster_default: true; '%s' is taken"):format(quote(text_of(chosen.topology) or "the first"))
    end
  end
  local all <const> = read_topology(chosen)
  if not all then refuse(nil, "topology '%s' is none of tree, block, flat, ring, torus3d", quote(text_of(chosen.topology) or "?")) end
  return facts_of(all, warnings)
end

local function is_yaml(text) return ("\n" .. text):find "\n[ \t]*%-%s+topology:%s" ~= nil end

return grammar.reader {
  kind = "slurm-topology", summary = "Slurm's switches or NVLink blocks", command = COMMAND, limit_bytes = 1 << 20,
  sniff = function(text)
    local head <const> = ("\n" .. text):lower()
    for _, key in ipairs { "switchname=", "blockname=", "ringname=" } do
      if head:find("\n[ \t]*" .. key) then return 0.9 end
    end
    return is_yaml(head) and 0.9 or 0
  end,
  read = function(text) return is_yaml(text) and read_yaml(text) or read_conf(text) end,
}
