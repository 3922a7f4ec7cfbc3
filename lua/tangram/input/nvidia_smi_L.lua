--- `nvidia-smi -L`: names of the GPUs, and which of them MIG cuts.
local grammar <const> = require "tangram.input.grammar"
local gpu_list <const> = require "tangram.input.gpu_list"

local COMMAND <const> = "nvidia-smi -L"

return grammar.reader {
  kind = "nvidia-smi-L",
  summary = "names of the GPUs of a node, MIG slices",
  command = COMMAND,

  sniff = function(text) return gpu_list.all(text)[1] and 0.8 or 0 end,

  read = function(text)
    local whole <const>, warnings <const> = {}, {}
    local all <const> = gpu_list.all(text)
    if not all[1] then
      grammar.refuse(nil, "no line 'GPU 0: NAME (UUID: GPU-...)', expected the output of '%s'", COMMAND)
    end
    for _, gpu in ipairs(all) do
      if gpu.slices[1] then
        warnings[#warnings + 1] = ("line %d: GPU %d is left out, MIG cuts it into %d (%s): slices can't form one job"):format(gpu.line,
          gpu.index, #gpu.slices, grammar.quote(table.concat(gpu.slices, ", ")))
      else
        whole[#whole + 1] = gpu
      end
    end
    local node <const> = { gpus = grammar.runs(whole), left_out = not whole[1] and "MIG only: no whole GPU" or nil }
    return { nodes = { node }, warnings = warnings }
  end,
}
