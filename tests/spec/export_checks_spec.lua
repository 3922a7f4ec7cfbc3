local checks <const> = require "tangram.output.checks"
local launches <const> = require "tangram.output.launch"
local oracle <const> = require "tests.oracle.plan_check"
local output <const> = require "tangram.output"
local plans <const> = require "tests.spec.fixtures.plans"

--- The launch of a plan that every runtime can run, after a change.
local function launch_of(change, changes)
  local launch <const> = launches.of(plans.three_stages(changes))
  if change then change(launch, launch.stages) end
  return launch
end

--- The check passes for the plan as it is, and says the words after the change.
local function says(code, words, change, changes, argument)
  local name <const> = code:match "^%w+"
  assert.is_falsy(checks[code](launch_of(nil, changes), argument or "rt"), code .. " before the change")
  local found <const> = checks[code](launch_of(change, changes), argument or "rt")
  assert.is_truthy(found, code)
  assert.equal(name, found.code)
  assert.truthy(found.text:find(words, 1, true), found.text)
  return found
end

--- Nothing was found.
local function passes(...) assert.is_falsy((...)) end

local moe <const> = { model = plans.model { family = "qwen3_moe", experts = 8, experts_per_token = 2, expert_ffn = 1024 } }

describe("the view of a plan for runtimes", function()
  it("counts layers and ranks from 0, and keeps what is left out", function()
    local launch <const> = launch_of()
    local rows <const> = {}
    for s, stage in ipairs(launch.stages) do
      rows[s] = { stage.first_layer, stage.layers, stage.ranks.first, stage.ranks.last, stage.microbatch }
    end
    assert.same({ { 0, 12, 0, 4, 2 }, { 12, 7, 4, 8, 2 }, { 19, 5, 8, 12, 2 } }, rows)
    assert.same({ 12, 32, 2 }, { launch.world, launch.microbatches, launch.samples })
    local a1 <const>, v1 <const> = table.unpack(launch.hosts)
    assert.same({ { "a1", 0, { 1 } }, { "v1", 4, { 2, 3 } } },
      { { a1.name, a1.first_rank, a1.stages }, { v1.name, v1.first_rank, v1.stages } })
    assert.same({ { name = "t", nodes = { "t1" }, reason = "with it 9.5 s at best: it is slow" } }, launch.dropped)
    assert.equal("7.0", launch.stages[2].devices[1].compute_capability)
    assert.is_nil(checks.run(launch, "rt", { checks.I1 })[1])
  end)

  it("refuses halves of layers", function()
    local plan <const> = plans.three_stages()
    plan.stages[2].layers = 7.5
    assert.error_matches(function() launches.of(plan, "p.json") end,
      "p.json: stages%[1%].layers: got 7.5, expected whole layers, as no runtime cuts inside one; plan again with granularity 'layer'")
  end)
end)

describe("checks of runtimes", function()
  it("G1, G2: equal stages, one tp and dp", function()
    says("G1", "stage 1 has 4 GPUs, stage 3 8; rt needs equal stages; plan again with --target rt", function(_, s) s[3].gpus = 8 end)
    says("G2", "stage 1 uses tp 4 x dp 1 with sequence parallelism but stage 2 tp 2 x dp 2", function(_, s) s[2].tp, s[2].dp = 2, 2 end)
    says("G2", "stage 3 tp 4 x dp 1; rt has one tp", function(_, s) s[3].sp = false end)
    says("G2", "tp 4 x dp 1 x cp 2", function(_, s) s[2].cp = 2 end)
  end)

  it("L1, L2: all layers, some in each stage", function()
    says("L1", "add up to 23, but the model has 24", function(_, s) s[3].layers = 4 end)
    says("L2", "stage 2 holds no transformer layer, and rt needs at least one in each", function(_, s) s[2].layers = 0 end)
  end)

  it("H1, H2, H3: heads and widths, with the legal degrees", function()
    says("H1", "stage 2 has tp 3, but 16 heads are not divisible by it; legal tp: 1, 2, 4, 8, 16", function(_, s) s[2].tp = 3 end)
    says("H2", "stage 1 has tp 16, but the model has 8 key-value heads, and rt needs tp to divide them; legal tp: 1, 2, 4, 8",
      function(_, s) s[1].tp = 16 end)
    local odd <const> = { model = plans.model { heads = 40, kv_heads = 10, hidden = 5120 },
      stages = { { island = "a", gpus = { { "a1", { 0, 1 } } }, layers = 24, strategy = { tp = 2 } } } }
    says("H2_copies", "10 key-value heads, of which tp is neither a divisor nor a multiple; legal tp: 1, 2, 5, 10, 20, 40",
      function(_, s) s[1].tp = 4 end, odd)
    passes(checks.H2_copies(launch_of(function(_, s) s[1].tp = 20 end, odd)))
    says("H3", "stage 1 has tp 3, but the width 8192 of MLP is not divisible by it; legal tp: 1, 2, 4", function(_, s) s[1].tp = 3 end)
    says("H3", "etp 3, but the width 1024 of an expert is not divisible by it; legal etp: 1, 2, 4", function(_, s) s[2].etp = 3 end, moe)
    -- a stage without dense layers does not mind the width of a dense MLP
    local dense <const> = { model = plans.model { family = "qwen3_moe", experts = 8, experts_per_token = 2, expert_ffn = 1024,
      ffn = 8190 } }
    passes(checks.H3(launch_of(nil, dense)))
  end)

  it("B1, B3: the batch and the bubble", function()
    says("B1", "global batch 65 leaves 1 over microbatch 2 x dp 1 of stage 1; nearest: 64 or 66",
      function(launch) launch.training.global_batch = 65 end)
    says("B1", "global batch 1 leaves 1 over microbatch 2 x dp 1 of stage 1; nearest: 2",
      function(launch) launch.training.global_batch = 1 end)
    local found <const> = says("B3", "2 microbatches for 3 stages: the pipeline is empty 50 % of the time; use at least 3",
      function(launch) launch.microbatches = 2 end)
    assert.is_false(found.fatal)
  end)

  it("R1: one recompute setting, or the nearest", function()
    local function full(layers) return { kind = "full", layers = layers } end
    local function set(...)
      local list <const> = { ... }
      return function(_, s)
        for i, one in ipairs(list) do s[i].recompute = one end
      end
    end
    local none <const>, core_only <const> = { kind = "none", layers = 0 }, { kind = "selective", layers = 0 }
    says("R1", "stage 1 recomputes nothing, stage 3 3 of 5 layers; rt has one setting for all stages, nearest: the first 3 layers of every"
      .. " stage", set(none, none, full(3)))
    says("R1", "stage 1 recomputes the attention core, stage 2 nothing; rt has one setting for all stages, nearest: the attention core in"
      .. " every stage", set(core_only, none, none))
    says("R1", "nearest: the first 7 layers of every stage", set(full(6), full(7), core_only))
    for _, case in ipairs {
      { set(full(6), full(6), full(5)), { kind = "full", layers = 6, all = false } },
      { set(full(12), full(7), full(5)), { kind = "full", layers = 12, all = true } },
      { set(core_only, core_only, core_only), { kind = "selective", layers = 0, all = false } },
    } do
      assert.same(case[2], checks.one_recompute(launch_of(case[1])))
      passes(checks.R1(launch_of(case[1]), "rt"))
    end
  end)

  it("Z1, Z2: ZeRO, where there are replicas", function()
    says("Z1", "stage 2 uses ZeRO 3, but rt has at most ZeRO 1 with a pipeline", function(_, s) s[2].dp, s[2].zero = 2, 3 end)
    says("Z2", "stage 1 uses ZeRO 1, stage 3 ZeRO 0; rt has one", function(_, s)
      s[1].dp, s[1].zero, s[3].dp = 2, 1, 2
    end)
    passes(checks.Z2(launch_of(function(_, s) s[1].dp, s[1].zero = 2, 1 end), "rt")) -- the others have no replicas
  end)

  it("C1, C2, S1: context and sequence", function()
    says("C1", "stage 3 has cp 2, but rt needs cp 1", function(_, s) s[3].cp = 2 end)
    says("C2", "sequences of 2050 tokens are not divisible by 4, which cp 1 with sequence parallelism over tp 4 of stage 1 needs; nearest:"
      .. " 2052", function(launch) launch.training.seq_len = 2050 end)
    says("C2", "not divisible by 6, which cp 3 of stage 2", function(_, s) s[2].cp, s[2].sp = 3, false end)
    says("S1", "sequences of 2050 tokens are not divisible by tp 4 of stage 1; nearest: 2052",
      function(launch) launch.training.seq_len = 2050 end)
  end)

  it("E1 to E4: experts", function()
    says("E1", "stage 1 has ep 1, stage 2 ep 4; in rt all are 1 or none is", function(_, s) s[2].ep = 4 end, moe)
    says("E2", "stage 2 has ep 3, but 8 experts are not divisible by it; legal ep: 1, 2, 4, 8", function(_, s) s[2].ep = 3 end, moe)
    says("E2", "stage 1 has 4 GPUs, which etp 1 x ep 8 don't divide; legal ep: 1, 2, 4", function(_, s) s[1].ep = 8 end, moe)
    says("E2", "but 0 experts are not divisible by it; legal ep: 1", function(_, s) s[1].ep = 2 end)
    says("E3", "stage 1 uses ep 2 x etp 1 but stage 2 ep 1 x etp 1", function(_, s) s[1].ep = 2 end, moe)
    says("E4", "stage 2 shards its experts fully (FSEP)", function(_, s) s[2].fsep = true end, moe)
    local mixed <const> = {}
    for layer = 1, 24 do mixed[layer] = layer > 12 and "moe" or "dense" end
    local dense_front <const> = { model = plans.model { family = "qwen3_moe", experts = 8, experts_per_token = 2, expert_ffn = 1024,
      layer_mlp = mixed } }
    passes(checks.E3(launch_of(function(_, s) s[2].ep, s[3].ep = 4, 4 end, dense_front), "rt")) -- the first has no experts
    assert.same({ 4, 1 }, { checks.expert_degrees(launch_of(function(_, s) s[2].ep, s[3].ep = 4, 4 end, dense_front)) })
    local found <const> = checks.E3(launch_of(function(_, s) s[2].ep, s[3].ep, s[1].gpus = 4, 4, 6 end, dense_front), "rt")
    assert.matches("stage 1 has 6 GPUs, which the ep 4 x etp 1 of stage 2 don't divide", found.text)
  end)

  it("O1, T1, T2: offload and tied ends", function()
    says("O1", "stage 1 keeps its optimizer in the host's memory", function(_, s) s[1].offload = "optimizer" end)
    local tied <const> = { model = plans.model { tied = true } }
    says("T1", "stage 1 has tp 4 and stage 3 tp 2; rt needs them equal; untie them", function(_, s) s[3].tp = 2 end, tied)
    passes(checks.T1(launch_of(function(_, s) s[3].tp = 2 end), "rt"))
    says("T2", "of dp 2 of stage 1 and dp 3 of stage 3 neither divides the other", function(_, s)
      s[1].dp, s[1].zero, s[3].dp, s[3].zero = 2, 1, 3, 1
    end, tied)
  end)

  it("D1, D2, V1: what GPUs can't do", function()
    says("D1", "bf16 is planned, but v100-sxm2-32 (stage 2) can't do bf16; plan with precision fp16 or leave its nodes out",
      function(launch) launch.precision = "bf16" end)
    says("D2", "fp8 is planned, but a100-pcie-80 (stage 1) can't do it", function(launch) launch.precision = "fp8" end)
    says("D2", "fused attention is planned, but v100-sxm2-32 (stage 2, compute capability 7.0) has no kernels for it",
      function(launch) launch.training.attention = "flash" end)
    local found <const> = says("D2", "stage 1 is priced with fused attention, but v100-sxm2-32 (stage 2) has none",
      function(launch) launch.training.attention = "auto" end, nil, true)
    assert.is_false(found.fatal)
    says("V1", "stage 1 is on NVIDIA, stage 2 on AMD; rt runs on one vendor's GPUs", function(_, s)
      s[2].devices = { { name = "mi300x", vendor = "AMD" } }
    end)
    says("V1", "stage 1 is on NVIDIA, stage 3 on AMD", function(_, s) s[3].devices[2] = { name = "mi300x", vendor = "AMD" } end)
  end)

  it("P2: transfers that the runtime waits for, by the oracle's simulation", function()
    local plan <const> = plans.three_stages()
    plan.stages[1].transfer_s = 0.05
    plan.time_s = oracle.simulate(plan)
    local launch <const> = launches.of(plan)
    plan.p2p = "blocking"
    local waiting_s <const> = oracle.simulate(plan)
    assert.near(waiting_s, launch.blocking_s, 1e-12 * waiting_s)
    local found <const> = checks.P2(launch, "rt")
    assert.equal(("transfers are planned as hidden behind work, but rt waits for them: %.4g s an iteration in place of %.4g s; plan with"
      .. " --p2p blocking"):format(waiting_s, launch.time_s), found.text)
    assert.is_false(found.fatal)
    assert.is_nil(launches.of(plan).blocking_s) -- it is what is planned
    passes(checks.P2(launch_of(), "rt")) -- a millisecond is nothing here
  end)

  it("N1, M1, I1: nodes, hybrids, idle GPUs", function()
    local even <const> = { stages = {
      { island = "a", gpus = { { "a1", { 0, 1, 2, 3 } } }, layers = 12, strategy = { tp = 4 } },
      { island = "v", gpus = { { "v1", { 0, 1, 2, 3 } } }, layers = 12, strategy = { tp = 4 } } } }
    passes(checks.N1(launch_of(nil, even), "rt"))
    local found <const> = checks.N1(launch_of(), "rt")
    assert.matches("node a1 runs 4 processes, node v1 8; the launcher of rt needs the same on all", found.text)
    local idle <const> = checks.I1(launch_of(nil, even))
    assert.same({ "I1", false }, { idle.code, idle.fatal })
    assert.equal("the plan runs 8 processes; idle GPUs: 4 of v1 (4, 5, 6, 7)", idle.text)
    says("M1", "layer 3 is of kind 'linear': a hybrid model takes --hybrid-layer-pattern, not a layout",
      function(launch) launch.model.layer_attention[4] = "linear" end)
  end)
end)

describe("the exporters", function()
  it("state their rules in the words that a search reads", function()
    for _, exporter in ipairs(output.list()) do
      for _, name in ipairs { "name", "summary", "versions", "options", "rules", "check", "files", "start" } do
        assert.is_truthy(exporter[name], exporter.name .. "." .. name)
      end
      for rule in pairs(exporter.rules) do assert.is_truthy(output.rules[rule], rule) end
    end
  end)
end)
