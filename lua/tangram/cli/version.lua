local core <const> = require "tangram.core"

return {
  summary = "print the version",
  run = function(words)
    if words[1] == "--help" or words[1] == "-h" then
      print "usage: tangram version\n\nPrint the program's version.\n\nexample: tangram version"
      return 0
    elseif words[1] then
      io.stderr:write(("tangram version: got '%s', expected nothing behind it\n"):format(words[1]))
      return 2
    end
    print("tangram " .. core.version)
    return 0
  end,
}
