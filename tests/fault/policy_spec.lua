local faulty <const> = require "tests.fault.faulty"
local support <const> = require "tests.spec.support"

local folder

--- A policy whose function has that body.
local function policy(name, body)
  return faulty.write(folder, "mine", ([[
local n = 0
return { api = 1, kind = "prune", name = "mine", %s = function(pair, ctx) n = n + 1 %s end }]]):format(name, body))
end

local reasons <const> = {
  raises = "mine%.lua:%d+: boom", raises_a_table = "raised a table", raises_in_tostring = "raised a table",
  raises_nil = "raised a nil", overflows = "stack overflow", loops = "time limit reached", loops_in_pcall = "time limit reached",
  loops_in_handler = "time limit reached", eats_memory = "not enough memory", eats_memory_in_pcall = "time limit reached",
  returns_nothing = "returned a nil", returns_text = "returned a string", returns_a_cycle = "returned a table",
  returns_a_trap = "returned a table",
}

local function any_matches(text, pattern)
  for choice in pattern:gmatch "[^|]+" do
    if text:match(choice) then return true end
  end
  return false
end

describe("a faulty policy costs nothing but what it would have dropped:", function()
  local untouched
  before_each(function()
    folder = support.folder()
    untouched = untouched or assert(faulty.plan { prune = {} })
  end)
  after_each(function() support.remove(folder) end)

  local function check(made, name, pattern)
    assert.is_truthy(made)
    assert.equal(untouched.time_s, made.time_s)
    assert.equal(untouched.pairs.queried, made.pairs.queried)
    local found = false
    for _, line in ipairs(made.warnings) do
      local why <const> = line:match("^policy 'mine': " .. name
        .. "%(%) is called no more, it failed for atoms %d+%.%.%d+ on [%w-]+[ %w]*: (.*)")
      found = found or why and any_matches(why, pattern)
    end
    assert.is_true(found, table.concat(made.warnings, "\n"))
  end

  for _, name in ipairs { "keep", "key", "bound" } do
    for way, pattern in pairs(reasons) do
      if not (name == "key" and way == "returns_text") then -- a text is a key
        it(("%s %s"):format(name, way), function()
          local spec <const> = faulty.limits(way)
          spec.prune = { policy(name, faulty.ways[way]) }
          local _, made <const> = faulty.unhurried(spec, faulty.plan, function(made) return #made.pairs.failed == 0 end)
          check(made, name, pattern)
        end)
      end
    end
  end
  for _, case in ipairs { { "0 / 0", "returned .*nan" }, { "-1", "returned %-1, expected seconds" } } do
    it("bound " .. case[1], function()
      check(faulty.plan { prune = { policy("bound", "return " .. case[1]) } }, "bound", case[2])
    end)
  end

  it("a keep that fails after it dropped pairs stays off, and the pairs stay dropped", function()
    local made <const> = assert(faulty.plan { prune = { policy("keep", "if n <= 3 then return false end error 'late'") } })
    assert.equal(3, made.pairs.pruned.mine)
    assert.is_true(faulty.noted(made, "called no more, it failed for atoms .*: .*late"))
  end)

  it("an infinite bound is a bound", function()
    local made <const> = assert(faulty.plan { prune = { policy("bound", "return #pair.slice < 5 and math.huge or 0") } })
    assert.is_true((made.pairs.pruned.bounded or 0) > 0)
    assert.is_false((faulty.noted(made, "called no more")))
  end)
end)

describe("a keep that drops everything", function()
  before_each(function() folder = support.folder() end)
  after_each(function() support.remove(folder) end)

  it("ends in status 3, which says so and what to leave out", function()
    local made <const>, why <const>, status <const> = faulty.plan { prune = { policy("keep", "return false, 'no'") } }
    assert.is_nil(made)
    assert.equal(3, status)
    assert.matches("^no plan fits: the policies dropped all 30 pairs, 30 by 'mine'; it fits with no policy 'mine', which may drop what "
      .. "fits: [%d.]+ of [%d.]+ GiB on the fullest GPU, ", why)
  end)

  it("is named among others where one alone is not to blame", function()
    local second <const> = faulty.write(folder, "other", [[
      return { api = 1, kind = "prune", name = "other", safe = true, keep = function(pair) return #pair.slice == 1 end }]])
    local made <const>, why <const>, status <const> = faulty.plan {
      prune = { policy("keep", "return #pair.slice > 1"), second }, training = { global_batch = 1, seq_len = 1024, precision = "fp16" },
    }
    assert.is_nil(made)
    assert.equal(3, status)
    assert.matches("^no plan fits: the policies dropped all 30 pairs, 10 by 'mine', 20 by 'other'", why)
  end)
end)
