--- `nvidia-smi nvlink -s`: which NVLinks of each GPU are active, and how fast.
local grammar <const> = require "tangram.input.grammar"
local gpu_list <const> = require "tangram.input.gpu_list"

local COMMAND <const> = "nvidia-smi nvlink -s"

--- Bytes per second of a GPU's active links and one direction, as the driver prints them: raw, some 6 % above the payload.
local function active(gpu, warnings)
  local sum, idle = 0, 0
  for _, rate in ipairs(gpu.links) do
    sum = sum + rate
    if rate == 0 then idle = idle + 1 end
  end
  if idle > 0 then
    warnings[#warnings + 1] = ("line %d: GPU %d has %d of %d links inactive"):format(gpu.line, gpu.index, idle, #gpu.links)
  end
  return sum * 1e9
end

return grammar.reader {
  kind = "nvidia-smi-nvlink",
  summary = "active NVLinks of each GPU of a node",
  command = COMMAND,

  sniff = function(text)
    for _, gpu in ipairs(gpu_list.all(text)) do
      if gpu.links[1] or gpu.other then return 0.95 end
    end
    return 0
  end,

  read = function(text)
    local all <const>, warnings <const>, rates <const> = gpu_list.all(text), {}, {}
    if not all[1] then
      grammar.refuse(nil, "no line 'GPU 0: NAME (UUID: GPU-...)', expected the output of '%s'", COMMAND)
    end
    local same, any = true, false
    for i, gpu in ipairs(all) do
      if gpu.other then
        grammar.refuse(gpu.other, "a link without a rate such as '26.562 GB/s' or <inactive>, expected the output of '%s'", COMMAND)
      end
      rates[i] = active(gpu, warnings)
      same, any = same and rates[i] == rates[1], any or rates[i] > 0
    end
    if not any then warnings[#warnings + 1] = "no GPU has an active NVLink" end
    return { nodes = { { gpus = grammar.runs(all), nvlink_bytes_per_s = any and (same and rates[1] or rates) or nil } },
      warnings = warnings }
  end,
}
