--- Which type of the catalogue, or of the user's own, the GPUs are that files call by all kinds of names.
local catalog <const> = require "tangram.catalog"
local cluster <const> = require "tangram.cluster"
local sorted_keys <const> = require "tangram.sorted_keys"

local types <const> = {}

--- "a1, a2, a3 and 12 more".
---@param names string[]
function types.listed(names)
  local shown <const> = table.concat(names, ", ", 1, math.min(3, #names))
  return #names > 3 and ("%s and %d more"):format(shown, #names - 3) or shown
end

--- The user's own types with all figures as numbers; nil, why for a wrong one.
---@param own table<string, table> as a cluster's `gpus`
---@return table<string, table>? types
---@return string? why
function types.read_own(own)
  local input <const> = { nodes = {}, gpus = own }
  for name in pairs(own) do
    input.nodes[#input.nodes + 1] = { name = tostring(name), gpu = name, gpus = 1, intra_bytes_per_s = 1 }
  end
  if #input.nodes == 0 then return {} end
  local ok <const>, described <const> = pcall(cluster.describe, input, "--gpus")
  if ok then return described.gpus end
  return nil, tostring(described)
end

--- The record of a type.
---@param key string
---@param options table own
---@return table?
function types.device(key, options) return options.own[key] or (catalog.find_gpu(key)) end

--- Labels of --gpu-type that no file has are slips, as a rule.
local function say_unused(gpu_types, used, warnings)
  for _, label in ipairs(sorted_keys(gpu_types)) do
    if not used[label] then warnings[#warnings + 1] = ("--gpu-type: no file has GPUs or a node called '%s'"):format(label) end
  end
end

--- The catalogue's key (or one of the user's own types) of a run of GPUs, and the label of --gpu-type if that tells it; or nil,
--- why, and the label that is not clear.
local function type_of(run, node, options)
  for _, label in ipairs { node.name, run.name or "*" } do
    local told <const> = options.gpu_types[label:lower()]
    if told then return told, nil, label:lower() end
  end
  if not run.name then return nil, "no file names the type", "*" end
  if options.own[run.name] then return run.name end
  local entry <const>, why = catalog.find_gpu(run.name, run.memory_bytes or run.nominal_bytes)
  if entry then return entry.key end
  why = why:gsub("^GPU '.-' is not clear, expected one of", "it may be one of")
  why = why:gsub("^unknown GPU '.-'", "is not in the catalogue"):gsub("; describe it.*", "")
  return nil, why, run.name
end

--- Sets the key of each run of GPUs.
---@param nodes table[] with gpus
---@param options table gpu_types, own
---@param warnings string[] added to
---@return boolean? done
---@return string? why one line that asks for all types that are not clear
function types.resolve(nodes, options, warnings)
  local open <const>, by_label <const>, used <const> = {}, {}, {}
  for _, node in ipairs(nodes) do
    for _, run in ipairs(node.gpus) do
      local why, label
      run.key, why, label = type_of(run, node, options)
      if run.key and label then used[label] = true end
      if not run.key then
        local one = by_label[label]
        if not one then
          one = { label = label, why = why, nodes = {} }
          by_label[label] = one
          open[#open + 1] = one
        end
        if one.nodes[#one.nodes] ~= node.name then table.insert(one.nodes, node.name) end
      end
    end
  end
  if #open == 0 then
    say_unused(options.gpu_types, used, warnings)
    return true
  end
  local words <const> = {}
  for i, one in ipairs(open) do
    local example <const> = one.why:match "one of ([^,]+)" or one.why:match "did you mean ([%w-]+)" or "KEY"
    words[i] = ("GPU type%s of %s: %s, expected --gpu-type '%s=%s'"):format(one.label == "*" and "" or " '" .. one.label .. "'",
      types.listed(one.nodes), one.why, one.label, example)
  end
  return nil, table.concat(words, "; ") .. ", or --gpus FILE that describes it, or --node NAME with what "
    .. "'nvidia-smi --query-gpu=index,name,memory.total --format=csv' prints there"
end

return types
