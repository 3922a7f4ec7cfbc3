--- What practitioners reported, each case answered as it asks; the numbers are those of the list of complaints.
local core <const> = require "tangram.core"
local islands <const> = require "tangram.islands"
local join <const> = require "tangram.input.join"
local kinds <const> = require "tangram.input.kinds"
local support <const> = require "tests.spec.support"
local model <const> = require "tangram.model"
local output <const> = require "tangram.output"
local plans <const> = require "tests.spec.fixtures.plans"

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

  it("C42: NUMA ids are labels, their number says nothing", function()
    local function facts_of(first, second)
      return assert(kinds.read(("\tGPU0\tGPU1\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\n"
        .. "GPU0\t X \tNV18\t0-71\t%s\nGPU1\tNV18\t X \t72-143\t%s\n"):format(first, second)))
    end
    assert.same(facts_of("0\t\tN/A", "0\t\tN/A"), facts_of("0,4-11\t\t4", "1,12-19\t\t12"))
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

  it("C60: the plan keeps its groups within the pairs, where NVLink between all would take all four", function()
    local folder <const> = support.folder()
    local config <const> = support.write(folder .. "/model.json", '{"model_type":"llama","hidden_size":4096,"num_hidden_layers":20,'
      .. '"num_attention_heads":32,"num_key_value_heads":8,"intermediate_size":14336,"vocab_size":32000}')
    local function stages_of(across)
      local topo <const> = ("GPU0 GPU1 GPU2 GPU3\nGPU0 X NV12 A A\nGPU1 NV12 X A A\nGPU2 A A X NV10\nGPU3 A A NV10 X\n"):gsub("A", across)
      local made <const> = assert(joined { { "topo.txt", topo, "r1" }, { "g.csv", csv(4, "NVIDIA A100-SXM4-40GB", 40960), "r1" } })
      local path <const> = support.write(folder .. "/cluster.json", require "tangram.cluster".to_json(made))
      local status <const>, out <const> = support.run(("tangram plan --model %s --cluster %s --global-batch 4 --seq-len 4096 --json -")
        :format(config, path))
      assert.equal(0, status)
      local groups <const> = {}
      for i, stage in ipairs(core.json_decode(out).stages) do groups[i] = stage.gpus[1].indices end
      return groups
    end
    assert.same({ { 0, 1 }, { 2, 3 } }, stages_of "NODE")
    assert.same({ { 0, 1, 2, 3 } }, stages_of "NV10")
    support.remove(folder)
  end)
end)

describe("models and runtimes", function()
  --- The text of a finding of an export, and the files.
  local function export(plan, name, code, options)
    local result <const>, files <const> = output.render(plan, name, options), {}
    for _, file in ipairs(result.files or {}) do files[file.name] = file.text end
    for _, finding in ipairs(result.findings) do
      if finding.code == code then return finding.text, files, finding.fatal end
    end
    return nil, files
  end

  it("C08: a given partition reaches DeepSpeed as a PipelineModule, said to be code", function()
    local _, files <const> = export(plans.three_stages(), "deepspeed")
    assert.matches("class TangramPipe(PipelineModule)", files["tangram_pipe.py"], 1, true)
    assert.matches("This is code, not configuration", files["tangram_pipe.py"], 1, true)
    assert.matches("`tangram_pipe.py` is code", files["README.md"], 1, true)
  end)

  it("C12: a vocabulary of 250,000 weighs as much as it is, and its stage gets fewer layers", function()
    local bloom <const> = model.read '{"model_type":"bloom","n_embed":1024,"n_layer":24,"num_attention_heads":16,"vocab_size":250880}'
    local total <const> = core.model_parameters(bloom)
    assert.near(0.46, 250880 * 1024 / total, 0.005)
    local atoms <const> = core.atoms(bloom, { seq_len = 1024 })
    assert.equal(2.0 * 1024 * 250880 * 1024, atoms[#atoms].forward_flops or atoms[#atoms].flops)
    local plan <const> = assert(require("tangram.planner").plan {
      model = bloom, training = { global_batch = 16, seq_len = 1024, microbatches = { min = 16, max = 16 } }, parallelizer = "exact",
      cluster = { nodes = { { name = "t", count = 2, gpu = "t4", gpus = 1 } }, network = { default = { bytes_per_s = 1e10 } } },
    })
    -- the head is as dear as 19 layers, so that of 24 layers few are left for its stage
    assert.equal(2, #plan.stages)
    assert.is_true(plan.stages[2].layers < plan.stages[1].layers / 2)
    assert.is_true(plan.stages[2].memory.weights_bytes > 2 * 250880 * 1024)
  end)

  it("C16: tp is held to what the key-value heads allow, and the legal list is printed", function()
    local ten <const> = plans.model { heads = 40, kv_heads = 10, hidden = 5120 }
    local plan <const> = plans.three_stages { model = ten, training = { precision = "fp32" } }
    local text <const>, _, fatal <const> = export(plan, "torchtitan", "H2")
    assert.is_true(fatal)
    assert.matches("stage 1 has tp 4, but the model has 10 key%-value heads, .*legal tp: 1, 2, 5, 10$", text)
    local strategies <const>, seen <const> = require "tangram.strategies", {}
    for _, one in ipairs(strategies.list(8, false, { gpus_per_node = 8 }, { model = ten, samples = 8, training = { seq_len = 4096 } },
      require("tangram.schema").check({}, strategies.options, "options"))) do
      seen[one.tp] = true
    end
    assert.same({ true, true }, seen) -- tp 1 and 2; 4 and 8 neither divide 10 nor are multiples of it
  end)

  it("C26: DeepSpeed gets mixed GPUs only with the warning that it balances nothing", function()
    local text <const>, _, fatal <const> = export(plans.three_stages(), "deepspeed", "W2")
    assert.is_false(fatal)
    assert.matches("stage 1 is on a100-pcie-80, stage 2 on v100-sxm2-32: DeepSpeed is made for equal GPUs", text, 1, true)
  end)

  it("C34: the oldest island limits precision and attention", function()
    local training <const> = require "tangram.training"
    local gpus <const> = { { name = "a100-pcie-80", bf16_flops = 3e14, fp16_flops = 3e14 }, { name = "t4", fp16_flops = 6e13 } }
    local auto <const>, note <const> = training.resolve_precision({ precision = "auto" }, gpus)
    assert.same({ "fp16", "precision is fp16 with loss scaling, as t4 can't do bf16" }, { auto, note })
    local none <const>, why <const> = training.resolve_precision({ precision = "bf16" }, gpus)
    assert.is_nil(none)
    assert.matches("got 'bf16', which t4 can't; give another precision or leave those nodes out", why, 1, true)
    local bf16 <const> = plans.three_stages { training = { precision = "bf16" } }
    for _, name in ipairs { "galvatron", "deepspeed", "torchtitan", "primus", "megatron", "flagscale" } do
      assert.matches("bf16 is planned, but v100-sxm2-32 (stage 2) can't do bf16", export(bf16, name, "D1"), 1, true)
    end
    local _, files <const> = export(plans.three_stages(), "galvatron")
    assert.matches("use_flash_attn: false", files["train.yaml"], 1, true)
    assert.matches("mixed_precision: fp16", files["train.yaml"], 1, true)
  end)

  it("C46: expert parallelism that does not divide the experts is refused with the degrees that do", function()
    local four <const> = { 0, 1, 2, 3 }
    local plan <const> = plans.make {
      model = plans.model { experts = 6, experts_per_token = 2, expert_ffn = 1024 }, nodes = { { "v1", "v100-sxm2-32", 8 } },
      islands = { { "v", { "v1" } } }, global_batch = 16, microbatches = 4,
      stages = { { island = "v", gpus = { { "v1", four } }, layers = 24, strategy = { dp = 4, ep = 4 } } },
    }
    for _, name in ipairs { "deepspeed", "galvatron", "megatron", "torchtitan" } do
      local text <const>, _, fatal <const> = export(plan, name, "E2")
      assert.is_true(fatal)
      assert.matches("stage 1 has ep 4, but 6 experts are not divisible by it; legal ep: 1, 2, 3, 6", text, 1, true)
    end
  end)

  it("C54: DeepSpeed gets no stage without a transformer layer", function()
    local four <const> = { 0, 1, 2, 3 }
    local plan <const> = plans.three_stages { stages = {
      { island = "v", gpus = { { "v1", four } }, layers = 0, strategy = { tp = 4, sp = true } },
      { island = "v", gpus = { { "v1", { 4, 5, 6, 7 } } }, layers = 24, strategy = { tp = 4, sp = true } } } }
    local text <const>, _, fatal <const> = export(plan, "deepspeed", "L2")
    assert.is_true(fatal)
    assert.matches("stage 1 holds no transformer layer, and deepspeed needs at least one in each", text, 1, true)
  end)

  it("C58: Primus gets a plain list of layers by stage", function()
    local _, files <const> = export(plans.three_stages(), "primus")
    assert.matches("decoder_pipeline_manual_split_list: [12, 7, 5]", files["experiment.yaml"], 1, true)
  end)
end)
