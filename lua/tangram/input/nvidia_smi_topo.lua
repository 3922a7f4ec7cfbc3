--- `nvidia-smi topo -m`: how the GPUs of one node and its network cards are linked. Other output in the same paste does no
--- harm: shell prompts, legends, a p2p matrix; a list of the GPUs (csv) is read along.
local lpeg <const> = require "lpeg"
local csv <const> = require "tangram.input.nvidia_smi_csv"
local grammar <const> = require "tangram.input.grammar"
local grid <const> = require "tangram.input.grid"

local P <const>, R <const>, C <const> = lpeg.P, lpeg.R, lpeg.C
local spaces <const>, refuse <const> = grammar.spaces, grammar.refuse

local COMMAND <const> = "nvidia-smi topo -m"

local class <const> = (P "NV" * R "19" * R "09" ^ -1 + "PIX" + "PXB" + "PHB" + "NODE" + "SYS" + "N/A") * -1
local p2p <const> = (P "OK" + "CNS" + "GNS" + "TNS" + "NS" + "DR" + "U") * -1
local nic_name <const> = (spaces * "#") ^ -1 * spaces * C(P "NIC" * R "09" ^ 1) * spaces * ":" * spaces * grammar.token

--- Whether some cell of a matrix is one that matches.
local function has(one, pattern)
  for _, name in ipairs(one.devices) do
    for _, cell in ipairs(one.rows[name] and one.rows[name].cells or {}) do
      if pattern:match(cell) then return true end
    end
  end
  return false
end

--- Matrices of classes and of `topo -p2p`. One GPU alone has an X and no class.
local function sort_out(grids)
  local classes <const>, peers <const> = {}, {}
  for _, one in ipairs(grids) do
    if has(one, p2p) then peers[#peers + 1] = one
    elseif has(one, class) or has(one, P "X" * -1) then classes[#classes + 1] = one end
  end
  return classes, peers
end

--- What the shell's prompt above a matrix says: the option of `nvidia-smi topo`, and its line.
local function typed_option(text, before)
  local found, at
  for number, line in grammar.lines(text) do
    if number >= before then break end
    local option <const> = line:match "nvidia%-smi%s+topo%s+(%-%S+)"
    if option then found, at = option, number end
  end
  return found, at
end

local function choose(text, grids)
  local classes <const>, peers <const> = sort_out(grids)
  local one <const> = classes[1]
  if one then
    local option <const>, at <const> = typed_option(text, one.line)
    if option == "-mp" or option == "--matrix_pci" then
      refuse(at, "'topo %s' shows PCIe alone and hides NVLink, run '%s'", option, COMMAND)
    end
    return one, classes[2]
  end
  if peers[1] then
    refuse(peers[1].line, "a matrix of 'topo -p2p', which says what can reach what, not how fast; run '%s'", COMMAND)
  end
  if grids[1] then refuse(grids[1].line, "a header and no rows of classes, expected the whole output of '%s'", COMMAND) end
  local number <const>, line <const> = grammar.lines(text)()
  if not number then refuse(nil, "no text, expected the output of '%s'", COMMAND) end
  refuse(number, "'%s' and no header 'GPU0 GPU1 ...' below, expected the output of '%s'", grammar.quote(line), COMMAND)
end

local function matrix_of(one, gpus, warnings)
  local matrix <const>, unknown <const> = grid.square(one, gpus, class, "X", COMMAND), {}
  for i, row in ipairs(matrix) do
    for j, cell in ipairs(row) do
      if cell == "N/A" then
        row[j] = "SYS"
        if i < j then unknown[#unknown + 1] = gpus[i] .. "-" .. gpus[j] end
      end
    end
  end
  if unknown[1] then
    warnings[#warnings + 1] = ("line %d: %s N/A, taken as the slowest, SYS"):format(one.line, table.concat(unknown, ", "))
  end
  return matrix
end

--- The legend's names of cards: NIC0: mlx5_0.
local function legend_of(text)
  local names <const> = {}
  for _, line in grammar.lines(text) do
    local nic <const>, own <const> = nic_name:match(line)
    if nic then names[nic] = own end
  end
  return names
end

local function nics_of(one, gpus, names, warnings)
  local nics <const>, missing <const> = {}, {}
  for _, name in ipairs(one.devices) do
    if not grid.gpu:match(name) then
      local affinity <const> = {}
      for i, gpu in ipairs(gpus) do
        local row <const> = one.rows[gpu]
        local cell <const> = row.cells[one.index[name]] or ""
        if not class:match(cell) then
          refuse(row.line, "%s to %s is '%s', expected what '%s' prints: was the line cut or wrapped?", gpu, grammar.quote(name),
            grammar.quote(cell), COMMAND)
        end
        affinity[i] = cell ~= "N/A" and cell or nil
      end
      nics[#nics + 1] = { name = names[name] or name, affinity = affinity }
      if not one.rows[name] then missing[#missing + 1] = name end
    end
  end
  if missing[1] then
    warnings[#warnings + 1] = ("line %d: no rows %s, was the end cut off? (the rows of the GPUs say all that is needed)"):format(
      one.line, grammar.quote(table.concat(missing, ", ")))
  end
  return nics[1] and nics
end

--- A list of the same GPUs in the same paste, or their number alone.
local function gpus_of(text, count, warnings)
  local listed <const> = csv.find(text, { with_header = true }, warnings)
  if listed and #listed.all == count then return listed.gpus end
  if listed then
    warnings[#warnings + 1] = ("line %d: the list names %d whole GPUs, the matrix %d: the list is not used"):format(listed.line,
      #listed.all, count)
  end
  return { { count = count } }
end

return grammar.reader {
  kind = "nvidia-smi-topo",
  summary = "links between the GPUs and network cards of a node",
  command = COMMAND,

  sniff = function(text)
    local classes <const> = sort_out(grid.all(text))
    return classes[1] and 0.95 or text:find "nvidia%-smi%s+topo%s+%-%-?m" and 0.6 or 0
  end,

  --- Facts of one node: matrix, nics with their class to each GPU. NUMA ids are labels and are not read.
  read = function(text)
    local one <const>, second <const> = choose(text, grid.all(text))
    local warnings <const>, gpus <const> = {}, grid.gpus(one)
    local node <const> = { matrix = matrix_of(one, gpus, warnings) }
    node.nics = nics_of(one, gpus, legend_of(text), warnings)
    if second then
      warnings[#warnings + 1] = ("line %d: a second matrix is not read, expected one node a file"):format(second.line)
    end
    node.gpus = gpus_of(text, #gpus, warnings)
    return { nodes = { node }, warnings = warnings }
  end,
}
