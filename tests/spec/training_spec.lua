local training <const> = require "tangram.training"

describe("training", function()
  local function check(changes)
    local t <const> = { global_batch = 96, seq_len = 2048 }
    for name, value in pairs(changes or {}) do t[name] = value end
    return training.check(t, "r.lua: training")
  end

  it("fills defaults in", function()
    assert.same({ global_batch = 96, seq_len = 2048, precision = "auto", gradient_bytes = 4, optimizer = "adam",
      attention = "auto", dropout = false, memory_margin = 0.1, microbatches = { min = 1, max = 96 } }, check())
    assert.same(check { precision = "fp16" }, training.check(check { precision = "fp16" }))
    assert.same({ min = 4, max = 96 }, check({ microbatches = { min = 4 } }).microbatches)
    assert.same({ min = 4, max = 8 }, check({ microbatches = { 4, 8 } }).microbatches)
  end)

  it("refuses 0, negative, fractional and huge batches, sequences and ranges", function()
    for _, field in ipairs { "global_batch", "seq_len" } do
      for _, value in ipairs { 0, -8, 1.5, 1e30, "8" } do
        assert.error_matches(function() check { [field] = value } end,
          "^r.lua: training: " .. field .. ": got .+, expected a whole number from 1 to 16777216$")
      end
      assert.error_matches(function() check { microbatches = { min = 0 } } end, "microbatches: min: got 0")
    end
    assert.error_matches(function() training.check({ seq_len = 8 }) end, "training: global_batch: missing")
  end)

  it("refuses unknown fields and words with the nearest", function()
    local cases <const> = {
      { { global_bach = 3 }, "global_bach: unknown field %(did you mean 'global_batch'%?%)" },
      { { precision = "bf61" }, "precision: got 'bf61', expected one of 'auto', .+did you mean 'bf16'" },
      { { attention = "flas" }, "did you mean 'flash'" },
      { { gradient_bytes = 3 }, "gradient_bytes: got 3, expected one of 4, 2" },
      { { optimizer = "sgd" }, "optimizer: got 'sgd', expected one of 'adam'" },
      { { dropout = 0 }, "dropout: got 0, expected true or false" },
      { { memory_margin = 1 }, "memory_margin: got 1, expected a number from 0 to 0.9" },
      { { memory_margin = -0.1 }, "memory_margin: got %-0.1" },
    }
    for _, case in ipairs(cases) do assert.error_matches(function() check(case[1]) end, case[2]) end
  end)

  it("lists the divisors of the batch within the range, from large to small", function()
    for _, n in ipairs { 1, 2, 7, 36, 96, 128, 1000, 1023 } do
      local all <const> = {}
      for d = n, 1, -1 do
        if n % d == 0 then all[#all + 1] = d end
      end
      assert.same(all, training.microbatch_counts(check { global_batch = n }))
    end
    assert.same({ 24, 16, 12, 8 }, training.microbatch_counts(check { microbatches = { min = 8, max = 31 } }))
  end)

  it("refuses a range that no divisor lies in, with the nearest divisors", function()
    assert.error_matches(function() check { global_batch = 7, microbatches = { min = 2, max = 6 } } end,
      "^r.lua: training: microbatches: got 2..6, expected a range that holds a divisor of global_batch = 7 %(nearest: 1 and 7%)$")
    assert.error_matches(function() check { microbatches = { min = 97, max = 200 } } end, "nearest: 96%)")
    assert.error_matches(function() check { microbatches = { min = 9, max = 8 } } end, "got min = 9 above max = 8")
  end)

  it("takes bf16 where every GPU has it, else fp16 and says so", function()
    local a100 <const> = { name = "a100", bf16_flops = 1, fp16_flops = 1 }
    local v100 <const> = { name = "v100", fp16_flops = 1 }
    local tpu <const> = { name = "tpu", bf16_flops = 1 }
    local h100 <const> = { name = "h100", bf16_flops = 1, fp16_flops = 1, fp8_flops = 2 }
    local function resolve(precision, ...) return training.resolve_precision(check { precision = precision }, { ... }) end
    assert.same({ "bf16" }, { resolve("auto", a100, h100) })
    assert.same({ "fp16", "precision is fp16 with loss scaling, as v100 can't do bf16" }, { resolve("auto", a100, v100, v100) })
    assert.same({ nil, "precision: no 16-bit precision suits every GPU: v100 without bf16, tpu without fp16" },
      { resolve("auto", tpu, v100) })
    assert.same({ "fp32" }, { resolve("fp32", v100) })
    assert.same({ "fp8" }, { resolve("fp8", h100) })
    assert.matches("got 'fp8', which a100 can't", select(2, resolve("fp8", h100, a100)))
    assert.matches("got 'bf16', which v100 can't", select(2, resolve("bf16", v100)))
  end)
end)
