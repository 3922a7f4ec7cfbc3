--- `rocm-smi --showtopo` and `amd-smi topology`: how the AMD GPUs of a node are linked. Of several matrices that of link types
--- counts. What `--showproductname` and `--showmeminfo vram` add to the same text is read along.
local lpeg <const> = require "lpeg"
local grammar <const> = require "tangram.input.grammar"
local grid <const> = require "tangram.input.grid"

local P <const>, C <const> = lpeg.P, lpeg.C
local spaces <const> = grammar.spaces

local COMMAND <const> = "rocm-smi --showtopo"
local class <const> = (P "XGMI" + "PCIE") * -1

local function gpu_line(field)
  return spaces * "GPU[" * (C(grammar.digits) / tonumber) * "]" * spaces * ":" * spaces * field * ":" * spaces
end
local series <const> = gpu_line(P "Card " * lpeg.S "sS" * "eries") * C(P(1) ^ 1)
local memory <const> = gpu_line "VRAM Total Memory (B)" * (C(lpeg.R "09" ^ -17) / tonumber)

--- The matrix of link types: by its title, or by its cells.
local function find(text)
  for _, one in ipairs(grid.all(text)) do
    local title <const> = one.title:lower()
    if title:find("link type", 1, true) then return one end
  end
end

local function properties(text)
  local of <const> = {}
  for _, line in grammar.lines(text) do
    local index, name <const> = series:match(line)
    local bytes
    if not index then index, bytes = memory:match(line) end
    if index and index < 256 then
      of[index] = of[index] or {}
      of[index].name = of[index].name or name and grammar.trim(name)
      of[index].memory_bytes = of[index].memory_bytes or math.tointeger(bytes)
    end
  end
  return of
end

local function matrix_of(one, gpus)
  local own <const> = one.rows[gpus[1]] and one.rows[gpus[1]].cells[1]
  local matrix <const> = grid.square(one, gpus, class, own == "SELF" and "SELF" or "0", COMMAND)
  for i, row in ipairs(matrix) do row[i] = "X" end
  return matrix
end

return grammar.reader {
  kind = "rocm-smi",
  summary = "links between the AMD GPUs of a node",
  command = COMMAND,

  sniff = function(text)
    return find(text) and 0.98 or text:lower():find("rocm system management interface", 1, true) and 0.7 or 0
  end,

  read = function(text)
    local one <const> = find(text)
    if not one then grammar.refuse(nil, "no matrix 'Link Type between two GPUs', expected the output of '%s'", COMMAND) end
    local gpus <const>, warnings <const>, list <const> = grid.gpus(one), {}, {}
    local of <const> = properties(text)
    for i = 1, #gpus do list[i] = of[i - 1] or {} end
    if #gpus > 8 then
      warnings[#warnings + 1] = ("line %d: %d GPUs: a partition mode (CPX, TPX) shows one card as several, check the memory of each")
        :format(one.line, #gpus)
    end
    return { nodes = { { gpus = grammar.runs(list), matrix = matrix_of(one, gpus) } }, warnings = warnings }
  end,
}
