--- `tangram version`.
local core <const> = require "tangram.core"
local options <const> = require "tangram.cli.options"

return options.entry("tangram version", "print the version", function(words)
  options.parse(options.parser("tangram version", "Print the program's version.", "tangram version"), words)
  print("tangram " .. core.version)
end)
