local faulty <const> = require "tests.fault.faulty"
local support <const> = require "tests.spec.support"

--- An adapter of one-stage plans whose `body` runs for slices of three atoms, with the right answer as `good`.
local source <const> = [[
local n = 0
local function answer(slice, island)
  return { { { atoms = #slice, gpus = island.gpus, strategy = { dp = 1, tp = island.gpus }, forward_s = #slice * 1e-3,
    backward_s = #slice * 2e-3, sync_s = 0, static_bytes = 1e9, inflight_bytes = 1e6, transient_bytes = 1e6 } } }
end
return { api = 1, kind = "parallelizer", name = "faulty", own_times = true,
  plan = function(slice, island, ctx)
    local good = answer(slice, island)
    if #slice ~= 3 and not %s then return good end
    n = n + 1
    %s
  end }
]]

local folder

local function plan(body, always, changes)
  local spec <const> = { parallelizer = faulty.write(folder, "faulty", source:format(tostring(always or false), body)), prune = {} }
  for name, value in pairs(changes or {}) do spec[name] = value end
  return faulty.plan(spec)
end

--- What the reason says of each way to fail.
local reasons <const> = {
  raises = "faulty%.lua:%d+: boom", raises_a_table = "raised a table, expected a message",
  raises_in_tostring = "raised a table, expected a message", raises_nil = "raised a nil, expected a message",
  overflows = "stack overflow", loops = "time limit of SECONDS s reached", loops_in_pcall = "time limit of SECONDS s reached",
  loops_in_handler = "time limit of SECONDS s reached", eats_memory = "memory limit of 24%.0 MiB reached",
  eats_memory_in_pcall = "time limit of SECONDS s reached",
  returns_text = "returned a string, expected a list of plans", returns_a_cycle = "got a key that is not a name|expected",
  returns_a_trap = "returned 0 plans",
}

--- Faults of answers alone.
local answers <const> = {
  names_a_list = { "good[1].idel = 1 return good", "plan 1: idel: unknown field, expected stages and, if any, 'idle'" },
  counts_beyond = { "good[1][3] = good[1][1] return good", "plan 1: expected a list of stages and, if any, 'idle'" },
  strategy_without_dp = {
    "good[1][1].strategy = { tp = 1 } return good", "plan 1: stage 1: strategy%.dp: missing, expected a whole number" },
  not_a_number = { "good[1][1].forward_s = 0 / 0 return good", "forward_s: got NaN, expected a finite number" },
  negative = { "good[1][1].backward_s = -1 return good", "backward_s: got %-1, expected a finite number of at least 0" },
  infinite = { "good[1][1].sync_s = math.huge return good", "sync_s: got inf, expected a finite number" },
  gpus = { "good[1][1].gpus, good[1][1].strategy.tp = 1, 1 return good", "make 1 GPUs, expected the island's 2" },
  degrees = { "good[1][1].strategy.ep = 4 return good", "ep 4 %* etp 1 does not divide its 2 GPUs" },
  samples = { "good[1][1].strategy = { dp = 2, tp = 1 } return good", "dp 2 does not divide the microbatch of 1 samples" },
  parts = { "good[1][1].parts = { memory = { weights_bytes = 1 } } return good", "parts.memory: add up to 1, expected static_bytes" },
  negative_part = { "good[1][1].parts = { memory = { weights_bytes = -1, gradients_bytes = 1e9 + 1 } } return good",
    "parts.memory.weights_bytes: got %-1, expected at least 0" },
  recomputes_ends = { "good[1][1].strategy.recompute = { kind = 'full', layers = slice.layers + 1 } return good",
    "recompute.layers: got %d, expected at most %d, its atoms but embedding and head" },
  many_plans = { "for i = 2, 1e6 do good[i] = good[1] end return good", "returned 1000000 plans, expected 1 to 10000" },
  many_stages = { "local p = {} for i = 1, 200 do p[i] = good[1][1] end for i = 1, 9000 do good[i] = p end return good",
    "more than 100000 stages in all plans" },
  many_parts = { "local t = {} for i = 1, 1000 do t['x' .. i] = 1 end good[1][1].parts = { time = t } return good", "at most 32 parts" },
  trap_in_stage = { "good[1][1].strategy = nil setmetatable(good[1][1], { __index = function() error 'trap' end }) return good",
    "strategy: missing" },
  hidden_plan = { "return setmetatable({}, { __index = good, __len = function() return 1 end })", "returned 0 plans" },
}

describe("a faulty adapter costs its pair alone:", function()
  before_each(function() folder = support.folder() end)
  after_each(function() support.remove(folder) end)

  local function check(name, body, pattern)
    it(name, function()
      local limits <const>, made <const>, why <const> = faulty.unhurried(faulty.limits(name),
        function(limits) return plan(body, false, limits) end, faulty.only_threes)
      assert.is_truthy(made, why)
      assert.is_true(#made.pairs.failed >= 4) -- three slices of three atoms on two islands, less what a bound could spare
      assert.is_true(faulty.only_threes(made))
      local said <const> = pattern:gsub("SECONDS", (faulty.literally(limits.query_seconds):gsub("%%", "%%%%")))
      for _, one in ipairs(made.pairs.failed) do
        local found = false
        for choice in said:gmatch "[^|]+" do found = found or one.reason:match(choice) end
        assert.is_truthy(found, one.reason)
      end
      for _, stage in ipairs(made.stages) do assert.is_true(stage.last - stage.first ~= 3) end
    end)
  end
  for name, pattern in pairs(reasons) do check(name, faulty.ways[name], pattern) end
  for name, case in pairs(answers) do check(name, case[1], case[2]) end

  it("none where it gives no reason: that is an answer", function()
    local made <const> = assert(plan(faulty.ways.returns_nothing))
    assert.equal(0, #made.pairs.failed)
    for _, stage in ipairs(made.stages) do assert.is_true(stage.last - stage.first ~= 3) end
  end)

  it("a worker is as good as new after each of them", function()
    -- Each slice but those of three atoms has a plan, though the worker was cut off for time and for memory before.
    local turns <const> = "n = n % 2 if n == 1 then " .. faulty.ways.eats_memory .. " else " .. faulty.ways.loops .. " end"
    local _, made <const> = faulty.unhurried({ workers = 1, query_seconds = 0.3, query_memory_bytes = 16 << 20 },
      function(limits) return assert(plan(turns, false, limits)) end, faulty.only_threes)
    assert.is_true(#made.pairs.failed >= 4)
    assert.is_true(faulty.only_threes(made))
  end)

  it("bytes by names of its own are counted all the same", function()
    local made <const> = assert(plan("good[1][1].parts = { memory = { weights_bytes = 1e8, arena_bytes = 9e8 } } return good"))
    assert.equal(0, #made.pairs.failed)
    for _, stage in ipairs(made.stages) do
      assert.near(1e9 + (stage.inflight + 1) * 1e6, stage.memory.total_bytes, 1)
    end
  end)

  it("what it says is one line of printable text, and UTF-8 in the file", function()
    local made <const> = assert(plan [[ctx.log "a\xFFb\27[31mc" return nil, "d\xFFe\27[31mf\ng"]])
    assert.is_true(faulty.noted(made, "^a\xFFb %[31mc$"))
    local failing <const> = assert(plan [[error "d\xFFe\27[31mf\ng"]])
    assert.matches(": d\xFFe %[31mf$", failing.pairs.failed[1].reason)
    for _, one in ipairs { made, failing } do assert.is_truthy(utf8.len(require("tangram.plan").encode(one))) end
  end)

  it("what it logs is cut short", function()
    local chatty <const> = "for i = 1, 1e4 do ctx.log(('line %d '):format(i) .. ('x'):rep(10000)) end return good"
    local made <const> = assert(plan(chatty))
    assert.is_true(#made.warnings < 1000)
    assert.is_true(faulty.noted(made, "^line 1 x"))
    for _, line in ipairs(made.warnings) do assert.is_true(#line <= 300) end
  end)
end)

describe("an adapter that never answers", function()
  before_each(function() folder = support.folder() end)
  after_each(function() support.remove(folder) end)

  for _, name in ipairs { "raises", "returns_text", "raises_in_tostring" } do
    it("ends in status 3 with the reason: " .. name, function()
      local made <const>, why <const>, status <const> = plan(faulty.ways[name], true)
      assert.is_nil(made)
      assert.equal(3, status)
      assert.matches("^no plan: all %d+ queries of the parallelizer %S+ failed: on island .*, atoms %d+%.%.%d+ at 2 microbatches: ", why)
      assert.matches(reasons[name], why)
    end)
  end
end)

describe("an adapter that answers differently each time", function()
  before_each(function() folder = support.folder() end)
  after_each(function() support.remove(folder) end)

  it("is found out when asked again, and the report says so", function()
    local made <const> = assert(plan("good[1][1].forward_s = n * 1e-3 return good", true, { workers = 1 }))
    assert.is_true(faulty.noted(made, "^faulty is not steady: atoms %d+%.%.%d+ on .* got another answer when asked again"))
  end)

  it("is not suspected when it does not", function()
    local made <const> = assert(plan("good[1][1].forward_s = 1e-3 * (1 + ctx.rng()) return good", true))
    assert.is_false((faulty.noted(made, "not steady")))
  end)
end)
