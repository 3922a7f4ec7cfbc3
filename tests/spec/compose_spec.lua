local core <const> = require "tangram.core"
local oracle <const> = require "tests.oracle.compose"
local instances <const> = require "tests.oracle.instances"
local support <const> = require "tests.spec.support"

local function close(a, b) return math.abs(a - b) <= 1e-9 * math.max(1, math.abs(b)) end

local function say(seed, format, ...) error(("seed %d: " .. format):format(seed, ...), 0) end

--- Compares a composition with all sequences by brute force.
local function compare(seed, instance, all, options)
  local key <const> = options.objective == "paper" and "paper_s" or "time_s"
  local cutoff <const>, gap <const> = options.cutoff or math.huge, options.gap or 0
  options.gap = gap
  local result <const> = assert(core.compose(core.json_encode(instance), options))
  table.sort(all, function(a, b) return a[key] < b[key] end)
  local wanted <const> = {}
  for _, sequence in ipairs(all) do
    if sequence[key] < cutoff then wanted[#wanted + 1] = sequence[key] end
  end
  if #wanted == 0 then
    if result.found then say(seed, "found a sequence where there is none") end
    if all[1] and result.bound_s < cutoff * (1 - gap) * (1 - 1e-9) then say(seed, "bound below the cutoff") end
    return result
  end
  if not result.found then say(seed, "found nothing") end
  local best <const>, value <const> = wanted[1], result[key]
  if not close(value, best) and (value < best or value * (1 - gap) > best) then
    say(seed, "%.17g, brute force %.17g", value, best)
  end
  if not result.proved or result.gap > gap then say(seed, "not proved") end
  if result.bound_s > result.time_s * (1 + 1e-9) then say(seed, "bound above the time") end
  if key == "time_s" and result.bound_s > best * (1 + 1e-9) then say(seed, "bound %.17g above the optimum", result.bound_s) end
  if gap == 0 then
    if #result.top ~= math.min(options.top or 1, #wanted) then say(seed, "%d in top of %d", #result.top, #wanted) end
    local seen <const> = {}
    for i, entry in ipairs(result.top) do
      local name <const> = table.concat(entry.sequence, " ")
      if seen[name] then say(seed, "%s twice in top", name) end
      seen[name] = true
      if key == "time_s" and not close(entry.time_s, wanted[i]) then say(seed, "top %d: %.17g, not %.17g", i, entry.time_s, wanted[i]) end
    end
  end
  return result
end

local p2ps <const> = { "overlapped", "blocking" }

--- Composes a random instance under both objectives (with deeper warm-ups only simulated) and compares.
local function check(seed, limits, options)
  local instance <const> = instances.make(seed, limits)
  local all <const> = oracle.sequences(instance, options)
  for _, objective in ipairs { "simulated", "paper" } do
    if objective == "simulated" or options.warmup ~= "auto" then
      local own <const> = { objective = objective }
      for k, v in pairs(options) do own[k] = v end
      compare(seed, instance, all, own)
    end
  end
  return instance, all
end

describe("composition against brute force", function()
  it("finds the optimum and proves it", function()
    for seed = 1, support.scale(2000) do check(seed, nil, { p2p = p2ps[seed % 2 + 1] }) end
  end)

  it("does so with more atoms and islands, and with deeper warm-ups", function()
    for seed = 2001, 2000 + support.scale(5000) do
      local auto <const> = seed % 2 == 0
      check(seed, { atoms = 8, islands = 4, plans = auto and 12 or 16, stages = 2, microbatches = auto and 10 or 40 },
        { p2p = p2ps[seed // 2 % 2 + 1], warmup = auto and "auto" or "1f1b" })
    end
    for seed = 7001, 7000 + support.scale(400) do -- there are few depths to list where there are few stages
      check(seed, { atoms = 8, islands = 2, stages = 1 }, { p2p = p2ps[seed % 2 + 1], warmup = "auto" })
    end
  end)

  it("keeps what it claims at any gap", function()
    for seed = 1, support.scale(600) do check(seed, nil, { gap = ({ 0.005, 0.05, 0.3 })[seed % 3 + 1], p2p = p2ps[seed % 2 + 1] }) end
  end)

  it("knows several link classes an island and least successors", function()
    for seed = 1, support.scale(600) do check(seed, { classes = true }, { p2p = p2ps[seed % 2 + 1] }) end
  end)

  it("knows islands too many to count", function()
    for seed = 1, support.scale(150) do
      local auto <const> = seed % 4 == 0
      local instance <const> = check(seed, { atoms = 5, islands = 24, plans = 48, stages = 2, microbatches = 12, unlike = true },
        { p2p = p2ps[seed % 2 + 1], warmup = auto and "auto" or "1f1b", top = seed % 3 + 1 })
      local required <const> = seed % #instance.islands + 1
      compare(seed, instance, oracle.sequences(instance, { required_island = required }), { required_island = required })
    end
  end)

  it("lists the best distinct sequences", function()
    for seed = 1, support.scale(400) do check(seed, nil, { top = seed % 7 + 2 }) end
  end)

  it("heeds a cutoff and a required island", function()
    for seed = 1, support.scale(600) do
      local instance <const> = instances.make(seed)
      local required <const> = seed % 3 > 0 and seed % #instance.islands + 1 or nil
      local all <const> = oracle.sequences(instance, { required_island = required })
      for _, objective in ipairs { "simulated", "paper" } do
        local least = math.huge
        for _, sequence in ipairs(all) do least = math.min(least, objective == "paper" and sequence.paper_s or sequence.time_s) end
        local cutoff <const> = seed % 4 > 0 and least < math.huge and least * ({ 0.9, 1.01, 1.5 })[seed % 4] or nil
        compare(seed, instance, all, { objective = objective, cutoff = cutoff, required_island = required, gap = seed % 2 * 0.01 })
      end
    end
  end)

  it("gives the same time for any order of plans and islands", function()
    for seed = 1, support.scale(300) do
      local instance <const>, random <const> = instances.make(seed), instances.random(seed)
      local before <const> = core.compose(core.json_encode(instance), { gap = 0 })
      local place <const> = {}
      for i = 1, #instance.islands do place[i] = i end
      for i = #place, 2, -1 do
        local j <const> = random(1, i)
        place[i], place[j] = place[j], place[i]
      end
      local links <const> = {}
      for i = 1, #place do links[place[i]] = {} end
      for i = 1, #place do
        for j = 1, #place do links[place[i]][place[j]] = instance.links[i][j] end
      end
      instance.links = links
      for i, plan in ipairs(instance.plans) do
        local j <const> = random(1, i)
        plan.island = place[plan.island + 1] - 1
        instance.plans[i], instance.plans[j] = instance.plans[j], plan
      end
      local after <const> = core.compose(core.json_encode(instance), { gap = 0 })
      if before.found ~= after.found or before.found and not close(before.time_s, after.time_s) then
        say(seed, "%s before, %s after", before.time_s, after.time_s)
      end
    end
  end)

  it("names equal islands' own plans, in whatever order each lists them", function()
    local slices <const> = { { 0, 2 }, { 0, 1 }, { 1, 2 } }
    local instance <const> = {
      format = "tangram.instance/1", atoms = 2, microbatches = 8, boundary_bytes = { 0 },
      islands = { "a", "b", "c" }, links = {}, plans = {},
    }
    for i, order in ipairs { { 1, 2, 3 }, { 1, 2, 3 }, { 2, 1, 3 } } do
      instance.links[i] = {}
      for j = 1, 3 do instance.links[i][j] = i ~= j and { latency_s = 0, bytes_per_s = 100 } or core.null end
      for _, slice in ipairs(order) do
        local first <const>, last <const> = table.unpack(slices[slice])
        table.insert(instance.plans, {
          island = i - 1, first = first, last = last, max_successors = core.null, inner_transfer_s = core.json_decode "[]",
          stages = { { forward_s = last - first, backward_s = 2 * (last - first), sync_s = 0 } },
        })
      end
    end
    local result <const> = assert(core.compose(core.json_encode(instance), { gap = 0, top = 9 }))
    assert.equal(9, #result.top) -- 6 pairs of islands, 3 alone
    for i, entry in ipairs(result.top) do
      local at, islands = 0, {}
      for _, p in ipairs(entry.sequence) do
        local plan <const> = instance.plans[p]
        assert.equal(at, plan.first)
        assert.is_nil(islands[plan.island])
        at, islands[plan.island] = plan.last, true
      end
      assert.equal(2, at)
      -- Two stages of 3 s: the first starts 1 s ahead of the second and ends 2 s behind it, 8 * 3 + 3; one of 6 s: 8 * 6.
      assert.near(i <= 6 and 27 or 48, entry.time_s, 1e-9)
    end
  end)
end)

--- A pipeline of one-stage plans, one island each, as an instance.
local function chain(stages, transfer_s, microbatches)
  local instance <const> = {
    format = "tangram.instance/1", atoms = #stages, microbatches = microbatches, boundary_bytes = {}, islands = {}, links = {}, plans = {},
  }
  for i, stage in ipairs(stages) do
    instance.islands[i], instance.links[i], instance.boundary_bytes[i - 1] = "i" .. i, {}, i > 1 and 0 or nil
    for j = 1, #stages do
      instance.links[i][j] = i ~= j and { latency_s = transfer_s[i] or 0, bytes_per_s = 1 } or core.null
    end
    instance.plans[i] = {
      island = i - 1, first = i - 1, last = i, max_successors = core.null, stages = { stage }, inner_transfer_s = core.json_decode "[]",
    }
  end
  return core.json_encode(instance)
end

local nothing <const> = [==[{ "format": "tangram.instance/1", "atoms": 2, "microbatches": 4, "boundary_bytes": [1],
  "islands": ["a"], "links": [[null]], "plans": [] }]==]

describe("composition", function()
  it("doesn't let the bound's dominance lose the optimum (COMPOSITION.md, section 5)", function()
    -- Front stage (3,3); behind it A = (1,2),(1,1) bounds better but takes 15, Q = (1,1),(1,2) takes 14.
    local function plan(island, first, times)
      local stages <const>, inner <const> = {}, core.json_decode "[]"
      for s, t in ipairs(times) do stages[s] = { forward_s = t[1], backward_s = t[2], sync_s = 0 } end
      if #times == 2 then inner[1] = 0 end
      return { island = island, first = first, last = first + 1, max_successors = core.null, stages = stages, inner_transfer_s = inner }
    end
    local link <const> = { latency_s = 0, bytes_per_s = 1 }
    local instance <const> = {
      format = "tangram.instance/1", atoms = 2, microbatches = 2, boundary_bytes = { 0 }, islands = { "x", "y" },
      links = { { core.null, link }, { link, core.null } },
      plans = { plan(0, 0, { { 3, 3 } }), plan(1, 1, { { 1, 2 }, { 1, 1 } }), plan(1, 1, { { 1, 1 }, { 1, 2 } }) },
    }
    local result <const> = core.compose(core.json_encode(instance), { gap = 0, top = 2 })
    assert.equal(14, result.time_s)
    assert.same({ 1, 3 }, result.sequence)
    assert.equal(15, result.top[2].time_s)
  end)

  it("warms up deeper where the middle link is slow, and never does worse for it", function()
    local stage <const> = { forward_s = 1, backward_s = 2, sync_s = 0, max_inflight = 10 }
    local text <const> = chain({ stage, stage, stage, stage }, { 0.1, 5, 0.1 }, 24)
    local plain <const>, auto <const> = core.compose(text, { gap = 0 }), core.compose(text, { gap = 0, warmup = "auto" })
    assert.same({ 3, 2, 1, 0 }, plain.warmup)
    assert.is_true(auto.time_s < 0.8 * plain.time_s)
    local best = math.huge
    local stages <const> = { stage, stage, stage, stage }
    oracle.depths(stages, 24, "overlapped", function(depth)
      best = math.min(best, oracle.simulate(stages, { 0.1, 5, 0.1 }, 24, "overlapped", depth))
    end)
    assert.near(best, auto.time_s, 1e-9)
    assert.near(best, oracle.simulate(stages, { 0.1, 5, 0.1 }, 24, "overlapped", auto.warmup), 1e-9)
    for seed = 1, support.scale(300) do
      local instance <const> = core.json_encode(instances.make(seed, { microbatches = 12, stages = 2 }))
      local a <const>, b <const> = core.compose(instance, { gap = 0, warmup = "auto" }), core.compose(instance, { gap = 0 })
      if a.found ~= b.found or a.found and a.time_s > b.time_s * (1 + 1e-12) then say(seed, "auto is slower") end
    end
  end)

  it("obeys its time limit and says how far it got", function()
    local most_s <const> = support.sanitized and 1 or 0.1
    for islands, time_limit_s in pairs { [10] = 0.05, [12] = 0.4, [16] = 0.13, [20] = 0.2 } do
      local least_s = math.huge
      for _ = 1, 5 do
        local result <const> = core.compose({ seed = 3, atoms = 128, islands = islands, variants = 5 },
          { gap = 0, time_limit_s = time_limit_s })
        assert.equal("time", result.stopped)
        assert.is_true(not result.found or not result.proved and result.bound_s < result.time_s)
        -- A busy machine gives only a share of the processor.
        least_s = math.min(least_s, (result.compose_s - time_limit_s) * result.cpu_s / result.compose_s)
        if least_s <= most_s then break end
      end
      assert.is_true(least_s <= most_s, islands .. " islands: over by " .. least_s .. " s")
    end
  end)

  it("has a sequence soon, however many the islands", function()
    for _, islands in ipairs { 12, 13, 24 } do
      local text <const> = core.generate(islands, 42, islands, 3)
      local result <const> = core.compose(text, { gap = 0, effort = 400000 })
      assert.is_true(result.found, islands .. " islands")
      assert.is_true(result.bound_s <= result.time_s)
      local instance <const>, plans <const> = core.json_decode(text), {}
      for i, plan in ipairs(result.sequence) do plans[i] = instance.plans[plan] end
      instance.plans = plans
      assert.near(oracle.sequences(instance, {})[1].time_s, result.time_s, 1e-9)
    end
  end)

  it("takes no sequence where none covers the atoms", function()
    assert.is_false(core.compose(nothing).found)
    assert.equal(math.huge, core.compose(nothing).bound_s)
  end)

  it("refuses options out of range", function()
    local text <const> = core.generate(1, 4, 2, 1)
    for option, value in pairs { gap = 1, top = 0, time_limit_s = -1, required_island = 3 } do
      local result <const>, why <const> = core.compose(text, { [option] = value })
      assert.is_nil(result)
      assert.matches("expected", why)
    end
    assert.matches("1f1b", select(2, core.compose(text, { objective = "paper", warmup = "auto" })))
    assert.error_matches(function() core.compose(text, { gpa = 0 }) end, "did you mean 'gap'")
  end)
end)

describe("simulation", function()
  local function pipeline(random)
    local count <const>, B <const> = random(1, 8), random(0, 1) == 0 and random(1, 8) or random(1, 40)
    local slow <const>, sync <const> = ({ 0, 0.05, 0.5, 2, 6 })[random(1, 5)], ({ 0, 0, 3, 30 })[random(1, 4)]
    local draw <const> = random(0, 2)
    local function time()
      if draw == 0 then return random(0, 4) end
      return draw == 1 and 1 + random() or random() * ({ 1, 10 })[random(1, 2)]
    end
    local stages <const>, transfer <const>, depth <const> = {}, {}, {}
    for s = count, 1, -1 do
      stages[s] = { forward_s = time(), backward_s = time(), sync_s = sync * random() }
      if s < count then transfer[s] = slow * random() end
      depth[s] = math.max(depth[s + 1] or 0, count - s + random(0, 3) // 3 * random(1, 2))
      if s < count then depth[s] = math.min(depth[s], depth[s + 1] + 2) end
    end
    return stages, transfer, B, random(0, 1) == 1 and depth or nil
  end

  it("equals the dependency equations, is bounded by X, and blocking is never faster", function()
    for seed = 1, support.scale(20000) do
      local stages <const>, transfer <const>, B <const>, depth <const> = pipeline(instances.random(seed))
      local times <const> = {}
      for _, p2p in ipairs(p2ps) do
        local options <const> = { microbatches = B, warmup = depth, p2p = p2p }
        local time <const> = core.simulate(stages, transfer, options)
        if seed % 8 == 0 and not close(time, oracle.simulate(stages, transfer, B, p2p, depth)) then say(seed, "%s differs", p2p) end
        if core.bound(stages, transfer, options) > time * (1 + 1e-12) then say(seed, "%s: X above the time", p2p) end
        times[#times + 1] = time
      end
      if times[2] < times[1] * (1 - 1e-12) then say(seed, "blocking is faster") end
    end
  end)

  it("blocks as worked out by hand", function()
    -- Three stages of f = 1, b = 2, transfers of 1, two microbatches. Stage 1 warms up with both, stage 2 with one.
    local stage <const> = { forward_s = 1, backward_s = 2, sync_s = 0 }
    local time <const>, operations <const> = core.simulate({ stage, stage, stage }, { 1, 1 },
      { microbatches = 2, p2p = "blocking", operations = true })
    local expected <const> = {
      -- stage 1 sends F1 only at 4, when stage 2 has sent F0 on and asks for it
      { 1, "F1", 0, 1 }, { 1, "F2", 2, 3 }, { 1, "B1", 11, 13 }, { 1, "B2", 15, 17 },
      { 2, "F1", 2, 3 }, { 2, "F2", 5, 6 }, { 2, "B1", 8, 10 }, { 2, "B2", 12, 14 },
      { 3, "F1", 4, 5 }, { 3, "B1", 5, 7 }, { 3, "F2", 8, 9 }, { 3, "B2", 9, 11 },
    }
    local got <const> = {}
    for i, op in ipairs(operations) do
      got[i] = { op.stage, (op.backward and "B" or "F") .. op.microbatch, math.tointeger(op.start_s), math.tointeger(op.end_s) }
    end
    assert.same(expected, got)
    assert.equal(17, time)
    local slow_end <const> = { forward_s = 1, backward_s = 2, sync_s = 7 } -- its last backward ends at 11
    assert.equal(18, core.simulate({ stage, stage, slow_end }, { 1, 1 }, { microbatches = 2, p2p = "blocking" }))
  end)

  it("tells depths that wait for ever", function()
    local stage <const> = { forward_s = 1, backward_s = 1 }
    local function try(p2p, depth)
      return core.simulate({ stage, stage }, { 1 }, { microbatches = 6, p2p = p2p, warmup = depth })
    end
    assert.matches("waits for ever", select(2, try("overlapped", { 0, 1 })))
    assert.matches("fall by more than 2", select(2, try("blocking", { 3, 0 })))
    assert.is_number(try("overlapped", { 3, 0 }))
    assert.is_number(try("blocking", { 2, 0 }))
  end)
end)

describe("tangram.instance/1", function()
  --- Paths of all values of a document, with what leads to them.
  local function walk(value, path, visit, holder, key)
    visit(value, path, holder, key)
    if type(value) ~= "table" then return end
    local names <const> = {}
    for name in pairs(value) do names[#names + 1] = name end
    table.sort(names)
    for _, name in ipairs(names) do
      local place <const> = type(name) == "number" and ("[%d]"):format(name - 1) or (path == "" and name or "." .. name)
      walk(value[name], path .. place, visit, value, name)
    end
  end

  it("is refused with the place of what is wrong", function()
    local refused = 0
    for seed = 1, 100000 do
      if refused == 1000 then break end
      local random <const> = instances.random(seed)
      local instance <const> = core.json_decode(core.json_encode(instances.make(seed % 40 + 1, { plans = 4 }))) -- shares nothing
      local places <const> = {}
      walk(instance, "", function(value, path, holder, key)
        if path ~= "" then places[#places + 1] = { value = value, path = path, holder = holder, key = key } end
      end)
      local place <const> = places[random(1, #places)]
      local expected = place.path
      local kind <const> = random(1, 4)
      if kind == 1 then
        place.holder[place.key] = true -- no field is a boolean
      elseif kind == 2 and type(place.value) == "number" then
        place.holder[place.key] = -1 - random() -- none is negative
      elseif kind == 3 and type(place.value) == "table" and not place.path:find "%]$" or kind == 3 and place.path:find "plans%[%d+%]$" then
        if #place.value > 0 or place.path:find "inner" or place.path:find "bytes$" then
          expected = nil
        else
          place.value.zebra_s = 1
          expected = place.path .. ".zebra_s"
        end
      elseif kind == 4 and type(place.key) == "string" and not ("gpus max_inflight min_successors"):find(place.key, 1, true) then
        place.holder[place.key] = nil
      else
        expected = nil
      end
      if expected then
        local result <const>, why <const> = core.compose(core.json_encode(instance))
        if result or why:sub(1, #expected + 2) ~= expected .. ": " then say(seed, "%s: got %s", expected, tostring(why)) end
        refused = refused + 1
      end
    end
    assert.equal(1000, refused)
  end)

  it("is refused when its text is wrong", function()
    local text <const> = core.generate(1, 3, 2, 1)
    local function refusal(from, to)
      local changed <const>, count <const> = text:gsub(from, to, 1)
      assert.equal(1, count)
      return select(2, core.compose(changed))
    end
    assert.matches("^1:%d: not JSON", select(2, core.compose "{"))
    assert.matches("^%d+:%d+: not JSON: text behind", select(2, core.compose(text .. "x")))
    assert.matches("^field 'atoms' is given twice", refusal('"atoms"', '"atoms":3,"atoms"'))
    assert.matches("^microbatches: the number is out of range", refusal('"microbatches":64', '"microbatches":1e999'))
    assert.matches("^microbatches: expected a whole number", refusal('"microbatches":64', '"microbatches":6.5'))
    assert.matches("^format: expected 'tangram.instance/1'", refusal("instance/1", "instance/2"))
    assert.matches("did you mean 'island'", refusal('"island"', '"islnad"'))
    assert.matches("^links%[0%]%[0%]: expected null", refusal("null", '{"latency_s":0,"bytes_per_s":1}'))
    assert.matches("^plans%[0%]%.last: ", refusal('"last":1', '"last":4'))
    assert.matches("^islands%[1%]: island 'a1' is already listed", refusal('"b1"', '"a1"'))
    assert.matches("nested deeper", select(2, core.compose(("["):rep(100) .. ("]"):rep(100))))
  end)

  it("is generated alike each time, and reads back as what was written", function()
    assert.equal(core.generate(7, 9, 3, 2), core.generate(7, 9, 3, 2))
    assert.not_equal(core.generate(7, 9, 3, 2), core.generate(8, 9, 3, 2))
    local direct <const> = core.compose({ seed = 7, atoms = 20, islands = 4, variants = 3, kinds = 2 }, { gap = 0 })
    local read <const> = core.compose(core.generate(7, 20, 4, 3, 2), { gap = 0 })
    assert.equal(direct.time_s, read.time_s)
    assert.same(direct.sequence, read.sequence)
  end)
end)

describe("tangram compose", function()
  it("prints the result as JSON, with indices from 0", function()
    local status <const>, out <const> = support.run "tangram compose --generate 5,12,3,2 --gap 0 --top 2 --json -"
    local printed <const> = core.json_decode(out)
    local result <const> = core.compose({ seed = 5, atoms = 12, islands = 3, variants = 2 }, { gap = 0, top = 2 })
    assert.equal(0, status)
    assert.equal(result.time_s, printed.time_s)
    for i, plan in ipairs(result.sequence) do assert.equal(plan - 1, printed.sequence[i]) end
    assert.equal(2, #printed.top)
    assert.is_true(printed.proved)
    assert.equal(core.null, printed.stopped)
    assert.is_nil(printed.stats)
    assert.equal(out, select(2, support.run "tangram compose --generate 5,12,3,2 --gap 0 --top 2 --json -"))
    assert.is_number(core.json_decode(select(2, support.run "tangram compose --generate 5,12,3,2 --json - --stats")).stats.compose_s)
  end)

  it("writes the instance that it would compose", function()
    local folder <const> = support.folder()
    finally(function() support.remove(folder) end)
    local status <const>, out <const> = support.run "tangram compose --generate 5,12,3,2 --write -"
    assert.equal(0, status)
    assert.equal(core.generate(5, 12, 3, 2) .. "\n", out)
    assert.equal(0, (support.run("tangram compose --generate 5,12,3,2 --write " .. folder .. "/five.json")))
    local line <const> = "tangram compose %s --gap 0 --json -"
    assert.equal(select(2, support.run(line:format "--generate 5,12,3,2")), select(2, support.run(line:format(folder .. "/five.json"))))
    assert.equal(2, (support.run("tangram compose " .. folder .. "/five.json --write -")))
    assert.equal(2, (support.run("tangram compose --generate 5,0,3,2 --write -")))
    assert.equal(2, (support.run("tangram compose --generate 5,12,3,2 --write " .. folder .. "/absent/five.json")))
  end)

  it("gives what it has found when it is interrupted", function()
    local folder <const> = support.folder()
    finally(function() support.remove(folder) end)
    local instance <const>, random <const> = core.json_decode(core.generate(1, 32, 8, 1)), instances.random(3)
    local function spread() return 0.3 + 3 * random() end
    for _, plan in ipairs(instance.plans) do -- a sequence is found at once, the proof takes minutes
      for _, stage in ipairs(plan.stages) do stage.forward_s = stage.forward_s * spread() end
    end
    for _, links in ipairs(instance.links) do
      for _, link in ipairs(links) do
        if link ~= core.null then link.bytes_per_s = link.bytes_per_s / 20 * spread() end
      end
    end
    support.write(folder .. "/slow.json", core.json_encode(instance))
    local words <const> = "compose " .. folder .. "/slow.json --warmup auto --gap 0 --json -"
    local status <const>, out <const> = support.run(support.when_busy(1.5, words, "kill -s INT $$"))
    local printed <const> = core.json_decode(out)
    assert.equal(0, status)
    assert.equal("signal", printed.stopped)
    assert.is_false(printed.proved)
    assert.is_true(printed.bound_s < printed.time_s)
    assert.near(1 - printed.bound_s / printed.time_s, printed.gap, 1e-12)
  end)

  it("ends with the status that fits", function()
    local folder <const> = support.folder()
    finally(function() support.remove(folder) end)
    support.write(folder .. "/none.json", nothing)
    support.write(folder .. "/bad.json", '{"format":"tangram.instance/1"}')
    local function status_of(line) return (support.run("tangram compose " .. line)) end
    assert.equal(3, status_of(folder .. "/none.json"))
    assert.equal(2, status_of(folder .. "/bad.json"))
    assert.equal(2, status_of(folder .. "/absent.json"))
    assert.equal(2, status_of "")
    assert.equal(2, status_of "--generate 1,2,3")
    assert.equal(2, status_of "--generate 1,9,3,2 --gap 2")
    assert.equal(4, status_of "--generate 1,42,4,4 --time-limit 0")
    assert.equal(0, status_of "--help")
  end)
end)
