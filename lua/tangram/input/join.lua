--- Joins what several files say about a cluster into one tangram.cluster/1. What no file says is asked for by name, or a stated
--- default with a warning; nothing is guessed from a name that may mean two things.
local core <const> = require "tangram.core"
local cards <const> = require "tangram.input.join_cards"
local cluster <const> = require "tangram.cluster"
local join_measured <const> = require "tangram.input.join_measured"
local join_nodes <const> = require "tangram.input.join_nodes"
local matrix <const> = require "tangram.input.matrix"
local network <const> = require "tangram.input.join_network"
local rates <const> = require "tangram.rates"
local types <const> = require "tangram.input.join_types"
local units <const> = require "tangram.units"

--- Neighbouring runs of one type are one; memory that differs by more than the islands' tolerance keeps them apart.
local function merged_runs(gpus)
  local runs <const> = {}
  for _, one in ipairs(gpus) do
    local last <const> = runs[#runs]
    local near <const> = last and (not (last.memory_bytes and one.memory_bytes)
      or math.abs(last.memory_bytes / one.memory_bytes - 1) < 0.1)
    if last and last.key == one.key and near then
      last.count = last.count + one.count
      last.memory_bytes = last.memory_bytes and one.memory_bytes and math.min(last.memory_bytes, one.memory_bytes)
        or last.memory_bytes or one.memory_bytes
      last.pcie_bytes_per_s = last.pcie_bytes_per_s and one.pcie_bytes_per_s and math.min(last.pcie_bytes_per_s, one.pcie_bytes_per_s)
        or last.pcie_bytes_per_s or one.pcie_bytes_per_s
    else
      runs[#runs + 1] = { key = one.key, count = one.count, memory_bytes = one.memory_bytes, pcie_bytes_per_s = one.pcie_bytes_per_s }
    end
  end
  return runs
end

--- What the names say and what the driver reports should be the same size.
local function check_memory(node, run, device, warnings)
  local usual <const> = device and tonumber(device.memory_bytes)
  if run.memory_bytes and usual and math.abs(run.memory_bytes / usual - 1) > 0.1 then
    warnings[#warnings + 1] = ("node %s: %s has %s by the driver, %s in the catalogue; the driver's is taken"):format(node.name, run.key,
      units.format_bytes(run.memory_bytes), units.format_bytes(usual))
  end
end

--- Without a matrix: the link of the type's board, or PCIe where that has none or is an optional bridge, with a note; a rate
--- only if the driver said how many links are up.
local function taken_for_granted(node, device, notes)
  local up = math.huge
  local nvlink <const> = node.nvlink_bytes_per_s
  for _, rate in ipairs(type(nvlink) == "table" and nvlink or { nvlink }) do up = math.min(up, rate) end
  local linked <const> = device and device.link and not device.bridge and up > 0
  notes[#notes + 1] = { node.name, ("no file says how its GPUs are linked: %s is taken between all of them; 'nvidia-smi topo -m' tells it")
    :format(linked and device.link or "PCIe") }
  if up == math.huge or not device then return nil end -- the catalogue's
  if not linked then return device.pcie_bytes_per_s end
  local by_size <const> = {}
  for _, step in ipairs(rates.to_steps(device.link_bytes_per_s)) do by_size[("%d"):format(step[1])] = math.min(step[2], up) end
  return by_size
end

--- The rates within a node by size of group: what the user says, nccl-tests measured, or the matrix gives; else the catalogue's,
--- with a warning where that takes NVLink between all of them for granted.
local function intra_of(node, runs, told, measured, options, notes)
  local count <const> = node.gpu_count
  if count < 2 then return nil end
  local steps <const> = told.within[node.name] or told.inside
  if steps then return rates.from_steps(steps) end
  local device <const> = types.device(runs[1].key, options)
  local found = {}
  if node.matrix and #node.matrix == count then
    local doubt <const> = #runs == 1 and matrix.doubt(node.matrix, device)
    if doubt then
      return nil, ("%s: node %s: %s (or give the rate: --bytes-per-s %s=RATE)"):format(node.matrix_from.path, node.name, doubt, node.name)
    end
    local slowest
    for _, run in ipairs(runs) do
      local own <const> = types.device(run.key, options)
      local pcie <const> = run.pcie_bytes_per_s or own and tonumber(own.pcie_bytes_per_s)
      slowest = slowest and pcie and math.min(slowest, pcie) or slowest or pcie
    end
    found = matrix.rates(node.matrix, device, node.nvlink_bytes_per_s, slowest) or found
  elseif node.matrix then
    notes[#notes + 1] = { node.name, ("the matrix in %s has %d GPUs, not %d, and is not used"):format(node.matrix_from.path,
      #node.matrix, count) }
  end
  for size, rate in pairs(measured or {}) do found[size] = rate end
  if next(found) then
    local by_size <const> = {}
    for size, rate in pairs(found) do by_size[("%d"):format(size)] = rate end
    return by_size
  end
  return taken_for_granted(node, device, notes)
end

--- One line for all nodes of which the same is noted.
local function add_notes(warnings, notes)
  local order <const>, nodes_of <const> = {}, {}
  for _, note in ipairs(notes) do
    if not nodes_of[note[2]] then
      nodes_of[note[2]] = {}
      order[#order + 1] = note[2]
    end
    table.insert(nodes_of[note[2]], note[1])
  end
  for _, text in ipairs(order) do
    warnings[#warnings + 1] = ("node%s %s: %s"):format(#nodes_of[text] > 1 and "s" or "", types.listed(nodes_of[text]), text)
  end
end

--- The names of the files that tell of a node, without folders: plans hold no path.
local function files_of(node)
  local names <const>, seen <const> = {}, {}
  for _, part in ipairs(node.parts) do
    local name <const> = part.source.path:match "[^/]+$" or part.source.path
    if not seen[name] then names[#names + 1] = name end
    seen[name] = true
  end
  return table.concat(names, ", ")
end

local function node_entry(node, told, measured, options, warnings, notes)
  local runs <const> = merged_runs(node.gpus)
  for _, run in ipairs(runs) do
    local device <const> = types.device(run.key, options)
    check_memory(node, run, device, warnings)
    -- links that reach past the node (GB200): which nodes share them, labels or Slurm's blocks tell
    if device and (device.link or ""):find "domain" then node.domain_bytes_per_s = device.link_bytes_per_s end
  end
  local entry <const> = { name = node.name, nics = node.card_names[1] and node.card_names, source = files_of(node) }
  local why
  entry.intra_bytes_per_s, why = intra_of(node, runs, told, measured.within[node.name], options, notes)
  if why then return nil, why end
  if #runs == 1 then
    entry.gpu, entry.gpus = runs[1].key, runs[1].count
    entry.memory_bytes, entry.pcie_bytes_per_s = runs[1].memory_bytes, runs[1].pcie_bytes_per_s
  else
    entry.gpus = {}
    for i, run in ipairs(runs) do
      entry.gpus[i] = { gpu = run.key, count = run.count, memory_bytes = run.memory_bytes, pcie_bytes_per_s = run.pcie_bytes_per_s }
    end
  end
  return entry
end

--- Says which nodes are left out, those of one reason in one line.
local function say_left_out(nodes, warnings)
  local notes <const> = {}
  for _, node in ipairs(nodes) do
    if node.left_out then notes[#notes + 1] = { node.name, "left out: " .. node.left_out } end
  end
  add_notes(warnings, notes)
end

--- The nodes that the user chose, in the files' order; else the first name that no file has.
local function only_these(nodes, names, one_name)
  local chosen <const>, kept <const> = {}, {}
  for _, name in ipairs(names) do chosen[one_name[name] or name] = name end
  for _, node in ipairs(nodes) do
    if chosen[node.name] then kept[#kept + 1] = node end
    chosen[node.name] = nil
  end
  for _, name in ipairs(names) do
    if chosen[one_name[name] or name] then return nil, name end
  end
  return kept
end

--- What is wrong if an option names a node that no file has. Rates within nodes get the nodes' one names.
local function unknown_name(nodes, one_name, keep, told)
  local known <const>, names <const> = {}, {}
  for i, node in ipairs(nodes) do known[node.name], names[i] = true, node.name end
  local function check(option, name)
    if known[one_name[name] or name] then return nil end
    local near <const> = core.nearest(name, names)
    return ("%s: no file names a node '%s'%s"):format(option, name, near and (" (did you mean '%s'?)"):format(near) or "")
  end
  for _, name in ipairs(keep) do
    local why <const> = check("--include", name)
    if why then return why end
  end
  for _, place in ipairs(told.places) do
    local why <const> = check("--bytes-per-s", place)
    if why then return why .. "; other places are inside, leaf, spine, block" end
  end
end

local MOST_NODES <const> = 4096 -- the engine keeps a link for each two

local join <const> = {}

--- Where the type of each kind of GPU was read, for the cluster's `source`.
local function sources_of(nodes)
  local paths <const> = {}
  for _, node in ipairs(nodes) do
    for _, run in ipairs(node.gpus) do
      local path <const> = run.named_by and run.named_by.path:match "[^/]+$"
      paths[run.key] = paths[run.key] or path
    end
  end
  return paths
end

--- The full description of the cluster that the files tell of.
---@param sources table[] each { path, facts, node = nil|"NAME of --node" }
---@param options table? gpu_types = { [label in lower case] = key }, own = GPU types that the catalogue lacks,
---  bytes_per_s = list of what --bytes-per-s says, keep = nodes to plan with whatever their state, only = the nodes to plan with
---@return table? description of `cluster.describe`
---@return string|string[] why, or the warnings
function join.cluster(sources, options)
  local given <const> = options or {}
  local own <const>, refusal <const> = types.read_own(given.own or {})
  if not own then return nil, refusal end
  options = { gpu_types = given.gpu_types or {}, own = own }
  local told <const>, wrong <const> = network.read_options(given.bytes_per_s or {})
  if not told then return nil, wrong end
  local warnings <const>, keep <const> = {}, {}
  for _, name in ipairs(given.keep or {}) do keep[name] = true end
  for i, source in ipairs(sources) do
    source.index = i
    for _, warning in ipairs(source.facts.warnings) do warnings[#warnings + 1] = ("%s: %s"):format(source.path, warning) end
  end
  local all, one_name <const> = join_nodes(sources, options.gpu_types, keep, warnings)
  if not all then return nil, one_name end
  local unknown <const> = unknown_name(all, one_name, given.keep or {}, told)
  if unknown then return nil, unknown end
  if given.only then
    local missing
    all, missing = only_these(all, given.only, one_name)
    if missing then return nil, ("--only: no file names a node '%s'"):format(missing) end
  end
  say_left_out(all, warnings)
  local nodes <const> = {}
  for _, node in ipairs(all) do
    if not node.left_out then nodes[#nodes + 1] = node end
  end
  if #nodes == 0 then
    return nil, "no node with GPUs is left: " .. (warnings[1] and table.concat(warnings, "; ") or "no file names one")
  end
  if #nodes > MOST_NODES then
    return nil, ("%d nodes, expected at most %d; choose some by --only 'a[1-64]'"):format(#nodes, MOST_NODES)
  end
  local typed <const>, ask <const> = types.resolve(nodes, options, warnings)
  if not typed then return nil, ask end
  local input <const>, notes <const> = { format = "tangram.cluster/1", nodes = {}, gpus = next(options.own) and options.own }, {}
  for _, node in ipairs(nodes) do
    cards.choose(node, notes)
    node.gpu_count = 0
    for _, run in ipairs(node.gpus) do node.gpu_count = node.gpu_count + run.count end
  end
  local measured <const> = join_measured(sources, one_name, nodes, warnings)
  for i, node in ipairs(nodes) do
    local entry <const>, why <const> = node_entry(node, told, measured, options, warnings, notes)
    if not entry then return nil, why end
    input.nodes[i] = entry
  end
  add_notes(warnings, notes)
  local why
  input.network, why = network.of(nodes, sources, one_name, told, measured, warnings)
  if not input.network and #nodes > 1 then return nil, why end
  local ok <const>, description <const> = pcall(cluster.describe, input, "the joined cluster")
  if not ok then return nil, tostring(description) end
  for key, path in pairs(sources_of(nodes)) do
    local record <const> = description.gpus[key]
    if record then record.source = ("%s; type by %s"):format(record.source or "figures given", path) end
  end
  return description, warnings
end

return join
