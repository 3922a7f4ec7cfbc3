local core <const> = require "tangram.core"
local faulty <const> = require "tests.fault.faulty"
local support <const> = require "tests.spec.support"

local folder

local recipe <const> = [==[
local tangram <const> = require "tangram"
return tangram.plan {
  model = { name = "small", family = "llama", layers = 3, hidden = 1024, heads = 8, vocab = 32000, positions = 2048, ffn = 2816 },
  cluster = { nodes = { { name = "a1", gpu = "a100-pcie-80", gpus = 2 }, { name = "v1", gpu = "v100-sxm2-32", gpus = 2 } },
    network = { default = { bytes_per_s = "3 GB/s", latency_s = 2e-5 } } },
  training = { global_batch = 2, seq_len = 1024, precision = "fp16", microbatches = { 2, 2 } }, merged = false,
}
]==]

--- Plans with the program that has the fault, which is to answer a question within so many seconds (120).
---@return table? plan, integer status, string err, string out
local function plan(fault, options, command, seconds)
  support.write(folder .. "/recipe.lua", recipe)
  local words <const> = core.json_encode(core.array(command or { support.program, "run", "tests/fault/misbehave.lua", fault }))
  local status <const>, out <const>, err <const> = support.run(("export TEST_OF=%s; tangram plan %s/recipe.lua --json - "
    .. "--query-seconds 300 --parallelizer process --set %s --set parallelizer.options.seconds=%g %s"):format(folder, folder,
      support.quoted("parallelizer.options.command=" .. words), seconds or 120, options or ""))
  return status == 0 and core.json_decode(out) or nil, status, err, out
end

--- The same where some are not to be answered, and the rest in time.
---@return number seconds, table? plan, integer status, string err
local function plan_within(seconds, honest, fault, command)
  local function try(limits) return plan(fault, nil, command, limits.query_seconds) end
  local limits <const>, made <const>, status <const>, err <const> = faulty.unhurried({ query_seconds = seconds }, try, honest)
  return limits.query_seconds, made, status, err
end

--- Whether a process of this test lives on, also after a while.
local function left_over()
  for _ = 1, 300 do
    if not os.execute(("grep -qsz '^TEST_OF=%s$' /proc/[0-9]*/environ"):format(folder)) then return false end
    os.execute "sleep 0.02"
  end
  return true
end

describe("a program as parallelizer", function()
  before_each(function() folder = support.folder() end)
  after_each(function() support.remove(folder) end)

  it("loses nothing while it does what it should", function()
    local made <const> = assert(plan "none")
    assert.equal(0, #made.pairs.failed)
    assert.is_true(made.pairs.queried > 20)
  end)

  -- It does so for slices of three of the five atoms: at least two of different contents on each of two islands.
  local costs_its_pair <const> = {
    exits = "ended with status 3", killed = "was killed by signal 9 %(Killed%)",
    garbage = "wrote 'Traceback %(most recent call last%):', expected a line of JSON", empty = "wrote '', expected a line of JSON",
    half = "did not answer within SECONDS s, in the middle of a line %('{", half_exit = "ended with status 0, in the middle of a line",
    slow = "did not answer within SECONDS s", leaves_child = "ended",
    nan = "expected a line of JSON", infinite = "expected a line of JSON", negative = "forward_s: got %-1, expected a number of at least 0",
    a_word = "forward_s: got 'fast', expected a number", gpus = "do not make its 3 GPUs", dp = "do not make its 2 GPUs",
    atoms = "its stages hold 1 atoms, expected the slice's 3", unknown = "forwards_s: unknown field %(did you mean 'forward_s'%?%)",
    other_id = "reply: id: got %d+, expected the question's %d+", a_string = "wrote '\"no\"', expected a line of JSON",
    no_candidates = "candidates: got 0 items, expected a list",
  }
  for fault, why in pairs(costs_its_pair) do
    it(("costs its pair alone: %s"):format(fault), function()
      local seconds <const>, made <const>, status <const>, err <const> =
        plan_within(why:find "SECONDS" and 0.8 or 120, faulty.only_threes, fault)
      assert.is_truthy(made, ("status %d: %s"):format(status, err))
      assert.is_true(#made.pairs.failed >= 4)
      assert.is_true(faulty.only_threes(made))
      local said <const> = why:gsub("SECONDS", (faulty.literally(0.95 * seconds):gsub("%%", "%%%%")))
      for _, one in ipairs(made.pairs.failed) do assert.matches(said, one.reason) end
      for _, stage in ipairs(made.stages) do assert.is_true(stage.last - stage.first ~= 3) end
      assert.is_falsy(left_over(), "a child lives on")
    end)
  end

  it("has no plan for what it refuses, with or without a reason", function()
    for _, fault in ipairs { "refuses", "no_reason" } do
      local made <const> = assert(plan(fault))
      assert.equal(0, #made.pairs.failed)
    end
  end)

  it("costs the next pair where the fault shows only then", function()
    for fault, why in pairs { never_reads = "did not answer within", twice = "reply: id: got %d+, expected the question's %d+" } do
      local _, made <const>, status <const>, err <const> = plan_within(0.8, function(made)
        for _, one in ipairs(made.pairs.failed) do
          if not one.reason:match(why) then return false end
        end
        return true
      end, fault)
      assert.is_truthy(made, ("%s: status %d: %s"):format(fault, status, err))
      assert.is_true(#made.pairs.failed > 0)
      for _, one in ipairs(made.pairs.failed) do assert.matches(why, one.reason) end
      assert.is_falsy(left_over(), "a child lives on")
    end
  end)

  it("costs one pair where it closes a pipe", function()
    -- it may close its input just before or just after the question has gone into the pipe
    for pipe, whys in pairs { ["in"] = { "closed its standard input", "did not answer" }, out = { "closed its standard output" } } do
      local _, made <const>, status <const>, err <const> = plan_within(0.8, function(made)
        return made.pairs.queried // 6 == #made.pairs.failed
      end, nil, { "sh", "tests/fault/closes.sh", support.program, pipe })
      assert.is_truthy(made, ("%s: status %d: %s"):format(pipe, status, err))
      assert.equal(made.pairs.queried // 6, #made.pairs.failed) -- every sixth question
      for _, one in ipairs(made.pairs.failed) do
        assert.is_truthy(one.reason:find(whys[1], 1, true) or one.reason:find(whys[2] or whys[1], 1, true), one.reason)
      end
      assert.is_falsy(left_over(), "a child lives on")
    end
  end)

  it("shows what it writes to standard error, each line behind its name", function()
    local made <const>, _, err <const> = plan "chatty"
    assert.equal(0, #made.pairs.failed)
    local lines = 0
    for line in err:gmatch "[^\n]+" do
      if line:find("remark", 1, true) or line:find("unfinished", 1, true) then
        lines = lines + 1
        assert.equal(1, line:find(support.program .. ": ", 1, true))
      end
    end
    assert.is_true(lines > 3000)
  end)

  it("is asked again for what failed, and for nothing else, with a store", function()
    local store <const> = "--store " .. folder .. "/s.db"
    local made <const>, _, err <const>, text <const> = plan("exits", store)
    local kept <const> = tonumber(err:match "(%d+) kept")
    assert.equal(made.pairs.queried, kept + #made.pairs.failed)
    local _, _, again <const>, same <const> = plan("exits", store)
    assert.equal(text, same)
    assert.matches(("store: %d answers found, 0 kept"):format(kept), again)
  end)

  it("is named by nobody but the user", function()
    local status <const>, _, err <const> = support.run("tangram plan " .. support.write(folder .. "/recipe.lua", recipe)
      .. " --parallelizer process")
    assert.equal(2, status)
    assert.matches("options: command: missing, expected a string, or a list", err)
    local copy <const> = support.write(folder .. "/process.lua", support.read "parallelizers/process.lua")
    for _, words in ipairs { "--parallelizer " .. copy, "--parallelizer process --lua-dir " .. folder } do
      local refused <const>, _, why <const> = support.run(("tangram plan %s/recipe.lua --set parallelizer.options.command=cat %s"):format(
        folder, words))
      assert.equal(2, refused)
      assert.matches("require 'tangram%.program'", why)
    end
    local missing <const>, _, no_program <const> = support.run(("tangram plan %s/recipe.lua --parallelizer process "
      .. "--set parallelizer.options.command=%s/none"):format(folder, folder))
    assert.equal(3, missing)
    assert.matches("none: No such file or directory, expected a program to run", no_program)
  end)
end)
