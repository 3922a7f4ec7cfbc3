--- What reports read of a plan beyond what core.plan_check does: a file may have been edited by hand.
local schema <const> = require "tangram.schema"

local fields <const> = {}

local function text(required) return { type = "string", required = required } end
local function count(required) return { type = "integer", min = 0, required = required } end
local function number(required) return { type = "number", min = 0, required = required } end
local function list(item) return { type = "list", item = item, required = true } end
local function map(item) return { type = "map", item = item, required = true } end
local function record(of, required) return { type = "table", fields = of, required = required } end
local any <const> = { type = "any" }

local named <const> = record({ name = text(true), options = any }, true)

local READ <const> = {
  model = { type = "any", required = true, check = function(m) return type(m.name) ~= "string" and "a model with a name" or nil end },
  training = { type = "any", required = true, check = function(t)
    return (type(t.precision) ~= "string" or math.type(t.seq_len) ~= "integer") and "precision (text) and seq_len (a whole number)"
      or nil
  end },
  cluster = any, parallelizer = named, cost = named, target = text(false), stopped = text(false), tokens_per_s = number(true),
  model_flops_utilisation = number(true), paper_s = number(false),
  islands = list(record {
    name = text(true), nodes = { type = "list", item = text(true), min = 1, required = true }, merged = { type = "boolean" },
    used = { type = "boolean", required = true }, idle = count(false), reason = text(false), best_with_s = number(false),
  }),
  pairs = record({
    all = count(true), queried = count(true), reused = count(true), saved = count(false), pruned = map(count(true)),
    failed = list(record { slice = { type = "list", item = count(true), min = 2, max = 2, required = true }, island = text(true),
      reason = text(true) }),
  }, true),
  constants = list(record {
    name = text(true), value = { type = "number", required = true }, unit = text(false), from = text(true), source = text(false),
  }),
  warnings = list(text(true)),
  top = list(record { microbatches = count(true), stages = count(true), time_s = number(true) }),
}

local STAGE <const> = { time_parts = { type = "map", item = number(true), default = {} } }

--- A copy of the plan in which these fields are checked and null is absent; raises one line.
---@param plan table tangram.plan/1 that core.plan_check accepts
---@param where string? the file, for errors
---@return table
function fields.check(plan, where)
  where = where or "plan"
  local copy <const>, read <const> = {}, {}
  for name in pairs(READ) do read[name] = plan[name] end
  for name, value in pairs(plan) do copy[name] = value end
  for name in pairs(READ) do copy[name] = nil end
  for name, value in pairs(schema.check(read, READ, where)) do copy[name] = value end
  copy.stages = {}
  for s, stage in ipairs(plan.stages) do
    local one <const> = setmetatable({}, { __index = stage })
    one.time_parts = schema.check({ time_parts = stage.time_parts }, STAGE, ("%s: stages[%d]"):format(where, s)).time_parts
    copy.stages[s] = one
  end
  return copy
end

return fields
