local core <const> = require "tangram.core"
local oracle <const> = require "tests.oracle.compose"
local instances <const> = require "tests.oracle.instances"

local function close(a, b) return math.abs(a - b) <= 1e-9 * math.max(1, math.abs(b)) end

--- Composes a random instance and compares with brute force; the message names the seed.
---@param options table of core.compose
---@return table? result, table all every sequence by brute force, best first
local function check(seed, limits, options)
  local instance <const> = instances.make(seed, limits)
  local all <const> = oracle.sequences(instance, options)
  local gap <const> = options.gap or 0
  options.gap = gap
  local result <const> = assert(core.compose(core.json_encode(instance), options))
  local function say(format, ...) error(("seed %d: " .. format):format(seed, ...), 0) end
  local wanted <const> = {}
  for i, sequence in ipairs(all) do
    if sequence.value < (options.cutoff or math.huge) then wanted[i] = sequence end
  end
  if #wanted == 0 then
    if result.found then say("found a sequence where there is none") end
    if all[1] and result.bound_s < (options.cutoff or 0) * (1 - gap) - 1e-9 then say("bound below the cutoff") end
    return nil, all
  end
  if not result.found then say("found nothing") end
  local best <const> = wanted[1].value
  local value <const> = options.objective == "paper" and result.paper_s or result.time_s
  if not close(value, best) and (gap == 0 or value * (1 - gap) > best or value < best) then
    say("%.17g, brute force %.17g", value, best)
  end
  if not result.proved or result.gap > gap then say("not proved") end
  if options.objective ~= "paper" and result.bound_s > best * (1 + 1e-9) then say("bound %.17g above the optimum", result.bound_s) end
  return result, all
end

local objectives <const> = { "simulated", "paper" }
local p2ps <const> = { "overlapped", "blocking" }

describe("composition", function()
  it("equals brute force under both objectives", function()
    for seed = 1, 2000 do
      for _, objective in ipairs(objectives) do check(seed, nil, { objective = objective, p2p = p2ps[seed % 2 + 1] }) end
    end
  end)

  it("equals brute force with deeper warm-ups", function()
    for seed = 1, 2000 do
      check(seed, { microbatches = 12, stages = 2, plans = 12 }, { warmup = "auto", p2p = p2ps[seed % 2 + 1] })
    end
  end)
end)
