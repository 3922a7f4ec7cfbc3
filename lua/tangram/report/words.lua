--- Words that reports share: places, degrees, counts.
local islands <const> = require "tangram.islands"

local words <const> = {}

--- 1234567 as 1,234,567
---@param n integer|number
function words.thousands(n)
  local digits = ("%.0f"):format(n // 1)
  while true do
    local more <const>, count <const> = digits:gsub("^(%d+)(%d%d%d)", "%1,%2")
    digits = more
    if count == 0 then return digits end
  end
end

--- 0,1,2,3,6 as 0-3,6
local function ranges(indices)
  local list, from = {}, 1
  for i = 1, #indices do
    if indices[i + 1] ~= indices[i] + 1 then
      list[#list + 1] = from == i and ("%d"):format(indices[i]) or ("%d-%d"):format(indices[from], indices[i])
      from = i + 1
    end
  end
  return table.concat(list, ",")
end

--- "a1:0-3 a2:0-3"; the first and the last of more than three nodes.
---@param stage table of tangram.plan/1
function words.gpus(stage)
  local list <const> = {}
  for i, one in ipairs(stage.gpus) do list[i] = one.node .. ":" .. ranges(one.indices) end
  if #list > 3 then return ("%s … %s"):format(list[1], list[#list]) end
  return table.concat(list, " ")
end

--- "; megatron can run it", where the plan was made for a runtime.
---@param plan table tangram.plan/1
function words.target(plan) return plan.target and ("; %s can run it"):format(plan.target) or "" end

--- A count is of atoms: layers, or their halves.
---@param stage table of tangram.plan/1
function words.recompute(stage)
  local recompute <const> = stage.strategy.recompute
  if recompute.kind ~= "full" then return recompute.kind end
  local all <const> = stage.last - stage.first - (stage.has_embedding and 1 or 0) - (stage.has_head and 1 or 0)
  local count <const> = math.type(recompute.layers) and recompute.layers or all
  if count >= all then return "full" end
  return count == 0 and "none" or ("full on %s of %s%s"):format(count, all, all == 2 * stage.layers and " halves" or "")
end

--- dp2 tp4, and what else is not 1 or off.
---@param strategy table of tangram.plan/1
function words.strategy(strategy)
  local list <const> = { ("dp%d tp%d"):format(strategy.dp, strategy.tp) }
  for _, name in ipairs { "cp", "ep", "etp" } do
    if strategy[name] and strategy[name] > 1 then list[#list + 1] = name .. strategy[name] end
  end
  if strategy.fsep then list[#list + 1] = "fsep" end
  if (strategy.zero or 0) > 0 then list[#list + 1] = "zero" .. strategy.zero end
  if strategy.offload and strategy.offload ~= "none" then list[#list + 1] = "offload " .. strategy.offload end
  return table.concat(list, " ")
end

--- E+12, 12 or 11+H: the embedding, layers and the head.
---@param stage table of tangram.plan/1
function words.layers(stage)
  return ("%s%s%s"):format(stage.has_embedding and "E+" or "", stage.layers, stage.has_head and "+H" or "")
end

--- "E+12 layers"
---@param stage table of tangram.plan/1
function words.layers_text(stage)
  return words.layers(stage) .. (stage.layers == 1 and " layer" or " layers")
end

--- What is known of the plan's distance from the best.
---@param plan table tangram.plan/1
function words.proof(plan)
  if type(plan.stopped) == "string" then
    if plan.gap > 0.995 then return ("stopped by %s, nothing proved yet"):format(plan.stopped) end
    return ("stopped by %s, at most %.2f %% from the best"):format(plan.stopped, 100 * plan.gap)
  end
  return plan.gap <= 1e-9 and "proved the best of the plans asked for"
    or ("proved within %.2f %% of the best of the plans asked for"):format(100 * plan.gap)
end

--- Why islands are apart: a sentence for each two of them, by their first nodes.
---@param plan table tangram.plan/1
---@return string[]
function words.apart(plan)
  local first <const>, list <const> = {}, {}
  for _, island in ipairs(plan.islands) do first[island.nodes[1]] = island.name end
  for _, pair in ipairs(islands.group(plan.cluster, { apart = true }).apart) do
    local a <const>, b <const> = first[pair.nodes[1]], first[pair.nodes[2]]
    if a and b then list[#list + 1] = ("%s and %s are apart: %s"):format(a, b, pair.why) end
  end
  return list
end

return words
