local core <const> = require "tangram.core"

describe("memory", function()
  it("bears the successors that the closed form gives, at the edges too", function()
    -- 10 fixed + k * 3 in a capacity of 10 + 3 * 4: four in flight, so three successors.
    assert.equal(3, core.bears(6, 4, 3, 22, 64))
    assert.equal(4, core.max_inflight(6, 4, 3, 22, 64))
    assert.equal(2, core.bears(6, 4, 3, 21.999, 64))
    assert.equal(0, core.bears(6, 4, 3, 13, 64))
    assert.equal(-1, core.bears(6, 4, 3, 12, 64))
    assert.equal(0, core.max_inflight(6, 4, 3, 12, 64))
  end)

  it("knows no limit once all microbatches of an iteration fit", function()
    assert.equal(core.no_limit, core.bears(6, 4, 3, 22, 4))
    assert.equal(core.no_limit, core.max_inflight(6, 4, 3, 22, 4))
    assert.equal(3, core.bears(6, 4, 3, 22, 5))
    assert.equal(core.no_limit, core.bears(6, 4, 0, 10, 64))
    assert.equal(-1, core.bears(6, 4, 0, 9, 64))
  end)

  it("agrees with counting up on random figures", function()
    math.randomseed(7)
    for _ = 1, 2000 do
      local static <const>, transient <const>, inflight <const> = math.random(0, 40), math.random(0, 9), math.random() * 5
      local capacity <const>, microbatches <const> = math.random(0, 90), math.random(1, 24)
      local most = -1
      for n = 0, 30 do
        if static + transient + math.min(n + 1, microbatches) * inflight <= capacity then most = n end
      end
      assert.equal(most == 30 and core.no_limit or most, core.bears(static, transient, inflight, capacity, microbatches))
    end
  end)

  it("gives a row of stages what its tightest bears beyond those behind it", function()
    local function stage(bears)
      return { static_bytes = 5, transient_bytes = 1, inflight_bytes = 2, capacity_bytes = 6 + 2 * (bears + 1) }
    end
    assert.equal(3, core.max_successors({ stage(5), stage(4), stage(9) }, 64))
    assert.equal(0, core.max_successors({ stage(2), stage(4), stage(9) }, 64))
    assert.equal(-1, core.max_successors({ stage(1), stage(4), stage(9) }, 64))
    assert.equal(core.no_limit, core.max_successors({ stage(7), stage(9) }, 8))
    assert.equal(6, core.max_successors({ stage(7), stage(6) }, 8))
  end)

  it("refuses what is no memory", function()
    assert.error_matches(function() core.bears(-1, 0, 0, 1, 1) end, "at least 0")
    assert.error_matches(function() core.bears(1, 0, 0, 0 / 0, 1) end, "finite")
    assert.error_matches(function() core.bears(1, 0, 0, 1, 0) end, "expected an integer from 1")
    assert.error_matches(function() core.max_successors({ { static_bytes = 1 } }, 4) end, "'transient_bytes' is missing")
  end)
end)
