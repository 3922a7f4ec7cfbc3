package.path = "tests/?.lua;" .. package.path
local core <const> = require "tangram.core"
local oracle <const> = require "oracle.islands"

--- A node of alike GPUs as core.cluster takes it.
local function node(name, gpus, compute, memory, intra, gpu)
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
