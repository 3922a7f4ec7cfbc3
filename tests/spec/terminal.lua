--- Talks to a program through a pseudo-terminal, by way of script(1).
local support <const> = require "tests.spec.support"

local terminal <const> = {}
terminal.__index = terminal

local PATIENCE_S <const> = 30

--- Starts a command line, read by /bin/sh, whose standard input and output are a terminal.
---@param line string
function terminal.open(line)
  local log <const> = os.tmpname()
  local run <const> = ("SHELL=/bin/sh TERM=xterm timeout %d script -qfec %s /dev/null >%s 2>&1"):format(
    4 * PATIENCE_S, support.quoted(line), log)
  local pipe <const> = assert(io.popen(run, "w"))
  pipe:setvbuf "no"
  return setmetatable({ pipe = pipe, log = log, seen = 0 }, terminal)
end

--- Waits until the program has written text since the last expected one; raises what it wrote instead.
---@param text string
function terminal:expect(text)
  local written
  for _ = 1, PATIENCE_S * 50 do
    written = support.read(self.log):sub(self.seen + 1)
    local _, last <const> = written:find(text, 1, true)
    if last then
      self.seen = self.seen + last
      return
    end
    os.execute "sleep 0.02"
  end
  error(("expected %q, got %q"):format(text, written), 2)
end

function terminal:send(text) self.pipe:write(text) end

--- Ends the input.
---@return integer exit status
function terminal:close()
  local _, _, status <const> = self.pipe:close()
  os.remove(self.log)
  return status
end

return terminal
