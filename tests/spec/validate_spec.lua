local core <const> = require "tangram.core"
local rows <const> = require "tangram.measured.rows"
local summary <const> = require "tangram.measured.summary"
local support <const> = require "tests.spec.support"
local validate <const> = require "tangram.validate"

--- A CSV text of one row; fields replace those of a run of 8 A100.
local function csv(fields)
  local row <const> = {
    id = "r", gpu = "A100-SXM4-80GB", n_gpus = 8, gpus_per_node = 8, layers = 24, hidden = 2048, heads = 16, vocab = 51200,
    seq = 1024, tp = 2, pp = 2, dp = 2, mbs = 2, gbs = 32, precision = "fp16", recompute = "full", iter_time_s = 1,
  }
  for name, value in pairs(fields or {}) do row[name] = value end
  local names <const>, values <const> = {}, {}
  for name in pairs(row) do names[#names + 1] = name end
  table.sort(names)
  for i, name in ipairs(names) do values[i] = tostring(row[name]) end
  return table.concat(names, ",") .. "\n" .. table.concat(values, ",") .. "\n"
end

local function one(fields) return validate.run(csv(fields), "runs.csv").rows[1] end

describe("measured rows", function()
  it("reads quotes, empty fields and CRLF", function()
    local list <const> = rows.parse('id,gpu,n_gpus,layers,hidden,gbs,notes\r\na,"T4, 16 GB",16,,64,8,"say ""so"", then"\r\n', "x")
    assert.same({ id = "a", gpu = "T4, 16 GB", n_gpus = 16, hidden = 64, gbs = 8, notes = 'say "so", then' }, list[1])
  end)
  it("names what is wrong in a row, and columns that it lacks or does not know", function()
    assert.equal("tp: got 'two', expected a whole number of at least 0", one { tp = "two" }.reason)
    assert.has_error(function() rows.parse("id,gpu\n", "x.csv") end,
      "x.csv: no column 'n_gpus', expected the columns gpu, n_gpus, layers, hidden, gbs at least")
    local _, warnings <const> = rows.parse("gpu,n_gpus,layers,hidden,gbs,iter_time\n", "x.csv")
    assert.same({ "x.csv: column 'iter_time' is not read (did you mean 'iter_time_s'?)" }, warnings)
  end)
end)

describe("summary", function()
  it("equals figures worked out by hand", function()
    local e <const> = summary.of {
      { id = "a", predicted = 1.1, measured = 1 }, { id = "b", predicted = 1.6, measured = 2 }, { id = "c", predicted = 3, measured = 3 },
    }
    assert.near(0.1, e.mape, 1e-12) -- (0.1 + 0.2 + 0) / 3
    assert.near(0.1, e.median, 1e-12)
    assert.near(0.18, e.p90, 1e-12) -- between 0.1 and 0.2 at 1.8 of 2
    assert.near((1.1 * 0.8) ^ (1 / 3) - 1, e.bias, 1e-12)
    assert.same({ "b", "b" }, { e.worst.id, e.low.id })
    assert.near(1, e.spearman, 1e-12)
  end)
  it("ranks ties by their mean", function()
    -- ranks 1.5 1.5 3 4 against 1 2 4 3: 1 - … worked out as Pearson's correlation of the ranks
    local a <const>, b <const> = { 1.5, 1.5, 3, 4 }, { 1, 2, 4, 3 }
    local ab, aa, bb = 0, 0, 0
    for i = 1, 4 do ab, aa, bb = ab + (a[i] - 2.5) * (b[i] - 2.5), aa + (a[i] - 2.5) ^ 2, bb + (b[i] - 2.5) ^ 2 end
    assert.near(ab / math.sqrt(aa * bb), summary.spearman({ 1, 1, 2, 5 }, { 10, 20, 40, 30 }), 1e-12)
    assert.is_nil(summary.spearman({ 1, 1, 1 }, { 1, 2, 3 }))
  end)
end)

describe("validate", function()
  it("names a row that can't be expressed, with the reason", function()
    assert.equal("tp, pp, dp, cp: multiply to 12, expected n_gpus = 8", one { tp = 3 }.reason)
    assert.matches("^gpu: unknown GPU 'Z9'", one { gpu = "Z9" }.reason)
    assert.equal("layer_split: 2 parts that add up to 20, expected 2 parts and 24, 26 or 30", one { layer_split = "10|10" }.reason)
    assert.equal("seq: not stated", one { seq = "" }.reason)
    assert.equal("recompute: got 'twice', expected none, selective or full", one { recompute = "twice" }.reason)
    assert.equal("precision: got 'int4', expected bf16, fp16, fp8 or fp32", one { precision = "int4" }.reason)
    assert.equal("vpp: got 1000000, expected 1 to 256", one { vpp = 1000000 }.reason)
    assert.equal("zero: got '7', expected 0 to 3", one { zero = "7" }.reason)
    assert.matches("^gpu: counts add up to 12, expected n_gpus = 8", one { gpu = "8xT4 + 4xV100-SXM2-16GB" }.reason)
  end)

  it("takes a GPU's name without its form for SXM, and a memory size that the catalogue lacks as it is", function()
    local a <const>, b <const> = one { gpu = "A100-40GB" }, one { gpu = "A100-SXM4-40GB" }
    assert.equal(b.predicted_s, a.predicted_s)
    assert.is_true(one({ gpu = "V100-32GB" }).predicted_s > a.predicted_s)
    assert.equal(one({ gpu = "H100-SXM5-80GB" }).predicted_s, one({ gpu = "H100-SXM5-96GB" }).predicted_s)
  end)

  it("a stage of unlike GPUs takes the slowest one's time and each one's memory", function()
    local mixed <const> = one { gpu = "4xV100-SXM2-16GB + 4xT4", gpus_per_node = 4, pp = 1, dp = 4 }
    local slow <const> = one { gpu = "T4", gpus_per_node = 4, pp = 1, dp = 4 }
    local fast <const> = one { gpu = "V100-SXM2-16GB", gpus_per_node = 4, pp = 1, dp = 4 }
    assert.is_true(fast.predicted_s < slow.predicted_s)
    assert.near(slow.predicted_s, mixed.predicted_s, 1e-3 * slow.predicted_s)
    assert.near(math.max(slow.predicted_bytes, fast.predicted_bytes), mixed.predicted_bytes, 1)
  end)

  it("ranks follow the column's order, tensor, data, then pipeline parallelism outermost", function()
    -- stage 1 on V100, stage 2 on T4, against the other way round: the head's stage is the heavier one
    local front <const> = one { gpu = "4xV100-SXM2-16GB + 4xT4", gpus_per_node = 4 }
    local rear <const> = one { gpu = "4xT4 / 4xV100-SXM2-16GB", gpus_per_node = 4 }
    assert.is_true(rear.predicted_s < front.predicted_s)
  end)

  it("interleaving shortens the bubble of equal stages", function()
    local plain <const>, two <const> = one { gbs = 8, mbs = 1 }, one { gbs = 8, mbs = 1, vpp = 2 }
    assert.is_true(two.predicted_s < plain.predicted_s)
    assert.is_true(two.predicted_bytes > plain.predicted_bytes) -- 1 + (p - 1) / (p v) of a rank's layers in flight
  end)

  it("prints groups, JSON of the format and a page", function()
    local folder <const> = support.folder()
    support.write(folder .. "/runs.csv", csv { source_key = "mine" } .. csv({ id = "s", tp = 3, source_key = "mine" }):match "\n(.*)")
    local status <const>, out <const>, err <const> = support.run(
      ("tangram validate %s/runs.csv --by gpu --html %s/runs.html"):format(folder, folder))
    assert.equal("", err)
    assert.equal(0, status)
    assert.matches("A100%-SXM4%-80GB +1 ", out)
    assert.matches("not expressed: s: tp, pp, dp, cp: multiply to 12, expected n_gpus = 8\n", out)
    local page <const> = support.read(folder .. "/runs.html")
    assert.matches("<title>r: measured 1 s, predicted", page)
    assert.is_nil(page:find("http", 1, true))
    local _, json <const> = support.run(("tangram validate %s/runs.csv --json -"):format(folder))
    local decoded <const> = assert(core.json_decode(json))
    assert.same({ "r", 1 }, { decoded.rows[1].id, decoded.rows[1].measured_s })
    assert.equal("tp, pp, dp, cp: multiply to 12, expected n_gpus = 8", decoded.rows[2].reason)
    assert.same({ 2, 1 }, { decoded.groups[1].rows, decoded.groups[1].not_expressed })
    support.remove(folder)
  end)
end)

describe("validate: measured runs", function()
  local path <const> = support.shared "data/measured/runs.csv"
  local result <const> = path and validate.run(support.read(path), path)

  --- Errors of the rows that `pick` takes, by field "time" or "memory".
  local function errors(pick, field)
    local list <const> = {}
    for _, row in ipairs(result.rows) do
      if pick(row.row) then list[#list + 1] = row end
    end
    return validate.group(list, "", "")[field]
  end
  local function source(...)
    local names <const> = {}
    for _, name in ipairs { ... } do names[name] = true end
    return function(row) return names[row.source_key] end
  end
  local function check(e, rows_least, bars, name)
    assert.is_true(e.count >= rows_least, name .. ": rows " .. e.count)
    for figure, bar in pairs(bars) do
      local value <const> = e[figure]
      local good <const> = figure == "spearman" and value >= bar or figure ~= "spearman" and value <= bar
      assert.is_true(good, ("%s: %s %.3f, bar %.3f"):format(name, figure, value, bar))
    end
  end

  it("time: the bars of what is reachable, by GPU and software", function()
    if not path then return pending "data/measured is not there" end
    local function of_gpu(pattern, pick) return function(row) return row.gpu:find(pattern) and pick(row) end end
    local a100 <const> = source("vtrain_multi", "bigscience_a100", "megatron_sc21", "korthikanti22", "llmfoundry")
    check(errors(of_gpu("^A100", a100), "time"), 255, { mape = 0.065, p90 = 0.16 }, "A100")
    check(errors(source "korthikanti22", "time"), 5, { mape = 0.05 }, "Korthikanti")
    check(errors(of_gpu("^H100", source "llmfoundry"), "time"), 58, { mape = 0.06 }, "H100, FSDP")
    check(errors(function(row)
      return row.kind == "dense" and source("mbridge_h100", "mcore_h100", "nemo_longseq")(row)
    end, "time"), 24, { mape = 0.06 }, "H100, Megatron-Core")
    check(errors(function(row) return row.kind == "moe" and row.source_key == "mbridge_h100" end, "time"), 10, { median = 0.08 },
      "H100, experts")
    check(errors(source "simumax_b200", "time"), 33, { mape = 0.06 }, "B200")
    check(errors(source("dlperf_megatron_v100", "dlperf_oneflow_v100"), "time"), 25, { mape = 0.12 }, "V100")
    check(errors(source "amp_t4", "time"), 37, { mape = 0.08 }, "T4")
    check(errors(source "amp_het", "time"), 34, { mape = 0.15, spearman = 0.7 }, "V100 and T4")
    check(errors(source "sailor_mit", "time"), 8, { mape = 0.12 }, "RTX")
    check(errors(source "sailor_gh200", "time"), 25, { mape = 0.08 }, "GH200")
  end)

  it("time: the best measured plan on mixed GPUs is among the three predicted best", function()
    if not path then return pending "data/measured is not there" end
    local list <const>, best_s = {}, math.huge
    for _, row in ipairs(result.rows) do
      if row.row.source_key == "amp_het" then
        list[#list + 1] = row
        best_s = math.min(best_s, row.measured_s)
      end
    end
    table.sort(list, function(a, b) return a.predicted_s < b.predicted_s end)
    assert.is_true(math.min(list[1].measured_s, list[2].measured_s, list[3].measured_s) <= 1.05 * best_s)
  end)

  it("time: one node of A100s", function()
    local single <const> = support.shared "data/measured/vtrain_single.csv"
    if not single then return pending "data/measured is not there" end
    check(validate.run(support.read(single), single).all.time, 960, { mape = 0.09 }, "vtrain_single")
  end)

  it("memory: the bars, and with a margin of 8 % no run by more than 2 % above its prediction", function()
    if not path then return pending "data/measured is not there" end
    check(errors(source "simumax_b200", "memory"), 33, { mape = 0.04 }, "SimuMax")
    check(errors(source "bigscience_a100", "memory"), 30, { mape = 0.09 }, "BigScience")
    for _, name in ipairs { "simumax_b200", "bigscience_a100", "sailor_gh200", "dlperf_oneflow_v100", "sailor_mit", "galvatron_fork" } do
      local e <const> = errors(source(name), "memory")
      assert.is_true(1.08 * (1 + e.low.error) >= 0.98, ("%s: %s %.3f"):format(name, e.low.id, e.low.error))
    end
  end)

  it("README.md has the table that this makes", function()
    if not path then return pending "data/measured is not there" end
    local readme <const> = support.read "README.md"
    for line in validate.markdown(result, "source"):gmatch "[^\n]+" do
      assert.is_true(readme:find(line, 1, true) ~= nil, "not in README.md: " .. line)
    end
  end)

  it("every row is predicted, or named with its reason", function()
    if not path then return pending "data/measured is not there" end
    for _, row in ipairs(result.rows) do
      assert.is_true(row.reason ~= nil or row.predicted_s > 0 and row.predicted_bytes > 0, row.id)
    end
    local left_out <const> = {}
    for _, row in ipairs(result.rows) do
      if row.reason then left_out[#left_out + 1] = row.id end
    end
    assert.same({ "sailor_gh200-008" }, left_out) -- 26 layers of a model of 34
  end)
end)
