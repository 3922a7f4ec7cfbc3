--- A progress bar on standard error, where that is a terminal and the work takes longer than a moment.
local core <const> = require "tangram.core"

local progress <const> = {}

local width <const> = 30

--- A hook for planner.search: called with the microbatches at hand, the share of their pairs seen, and the best time.
---@param counts integer how many numbers of microbatches there are
---@return fun(microbatches: integer, share: number, best_s: number) update, fun() clear
function progress.bar(counts)
  local started_s <const>, drawn, seen, last = core.clock_s(), false, 0, nil
  local function update(microbatches, share, best_s)
    if microbatches ~= last then last, seen = microbatches, seen + 1 end
    if core.clock_s() - started_s < 0.5 then return end
    local done <const> = math.min(1, (math.min(seen, counts) - 1 + share) / counts)
    local full <const> = math.floor(done * width + 0.5)
    io.stderr:write(("\r[%s%s] %3.0f %%  %d microbatches  best %s\27[K"):format(("#"):rep(full), ("."):rep(width - full),
      100 * done, microbatches, best_s < math.huge and ("%.4g s"):format(best_s) or "none yet"))
    drawn = true
  end
  local function clear()
    if drawn then io.stderr:write "\r\27[K" end
  end
  return update, clear
end

return progress
