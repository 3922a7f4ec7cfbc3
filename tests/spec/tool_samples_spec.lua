--- The samples of data/inputs that one node's tools print, each read as its log says.
local support <const> = require "tests.spec.support"
local kinds <const> = require "tangram.input.kinds"
local matrix <const> = require "tangram.input.matrix"

local GIB <const> = 1 << 30

--- The facts of a sample, its kind guessed.
local function facts_of(path)
  local file <const> = support.shared("data/inputs/" .. path)
  if not file then return nil end
  return assert(kinds.read(support.read(file)))
end

--- Counts of the classes above the diagonal.
local function tally(rows)
  local count <const> = {}
  for i, row in ipairs(rows) do
    for j = i + 1, #row do count[row[j]] = (count[row[j]] or 0) + 1 end
  end
  return count
end

local function said(facts, pattern)
  for _, warning in ipairs(facts.warnings) do
    if warning:find(pattern) then return true end
  end
  return false
end

--- Sample, kind, and what is right of it.
local samples <const> = {
  { "nvidia-smi-topo/001.txt", "nvidia-smi-topo", function(facts, node)
    assert.same({ { count = 8 } }, node.gpus)
    assert.same({ NV1 = 8, NV2 = 8, SYS = 12 }, tally(node.matrix))
    assert.equal("NV2", node.matrix[1][4])
    assert.equal("NV1", node.matrix[1][2])
    assert.equal("NV2", node.matrix[1][5])
    assert.equal("SYS", node.matrix[1][6])
    assert.same({ { name = "mlx5_0", affinity = { "NODE", "NODE", "PIX", "PIX", "SYS", "SYS", "SYS", "SYS" } } }, node.nics)
    assert.same({}, facts.warnings)
  end },
  { "nvidia-smi-topo/003.txt", "nvidia-smi-topo", function(_, node) assert.same({ { "X", "NV2" }, { "NV2", "X" } }, node.matrix) end },
  { "nvidia-smi-topo/005.txt", "nvidia-smi-topo", function(_, node) assert.same({ NV12 = 28 }, tally(node.matrix)) end },
  { "nvidia-smi-topo/007.txt", "nvidia-smi-topo", function(_, node)
    assert.same({ { count = 1 } }, node.gpus)
    assert.same({ { "X" } }, node.matrix)
    assert.is_nil(node.nics)
  end },
  { "nvidia-smi-topo/009.txt", "nvidia-smi-topo", function(facts, node)
    assert.same({ NV18 = 28 }, tally(node.matrix))
    assert.equal(12, #node.nics)
    for gpu, nic in ipairs { 0, 3, 4, 5, 6, 9, 10, 11 } do assert.equal("PXB", node.nics[nic + 1].affinity[gpu]) end
    assert.is_true(said(facts, "no rows NIC6, NIC7, NIC8, NIC9"))
  end },
  { "nvidia-smi-topo/011.txt", "nvidia-smi-topo", function(_, node)
    assert.same({ NV2 = 3, NV1 = 1, SYS = 2 }, tally(node.matrix))
    assert.equal("SYS", node.matrix[1][4])
    assert.equal("SYS", node.matrix[2][3])
  end },
  { "nvidia-smi-topo/013.txt", "nvidia-smi-topo", function(_, node)
    assert.same({ PHB = 2, SYS = 4 }, tally(node.matrix))
    assert.equal("PHB", node.matrix[3][4])
  end },
  { "nvidia-smi-topo/015.txt", "nvidia-smi-topo", function(_, node)
    assert.same({ { count = 4 } }, node.gpus)
    assert.same({ NV18 = 6 }, tally(node.matrix))
  end },
  { "nvidia-smi-topo/017.txt", "nvidia-smi-topo", function(_, node)
    assert.same({ NV12 = 28 }, tally(node.matrix))
    assert.same({ "PXB", "PXB", "NODE", "NODE", "SYS", "SYS", "SYS", "SYS" }, node.nics[1].affinity)
    assert.same({ "SYS", "SYS", "SYS", "SYS", "PXB", "PXB", "NODE", "NODE" }, node.nics[2].affinity)
  end },
  { "nvidia-smi-topo/019.txt", "nvidia-smi-topo", function(_, node)
    assert.same({ SYS = 1 }, tally(node.matrix))
    assert.equal(2, #node.nics)
  end },
  { "nvidia-smi-topo/021.txt", "nvidia-smi-topo", function(_, node)
    assert.same({ PHB = 6 }, tally(node.matrix))
    assert.equal(1, #node.gpus)
    assert.equal(4, node.gpus[1].count)
    assert.equal("NVIDIA GeForce RTX 5060 Ti", node.gpus[1].name)
    assert.near(7.9e9, node.gpus[1].pcie_bytes_per_s, 0.05e9)
  end },
  { "nvidia-smi-topo/023.txt", "nvidia-smi-topo", function(_, node)
    assert.same({ NV12 = 1, NV10 = 1, NODE = 4 }, tally(node.matrix))
    assert.equal("NV12", node.matrix[1][2])
    assert.equal("NV10", node.matrix[3][4])
  end },
  { "nvidia-smi-p2p/001.txt", "nvidia-smi-p2p", function(facts, node)
    assert.same({ { count = 8 } }, node.gpus)
    assert.same({ OK = 28 }, tally(node.reach))
    assert.is_nil(node.matrix)
    assert.same({}, facts.warnings)
  end },
  { "nvidia-smi-L/001.txt", "nvidia-smi-L", function(facts, node)
    assert.same({}, node.gpus)
    assert.matches("MIG", node.left_out)
    assert.is_true(said(facts, "cuts it into 4 %(3g.40gb, 2g.20gb, 1g.10gb, 1g.10gb%)"))
  end },
  { "nvidia-smi-L/003.txt", "nvidia-smi-L", function(_, node) assert.same({ { name = "NVIDIA L40S", count = 1 } }, node.gpus) end },
  { "nvidia-smi-csv/001.txt", "nvidia-smi-csv", function(_, node)
    assert.same({ { name = "NVIDIA A30", count = 4, memory_bytes = 24 * GIB } }, node.gpus)
  end },
  { "nvidia-smi-csv/003.txt", "nvidia-smi-csv", function(facts, node)
    assert.equal(2, #node.gpus)
    assert.equal("NVIDIA GeForce RTX 4070 Laptop GPU", node.gpus[1].name)
    assert.equal(16303 * 2 ^ 20, node.gpus[2].memory_bytes)
    assert.is_true(said(facts, "not one island"))
  end },
  { "nvidia-smi-csv/005.txt", "nvidia-smi-csv", function(facts, node)
    assert.same({ { name = "NVIDIA Graphics Device", count = 1, memory_bytes = 8 * GIB } }, node.gpus)
    assert.is_true(said(facts, "say which one it is"))
  end },
  { "nvidia-smi-nvlink/001.txt", "nvidia-smi-nvlink", function(_, node)
    assert.same({ { name = "NVIDIA H100 80GB HBM3", count = 1 } }, node.gpus)
    assert.near(478e9, node.nvlink_bytes_per_s, 0.2e9)
  end },
  { "nccl-tests/001.txt", "nccl-tests", function(facts)
    assert.equal("all_reduce", facts.measured.collective)
    assert.equal(16, facts.measured.ranks)
    assert.near(78.33e9, facts.measured.busbw_bytes_per_s, 1)
    assert.near(161e-6, facts.measured.latency_s, 1e-6)
    assert.same({}, facts.nodes)
  end },
  { "nccl-tests/003.txt", "nccl-tests", function(facts)
    assert.equal(8, facts.measured.ranks)
    assert.near(158.65e9, facts.measured.busbw_bytes_per_s, 1)
    assert.is_nil(facts.measured.latency_s)
  end },
  { "nccl-tests/005.txt", "nccl-tests", function(facts, node)
    assert.is_nil(facts.measured)
    assert.same({ { name = "NVIDIA A100-SXM4-80GB", count = 4 } }, node.gpus)
    assert.equal("node-a", node.name)
    assert.is_true(said(facts, "no bandwidth can be taken"))
  end },
  { "nccl-topo-xml/001.txt", "nccl-topo-xml", function(facts, node)
    assert.same({ { count = 8, pcie_bytes_per_s = 15.75e9 } }, node.gpus)
    assert.equal(4, #node.nics)
    assert.is_nil(node.matrix)
    assert.is_true(said(facts, "leaves NVLink out"))
  end },
  { "nccl-topo-xml/003.txt", "nccl-topo-xml", function(_, node)
    assert.same({ { count = 8, pcie_bytes_per_s = 31.5e9 } }, node.gpus)
    assert.equal(8, #node.nics)
    assert.is_nil(node.matrix)
    for _, nic in ipairs(node.nics) do
      local near = 0
      for _, class in ipairs(nic.affinity) do near = near + (class == "PIX" and 1 or 0) end
      assert.equal(2, near)
      assert.equal("infiniband", nic.transport)
    end
    assert.equal("PIX", node.nics[1].affinity[3]) -- 0103: with 0003 and 0004, the third and fourth by bus id
  end },
  { "nccl-topo-xml/005.txt", "nccl-topo-xml", function(_, node)
    assert.equal(1, node.gpus[1].count)
    assert.equal("8.0", node.gpus[1].compute_capability)
    assert.equal(1, #node.nics)
    assert.equal(25e9, node.nics[1].bytes_per_s)
    assert.equal("mlx5_0", node.nics[1].name)
  end },
  { "ibstat/001.txt", "ibstat", function(_, node)
    assert.same({ { name = "mlx5_0", bytes_per_s = 12.5e9, transport = "infiniband", active = true } }, node.nics)
  end },
  { "ibstat/003.txt", "ibstat", function(_, node)
    assert.same({ { name = "mlx5_bond_0", bytes_per_s = 25e9, transport = "ethernet", active = true } }, node.nics)
  end },
  { "rocm-smi/001.txt", "rocm-smi", function(_, node)
    assert.same({ { count = 4 } }, node.gpus)
    assert.same({ PCIE = 6 }, tally(node.matrix))
  end },
}

describe("samples of tools' output", function()
  for _, sample in ipairs(samples) do
    it(sample[1] .. " reads as its log says", function()
      local facts <const> = facts_of(sample[1])
      if not facts then return pending "the shared data is not here" end
      assert.equal(sample[2], facts.kind)
      sample[3](facts, facts.nodes[1])
    end)
  end

  it("gives the rented node of C60 NVLink in pairs alone", function()
    local facts <const> = facts_of "nvidia-smi-topo/023.txt"
    if not facts then return pending "the shared data is not here" end
    local rates <const> = matrix.rates(facts.nodes[1].matrix, require "tangram.catalog".find_gpu "a100-sxm4-40")
    assert.equal(250e9, rates[2])
    assert.is_true(rates[3] < rates[2] / 9)
  end)
end)
