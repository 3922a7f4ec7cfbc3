local core <const> = require "tangram.core"

return {
  summary = "print the version",
  run = function()
    print("tangram " .. core.version)
    return 0
  end,
}
