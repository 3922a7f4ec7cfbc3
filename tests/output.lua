--- Output handler for busted: its plain report, and the last line `N passed, N failed, N skipped`.
local busted <const> = require "busted"

return function(options)
  local handler <const> = require "busted.outputHandlers.plainTerminal" (options)
  busted.subscribe({ "exit" }, function()
    local failed <const> = handler.failuresCount + handler.errorsCount
    print(("%d passed, %d failed, %d skipped"):format(handler.successesCount, failed, handler.pendingsCount))
    if failed > 255 then os.exit(1, true) end -- busted's own status is this count, and 256 would read as 0
  end)
  return handler
end
