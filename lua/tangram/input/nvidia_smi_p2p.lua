--- `nvidia-smi topo -p2p r|w|n|a|p`: which GPUs of a node reach each other directly. It says nothing about rates.
local lpeg <const> = require "lpeg"
local grammar <const> = require "tangram.input.grammar"
local grid <const> = require "tangram.input.grid"

local P <const> = lpeg.P
local COMMAND <const> = "nvidia-smi topo -p2p r"
local WORDS <const> = { CNS = "chipset not supported", GNS = "GPU not supported", TNS = "topology not supported", NS = "not supported",
  DR = "disabled by a registry key", U = "unknown" }
local status <const> = (P "OK" + "CNS" + "GNS" + "TNS" + "NS" + "DR" + "U") * -1

local function find(text)
  for _, one in ipairs(grid.all(text)) do
    for _, name in ipairs(one.devices) do
      for _, cell in ipairs(one.rows[name] and one.rows[name].cells or {}) do
        if status:match(cell) then return one end
      end
    end
  end
end

return grammar.reader {
  kind = "nvidia-smi-p2p",
  summary = "which GPUs of a node reach each other directly",
  command = COMMAND,

  sniff = function(text) return find(text) and 0.9 or 0 end,

  read = function(text)
    local one <const> = find(text)
    if not one then
      grammar.refuse(nil, "no matrix of OK, CNS, GNS, TNS, NS and U over GPU0, GPU1, ..., expected the output of '%s'", COMMAND)
    end
    local gpus <const>, warnings <const> = grid.gpus(one), {}
    local square <const> = grid.square(one, gpus, status, "X", COMMAND)
    for i, row in ipairs(square) do
      for j = i + 1, #row do
        if row[j] ~= "OK" then
          warnings[#warnings + 1] = ("line %d: %s and %s don't reach each other directly (%s): data goes through the host's memory")
            :format(one.rows[gpus[i]].line, gpus[i], gpus[j], WORDS[row[j]])
        end
      end
    end
    return { nodes = { { gpus = { { count = #gpus } }, reach = square } }, warnings = warnings }
  end,
}
