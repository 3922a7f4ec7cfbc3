local catalog <const> = require "tangram.catalog"
local matrix <const> = require "tangram.input.matrix"

--- A matrix of n GPUs from the classes of its pairs, "1-2" from 1 on; others have the class given.
local function classes(n, others, pairs_of)
  local rows <const> = {}
  for i = 1, n do
    rows[i] = {}
    for j = 1, n do
      rows[i][j] = i == j and "X" or pairs_of[math.min(i, j) .. "-" .. math.max(i, j)] or others
    end
  end
  return rows
end

local function device(name) return assert(catalog.find_gpu(name)) end

--- The ring of the widest edges, over all orders.
local function best_ring(n, width)
  local best = 0
  local function extend(ring, used, least)
    if #ring == n then
      best = math.max(best, math.min(least, width(ring[n], ring[1])))
      return
    end
    for i = 2, n do
      if not used[i] then
        used[i] = true
        ring[#ring + 1] = i
        extend(ring, used, math.min(least, width(ring[#ring - 1], i)))
        ring[#ring] = nil
        used[i] = nil
      end
    end
  end
  extend({ 1 }, {}, math.huge)
  return best
end

describe("rates from the matrix of link classes", function()
  it("counts a switch once per GPU, at every size", function()
    assert.same({ [2] = 300e9 }, matrix.rates(classes(8, "NV12", {}), device "a100-sxm4-80"))
    assert.same({ [2] = 450e9 }, matrix.rates(classes(4, "NV18", {}), device "h100-sxm"))
    assert.same({ [2] = 200e9 }, matrix.rates(classes(8, "NV8", {}), device "h800-sxm"))
    assert.same({ [2] = 150e9 }, matrix.rates(classes(16, "NV6", {}), device "v100-sxm2-32")) -- DGX-2
    assert.same({ [2] = 900e9 }, matrix.rates(classes(8, "NV18", {}), device "b200-sxm"))
  end)

  it("adds up the links of a board without a switch", function()
    -- four A100 with four links between any two: a pair has 4 of its 12 links, all four have 12
    local rates <const> = matrix.rates(classes(4, "NV4", {}), device "a100-sxm4-40")
    assert.equal(100e9, rates[2])
    assert.equal(300e9, rates[4] or rates[3])
  end)

  it("lays the six rings of a cube mesh", function()
    local two <const>, mesh <const> = { "1-4", "3-4", "2-3", "2-6", "6-7", "7-8", "5-8", "1-5" }, {}
    for _, pair in ipairs(two) do mesh[pair] = "NV2" end
    for _, pair in ipairs { "1-2", "1-3", "2-4", "3-7", "4-8", "5-6", "5-7", "6-8" } do mesh[pair] = "NV1" end
    local rates <const> = matrix.rates(classes(8, "SYS", mesh), device "v100-sxm2-16")
    assert.equal(25e9, rates[2]) -- neighbours 1-2 and 5-6 have one link
    assert.equal(100e9, rates[4]) -- the first GPU has four links to its three neighbours
    assert.equal(150e9, rates[8]) -- all six links of a GPU: NCCL lays six rings
  end)

  it("keeps bridged boards in pairs", function()
    local rates <const> = matrix.rates(classes(4, "PIX", { ["1-2"] = "NV4", ["3-4"] = "NV4" }), device "rtxa6000")
    assert.same({ [2] = 56.25e9, [3] = 31.5e9 }, rates)
    -- a bridge that joins other GPUs than neighbours doesn't serve groups of neighbours
    local crossed <const> = classes(4, "PIX", { ["1-3"] = "NV4", ["2-4"] = "NV4" })
    assert.same({ [2] = 31.5e9 }, matrix.rates(crossed, device "rtxa6000"))
  end)

  it("takes NVLink in pairs for what it is, whatever the part's name (C60)", function()
    local rates <const> = matrix.rates(classes(4, "NODE", { ["1-2"] = "NV12", ["3-4"] = "NV10" }), device "a100-sxm4-40")
    assert.equal(250e9, rates[2]) -- the worse pair: 10 links of 25 GB/s
    assert.is_true(rates[3] < 31.5e9)
    assert.is_nil(rates[4]) -- as for three
  end)

  it("goes no faster than PCIe says where there is no NVLink, sockets last", function()
    local socket <const> = { ["1-2"] = "PHB", ["3-4"] = "PHB" }
    local rates <const> = matrix.rates(classes(4, "SYS", socket), device "a40", nil, 12e9)
    assert.is_true(rates[2] <= 12e9 and rates[3] < rates[2])
  end)

  it("is bounded by the links that the driver finds active", function()
    assert.same({ [2] = 400e9 }, matrix.rates(classes(8, "NV18", {}), device "h100-sxm", 400e9))
    local each <const> = { 450e9, 450e9, 425e9, 450e9 }
    assert.same({ [2] = 425e9 }, matrix.rates(classes(4, "NV18", {}), device "h100-sxm", each))
  end)

  it("reads the figures of a user's own type", function()
    local own <const> = { link = "NVLink x4", link_bytes_per_s = "60 GB/s", pcie_bytes_per_s = "32 GB/s" }
    assert.same({ [2] = 30e9 }, matrix.rates(classes(2, "NV2", {}), own))
    assert.same({ [2] = 32e9 }, matrix.rates(classes(2, "PIX", {}), own))
    assert.is_nil(matrix.rates(classes(2, "PIX", {}), { link = 3, pcie_bytes_per_s = "fast" }))
  end)

  it("knows no rate without a type that has one", function()
    assert.is_nil(matrix.rates(classes(2, "PHB", {}), nil))
    assert.is_nil(matrix.rates(classes(1, "X", {}), device "a40"))
    assert.same({ [2] = 50e9 }, matrix.rates(classes(2, "NV2", {}), nil))
  end)

  it("finds the widest ring of any eight unlike GPUs", function()
    local shares <const> = { PIX = 1, PHB = 5 / 6, SYS = 0.6 }
    local names <const> = { "PIX", "PHB", "SYS", "SYS" }
    math.randomseed(7)
    for _ = 1, 20 do
      local n <const> = math.random(4, 7)
      local unlike <const> = {}
      for i = 1, n do
        for j = i + 1, n do unlike[i .. "-" .. j] = names[math.random(#names)] end
      end
      local rows <const> = classes(n, "SYS", unlike)
      local least, size = math.huge, n
      local rates <const> = matrix.rates(rows, nil, nil, 30e9)
      for s = 2, n do
        if rates[s] then least, size = rates[s], s end
      end
      assert.near(30e9 * best_ring(n, function(i, j) return shares[rows[i][j]] end), least, 1, "size " .. size)
    end
  end)

  it("doubts a matrix without NVLink between parts whose board has it", function()
    assert.matches("topo %-mp.*run 'nvidia%-smi topo %-m'", matrix.doubt(classes(8, "PIX", {}), device "h100-sxm"))
    assert.is_nil(matrix.doubt(classes(8, "NV18", {}), device "h100-sxm"))
    assert.is_nil(matrix.doubt(classes(8, "PIX", {}), device "h100-pcie"))
    assert.is_nil(matrix.doubt(classes(1, "X", {}), device "h100-sxm"))
  end)
end)
