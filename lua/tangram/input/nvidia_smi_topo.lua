--- `nvidia-smi topo -m`: how the GPUs of one node and its network cards are linked. Other output in the same paste does no
--- harm: shell prompts, legends, a p2p matrix; a list of the GPUs (csv) is read along.
local lpeg <const> = require "lpeg"
local csv <const> = require "tangram.input.nvidia_smi_csv"
local grammar <const> = require "tangram.input.grammar"

local P <const>, R <const>, S <const>, C <const>, Ct <const> = lpeg.P, lpeg.R, lpeg.S, lpeg.C, lpeg.Ct
local spaces <const>, refuse <const> = grammar.spaces, grammar.refuse

local COMMAND <const> = "nvidia-smi topo -m"
--- More than any node has; the matrix grows with the square.
local MAX_DEVICES <const> = 256

local stop <const> = #S " \t" + -1
local gpu <const> = C(P "GPU" * R "09" ^ 1) * stop
local nvlink <const> = P "NV" * R "19" * R "09" ^ -1
local class <const> = C(nvlink + P "X" + "PIX" + "PXB" + "PHB" + "NODE" + "SYS" + "N/A") * stop
--- What `topo -p2p` prints in place of classes.
local p2p <const> = (P "OK" + "CNS" + "GNS" + "TNS" + "NS" + "DR" + "U") * stop
local affinity <const> = P "CPU Affinity" + "NUMA Affinity" + "GPU NUMA ID"
local comment <const> = (spaces * "#") ^ -1 * spaces
local device <const> = -affinity * -class * -p2p * C(R("az", "AZ") * (1 - S " \t,=:(") ^ 0) * stop

local header <const> = Ct(comment * #(P "GPU0" * stop) * gpu * (spaces * device) ^ 0) * spaces * (#affinity + -1)
local row_start <const> = comment * device * spaces
local cells <const> = Ct((class * spaces) ^ 0) * lpeg.Cp()
local nic_name <const> = comment * C(P "NIC" * R "09" ^ 1) * spaces * ":" * spaces * grammar.token

--- Cells of p2p matrices and of -m ones differ in all but X, so that one beside the diagonal tells.
local function is_p2p(line) return (row_start * (P "X" * stop * spaces) ^ -1 * p2p):match(line) ~= nil end

--- All matrices of the text, each { line, devices, index = { [device] = i }, rows = { [device] = { line, cells } } }; and the
--- names that a legend gives to cards.
local function blocks_of(text)
  local blocks <const>, names <const> = {}, {}
  for number, line in grammar.lines(text) do
    local devices <const> = header:match(line)
    local block <const> = blocks[#blocks]
    if devices then
      if #devices > MAX_DEVICES then
        refuse(number, "%d devices, expected at most %d in one node", #devices, MAX_DEVICES)
      end
      local index <const> = {}
      for i, name in ipairs(devices) do
        if index[name] then refuse(number, "'%s' stands twice in the header", grammar.quote(name)) end
        index[name] = i
      end
      blocks[#blocks + 1] = { line = number, devices = devices, index = index, rows = {} }
    elseif block then
      local name <const>, from <const> = (row_start * lpeg.Cp()):match(line)
      if name and block.index[name] then
        if is_p2p(line) then
          block.p2p = true
        elseif block.rows[name] then
          refuse(number, "a second row '%s', expected one matrix of one node a file", grammar.quote(name))
        else
          block.rows[name] = { line = number, cells = cells:match(line, from), text = line }
        end
      end
      local nic <const>, own <const> = nic_name:match(line)
      if nic then names[nic] = own end
    end
  end
  return blocks, names
end

--- The command line that a matrix was pasted with, if any, and where.
local function typed_command(text, before)
  local found, at
  for number, line in grammar.lines(text) do
    if number >= before then break end
    local option <const> = line:match "nvidia%-smi%s+topo%s+(%-%S+)"
    if option then found, at = option, number end
  end
  return found, at
end

local function choose(text, blocks)
  local chosen, seen_p2p
  for _, block in ipairs(blocks) do
    if block.p2p then
      seen_p2p = seen_p2p or block
    elseif next(block.rows) then
      chosen = chosen or block
    end
  end
  if chosen then
    local option <const>, at <const> = typed_command(text, chosen.line)
    if option == "-mp" or option == "--matrix_pci" then
      refuse(at, "'topo %s' shows PCIe alone and hides NVLink, run '%s'", option, COMMAND)
    end
    return chosen
  end
  if seen_p2p then
    refuse(seen_p2p.line, "a matrix of 'topo -p2p', which says what can reach what, not how fast; run '%s'", COMMAND)
  end
  if blocks[1] then refuse(blocks[1].line, "a header without rows, expected the whole output of '%s'", COMMAND) end
  local number <const>, line <const> = grammar.lines(text)()
  refuse(number or 1, "'%s' and no header 'GPU0 GPU1 ...' below, expected the output of '%s'", grammar.quote(line or ""), COMMAND)
end

local function gpus_of(block)
  local gpus <const> = {}
  for _, name in ipairs(block.devices) do
    if gpu:match(name) then gpus[#gpus + 1] = name end
  end
  return gpus
end

--- The class between two devices by the row of the first.
local function cell(block, row, column) return block.rows[row].cells[block.index[column]] end

local function check_gpu_rows(block, gpus)
  for _, name in ipairs(gpus) do
    local row <const> = block.rows[name]
    if not row then
      refuse(block.line, "no row '%s' below, expected the whole output of '%s'", name, COMMAND)
    end
    if #row.cells < #block.devices then
      refuse(row.line, "row %s has %d classes (X, NV#, PIX, PXB, PHB, NODE, SYS), expected %d: was the line cut or wrapped?",
        name, #row.cells, #block.devices)
    end
    for _, other in ipairs(gpus) do
      local here <const> = cell(block, name, other)
      if (here == "X") ~= (name == other) then
        refuse(row.line, "%s to %s is '%s', expected X on the diagonal and there alone", name, other, here)
      end
    end
  end
end

--- The classes among the GPUs; it must be the same there and back.
local function matrix_of(block, gpus, warnings)
  local matrix <const>, unknown <const> = {}, {}
  for i, name in ipairs(gpus) do
    matrix[i] = {}
    for j, other in ipairs(gpus) do
      local there <const>, back <const> = cell(block, name, other), cell(block, other, name)
      if there ~= back then
        refuse(block.rows[name].line, "%s to %s is %s, but %s to %s is %s; expected the same both ways", name, other, there, other,
          name, back)
      end
      if there == "N/A" and i < j then unknown[#unknown + 1] = name .. "-" .. other end
      matrix[i][j] = there == "N/A" and "SYS" or there
    end
  end
  if unknown[1] then
    warnings[#warnings + 1] = ("line %d: %s N/A, taken as the slowest, SYS"):format(block.line, table.concat(unknown, ", "))
  end
  return matrix
end

local function nics_of(block, gpus, names, warnings)
  local nics <const>, missing <const> = {}, {}
  for _, name in ipairs(block.devices) do
    if not gpu:match(name) then
      local classes <const> = {}
      for i, one in ipairs(gpus) do classes[i] = cell(block, one, name) end
      nics[#nics + 1] = { name = names[name] or name, affinity = classes }
      if not block.rows[name] then missing[#missing + 1] = name end
    end
  end
  if missing[1] then
    warnings[#warnings + 1] = ("line %d: no rows %s, was the end cut off? (the rows of the GPUs say all that is needed)"):format(
      block.line, table.concat(missing, ", "))
  end
  return nics[1] and nics
end

return grammar.reader {
  kind = "nvidia-smi-topo",
  summary = "links between the GPUs and network cards of a node",
  command = COMMAND,

  sniff = function(text)
    local sure = 0
    local ok <const>, blocks <const> = pcall(blocks_of, text)
    if not ok then return 0.6 end
    for _, block in ipairs(blocks) do
      if next(block.rows) and block.rows[next(block.rows)].cells[1] then sure = 0.95 end
    end
    return math.max(sure, text:find "nvidia%-smi topo %-m" and 0.6 or 0)
  end,

  --- Facts of one node: matrix, nics with their class to each GPU; NUMA ids are labels and are not read.
  read = function(text)
    local blocks <const>, names <const> = blocks_of(text)
    local block <const> = choose(text, blocks)
    local warnings <const> = {}
    local gpus <const> = gpus_of(block)
    check_gpu_rows(block, gpus)
    local node <const> = { matrix = matrix_of(block, gpus, warnings), nics = nics_of(block, gpus, names, warnings) }
    for _, other in ipairs(blocks) do
      if other ~= block and not other.p2p and next(other.rows) then
        warnings[#warnings + 1] = ("line %d: a second matrix is not read, expected one node a file"):format(other.line)
      end
    end
    local listed <const> = csv.find(text, { with_header = true }, warnings)
    node.gpus = { { count = #gpus } }
    if listed and #listed.all == #gpus and not listed.left_out then
      node.gpus = listed.gpus
    elseif listed then
      warnings[#warnings + 1] = ("line %d: the list names %d whole GPUs, the matrix %d: the list is not used"):format(listed.line,
        #listed.all, #gpus)
    end
    return { nodes = { node }, warnings = warnings }
  end,
}
