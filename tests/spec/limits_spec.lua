--- Limits on time: what runs too long is ended, whatever it does, and what doesn't pays nothing.
local core <const> = require "tangram.core"
local endless <const> = require "tests.spec.endless"
local faulty <const> = require "tests.fault.faulty"
local support <const> = require "tests.spec.support"

local function spin(seconds)
  local end_s <const> = core.clock_s() + (seconds or math.huge)
  while core.clock_s() < end_s do end
end

--- Runs f, and sees that it does not take forever.
local function soon(f, ...)
  local started_s <const> = core.clock_s()
  local results <const> = table.pack(f(...))
  assert.is_true(core.clock_s() - started_s < 60)
  return table.unpack(results, 1, results.n)
end

describe("a limit on time", function()
  for name, f in pairs(endless) do
    it("ends " .. name, function()
      local ok <const>, why <const>, cut <const> = soon(core.guarded, 0.05, math.huge, f)
      assert.is_false(ok)
      assert.matches("time limit reached$", why)
      assert.equal("time", cut)
      assert.is_nil(debug.gethook()) -- of what runs next
    end)
  end

  it("ends what runs in a coroutine under a limit of the coroutine's own", function()
    local ok <const>, why <const> = soon(coroutine.wrap(function() return core.limited(0.1, spin) end))
    assert.same({ false, "time limit reached" }, { ok, why })
  end)

  it("ends coroutines each of which makes the next, and swallows its end", function()
    local function nest() while true do pcall(coroutine.wrap(nest)) end end
    local ok <const>, why <const> = soon(core.limited, 0.1, nest)
    assert.same({ false, "time limit reached" }, { ok, why })
  end)

  it("ends a coroutine made before it was set", function()
    assert.same({ false, "time limit reached" }, { soon(core.limited, 0.1, coroutine.wrap(spin)) })
  end)

  it("costs no hook until it is reached", function()
    assert.same({ true }, { core.limited(60, debug.gethook) })
    assert.same({ true, 7 }, { core.limited(60, function() return debug.gethook() or 7 end) })
  end)

  it("within another ends alone if it is reached first", function()
    assert.same({ true, false, "time limit reached", 1e5 }, { soon(core.limited, 60, function()
      local ok <const>, why <const> = core.limited(0.1, spin)
      local count = 0
      for _ = 1, 1e5 do count = count + 1 end
      return ok, why, count
    end) })
  end)

  it("within another does not help to outlast that", function()
    for _, f in ipairs { spin, math.abs } do
      local ok <const>, why <const> = soon(core.limited, 0.2, function() while true do core.limited(60, f, 1) end end)
      assert.same({ false, "time limit reached" }, { ok, why })
    end
  end)

  it("does not count what is unlimited, and holds after it", function()
    local past = false
    local ok <const>, why <const> = soon(core.limited, 1, function()
      core.unlimited(spin, 1.2)
      past = true
      spin()
    end)
    assert.same({ true, false, "time limit reached" }, { past, ok, why })
  end)

  it("lets programs, pipes and sleeping be", function()
    assert.same({ true, true, "all\n" }, { core.limited(60, function()
      local slept <const> = os.execute "sleep 0.3"
      local pipe <const> = assert(io.popen "sleep 0.2; echo all")
      return slept, pipe:read "a"
    end) })
  end)

  --- Runs all that never ends, in another process; then what is left of signals is as it was.
  local script <const> = [[
    local function signals()
      local file <close> = assert(io.open "/proc/self/status")
      return file:read("a"):match "SigCgt:%s*(%x+)"
    end
    local before, core = signals(), require "tangram.core"
    for name, f in pairs(require "tests.spec.endless") do
      local ok, why, cut = core.guarded(0.05, math.huge, f)
      assert(not ok and why:match "time limit reached$" and cut == "time" and not debug.gethook(), name)
    end
    assert(select(2, core.limited(60, debug.gethook)) == "external hook")
    assert(signals() == before)]]

  it("ends the same in stock Lua, whose signals are left alone", function()
    local status <const>, out <const>, err <const> = soon(support.run, support.stock(script))
    assert.equal(0, status, out .. err)
  end)

  it("ends the same where the system has no timer to give", function()
    local path <const> = support.write(os.tmpname(), script)
    local status <const>, out <const>, err <const> = soon(support.run,
      ("bash -c 'ulimit -i 0 && exec \"$0\" %s' %s"):format(path, support.tangram))
    os.remove(path)
    assert.equal(0, status, out .. err)
  end)
end)

describe("Ctrl-C", function()
  it("ends what the workers run, each in its thread", function()
    local folder <const> = support.folder()
    finally(function() support.remove(folder) end)
    local adapter <const> = faulty.write(folder, "slow", [[return { api = 1, kind = "parallelizer", name = "slow", own_times = true,
      plan = function() while true do pcall(function() while true do end end) end end }]])
    local script <const> = faulty.write(folder, "script", ([[
      local plan, why = require("tests.fault.faulty").plan { parallelizer = %q, prune = {}, query_seconds = 60 }
      print(plan, why)]]):format(adapter))
    local status <const>, out <const>, err <const> = support.run(support.when_busy(1, script, "kill -s INT $$"))
    assert.equal(0, status, err)
    assert.equal("nil\tstopped before any plan was found\n", out)
  end)
end)
