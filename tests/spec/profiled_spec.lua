local core <const> = require "tangram.core"
local pricing <const> = require "tests.spec.pricing"
local profile <const> = require "tangram.profile"
local profiles <const> = require "tangram.input.profiles"
local support <const> = require "tests.spec.support"

local PROFILED <const>, ANALYTIC <const> = "lua/cost/profiled.lua", "lua/cost/analytic.lua"
local gpt <const> = { family = "gpt2", hidden = 2048, layers = 4, heads = 16, vocab = 51200 }

local function layer(tp, mbs, forward_s, backward_s, seq)
  return { kind = "layer", tp = tp, mbs = mbs, seq = seq or 1024, forward_s = forward_s, backward_s = backward_s }
end

--- A stage of the two middle layers, with tables for the island's GPU type.
local function stage(entries, strategy, samples, training, path)
  local island <const> = pricing.island { gpu = "a100" }
  local ctx <const> = pricing.context(gpt, { global_batch = samples, seq_len = training and training.seq_len or 1024,
    precision = "fp16", attention = "unfused" }, island, 1)
  local cost <const> = pricing.wrap(path or PROFILED, path ~= ANALYTIC and {
    profiles = { { gpu = "a100", entries = entries } },
  } or {})
  local priced <const> = cost.stage(pricing.run(ctx, 2, 3), island, strategy, ctx)
  return priced, cost.constants(island, ctx)
end

local function named(list, pattern)
  for _, one in ipairs(list) do
    if one.name:find(pattern) then return one end
  end
end

describe("profiled", function()
  it("an entry's time is the stage's, layer by layer", function()
    local priced <const>, list <const> = stage({ layer(2, 4, 0.010, 0.021) }, { dp = 1, tp = 2 }, 4)
    assert.near(0.020, priced.forward_s, 1e-12)
    assert.near(0.042, priced.backward_s, 1e-12)
    assert.equal("measured", named(list, "^profile: layer, tp 2, mbs 4, seq 1024").from)
    local sum = 0
    for _, seconds in pairs(priced.parts.time) do sum = sum + seconds end
    assert.near(0.062 + priced.sync_s, sum, 1e-9)
  end)

  it("between two microbatches: the formulas scaled by what lies between the neighbours", function()
    local entries <const> = { layer(1, 2, 0.010, 0.020), layer(1, 8, 0.032, 0.064) }
    local priced <const> = stage(entries, { dp = 1, tp = 1 }, 4)
    assert.is_true(priced.forward_s > 2 * 0.010 and priced.forward_s < 2 * 0.032)
    -- geometric mean of the two ratios, as 4 is half way from 2 to 8 on a logarithmic scale
    local function formula_s(samples) return (stage({}, { dp = 1, tp = 1 }, samples, nil, ANALYTIC)).forward_s / 2 end
    local scale <const> = (0.010 / formula_s(2) * 0.032 / formula_s(8)) ^ 0.5
    assert.near(2 * formula_s(4) * scale, priced.forward_s, 1e-12)
  end)

  it("an entry that is missing is named, and the nearest one scales the formulas", function()
    local priced <const>, list <const> = stage({ layer(1, 4, 0.02, 0.04) }, { dp = 1, tp = 4 }, 4)
    local gap <const> = named(list, "^profile: layer, tp 4")
    assert.equal("default", gap.from)
    assert.equal("gap: no entry for tp 4, mbs 4, seq 1024; nearest: tp 1, mbs 4, seq 1024", gap.source)
    local one <const>, four <const> = stage({}, { dp = 1, tp = 1 }, 4, nil, ANALYTIC), stage({}, { dp = 1, tp = 4 }, 4, nil, ANALYTIC)
    assert.near(0.04 * four.forward_s / one.forward_s, priced.forward_s, 1e-9)
  end)

  it("a GPU type without a profile has the formulas' times, and memory is theirs in any case", function()
    local plain <const> = stage({}, { dp = 2, tp = 1 }, 4, nil, ANALYTIC)
    local island <const> = pricing.island { gpu = "other" }
    local ctx <const> = pricing.context(gpt, { global_batch = 4, seq_len = 1024, precision = "fp16", attention = "unfused" }, island, 1)
    local cost <const> = pricing.wrap(PROFILED, { profiles = { { gpu = "a100", entries = { layer(1, 2, 1, 2) } } } })
    assert.near(plain.forward_s, cost.stage(pricing.run(ctx, 2, 3), island, { dp = 2, tp = 1 }, ctx).forward_s, 1e-15)
    local measured <const> = stage({ layer(1, 2, 1, 2) }, { dp = 2, tp = 1 }, 4)
    assert.same(plain.parts.memory, measured.parts.memory)
    assert.equal(plain.inflight_bytes, measured.inflight_bytes)
    assert.near(2, measured.forward_s, 1e-9)
  end)

  it("whole-model times scale all atoms", function()
    local island <const> = pricing.island { gpu = "a100" }
    local ctx <const> = pricing.context(gpt, { global_batch = 2, seq_len = 1024, precision = "fp16", attention = "unfused" }, island, 1)
    local cost <const> = pricing.wrap(PROFILED, { profiles = { { gpu = "a100", entries = {
      { kind = "model", tp = 1, mbs = 2, seq = 1024, forward_s = 0.5, backward_s = 1.1 },
    } } } })
    local priced <const> = cost.stage(pricing.run(ctx), island, { dp = 1, tp = 1 }, ctx)
    assert.near(0.5, priced.forward_s, 1e-9)
    assert.near(1.1, priced.backward_s, 1e-9)
  end)

  it("refuses the profile of another model", function()
    assert.has_error(function()
      local island <const> = pricing.island { gpu = "a100" }
      local ctx <const> = pricing.context(gpt, { global_batch = 2, seq_len = 1024 }, island, 1)
      local cost <const> = pricing.wrap(PROFILED, { profiles = { { gpu = "a100", hidden = 4096, entries = { layer(1, 2, 1, 2) } } } })
      cost.stage(pricing.run(ctx), island, { dp = 1, tp = 1 }, ctx)
    end, "profile of 'a100': measured at hidden size 4096, the model has 2048")
  end)
end)

describe("profile.lookup", function()
  local entries <const> = { layer(1, 1, 1, 1), layer(1, 4, 1, 1), layer(4, 2, 1, 1), layer(1, 1, 1, 1, 4096) }
  it("interpolates along one axis, the microbatch first", function()
    local found <const>, gap <const> = profile.lookup(entries, { tp = 1, mbs = 2, seq = 1024 })
    assert.is_nil(gap)
    assert.same({ 1, 0.5, 4, 0.5 }, { found[1].entry.mbs, found[1].weight, found[2].entry.mbs, found[2].weight })
    local along <const> = profile.lookup(entries, { tp = 1, mbs = 1, seq = 2048 })
    assert.same({ 1024, 0.5, 4096, 0.5 }, { along[1].entry.seq, along[1].weight, along[2].entry.seq, along[2].weight })
  end)
  it("names the gap beyond the table", function()
    local found <const>, gap <const> = profile.lookup(entries, { tp = 4, mbs = 8, seq = 1024 })
    assert.equal("tp 4, mbs 8, seq 1024; nearest: tp 4, mbs 2, seq 1024", gap)
    assert.equal(4, found[1].entry.tp)
  end)
end)

describe("profiles from files", function()
  it("a user's CSV", function()
    local folder <const> = support.folder()
    local path <const> = support.write(folder .. "/p.csv",
      "gpu,kind,tp,mbs,seq,forward_s,backward_s,hidden\nt4,layer,1,2,1024,0.01,0.02,2048\nt4,head,1,2,1024,0.03,0.05,2048\r\n")
    assert.same({ { gpu = "t4", hidden = 2048, source = "measured", entries = {
      { kind = "layer", tp = 1, mbs = 2, seq = 1024, forward_s = 0.01, backward_s = 0.02 },
      { kind = "head", tp = 1, mbs = 2, seq = 1024, forward_s = 0.03, backward_s = 0.05 },
    } } }, profiles.csv(path))
    support.write(path, "gpu,kind,tp\n")
    assert.matches(":1: no column 'mbs', expected gpu, kind, tp, mbs, seq, forward_s, backward_s$", select(2, pcall(profiles.csv, path)))
    support.write(path, "gpu,kind,tp,mbs,seq,forward_s,backward_s\nt4,layer,x,2,1024,0.01,0.02\n")
    assert.matches(":2: tp: got 'x', expected a number$", select(2, pcall(profiles.csv, path)))
    support.remove(folder)
  end)

  it("Sailor's", function()
    local path <const> = support.shared "data/sailor/planner_profiles/OPT-350/V100-16/profile.json"
    if not path then return pending "data/sailor is not there" end
    local one <const> = profiles.sailor(path, { gpu = "v100-sxm2-16", seq = 2048 })[1]
    local found
    for _, entry in ipairs(one.entries) do
      if entry.kind == "layer" and entry.tp == 4 and entry.mbs == 1 then found = entry end
    end
    -- as reference/sailor.md quotes the file
    assert.near(0.00297, found.forward_s, 5e-6)
    assert.near(0.00596, found.backward_s, 5e-6)
  end)

  it("Galvatron's", function()
    local folder <const> = support.folder()
    local path <const> = support.write(folder .. "/computation_profiling.json",
      [[{ "layernum[2]_bsz1_seq512": 9, "layertype_0_bsz4_seq512": 2.5, "layertype_0_bsz1_seq512": 3, "layertype_other_bsz1_seq512": 7 }]])
    -- milliseconds of one sample forward; backward is twice that
    assert.same({
      { kind = "head", tp = 1, mbs = 1, seq = 512, forward_s = 0.007, backward_s = 0.014 },
      { kind = "layer", tp = 1, mbs = 1, seq = 512, forward_s = 0.003, backward_s = 0.006 },
      { kind = "layer", tp = 1, mbs = 4, seq = 512, forward_s = 0.01, backward_s = 0.02 },
    }, profiles.galvatron(path, { gpu = "a100-sxm4-80" })[1].entries)
    support.write(path, "{}")
    assert.matches("no key layertype_0_bszB_seqS, expected the forward times of a layer$",
      select(2, pcall(profiles.galvatron, path, { gpu = "a" })))
    support.remove(folder)
  end)

  it("Metis'", function()
    local folder <const> = support.folder()
    support.write(folder .. "/DeviceType.A100_tp2_bs4.json", core.json_encode {
      execution_time = { layer_compute_total_ms = core.array { 1.5, 30, 30, 12 } },
    })
    assert.same({ { kind = "embedding", tp = 2, mbs = 4, seq = 1024, forward_s = 0.0005, backward_s = 0.001 },
      { kind = "head", tp = 2, mbs = 4, seq = 1024, forward_s = 0.004, backward_s = 0.008 },
      { kind = "layer", tp = 2, mbs = 4, seq = 1024, forward_s = 0.01, backward_s = 0.02 } },
      profiles.metis(folder, { type = "A100", gpu = "a100-sxm4-80", seq = 1024 })[1].entries)
    support.remove(folder)
  end)
end)

describe("profiled: measured runs", function()
  --- Aceso's V100 profiles by layers; operators are a file's rows.
  local function database(folder, size)
    local db <const> = { samples = { 1, 2, 4, 8 }, tp = { 1, 2, 4, 8 }, profiles = {} }
    for _, samples in ipairs(db.samples) do
      db.profiles[samples] = {}
      for _, tp in ipairs(db.tp) do
        local file <const> = io.open(("%s/gpt_%s_mbs%d_tp%d_algo0.csv"):format(folder, size, samples, tp))
        if file then
          local times <const> = { forward_s = {}, backward_s = {} }
          file:read "l"
          for line in file:lines() do
            local forward_us <const>, backward_us <const> = line:match "^[^,]+,([^,]+),([^,]+)"
            table.insert(times.forward_s, forward_us * 1e-6)
            table.insert(times.backward_s, backward_us * 1e-6)
          end
          file:close()
          db.profiles[samples][tp] = times
        end
      end
    end
    return db
  end

  it("a layer's times that are held out come within 6 % of the neighbours'", function()
    local any <const> = support.shared "data/aceso/profiles/v100-large/gpt_1_3B_mbs1_tp1_algo0.csv"
    if not any then return pending "data/aceso is not there" end
    local island <const> = pricing.island({ gpu = "v", compute_flops = 125e12, intra = { { 1, 150e9 } } },
      { arch = "Volta", link_bytes_per_s = 150e9, memory_bytes_per_s = 900e9 })
    for _, out in ipairs { { "mbs", 2 }, { "mbs", 4 }, { "tp", 2 }, { "tp", 4 } } do
      local total, count = 0, 0
      for size, shape in pairs { ["1_3B"] = { 24, 2048, 32 }, ["2_6B"] = { 32, 2560, 32 }, ["13B"] = { 40, 5120, 40 } } do
        local all <const> = profiles.aceso(database(any:match "(.*)/", size), { gpu = "v", seq = 2048 })[1].entries
        local kept <const>, held <const> = {}, {}
        for _, entry in ipairs(all) do
          local list <const> = entry.kind == "layer" and entry[out[1]] == out[2] and held or kept
          list[#list + 1] = entry
        end
        local cost <const> = pricing.wrap(PROFILED, { profiles = { { gpu = "v", entries = kept } } })
        for _, entry in ipairs(held) do
          local ctx <const> = pricing.context({ family = "gpt2", layers = shape[1], hidden = shape[2], heads = shape[3], vocab = 51200 },
            { global_batch = entry.mbs, seq_len = 2048, precision = "fp16", dropout = true }, island, 1)
          local priced <const> = cost.stage(pricing.run(ctx, 2, 2), island, { dp = 1, tp = entry.tp, sp = false }, ctx)
          total = total + math.abs((priced.forward_s + priced.backward_s) / (entry.forward_s + entry.backward_s) - 1)
          count = count + 1
        end
      end
      assert.is_true(count >= 12 and total / count <= 0.06, ("%s %d: %.3f"):format(out[1], out[2], total / count))
    end
  end)

  it("Aceso's measured iterations, planned with its profiles: within 6 %; with the formulas alone within 12 %", function()
    local any <const> = support.shared "data/aceso/profiles/v100-large/gpt_1_3B_mbs1_tp1_algo0.csv"
    if not any then return pending "data/aceso is not there" end
    local tangram <const> = require "tangram"
    local plugins <const> = require "tangram.recipe"
    plugins.configure({}, {})
    --- size, layers, hidden, heads, GPUs, seconds measured (README of SuperScaler's branch Aceso)
    for _, case in ipairs { { "1_3B", 24, 2048, 32, 4, 100.28 }, { "2_6B", 32, 2560, 32, 8, 84.6 } } do
      local size <const>, layers <const>, hidden <const>, heads <const>, gpus <const>, measured_s <const> = table.unpack(case)
      local function planned_s(cost)
        return tangram.plan({
          model = { family = "gpt2", layers = layers, hidden = hidden, heads = heads, vocab = 51200 }, cost = cost,
          cluster = { nodes = { { name = "n", gpu = "v100-sxm2-32", gpus = gpus, intra_bytes_per_s = 45e9 } } },
          training = { global_batch = 1024, seq_len = 2048, precision = "fp16", attention = "unfused", dropout = true,
            gradient_bytes = 2, microbatches = { min = 256, max = 1024 } },
        }).time_s
      end
      local list <const> = profiles.aceso(database(any:match "(.*)/", size), { gpu = "v100-sxm2-32", seq = 2048, hidden = hidden })
      assert.near(1, planned_s { name = "profiled", options = { profiles = list } } / measured_s, 0.06)
      assert.near(1, planned_s "analytic" / measured_s, 0.12)
    end
  end)

  it("Alpa's whole iterations on one mesh tell those of its own plans: within 6 %", function()
    local path <const> = support.shared "data/alpa/measured.json"
    if not path then return pending "data/alpa is not there" end
    local loader <const> = require "tangram.loader"
    local rows <const> = require "tangram.measured.rows"
    local validate <const> = require "tangram.validate"
    local seconds <const> = {}
    for _, entry in ipairs(core.json_decode(support.read(path)).entries) do
      seconds[entry.id] = entry.latencies_s and entry.latencies_s[1] or entry.iter_time_s_from_tflops
    end
    -- model, layers, hidden, heads, GPUs; microbatches of the one mesh (data parallel); stages, replicas, microbatches of the plan
    for _, case in ipairs {
      { "350M-1gpu", 24, 1024, 16, 1, 64, 1, 1, 512 }, { "760M-2gpu", 24, 1536, 16, 2, 64, 2, 1, 128 },
      { "1.3B-4gpu", 24, 2048, 32, 4, 64, 2, 2, 128 },
    } do
      local name <const>, layers <const>, hidden <const>, heads <const>, gpus <const>, mesh_m <const>, pp <const>, dp <const>, m <const> =
        table.unpack(case)
      -- forward, recomputed forward and backward as 1 : 1 : 2 of what was measured, all in the iteration
      local microbatch_s <const> = seconds[("e2e-gpt-%s-parax.intra_only"):format(name)] / mesh_m
      local plugin <const> = loader.load("cost", { name = "profiled", options = { profiles = { { gpu = "v100-sxm2-16", entries = {
        { kind = "model", tp = 1, mbs = 1024 // mesh_m // gpus, seq = 1024, forward_s = microbatch_s / 4, backward_s = microbatch_s / 2 },
      } } } } })
      local text <const> = ("id,model,gpu,n_gpus,layers,hidden,heads,vocab,seq,tp,pp,dp,mbs,gbs,recompute,precision,iter_time_s\n"
        .. "a,GPT,V100-SXM2-16GB,%d,%d,%d,%d,51200,1024,1,%d,%d,%d,1024,full,fp16,%g\n"):format(gpus, layers, hidden, heads, pp, dp,
        1024 // m // dp, seconds[("e2e-gpt-%s-parax.auto"):format(name)])
      local result <const> = validate.row(rows.parse(text, "x")[1], plugin)
      assert.is_nil(result.reason)
      assert.near(1, result.predicted_s / result.measured_s, 0.06, name)
    end
  end)
end)
