--- What a check says, and words that checks share.
local divisors <const> = require "tangram.divisors"

local finding <const> = {}

--- A finding that the runtime can't run the plan.
---@param code string of the table of codes: "G1"
---@param text string a format for the rest
---@return table
function finding.fatal(code, text, ...) return { code = code, text = text:format(...), fatal = true } end

--- A finding that it can, but that people should know.
function finding.warning(code, text, ...) return { code = code, text = text:format(...), fatal = false } end

function finding.again(runtime) return ("plan again with --target %s, which keeps to this"):format(runtime) end

--- The first stage, and the first that differs from it by what `key` gives of both; nothing if none does.
function finding.differing(stages, key)
  for s = 2, #stages do
    if key(stages[s]) ~= key(stages[1]) then return stages[1], stages[s] end
  end
end

--- The stages that have replicas: a ZeRO level means something to these alone.
function finding.replicated(launch)
  local list <const> = {}
  for _, stage in ipairs(launch.stages) do
    if stage.dp * stage.cp > 1 then list[#list + 1] = stage end
  end
  return list
end

--- The divisors of n, of those that fit, as text.
function finding.divisors(n, fits)
  local list <const> = {}
  for _, d in ipairs(divisors(n)) do
    if not fits or fits(d) then list[#list + 1] = ("%d"):format(d) end
  end
  return table.concat(list, ", ")
end

return finding
