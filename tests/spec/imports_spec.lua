--- Measured runs in other projects' JSON. The texts are made up in the shape of the published files.
local core <const> = require "tangram.core"
local rows <const> = require "tangram.measured.rows"
local support <const> = require "tests.spec.support"
local validate <const> = require "tangram.validate"

local function read(value) return (rows.read(core.json_encode(value), "x.json")) end

local function alpa(fields)
  local entry <const> = {
    id = "one", instance = "AWS", gpus = 8, nodes = 1, global_batch = 64, method = "alpa", latencies_s = core.array { 2.0, 4.0 },
    model = { family = "gpt3", seq_len = 512, hidden = 1024, layers = 12, heads = 16, vocab = 51200 },
    plan = { num_micro_batches = 4, auto_layers = 6, stage_layer_ids = core.array { core.array { 0, 1, 2 }, core.array { 3, 4, 5 } },
      logical_meshes_dp_op = core.array { core.array { 2, 2 }, core.array { 2, 2 } } },
  }
  for name, value in pairs(fields or {}) do entry[name] = value end
  return read({ description = "", entries = core.array { entry } })[1]
end

describe("imported runs", function()
  it("Alpa's: degrees, layers a stage and microbatch from its plan, the mean of its times", function()
    local row <const> = alpa()
    assert.is_nil(row.wrong)
    assert.same({ 2, 2, 2, 8, "6|6", 3.0 }, { row.dp, row.tp, row.pp, row.mbs, row.layer_split, row.iter_time_s }) -- 64 / 4 / 2
    local result <const> = validate.row(row, require("tangram.loader").load("cost", "analytic"))
    assert.is_nil(result.reason)
    assert.is_true(result.predicted_s > 0)
  end)
  it("Alpa's: names what a record lacks", function()
    assert.equal("nothing measured: OOM", alpa({ status = "OOM" }).wrong)
    assert.equal("plan: the mesh is not recorded", alpa({ plan = core.null }).wrong)
    assert.equal("model: GShard's dispatch by dense products is not modelled", alpa({ model = { family = "gshard_moe" } }).wrong)
    local plan <const> = { num_micro_batches = 4, auto_layers = 6, stage_layer_ids = core.array { core.array { 0 } },
      logical_meshes_dp_op = core.array { core.array { 2, 2 }, core.array { 4, 1 } } }
    assert.equal("plan: stages on meshes of several shapes, expected one shape", alpa({ plan = plan }).wrong)
  end)

  it("LAER-MoE's: fully sharded and static experts; FlexMoE and Megatron are named", function()
    local list <const> = {}
    for i, method in ipairs { "LAER", "FSDP", "FLEX", "megatron" } do
      list[i] = { id = method, method = method, model_name = "m", gpus = 32, nodes = 4, seq_len = 4096, global_batch = 64, aux_loss = 0,
        model = { hidden = 2048, ffn = 4096, heads = 16, kv_heads = 4, experts = 8, top_k = 2, layers_run = 4, vocab = 32000 },
        plan = { num_micro_batches = 2 }, iter_time_s = 1.5 }
    end
    local got <const> = read { entries = core.array(list) }
    assert.same({ 1, 1, 1, 0, 8 }, { got[1].fsep, got[1].ep, got[1].mbs, got[2].fsep, got[2].ep })
    assert.matches("^plan: FlexMoE", got[3].wrong)
    assert.equal("plan: pp is not recorded", got[4].wrong)
  end)

  it("what is none of them", function()
    assert.has_error(function() read { a = 1 } end,
      "x.json: expected CSV, or measured runs of Alpa, Aceso, Galvatron (LAER-MoE) or Sailor in JSON")
    assert.matches("^x.json:1:", select(2, pcall(rows.read, "{ oops", "x.json")))
  end)

  it("Sailor's are the CSV's: same plans, times and predictions", function()
    local json <const> = support.shared "data/sailor/real_measurements/sailor_validation_measured.json"
    local csv <const> = support.shared "data/measured/runs.csv"
    if not json or not csv then return pending "data/sailor is not there" end
    local predicted <const>, seen = {}, 0
    for _, row in ipairs(validate.run(support.read(csv), csv).rows) do predicted[row.id] = row end
    for _, row in ipairs(validate.run(support.read(json), json).rows) do
      local other <const> = predicted[row.id]
      seen = seen + 1
      assert.near(other.measured_s, row.measured_s, 1e-5, row.id)
      assert.equal(other.reason == nil, row.reason == nil, row.id)
      if not row.reason then assert.near(1, row.predicted_s / other.predicted_s, 0.01, row.id) end
    end
    assert.equal(36, seen)
  end)

  it("a run that two files list counts once", function()
    local text <const> = "id,gpu,n_gpus,layers,hidden,gbs,seq,iter_time_s\na,A100,8,4,1024,8,512,1\n"
    local result <const> = validate.files { { text = text, where = "1.csv" }, { text = text, where = "2.csv" } }
    assert.same({ 1, "a run of 1.csv as well" }, { result.all.time.count, result.rows[2].reason })
  end)

  it("Aceso's runs whose plan is not recorded: within 12 % of the best plans found", function()
    local path <const> = support.shared "data/aceso/measured.json"
    if not path then return pending "data/aceso is not there" end
    local plugin <const> = require("tangram.loader").load("cost", "analytic")
    for _, row in ipairs((rows.read(support.read(path), path))) do
      if row.id == "aceso/gpt-1_3B" or row.id == "aceso/gpt-6_7B" then -- all four take their time
        local result <const> = validate.row(row, plugin)
        assert.near(1, result.predicted_s / result.measured_s, 0.12, row.id)
        assert.matches("^E%+.*%+H.*; %d+ microbatches$", result.shape)
      end
    end
  end)
end)
