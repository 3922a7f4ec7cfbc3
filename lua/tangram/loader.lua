--- Finds and loads plugins (parallelizers, cost models, pruning policies).
local loader <const> = {}

local places <const> = {}

--- Where plugins are looked up, first to last.
function loader.set_places(...)
  for i, place in ipairs { ... } do places[i] = place end
end

return loader
