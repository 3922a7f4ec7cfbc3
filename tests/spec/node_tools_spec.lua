--- What nccl-tests, NCCL, ibstat and AMD's tools print, in their variants.
local catalog <const> = require "tangram.catalog"
local kinds <const> = require "tangram.input.kinds"
local matrix <const> = require "tangram.input.matrix"
local readings <const> = require "tests.spec.readings"

local fixture <const>, refused <const> = readings.fixture, readings.refused

--- Facts of a fixture, its kind guessed.
local function read(name, kind)
  local facts <const> = assert(kinds.read(fixture(name)))
  assert.equal(kind, facts.kind)
  return facts, facts.nodes[1]
end

local function said(facts, words)
  for _, warning in ipairs(facts.warnings) do
    if warning:find(words, 1, true) then return true end
  end
  return false
end

describe("nccl-tests", function()
  local function row(size, time, algbw, busbw, redop)
    return ("  %d  %d  float  %s  -1  %s  %s  %s  0  %s  %s  %s  0\n"):format(size, size // 4, redop or "sum", time, algbw, busbw, time,
      algbw, busbw)
  end

  it("reads ranks, hosts and the collective; the largest message tells the bandwidth, not the average", function()
    local facts <const> = read("nccl-tests.ranks.txt", "nccl-tests")
    assert.same({ collective = "all_gather", ranks = 2, nodes = 2, busbw_bytes_per_s = 23.97e9, latency_s = 21.25e-6 }, facts.measured)
    assert.same({ "hg-01", "hg-02" }, { facts.nodes[1].name, facts.nodes[2].name })
    assert.same({ { name = "NVIDIA H100 80GB HBM3", count = 1 } }, facts.nodes[1].gpus)
  end)

  it("reads what srun -l puts a task in front of, and warns of wrong values", function()
    local facts <const> = read("nccl-tests.srun.txt", "nccl-tests")
    assert.same({ collective = "all_reduce", ranks = 8, busbw_bytes_per_s = 173.99e9 }, facts.measured)
    assert.is_true(said(facts, "line 2: 3 wrong values"))
  end)

  it("finds the ranks by the ratio of the bandwidths", function()
    for _, n in ipairs { 3, 4, 6, 8, 16, 24 } do
      local ratio <const> = 2 * (n - 1) / n
      local facts <const> = assert(kinds.read(row(1 << 30, 9999.1, "107.38", ("%.2f"):format(107.38 * ratio))))
      assert.equal("all_reduce", facts.measured.collective)
      assert.equal(n, facts.measured.ranks)
    end
    -- two decimals can't tell 1000 ranks from 1001
    assert.is_nil(kinds.read(row(1 << 30, 9999.1, "107.38", ("%.2f"):format(107.38 * 1.998))).measured.ranks)
    local gathered <const> = "$ ./build/reduce_scatter_perf -b 1G\n" .. row(1 << 30, 9999.1, "100.00", "87.50")
    assert.same({ "reduce_scatter", 8 }, { kinds.read(gathered).measured.collective, kinds.read(gathered).measured.ranks })
  end)

  it("does not name a collective that the text doesn't tell", function()
    local facts <const> = assert(kinds.read(row(1 << 30, 9999.1, "100.00", "87.50", "none")))
    assert.is_nil(facts.measured.collective)
    assert.is_nil(facts.measured.ranks)
    assert.is_true(said(facts, "which collective this is stands nowhere"))
  end)

  it("reads rows of one half, and of old columns", function()
    local half <const> = "# size count type redop root time algbw busbw #wrong\n 67108864 16777216 float sum -1 1000.0 67.11 117.44 0\n"
    assert.equal(117.44e9, assert(kinds.read(half)).measured.busbw_bytes_per_s)
    local old <const> = "# size count type redop time algbw busbw error time algbw busbw error\n"
      .. " 67108864 16777216 float sum 1000.0 67.11 117.44 2e-07 1001.0 67.04 117.32 2e-07\n"
    local facts <const> = assert(kinds.read(old))
    assert.equal(117.44e9, facts.measured.busbw_bytes_per_s)
  end)

  it("takes no bandwidth from small messages or a log that was cut", function()
    local small <const> = assert(kinds.read(row(4096, 20.0, "0.20", "0.36")))
    assert.is_nil(small.measured)
    assert.is_true(said(small, "messages end at 4096 bytes"))
    refused("nccl-tests", "# nThread 1 nGpus 8\n# Using devices\nNCCL version 2.20.5\n", "no rows of size")
  end)

  it("warns that switches may add up between nodes", function()
    local lines <const> = { "# nThread 1\n" }
    for r = 0, 3 do
      lines[#lines + 1] = ("#  Rank %2d Group 0 Pid 1 on n%d device %d [0x0f] NVIDIA A100\n"):format(r, r // 2, r % 2)
    end
    local facts <const> = assert(kinds.read(table.concat(lines) .. "# all_reduce_perf\n" .. row(1 << 30, 10, "20.00", "30.00")))
    assert.same({ 4, 2 }, { facts.measured.ranks, facts.measured.nodes })
    assert.is_true(said(facts, "NVLS, SHARP"))
  end)

  it("reads the first of two tests and says so", function()
    local test <const> = "# nThread 1\n" .. row(1 << 30, 10, "20.00", "30.00")
    assert.is_true(said(assert(kinds.read(test .. test)), "line 3: a second test is not read"))
  end)
end)

describe("NCCL's topology", function()
  it("reads a dump: order by device, NVLinks, PCIe, cards", function()
    local facts <const>, node <const> = read("nccl-topo-xml.dump.txt", "nccl-topo-xml")
    -- device 0 is the second of the file, on eight lanes; the last has no speed in a virtual machine
    assert.same({ { count = 1, pcie_bytes_per_s = 15.75e9, compute_capability = "8.0" },
      { count = 1, pcie_bytes_per_s = 31.5e9, compute_capability = "8.0" }, { count = 1, compute_capability = "8.0" } }, node.gpus)
    assert.same({ { "X", "NV4", "SYS" }, { "NV4", "X", "SYS" }, { "SYS", "SYS", "X" } }, node.matrix)
    assert.same({ name = "mlx5_bond_0", bytes_per_s = 12.5e9, transport = "ethernet", active = true,
      affinity = { "PHB", "PHB", "SYS" } }, node.nics[1])
    assert.is_nil(node.nics[2].bytes_per_s)
    assert.same({}, facts.warnings)
  end)

  --- A dump of two GPUs behind one switch chip, with NVLinks of the first and second.
  local function dump(links, links_2)
    return ('<system version="1"><cpu numaid="0"><pci busid="0:1" class="0x060400"><pci busid="0:2" class="0x030200">'
      .. '<gpu dev="0" sm="90">%s</gpu></pci><pci busid="0:3" class="0x030200"><gpu dev="1" sm="90">%s</gpu></pci></pci></cpu></system>')
      :format(links, links_2 or "")
  end

  it("counts links to switches once for every pair", function()
    local to_switch <const> = ('<nvlink target="0:c%d" count="9" tclass="0x068000"/>'):rep(2):format(1, 2)
    local facts <const> = assert(kinds.read(dump(to_switch, to_switch)))
    assert.same({ { "X", "NV18" }, { "NV18", "X" } }, facts.nodes[1].matrix)
    assert.same({ [2] = 450e9 }, matrix.rates(facts.nodes[1].matrix, catalog.find_gpu "h100-sxm"))
  end)

  it("tells one bridge from several, and a CPU's links from a GPU's", function()
    assert.same({ { "X", "PIX" }, { "PIX", "X" } }, assert(kinds.read(dump "")).nodes[1].matrix)
    local grace <const> = '<nvlink target="0:9" count="6" tclass="0x060000"/>'
    assert.same({ { "X", "PIX" }, { "PIX", "X" } }, assert(kinds.read(dump(grace))).nodes[1].matrix)
    local deep <const> = dump "":gsub('<pci busid="0:3".-</pci>', '<pci class="0x060400">%0</pci>')
    assert.same({ { "X", "PXB" }, { "PXB", "X" } }, assert(kinds.read(deep)).nodes[1].matrix)
  end)

  it("gives no matrix where a link leads nobody knows where", function()
    local facts <const> = assert(kinds.read(dump '<nvlink target="-1" count="4" tclass="0x030200"/>'))
    assert.is_nil(facts.nodes[1].matrix)
    assert.is_true(said(facts, "run 'nvidia-smi topo -m'"))
  end)

  it("says which package it takes where that is missing", function()
    local loaded <const>, preload <const> = package.loaded.lxp, package.preload.lxp
    package.loaded.lxp, package.preload.lxp = nil, function() error "not here" end
    local facts <const>, why <const> = kinds.read(dump "")
    package.loaded.lxp, package.preload.lxp = loaded, preload
    assert.is_nil(facts)
    assert.matches("package lua-expat", why, 1, true)
  end)

  it("refuses other XML, what is no XML, and what would cost without end", function()
    refused("nccl-topo-xml", '<graphs version="1"></graphs>', "line 1: the root is <graphs>", "NCCL_GRAPH_DUMP_FILE", "NCCL_TOPO_DUMP_FILE")
    refused("nccl-topo-xml", "<system>\n<cpu>\n</system>\n", "line 3: no XML: mismatched tag")
    refused("nccl-topo-xml", "<system><cpu/></system>", "no GPU")
    refused("nccl-topo-xml", '<!DOCTYPE s [<!ENTITY a "b">]><system>&a;</system>', "a DOCTYPE, expected none")
    refused("nccl-topo-xml", "<system>" .. ("<pci>"):rep(100), "line 1: elements 33 deep, expected at most 32")
    refused("nccl-topo-xml", "<system>" .. ('<pci class="0x030200"/>'):rep(200) .. "</system>", "more than 128 GPUs")
    refused("nccl-topo-xml", "", "no XML")
  end)
end)

describe("ibstat and its kin", function()
  it("reads rate, transport and state of each port (C40)", function()
    local _, node <const> = read("ibstat.cards.txt", "ibstat")
    assert.same({
      { name = "mlx5_0", bytes_per_s = 50e9, transport = "infiniband", active = true },
      { name = "mlx5_1:1", bytes_per_s = 1e9, transport = "infiniband", active = false }, -- 8 of 10 bits are data
      { name = "mlx5_1:2", bytes_per_s = 54.5e9 / 8, transport = "infiniband", active = true }, -- FDR
      { name = "bnxt_re0", bytes_per_s = 5e9, transport = "ethernet", active = true }, -- 40 Gb/s of Ethernet is data
    }, node.nics)
  end)

  it("reads ibstatus, and tells QDR from FDR10", function()
    local _, node <const> = read("ibstat.ibstatus.txt", "ibstat")
    assert.same({ { name = "mlx5_3", bytes_per_s = 4e9, transport = "infiniband", active = true },
      { name = "mlx5_4", bytes_per_s = 5e9, transport = "infiniband", active = false } }, node.nics)
  end)

  it("reads ibdev2netdev, which has no rates", function()
    local facts <const>, node <const> = read("ibstat.netdev.txt", "ibstat")
    assert.same({ { name = "mlx5_0", active = true }, { name = "mlx5_1", active = false } }, node.nics)
    assert.is_true(said(facts, "line 1: mlx5_0 has no rate"))
  end)

  it("refuses what it does not read", function()
    refused("ibstat", "hca_id:\tmlx5_0\n\ttransport:\tInfiniBand (0)\n", "ibv_devinfo", "run 'ibstat'")
    refused("ibstat", "ibpanic: [1] main: stat of IB device failed\n", "expected the output of 'ibstat', 'ibstatus' or 'ibdev2netdev'")
  end)
end)

describe("rocm-smi and amd-smi", function()
  it("reads the link types of three matrices, names and memory", function()
    local _, node <const> = read("rocm-smi.pairs.txt", "rocm-smi")
    assert.same({ { name = "AMD Instinct MI210", count = 4, memory_bytes = 68702699520 } }, node.gpus)
    assert.same({ "X", "XGMI", "PCIE", "PCIE" }, node.matrix[1])
    assert.same({ "PCIE", "PCIE", "XGMI", "X" }, node.matrix[4])
    local rates <const> = matrix.rates(node.matrix, catalog.find_gpu "mi210")
    assert.equal(50e9, rates[2])
    assert.is_true(rates[3] < 31.5e9)
  end)

  it("reads amd-smi's rows by bus id", function()
    local _, node <const> = read("rocm-smi.amd-smi.txt", "rocm-smi")
    assert.same({ { "X", "XGMI" }, { "XGMI", "X" } }, node.matrix)
  end)

  it("takes a hive's rates by size from the catalogue", function()
    local rows <const> = {}
    for i = 1, 8 do
      rows[i] = {}
      for j = 1, 8 do rows[i][j] = i == j and "X" or "XGMI" end
    end
    assert.same({ [2] = 64e9, [4] = 192e9, [8] = 448e9 }, matrix.rates(rows, catalog.find_gpu "mi300x"))
  end)

  it("warns of partition modes, and refuses output without link types", function()
    local head, rows <const> = "Link Type between two GPUs\n", {}
    for i = 0, 15 do
      head = head .. " GPU" .. i
      rows[#rows + 1] = "GPU" .. i
      for j = 0, 15 do rows[#rows] = rows[#rows] .. (i == j and " 0" or " XGMI") end
    end
    local facts <const> = assert(kinds.read(head .. "\n" .. table.concat(rows, "\n") .. "\n"))
    assert.is_true(said(facts, "16 GPUs: a partition mode (CPX, TPX)"))
    refused("rocm-smi", "==== ROCm System Management Interface ====\nGPU[0] : Card Series: AMD Instinct MI100\n", "rocm-smi --showtopo")
  end)
end)

describe("every reader", function()
  local huge <const> = ("0"):rep(100000000)
  for _, module in ipairs(kinds) do
    local reader <const> = kinds.reader(module)
    it(reader.kind .. " refuses 100 MB at once, and takes or refuses noise in one line", function()
      local clock <const> = os.clock()
      local facts <const>, why <const> = reader.read(huge)
      assert.is_nil(facts)
      assert.matches("expected at most %d+ [KM]iB", why)
      for _, noise in ipairs { "", "\n\n", "hello, world\n", "\0\1\2\3", ("x"):rep(1000) } do
        local taken <const>, refusal <const> = reader.read(noise)
        assert.is_true(taken ~= nil or type(refusal) == "string" and not refusal:find "\n")
      end
      assert.is_true(os.clock() - clock < 1)
    end)
  end

  it("is found by name, with the nearest right one", function()
    local reader <const>, why <const> = kinds.find "nvidia-smi-top"
    assert.is_nil(reader)
    assert.matches("did you mean 'nvidia%-smi%-topo'", why)
    assert.matches("looks like nothing known", select(2, kinds.read "hello, world\n"))
  end)
end)
