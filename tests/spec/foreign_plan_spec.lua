local foreign <const> = require "tangram.input.foreign_plan"
local kinds <const> = require "tangram.input.kinds"
local support <const> = require "tests.spec.support"

local galvatron <const> = [[{"pp_deg": 3, "tp_sizes_enc": "4,4,2,1,1,1", "tp_consecutive_flags": "1,1,1,1,1,1",
 "dp_types_enc": "0,0,1,1,1,0", "use_sp": "0,0,0,0,0,0", "checkpoint": "1,1,0,1,0,0", "global_bsz": 24, "chunks": 6,
 "pp_division": "2,3,1", "pipeline_type": "pipedream_flush", "default_dp_type": "zero2", "vtp": 2, "world_size": 12}]]
local sailor <const> = [=[{"zone": "z", "pipeline_list": [{"num_stages": 2, "layers_per_stage": [[0, 1, 2], [3, 4, 5, 6, 7]],
 "tmp_per_stage": [[[[["RTX-3090", 2, "z"]], 2], [[["Titan-RTX", 4, "z"]], 4], [[["RTX-3090", 2, "z"]], 2]],
                   [[[["RTX-3090", 1, "z"]], 1], [[["RTX-3090", 1, "z"]], 1], [[["RTX-3090", 1, "z"]], 1]]],
 "dp": [3, 3]}], "mbs": 2, "gbs": 64, "real": 7.5}]=]
local flagscale <const> = [[
system:
  pipeline_model_parallel_size: 4
  hetero:
    enable_hetero: True
    # hetero_process_meshes: [1, 1, 1, 1, 4]
    hetero_process_meshes: [4, 1, 1, 2, 1, 2, 1, 1, 4, 3]   # a big one and three small ones
    hetero_pipeline_layer_split: [9, 3, 3, 5]
model:
  num_layers: 20
  micro_batch_size: 2
  global_batch_size: 96
]]

local function stages(plan)
  local list <const> = {}
  for s, stage in ipairs(plan.stages) do list[s] = { stage.first, stage.layers, stage.words } end
  return list
end

describe("plans of other systems", function()
  it("are Galvatron's lists by layer", function()
    local plan <const> = foreign.read(galvatron)
    assert.same({ { 0, 2, "tp 4, cp 1, ZeRO 3 in 0 layers, recompute in 2" },
      { 2, 3, "tp 1 to 2, cp 1, ZeRO 3 in 3 layers, recompute in 1" },
      { 5, 1, "tp 1, cp 1, ZeRO 3 in 0 layers, recompute in 0" } }, stages(plan))
    assert.same({ 24, 6, { "12 GPUs", "default_dp_type 'zero2', vocabulary tp 2" } }, { plan.global_batch, plan.microbatches, plan.notes })
    -- without pp_division each stage has floor(6 / 4) = 1 layer and the last the rest
    local even <const> = foreign.read((galvatron:gsub('"pp_division": "2,3,1", ', ""):gsub('"pp_deg": 3', '"pp_deg": 4')))
    assert.same({ 1, 1, 1, 3 }, { even.stages[1].layers, even.stages[2].layers, even.stages[3].layers, even.stages[4].layers })
  end)

  it("are Sailor's replicas by stage", function()
    local plan <const> = foreign.read(sailor)
    assert.same({ { 0, 3, "2 × (2 RTX-3090, tp 2), 1 × (4 Titan-RTX, tp 4)" }, { 3, 5, "3 × (1 RTX-3090, tp 1)" } }, stages(plan))
    assert.same({ 64, 11 }, { plan.global_batch, plan.microbatches }) -- ceil(64 / (2 * 3))
    assert.equal("measured: 7.5 s an iteration", plan.notes[2])
  end)

  it("are FlagScale's meshes", function()
    local plan <const> = foreign.read(flagscale)
    assert.same({ { 0, 9, "tp 4, cp 1, ep 1, dp 2: 8 GPUs of mesh 0" }, { 9, 3, "tp 2, cp 1, ep 1, dp 4: 8 GPUs of mesh 1" },
      { 12, 3, "tp 2, cp 1, ep 1, dp 4: 8 GPUs of mesh 1" }, { 15, 5, "tp 2, cp 1, ep 1, dp 4: 8 GPUs of mesh 1" } }, stages(plan))
    assert.same({ 96, 24, { "32 GPUs" } }, { plan.global_batch, plan.microbatches, plan.notes })
  end)

  it("are refused in one line with the field", function()
    local cases <const> = {
      { galvatron:gsub('"0,0,1,1,1,0"', '"0,0,1"'), "^f: dp_types_enc: got '0,0,1', expected 6 numbers with commas, one a layer" },
      { galvatron:gsub('"2,3,1"', '"2,3,2"'), "^f: pp_division: adds up to another number than the 6 layers" },
      { galvatron:gsub('"2,3,1"', '"2,4,0"'), "^f: pp_division: got 0 for stage 3, expected at least one layer" },
      { galvatron:gsub('"chunks": 6', '"chunks": 0'), "^f: chunks: got 0, expected a whole number" },
      { galvatron:gsub('"4,4,2,1,1,1"', "4"), "^f: tp_sizes_enc: got 4, expected numbers with commas" },
      { galvatron .. "x", "^f:%d+:%d+: not JSON" },
      { sailor:gsub("%[3, 4", "[4, 4"), "layers_per_stage%[1%]: got 4, expected 3 next" },
      { sailor:gsub('"num_stages": 2', '"num_stages": 3'), "got 2 lists of layers and 2 of replicas, expected one a stage, 3" },
      { flagscale:gsub("2, 1, 1, 4, 3%]", "2, 1, 1, 4]"), "hetero_process_meshes: got 9 numbers, expected five" },
      { flagscale:gsub("9, 3, 3, 5", "9, 3, 8"), "hetero_pipeline_layer_split: got 3 stages, but the meshes have 4" },
      { flagscale:gsub("  num_layers: 20\n", ""), "num_layers: missing" },
      { "{}", "^f: not a plan of" },
    }
    for _, case in ipairs(cases) do
      local ok <const>, why <const> = pcall(foreign.read, case[1], "f")
      assert.is_false(ok, case[2])
      assert.matches(case[2], why)
    end
    local other <const> = foreign.read((flagscale:gsub("num_layers: 20", "num_layers: 24")))
    assert.matches("the stages hold 20 layers, num_layers is 24", other.notes[2])
  end)

  it("are shown by tangram report, without pictures", function()
    local folder <const> = support.folder()
    finally(function() support.remove(folder) end)
    local path <const> = support.write(folder .. "/plan.json", sailor)
    local status, out, err = support.run("tangram report " .. path)
    assert.same({ 0, "" }, { status, err })
    assert.matches("^Sailor's plan: 8 layers in 2 stages, global batch 64 in 11 microbatches; it states no times\n", out)
    status, out, err = support.run(("tangram report %s --html %s/x.html"):format(path, folder))
    assert.same({ 2, "" }, { status, out })
    assert.matches("a plan of another system, which states no times to draw", err)
  end)

  it("and models are told from clusters", function()
    local function why(text) return (select(2, kinds.read(text))) end
    assert.matches("is another system's plan", why(galvatron))
    assert.matches("is another system's plan", why(flagscale))
    assert.matches("is a model's configuration, not a cluster: 'tangram model show FILE'",
      why "pretrain_gpt.py --num-layers 3 --hidden-size 4")
    assert.matches("is Sailor's table of GPU types %(P4: 8 GPUs of 8%.00 GiB a node, T4: 4 GPUs of 16%.0 GiB a node%), which does not say",
      why '{"T4": {"gpus_per_node": 4, "mem_per_gpu": 17179869184}, "P4": {"gpus_per_node": 8, "mem_per_gpu": 8589934592}, "zone": "z"}')
  end)

  it("samples are read as the log says", function()
    local function sample(name)
      local path <const> = support.shared("data/inputs/" .. name)
      return path and support.read(path)
    end
    local text <const> = sample "galvatron-json/001.txt"
    if not text then return pending "shared data is absent" end
    assert.same({ { 0, 32, "tp 1, cp 1, ZeRO 3 in 32 layers, recompute in 20" } }, stages(foreign.read(text)))
    local mesh <const> = foreign.read(sample "flagscale/001.txt")
    assert.same({ 3, 6, 2, 4, 32, "8 GPUs" }, { #mesh.stages, mesh.stages[1].layers, mesh.stages[2].layers, mesh.stages[3].layers,
      mesh.microbatches, mesh.notes[1] })
    local gh <const> = foreign.read(sample "sailor-json/003.txt")
    assert.same({ { 0, 16, "4 × (4 GH-96, tp 4)" }, { 16, 18, "4 × (4 GH-96, tp 4)" } }, stages(gh))
    assert.same({ 1024, 64 }, { gh.global_batch, gh.microbatches })
    local types <const> = select(2, kinds.read(sample "sailor-json/001.txt"))
    assert.matches("A100%-40: 4 GPUs of 39%.4 GiB a node", types)
    assert.matches("RTX%-3090: 8 GPUs of 24%.0 GiB a node", types)
  end)
end)
