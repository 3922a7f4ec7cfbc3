local core <const> = require "tangram.core"
local support <const> = require "tests.spec.support"

local folder

local recipe <const> = [==[
local tangram <const> = require "tangram"
return tangram.plan {
  model = { name = "small", family = "llama", layers = 4, hidden = 1024, heads = 8, vocab = 32000, positions = 2048, ffn = 2816 },
  cluster = { nodes = { { name = "a1", gpu = "a100-pcie-80", gpus = 2 }, { name = "v1", gpu = "v100-sxm2-32", gpus = 2 },
    { name = "t1", gpu = "t4", gpus = 2 } }, network = { default = { bytes_per_s = "3 GB/s", latency_s = 2e-5 } } },
  training = { global_batch = 4, seq_len = 1024, precision = "fp16" }, top = 3,
}
]==]

--- Why ranks can't be tried here, or nil.
local function missing()
  if not core.ranks then return "built without MPI (-DTANGRAM_MPI=ON)" end
  if not os.execute "command -v mpirun >/dev/null" then return "mpirun is not installed" end
end

--- Plans on so many ranks; more: options of mpirun.
local function plan(ranks, options, more)
  local path <const> = support.write(folder .. "/recipe.lua", recipe)
  local start <const> = ranks > 1 and ("timeout 120 mpirun -n %d --allow-run-as-root --oversubscribe %s %s"):format(ranks, more or "",
    support.tangram) or "tangram"
  return support.run(("%s plan %s --json - %s"):format(start, path, options or ""))
end

local function misbehave(fault)
  local token <const> = support.write(folder .. "/token", "")
  local words <const> = core.json_encode(core.array { support.program, "run", "tests/fault/misbehave.lua", fault, token })
  return ("--parallelizer process --set query_seconds=5 --set merged=false --microbatches 2 --set %s"):format(
    support.quoted("parallelizer.options.command=" .. words))
end

describe("ranks", function()
  before_each(function() folder = support.folder() end)
  after_each(function() support.remove(folder) end)

  it("make the same plan, byte for byte, on four ranks as on one, with and without a store", function()
    local why <const> = missing()
    if why then return pending(why) end
    local _, alone <const> = plan(1)
    local status <const>, four <const>, err <const> = plan(4)
    assert.equal(0, status, err)
    assert.equal(alone, four)
    local queried <const> = core.json_decode(alone).pairs.queried
    local store <const> = "--store " .. folder .. "/s.db"
    local _, first <const>, told_first <const> = plan(4, store)
    local _, second <const>, told_second <const> = plan(4, store)
    assert.equal(alone, first)
    assert.equal(alone, second)
    local found <const>, kept <const> = told_first:match "store: (%d+) answers found, (%d+) kept"
    assert.equal(queried, found + kept)
    assert.matches(("store: %d answers found, 0 kept"):format(queried), told_second)
  end)

  it("end as rank 0 does where there is no plan", function()
    local why <const> = missing()
    if why then return pending(why) end
    local status <const>, _, err <const> = plan(4, "--parallelizer nosuch")
    assert.equal(2, status)
    assert.matches("tangram plan: [^\n]*unknown parallelizer 'nosuch'", err)
  end)

  it("go on without one that hangs: it loses the pair in hand", function()
    local why <const> = missing()
    if why then return pending(why) end
    local status <const>, text <const>, err <const> = plan(4, misbehave "stops_parent")
    assert.equal(0, status, err)
    local made <const> = core.json_decode(text)
    assert.equal(1, #made.pairs.failed)
    assert.matches("rank [123] died or hangs: no answer within 10 s", made.pairs.failed[1].reason)
    assert.matches("warning: rank [123] died or hangs", err)
  end)

  it("go on without one that dies, where mpirun lets them (--enable-recovery)", function()
    local why <const> = missing()
    if why then return pending(why) end
    local status <const>, text <const>, err <const> = plan(4, misbehave "kills_parent", "--enable-recovery")
    assert.equal(0, status, err)
    assert.equal(1, #core.json_decode(text).pairs.failed)
  end)

  it("end within a bounded time where mpirun ends them all for one that dies, saying so", function()
    local why <const> = missing()
    if why then return pending(why) end
    local started_s <const> = core.clock_s()
    local status <const>, text <const>, err <const> = plan(4, misbehave "kills_parent")
    assert.is_true(core.clock_s() - started_s < 110)
    assert.equal(137, status)
    assert.equal("", text)
    assert.matches("rank %d+ .*exited on signal 9", err)
  end)
end)
