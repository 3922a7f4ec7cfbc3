local core <const> = require "tangram.core"
local progress <const> = require "tangram.progress"
local support <const> = require "tests.spec.support"
local terminal <const> = require "tests.spec.terminal"

describe("the progress bar", function()
  local lines, update, clear, now_s
  local clock_s <const> = core.clock_s
  before_each(function()
    lines, now_s = {}, 7
    core.clock_s = function() return now_s end
    update, clear = progress.bar(2, { write = function(_, text) lines[#lines + 1] = text end })
  end)
  after_each(function() core.clock_s = clock_s end)

  it("is not drawn for what takes a moment", function()
    update(4, 1, 3)
    now_s = 7.49
    update(2, 1, 3)
    clear()
    assert.same({}, lines)
  end)

  it("never falls back, neither its share nor its best time, when a second search begins; one line, cut where it is too long", function()
    now_s = 7.51
    for _, partition in ipairs { { math.huge, 7, 5 }, { math.huge, 9, 6 } } do
      for i, share in ipairs { 0, 0.5, 1 } do update(4, share, partition[i]) end
      update(2, 0.5, partition[3])
      update(2, 1, partition[3])
    end
    local shares <const>, best <const> = {}, {}
    for i, line in ipairs(lines) do
      shares[i], best[i] = line:match "^\r\27%[%?7l%[#*%.*%] +(%d+) %%  best ([^ ]+).-\27%[K\27%[%?7h$"
      assert.equal(30, #line:match "%[([#.]+)%]")
    end
    assert.equal("0 25 50 75 100 100 100 100 100 100", table.concat(shares, " "))
    assert.equal("none 7 5 5 5 5 5 5 5 5", table.concat(best, " "))
    clear()
    assert.equal("\r\27[K", lines[#lines])
  end)
end)

describe("Ctrl-C at a terminal", function()
  it("is answered at once, and ends the search with what it has", function()
    -- The shell, in the same foreground group, must outlive the signal too.
    local session <const> = terminal.open(("trap : INT; %s; echo status $?; read line"):format(
      support.when_busy(0.2, "compose --generate 1,42,30,4", "echo bu''sy")))
    session:expect "busy"
    session:send "\3"
    session:expect "tangram: stopping with what there is; a second Ctrl-C ends it at once"
    session:expect "tangram compose: stopped early (signal)"
    session:expect "status 0"
    session:send "\n"
    session:close()
  end)
end)
