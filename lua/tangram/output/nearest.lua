--- The nearest plan with one recompute setting for all stages, priced anew: for runtimes that have no other.
local checks <const> = require "tangram.output.checks"
local core <const> = require "tangram.core"
local launches <const> = require "tangram.output.launch"
local plans <const> = require "tangram.plan"
local units <const> = require "tangram.units"

local nearest <const> = {}

local ALL <const> = 1 << 20 -- more layers than any stage has

--- A plan whose stages all recompute as `setting` says, with times and memory; nil and why if it does not fit.
local function with_setting(text, setting, where)
  local plan <const> = core.json_decode(text)
  for _, stage in ipairs(plan.stages) do
    local layers <const> = setting.kind == "full" and math.min(setting.layers, math.tointeger(stage.layers)) or nil
    stage.strategy.recompute = layers == 0 and { kind = "none" } or { kind = setting.kind, layers = layers }
  end
  local priced <const> = require("tangram.recost").plan(plan, where)
  local right <const>, why <const> = core.plan_check(plans.encode(priced))
  return right and priced or nil, why
end

local function note_of(before, after, setting)
  local words <const> = {}
  for s, stage in ipairs(after.stages) do
    words[s] = ("%.1f of %.1f"):format(stage.memory.total_bytes / 2 ^ 30, stage.memory.capacity_bytes / 2 ^ 30)
  end
  return ("recompute is %s, in place of one setting a stage: %s an iteration in place of %s; memory by stage %s GiB"):format(
    setting.kind ~= "full" and "the attention core of every layer" or setting.layers == ALL and "all layers of every stage"
      or ("the first %d layers of every stage"):format(setting.layers),
    units.format_time(after.time_s), units.format_time(before.time_s), table.concat(words, ", "))
end

--- The plan itself if one setting gives each stage what it has; else with the smallest setting that recomputes at least
--- that and fits. Raises one line if none fits.
---@param plan table tangram.plan/1
---@param where string the file, for errors
---@return table plan
---@return string[] notes
function nearest.one_recompute(plan, where)
  local launch <const> = launches.of(plan, where)
  if checks.one_recompute(launch) then return plan, {} end
  local text <const>, setting <const> = plans.encode(plan), checks.nearest_recompute(launch)
  local most = 0
  for _, stage in ipairs(launch.stages) do most = math.max(most, stage.layers) end
  local fits, why = with_setting(text, setting, where)
  while not fits and setting.layers < most do
    setting.kind, setting.layers = "full", setting.layers + 1
    fits, why = with_setting(text, setting, where)
  end
  if not fits then error(("%s: no recompute setting that is the same for all stages fits: %s"):format(where, why), 0) end
  return fits, { note_of(plan, fits, setting) }
end

--- The plan itself if every stage recomputes all of its layers or none does; else the plan that recomputes all. Raises one
--- line if that does not fit.
---@param plan table tangram.plan/1
---@param where string the file, for errors
---@return table plan
---@return string[] notes
function nearest.whole_recompute(plan, where)
  if not checks.R3_whole(launches.of(plan, where), "") then return plan, {} end
  local setting <const> = { kind = "full", layers = ALL }
  local fits <const>, why <const> = with_setting(plans.encode(plan), setting, where)
  if not fits then error(("%s: it does not fit with all layers recomputed: %s"):format(where, why), 0) end
  return fits, { note_of(plan, fits, setting) }
end

return nearest
