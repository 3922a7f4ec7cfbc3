--- What each feature of planning is worth: the plan again without it (--ablate).
local clusters <const> = require "tangram.cluster"
local grid <const> = require "tangram.report.grid"
local loader <const> = require "tangram.loader"
local variants <const> = require "tangram.variants"

local ablate <const> = {}

--- Options of adapters that stand for a feature, the value that does without, and its name.
local features <const> = {
  { "full_recompute", false, "recompute of whole layers" }, { "recompute", false, "recompute" },
  { "selective", false, "recompute of the attention core" }, { "idle", false, "idle GPUs" },
  { "fsep", false, "fully sharded experts" }, { "zero", { 0 }, "ZeRO" }, { "max_tp", 1, "tensor parallelism" },
  { "max_cp", 1, "context parallelism" }, { "max_ep", 1, "expert parallelism" }, { "max_stages", 1, "pipelines inside an island" },
}

--- Does the value of an option have the feature?
local function is_on(value, without)
  if type(without) == "boolean" then return value == true end
  if type(without) == "table" then return type(value) == "table" and #value > 1 end
  return math.type(value) == "integer" and value > without
end

--- Nodes that no island but this one has.
local function others(plan, island)
  local own <const>, names <const> = {}, {}
  for _, node in ipairs(island.nodes) do own[node] = true end
  for _, node in ipairs(plan.cluster.nodes) do
    if not own[node.name] then names[#names + 1] = node.name end
  end
  return names
end

--- The best of the islands, each planned alone, at the plan's precision.
local function best_island(plan, spec)
  local best
  for _, island in ipairs(plan.islands) do
    local row <const> = variants.try(("composition: %s alone"):format(island.name), spec, function(own)
      local left_out <const> = others(plan, island)
      own.cluster = #left_out > 0 and clusters.without(plan.cluster, left_out) or plan.cluster
      own.exclude, own.merged, own.islands = nil, false, nil
      own.training.precision = plan.training.precision
    end)
    if not best or row.time_s and (not best.time_s or row.time_s < best.time_s) then best = row end
  end
  if not best.time_s then best.name = "composition: any one island" end
  return best
end

--- Plans without each feature in use.
---@param plan table tangram.plan/1, with all of them
---@param spec table what it was made of
---@return table[] rows variants.row, the plan's first
function ablate.rows(plan, spec)
  local rows <const> = { variants.row("all", plan) }
  local function try(name, change) rows[#rows + 1] = variants.try(name, spec, change) end
  if #plan.islands > 1 then rows[#rows + 1] = best_island(plan, spec) end
  if spec.merged ~= false then try("the merged partition", function(own) own.merged = false end) end
  local options <const> = plan.parallelizer.options
  for _, feature in ipairs(features) do
    local name <const>, without <const>, words <const> = table.unpack(feature)
    local needs_experts <const> = name == "fsep" or name == "max_ep"
    if is_on(options[name], without) and (plan.model.experts > 0 or not needs_experts) then
      try(words, function(own)
        if type(own.parallelizer) ~= "table" then own.parallelizer = { name = own.parallelizer or plan.parallelizer.name } end
        own.parallelizer.options = own.parallelizer.options or {}
        own.parallelizer.options[name] = without
      end)
    end
  end
  local policies <const> = spec.prune or { "infeasible", "redundant", "bounded" }
  for i, policy in ipairs(policies) do
    try(("policy %s"):format(loader.load("prune", policy).name), function(own)
      own.prune = variants.copy(policies)
      table.remove(own.prune, i)
    end)
  end
  if spec.target then try("the target " .. spec.target, function(own) own.target = nil end) end
  return rows
end

--- The rows as a table.
---@param plan table
---@param spec table
---@return string
function ablate.table(plan, spec)
  local lines <const>, notes <const> = { { "without", table.unpack(variants.heading) } }, {}
  for i, row in ipairs(ablate.rows(plan, spec)) do
    local name <const> = i == 1 and "-" or row.name
    if row.time_s then
      lines[#lines + 1] = { name, table.unpack(variants.cells(row, plan.time_s)) }
    else
      lines[#lines + 1] = { name, "no plan" }
      notes[#notes + 1] = ("without %s: %s\n"):format(name, row.reason)
    end
  end
  return grid.render(lines, { right = variants.right }) .. table.concat(notes)
end

return ablate
