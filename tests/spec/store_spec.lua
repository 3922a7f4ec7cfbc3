local core <const> = require "tangram.core"
local identity <const> = require "tangram.identity"
local support <const> = require "tests.spec.support"

local folder

--- A recipe of two islands that never merge; all pairs are asked for, so that counts are known.
local function recipe(change)
  local text = [==[
local tangram <const> = require "tangram"
return tangram.plan {
  model = { name = "small", family = "llama", layers = 4, hidden = 1024, heads = 8, vocab = 32000, positions = 2048, ffn = 2816 },
  cluster = { nodes = { { name = "a1", gpu = "a100-pcie-80", gpus = 2 }, { name = "v1", gpu = "v100-sxm2-32", gpus = 2 } --[[more]] },
    network = { default = { bytes_per_s = "3 GB/s", latency_s = 2e-5 } } },
  training = { global_batch = 4, seq_len = 1024, precision = "fp16" }, merged = false, prune = { "redundant" }, top = 3,
}
]==]
  if change then text = text:gsub(change[1], change[2]) end
  return support.write(folder .. "/recipe.lua", text)
end

--- Plans; returns the plan's text, how many answers the store had and got, and standard error.
local function plan(options, change)
  local json <const> = folder .. "/plan.json"
  os.remove(json)
  local status <const>, _, err <const> = support.run(("tangram plan %s --json %s %s"):format(recipe(change), json, options))
  local found <const>, kept <const> = err:match "store: (%d+) answers found, (%d+) kept"
  return status, status == 0 and support.read(json) or nil, tonumber(found), tonumber(kept), err
end

local function queried(text) return core.json_decode(text).pairs.queried end

describe("store", function()
  before_each(function() folder = support.folder() end)
  after_each(function() support.remove(folder) end)

  it("gives the same plan, byte for byte, with none, a new one and a full one", function()
    local store <const> = folder .. "/s.db"
    local _, without <const> = plan ""
    local status <const>, new <const>, found_first <const>, kept_first <const> = plan("--store " .. store)
    assert.equal(0, status)
    local _, full <const>, found <const>, kept <const> = plan("--store " .. store)
    assert.equal(without, new)
    assert.equal(without, full)
    assert.is_true(queried(without) > 50)
    assert.same({ 0, queried(without) }, { found_first, kept_first })
    assert.same({ queried(without), 0 }, { found, kept })
  end)

  it("asks anew for what a change touches, and for that alone", function()
    local store <const> = "--store " .. folder .. "/s.db"
    local _, text <const> = plan(store)
    local all <const> = queried(text)
    -- untouched: the rest of the planning
    for _, options in ipairs { "--gap 0", "--top 1", "--set merged=false" } do
      local _, _, found <const>, kept <const> = plan(store .. " " .. options)
      assert.same({ all, 0 }, { found, kept }, options)
    end
    local adapter <const> = support.write(folder .. "/mine.lua", support.read "parallelizers/exact.lua" .. "-- changed\n")
    local model <const> = support.write(folder .. "/cost.lua", support.read "lua/cost/analytic.lua" .. "-- changed\n")
    for _, options in ipairs {
      "--set parallelizer.options.max_stages=63", "--parallelizer " .. adapter, "--cost " .. model, "--seq-len 512",
      "--memory-margin 0.11", "--set query_seconds=61", "--objective paper", -- which exact compares its plans by
      "--set 'cost.options.constants={\"step_s\":0.002}'",
    } do
      local status <const>, _, found <const>, kept <const>, err <const> = plan(store .. " " .. options)
      assert.equal(0, status, err)
      assert.equal(0, found, options)
      assert.is_true(kept > 50, options)
    end
    -- half of the numbers of microbatches: nothing new
    local _, half <const>, found_half <const>, kept_half <const> = plan(store .. " --microbatches 2..4")
    assert.same({ queried(half), 0 }, { found_half, kept_half })
  end)

  it("asks for changed islands alone when the cluster changes", function()
    local store <const> = "--store " .. folder .. "/s.db"
    local _, before <const> = plan(store)
    local third <const> = { "%-%-%[%[more%]%]", ', { name = "t1", gpu = "t4", gpus = 2 }' }
    local _, after <const>, found <const>, kept <const> = plan(store, third)
    local each <const> = queried(before) // 2 -- of an island where all pairs fit
    assert.is_true(found >= queried(before))
    assert.is_true(kept >= each and kept <= each * 2, ("%d kept, %d an island"):format(kept, each))
    assert.equal(queried(after), found + kept)
    -- other names, another order, another link: no island changed
    local _, _, _, moved <const> = plan(store, { 'name = "a1"', 'name = "b7"' })
    assert.equal(0, moved)
    local _, _, _, slower <const> = plan(store, { "3 GB/s", "2 GB/s" })
    assert.equal(0, slower)
    -- one island's GPUs: its answers alone
    local _, _, kept_ones <const>, asked <const> = plan(store, { 'v100%-sxm2%-32", gpus = 2', 'v100-sxm2-32", gpus = 4' })
    assert.is_true(asked > 0 and kept_ones >= each)
  end)

  it("is refused, and left as it is, where the file is foreign or damaged", function()
    local good <const> = folder .. "/good.db"
    assert.equal(0, (plan("--store " .. good)))
    local bytes <const> = support.read(good)
    local function with(at, text) return bytes:sub(1, at) .. text .. bytes:sub(at + #text + 1) end
    local middle <const> = #bytes // 2 // 4096 * 4096
    for name, case in pairs {
      text = { "precious\n", "not a store of tangram" },
      short = { bytes:sub(1, 50), "not a store of tangram" },
      foreign = { with(68, "\0\0\0\1"), "not a store of tangram" },
      newer = { with(60, "\0\0\0\9"), "a store of form 9, expected form 1" },
      cut = { bytes:sub(1, middle), "damaged" },
      page = { with(middle, ("\255"):rep(4096)), "damaged" },
    } do
      local path <const> = support.write(folder .. "/" .. name, case[1])
      for _, line in ipairs { "tangram plan recipe.lua --quiet --store ", "tangram store list ", "tangram store prune ",
        "tangram store verify " } do
        local status <const>, _, err <const> = support.run(line:gsub("recipe.lua", recipe()) .. path)
        assert.equal(2, status, name .. ": " .. line)
        assert.matches("^tangram [^\n]*" .. case[2]:gsub("%-", "%%-") .. "[^\n]*\n$", err)
        assert.equal(case[1], support.read(path))
      end
    end
    assert.equal(2, (plan("--store " .. folder)))
    assert.equal(2, (plan("--store " .. folder .. "/none/s.db")))
    assert.equal(2, (support.run("tangram store list " .. folder .. "/none.db")))
  end)

  it("finds one wrong byte in an answer", function()
    local path <const> = folder .. "/s.db"
    assert.equal(0, (plan("--store " .. path)))
    local bytes <const> = support.read(path)
    local at <const> = assert(bytes:find("compute_s", 1, true))
    support.write(path, bytes:sub(1, at - 1) .. "C" .. bytes:sub(at + 1))
    local status <const>, _, err <const> = support.run("tangram store verify " .. path)
    assert.equal(2, status)
    assert.matches("answer %d+ is damaged", err)
    local again <const>, _, _, _, said <const> = plan("--store " .. path)
    assert.equal(2, again)
    assert.matches("an answer in it is damaged", said)
  end)

  it("is left aside with a warning where nothing more can be written", function()
    local _, without <const> = plan ""
    for _, blocks in ipairs { 1, 8, 40, 150 } do -- of 512 bytes or more: at its making, at its first answers, later
      local status <const>, out <const>, err <const> = support.run(
        ("trap '' XFSZ; (ulimit -f %d; tangram plan %s --store %s/%d.db --json -) | cat"):format(blocks, recipe(), folder, blocks))
      assert.equal(0, status, err)
      assert.equal(without, out)
      assert.matches("warning: [^\n]*; the store is left aside, and the plan is made without it\n", err)
    end
    local verified <const>, out <const> = support.run(("tangram store verify %s/150.db"):format(folder))
    assert.equal(0, verified)
    assert.is_true(tonumber(out:match "^(%d+) answers, all intact") > 0)
  end)

  it("is left aside where the disk is full", function()
    local mount <const> = folder .. "/disk"
    if not os.execute(("mkdir %s && mount -t tmpfs -o size=64k none %s 2>/dev/null"):format(mount, mount)) then
      return pending "no leave to mount a small disk here"
    end
    local _, without <const> = plan ""
    local status <const>, text <const>, _, _, err <const> = plan("--store " .. mount .. "/s.db")
    os.execute("umount " .. mount)
    assert.equal(0, status, err)
    assert.equal(without, text)
    assert.matches("warning: [^\n]*full; the store is left aside", err)
  end)

  it("goes on after being killed at any moment, and asks for nothing that was answered", function()
    local path <const>, log <const> = folder .. "/s.db", folder .. "/log"
    local line <const> = ("tangram run tests/spec/fixtures/resumed.lua %s %s"):format(path, log)
    local function fresh()
      for _, name in ipairs { path, path .. "-wal", path .. "-shm" } do os.remove(name) end
      support.write(log, "")
    end
    fresh()
    local started_s <const> = core.clock_s()
    local status <const>, right <const> = support.run(line)
    local took_s <const> = core.clock_s() - started_s
    assert.equal(0, status)
    local kills, ends, spared = 0, 0, 0
    local seed = 1
    local function random()
      seed = (seed * 1103515245 + 12345) % 2 ^ 31
      return seed / 2 ^ 31
    end
    local answered, ever = {}, {} -- by an earlier run that went on to ask for another; asked at all
    local wanted <const> = support.scale(200)
    fresh()
    while kills < wanted or ends < 1 do
      support.write(log, "")
      local limit <const> = kills < wanted and ("timeout -s KILL %.4f "):format(random() * took_s) or ""
      local ended <const>, out <const> = support.run(limit .. line:gsub("tangram", (support.tangram:gsub("%%", "%%%%")), 1))
      local asked <const>, seen <const> = {}, {} -- in order; a few are asked twice, to see whether the answer is the same
      for query in support.read(log):gmatch "[^\n]+" do
        assert.is_nil(answered[query], "asked again for " .. query)
        asked[#asked + 1], seen[query], ever[query] = query, true, true
      end
      if ended == 0 then
        assert.equal(right, out)
        local count = 0
        for _ in pairs(ever) do count = count + 1 end
        assert.equal(126, count) -- 21 slices of 6 atoms, 2 islands, 3 numbers of microbatches
        for query in pairs(answered) do spared = spared + (seen[query] and 0 or 1) end
        ends, answered, ever = ends + 1, {}, {}
        fresh()
      else
        assert.equal(137, ended)
        for i = 1, #asked - 1 do answered[asked[i]] = true end
        kills = kills + 1
      end
    end
    assert.is_true(spared > 0 or wanted < 50)
  end)

  it("is shared by processes that run at once", function()
    local path <const> = folder .. "/s.db"
    local lines <const> = {}
    for i = 1, 4 do
      lines[i] = ("tangram run tests/spec/fixtures/resumed.lua %s %s/log%d >%s/out%d & p%d=$!; "):format(path, folder, i, folder, i, i)
    end
    local status <const>, _, err <const> = support.run(table.concat(lines) .. "wait $p1 && wait $p2 && wait $p3 && wait $p4")
    assert.equal(0, status, err)
    for i = 2, 4 do assert.equal(support.read(folder .. "/out1"), support.read(folder .. "/out" .. i)) end
    local verified <const>, out <const> = support.run("tangram store verify " .. path)
    assert.equal(0, verified)
    assert.equal("126 answers, all intact\n", out)
  end)

  it("is listed and pruned", function()
    local path <const> = folder .. "/s.db"
    local _, text <const> = plan("--store " .. path)
    local _, listed <const> = support.run("tangram store list " .. path)
    assert.matches("answers +%S+ KiB  small on 2 × a100%-pcie%-80 with exact, analytic, B 4\n", listed)
    assert.matches(("\n%d answers, "):format(queried(text)), listed)
    local _, none <const> = support.run("tangram store prune " .. path .. " --unused-days 1")
    assert.equal("0 answers dropped\n", none)
    local _, all <const> = support.run("tangram store prune " .. path .. " --unused-days 0")
    assert.equal(("%d answers dropped\n"):format(queried(text)), all)
    local _, left <const> = support.run("tangram store list " .. path)
    assert.equal("0 answers, 0.00 B\n", left)
    local status <const>, _, err <const> = support.run("tangram store prune " .. path .. " --unused-days soon")
    assert.equal(2, status)
    assert.matches("%-%-unused%-days: got 'soon', expected a number", err)
  end)
end)

describe("identity", function()
  it("hashes as FIPS 180-2 says", function()
    assert.equal("ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad", core.sha256 "abc")
    assert.equal("e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855", core.sha256 "")
  end)

  it("tells any two different values apart, and equal ones not, in whatever order they were made", function()
    local values <const> = {
      1, 1.0, "1", true, "true", {}, { {} }, { 1 }, { 1, 2 }, { 12 }, { "1", "2" }, { "12" }, { a = 1 }, { a = { 1 } }, { a = "s1:b" },
      { a = "s1:", b = 1 }, { b = 1 }, { [1] = "a", a = 1 }, 0.1, 0.1 + 2 ^ -55, "", { "" },
    }
    local seen <const> = {}
    for i, value in ipairs(values) do
      local text <const> = identity.text(value)
      assert.is_nil(seen[text], ("%d reads as %s"):format(i, tostring(seen[text])))
      seen[text] = i
    end
    local one <const>, other <const> = {}, {}
    for i = 1, 50 do one["k" .. i], other["k" .. 51 - i] = i, 51 - i end
    assert.equal(identity.text(one), identity.text(other))
  end)
end)
