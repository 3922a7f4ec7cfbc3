--- Plans of one spec with something changed, side by side: what `compare` and `plan --ablate` show.
local plans <const> = require "tangram.plan"
local planner <const> = require "tangram.planner"
local units <const> = require "tangram.units"
local words <const> = require "tangram.report.words"

local variants <const> = {}

--- A deep copy that keeps metatables.
---@param value any
function variants.copy(value)
  if type(value) ~= "table" then return value end
  local copy <const> = setmetatable({}, getmetatable(value))
  for key, item in pairs(value) do copy[key] = variants.copy(item) end
  return copy
end

local function gpus_of(plan)
  local count = 0
  for _, stage in ipairs(plan.stages) do
    for _, part in ipairs(stage.gpus) do count = count + #part.indices end
  end
  return count
end

--- A plan in a row of figures.
---@param name string
---@param plan table tangram.plan/1
---@return table row
function variants.row(name, plan)
  return {
    name = name, time_s = plan.time_s, tokens_per_s = plan.tokens_per_s, model_flops_utilisation = plan.model_flops_utilisation,
    microbatches = plan.microbatches, stages = #plan.stages, gpus = gpus_of(plan), bound_s = plan.bound_s, proved = plan.proved,
    queried = plan.pairs.queried,
  }
end

--- Plans a changed copy of the spec. A row with `reason` where there is no plan.
---@param name string
---@param spec table of tangram.plan
---@param change fun(spec: table)
---@return table row
function variants.try(name, spec, change)
  local own <const> = variants.copy(spec)
  change(own)
  local ok <const>, plan <const>, why <const> = pcall(planner.plan, own, { brief = true })
  if ok and plan then return variants.row(name, plan) end
  return { name = name, reason = ok and why or tostring(plan) }
end

--- "+12.3 %" of a time over another.
---@param row table
---@param best_s number
function variants.against(row, best_s)
  local share <const> = row.time_s / best_s - 1
  return math.abs(share) < 5e-5 and "=" or ("%+.1f %%"):format(100 * share)
end

--- Cells of a row behind its name: iteration, against the first, tokens/s, % of peak, microbatches, stages, GPUs, queries.
---@param row table with a plan
---@param best_s number
---@return string[]
function variants.cells(row, best_s)
  return {
    units.format_time(row.time_s), variants.against(row, best_s), words.thousands(row.tokens_per_s),
    ("%.1f %%"):format(100 * row.model_flops_utilisation), ("%d"):format(row.microbatches), ("%d"):format(row.stages),
    ("%d"):format(row.gpus), words.thousands(row.queried),
  }
end

variants.heading = { "iteration", "", "tokens/s", "of peak", "microbatches", "stages", "GPUs", "queries" }
variants.right = { 2, 3, 4, 5, 6, 7, 8, 9 }

--- The rows as JSON.
---@param rows table[]
function variants.encode(rows)
  return plans.encode { rows = require("tangram.core").array(rows) }
end

return variants
