--- From what people write about a cluster (a recipe's table or tangram.cluster/1) to a full description, and on to the engine.
local core <const> = require "tangram.core"
local catalog <const> = require "tangram.catalog"
local rates <const> = require "tangram.rates"
local schema <const> = require "tangram.schema"
local sorted_keys <const> = require "tangram.sorted_keys"
local units <const> = require "tangram.units"

local cluster <const> = {}

local FORMAT <const> = "tangram.cluster/1"
local to_steps <const>, from_steps <const> = rates.to_steps, rates.from_steps

local function checked(read)
  return function(value)
    local result <const>, expected <const> = read(value)
    return not result and expected or nil
  end
end

local function above_zero(read)
  return function(value)
    local result <const>, expected <const> = read(value)
    return result and result > 0 and result or nil, expected or "a number above 0"
  end
end

local READ <const> = {
  bf16_flops = above_zero(units.flops), fp16_flops = above_zero(units.flops), fp8_flops = above_zero(units.flops),
  fp32_flops = above_zero(units.flops), memory_bytes = above_zero(units.bytes),
  memory_bytes_per_s = above_zero(units.bytes_per_s), pcie_bytes_per_s = above_zero(units.bytes_per_s),
}

local function quantity(name, doc) return { type = "any", check = checked(READ[name]), doc = doc } end
local function rate_field(doc) return { type = "any", check = checked(to_steps), doc = doc } end
local function latency_field(doc) return { type = "any", check = checked(units.seconds), doc = doc } end

local FIGURES <const> = {
  bf16_flops = quantity("bf16_flops", "dense BF16 FLOP/s of one GPU; none: not supported"),
  fp16_flops = quantity("fp16_flops", "dense FP16 FLOP/s of one GPU"),
  fp8_flops = quantity("fp8_flops", "dense FP8 FLOP/s of one GPU; none: not supported"),
  fp32_flops = quantity("fp32_flops", "FP32 FLOP/s of one GPU"),
  memory_bytes = quantity("memory_bytes", "memory of one GPU"),
  memory_bytes_per_s = quantity("memory_bytes_per_s", "memory bandwidth of one GPU"),
  pcie_bytes_per_s = quantity("pcie_bytes_per_s", "PCIe of one GPU, one direction"),
}

--- The figures of GPUs, which a GPU type, a node or one kind of a node's GPUs may give.
cluster.figures = FIGURES

local function with_figures(fields)
  for name, field in pairs(FIGURES) do fields[name] = field end
  return fields
end

local GPU <const> = with_figures {
  vendor = { type = "string", doc = "who makes it" },
  arch = { type = "string", doc = "generation, 'Ampere': decides about flash attention and constants of cost models" },
  compute_capability = { type = "string", doc = "as the vendor numbers it" },
  names = { type = "list", item = { type = "string" }, doc = "names that drivers print" },
  key = { type = "string", doc = "name in the catalogue" },
  link = { type = "string", doc = "kind of link between the GPUs of a node" },
  link_bytes_per_s = rate_field "link of one GPU, one direction, or by size of group",
  bridge = { type = "boolean", doc = "the link is an optional bridge between pairs" },
  constants = { type = "table", doc = "for cost models" },
  source = { type = "string", doc = "where the figures come from" },
  notes = { type = "string", doc = "what to know about it" },
}

local KIND <const> = with_figures {
  gpu = { type = "string", required = true, doc = "GPU type" },
  count = { type = "integer", min = 1, required = true, doc = "GPUs of this type" },
}

local NODE <const> = with_figures {
  name = { type = "string", required = true, check = function(name) return name == "" and "a name" or nil end,
    doc = "name of the node" },
  count = { type = "integer", min = 1, max = 4096, doc = "so many alike: NAME-1, NAME-2, …" },
  gpu = { type = "string", doc = "GPU type, a key of the catalogue or of 'gpus'" },
  gpus = { required = true, doc = "GPUs of the node; several types as a list, in the order of the GPUs' indices",
    any_of = { { type = "integer", min = 1 }, { type = "list", item = { type = "table", fields = KIND }, min = 1 } } },
  intra_bytes_per_s = rate_field "between the GPUs of the node, or by size of group",
  intra_latency_s = latency_field "of a transfer between GPUs of the node",
  source = { type = "string", doc = "where the node's figures come from" },
  nics = { type = "list", item = { type = "string" }, doc = "devices that carry traffic to other nodes, as mlx5_0: for launch scripts" },
}

local LINK_FIELDS <const> = {
  bytes_per_s = { type = "any", required = true, check = checked(to_steps), doc = "in all, or by concurrent flows" },
  latency_s = latency_field "of a transfer",
  source = { type = "string", doc = "where the rate comes from" },
}
local LINK <const> = { bytes_per_s = LINK_FIELDS.bytes_per_s, latency_s = LINK_FIELDS.latency_s, source = LINK_FIELDS.source,
  between = { type = "list", item = { type = "string" }, min = 2, max = 2, required = true,
    doc = "two nodes; the name of a node with a count stands for all of them" } }

--- The fields of a cluster, for help texts and the check of inputs.
cluster.fields = {
  format = { type = "enum", values = { FORMAT }, doc = "in files" },
  nodes = { type = "list", item = { type = "table", fields = NODE }, min = 1, required = true, doc = "the nodes" },
  network = { type = "table", doc = "links between the nodes", fields = {
    default = { type = "table", fields = LINK_FIELDS, doc = "between nodes that no link names" },
    links = { type = "list", item = { type = "table", fields = LINK }, doc = "symmetric links" },
  } },
  gpus = { type = "map", item = { type = "table", fields = GPU }, doc = "types that the catalogue lacks or has otherwise" },
}

local function read_figures(from, to)
  for name, read in pairs(READ) do
    if from[name] ~= nil then to[name] = read(from[name]) end
  end
end

--- A GPU's record as a file has it: the catalogue's figures, then the user's over them.
local function gpu_record(own, known)
  local record <const> = {}
  for name in pairs(GPU) do record[name] = known and known[name] end
  for name, value in pairs(own or {}) do record[name] = value end
  read_figures(own or {}, record)
  if record.link_bytes_per_s then record.link_bytes_per_s = from_steps(to_steps(record.link_bytes_per_s)) end
  if own and own.link_bytes_per_s then record.bridge = own.bridge end
  record.names, record.notes, record.key = nil, nil, nil
  return record
end

--- Compute capacity: the larger of the 16-bit rates (DESIGN.md, section 3), else FP8.
---@param record table
---@return number?
function cluster.compute_flops(record)
  local sixteen <const> = math.max(record.bf16_flops or 0, record.fp16_flops or 0)
  return sixteen > 0 and sixteen or record.fp8_flops
end

--- Adds the record of a node's GPU type to the description, and gives its name there.
local function resolve_gpu(name, own, gpus, where)
  local known <const>, why <const> = catalog.find_gpu(name)
  local key <const> = own[name] and name or known and known.key
  if not key then
    local near <const> = core.nearest(name, sorted_keys(own))
    schema.raise("%s: gpu: %s%s", where, why, near and (" (did you mean '%s'?)"):format(near) or "")
  end
  gpus[key] = gpus[key] or gpu_record(own[key], known and known.key == key and known or nil)
  return key
end

local function check_record(record, where)
  if not cluster.compute_flops(record) then
    schema.raise("%s: bf16_flops, fp16_flops or fp8_flops: missing, expected at least one", where)
  end
  if not record.memory_bytes then schema.fail(where .. ": memory_bytes", nil, READ.memory_bytes(nil) or "bytes such as '80 GiB'") end
end

--- The record of GPUs of a node: its type's, with what the node says over it.
---@param description table of `cluster.describe`
---@param node table one of its nodes
---@param kind table one of the node's kinds
function cluster.record_of(description, node, kind)
  local record <const> = {}
  for name, value in pairs(description.gpus[kind.gpu]) do record[name] = value end
  for name in pairs(FIGURES) do record[name] = kind[name] or node[name] or record[name] end
  return record
end

--- The kinds of GPUs of a described node, each with gpu and count.
function cluster.kinds_of(node)
  return type(node.gpus) == "table" and node.gpus or { { gpu = node.gpu, count = node.gpus } }
end

--- One node with the catalogue's figures; gpus: the description's records.
local function resolve_node(node, own, gpus, where)
  local full <const> = { name = node.name }
  read_figures(node, full)
  if type(node.gpus) == "table" then
    if node.gpu then schema.raise("%s: gpu: names one type, but gpus lists several, expected one of the two", where) end
    full.gpus = core.array {}
    for k, kind in ipairs(node.gpus) do
      local one <const> = { gpu = resolve_gpu(kind.gpu, own, gpus, ("%s: gpus[%d]"):format(where, k)), count = kind.count }
      read_figures(kind, one)
      full.gpus[k] = one
    end
  else
    if not node.gpu then schema.fail(where .. ": gpu", nil, "a GPU type") end
    full.gpu, full.gpus = resolve_gpu(node.gpu, own, gpus, where), node.gpus
  end
  local slowest
  for _, kind in ipairs(cluster.kinds_of(full)) do
    local record <const> = cluster.record_of({ gpus = gpus }, full, kind)
    check_record(record, where)
    local rate <const> = catalog.intra(record)
    local steps <const> = rate and to_steps(rate)
    -- GPUs of different types talk as fast as the slower type does
    if steps and (not slowest or steps[1][2] < slowest[1][2]) then slowest = steps end
  end
  local intra <const> = node.intra_bytes_per_s and to_steps(node.intra_bytes_per_s) or slowest
  if not intra then schema.fail(where .. ": intra_bytes_per_s", nil, "the rate between its GPUs: its type has no link") end
  full.intra_bytes_per_s = from_steps(intra)
  full.nics, full.source = node.nics, node.source
  full.intra_latency_s = units.seconds(node.intra_latency_s or catalog.links.intra_latency_s)
  return full
end

local function resolve_wire(wire)
  return { bytes_per_s = from_steps(to_steps(wire.bytes_per_s)), source = wire.source,
    latency_s = units.seconds(wire.latency_s or catalog.links.inter_latency_s) }
end

--- Names that a node stands for: itself, or its copies.
local function copies(node)
  local names <const> = {}
  for i = 1, node.count or 1 do names[i] = node.count and ("%s-%d"):format(node.name, i) or node.name end
  return names
end

local function resolve_links(links, copies_of, where)
  local full <const>, all <const> = core.array {}, sorted_keys(copies_of)
  for l, link in ipairs(links) do
    local place <const> = ("%s: network: links[%d]: between"):format(where, l)
    local ends <const> = {}
    for e, name in ipairs(link.between) do
      ends[e] = copies_of[name] or schema.fail(place, name, "the name of a node", core.nearest(name, all))
    end
    for i, a in ipairs(ends[1]) do
      for j, b in ipairs(ends[2]) do
        if not (ends[1] == ends[2] and j <= i and #ends[1] > 1) then
          local wire <const> = resolve_wire(link)
          wire.between = core.array { a, b }
          full[#full + 1] = wire
        end
      end
    end
  end
  return full
end

--- The whole description of a cluster, every node by itself and the catalogue's figures filled in: a tangram.cluster/1 table,
--- ready for core.json_encode, that describes itself when read again. Raises one line, "where: field: …".
---@param input table what a recipe or a file says
---@param where string? what the input is, for errors: "cluster.json"
---@return table description
function cluster.describe(input, where)
  where = where or "cluster"
  local given <const> = schema.check(input, cluster.fields, where)
  local own <const> = given.gpus or {}
  local full <const> = { format = FORMAT, nodes = core.array {}, network = {}, gpus = {} }
  local copies_of <const> = {}
  for n, node in ipairs(given.nodes) do
    local place <const> = ("%s: nodes[%d] '%s'"):format(where, n, node.name)
    local names <const> = copies(node)
    if copies_of[node.name] then schema.raise("%s: name: two nodes have this name", place) end
    copies_of[node.name] = names
    for _, name in ipairs(names) do
      local one <const> = resolve_node(node, own, full.gpus, place)
      one.name = name
      if name ~= node.name and copies_of[name] then schema.raise("%s: name: two nodes are '%s'", place, name) end
      copies_of[name] = copies_of[name] or { name }
      full.nodes[#full.nodes + 1] = one
    end
  end
  local network <const> = given.network or {}
  full.network.default = network.default and resolve_wire(network.default)
  full.network.links = network.links and resolve_links(network.links, copies_of, where)
  return full
end

--- The description without some nodes and their links. Raises for a name that is not there, and if nothing is left.
---@param description table of `cluster.describe`
---@param names string[]
---@return table description
function cluster.without(description, names)
  local out <const>, known <const> = {}, {}
  for i, node in ipairs(description.nodes) do known[i] = node.name end
  for _, name in ipairs(names) do
    for _, node in ipairs(description.nodes) do out[name] = out[name] or node.name == name or nil end
    if not out[name] then schema.fail("exclude", name, "the name of a node", core.nearest(name, known)) end
  end
  local rest <const> = { format = FORMAT, nodes = core.array {}, network = { default = description.network.default },
    gpus = description.gpus }
  for _, node in ipairs(description.nodes) do
    if not out[node.name] then rest.nodes[#rest.nodes + 1] = node end
  end
  if #rest.nodes == 0 then error("exclude: leaves no node, expected at least one", 0) end
  for _, link in ipairs(description.network.links or {}) do
    if not out[link.between[1]] and not out[link.between[2]] then
      rest.network.links = rest.network.links or core.array {}
      rest.network.links[#rest.network.links + 1] = link
    end
  end
  return cluster.describe(rest)
end

--- A description as tangram.cluster/1 text.
---@param description table
---@return string
function cluster.to_json(description)
  return core.json_encode(description, { "format", "nodes", "network", "name", "gpu", "gpus", "count", "between",
    "bytes_per_s", "latency_s" })
end

local function engine_wire(wire, between)
  return { bytes_per_s = to_steps(wire.bytes_per_s), latency_s = wire.latency_s, between = between }
end

--- The engine's cluster.
---@param description table of `cluster.describe`
---@param cut_nodes integer? nodes of more GPUs, a multiple of it, are cut into parts of so many
---@return userdata? core_cluster
---@return string? why
function cluster.build(description, cut_nodes)
  local input <const> = { nodes = {}, links = {} }
  for n, node in ipairs(description.nodes) do
    local kinds <const> = {}
    for k, kind in ipairs(cluster.kinds_of(node)) do
      local record <const> = cluster.record_of(description, node, kind)
      kinds[k] = { gpu = kind.gpu, count = kind.count, compute_flops = cluster.compute_flops(record),
        memory_bytes = record.memory_bytes, facts = core.json_encode(record) }
    end
    input.nodes[n] = { name = node.name, gpus = kinds, intra_bytes_per_s = to_steps(node.intra_bytes_per_s),
      intra_latency_s = node.intra_latency_s }
  end
  input.default = description.network.default and engine_wire(description.network.default)
  for l, link in ipairs(description.network.links or {}) do input.links[l] = engine_wire(link, link.between) end
  local built <const>, why <const> = core.cluster(input)
  if built and cut_nodes then return built:cut(cut_nodes) end
  return built, why
end

return cluster
