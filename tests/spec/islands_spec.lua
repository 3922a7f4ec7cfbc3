package.path = "tests/?.lua;" .. package.path
local core <const> = require "tangram.core"
local oracle <const> = require "oracle.islands"

--- A node of alike GPUs as core.cluster takes it.
local function node(name, gpus, compute, memory, intra, gpu)
  memory, intra = memory or 16, intra or 50
  return { name = name, intra_bytes_per_s = type(intra) == "table" and intra or { { 1, intra } }, intra_latency_s = 2e-5,
    gpus = { { gpu = gpu or "g", count = gpus, compute_flops = compute, memory_bytes = memory } } }
end

local function wire(rate) return { bytes_per_s = type(rate) == "table" and rate or { { 1, rate } }, latency_s = 5e-5 } end

local function link(a, b, rate)
  local result <const> = wire(rate)
  result.between = { a, b }
  return result
end

--- The islands as sorted lists of sorted names.
local function names(found)
  local lists <const> = {}
  for i, island in ipairs(found.islands) do
    lists[i] = { table.unpack(island.nodes) }
    table.sort(lists[i])
  end
  table.sort(lists, function(a, b) return a[1] < b[1] end)
  return lists
end

local function shuffled(list, rng)
  local copy <const> = { table.unpack(list) }
  for i = #copy, 2, -1 do
    local j <const> = rng(i)
    copy[i], copy[j] = copy[j], copy[i]
  end
  return copy
end

--- A small generator of our own, so that the clusters are the same everywhere.
local function generator(seed)
  local state = seed
  return function(n)
    state = (state * 6364136223846793005 + 1442695040888963407)
    return (state >> 33) % n + 1
  end
end

local CHOICES <const> = {
  { gpus = { 4 }, compute = { 100 }, memory = { 16 }, intra = { 50 }, rate = { 1, 2, 3 } },                -- constraint 3 alone
  { gpus = { 4 }, compute = { 100, 106, 112, 118 }, memory = { 16, 17, 18.5 }, intra = { 50, 58, 66 }, rate = { 1 } },
  { gpus = { 4, 8 }, compute = { 100, 108, 118 }, memory = { 16, 32 }, intra = { 50, 60.5 }, rate = { 1, 1, 1, 2 } },
  { gpus = { 1, 2 }, compute = { 100, 110, 121 }, memory = { 16 }, intra = { 50, 60, 72 }, rate = { 1, 2, 2, 2 } },
  { gpus = { 4, 8 }, compute = { 100, 105 }, memory = { 16 }, tables = true, intra = { 50, 55, 66, 90 }, rate = { 1, 1, 2 } },
}

--- A random problem for the oracle and the same as input of core.cluster.
local function random_case(seed)
  local rng <const> = generator(seed)
  local choice <const> = CHOICES[rng(#CHOICES)]
  local function pick(list) return list[rng(#list)] end
  local function rates()
    local steps <const> = { { 2, pick(choice.intra) } }
    if choice.tables and rng(2) == 1 then steps[2] = { 4, pick(choice.intra) } end
    if choice.tables and rng(4) == 1 then steps[#steps + 1] = { 8, pick(choice.intra) } end
    return steps
  end
  local machines <const>, links <const> = {}, {}
  local problem <const> = { nodes = {}, rate = {}, tolerance = { 0.1, 0.1, 0.2 } }
  local count <const> = rng(8)
  while #problem.nodes < count do
    local name <const> = ("%c%d"):format(96 + rng(5), #machines + 1)
    local intra <const> = rates()
    local kinds <const> = #problem.nodes + 2 <= count and rng(6) == 1 and 2 or 1
    local machine <const> = { name = name, intra_bytes_per_s = intra, intra_latency_s = 0, gpus = {} }
    local total <const> = pick(choice.gpus) * kinds
    for k = 1, kinds do
      local gpus <const> = total // kinds
      machine.gpus[k] = { gpu = "g" .. k, count = gpus, compute_flops = pick(choice.compute),
        memory_bytes = pick(choice.memory) }
      local first <const> = (k - 1) * gpus
      local part <const> = kinds == 1 and name or gpus == 1 and ("%s:%d"):format(name, first)
        or ("%s:%d-%d"):format(name, first, first + gpus - 1)
      problem.nodes[#problem.nodes + 1] = { name = part, machine = name, gpus = gpus, all = total,
        compute = machine.gpus[k].compute_flops, memory = machine.gpus[k].memory_bytes, intra = intra }
    end
    machines[#machines + 1] = machine
  end
  local between <const> = {}
  for i, a in ipairs(machines) do
    for j = 1, i - 1 do
      local rate <const> = pick(choice.rate)
      between[a.name .. " " .. machines[j].name], between[machines[j].name .. " " .. a.name] = rate, rate
      links[#links + 1] = link(a.name, machines[j].name, { { 1, rate }, { 4, 7 } })
    end
  end
  for i, a in ipairs(problem.nodes) do
    problem.rate[i] = {}
    for j, b in ipairs(problem.nodes) do
      -- two kinds of equal count fill the machine, so that the group that holds both is the machine
      local inner = a.intra[1][2]
      for _, step in ipairs(a.intra) do if step[1] <= a.all then inner = step[2] end end
      problem.rate[i][j] = a.machine == b.machine and inner or between[a.machine .. " " .. b.machine]
    end
  end
  return problem, { nodes = machines, links = links }, rng
end

describe("fewest islands", function()
  it("are those of brute force on 2,000 random clusters, in any order of input", function()
    local most, parted = 0, 0
    for seed = 1, 2000 do
      local problem <const>, input <const>, rng <const> = random_case(seed)
      local count <const>, islands <const> = oracle.fewest(problem)
      local found <const> = assert(core.cluster(input)):islands()
      assert.same(islands, names(found), "seed " .. seed)
      assert.is_true(found.proved_fewest)
      local other <const> = { nodes = shuffled(input.nodes, rng), links = shuffled(input.links, rng) }
      -- parts of a machine keep their order: it is that of the GPUs' indices
      assert.same(islands, names(assert(core.cluster(other)):islands()), "shuffled, seed " .. seed)
      most = math.max(most, count)
      if count < #problem.nodes and count > 1 then parted = parted + 1 end
    end
    assert.is_true(most >= 6 and parted > 500) -- the cases are no trivial ones
  end)
end)

--- Islands of a cluster whose links are all alike, but for those given.
local function group(nodes, links, options, default)
  local built <const> = assert(core.cluster { nodes = nodes, links = links or {}, default = wire(default or 1) })
  local found <const> = assert(built:islands(options))
  return found, built
end

--- The paper's full cluster: Azure nodes with measured rates (reference: condition 2 by group size, all figures GB/s).
local function c3()
  local GB <const> = 1e9
  return assert(core.cluster {
    nodes = {
      node("a1", 4, 312e12, 80 << 30, { { 2, 253.5 * GB }, { 4, 44.2 * GB } }, "a100-80"),
      node("v1", 8, 125e12, 32 << 30, { { 2, 45.7 * GB }, { 4, 45.8 * GB }, { 8, 21.9 * GB } }, "v100-32"),
      node("w1", 4, 112e12, 16 << 30, { { 2, 10.9 * GB }, { 4, 11.4 * GB } }, "v100-16"),
      node("t1", 4, 65e12, 15 << 30, { { 2, 6.0 * GB }, { 4, 5.9 * GB } }, "t4"),
    },
    links = {
      link("w1", "t1", { { 1, 0.68 * GB }, { 2, 1.15 * GB }, { 4, 1.15 * GB } }),
      link("w1", "a1", { { 1, 2.67 * GB }, { 2, 2.85 * GB }, { 4, 2.71 * GB } }),
      link("w1", "v1", { { 1, 2.55 * GB }, { 2, 2.75 * GB }, { 4, 2.70 * GB } }),
      link("t1", "a1", { { 1, 2.99 * GB }, { 2, 3.71 * GB }, { 4, 3.15 * GB } }),
      link("t1", "v1", { { 1, 2.61 * GB }, { 2, 3.72 * GB }, { 4, 3.22 * GB } }),
      link("a1", "v1", { { 1, 2.45 * GB }, { 2, 4.36 * GB }, { 4, 4.48 * GB } }),
    },
  })
end

--- Fewest groups of a list of figures whose ratio is at most 1.1 in a group: a sweep from the smallest is optimal on a line.
local function sweep(figures)
  local sorted <const> = { table.unpack(figures) }
  table.sort(sorted)
  local groups, low = 0, -math.huge
  for _, x in ipairs(sorted) do
    if x > low * 1.1 * (1 + 1e-12) then groups, low = groups + 1, x end
  end
  return groups
end

describe("islands", function()
  it("part twins where constraint 3 wants it", function()
    local two <const> = { { "u1", "w1" }, { "u1", "w2" }, { "u2", "w1" }, { "u2", "w2" }, { "w1", "z" }, { "w2", "z" } }
    local links <const> = {}
    for i, pair in ipairs(two) do links[i] = link(pair[1], pair[2], 2) end
    local found <const>, built <const> = group({ node("u1", 4, 100), node("u2", 4, 100), node("w1", 4, 100),
      node("w2", 4, 100), node("z", 4, 200) }, links)
    assert.same({ { "u1", "w1" }, { "u2", "w2" }, { "z" } }, names(found))
    local pair = built:why("u1", "u2")
    assert.equal(3, pair.constraint)
    assert.same({ 1, 2 }, pair.link_bytes_per_s) -- u1-u2 is slower than u1-w1, and w1's link to z is faster than to w2
    pair = built:why("u1", "w2")
    assert.is_nil(pair.constraint)
    assert.is_true(pair.third == "u2" or pair.third == "w1")
    pair = built:why("z", "w1")
    assert.equal(1, pair.constraint)
    assert.same({ 200, 100 }, pair.figures)
    assert.is_nil(built:why("u1", "w1"))
  end)

  it("of the paper's full cluster are four", function()
    local cluster <const> = c3()
    local found <const> = cluster:islands()
    assert.same({ { "a1" }, { "t1" }, { "v1" }, { "w1" } }, names(found))
    local list <const> = {}
    for i, one in ipairs(found.islands) do list[i] = one.name end
    assert.same({ "a100-80", "t4", "v100-32", "v100-16" }, list)
    local pair <const> = cluster:why("v1", "w1")
    assert.equal("gpus", pair.trait)
    assert.same({ 8, 4 }, pair.figures)
  end)

  it("compare intra-node rates at each size of group", function()
    local bridged <const>, plain <const> = { { 2, 250 }, { 4, 44 } }, { { 2, 44 }, { 4, 44 } }
    local found <const>, built <const> = group { node("a", 4, 100, 16, bridged), node("b", 4, 100, 16, plain) }
    assert.equal(2, #found.islands)
    local pair <const> = built:why("a", "b")
    assert.equal(2, pair.constraint)
    assert.same({ "intra_bytes_per_s", 2, { 250, 44 } }, { pair.trait, pair.size, pair.figures })
    assert.equal(1, #group { node("a", 4, 100, 16, plain), node("b", 4, 100, 16, { { 1, 44 } }) }.islands)
  end)

  it("hold at the tolerance itself and part beyond it", function()
    assert.equal(1, #group { node("a", 4, 1.0), node("b", 4, 1.1) }.islands)
    assert.equal(2, #group { node("a", 4, 1.0), node("b", 4, 1.1 * (1 + 1e-9)) }.islands)
    assert.equal(1, #group({ node("a", 4, 1.0), node("b", 4, 1.5) }, nil, { tolerance = { 0.5, 0, 0 } }).islands)
  end)

  it("of 16 nodes on a line are as few as a sweep finds", function()
    for seed = 1, 20 do
      local rng <const>, nodes <const>, figures <const> = generator(seed), {}, {}
      for i = 1, 16 do
        figures[i] = 100 + rng(60)
        nodes[i] = node("n" .. i, 4, figures[i])
      end
      local found <const> = group(nodes)
      assert.is_true(found.proved_fewest)
      assert.equal(sweep(figures), #found.islands, "seed " .. seed)
    end
  end)

  it("of 40 nodes of few kinds are proved fewest", function()
    local nodes <const>, kinds <const> = {}, { 100, 106, 112, 118, 200, 215 }
    for i = 1, 40 do nodes[i] = node("n" .. i, 4, kinds[i % #kinds + 1]) end
    local found <const> = group(nodes)
    assert.is_true(found.proved_fewest)
    assert.equal(sweep(kinds), #found.islands)
  end)

  it("of 40 nodes, all different and all near, meet the constraints and are not called proved", function()
    local nodes <const>, links <const>, figures <const>, rng <const> = {}, {}, {}, generator(7)
    local problem <const> = { nodes = {}, rate = {}, tolerance = { 0.1, 0.1, 0.2 } }
    for i = 1, 40 do
      figures[i] = 100 + i
      nodes[i] = node("n" .. i, 4, figures[i])
      problem.nodes[i] = { name = "n" .. i, machine = i, gpus = 4, compute = figures[i], memory = 16, intra = { { 1, 50 } } }
      problem.rate[i] = {}
      for j = 1, i - 1 do
        local rate <const> = (i - 1) // 10 == (j - 1) // 10 and 2 or 1 -- four racks of ten
        links[#links + 1] = link("n" .. i, "n" .. j, rate)
        problem.rate[i][j], problem.rate[j][i] = rate, rate
      end
    end
    local function check(found, rates)
      local tried <const> = { nodes = problem.nodes, tolerance = problem.tolerance, rate = rates }
      for _, one in ipairs(found.islands) do
        local mask = 0
        for _, index in ipairs(one.node_indices) do mask = mask | 1 << (index - 1) end
        assert.is_true(oracle.is_island(tried, mask))
      end
    end
    local tied <const> = group(nodes)
    assert.is_false(tied.proved_fewest)
    assert.equal(sweep(figures), #tied.islands) -- the heuristic is not proved, but right on a line
    local one <const> = {}
    for i = 1, 40 do
      one[i] = {}
      for j = 1, 40 do one[i][j] = 1 end
    end
    check(tied, one)
    check(group(nodes, links), problem.rate)
    assert.same(names(group(nodes, links)), names(group(shuffled(nodes, rng), shuffled(links, rng))))
    assert.equal(4, #group(nodes, links).islands) -- a rack is an island: its nodes differ by less than 10 %
  end)

  it("take pins, and say what they break", function()
    local nodes <const> = { node("a", 4, 100), node("b", 4, 100), node("c", 4, 150), node("d", 8, 100) }
    local found = group(nodes, nil, { islands = { { "a", "c" } } })
    assert.same({ { "a", "c" }, { "b" }, { "d" } }, names(found))
    assert.equal(1, #found.pin_warnings)
    assert.same({ 1, "compute_flops", { 150, 100 } },
      { found.pin_warnings[1].constraint, found.pin_warnings[1].trait, found.pin_warnings[1].figures })
    assert.is_true(found.islands[1].pinned and found.islands[1].merged)
    assert.equal(100, found.islands[1].compute_flops)
    found = group(nodes, { link("a", "d", 9) }, { islands = { { "b", "a" } } })
    assert.same({ 3, { 1, 9 } }, { found.pin_warnings[1].constraint, found.pin_warnings[1].link_bytes_per_s })
    found = group(nodes, nil, { islands = { { "c" }, { "a", "d" } } })
    assert.same({ { "a", "d" }, { "b" }, { "c" } }, names(found))
    assert.same({ 4, 8 }, { found.islands[1].gpus_per_node, found.islands[1].gpus }) -- d's other four stay idle
    local built <const> = assert(core.cluster { nodes = nodes, default = wire(1) })
    assert.same({ nil, "islands: node 'a' is pinned twice" }, { built:islands { islands = { { "a" }, { "a" } } } })
    assert.equal("pinned", built:why("a", "b", { islands = { { "a" } } }).trait)
  end)

  it("join halves of large nodes with small ones if these are cut", function()
    local built <const> = assert(core.cluster { default = wire(1),
      nodes = { node("v", 8, 100, 16, { { 2, 50 }, { 8, 40 } }), node("w", 4, 100), node("x", 4, 100) } })
    assert.equal(2, #built:islands().islands)
    local cut <const> = assert(built:cut(4))
    local found <const> = cut:islands()
    assert.same({ { "v:0-3", "v:4-7", "w", "x" } }, names(found))
    assert.equal(16, found.islands[1].gpus)
    assert.same({ { { 1, 40 } }, 2e-5 }, { cut:link("v:0-3", "v:4-7") })
    assert.same({ { machine = "v", node_index = 2, first = 5, count = 4 } }, cut:place(found.islands[1], { 4, 4, 8 })[2])
    assert.same({ nil, "cut_nodes: expected at least 1 GPU a part" }, { built:cut(0) })
  end)

  it("of large groups are split into equal parts that stay close", function()
    local nodes <const> = {}
    for i = 1, 6 do nodes[i] = node("n" .. i, 4, 100) end
    local links <const> = { link("n1", "n4", 2), link("n2", "n5", 2), link("n3", "n6", 2) }
    local found = group(nodes, nil, { split_islands = 2 })
    assert.same({ { "n1", "n2" }, { "n3", "n4" }, { "n5", "n6" } }, names(found))
    assert.same({ "g-1", "g-2", "g-3" }, { found.islands[1].name, found.islands[2].name, found.islands[3].name })
    assert.equal(found.islands[1].signature, found.islands[3].signature)
    found = group(nodes, links, { split_islands = 2, islands = { { "n1", "n2", "n3", "n4", "n5", "n6" } } })
    assert.same({ { "n1", "n4" }, { "n2", "n5" }, { "n3", "n6" } }, names(found))
    found = group(nodes, nil, { split_islands = 4 })
    assert.same({ 1, { "g" } }, { #found.islands, found.unsplit })
  end)

  it("of the merged partition have their slowest member's figures", function()
    -- sizes 4: a1, t1, w1. {a1, t1}: 2.99 is the fastest link of both. w1's link to t1 (0.68) is slower than to v1 (2.55).
    local found <const> = c3():islands { merged = true }
    assert.same({ { "a1", "t1" }, { "v1" }, { "w1" } }, names(found))
    local one <const> = found.islands[1]
    assert.same({ "a100-80+t4", true, false }, { one.name, one.merged, found.islands[2].merged })
    assert.same({ 65e12, 15 << 30 }, { one.compute_flops, math.tointeger(one.memory_bytes) })
    assert.same({ { 2, 6.0e9 }, { 4, 5.9e9 } }, one.intra)
    assert.same({ { 1, 2.99e9 }, { 2, 3.71e9 }, { 4, 3.15e9 } }, one.inter.rates)
  end)

  it("have equal signatures only if all that times depend on is equal", function()
    local function signature(one) return group({ one, node("z", 1, 1) }).islands[1].signature end
    local base <const> = signature(node("a", 4, 100))
    assert.equal(base, signature(node("b", 4, 100)))
    assert.not_equal(base, signature(node("a", 8, 100)))
    assert.not_equal(base, signature(node("a", 4, 101)))
    assert.not_equal(base, signature(node("a", 4, 100, 17)))
    assert.not_equal(base, signature(node("a", 4, 100, 16, 51)))
    assert.not_equal(base, signature(node("a", 4, 100, 16, 50, "h")))
    local other <const> = node("a", 4, 100)
    other.gpus[1].facts = "arch: Volta"
    assert.not_equal(base, signature(other))
  end)
end)

describe("placement", function()
  local nodes <const> = {}
  for i = 1, 4 do nodes[i] = node("n" .. i, 8, 100, 16, { { 2, 100 }, { 4, 50 }, { 8, 20 } }) end
  local flows <const> = { { 1, 2 }, { 2, 3 }, { 4, 5 } }
  local found <const>, built <const> = group(nodes, { link("n1", "n3", { { 1, 1 }, { 4, 4 } }) }, { islands = {
    { "n1", "n2", "n3", "n4" } } }, flows)
  local one <const> = found.islands[1]

  local function rates(counts, idle)
    local _, transfers <const> = assert(built:place(one, counts, idle))
    local list <const> = {}
    for i, transfer in ipairs(transfers) do list[i] = transfer.bytes_per_s end
    return list
  end

  it("takes consecutive GPUs, in one node or in whole nodes", function()
    local places <const> = built:place(one, { 2, 6, 16, 8 })
    assert.same({ { machine = "n1", node_index = 1, first = 1, count = 2 } }, places[1])
    assert.same({ { machine = "n1", node_index = 1, first = 3, count = 6 } }, places[2])
    assert.same({ { machine = "n2", node_index = 2, first = 1, count = 8 },
      { machine = "n3", node_index = 3, first = 1, count = 8 } }, places[3])
    assert.same({ nil, "stages[1]: 8 GPUs behind 4 others lie across nodes of 8; a stage lies in one node or in whole nodes" },
      { built:place(one, { 4, 8 }, 20) })
    assert.same({ nil, "stages[0]: 12 GPUs behind 0 others lie across nodes of 8; a stage lies in one node or in whole nodes" },
      { built:place(one, { 12 }, 20) })
    assert.same({ nil, "the stages take 16 of the 32 GPUs of island 'g', expected 32 (idle = 0)" },
      { built:place(one, { 8, 8 }) })
    assert.same({ nil, "stages[1]: 32 GPUs, but only 24 of the 32 of island 'g' are left" }, { built:place(one, { 8, 32 }) })
    assert.truthy(built:place(one, { 8, 8 }, 16))
  end)

  it("charges the smallest aligned group inside a node", function()
    assert.same({ 50, 20 }, rates({ 2, 2, 4 }, 24))          -- GPUs 0-3, then 2-7
    assert.same({ 100, 50, 100 }, rates({ 1, 1, 1, 1 }, 28)) -- 0-1 a pair, 1-2 in four, 2-3 a pair
    assert.same({ 50 }, rates({ 1, 2 }, 29))
    local _, transfers <const> = built:place(one, { 1, 1 }, 30)
    assert.equal(2e-5, transfers[1].latency_s)
    local six <const>, six_built <const> = group { node("s", 6, 100, 16, { { 2, 100 }, { 4, 50 }, { 6, 30 } }) }
    local _, in_six <const> = six_built:place(six.islands[1], { 4, 2 })
    assert.equal(30, in_six[1].bytes_per_s) -- a group of eight is the node of six
  end)

  it("charges the link between nodes, by flows and nodes of the smaller end", function()
    assert.same({ 20, 3, 20, 5, 5 }, rates { 2, 6, 2, 6, 8, 8 }) -- 6 behind 2: 2 flows; 8 behind 6: at 4, the nearest smaller
    assert.same({ 2 * 4 }, rates { 16, 16 }) -- two nodes each; n1-n3 is the slowest pair in use: 4 at 4 flows
    assert.same({ 5, 5 }, rates({ 8, 8, 16 }))
    local _, transfers <const> = built:place(one, { 16, 16 })
    assert.equal(5e-5, transfers[1].latency_s)
  end)

  it("lists the classes of end stages", function()
    local classes <const> = built:classes(one)
    assert.equal(8 + 3, #classes)
    assert.same({ { nodes = 1, gpus_per_node = 1 }, { nodes = 1, gpus_per_node = 8 }, { nodes = 4, gpus_per_node = 8 } },
      { classes[1], classes[8], classes[11] })
  end)

  it("charges transfers between islands at the slowest pair of their nodes", function()
    local both <const>, cluster <const> = group({ node("a1", 4, 100), node("a2", 4, 100), node("a3", 4, 100),
      node("b1", 8, 200), node("b2", 8, 200) }, { link("a3", "b2", { { 1, 1 }, { 4, 4 } }) },
      { islands = { { "a1", "a2", "a3" }, { "b1", "b2" } } }, flows)
    local a <const>, b <const> = both.islands[1], both.islands[2]
    local function rate(na, ga, nb, gb)
      return cluster:transfer(a, { nodes = na, gpus_per_node = ga }, b, { nodes = nb, gpus_per_node = gb }).bytes_per_s
    end
    assert.same({ 8, 4, 1, 1, 1 }, { rate(3, 4, 2, 8), rate(1, 4, 2, 8), rate(1, 1, 1, 8), rate(1, 2, 1, 2), rate(1, 3, 1, 8) })
    assert.equal(5e-5, cluster:transfer(a, { nodes = 1, gpus_per_node = 1 }, b, { nodes = 1, gpus_per_node = 1 }).latency_s)
    local c <const> = c3()
    local four <const> = c:islands().islands
    local function c3_rate(flow) -- a100 to v100-32: 2.45, 4.36, 4.48 GB/s with 1, 2 and 4 flows
      return c:transfer(four[1], { nodes = 1, gpus_per_node = flow }, four[3], { nodes = 1, gpus_per_node = 8 }).bytes_per_s
    end
    assert.same({ 2.45e9, 4.36e9, 4.36e9, 4.48e9 }, { c3_rate(1), c3_rate(2), c3_rate(3), c3_rate(4) })
  end)

  it("refuses wrong arguments", function()
    assert.error(function() built:place({ name = "x", gpus_per_node = 8, node_indices = { 9 } }, { 8 }) end)
    assert.error(function() built:transfer(one, { nodes = 1, gpus_per_node = 1 }, one, { nodes = 1, gpus_per_node = 1 }) end)
    assert.error(function() built:why("n1", "nobody") end)
  end)
end)

describe("a cluster", function()
  local function refusal(nodes, links, default)
    local built <const>, why <const> = core.cluster { nodes = nodes, links = links, default = default }
    assert.is_nil(built)
    return why
  end

  it("is refused with the node and the field", function()
    local ok <const> = node("a", 4, 100)
    assert.equal("nodes: a cluster has at least one node", refusal {})
    assert.equal("node 'a': two nodes have this name", refusal { ok, ok })
    assert.equal("node 'a': gpus must be at least 1", refusal { node("a", 0, 100) })
    assert.equal("node 'a': compute_flops must be above 0 and finite, got inf", refusal { node("a", 4, math.huge) })
    assert.equal("node 'a': intra_bytes_per_s must be above 0 and finite, got 0", refusal { node("a", 4, 1, 1, 0) })
    assert.equal("node 'a': intra_bytes_per_s: sizes must be at least 1 and rise, got 2",
      refusal { node("a", 4, 1, 1, { { 4, 1 }, { 2, 1 } }) })
    local two <const> = { ok, node("beta", 4, 100) }
    assert.equal("network: no link between 'a' and 'beta' and no default, expected one of them", refusal(two))
    assert.equal("links[0]: between: there is no node 'betta' (did you mean 'beta'?)", refusal(two, { link("a", "betta", 1) }))
    assert.equal("link between 'a' and 'beta': bytes_per_s must be above 0 and finite, got 0", refusal(two, { link("a", "beta", 0) }))
    assert.equal("link between 'beta' and 'a': given twice (links are symmetric)",
      refusal(two, { link("a", "beta", 1), link("beta", "a", 1) }))
    assert.equal("network: default.latency_s must be at least 0 and finite, got -1",
      refusal(two, {}, { bytes_per_s = { { 1, 1 } }, latency_s = -1 }))
  end)

  it("is cut by kind of GPU", function()
    local mixed <const> = node("m", 2, 100, 48, 30, "a40")
    mixed.gpus[2] = { gpu = "t4", count = 2, compute_flops = 50, memory_bytes = 16 }
    local built <const> = assert(core.cluster { nodes = { mixed } })
    local parts <const> = built:nodes()
    assert.same({ "m:0-1", "m:2-3", "m", 3 }, { parts[1].name, parts[2].name, parts[2].machine, parts[2].first })
    assert.same({ { 1, 30 } }, (built:link(1, 2)))
    assert.equal(2, #built:islands().islands)
  end)

  it("is freed once, however often it is closed", function()
    local built <const> = assert(core.cluster { nodes = { node("a", 4, 100) } })
    built:close()
    built:close()
    assert.error(function() built:islands() end)
    do local scoped <close> = assert(core.cluster { nodes = { node("a", 4, 100) } }) assert.equal(1, #scoped:nodes()) end
    collectgarbage()
  end)
end)
