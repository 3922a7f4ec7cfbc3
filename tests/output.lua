--- Output handler for busted: its plain report, and the last line `N passed, N failed, N skipped`.
local busted <const> = require "busted"

return function(options)
  local handler <const> = require "busted.outputHandlers.plainTerminal" (options)
  busted.subscribe({ "exit" }, function()
    print(("%d passed, %d failed, %d skipped"):format(
      handler.successesCount, handler.failuresCount + handler.errorsCount, handler.pendingsCount))
  end)
  return handler
end
