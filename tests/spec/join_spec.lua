local cluster <const> = require "tangram.cluster"
local join <const> = require "tangram.input.join"
local kinds <const> = require "tangram.input.kinds"

local PAIRS <const> = [[
	GPU0	GPU1	GPU2	GPU3	CPU Affinity	NUMA Affinity
GPU0	 X 	NV4	SYS	SYS	0-15	0
GPU1	NV4	 X 	SYS	SYS	0-15	0
GPU2	SYS	SYS	 X 	NV4	16-31	1
GPU3	SYS	SYS	NV4	 X 	16-31	1
]]

local function csv(count, name, mib)
  local lines <const> = { "index, name, memory.total [MiB]" }
  for i = 1, count do lines[#lines + 1] = ("%d, %s, %d MiB"):format(i - 1, name, mib) end
  return table.concat(lines, "\n") .. "\n"
end

--- A source of a text, its kind guessed.
local function of(path, text, node) return { path = path, facts = assert(kinds.read(text)), node = node } end

--- A source of facts as a reader would give them.
local function facts(path, kind, nodes, more)
  local all <const> = { kind = kind, nodes = nodes, warnings = {} }
  for key, value in pairs(more or {}) do all[key] = value end
  return { path = path, facts = all }
end

local function node(name, count, gpu, more)
  local one <const> = { name = name, gpus = { { name = gpu, count = count } } }
  for key, value in pairs(more or {}) do one[key] = value end
  return one
end

local function joined(sources, options)
  local description <const>, notes <const> = join.cluster(sources, options)
  assert(description, notes)
  return description, table.concat(notes --[[@as string[] ]], "\n")
end

local function refused(sources, options, pattern)
  local description <const>, why <const> = join.cluster(sources, options)
  assert.is_nil(description)
  assert.matches(pattern, why, 1, true)
end

local ALL <const> = { bytes_per_s = { "10 GB/s" } }

describe("joining files of a cluster", function()
  it("puts together what several files say of a node", function()
    local made <const>, notes <const> = joined({ of("topo.txt", PAIRS, "a1"), of("gpus.csv", csv(4, "NVIDIA A30", 24258), "a1"),
      of("v.csv", csv(2, "Tesla T4", 15360), "t[1-2]") }, ALL)
    assert.same({ "a1", "t1", "t2" }, { made.nodes[1].name, made.nodes[2].name, made.nodes[3].name })
    assert.same({ gpu = "a30", gpus = 4, memory_bytes = 24258 << 20, name = "a1", source = "gpus.csv, topo.txt", intra_latency_s = 2e-5,
      intra_bytes_per_s = { ["2"] = 100e9, ["3"] = 0.6 * 31.5e9 } }, made.nodes[1]) -- NV4: 4 x 25 GB/s; SYS: 0.6 of PCIe
    assert.same({ default = { bytes_per_s = 10e9, latency_s = 5e-5, source = "--bytes-per-s" } }, made.network)
    assert.equal("NVIDIA A30 datasheet; type by gpus.csv", made.gpus.a30.source)
    assert.matches("nodes t1, t2: no file says how its GPUs are linked: PCIe is taken", notes, 1, true)
    assert.same(made, cluster.describe(made))
  end)

  it("knows a node by its short and its full name", function()
    local made <const> = joined({ facts("slurm.txt", "slurm-nodes", { node("a1", 4, "l40s"), node("b1", 2, "t4") }),
      facts("hosts", "hostfile", { node("a1.lab.example", 4), node("b1.lab.example", 2) }) }, ALL)
    assert.equal(2, #made.nodes)
    assert.equal("a1", made.nodes[1].name)
    refused({ facts("x", "slurm-nodes", { node("a1", 4, "l40s") }),
      facts("y", "hostfile", { node("a1.one.example", 4), node("a1.two.example", 4) }) }, ALL,
      "node 'a1' may be a1.one.example or a1.two.example")
    assert.equal(2, #joined({ facts("y", "hostfile", { node("10.0.0.1", 4, "t4"), node("10.0.0.2", 4, "t4") }) }, ALL).nodes)
  end)

  it("tells both figures where files contradict each other, and takes the hardware's", function()
    local made <const>, notes <const> = joined({ facts("slurm.txt", "slurm-nodes", { node("a1", 8, "v100") }),
      of("gpus.csv", csv(4, "NVIDIA A30", 24576), "a1") })
    assert.same({ "a30", 4 }, { made.nodes[1].gpu, made.nodes[1].gpus })
    assert.matches("node a1: 4 GPUs in gpus.csv, 8 in slurm.txt; 4 are taken", notes, 1, true)
    assert.matches("node a1: 4 x NVIDIA A30 in gpus.csv, 8 x v100 in slurm.txt", notes, 1, true)
    local _, quiet <const> = joined { facts("slurm.txt", "slurm-nodes", { node("a1", 4, "a30") }),
      of("gpus.csv", csv(4, "NVIDIA A30", 24576), "a1"), of("topo.txt", PAIRS, "a1") }
    assert.equal("", quiet)
  end)

  it("warns of memory that is not the type's, and takes the driver's", function()
    local made <const>, notes <const> = joined { of("g.csv", csv(1, "NVIDIA A100-SXM4-40GB", 81920)) }
    assert.equal(81920 << 20, made.nodes[1].memory_bytes)
    assert.matches("80.0 GiB by the driver, 40.0 GiB in the catalogue", notes, 1, true)
  end)

  it("makes a list of the kinds in a node of two", function()
    local text <const> = "index, name, memory.total [MiB]\n0, NVIDIA GeForce RTX 3090, 24576 MiB\n1, NVIDIA A30, 24576 MiB\n"
    local made <const> = joined { of("g.csv", text) }
    assert.same({ { gpu = "rtx3090", count = 1, memory_bytes = 24576 << 20 }, { gpu = "a30", count = 1, memory_bytes = 24576 << 20 } },
      { made.nodes[1].gpus[1], made.nodes[1].gpus[2] })
  end)

  it("leaves out and names nodes by their state, unless told to plan with them", function()
    local source <const> = facts("s", "slurm-nodes", { node("a1", 4, "t4"), node("a2", 4, "t4", { left_out = "state DRAIN" }),
      { name = "c1", gpus = {}, left_out = "no GPU" } })
    local made <const>, notes <const> = joined({ source }, ALL)
    assert.equal(1, #made.nodes)
    assert.matches("node a2: left out: state DRAIN\nnode c1: left out: no GPU", notes, 1, true)
    assert.equal(2, #joined({ source }, { bytes_per_s = ALL.bytes_per_s, keep = { "a2", "c1" } }).nodes)
    local _, few <const> = joined({ source }, { only = { "a1" } })
    assert.is_nil(few:find "left out")
    refused({ source }, { only = { "a1", "a9" } }, "--only: no file names a node 'a9'")
    refused({ facts("s", "slurm-nodes", { node("a2", 4, "t4", { left_out = "state DOWN" }) }) }, ALL, "a2: left out: state DOWN")
  end)

  it("asks of which node a file is, and for the type, the rate and the links that no file tells", function()
    refused({ facts("slurm.txt", "slurm-nodes", { node("a1", 4, "t4") }), of("topo.txt", PAIRS) }, ALL, "topo.txt: of which node is it?")
    refused({ of("1.txt", PAIRS), of("2.txt", PAIRS) }, ALL, "1.txt and 2.txt: two of one kind, of which nodes?")
    refused({ { path = "s", node = "x", facts = { kind = "sinfo", warnings = {}, nodes = { node("a1", 4, "t4") } } } }, ALL,
      "s: names its nodes itself (a1)")
    refused({ facts("s", "slurm-nodes", { node("a1", 4, "a100"), node("a2", 4, "a100"), node("b", 1, "zeta") }) }, ALL,
      "GPU type 'a100' of a1, a2: it may be one of a100-sxm4-40, a100-sxm4-80, a100-pcie-40, a100-pcie-80, "
      .. "expected --gpu-type 'a100=a100-sxm4-40'; GPU type 'zeta' of b")
    refused({ facts("h", "hostfile", { node("a1", 4) }) }, ALL, "GPU type of a1: no file names the type, expected --gpu-type '*=KEY'")
    refused({ facts("s", "sinfo", { node("a1", 4, "t4"), node("a2", 4, "t4") }) }, {}, "no rate between a1 and a2, expected --bytes-per-s")
    refused({ of("topo.txt", (PAIRS:gsub("NV4", "PIX")), "a1"), of("g.csv", csv(4, "NVIDIA A100-SXM4-80GB", 81920), "a1") }, {},
      "topo.txt: node a1: no NVLink between GPUs of type a100-sxm4-80")
  end)

  it("refuses names of nodes that no file has, and warns of labels", function()
    local source <const> = facts("s", "sinfo", { node("a1", 4, "t4"), node("a2.lab", 4, "t4") })
    refused({ source }, { bytes_per_s = { "leef=1e9" } }, "--bytes-per-s: no file names a node 'leef'; other places are inside, leaf")
    refused({ source }, { bytes_per_s = { "a1,a3=1e9" } }, "--bytes-per-s: no file names a node 'a3' (did you mean 'a1'?)")
    refused({ source }, { bytes_per_s = { "1e9" }, keep = { "b1" } }, "--include: no file names a node 'b1'")
    local _, notes <const> = joined({ source }, { bytes_per_s = { "1e9" }, gpu_types = { v100 = "t4" } })
    assert.matches("--gpu-type: no file has GPUs or a node called 'v100'", notes, 1, true)
    refused({ source }, { own = { mine = { fp16_flops = "fast" } } }, "--gpus: gpus.mine: fp16_flops: got 'fast'")
  end)

  it("takes types by label, by node and for all without one, and the user's own", function()
    local source <const> = facts("h", "hostfile", { node("a1", 4), node("b1", 4, "v100"), node("c1", 4) })
    local made <const> = joined({ source }, { bytes_per_s = ALL.bytes_per_s, own = { mine = { fp16_flops = 1e14,
      memory_bytes = "32 GiB", memory_bytes_per_s = "900 GB/s", pcie_bytes_per_s = "20 GB/s" } },
      gpu_types = { ["*"] = "t4", v100 = "v100-pcie-16", c1 = "mine" } })
    assert.same({ "t4", "v100-pcie-16", "mine" }, { made.nodes[1].gpu, made.nodes[2].gpu, made.nodes[3].gpu })
    assert.equal(32 << 30, made.gpus.mine.memory_bytes)
    local linked <const> = joined({ of("topo.txt", PAIRS, "c1") }, { gpu_types = { ["*"] = "mine" },
      own = { mine = { fp16_flops = 1e14, memory_bytes = "32 GiB", memory_bytes_per_s = 9e11, pcie_bytes_per_s = "20 GB/s" } } })
    assert.same({ ["2"] = 100e9, ["3"] = 12e9 }, linked.nodes[1].intra_bytes_per_s)
  end)
end)

describe("rates between nodes", function()
  local function cards(...)
    local nics <const> = {}
    for i, one in ipairs { ... } do
      nics[i] = { name = "mlx5_" .. i - 1, bytes_per_s = one[1], transport = one[2], active = one[3] ~= "down",
        affinity = one[3] == "far" and { "SYS", "SYS" } or nil }
    end
    return { nics = nics }
  end
  local function network(nodes, options, more)
    local made <const>, notes <const> = joined({ facts("s", "sinfo", nodes, more) }, options)
    return made.network, notes
  end
  local ib <const>, eth <const> = "infiniband", "ethernet"

  it("come from the cards that both ends have, by flows, the slower end", function()
    local found <const> = network { node("a1", 4, "t4", cards({ 25e9, ib }, { 25e9, ib }, { 12.5e9, ib })),
      node("a2", 4, "t4", cards({ 25e9, ib }, { 25e9, ib }, { 12.5e9, ib })), node("b1", 8, "t4", cards { 12.5e9, ib }) }
    -- toward b1, of two pairs: its one card; between a1 and a2: one card a flow, three cards in all
    assert.same({ bytes_per_s = 12.5e9, latency_s = 5e-5, source = "network cards, nominal" }, found.default)
    assert.same({ "a1", "a2" }, { found.links[1].between[1], found.links[1].between[2] })
    assert.same({ ["1"] = 25e9, ["2"] = 50e9, ["4"] = 62.5e9 }, found.links[1].bytes_per_s)
    assert.equal(1, #found.links)
  end)
  it("keep InfiniBand and Ethernet apart, and count no card that is down or near no GPU", function()
    local mixed <const> = cards({ 25e9, ib }, { 3e9, eth })
    local found <const>, notes <const> = network { node("a1", 2, "t4", mixed), node("a3", 2, "t4", mixed),
      node("a2", 2, "t4", cards({ 25e9, ib }, { 25e9, ib, "down" }, { 25e9, ib, "far" })) }
    assert.same({ default = { bytes_per_s = 25e9, latency_s = 5e-5, source = "network cards, nominal" } }, found)
    assert.matches("nodes a1, a3: InfiniBand (25.0 GB/s) and Ethernet (3.00 GB/s) are other transports", notes, 1, true)
    assert.matches("25.0 GB/s: by network cards, nominal; training reaches less: give nccl-tests, or plan with --set", notes, 1, true)
    assert.matches("node a2: mlx5_2 not counted, near no GPU\nnode a2: mlx5_1 not counted, not active", notes, 1, true)
    local toward <const> = network { node("a1", 2, "t4", mixed), node("e1", 2, "t4", cards { 12e9, eth }) }
    assert.equal(3e9, toward.default.bytes_per_s)
    refused({ facts("s", "sinfo", { node("a2", 2, "t4", cards { 25e9, ib }), node("e1", 2, "t4", cards { 12e9, eth }) }) }, {},
      "no rate between a2 (infiniband) and e1 (ethernet)")
  end)
  it("follow the topology where rates are given for it", function()
    local switches <const> = { kind = "tree", leaves = { { switch = "l1", nodes = { "a1.lab", "a2" } }, { switch = "l2", nodes = { "a3" } },
      { switch = "l3", nodes = { "a4" } } }, parents = { l1 = "s1", l2 = "s1", l3 = "s2" } }
    local nodes <const> = { node("a1", 2, "t4"), node("a2", 2, "t4"), node("a3", 2, "t4"), node("a4", 2, "t4") }
    local told <const> = { "1 GB/s", "leaf=4 GB/s", "spine=2 GB/s", "a1,a4=3 GB/s" }
    local found <const> = network(nodes, { bytes_per_s = told }, { switches = switches })
    local rate_of <const> = {}
    for _, pair in ipairs { "a1a2", "a1a3", "a1a4", "a2a3", "a2a4", "a3a4" } do rate_of[pair] = found.default.bytes_per_s end
    for _, link in ipairs(found.links) do rate_of[link.between[1] .. link.between[2]] = link.bytes_per_s end
    assert.same({ a1a2 = 4e9, a1a3 = 2e9, a2a3 = 2e9, a1a4 = 3e9, a2a4 = 1e9, a3a4 = 1e9 }, rate_of)
    local _, notes <const> = network(nodes, ALL, { switches = switches })
    assert.matches("the topology tells no rates, and changes none without --bytes-per-s leaf=RATE", notes, 1, true)
  end)
  it("are those of NVLink inside its domain", function()
    local function tray(name, domain) return node(name, 4, "NVIDIA GB200", { nvlink_domain = domain }) end
    local found <const> = network({ tray("t1", "d.1"), tray("t2", "d.1"), tray("t3", "d.2"), tray("t4", "d.2") }, ALL)
    assert.equal(10e9, found.default.bytes_per_s) -- four pairs of six
    assert.equal(2, #found.links)
    assert.same({ ["1"] = 900e9, ["2"] = 1800e9, ["4"] = 3600e9 }, found.links[1].bytes_per_s)
    local blocks <const> = { kind = "block", leaves = { { switch = "b1", nodes = { "t1", "t2", "h1" } } }, parents = {} }
    local mixed <const> = network({ tray "t1", tray "t2", node("h1", 4, "NVIDIA H200") }, ALL, { switches = blocks })
    assert.equal(10e9, mixed.default.bytes_per_s)
    assert.same({ "t1", "t2" }, { mixed.links[1].between[1], mixed.links[1].between[2] })
  end)
  it("are measured ones where nccl-tests ran, never above what cards carry", function()
    local function run(more)
      return facts("nccl.txt", "nccl-tests", { { name = "a1", gpus = {} }, { name = "a2", gpus = {} } }, { measured = more })
    end
    local nodes <const> = { node("a1", 4, "t4", cards { 12e9, ib }), node("a2", 4, "t4", cards { 12e9, ib }) }
    local made = joined { facts("s", "sinfo", nodes), run { collective = "all_reduce", ranks = 8, nodes = 2, busbw_bytes_per_s = 9e9 } }
    assert.same({ ["1"] = 9e9 , ["4"] = 9e9 }, made.network.default.bytes_per_s)
    made = joined { facts("s", "sinfo", nodes), run { collective = "all_reduce", ranks = 8, nodes = 2, busbw_bytes_per_s = 40e9 } }
    assert.same({ ["1"] = 12e9, ["4"] = 12e9 }, made.network.default.bytes_per_s)
    made = joined { facts("s", "sinfo", nodes), run { collective = "sendrecv", ranks = 2, nodes = 2, busbw_bytes_per_s = 5e9 } }
    assert.equal(5e9, made.network.default.bytes_per_s)
  end)
  it("within a node are measured ones at the size that ran", function()
    local source <const> = facts("n.txt", "nccl-tests", { node("a1", 4, "Tesla T4") },
      { measured = { collective = "all_reduce", ranks = 4, nodes = 1, busbw_bytes_per_s = 6e9 } })
    assert.same(6e9, joined({ source }).nodes[1].intra_bytes_per_s)
    local _, notes <const> = joined({ facts("s", "sinfo", { node("a1", 4, "t4"), node("a2", 4, "t4") }),
      facts("n.txt", "nccl-tests", {}, { measured = { collective = "all_reduce", ranks = 4, busbw_bytes_per_s = 6e9 } }) }, ALL)
    assert.matches("n.txt: not used: it does not say whether it ran within a node", notes, 1, true)
    refused({ facts("s", "sinfo", { node("a1", 4, "t4"), node("a2", 4, "t4") }),
      facts("n.txt", "nccl-tests", {}, { measured = { collective = "all_reduce", ranks = 4, busbw_bytes_per_s = 6e9 } }) }, {},
      "no rate between a1 and a2, expected --bytes-per-s '25 GB/s' (or a link's name, ib-hdr), ibstat of both nodes, or nccl-tests "
      .. "between them; n.txt: not used")
  end)
  it("of a run on some GPUs of the nodes leave their number alone", function()
    local made <const> = joined { facts("h", "hostfile", { node("a1", 8), node("a2", 8) }),
      facts("n.txt", "nccl-tests", { node("a1", 1, "NVIDIA A30"), node("a2", 1, "NVIDIA A30") },
        { measured = { collective = "all_gather", ranks = 2, nodes = 2, busbw_bytes_per_s = 24e9 } }) }
    assert.same({ "a30", 8 }, { made.nodes[1].gpu, made.nodes[1].gpus })
    assert.equal(24e9, made.network.default.bytes_per_s)
  end)
end)

describe("links within a node without a matrix", function()
  local function intra(nvlink, name)
    return joined({ facts("l", "nvidia-smi-nvlink", { node(nil, 8, name, { nvlink_bytes_per_s = nvlink }) }) }).nodes[1].intra_bytes_per_s
  end
  it("are the board's, at most what the driver says is up", function()
    assert.equal(450e9, intra(nil, "NVIDIA H100 80GB HBM3"))
    assert.equal(450e9, intra(18 * 26.562e9, "NVIDIA H100 80GB HBM3"))
    assert.equal(250e9, intra({ 300e9, 250e9 }, "NVIDIA A100-SXM4-80GB"))
    assert.equal(31.5e9, intra({ 300e9, 0 }, "NVIDIA A100-SXM4-80GB"))
    assert.equal(31.5e9, intra(100e9, "NVIDIA A30")) -- a bridge is between two
  end)
end)
