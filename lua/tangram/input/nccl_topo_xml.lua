--- NCCL's view of a node: NCCL_TOPO_DUMP_FILE, or the partial files for NCCL_TOPO_FILE that clouds ship.
local grammar <const> = require "tangram.input.grammar"
local pcie <const> = require "tangram.input.pcie"

local refuse <const> = grammar.refuse

local COMMAND <const> = "NCCL_TOPO_DUMP_FILE=topo.xml"
local MAX_DEPTH <const>, MAX_GPUS <const>, MAX_NICS <const> = 32, 128, 128
local OTHER_ROOTS <const> = { graphs = "what NCCL_GRAPH_DUMP_FILE writes", nvidia_smi_log = "the output of 'nvidia-smi -q -x'" }

--- What an element is worth keeping: its attributes, and those around it.
local function element(name, attributes, parent, line)
  return { tag = name, parent = parent, line = line, depth = parent and parent.depth + 1 or 1, busid = attributes.busid,
    class = attributes.class or "", speed = attributes.link_speed or "", width = tonumber(attributes.link_width),
    attributes = attributes }
end

--- Elements of the kinds asked for, in the text's order: { pci = {…}, gpu = {…}, nvlink = {…}, net = {…} }.
local function parse(text)
  local there <const>, lxp <const> = pcall(require, "lxp") -- the other readers work without it
  if not there then refuse(nil, "reading XML takes the package lua-expat (apt-get install lua-expat)") end
  local found <const> = { pci = {}, gpu = {}, nvlink = {}, net = {} }
  local now, root
  local parser
  parser = lxp.new {
    StartElement = function(_, name, attributes)
      local line <const> = parser:pos()
      if not root and name ~= "system" then
        refuse(line, "the root is <%s>%s, expected <system> as %s writes it", grammar.quote(name),
          OTHER_ROOTS[name] and ", " .. OTHER_ROOTS[name] or "", COMMAND)
      end
      now = element(name, attributes, now, line)
      root = root or now
      if now.depth > MAX_DEPTH then refuse(line, "elements %d deep, expected at most %d", now.depth, MAX_DEPTH) end
      local list <const> = found[name]
      if list then list[#list + 1] = now end
    end,
    EndElement = function() now = now.parent end,
    StartDoctypeDecl = function() refuse((parser:pos()), "a DOCTYPE, expected none: NCCL writes none") end,
  }
  local _, why, line = parser:parse(text)
  if not why then _, why, line = parser:parse() end
  if why then refuse(line, "no XML: %s", grammar.quote(tostring(why))) end
  return found
end

--- Whether an element is a pci device of a class: "0x0302" for GPUs, "0x02" for network cards.
local function is(one, class) return one.tag == "pci" and one.class:lower():sub(1, #class) == class end

--- The class of the path between two elements of the tree.
local function path_class(a, b)
  local above <const> = {}
  local up, steps = a.parent, 0
  while up do
    above[up], steps, up = steps, steps + 1, up.parent
  end
  local there
  up, there = b.parent, 0
  while up and not above[up] do up, there = up.parent, there + 1 end
  if not up then return "SYS" end
  if up.tag == "pci" then return above[up] == 0 and there == 0 and "PIX" or "PXB" end
  return up.tag == "cpu" and "PHB" or "SYS"
end

local function capability(sm)
  local major <const>, minor <const> = (sm or ""):match "^(%d%d?)(%d)$"
  return major and major .. "." .. minor
end

--- The GPUs: by <gpu dev> in a dump, else by bus id, as the driver numbers them.
local function gpus_of(found)
  local gpus <const>, of <const> = {}, {}
  for _, one in ipairs(found.pci) do
    if is(one, "0x0302") or is(one, "0x0300") then
      of[one] = { pci = one, busid = (one.busid or ""):lower(), links = {}, switched = 0,
        pcie_bytes_per_s = pcie.rate(pcie.generation(one.speed), one.width) }
      gpus[#gpus + 1] = of[one]
    end
  end
  if #gpus > MAX_GPUS then refuse(gpus[MAX_GPUS + 1].pci.line, "more than %d GPUs, expected one node", MAX_GPUS) end
  local dumped = gpus[1] ~= nil
  for _, one in ipairs(found.gpu) do
    local gpu <const> = of[one.parent]
    if gpu then
      gpu.dev, gpu.compute_capability = tonumber(one.attributes.dev), capability(one.attributes.sm)
      gpu.element = one
    end
  end
  for _, gpu in ipairs(gpus) do dumped = dumped and gpu.element ~= nil and gpu.dev ~= nil end
  for i, gpu in ipairs(gpus) do gpu.place = i end
  table.sort(gpus, function(a, b)
    if dumped and a.dev ~= b.dev then return a.dev < b.dev end
    if a.busid ~= b.busid then return a.busid < b.busid end
    return a.place < b.place
  end)
  return gpus, dumped
end

--- Notes each GPU's NVLinks: to GPUs by bus id, or to switches. False if one leads nobody knows where.
local function link_up(found, gpus, warnings)
  local of <const>, by_bus <const> = {}, {}
  for _, gpu in ipairs(gpus) do
    of[gpu.element or false], by_bus[gpu.busid] = gpu, gpu
  end
  local known = true
  for _, one in ipairs(found.nvlink) do
    local gpu <const>, at <const> = of[one.parent], one.attributes
    local class <const>, count <const> = (at.tclass or ""):lower(), math.tointeger(tonumber(at.count))
    if gpu and count and count >= 1 and count <= 99 then
      local peer <const> = by_bus[(at.target or ""):lower()]
      if class:find "^0x0680" then
        gpu.switched = math.min(99, gpu.switched + count)
      elseif peer and peer ~= gpu then
        gpu.links[peer] = math.min(99, (gpu.links[peer] or 0) + count)
      elseif not class:find "^0x06" then -- 0x0600: a CPU, no link between GPUs
        known = false
        warnings[#warnings + 1] = ("line %d: an NVLink to '%s', which is no GPU here (virtual machines hide it): run 'nvidia-smi topo -m'")
          :format(one.line, grammar.quote(at.target or ""))
      end
    end
  end
  return known
end

local function matrix_of(gpus)
  local matrix <const> = {}
  for i, a in ipairs(gpus) do
    matrix[i] = {}
    for j, b in ipairs(gpus) do
      local links <const> = math.max(a.links[b] or 0, b.links[a] or 0, math.min(a.switched, b.switched))
      matrix[i][j] = i == j and "X" or links > 0 and ("NV%d"):format(links) or path_class(a.pci, b.pci)
    end
  end
  return matrix
end

local function affinity_of(one, gpus)
  local classes <const> = {}
  for i, gpu in ipairs(gpus) do classes[i] = path_class(one, gpu.pci) end
  return classes
end

--- The card that a <net> is a port of, and its place in the tree.
local function card_of(net)
  local card <const> = net.parent and net.parent.tag == "nic" and net.parent or net
  return is(card.parent or card, "0x02") and card.parent or card
end

--- Ports with their speed; cards of partial files have none, and a bus id for a name.
local function nics_of(found, gpus, warnings)
  local nics <const>, with_ports <const> = {}, {}
  local function add(card, nic)
    if #nics == MAX_NICS then refuse(card.line, "more than %d network cards, expected one node", MAX_NICS) end
    nic.transport = is(card, "0x0207") and "infiniband" or is(card, "0x0200") and "ethernet" or nil
    nic.affinity = affinity_of(card, gpus)
    nics[#nics + 1] = nic
  end
  for _, net in ipairs(found.net) do
    local card <const>, megabits <const> = card_of(net), tonumber(net.attributes.speed)
    local known <const> = megabits and megabits > 0 and megabits < 1e9
    with_ports[card] = true
    add(card, { name = net.attributes.name or "?", bytes_per_s = known and megabits * 1e6 / 8 or nil, active = true })
  end
  local before <const> = #nics
  for _, card in ipairs(found.pci) do
    if is(card, "0x02") and not with_ports[card] then add(card, { name = card.busid or "?" }) end
  end
  if #nics > before then
    warnings[#warnings + 1] = ("%d network cards without a <net>: their rates stand elsewhere, run 'ibstat'"):format(#nics - before)
  end
  return nics[1] and nics
end

return grammar.reader {
  kind = "nccl-topo-xml",
  summary = "NCCL's topology of a node",
  command = COMMAND,
  limit_bytes = 512 * grammar.KIB,

  sniff = function(text) return text:find "<system[%s>]" and (text:find "<cpu%s" or text:find "<pci%s") and 0.95 or 0 end,

  --- Facts of one node. Only a dump has the matrix: partial files leave NVLink out.
  read = function(text)
    local found <const>, warnings <const> = parse(text), {}
    local gpus <const>, dumped <const> = gpus_of(found)
    if not gpus[1] then refuse(nil, "no GPU (<pci class=\"0x0302..\">), expected the topology of a node, %s", COMMAND) end
    local node <const> = { gpus = grammar.runs(gpus), nics = nics_of(found, gpus, warnings) }
    if not dumped then
      warnings[#warnings + 1] = "a partial file, for NCCL_TOPO_FILE: it leaves NVLink out, run 'nvidia-smi topo -m'"
    elseif link_up(found, gpus, warnings) then
      node.matrix = matrix_of(gpus)
    end
    return { nodes = { node }, warnings = warnings }
  end,
}
