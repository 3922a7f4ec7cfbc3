--- What nvidia-smi prints, in the shapes that drivers, terminals and pastes give it.
local kinds <const> = require "tangram.input.kinds"
local readings <const> = require "tests.spec.readings"

local MIB <const> = 1 << 20

local fixture <const>, refused <const> = readings.fixture, readings.refused

--- Facts and first node of a fixture, its kind guessed.
local function read(name, kind)
  local facts <const> = assert(kinds.read(fixture(name)))
  assert.equal(kind, facts.kind)
  return facts.nodes[1], facts
end

--- One warning alone, that has the words.
local function warned(facts, words)
  assert.equal(1, #facts.warnings)
  assert.matches(words, facts.warnings[1], 1, true)
end

describe("nvidia-smi topo -m", function()
  local HEAD <const> = "\tGPU0\tGPU1\tNIC0\tCPU Affinity\n"

  it("reads tabs, an underlined header, the legend's names; NUMA ids are labels (C42)", function()
    local node <const>, facts <const> = read("nvidia-smi-topo.tabs.txt", "nvidia-smi-topo")
    assert.same({ { count = 4 } }, node.gpus)
    assert.same({ "NV6", "NV6", "X", "NV6" }, node.matrix[3])
    assert.same({ { name = "mlx5_2", affinity = { "PIX", "PHB", "SYS", "SYS" } },
      { name = "mlx5_5", affinity = { "SYS", "SYS", "PXB", "NODE" } } }, node.nics)
    assert.same({}, facts.warnings)
  end)

  it("reads spaces behind a #, and rows of cards that end early", function()
    local node <const> = read("nvidia-smi-topo.spaces.txt", "nvidia-smi-topo")
    assert.same({ { "X", "NV4", "SYS" }, { "NV4", "X", "SYS" }, { "SYS", "SYS", "X" } }, node.matrix)
    assert.same({ { name = "mlx5_1", affinity = { "SYS", "SYS", "PIX" } } }, node.nics)
  end)

  it("takes the GPUs from a list in the same paste, and leaves the p2p matrix alone", function()
    local node <const>, facts <const> = read("nvidia-smi-topo.paste.txt", "nvidia-smi-topo")
    assert.same({ { "X", "PXB" }, { "PXB", "X" } }, node.matrix)
    -- eight of sixteen lanes of generation 4
    assert.same({ { name = "NVIDIA L4", count = 2, memory_bytes = 23034 * MIB, pcie_bytes_per_s = 31.5e9 / 2 } }, node.gpus)
    assert.matches("PCIe runs 8 of 16 lanes", facts.warnings[1])
  end)

  it("reads a header that lost its tab, colours, carriage returns and what PowerShell writes", function()
    local plain <const> = "GPU0\tGPU1\nGPU0\t X \tPHB\nGPU1\tPHB\t X \n"
    local utf16 <const> = "\xFF\xFE" .. plain:gsub(".", "%0\0")
    for _, text in ipairs { plain, plain:gsub("\n", "\r\n"), "\27[1m" .. plain:gsub("GPU1", "\27[4;31mGPU1\27[0m"), utf16 } do
      assert.same({ { "X", "PHB" }, { "PHB", "X" } }, assert(kinds.read(text)).nodes[1].matrix)
    end
  end)

  it("takes an unknown pair for the slowest, and says so", function()
    local facts <const> = assert(kinds.read(HEAD .. "GPU0\tX\tN/A\tPIX\nGPU1\tN/A\tX\tN/A\n"))
    assert.equal("SYS", facts.nodes[1].matrix[1][2])
    assert.matches("GPU0-GPU1 N/A, taken as the slowest", facts.warnings[1], 1, true)
  end)

  it("reads one matrix of several and says so", function()
    local one <const> = HEAD .. "GPU0\tX\tPIX\tPIX\nGPU1\tPIX\tX\tPIX\nNIC0\tPIX\tPIX\tX\n"
    warned(assert(kinds.read(one .. "\n" .. one)), "line 6: a second matrix is not read, expected one node a file")
  end)

  it("refuses what hides NVLink, says nothing of rates, or is no matrix", function()
    local rows <const> = "GPU0\tX\tPIX\tPIX\nGPU1\tPIX\tX\tPIX\n"
    refused("nvidia-smi-topo", "$ nvidia-smi topo -mp\n" .. HEAD .. rows, "line 1: 'topo -mp'", "hides NVLink", "run 'nvidia-smi topo -m'")
    refused("nvidia-smi-topo", "$ nvidia-smi topo --matrix_pci\n" .. HEAD .. rows, "hides NVLink")
    refused("nvidia-smi-topo", fixture "nvidia-smi-p2p.holes.txt", "line 2: a matrix of 'topo -p2p'", "run 'nvidia-smi topo -m'")
    refused("nvidia-smi-topo", "Invalid combination of input arguments. Please run 'nvidia-smi topo -h' for help.\n",
      "line 1: 'Invalid combination", "expected the output of 'nvidia-smi topo -m'")
    refused("nvidia-smi-topo", "", "no text, expected the output of 'nvidia-smi topo -m'")
    refused("nvidia-smi-topo", HEAD, "line 1: a header and no rows")
  end)

  it("refuses edited and cut matrices by line", function()
    refused("nvidia-smi-topo", HEAD .. "GPU0\tX\tNV4\tPIX\nGPU1\tNV2\tX\tPIX\n", "line 3: GPU1 to GPU0 is NV2, but GPU0 to GPU1 is NV4",
      "the same both ways")
    refused("nvidia-smi-topo", HEAD .. "GPU0\tX\tNV4\tPIX\n", "line 1: no row 'GPU1'")
    refused("nvidia-smi-topo", HEAD .. "GPU0\tX\tNV4\tPIX\nGPU1\tNV4\n", "line 3: row GPU1 has 1 cells, expected 3")
    refused("nvidia-smi-topo", HEAD .. "GPU0\tX\tNV4\t0-23\nGPU1\tNV4\tX\tPIX\n", "line 2: GPU0 to NIC0 is '0-23'")
    refused("nvidia-smi-topo", HEAD .. "GPU0\tX\tNV0\tPIX\nGPU1\tNV0\tX\tPIX\n", "line 2: GPU0 to GPU1 is 'NV0'")
    refused("nvidia-smi-topo", HEAD .. "GPU0\tX\tX\tPIX\nGPU1\tX\tX\tPIX\n", "line 2: GPU0 to GPU1 is 'X'")
    refused("nvidia-smi-topo", HEAD .. "GPU0\tX\tNV4\tPIX\nGPU0\tX\tNV4\tPIX\n", "line 3: a second row 'GPU0'", "one node a file")
    refused("nvidia-smi-topo", "\tGPU0\tGPU0\nGPU0\tX\tX\n", "line 1: 'GPU0' stands twice")
    local many <const> = {}
    for i = 0, 299 do many[#many + 1] = "GPU" .. i end
    refused("nvidia-smi-topo", table.concat(many, " "), "300 devices, expected at most 256")
  end)
end)

describe("nvidia-smi --query-gpu --format=csv", function()
  it("reads the list in the order of the indices; sliced and lost GPUs don't count", function()
    local node <const>, facts <const> = read("nvidia-smi-csv.full.txt", "nvidia-smi-csv")
    assert.same({ { name = "NVIDIA H200", count = 2, memory_bytes = 143771 * MIB, pcie_bytes_per_s = 63e9,
      compute_capability = "9.0" } }, node.gpus)
    assert.matches("line 5: left out, the driver says [GPU requires reset]", facts.warnings[1], 1, true)
    assert.matches("1 of 4 GPUs left out, they are cut by MIG", facts.warnings[2])
  end)

  it("reads lists without a header where the columns tell what they are, or are told", function()
    local node <const>, facts <const> = read("nvidia-smi-csv.noheader.txt", "nvidia-smi-csv")
    assert.same({ { name = "Tesla V100-SXM2-32GB", count = 2, memory_bytes = 32510 * MIB } }, node.gpus)
    warned(facts, "no header, columns are taken for index, name, memory.total, pci.bus_id")
    local bare <const> = "NVIDIA L40S, 46068, 8.9\nNVIDIA L40S, 46068, 8.9\n"
    refused("nvidia-smi-csv", "0, 10 MiB, 24576 MiB, NVIDIA A30\n", "line 1: no header, and which column is memory.total is not clear")
    local run <const> = { name = "NVIDIA L40S", count = 2, memory_bytes = 46068 * MIB, compute_capability = "8.9" }
    local asked <const> = "$ nvidia-smi --query-gpu=name,memory.total,compute_cap --format=csv,noheader,nounits\n"
    assert.same({ run }, assert(kinds.read(asked .. bare)).nodes[1].gpus)
    assert.same({ run }, assert(kinds.read(bare, "nvidia-smi-csv", { fields = "name,memory.total,compute_cap" })).nodes[1].gpus)
  end)

  it("reads figures without units", function()
    local facts <const> = assert(kinds.read "gpu_name, memory.total [MiB]\nTesla T4, 15360\nTesla T4, 15360\n")
    assert.same({ { name = "Tesla T4", count = 2, memory_bytes = 15360 * MIB } }, facts.nodes[1].gpus)
  end)

  it("keeps unlike GPUs of a node apart, and unlike memory (C56)", function()
    local facts <const> = assert(kinds.read("name, memory.total [MiB]\nNVIDIA A100-SXM4-40GB, 40960 MiB\n"
      .. "NVIDIA A100-SXM4-80GB, 81920 MiB\n"))
    assert.equal(2, #facts.nodes[1].gpus)
    warned(facts, "not one island")
  end)

  it("does not use the speed of an idle link", function()
    local facts <const> = assert(kinds.read "index, name, pcie.link.gen.current, pcie.link.width.max\n0, NVIDIA A10, 1, 16\n")
    assert.is_nil(facts.nodes[1].gpus[1].pcie_bytes_per_s)
    warned(facts, "query pcie.link.gen.max")
  end)

  it("leaves a node of MIG slices out (C44)", function()
    local facts <const> = assert(kinds.read "index, name, mig.mode.current\n0, NVIDIA A30, Enabled\n1, NVIDIA A30, Enabled\n")
    assert.same({}, facts.nodes[1].gpus)
    assert.equal("MIG only: no whole GPU", facts.nodes[1].left_out)
  end)

  it("refuses what is cut or edited by line", function()
    refused("nvidia-smi-csv", "index, name\n0, NVIDIA A30\n1, NVIDIA A30, 3\n", "line 3: 3 values, expected 2")
    refused("nvidia-smi-csv", "index, name\n0, NVIDIA A30\n0, NVIDIA A30\n", "line 3: index 0 stands twice", "one node a file")
    refused("nvidia-smi-csv", "name, memory.total [MiB]\nNVIDIA A30, lots\n", "line 2: memory.total is 'lots'", "24576 MiB")
    refused("nvidia-smi-csv", "No devices were found\n", "expected the output of 'nvidia-smi --query-gpu=index,name,memory.total")
  end)
end)

describe("nvidia-smi -L and nvlink -s", function()
  it("leaves out the GPU that MIG cuts, and names it (C44)", function()
    local node <const>, facts <const> = read("nvidia-smi-L.mixed.txt", "nvidia-smi-L")
    assert.same({ { name = "NVIDIA A100-SXM4-40GB", count = 2 } }, node.gpus)
    assert.is_nil(node.left_out)
    warned(facts, "line 2: GPU 1 is left out, MIG cuts it into 2 (1c.3g.20gb, 1g.5gb+me): slices can't form one job")
  end)

  it("sums the active links of each GPU", function()
    local node <const>, facts <const> = read("nvidia-smi-nvlink.inactive.txt", "nvidia-smi-nvlink")
    assert.same({ 100e9, 75e9 }, node.nvlink_bytes_per_s)
    warned(facts, "line 6: GPU 1 has 1 of 4 links inactive")
  end)

  it("says so where no link is active", function()
    local facts <const> = assert(kinds.read("GPU 0: X (UUID: GPU-1)\n\t Link 0: <inactive>\n", "nvidia-smi-nvlink"))
    assert.is_nil(facts.nodes[1].nvlink_bytes_per_s)
    assert.equal("no GPU has an active NVLink", facts.warnings[2])
  end)

  it("refuses other lists", function()
    refused("nvidia-smi-nvlink", "GPU 0: X (UUID: GPU-1)\n\t Link 0: Replay Errors: 0\n", "line 2: a link without a rate", "nvlink -s")
    refused("nvidia-smi-L", "GPU 0: X (UUID: GPU-1)\nGPU 0: X (UUID: GPU-2)\n", "line 2: GPU 0 stands twice", "one node a file")
    refused("nvidia-smi-L", "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.\n", "GPU 0: NAME")
  end)
end)

describe("nvidia-smi topo -p2p", function()
  it("says who doesn't reach whom, and gives no rates", function()
    local node <const>, facts <const> = read("nvidia-smi-p2p.holes.txt", "nvidia-smi-p2p")
    assert.is_nil(node.matrix)
    assert.same({ { count = 3 } }, node.gpus)
    warned(facts, "line 3: GPU0 and GPU2 don't reach each other directly (topology not supported)")
  end)

  it("refuses a matrix of classes", function()
    local _, why <const> = kinds.read(fixture "nvidia-smi-topo.spaces.txt", "nvidia-smi-p2p")
    assert.matches("no matrix of OK.*it looks like 'nvidia%-smi topo %-m': %-%-from nvidia%-smi%-topo", why)
  end)
end)
