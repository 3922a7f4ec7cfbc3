--- What people reported of running plans, each answered as they ask: the cases that exports answer.
local checks <const> = require "tangram.output.checks"
local launches <const> = require "tangram.output.launch"
local layout <const> = require "tests.oracle.layout"
local output <const> = require "tangram.output"
local plans <const> = require "tests.spec.fixtures.plans"

local function rendered(plan, name, options)
  local result <const>, files <const> = output.render(plan, name, options), {}
  for _, file in ipairs(result.files or {}) do files[file.name] = file.text end
  return files, result
end

local function finding(result, code)
  for _, one in ipairs(result.findings) do
    if one.code == code then return one end
  end
end

--- Nodes of four A100 with one stage each, of so many layers.
local function pipeline(layers, changes)
  local total, spec <const> = 0, { nodes = {}, islands = { { "a", {} } }, stages = {}, global_batch = 64, microbatches = 32 }
  for s, count in ipairs(layers) do
    local name <const> = ("a%d"):format(s)
    spec.nodes[s], spec.islands[1][2][s] = { name, "a100-pcie-80", 4 }, name
    spec.stages[s] = { island = "a", gpus = { { name, { 0, 1, 2, 3 } } }, layers = count, strategy = { tp = 4, sp = true } }
    total = total + count
  end
  spec.model = plans.model { layers = total, vocab = 50257 }
  for name, value in pairs(changes or {}) do spec[name] = value end
  return plans.make(spec)
end

describe("complaints that exports answer", function()
  it("C02: 80 layers over 16 stages are 80 layers, in no interleaved schedule", function()
    local layers <const> = {}
    for s = 1, 16 do layers[s] = s <= 8 and 6 or 4 end
    local files <const> = rendered(pipeline(layers), "megatron")
    local text <const> = files["node.sh"]:match "%-%-pipeline%-model%-parallel%-layout '([^']*)'"
    local read <const> = assert(layout.parse(text, 16, 80))
    assert.equal(1, read.vpp)
    assert.is_nil(files["node.sh"]:find("virtual", 1, true))
  end)

  it("C04: 46 layers over 4 stages: the split and the flag are told before the launch", function()
    local files <const> = rendered(pipeline { 12, 12, 11, 11 }, "megatron")
    assert.matches("The stages' layers are `Et%*12|t%*12|t%*11|t%*11L`", files["README.md"])
    assert.matches("%-%-pipeline%-model%-parallel%-layout 'Et%*12|t%*12|t%*11|t%*11L'", files["node.sh"])
    for _, range in ipairs { "embedding, 0–11", "12–23", "24–34", "35–45, head" } do
      assert.is_truthy(files["README.md"]:find(range, 1, true), range)
    end
  end)

  it("C06: a stage of nothing is refused, one of the embedding or the head alone is warned of", function()
    local launch <const> = launches.of(pipeline { 12, 12, 12 })
    launch.stages[1].layers, launch.stages[2].layers = 24, 0
    local empty <const> = finding({ findings = output.find("megatron").check(launch, { version = "2026" }) }, "L2")
    assert.is_true(empty.fatal)
    assert.matches("stage 2 holds no transformer layer", empty.text)
    local files <const>, result <const> = rendered(pipeline { 0, 12, 12, 0 }, "megatron")
    local alone <const> = finding(result, "L2")
    assert.same({ false, "stage 1 holds only the embedding" }, { alone.fatal, alone.text })
    assert.matches("'E|t%*12|t%*12|L'", files["node.sh"])
    assert.is_true(finding(select(2, rendered(pipeline { 0, 12, 12, 0 }, "flagscale")), "L2").fatal)
  end)

  it("C18: the padded vocabulary of each end is told, and one multiple serves unlike ends", function()
    local files <const> = rendered(pipeline { 12, 12 }, "megatron")
    assert.matches("Vocabulary 50257, padded to 50688 at tp 4 of stage 1 and to 50688 at tp 4 of stage 2 %(a multiple of 128 times tp%)",
      files["README.md"])
    local unlike <const> = pipeline({ 12, 12 })
    unlike.stages[2].strategy.tp, unlike.stages[2].strategy.dp = 2, 2
    local words <const> = rendered(unlike, "flagscale")["README.md"]
    local front <const>, rear <const> = words:match "padded to (%d+) at tp 4 of stage 1 and to (%d+) at tp 2 of stage 2"
    assert.equal(front, rear)
    assert.equal(0, tonumber(front) % (128 * 4))
  end)

  it("C28: the world size that the plan needs and the GPUs left idle are told", function()
    local _, result <const> = rendered(plans.three_stages { stages = {
      { island = "a", gpus = { { "a1", { 0, 1, 2, 3 } } }, layers = 12, strategy = { tp = 4, sp = true } },
      { island = "v", gpus = { { "v1", { 0, 1, 2, 3 } } }, layers = 12, strategy = { tp = 4, sp = true } } } }, "megatron")
    assert.equal("the plan runs 8 processes; idle GPUs: 4 of v1 (4, 5, 6, 7)", finding(result, "I1").text)
    assert.matches("8 processes on 2 nodes.*%- idle: GPUs 4, 5, 6, 7 of v1\n%- left out: t", result.files[#result.files].text)
  end)

  it("C32: FlagScale's checkpoints are of the format that unlike tp can save", function()
    assert.matches("checkpoint:\n    ckpt_format: torch\n", rendered(plans.three_stages(), "flagscale")["train/plan.yaml"])
  end)

  it("C34: the oldest GPU sets the precision and the kernels", function()
    local bf16 <const> = plans.three_stages { training = { precision = "bf16" } }
    for _, name in ipairs { "megatron", "flagscale" } do
      local _, result <const> = rendered(bf16, name)
      assert.matches("v100%-sxm2%-32 %(stage 2%) can't do bf16; plan with precision fp16 or leave its nodes out",
        finding(result, "D1").text)
    end
    local files <const>, result <const> = rendered(plans.three_stages { training = { attention = "auto" } }, "megatron")
    assert.matches("%-%-transformer%-impl local\n  %-%-attention%-backend unfused", files["node.sh"])
    assert.matches("for its true memory and time plan with %-%-set training.attention=unfused", finding(result, "D2").text)
  end)

  it("C34: a search for such a runtime takes the one attention that all GPUs have", function()
    local function planned(target, exclude)
      return require("tangram").plan {
        model = { family = "gpt2", layers = 6, hidden = 1024, heads = 16, vocab = 32000, positions = 1024 },
        cluster = { nodes = { { name = "a1", gpu = "a100-pcie-80", gpus = 2, intra_bytes_per_s = 4e10 },
          { name = "v1", gpu = "v100-sxm2-32", gpus = 2, intra_bytes_per_s = 4e10 } }, network = { default = { bytes_per_s = 3e9 } } },
        training = { global_batch = 8, seq_len = 1024, microbatches = { 8, 8 } }, parallelizer = "uniform", target = target,
        exclude = exclude,
      }
    end
    local plan <const> = planned("megatron")
    assert.equal("unfused", plan.training.attention)
    assert.matches("attention is unfused on all GPUs, as v100%-sxm2%-32 has no fused kernels and megatron takes one implementation",
      table.concat(plan.warnings, "\n"))
    local files <const>, result <const> = rendered(plan, "megatron")
    assert.is_truthy(files["node.sh"])
    assert.is_nil(finding(result, "D2"))
    assert.equal("auto", planned().training.attention)
    assert.equal("auto", planned("megatron", { "v1" }).training.attention)
  end)

  it("C36, C38: unlike network cards are warned of, and named to NCCL on each node", function()
    local function with(a, b)
      return plans.three_stages { nodes = { { "a1", "a100-pcie-80", 4, a }, { "v1", "v100-sxm2-32", 8, b } },
        islands = { { "a", { "a1" } }, { "v", { "v1" } } } }
    end
    local files <const>, result <const> = rendered(with({ "mlx5_0" }, { "mlx5_0", "mlx5_2" }), "megatron")
    assert.equal("node a1 has the NICs 1 (mlx5_0), node v1 2 (mlx5_0, mlx5_2): jobs over unlike ones have hung; NCCL_IB_HCA is set on"
      .. " each node", finding(result, "N2").text)
    assert.matches("\n  0%) processes=4; export NCCL_IB_HCA==mlx5_0 ;;", files["node.sh"])
    assert.matches("\n  1%) processes=8; export NCCL_IB_HCA==mlx5_0,mlx5_2 ;;", files["node.sh"])
    assert.matches('node_specific:\n      a1:\n        NCCL_IB_HCA: "=mlx5_0"\n',
      rendered(with({ "mlx5_0" }, { "mlx5_0", "mlx5_2" }), "flagscale")["config.yaml"])
    local _, alike <const> = rendered(with({ "mlx5_0" }, { "mlx5_0" }), "megatron")
    assert.is_nil(finding(alike, "N2"))
    local _, unknown <const> = rendered(with({ "mlx5_0" }), "megatron")
    assert.is_nil(finding(unknown, "N2"))
    local _, mixed <const> = rendered(with({ "mlx5_0" }, { "bnxt_re0" }), "megatron")
    assert.matches("NVIDIA with Broadcom is unproven: try nccl%-tests first", finding(mixed, "N2").text)
  end)

  it("C40: of the cards of a node, NCCL gets those that are up, near a GPU and of one transport", function()
    local function card(name, transport, active, class)
      return { name = name, transport = transport, active = active, bytes_per_s = 25e9, affinity = { class or "PIX", class or "PXB" } }
    end
    local function nics_of(cards)
      local description <const> = assert(require("tangram.input.join").cluster({ { path = "topo.txt", facts = {
        kind = "nvidia-smi-topo", warnings = {}, nodes = { { name = "a1", gpus = { { name = "NVIDIA A100-SXM4-80GB", count = 2 } },
          nics = cards } } } } }, {}))
      return description.nodes[1].nics
    end
    assert.same({ "mlx5_0", "mlx5_1" }, nics_of { card("mlx5_0", "infiniband"), card("mlx5_1", "infiniband"),
      card("mlx5_2", "infiniband", false), card("mlx5_3", "ethernet"), card("mlx5_4", "infiniband", true, "SYS") })
    assert.same({ "bnxt_re0" }, nics_of { card("bnxt_re0", "ethernet"), card("eth0", "ethernet") })
    assert.is_nil(nics_of { card "NIC0" }) -- a number of the matrix, not a device's name
  end)

  it("C46: ep divides the experts and the GPUs that share them", function()
    local moe <const> = plans.model { family = "qwen3_moe", experts = 6, experts_per_token = 2, expert_ffn = 1024, layers = 24 }
    local plan <const> = plans.three_stages { model = moe }
    for _, stage in ipairs(plan.stages) do
      stage.strategy.ep, stage.strategy.tp, stage.strategy.dp, stage.strategy.sp = 4, 1, 4, false
    end
    plan.training.global_batch, plan.microbatches = 128, 32
    local _, result <const> = rendered(plan, "megatron")
    assert.equal("stage 1 has ep 4, but 6 experts are not divisible by it; legal ep: 1, 2, 3, 6", finding(result, "E2").text)
  end)

  it("C50: a batch that does not divide names the nearest that does", function()
    local launch <const> = launches.of(pipeline { 12, 12 })
    launch.training.global_batch = 63
    assert.equal("global batch 63 leaves 1 over microbatch 2 x dp 1 of stage 1; nearest: 62 or 64", checks.B1(launch).text)
  end)

  it("C52: Slurm gets the whole script of a heterogeneous job", function()
    local text <const> = rendered(plans.three_stages(), "slurm")["job.sbatch"]
    assert.matches("\n#SBATCH hetjob\n", text)
    local first <const>, second <const> = text:find("srun --het-group=0", 1, true), text:find("srun --het-group=1", 1, true)
    assert.is_true(first < second)
    assert.matches("%-%-het%-group=0 bash %-c './node.sh %$%(%(0 %+ SLURM_NODEID%)%)", text)
    assert.matches("%-%-het%-group=1 bash %-c './node.sh %$%(%(1 %+ SLURM_NODEID%)%)", text)
  end)
end)
