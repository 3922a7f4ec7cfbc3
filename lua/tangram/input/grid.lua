--- Matrices over devices as `nvidia-smi topo` and `rocm-smi --showtopo` print them, in a text that may hold other things.
local lpeg <const> = require "lpeg"
local grammar <const> = require "tangram.input.grammar"

local P <const>, R <const>, S <const>, C <const>, Ct <const> = lpeg.P, lpeg.R, lpeg.S, lpeg.C, lpeg.Ct
local spaces <const>, refuse <const> = grammar.spaces, grammar.refuse

local grid <const> = {}

--- More than any node has; a matrix grows with the square.
local MAX_DEVICES <const>, MAX_GPUS <const> = 256, 128
--- More than any paste has.
local MAX_GRIDS <const> = 64

local stop <const> = #S " \t" + -1
grid.gpu = C(P "GPU" * R "09" ^ 1) * stop
--- What `topo -m`, `topo -p2p` and `rocm-smi` put in cells, to tell a header from a row.
local cell <const> = (P "NV" * R "09" ^ 1 + "XGMI" + "X" + "PIX" + "PXB" + "PHB" + "NODE" + "SYS" + "N/A" + "OK" + "CNS" + "GNS"
  + "TNS" + "NS" + "DR" + "U" + "PCIE" + "SELF") * stop
local number_or_cell <const> = cell + R "09" ^ 1 * stop
local affinity <const> = P "CPU Affinity" + "NUMA Affinity" + "GPU NUMA ID"
local comment <const> = (spaces * "#") ^ -1 * spaces
local device <const> = -affinity * -cell * C(R("az", "AZ") * (1 - S " \t,=:(") ^ 0) * stop
local header <const> = Ct(comment * #(P "GPU0" * stop) * grid.gpu * (spaces * device) ^ 0) * spaces * (#affinity + -1)
local bus_id <const> = C(R("09", "af", "AF") ^ 4 * ":" * R("09", "af", "AF") ^ 2 * ":" * R("09", "af", "AF") ^ 2 * "." * R "07") * stop
local bus_header <const> = Ct(spaces * bus_id * (spaces * bus_id) ^ 0) * spaces * -1
local row <const> = comment * (bus_id + device) * spaces * grammar.tokens

---@class Grid
---@field line integer where its header stands
---@field title string the line above that is not blank
---@field devices string[]
---@field index table<string, integer>
---@field rows table<string, { line: integer, cells: string[] }>

local function start(number, title, devices)
  if #devices > MAX_DEVICES then refuse(number, "%d devices, expected at most %d in one node", #devices, MAX_DEVICES) end
  local index <const> = {}
  for i, name in ipairs(devices) do
    if index[name] then refuse(number, "'%s' stands twice in the header", grammar.quote(name)) end
    index[name] = i
  end
  return { line = number, title = title, devices = devices, index = index, rows = {} }
end

--- All matrices of a text in their order. A row has what follows its device's name, cut to the width of the header.
---@param text string cleaned
---@return Grid[]
function grid.all(text)
  local grids <const> = {}
  local title = ""
  for number, line in grammar.lines(text) do
    local devices <const> = header:match(line) or bus_header:match(line)
    local now <const> = grids[#grids]
    if devices then
      if #grids == MAX_GRIDS then refuse(number, "matrix %d, expected the output of one command", MAX_GRIDS + 1) end
      grids[#grids + 1] = start(number, title, devices)
    elseif now and #line < 1 << 14 then
      local name <const>, cells <const> = row:match(line)
      local known <const> = name and now.index[name] and (number_or_cell:match(cells[1] or ""))
      if known and now.rows[name] then refuse(number, "a second row '%s', expected one node a file", grammar.quote(name)) end
      if known then
        now.rows[name] = { line = number, cells = { table.unpack(cells, 1, #now.devices) } }
      end
    end
    if line:find "%S" then title = line end
  end
  return grids
end

--- The GPUs among the devices of a matrix.
---@param one Grid
---@return string[]
function grid.gpus(one)
  local gpus <const> = {}
  for _, name in ipairs(one.devices) do
    if grid.gpu:match(name) or bus_id:match(name) then gpus[#gpus + 1] = name end
  end
  return gpus
end

--- The cells among GPUs, which must be whole, the same there and back, and own on the diagonal alone.
---@param one Grid
---@param gpus string[]
---@param is userdata pattern of the cells off the diagonal
---@param own string the cell on the diagonal
---@param command string what prints such a matrix
---@return string[][] cells by index
function grid.square(one, gpus, is, own, command)
  if #gpus > MAX_GPUS then refuse(one.line, "%d GPUs, expected at most %d in one node", #gpus, MAX_GPUS) end
  local square <const> = {}
  for i, name in ipairs(gpus) do
    local at <const> = one.rows[name]
    if not at then refuse(one.line, "no row '%s' below, expected the whole output of '%s'", name, command) end
    square[i] = {}
    for j, other in ipairs(gpus) do
      local here <const> = at.cells[one.index[other]]
      if not here then
        refuse(at.line, "row %s has %d cells, expected %d: was the line cut or wrapped?", name, #at.cells, #one.devices)
      end
      if (i == j) ~= (here == own) or i ~= j and not is:match(here) then
        refuse(at.line, "%s to %s is '%s', expected %s", name, other, grammar.quote(here),
          i == j and own or ("what '%s' prints"):format(command))
      end
      square[i][j] = here
      local back <const> = i > j and square[j][i] or here
      if back ~= here then
        refuse(at.line, "%s to %s is %s, but %s to %s is %s; expected the same both ways", name, other, here, other, name, back)
      end
    end
  end
  return square
end

return grid
