--- One recompute setting for all stages: whether there is one, and the nearest.
local finding <const> = require "tangram.output.finding"

local recompute <const> = {}

--- The one recompute setting that gives each stage what it has: { kind, layers } where "full" recomputes the first `layers`
--- of each stage, or nil if there is none.
---@param launch table
---@return table?
function recompute.one_recompute(launch)
  local kind <const>, most, exact = launch.stages[1].recompute.kind, 0, nil
  for _, stage in ipairs(launch.stages) do
    local own <const> = stage.recompute
    if own.kind ~= kind then return nil end
    most = math.max(most, own.layers)
    if kind == "full" and own.layers < stage.layers then
      if exact and exact ~= own.layers then return nil end
      exact = own.layers
    end
  end
  if exact and exact ~= most then return nil end
  return { kind = kind, layers = most, all = kind == "full" and not exact }
end

local function words_of(stage)
  local own <const> = stage.recompute
  return own.kind == "full" and ("%d of %d layers"):format(own.layers, stage.layers)
    or own.kind == "selective" and "the attention core" or "nothing"
end

--- Two stages whose recompute one setting can't give.
local function conflict(launch)
  for a = 1, #launch.stages do
    for b = a + 1, #launch.stages do
      local two <const> = { stages = { launch.stages[a], launch.stages[b] } }
      if not recompute.one_recompute(two) then return launch.stages[a], launch.stages[b] end
    end
  end
end

--- The setting that recomputes at least what each stage does: { kind, layers }.
function recompute.nearest_recompute(launch)
  local nearest <const> = { kind = "none", layers = 0 }
  for _, stage in ipairs(launch.stages) do
    local own <const> = stage.recompute
    if own.kind == "full" or own.kind == "selective" and nearest.kind == "none" then nearest.kind = own.kind end
    nearest.layers = math.max(nearest.layers, own.layers)
  end
  return nearest
end

function recompute.R1(launch, runtime)
  local a <const>, b <const> = conflict(launch)
  if not a then return nil end
  local near <const> = recompute.nearest_recompute(launch)
  return finding.fatal("R1", "stage %d recomputes %s, stage %d %s; %s has one setting for all stages, nearest: %s; --set recompute=nearest"
    .. " takes it and prices it, or %s", a.index, words_of(a), b.index, words_of(b), runtime,
    near.kind == "full" and ("the first %d layers of every stage"):format(near.layers) or "the attention core in every stage",
    finding.again(runtime))
end

return recompute
