--- A progress bar on standard error, where that is a terminal and the work takes longer than a moment.
local core <const> = require "tangram.core"

local progress <const> = {}

local width <const> = 30
local PATIENCE_S <const> = 0.5

--- A hook for planner.search: called with the microbatches at hand, the share of their pairs seen, and the best time. The
--- merged partition is searched after the first and begins anew, but the bar neither falls back nor forgets the best time.
---@param counts integer how many numbers of microbatches there are
---@param out { write: function }? default: standard error
---@return fun(microbatches: integer, share: number, best_s: number) update, fun() clear
function progress.bar(counts, out)
  out = out or io.stderr
  local started_s <const>, drawn, seen, last = core.clock_s(), false, 0, nil
  local done, best = 0, math.huge
  local function update(microbatches, share, best_s)
    if microbatches ~= last then last, seen = microbatches, seen + 1 end
    done, best = math.max(done, math.min(1, (seen - 1 + share) / counts)), math.min(best, best_s)
    if core.clock_s() - started_s < PATIENCE_S then return end
    local full <const> = math.floor(done * width + 0.5)
    -- No wrapping: a narrow terminal cuts the line, where wrapped ones would pile up.
    out:write(("\r\27[?7l[%s%s] %3.0f %%  best %s  microbatches %d\27[K\27[?7h"):format(("#"):rep(full),
      ("."):rep(width - full), 100 * done, best < math.huge and ("%.4g s"):format(best) or "none yet", microbatches))
    drawn = true
  end
  local function clear()
    if drawn then out:write "\r\27[K" end
  end
  return update, clear
end

return progress
