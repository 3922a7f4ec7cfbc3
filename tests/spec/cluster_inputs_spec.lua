local kinds <const> = require "tangram.input.kinds"
local support <const> = require "tests.spec.support"

local refused <const> = require("tests.spec.readings").refused

--- "hgx-01: 8 nvidia_h100" a node; "hgx-02: left out, state DOWN".
local function in_words(facts)
  local lines <const> = {}
  for i, node in ipairs(facts.nodes) do
    local words <const> = {}
    for _, run in ipairs(node.gpus) do words[#words + 1] = ("%d %s"):format(run.count, run.name or "?") end
    lines[i] = ("%s: %s%s"):format(node.name or "-", table.concat(words, " + "), node.left_out and " (" .. node.left_out .. ")" or "")
  end
  return lines
end

local function read(path, from) return kinds.read(support.read(path), from) end
local function fixture(name, from) return assert(read("tests/spec/fixtures/inputs/" .. name, from)) end

--- Nodes and GPUs that are planned with.
local function usable(facts)
  local nodes, gpus = 0, 0
  for _, node in ipairs(facts.nodes) do
    if not node.left_out then
      nodes = nodes + 1
      for _, run in ipairs(node.gpus) do gpus = gpus + run.count end
    end
  end
  return { nodes, gpus }
end

--- Reads a sample with its kind guessed, or says that it is absent.
local function sample(name, kind, check)
  it("reads " .. name .. " as its log says", function()
    local path <const> = support.shared("data/inputs/" .. name)
    if not path then return pending "shared data is absent" end
    local facts <const> = assert(read(path))
    assert.equal(kind, facts.kind)
    check(facts)
  end)
end

describe("scontrol show node", function()
  sample("slurm/003.txt", "slurm-nodes", function(facts)
    assert.same({ 3, 12 }, usable(facts))
    assert.same({ "node-a1: 4 a100", "node-b1: 4 v100", "node-b2: 4 v100", "node-c1:  (no GPU)", "node-c2:  (no GPU)" },
      in_words(facts))
  end)
  sample("slurm/005.txt", "slurm-nodes", function(facts)
    assert.same({ 4, 20 }, usable(facts))
    assert.same({ "cn9: 4 ADA6000 (state DRAIN)" }, { in_words(facts)[9] })
  end)

  it("reads records of several lines, and free text that looks like fields", function()
    assert.same({ "hgx-01: 8 nvidia_h100_80gb_hbm3", "hgx-02: 8 nvidia_h100_80gb_hbm3 (state IDLE+DRAIN)", "old-07: 2 tesla_t4",
      "mem-01:  (no GPU)" }, in_words(fixture "slurm-nodes.blocks.txt"))
  end)
  it("reads records of one line, types, shards, marks and MIG slices", function()
    local facts <const> = fixture "slurm-nodes.oneline.txt"
    assert.same({ "q1: 2 a100 + 4 v100s (state MIXED+PLANNED)", "q2: 4 l40s", "q3: 4 l40s (state DOWN*)",
      "q4:  (MIG slices only, which can't form one job)", "q5: 3 nvidia_a100_80gb_pcie" }, in_words(facts))
    assert.same({ "line 5: q5: 7 MIG slices beside its whole GPUs are left out" }, facts.warnings)
  end)
  it("refuses what is edited or cut", function()
    refused("slurm-nodes", "NodeName=a State=IDLE Gres=gpu:2\n(some more)\nNodeName=b State=IDLE\n", "line 2: got '(some more)'")
    refused("slurm-nodes", "NodeName=a State=IDLE Gres=gpu:a100:4(S:0\n", "line 1: a: Gres")
    refused("slurm-nodes", "NodeName=a State=IDLE\nNodeName=a State=IDLE\n", "line 2: node 'a' stands on line 1 too")
    refused("slurm-nodes", "hello", "scontrol show node")
    refused("slurm-nodes", "NodeName=n[1-4] CPUs=8 Gres=gpu:4 State=UNKNOWN\n", "line 1: 'n[1-4]' is a list of nodes, as in slurm.conf")
  end)
end)

describe("text that is none of the kinds", function()
  for text, pattern in pairs {
    ["PartitionName=gpu AllowGroups=ALL\n   State=UP\n"] = "'scontrol show partition', expected 'scontrol show node'",
    ["             JOBID PARTITION     NAME     USER ST\n  1 gpu a b R\n"] = "'squeue', expected sinfo",
    ["NAME  STATUS  ROLES  AGE  VERSION\na  Ready  <none>  1d  v1\n"] = "'kubectl get nodes', expected 'kubectl get nodes -o json'",
    ["| NVIDIA-SMI 550.54  Driver Version: 550.54  CUDA Version: 12.4 |\n"] = "nvidia-smi's table, expected 'nvidia-smi topo -m'",
    ['{"format":"tangram.cluster/1","nodes":[]}'] = "a cluster file already",
    ['{"model_type":"llama"}'] = "a model's config.json, expected it as --model",
    ["node1\nnode2\n"] = "may be 'cat hostfile', but that is not sure: say so by --from hostfile",
    ["Dear all, the cluster is down.\n"] = "looks like nothing known",
  } do
    it("is told what to give instead: " .. pattern:match "^[^,]+", function()
      local facts <const>, why <const> = kinds.read(text)
      assert.is_nil(facts)
      assert.matches(pattern, why, 1, true)
    end)
  end
end)

describe("states of Slurm's nodes", function()
  local unusable <const> = require "tangram.input.slurm_state"
  for _, state in ipairs { "IDLE", "MIXED", "ALLOCATED", "idle", "mix", "alloc", "COMPLETING", "comp" } do
    it(state .. " is planned with", function() assert.is_nil(unusable(state)) end)
  end
  for _, state in ipairs { "DOWN", "DRAIN", "DRAINING", "drng", "FAIL", "MAINT", "IDLE*", "idle~", "alloc#", "idle!", "idle%", "mix$",
    "idle@", "idle^", "mix-", "IDLE+CLOUD", "IDLE+CLOUD+POWERED_DOWN", "MIXED+RESERVED", "IDLE+PLANNED", "IDLE+DRAIN", "UNKNOWN", "?" } do
    it(state .. " is left out", function() assert.matches(state, unusable(state), 1, true) end)
  end
end)

describe("sinfo", function()
  sample("slurm/001.txt", "sinfo", function(facts)
    assert.same({ 10, 45 }, usable(facts))
    assert.equal(62, #facts.nodes)
    assert.matches("no STATE column", facts.warnings[1])
  end)

  it("counts a node of several partitions once", function()
    assert.same({ 6, 4 * 4 + 2 * 8 }, usable(fixture "sinfo.rows.txt"))
  end)
  it("gives types, states and memory", function()
    local facts <const> = fixture "sinfo.rows.txt"
    local words <const> = in_words(facts)
    assert.equal(47, #words)
    assert.same({ "g01: 4 a40", "g02: 4 a40", "g03: 4 a40", "g05: 4 a40", "g04: 4 a40 (state drain*)", "h1: 8 h100", "h2: 8 h100" },
      { table.unpack(words, 41) })
    assert.equal(94 << 30, facts.nodes[46].gpus[1].nominal_bytes)
  end)
  it("reads other separators, with a warning where states are missing", function()
    local facts <const> = fixture "sinfo.nostate.txt"
    assert.same({ "x01: 2 tesla_v100", "x02: 2 tesla_v100", "x03:  (no GPU)" }, in_words(facts))
    assert.matches("no STATE column", facts.warnings[1])
  end)
  it("refuses what is cut, edited or lacks the GPUs", function()
    refused("sinfo", "NODELIST GRES\na gpu:a100:4(S:0\n", "line 2: Gres")
    refused("sinfo", "NODELIST GRES\na gpu:4 and more\n", "line 2: 4 columns")
    refused("sinfo", "NODELIST GRES\na gpu:4\na gpu:8\n", "line 3: node 'a' has gpu:8 here and gpu:4 on line 2")
    refused("sinfo", "PARTITION AVAIL TIMELIMIT NODES STATE NODELIST\np up 1:00 1 idle a\n", "line 1: no column GRES")
    refused("sinfo", "NODELIST GRES\n", "no node below the heading")
  end)
end)

describe("gres.conf", function()
  it("gives the NVLinks between GPUs where Links= has them", function()
    local facts <const> = fixture "gres-conf.links.txt"
    assert.same({ "w1: 4 v100", "w2: 4 v100", "w3: 2 t4 + 1 p100" }, in_words(facts))
    assert.same({ { "X", "NV2", "NV1", "SYS" }, { "NV2", "X", "SYS", "NV1" }, { "NV1", "SYS", "X", "NV2" }, { "SYS", "NV1", "NV2", "X" } },
      facts.nodes[2].matrix)
    assert.is_nil(facts.nodes[3].matrix)
  end)
  it("is of the node it lies on where it names none", function()
    assert.same({ "-: 4 a30" }, in_words(fixture "gres-conf.here.txt"))
  end)
  it("refuses what lists no GPU", function()
    refused("gres-conf", "AutoDetect=nvml\n", "scontrol show node")
    refused("gres-conf", "Name=gpu Fle=/dev/nvidia0\n", "line 1: got 'Fle=")
    refused("gres-conf", "Name=gpu Type=a File=/dev/nvidia0 Links=-1,x\n", "line 1: Links=-1,x")
  end)
end)

describe("Slurm's topology", function()
  local function leaves(facts)
    local lines <const> = {}
    for i, leaf in ipairs(facts.switches.leaves) do
      lines[i] = ("%s < %s: %s"):format(leaf.switch, facts.switches.parents[leaf.switch] or "-", table.concat(leaf.nodes, " "))
    end
    return lines
  end

  sample("slurm-topology/001.txt", "slurm-topology", function(facts)
    assert.equal("tree", facts.switches.kind)
    assert.same({ "s0 < s4: tux0 tux1", "s1 < s4: tux2 tux3", "s2 < s5: tux4 tux5", "s3 < s5: tux6 tux7" }, leaves(facts))
    assert.same({ "s6", "s6" }, { facts.switches.parents.s4, facts.switches.parents.s5 })
  end)
  sample("slurm-topology/003.txt", "slurm-topology", function(facts)
    assert.equal(12, #facts.switches.leaves)
    assert.equal("switch.2.6", facts.switches.parents["switch.1.12"])
    assert.equal("switch.3.1", facts.switches.parents["switch.2.6"])
    assert.equal("srv6208", facts.switches.leaves[12].nodes[8])
  end)
  sample("slurm-topology/005.txt", "slurm-topology", function(facts)
    assert.equal("tree", facts.switches.kind)
    assert.same({ "s1 < sw_root: node01 node02", "s2 < sw_root: node03 node04" }, leaves(facts))
  end)

  it("is a tree, blocks, or the default one of several in YAML", function()
    local tree <const> = fixture "slurm-topology.tree.txt"
    assert.same({ "rack1 < row: n01 n02 n03 n04", "rack2 < row: n05 n06 n07 m1", "rack3 < core: k1 k2" }, leaves(tree))
    assert.matches("line 2: LinkSpeed= is not taken", tree.warnings[1])
    assert.equal("block", fixture "slurm-topology.block.txt".switches.kind)
    assert.equal("l3 < top: z1 z2", leaves(fixture "slurm-topology.yaml.txt")[3])
  end)
  it("refuses what is no tree", function()
    refused("slurm-topology", "SwitchName=a Switches=b\nSwitchName=b Switches=a\n", "below itself")
    refused("slurm-topology", "SwitchName=a Nodes=n1\nSwitchName=b Nodes=n1\n", "line 2: node 'n1' is on 'a' and 'b'")
    refused("slurm-topology", "SwitchName=a\n", "line 1: 'a' has neither")
    refused("slurm-topology", "- topology: t\n  tree: {}\n", "no list 'switches'")
    refused("slurm-topology", "- topology: t\n  tree: [\n", "not YAML")
  end)
end)

describe("hostfiles", function()
  sample("hostfile/001.txt", "hostfile", function(facts)
    assert.same({ "node-02: 8 ?", "node-03: 8 ?", "node-04: 8 ?", "node-05: 8 ?" }, in_words(facts))
  end)
  sample("hostfile/003.txt", "hostfile", function(facts) assert.same({ 3, 16 }, usable(facts)) end)

  for name, wanted in pairs {
    deepspeed = { "10.0.3.21: 4 ?", "10.0.3.22: 4 ?", "gpu-c.example.org: 2 ?" },
    flagscale = { "10.1.1.5: 8 A800", "10.1.1.6: 8 A800", "10.1.1.9: 16 BI-V150" },
    openmpi = { "ada: 2 ?", "bob: 6 ?", "cyd: 1 ?" }, mpich = { "n1: 10 ?", "n2: 4 ?" },
  } do
    it("are read as " .. name .. " writes them", function() assert.same(wanted, in_words(fixture(("hostfile.%s.txt"):format(name)))) end)
  end
  it("are lists of names, of which each line counts one slot, if told", function()
    local facts <const> = assert(kinds.read("a1\na1\nb1 # comment\n", "hostfile"))
    assert.same({ "a1: 2 ?", "b1: 1 ?" }, in_words(facts))
    assert.matches("without slots=", facts.warnings[1])
  end)
  it("refuse hosts twice, slips and other text", function()
    refused("hostfile", "a slots=4\na slots=4\n", "line 2: host 'a' stands on line 1 too")
    refused("hostfile", "a slots=4\na\n", "line 2: host 'a' stands on line 1 too")
    refused("hostfile", "a slot=4\n", "line 1: got 'a slot=4'")
    refused("hostfile", "a slots=99999\n", "line 1: 99999 slots")
    refused("hostfile", "n[1-4] slots=8\n", "line 1: a list of nodes")
    refused("hostfile", "a slots=4 max_slots=2\n", "line 1: max_slots 2")
    refused("hostfile", "# nothing\n", "no host")
  end)
end)

describe("labels of Kubernetes", function()
  sample("k8s-labels/001.txt", "kubernetes", function(facts)
    assert.same({ "-: 1 A100-SXM4-40GB" }, in_words(facts))
    assert.equal(39538 << 20, facts.nodes[1].gpus[1].memory_bytes)
  end)
  sample("k8s-labels/003.txt", "kubernetes", function(facts)
    assert.same({ "-: 8 NVIDIA-A100-SXM4-80GB" }, in_words(facts))
  end)

  it("are read from YAML, with shared GPUs, slices, and nodes that run nothing", function()
    assert.same({ "pool-a-1: 4 NVIDIA-L4", "pool-b-1:  (MIG slices only, which can't form one job)",
      "pool-c-1: 8 NVIDIA-L40S (not ready)" }, in_words(fixture "kubernetes.nodes.yaml"))
  end)
  it("are read from JSON, with labels of clouds and of AMD", function()
    local facts <const> = fixture "kubernetes.nodes.json"
    assert.same({ "ip-1: 7 NVIDIA-H100-80GB-HBM3", "ip-2: 2 nvidia-tesla-t4", "ip-3:  (no GPU)", "ip-4: 8 AMD_Instinct_MI300X_OAM",
      "ip-5: 8 p3.16xlarge" }, in_words(facts))
    assert.same({ "node 'ip-1': 7 MIG slices beside its whole GPUs are left out" }, facts.warnings)
  end)
  it("are read from the table of --show-labels", function()
    assert.same({ "kn-1: 2 NVIDIA-A30", "kn-2: 2 NVIDIA-A30 (cordoned (SchedulingDisabled))", "kn-3: 2 NVIDIA-A30 (not ready)",
      "cp-1:  (no GPU)" }, in_words(fixture "kubernetes.show-labels.txt"))
  end)
  it("do not count whole GPUs beside slices", function()
    local facts <const> = assert(kinds.read('nvidia.com/gpu.product: NVIDIA-A30\nnvidia.com/gpu.count: "4"\n'
      .. 'nvidia.com/mig-1g.6gb.count: "8"\n'))
    assert.matches("its labels do not count whole GPUs", facts.nodes[1].left_out, 1, true)
  end)
  it("keep the NVLink domain", function()
    assert.equal("5f3c.32766", fixture "kubernetes.labels.txt".nodes[1].nvlink_domain)
    assert.same({ "eu-1b" }, fixture "kubernetes.nodes.yaml".nodes[1].groups)
  end)
  it("refuse other objects and damaged text", function()
    refused("kubernetes", '{"items":[{"kind":"Pod","metadata":{"name":"a"}}]}', "item 1 is a Pod")
    refused("kubernetes", '{"items":[', "not JSON")
    refused("kubernetes", "items:\n- [", "line")
    refused("kubernetes", "items: []", "no node")
    refused("kubernetes", 'nvidia.com/gpu.count: "many"\nnvidia.com/gpu.product: T4\n', "got 'many', expected a whole number")
  end)
end)

describe("Ray", function()
  sample("ray/001.txt", "ray", function(facts)
    assert.same({ "node-a: 8 H200", "node-b: 8 A100", "node-c:  (not alive)" }, in_words(facts))
  end)

  it("is read from ray.nodes(), also where a node came back, and from ray list nodes", function()
    assert.same({ "ray-head:  (no GPU)", "ray-w1: 4 L40S", "ray-w2: 8 V100" }, in_words(fixture "ray.repr.txt"))
    assert.same({ "10.9.0.1:  (no GPU)", "10.9.0.2: 2 T4", "10.9.0.3: 2 T4 (not alive)" }, in_words(fixture "ray.list.txt"))
  end)
  it("refuses sums, fractions and other text", function()
    refused("ray", "======== Autoscaler status: 2025-01-01 ========\n 0.0/16.0 GPU\n", "'ray status' tells sums")
    refused("ray", "{'NodeManagerHostname': 'a', 'Resources': {'GPU': 0.5}}", "GPU is 0.5")
    refused("ray", "[1]", "not a dict")
  end)
end)

it("the kind of every fixture is guessed", function()
  local listing <close> = assert(io.popen "ls tests/spec/fixtures/inputs/*")
  local count = 0
  for path in listing:lines() do
    local reader <const>, why <const> = kinds.guess(support.read(path))
    assert.equal(path:match "([^/.]+)[^/]*$", reader and reader.kind or why, path)
    count = count + 1
  end
  assert.is_true(count > 20)
end)
