--- What practitioners reported, each case answered as it asks; the numbers are those of the list of complaints.
local islands <const> = require "tangram.islands"
local join <const> = require "tangram.input.join"
local kinds <const> = require "tangram.input.kinds"

--- The cluster that some texts tell of; each is { path, text, node }.
local function joined(texts, options)
  local sources <const> = {}
  for i, one in ipairs(texts) do sources[i] = { path = one[1], facts = assert(kinds.read(one[2])), node = one[3] } end
  return join.cluster(sources, options)
end

local function csv(count, name, mib)
  local lines <const> = { "index, name, memory.total [MiB]" }
  for i = 1, count do lines[#lines + 1] = ("%d, %s, %d MiB"):format(i - 1, name, mib) end
  return table.concat(lines, "\n") .. "\n"
end

describe("clusters", function()
  it("C44: MIG slices are refused with the reason, whole GPUs alone count", function()
    local made <const>, why <const> = joined { { "nodes.txt",
      "NodeName=m1 State=IDLE Gres=gpu:nvidia_a100_80gb_pcie_1g.10gb:7\n" } }
    assert.is_nil(made)
    assert.matches("m1: left out: MIG slices only, which can't form one job", why, 1, true)
    local whole <const>, notes <const> = joined { { "nodes.txt",
      "NodeName=m1 State=IDLE Gres=gpu:nvidia_a100_80gb_pcie:3,gpu:nvidia_a100_80gb_pcie_1g.10gb:7\n" } }
    assert.same({ "a100-pcie-80", 3 }, { whole.nodes[1].gpu, whole.nodes[1].gpus })
    assert.matches("7 MIG slices beside its whole GPUs are left out", table.concat(notes, "\n"), 1, true)
    local labels <const>, said <const> = joined { { "labels.txt", "nvidia.com/gpu.product: NVIDIA-A100-SXM4-40GB-MIG-1g.5gb\n"
      .. 'nvidia.com/gpu.count: "7"\n' } }
    assert.is_nil(labels)
    assert.matches("MIG slices only", said, 1, true)
  end)

  it("C56: a type label without a memory size is asked for, and two sizes are two islands", function()
    local slurm <const> = { "nodes.txt", "NodeName=a1 State=IDLE Gres=gpu:a100:4\nNodeName=a2 State=IDLE Gres=gpu:a100:4\n" }
    local made <const>, why <const> = joined({ slurm }, { bytes_per_s = { "ib-hdr" } })
    assert.is_nil(made)
    assert.matches("'a100' of a1, a2: it may be one of a100-sxm4-40, a100-sxm4-80, a100-pcie-40, a100-pcie-80", why, 1, true)
    local told <const> = assert(joined({ slurm, { "1.csv", csv(4, "NVIDIA A100-SXM4-40GB", 40960), "a1" },
      { "2.csv", csv(4, "NVIDIA A100-SXM4-80GB", 81920), "a2" } }, { bytes_per_s = { "ib-hdr" } }))
    assert.same({ "a100-sxm4-40", "a100-sxm4-80" }, { told.nodes[1].gpu, told.nodes[2].gpu })
    assert.equal(2, #islands.group(told).islands)
  end)

  --- A file of one node of four T4 with network cards.
  local function with_cards(name, nics)
    local node <const> = { name = name, gpus = { { name = "t4", count = 4 } }, nics = nics }
    return { path = name, facts = { kind = "sinfo", warnings = {}, nodes = { node } } }
  end
  local function card(name, transport)
    return { name = name, bytes_per_s = 25e9, transport = transport or "infiniband", active = true }
  end

  it("C36: nodes of unlike cards are warned of, and planned with the slower end's rate", function()
    local made <const>, notes <const> = join.cluster { with_cards("x1", { card "mlx5_0" }),
      with_cards("x2", { card "mlx5_0", card "mlx5_1" }) }
    assert.equal(25e9, made.network.default.bytes_per_s)
    assert.matches("other network cards in x1 (mlx5_0) and x2 (mlx5_0, mlx5_1): NCCL may hang unless NCCL_IB_HCA names them",
      table.concat(notes, "\n"), 1, true)
  end)

  it("C38: cards of two makers are said to be unproven together, and count one card's rate", function()
    local made <const>, notes <const> = join.cluster { with_cards("x1", { card("mlx5_0", "ethernet"), card("mlx5_1", "ethernet") }),
      with_cards("x2", { card("bnxt_re0", "ethernet"), card("bnxt_re1", "ethernet") }) }
    assert.equal(25e9, made.network.default.bytes_per_s)
    assert.matches("network cards of NVIDIA in x1 and of Broadcom in x2 are unproven together", table.concat(notes, "\n"), 1, true)
  end)

  it("C40: InfiniBand and Ethernet on one host are kept apart", function()
    local nics <const> = { card "mlx5_0", card("mlx5_bond_0", "ethernet") }
    local made <const>, notes <const> = join.cluster { with_cards("n1", nics), with_cards("n2", nics) }
    assert.equal(25e9, made.network.default.bytes_per_s)
    assert.matches("InfiniBand (25.0 GB/s) and Ethernet (25.0 GB/s) are other transports", table.concat(notes, "\n"), 1, true)
  end)

  it("C60: NVLink in pairs alone is not taken for NVLink between all, whatever the part", function()
    local topo <const> = "\tGPU0\tGPU1\tGPU2\tGPU3\tCPU Affinity\nGPU0\t X \tNV12\tNODE\tNODE\t0\nGPU1\tNV12\t X \tNODE\tNODE\t0\n"
      .. "GPU2\tNODE\tNODE\t X \tNV10\t0\nGPU3\tNODE\tNODE\tNV10\t X \t0\n"
    local made <const> = assert(joined { { "topo.txt", topo, "r1" }, { "g.csv", csv(4, "NVIDIA A100-SXM4-40GB", 40960), "r1" } })
    local rates <const> = made.nodes[1].intra_bytes_per_s
    assert.equal(250e9, rates["2"]) -- the pair of ten links is the slower
    assert.is_true((rates["4"] or rates["3"]) < 32e9)
    local _, notes <const> = joined { { "g.csv", csv(4, "NVIDIA A100-SXM4-40GB", 40960), "r1" } }
    assert.matches("no file says how its GPUs are linked: NVLink3 x12 is taken between all of them", table.concat(notes, "\n"), 1, true)
  end)
end)
