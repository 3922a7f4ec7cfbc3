--- What a plan and what a runtime make of stages, in the same shape: { first, last (layers from 0, last not counted),
--- embedding, head, tp, dp, cp, gpus = { "host:index" in the order of ranks } }.
local layout <const> = require "tests.oracle.layout"

local placed <const> = {}

--- The stages of a plan, from the file's own fields.
---@param plan table tangram.plan/1
---@return table[]
function placed.plan(plan)
  local stages <const>, layer = {}, 0
  for s, stage in ipairs(plan.stages) do
    local gpus <const> = {}
    for _, one in ipairs(stage.gpus) do
      for _, index in ipairs(one.indices) do gpus[#gpus + 1] = ("%s:%d"):format(one.node, index) end
    end
    stages[s] = { first = layer, last = layer + stage.layers, embedding = stage.has_embedding, head = stage.has_head,
      tp = stage.strategy.tp, dp = stage.strategy.dp, cp = stage.strategy.cp, gpus = gpus }
    layer = layer + stage.layers
  end
  return stages
end

--- Layers by stage of Megatron: a layout, the first and last stage's numbers with the rest even, or all even.
function placed.megatron_layers(args)
  local pp <const>, total <const> = args["pipeline-model-parallel-size"], args["num-layers"]
  local text <const> = args["pipeline-model-parallel-layout"]
  local layers <const> = {}
  if text then
    local read <const> = assert(layout.parse(text, pp, total))
    assert(read.vpp == 1 and not read.empty, "one segment a stage, none empty")
    for rank = 1, pp do
      layers[rank] = 0
      for _, unit in ipairs(read.ranks[rank][1]) do layers[rank] = layers[rank] + (unit == "t" and 1 or 0) end
    end
    return layers
  end
  local first <const>, last <const> = args["decoder-first-pipeline-num-layers"], args["decoder-last-pipeline-num-layers"]
  local between <const> = pp - (first and 1 or 0) - (last and 1 or 0)
  local rest <const> = total - (first or 0) - (last or 0)
  assert(rest % between == 0, "the stages between are even")
  for rank = 1, pp do layers[rank] = rest // between end
  layers[1], layers[pp] = first or layers[1], last or layers[pp]
  return layers
end

--- Stages by Megatron's rules: ranks tp, cp, ep, dp, pp, the first fastest.
---@param processes table of scripts.processes
---@param args table its arguments
---@return table[]
function placed.megatron(processes, args)
  local pp <const>, tp <const>, cp <const> = args["pipeline-model-parallel-size"], args["tensor-model-parallel-size"],
    args["context-parallel-size"] or 1
  assert(processes.count % (pp * tp * cp) == 0)
  local each <const>, layers <const> = processes.count // pp, placed.megatron_layers(args)
  local dp <const> = each // (tp * cp)
  assert(args["global-batch-size"] % (args["micro-batch-size"] * dp) == 0)
  local stages <const>, layer = {}, 0
  for s = 1, pp do
    local gpus <const> = {}
    for r = (s - 1) * each, s * each - 1 do gpus[#gpus + 1] = ("%s:%d"):format(processes[r].host, processes[r].device) end
    stages[s] = { first = layer, last = layer + layers[s], embedding = s == 1, head = s == pp, tp = tp, dp = dp, cp = cp, gpus = gpus }
    layer = layer + layers[s]
  end
  assert(layer == args["num-layers"])
  return stages, args["global-batch-size"] // (args["micro-batch-size"] * dp)
end

return placed
