--- The GPUs behind the names of an island's nodes: whole machines of the cluster, or parts of them, "a1:4-7".
local machines <const> = {}

local function kinds_of(node)
  return type(node.gpus) == "table" and node.gpus or { { gpu = node.gpu, count = node.gpus } }
end

--- The type of a machine's GPU, by its index from 0, and the number of all.
local function gpu_at(node, index)
  local count, gpu = 0, nil
  for _, kind in ipairs(kinds_of(node)) do
    gpu = gpu or index < count + kind.count and kind.gpu or nil
    count = count + kind.count
  end
  return gpu or "?", count
end

--- Looks up nodes of islands by name.
---@param plan table tangram.plan/1
---@return fun(name: string): { machine: string, first: integer, last: integer, gpu: string } indices from 0, inclusive
function machines.finder(plan)
  local nodes <const> = {}
  for _, node in ipairs(plan.cluster.nodes) do nodes[node.name] = node end
  return function(name)
    local machine <const>, first <const>, last <const> = name:match "^(.*):(%d+)%-(%d+)$"
    if not nodes[name] and nodes[machine] then
      return { machine = machine, first = tonumber(first), last = tonumber(last), gpu = gpu_at(nodes[machine], tonumber(first)) }
    end
    local gpu <const>, count <const> = gpu_at(nodes[name] or { gpus = 0 }, 0)
    return { machine = name, first = 0, last = count - 1, gpu = gpu }
  end
end

--- "4 × a100": the GPUs of a part.
---@param part table of a finder
function machines.text(part) return ("%d × %s"):format(part.last - part.first + 1, part.gpu) end

return machines
