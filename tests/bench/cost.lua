--- The analytic cost model: CPU microseconds of one stage's evaluation, of an atom priced anew, and of a search's probe of a stage.
--- Least of several rounds.
local catalog <const> = require "tangram.catalog"
local pricing <const> = require "tests.spec.pricing"

local ROUNDS <const>, CALLS <const> = 7, 20000

local function least_us(f)
  local least = math.huge
  for _ = 1, ROUNDS do
    local start <const> = os.clock()
    for i = 1, CALLS do f(i) end
    least = math.min(least, (os.clock() - start) / CALLS)
  end
  return least * 1e6
end

local device <const> = catalog.find_gpu "a100-sxm4-80"
local island <const> = pricing.island({ gpu = device.key, gpus = 16, intra = { { 1, device.link_bytes_per_s } } }, device)
local ctx <const> = pricing.context({ family = "llama", hidden = 8192, layers = 80, heads = 64, kv_heads = 8, ffn = 28672, vocab = 128256 },
  { global_batch = 256, seq_len = 4096 }, island, 32)
local cost <const> = pricing.wrap "lua/cost/analytic.lua"
local strategies <const> = {}
for tp = 0, 3 do
  for zero = 0, 2 do
    strategies[#strategies + 1] = { dp = 8 >> tp, tp = 1 << tp, zero = zero }
  end
end
local runs <const> = {}
for i = 1, 32 do runs[i] = pricing.run(ctx, i, i + 20 + i % 7) end

print(("stage: %.2f us (%d strategies, %d slices of 21 to 28 atoms)"):format(
  least_us(function(i) return cost.stage(runs[i % #runs + 1], island, strategies[i % #strategies + 1], ctx) end), #strategies, #runs))
local terms <const> = cost.terms(island, strategies[4], ctx)
print(("probe of a stage: %.2f us"):format(least_us(function(i) return terms:probe(1 + i % 40, 41 + i % 40, 1, 3, false) end)))
