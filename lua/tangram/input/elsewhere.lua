--- What a text is that tells of no cluster, but that other commands take.
local core <const> = require "tangram.core"
local foreign_plan <const> = require "tangram.input.foreign_plan"
local units <const> = require "tangram.units"

--- Sailor's GPU types by name: "A100-40: 4 GPUs of 39.4 GiB a node, …"; nil if it is something else.
local function gpu_types(text)
  local config <const> = #text < 1 << 16 and text:find '"mem_per_gpu"' and core.json_decode(text)
  if type(config) ~= "table" then return nil end
  local words <const> = {}
  for name, one in pairs(config) do
    if type(one) == "table" and math.type(one.gpus_per_node) == "integer" and type(one.mem_per_gpu) == "number"
      and one.mem_per_gpu >= 0 and one.mem_per_gpu < 1e15 then
      words[#words + 1] = ("%s: %d GPUs of %s a node"):format(tostring(name):gsub("%c", " "), one.gpus_per_node,
        units.format_bytes(one.mem_per_gpu))
    end
  end
  table.sort(words)
  return words[1] and table.concat(words, ", ")
end

--- A sentence, or nil.
---@param text string
---@return string?
return function(text)
  if foreign_plan.kind(text) then return "is another system's plan, not a cluster: 'tangram report FILE' shows it" end
  local types <const> = gpu_types(text)
  if types then
    return ("is Sailor's table of GPU types (%s), which does not say what nodes there are; expected a hostfile or the like"):format(types)
  end
  if text:find '"num_hidden_layers"' or require("tangram.input.flags").kind(text, "num_layers") then
    return "is a model's configuration, not a cluster: 'tangram model show FILE', or 'tangram plan --model FILE'"
  end
end
