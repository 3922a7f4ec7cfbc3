--- A measured run whose plan is not recorded: the best plan that the planner finds for its model on its machine stands for it.
local catalog <const> = require "tangram.catalog"
local planner <const> = require "tangram.planner"

local planned <const> = {}

--- The machine of a row as a cluster: nodes of one type, rates that training reaches.
local function cluster_of(s)
  local nodes <const>, gpus <const> = {}, {}
  for first = 1, #s.ranks, s.gpus_per_node do
    local device <const> = s.ranks[first]
    nodes[#nodes + 1] = { name = ("n%d"):format(#nodes + 1), gpu = device.key, gpus = math.min(s.gpus_per_node, #s.ranks - first + 1),
      intra_bytes_per_s = device.intra }
    if device.constants then gpus[device.key] = { constants = device.constants } end
  end
  local device <const> = s.ranks[1]
  local share <const> = s.constants.network_share or s.network.network_share or 1
  return {
    nodes = nodes, gpus = next(gpus) and gpus or nil,
    network = { default = { bytes_per_s = share * (device.network_bytes_per_s or s.network.bytes_per_s),
      latency_s = catalog.links.inter_latency_s } },
  }
end

--- "E+6 dp2 | 6 dp2 recompute selective 3 | … at 256 microbatches": the plan's shape in a line.
---@param plan table tangram.plan/1
---@return string
function planned.shape(plan)
  local parts <const> = {}
  for i, stage in ipairs(plan.stages) do
    local strategy <const> = stage.strategy
    local words <const> = { ("%s%g%s"):format(stage.has_embedding and "E+" or "", stage.layers, stage.has_head and "+H" or "") }
    for _, name in ipairs { "dp", "tp", "cp", "ep", "zero" } do
      if strategy[name] > (name == "zero" and 0 or 1) then words[#words + 1] = name .. strategy[name] end
    end
    local recompute <const> = strategy.recompute
    if type(recompute) == "table" then
      words[#words + 1] = recompute.layers and ("%s of %g"):format(recompute.kind, recompute.layers) or recompute.kind
    elseif recompute ~= "none" then
      words[#words + 1] = recompute
    end
    parts[i] = table.concat(words, " ")
  end
  return ("%s; %d microbatches"):format(table.concat(parts, " | "), plan.microbatches)
end

---@param s table of measured.setup
---@param cost { name: string, options: table }
---@return { seconds: number, bytes: number, shape: string }
function planned.of(s, cost)
  local training <const> = { memory_margin = 0.08, microbatches = { min = s.training.global_batch // 8, max = s.training.global_batch } }
  for _, name in ipairs { "global_batch", "seq_len", "precision", "attention", "dropout", "gradient_bytes" } do
    training[name] = s.training[name]
  end
  local plan <const>, why <const> = planner.plan { model = s.model, cluster = cluster_of(s), training = training, cost = cost }
  if not plan then error("plan: " .. why, 0) end
  local bytes = 0
  for _, stage in ipairs(plan.stages) do bytes = math.max(bytes, stage.memory.total_bytes) end
  return { seconds = plan.time_s, bytes = bytes, shape = planned.shape(plan) }
end

return planned
