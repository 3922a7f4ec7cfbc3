local config <const> = require "tangram.galvatron.config"
local core <const> = require "tangram.core"
local costs <const> = require "tangram.galvatron.costs"
local galvatron <const> = require "tangram.input.galvatron"
local profile <const> = require "tangram.galvatron.profile"
local search <const> = require "tangram.galvatron.search"
local support <const> = require "tests.spec.support"

local MiB <const>, GiB <const> = 2 ^ 20, 2 ^ 30

local golden_path <const> = support.shared "data/galvatron/golden_search.json"
local data <const> = golden_path and golden_path:match "^(.*)/"
local ABSENT <const> = "data/galvatron is not there"

local function decoded(name) return core.json_decode(support.read(data .. "/" .. name)) end

--- The authors' measured llama2-7b profile, and the mock one of their regression tests.
local function real_profile()
  return galvatron.read {
    folder = data .. "/profiles_main_gpt", hardware_folder = data .. "/hardware_configs", model = "llama2-7b", time_mode = "batch",
  }
end

local function mock_files()
  local folder <const> = data .. "/upstream_test_inputs/"
  return {
    computation = folder .. "sequence_time_config.json", memory = folder .. "sequence_memory_config_sp.json",
    allreduce = folder .. "hw_allreduce.json", p2p = folder .. "hw_p2p.json", messages = folder .. "hw_sp.json",
    overlap = folder .. "hw_overlap.json",
  }
end

local function profile_of(case)
  if case.inputs.prof == "profiles_main_gpt" then return real_profile() end
  return galvatron.read { files = mock_files(), time_mode = case.inputs.time_mode, memory_mode = case.inputs.mem_mode }
end

local function spec_of(case)
  local i <const> = case.inputs
  return {
    gpus = i.nodes * i.gpus_per_node, layers = i.layers, hidden = i.hidden, seq_len = i.seq, global_batch = i.settle_bsz,
    microbatches = i.settle_chunk, budget_bytes = i.mem * GiB, async_reduce = i.async_grad_reduce, uniform = i.fine == 0,
    recompute = i.disable_ckpt ~= 1, max_stages = i.max_pp, max_degree = i.max_tp,
  }
end

--- "2-2*-2f-c": stages, degree, replicas, ZeRO-3, recompute.
local function strategy_of(text)
  local stages <const>, degree <const>, dp <const>, rest <const> = text:match "^(%d+)%-(%d+)%*?%-(%d+)(.*)$"
  local t <const>, ulysses <const> = math.tointeger(tonumber(degree)), rest:find("-sp", 1, true) ~= nil
  return {
    tp = ulysses and 1 or t, sp = ulysses and t or 1, dp = math.tointeger(tonumber(dp)), sharded = rest:match "^f" ~= nil,
    recompute = rest:match "^f?%-c" ~= nil,
  }, math.tointeger(tonumber(stages))
end

--- A list of { strategy, layers } as "tp sp dp sharded recompute" by layer.
local function by_layer(runs)
  local words <const> = {}
  for _, run in ipairs(runs) do
    local s <const> = run.strategy
    for _ = 1, run.layers do
      words[#words + 1] = ("%d %d %d %s %s"):format(s.tp, s.sp, s.dp, s.sharded, s.recompute)
    end
  end
  return words
end

local function layers_of(plan)
  local runs <const> = {}
  for _, stage in ipairs(plan.stages) do table.move(stage.runs, 1, #stage.runs, #runs + 1, runs) end
  return by_layer(runs)
end

local function golden_layers(case)
  local runs <const> = {}
  for i, row in ipairs(case.strategies_rle) do runs[i] = { strategy = strategy_of(row[1]), layers = row[2] } end
  return by_layer(runs)
end

--- How many layers of each stage have which tp, sp and dp; how many ZeRO-3; how many are recomputed.
local function counts(layers, division)
  local found <const>, at = {}, 0
  for stage, count in ipairs(division) do
    local of <const> = {}
    for i = at + 1, at + count do
      local degrees <const>, sharded <const>, recomputed <const> = layers[i]:match "^(%d+ %d+ %d+) (%a+) (%a+)$"
      for _, word in ipairs { degrees, "sharded " .. sharded, "recomputed " .. recomputed } do of[word] = (of[word] or 0) + 1 end
    end
    found[stage], at = of, at + count
  end
  return found
end

describe("galvatron: its own evaluator and search", function()
  if not data then return pending(ABSENT) end

  it("prices layers as the original does", function()
    local golden <const>, fits <const> = decoded "golden_layer_costs.json", profile.at(real_profile(), 2048)
    assert.near(golden.fit_layer_ms[1] * 1e-3, fits.forward_s(1) - fits.forward_s(0), 1e-9)
    assert.near(golden.fit_other_ms[2] * 1e-3, fits.ends_forward_s(0), 1e-9)
    for _, row in ipairs(golden.rows) do
      local priced <const> = costs.new(fits, {
        gpus = 8, stages = row.pp, layers = 32, seq_len = 2048, hidden = 4096, global_batch = row.gbsz, microbatches = row.chunks,
        zero = 2, async_reduce = true,
      })
      local s <const> = strategy_of(row.strategy)
      local function near(expected, value, what) assert.near(1, value / expected, 1e-9, row.strategy .. " " .. what) end
      near(row.layer_time_s, priced.layer_s(s, true), "time")
      near(row.layer_time_no_sync_s, priced.layer_s(s, false), "time without reduction")
      near(row.fct_ms * 1e-3, priced.layer_forward_s(s), "forward")
      near(row.states_MB * MiB, priced.layer_states_bytes(s), "states")
      for stage, mib in ipairs(row.act_MB) do
        near(mib * MiB, priced.layer_kept_bytes(s) * (row.pp - stage + 1), "activations")
      end
      if row.tp_ms > 0 then near(row.tp_ms * 1e-3, priced.layer_messages_s(s), "messages") end
    end
  end)

  it("finds the plans of the original's runs, its two regression values among them", function()
    local checked = 0
    for _, case in ipairs(decoded "golden_search.json") do
      local plan <const>, why <const> = search.find(profile_of(case), spec_of(case))
      checked = checked + 1
      if case.result then
        assert.is_nil(plan)
        assert.equal("no plan of 32 layers fits 36 GiB a GPU", why)
      else
        assert.near(1, plan.samples_per_s / case.throughput_samples_per_s, 1e-8, case.case)
        assert.near(1, plan.time_s / case.time_s, 1e-8)
        local mib <const> = case.inputs.mem * 1024
        for i, stage in ipairs(plan.stages) do
          assert.equal(case.pp_division[i], stage.layers)
          -- what it prints has the allocator's fifth added
          assert.equal(case.mem_used_MB[i], stage.bytes / MiB + math.floor(0.2 * mib), case.case)
        end
        assert.same({ case.vtp, case.vsp == 1, case.embed_sdp == 1 },
          { plan.ends.tp * plan.ends.sp, plan.ends.sp > 1, plan.ends.sharded })
        -- In R36f ZeRO-3 and recompute swap between the layers of a stage at no cost: as many of each, on other layers.
        local own <const>, theirs <const> = layers_of(plan), golden_layers(case)
        if case.case ~= "R36f" then assert.same(theirs, own, case.case) end
        assert.same(counts(theirs, case.pp_division), counts(own, case.pp_division), case.case)
      end
    end
    assert.equal(8, checked)
    assert.near(2.6485091403918064, search.find(profile_of(decoded "golden_search.json"[1]),
      spec_of(decoded "golden_search.json"[1])).samples_per_s, 1e-8)
  end)

  it("writes the plan file that the authors ship, every field", function()
    local shipped <const> = decoded "plans/galvatron_config_llama2-7b_1nodes_8gpus_per_node_36GB_bf16.json"
    local spec <const> = {
      gpus = 8, layers = 32, hidden = 4096, seq_len = 2048, global_batch = 16, microbatches = 1, budget_bytes = 36 * GiB,
    }
    local plan <const> = search.find(real_profile(), spec)
    assert.same(shipped, config.of(plan, spec))
    assert.same(shipped, core.json_decode(config.encode(plan, spec)))
  end)

  it("is no worse layer by layer than with one strategy, nor with more memory; repaired it has no dearer switches", function()
    local from <const> = real_profile()
    local last_s = math.huge
    for _, gib in ipairs { 18, 24, 30, 40 } do
      local spec <const> = {
        gpus = 8, layers = 32, hidden = 4096, seq_len = 2048, global_batch = 64, microbatches = 8, budget_bytes = gib * GiB,
      }
      local plan <const> = assert(search.find(from, spec))
      spec.uniform = true
      local one <const> = search.find(from, spec)
      assert.is_true(not one or plan.time_s <= one.time_s)
      assert.is_true(plan.time_s <= last_s)
      last_s = plan.time_s
    end
    local fits <const> = profile.at(from, 2048)
    local function switch_s(repair)
      return costs.new(fits, { gpus = 8, stages = 1, layers = 32, seq_len = 2048, hidden = 4096, global_batch = 64, microbatches = 8,
        zero = 2, async_reduce = true, repair = repair }).switch_s({ tp = 2, sp = 1, dp = 4 }, { tp = 4, sp = 1, dp = 2 })
    end
    -- 8 samples in 2 groups of 4: three quarters of 4 samples' activations at 159.119 GiB/1024 a second
    assert.near(0.75 * 4 * 2048 * 4096 * 2 / (159.119 * MiB * 1e3), switch_s(true), 1e-12)
    assert.near(104.8576, switch_s(false) / switch_s(true), 1e-6)
  end)
end)

describe("galvatron: its own search on a made-up machine of two GPUs", function()
  local function by_degree(mib) return { { degree = 1, bytes = mib * MiB }, { degree = 2, bytes = mib / 2 * MiB } } end
  local function sizes(mib) return { { seq_len = 1024, states_bytes = by_degree(mib), activation_bytes = by_degree(60) } } end
  --- Embedding and head are far larger together than each on its own stage.
  local from <const> = {
    time_mode = "static", memory_mode = "static",
    layer = { times = { { samples = 1, seq_len = 1024, forward_s = 2.5e-3 } }, memory = { { seq_len = 1024, parameter_bytes = 200 * MiB,
      activation_bytes = by_degree(90), checkpoint_bytes = 8 * MiB } } },
    ends = { times = { { samples = 1, seq_len = 1024, forward_s = 1.25e-3 } },
      memory = { whole = sizes(50000), first = sizes(100), last = sizes(100) } },
    hardware = { allreduce = { { gpus = 2, consecutive = true, bytes_per_s = 80 * MiB * 1e3 },
      { gpus = 2, consecutive = false, bytes_per_s = 60 * MiB * 1e3 } }, p2p = { { stages = 2, bytes_per_s = 50 * MiB * 1e3 } },
      messages = {}, overlap = 1.25 },
  }
  local function spec(changes)
    return support.with({ gpus = 2, layers = 4, hidden = 64, seq_len = 1024, global_batch = 2, microbatches = 1, budget_bytes = 8 * GiB,
      recompute = false, max_degree = 1 }, changes or {})
  end

  it("repaired, takes more stages than microbatches, no more of them in flight than there are, and every byte once", function()
    assert.same({ nil, "no plan of 4 layers fits 8 GiB a GPU" }, { search.find(from, spec()) })
    for _, uniform in ipairs { false, true } do
      local plan <const> = search.find(from, spec { repair = true, uniform = uniform })
      -- by hand, MiB: two layers of 4 · 200, of two samples 90 each in the one microbatch; 100 and two samples of 60 of embedding or
      -- head; the context; 2 · 1024 · 64 values of 2 bytes of workspace
      for i = 1, 2 do assert.near(2 * 800 + 2 * 2 * 90 + 100 + 2 * 60 + 1024 + 0.25, plan.stages[i].bytes / MiB, 1e-9) end
      -- a layer: 15 ms and a fourth of 1 MiB at 50 MiB a millisecond; embedding or head 3.75 ms
      assert.near(2 * (2 * (15 + 0.02 / 4) + 3.75) * 1e-3, plan.time_s, 1e-12)
    end
  end)

  it("repaired, waits for the slowest stage wherever it stands, and gathers ZeRO 3's weights twice", function()
    assert.near(1 + 3 + 1 + 3 * 3, costs.pipeline_s({ 1, 3, 1 }, { 1, 3, 1 }, 4, true), 1e-12)
    assert.is_true(costs.pipeline_s({ 1, 3, 1 }, { 1, 3, 1 }, 4) < 14)
    local sharded <const> = { tp = 1, sp = 1, dp = 2, sharded = true, recompute = false }
    local function layer_s(repair)
      return costs.new(profile.at(from, 1024), spec { zero = 2, async_reduce = true, stages = 1, repair = repair }).layer_s(sharded, false)
    end
    -- a gather: half of 200 MiB at 2 bytes for 4, at 80 MiB a millisecond
    assert.near(7.5e-3 + 0.625e-3, layer_s(false), 1e-12)
    assert.near(7.5e-3 + 1.25e-3, layer_s(true), 1e-12)
  end)

  it("refuses what it can't search", function()
    for message, changes in pairs {
      ["gpus: got 6, expected a power of two"] = { gpus = 6 },
      ["microbatches: got 3, expected a divisor of global_batch 2"] = { microbatches = 3 },
      ["zero: got 3, expected one of 0, 2"] = { zero = 3 },
      ["uniforn: unknown field (did you mean 'uniform'?)"] = { uniforn = true },
    } do
      assert.equal("Galvatron's search: " .. message, select(2, pcall(search.find, from, spec(changes))))
    end
  end)
end)
