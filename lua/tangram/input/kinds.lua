--- The readers of what people have about their clusters, by module; and which of them a text is for.
local core <const> = require "tangram.core"
local elsewhere <const> = require "tangram.input.elsewhere"
local mistaken <const> = require "tangram.input.mistaken"

local kinds <const> = { "nvidia_smi_topo", "nvidia_smi_csv", "nvidia_smi_nvlink", "nvidia_smi_L", "nvidia_smi_p2p", "nccl_tests",
  "nccl_topo_xml", "ibstat", "rocm_smi",
  "slurm_nodes", "sinfo", "gres_conf", "slurm_topology", "hostfile", "kubernetes", "ray",
}

--- Below this a text is not taken for a kind unless `--from` says so.
local SURE <const> = 0.5

--- The reader of a module of the list.
---@param module string "nvidia_smi_topo"
---@return Reader
function kinds.reader(module) return require("tangram.input." .. module) end

--- The names that `--from` takes, in the list's order.
---@return string[]
function kinds.names()
  local names <const> = {}
  for i, module in ipairs(kinds) do names[i] = kinds.reader(module).kind end
  return names
end

--- The reader that `--from` names.
---@param name string "nvidia-smi-topo"
---@return Reader?, string? why
function kinds.find(name)
  for _, module in ipairs(kinds) do
    local reader <const> = kinds.reader(module)
    if reader.kind == name then return reader end
  end
  local names <const> = kinds.names()
  local near <const> = core.nearest(name, names)
  return nil, near and ("no kind '%s' (did you mean '%s'?)"):format(name, near)
    or ("no kind '%s', expected one of %s"):format(name, table.concat(names, ", "))
end

--- The reader that a text seems to be for; of equally sure ones the first in the list.
---@param text string
---@return Reader?, string? why
function kinds.guess(text)
  local ours <const> = text:find '^%s*{%s*"format"%s*:%s*"tangram%.' and mistaken(text) -- what it quotes may look like anything
  if ours then return nil, ours end
  local best, surest = nil, 0
  for _, module in ipairs(kinds) do
    local reader <const> = kinds.reader(module)
    local sure <const> = reader.sniff(text)
    if sure > surest then best, surest = reader, sure end
  end
  if surest > SURE then return best end
  local instead <const> = mistaken(text) or elsewhere(text)
  if instead then return nil, instead end
  if best then return nil, ("may be '%s', but that is not sure: say so by --from %s"):format(best.command, best.kind) end
  return nil, ("looks like nothing known, expected one of %s (say which by --from)"):format(table.concat(kinds.names(), ", "))
end

--- Reads a text. A refusal says what else the text seems to be.
---@param text string
---@param name string? its kind; guessed when left out
---@param options table? for the reader
---@return table? facts, string? why
function kinds.read(text, name, options)
  local reader, why
  if name then reader, why = kinds.find(name) else reader, why = kinds.guess(text) end
  if not reader then return nil, why end
  local facts <const>, refusal <const> = reader.read(text, options)
  if facts then return facts end
  local other <const> = kinds.guess(text)
  if not other or other == reader then return nil, refusal end
  return nil, ("%s (it looks like '%s': --from %s)"):format(refusal, other.command, other.kind)
end

return kinds
