local core <const> = require "tangram.core"
local oracle <const> = require "tests.oracle.compose"
local instances <const> = require "tests.oracle.instances"

local function close(a, b) return math.abs(a - b) <= 1e-9 * math.max(1, math.abs(b)) end

--- Composes a random instance and compares with brute force; the message names the seed.
local function check(seed, limits, options)
  local instance <const> = instances.make(seed, limits)
  local all <const> = oracle.sequences(instance, options)
  options.gap = options.gap or 0
  local result <const>, why <const> = core.compose(core.json_encode(instance), options)
  assert(result, why)
  if #all == 0 then
    assert(not result.found, "seed " .. seed .. ": found a sequence where there is none")
    return 0
  end
  assert(result.found, "seed " .. seed .. ": found nothing")
  local value <const> = options.objective == "paper" and result.paper_s or result.time_s
  if not close(value, all[1].value) then
    error(("seed %d: %.17g, brute force %.17g"):format(seed, value, all[1].value))
  end
  return #all
end

describe("composition", function()
  it("equals brute force", function()
    for seed = 1, 2000 do
      check(seed, nil, { objective = seed % 2 == 0 and "paper" or "simulated", p2p = seed % 3 == 0 and "blocking" or "overlapped" })
    end
  end)
end)
