--- What runs in threads. The gate runs this file under ThreadSanitizer.
local core <const> = require "tangram.core"
local faulty <const> = require "tests.fault.faulty"
local plan_file <const> = require "tangram.plan"
local support <const> = require "tests.spec.support"

--- Alike but for the workers: a plan of several islands and numbers of microbatches, as bytes.
local function bytes(workers, changes)
  local spec <const> = { workers = workers, training = { global_batch = 4, seq_len = 1024, precision = "fp16" }, merged = true }
  for name, value in pairs(changes or {}) do spec[name] = value end
  return plan_file.encode(assert(faulty.plan(spec)))
end

local source <const> = [[
local calls = 0 -- of this worker
return { api = 1, kind = "parallelizer", name = "mine", own_times = true,
  plan = function(slice, island, ctx)
    calls = calls + 1
    %s
    return { { { atoms = #slice, gpus = island.gpus, strategy = { dp = 1, tp = island.gpus }, forward_s = #slice * (1 + ctx.rng()),
      backward_s = #slice * 2e-3, sync_s = 0, static_bytes = 1e9, inflight_bytes = 1e6, transient_bytes = 1e6 } } }
  end }]]

describe("workers", function()
  local folder
  before_each(function() folder = support.folder() end)
  after_each(function() support.remove(folder) end)

  it("give the same bytes, however many", function()
    local alone <const> = bytes(1)
    for _, workers in ipairs { 2, 3, 7 } do assert.equal(alone, bytes(workers)) end
  end)

  it("give the same bytes with an adapter that fails, logs, draws and answers nothing by turns of the slice", function()
    local changes <const> = { prune = {}, parallelizer = faulty.write(folder, "mine", source:format [[
      ctx.log(("%d atoms"):format(#slice))
      if slice.first == 2 then error("not from " .. slice.first) end
      if slice.first == 3 then return nil, "nothing from 3" end]]) }
    local alone <const> = bytes(1, changes)
    assert.matches("not from 2", alone)
    assert.matches("3 atoms", alone)
    for _, workers in ipairs { 2, 5 } do assert.equal(alone, bytes(workers, changes)) end
  end)

  it("share the queries", function()
    -- Each worker remembers what it was asked; with two, none was asked for all.
    local function most_calls(workers, turns)
      local path <const> = faulty.write(folder, "mine", source:format(([[
        local x = 0
        for i = 1, %d do x = x + i end
        ctx.log(("worker's call %%d"):format(calls))]]):format(turns)))
      local plan <const>, most = assert(faulty.plan { parallelizer = path, prune = {}, workers = workers }), 0
      for _, line in ipairs(plan.warnings) do most = math.max(most, tonumber(line:match "worker's call (%d+)") or 0) end
      return most, plan.pairs.queried
    end
    local alone <const>, queried <const> = most_calls(1, 1)
    assert.equal(queried, alone)
    local most
    for _, turns in ipairs { 2e4, 2e5, 2e6 } do -- on one processor the first may be done before the second starts
      most = most_calls(2, turns // 1 | 0)
      if most < queried then break end
    end
    assert.is_true(most < queried)
  end)

  it("stop when the time is over, and what was answered till then makes the plan", function()
    local path <const> = faulty.write(folder, "slow", source:format "while #slice > 2 and #slice < 5 do ctx.successors = 0 end")
    local plan, why
    for _, limit_s in ipairs { 1, 5, 25 } do -- the first answers may come later where the machine is busy
      local started_s <const> = core.clock_s()
      plan, why = faulty.plan { parallelizer = path, prune = {}, workers = 2, time_limit_s = limit_s, query_seconds = 60 }
      assert.is_true(core.clock_s() - started_s < limit_s + 30) -- a query alone may take 60 s
      if plan then break end
    end
    assert.is_truthy(plan, why) -- the whole model on an island, which is asked for first
    assert.equal("time", plan.stopped)
    assert.is_false(plan.proved)
    assert.equal(0, #plan.pairs.failed) -- what the end of the run cut off has not failed
  end)

  it("stop at once without a plan where there is none", function()
    local path <const> = faulty.write(folder, "slow", source:format "while true do ctx.successors = 0 end")
    local plan <const>, why <const>, status <const> = faulty.plan { parallelizer = path, prune = {}, workers = 2, time_limit_s = 0.5 }
    assert.is_nil(plan)
    assert.equal(4, status, why)
  end)

  it("keep what they are told in one store, and find it there whoever asks", function()
    local changes <const> = { store = folder .. "/answers.db", parallelizer = "uniform" }
    local first <const> = bytes(2, changes)
    assert.equal(first, bytes(3, changes))
    assert.equal(first, bytes(1, { parallelizer = "uniform" }))
    local store <close> = assert(core.store(changes.store, "existing"))
    local answers = 0
    for _, scope in ipairs(store:list()) do answers = answers + scope.answers end
    assert.is_true(answers > 0)
  end)

  it("serve stock Lua, too", function()
    local status <const>, out <const>, err <const> = support.run(support.stock(([[
      require("tangram.loader").set_places { %q }
      local plan = assert(require("tests.fault.faulty").plan { workers = 2, parallelizer = "uniform" })
      io.write(require("tangram.plan").encode(plan))]]):format(support.loadable)))
    assert.equal(0, status, err)
    assert.equal(out, plan_file.encode(assert(faulty.plan { workers = 1, parallelizer = "uniform" })))
  end)
end)
