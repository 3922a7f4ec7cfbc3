--- Microseconds a query of a parallelizer (words: its name, default uniform) and a bound, on the paper's third cluster:
--- GPT-3 13B over islands of 4, 8, 4 and 4 GPUs, all values of B, every slice that the policy `redundant` leaves. Run by the
--- program from the checkout.
package.path = "./?.lua;" .. package.path
local pricing <const> = require "tests.spec.pricing"
local schema <const> = require "tangram.schema"
local NAME <const> = (arg or {})[1] or "uniform"
local adapter <const>, bounded <const> = dofile("parallelizers/" .. NAME .. ".lua"), dofile "lua/prune/bounded.lua"

local GiB <const> = 2 ^ 30
local kinds <const> = {
  { "a100", 4, 80 * GiB, { { 2, 253e9 }, { 4, 44e9 } },
    { arch = "Ampere", bf16_flops = 312e12, fp16_flops = 312e12, memory_bytes_per_s = 2039e9, pcie_bytes_per_s = 31.5e9 } },
  { "v100-32", 8, 32 * GiB, { { 2, 45.7e9 }, { 8, 21.9e9 } },
    { arch = "Volta", fp16_flops = 125e12, memory_bytes_per_s = 900e9, pcie_bytes_per_s = 15.75e9 } },
  { "v100-16", 4, 16 * GiB, { { 2, 10.9e9 }, { 4, 11.4e9 } },
    { arch = "Volta", fp16_flops = 125e12, memory_bytes_per_s = 900e9, pcie_bytes_per_s = 15.75e9 } },
  { "t4", 4, 16 * GiB, { { 2, 6e9 }, { 4, 5.9e9 } },
    { arch = "Turing", fp16_flops = 65e12, memory_bytes_per_s = 320e9, pcie_bytes_per_s = 15.75e9 } },
}
local islands <const> = {}
for i, kind in ipairs(kinds) do
  islands[i] = pricing.island { index = i, name = kind[1], gpu = kind[1], gpus = kind[2], gpus_per_node = kind[2],
    compute_flops = kind[5].fp16_flops, memory_bytes = kind[3], intra = kind[4], device = kind[5], signature = kind[1] }
end
local model <const> = { hidden = 5120, layers = 40, heads = 40, vocab = 50272, positions = 2048 }
local training <const> = { global_batch = 128, seq_len = 2048, precision = "fp16", gradient_bytes = 4 }

local base <const> = pricing.context(model, training, islands[1], 1)
local cost <const> = pricing.wrap "lua/cost/analytic.lua"
local options <const> = schema.check({}, adapter.options, NAME)
local all_queries, all_s, all_bounds, all_bound_s = 0, 0, 0, 0
for _, microbatches in ipairs { 128, 64, 32, 16, 8, 4, 2, 1 } do
  for _, on in ipairs(islands) do
    local ctx <const> = pricing.context(model, training, on, microbatches, { islands = islands, atoms = base.atoms, model = base.model,
      training = base.training, cost = cost, options = options, memo = {} })
    local bound_ctx <const> = setmetatable({ memo = {} }, { __index = ctx })
    local count <const>, asked <const> = #ctx.atoms, {}
    local planned, plans = 0, 0
    for first = 1, count do
      for last = first, count do
        -- slices without an end differ by their length alone
        if first <= 2 or last == count then asked[#asked + 1] = pricing.run(ctx, first, last) end
      end
    end
    local from_s <const> = os.clock()
    for _, slice in ipairs(asked) do
      ctx.successors = slice.last == count and 0 or 1
      local answer <const> = adapter.plan(slice, on, ctx)
      planned, plans = planned + (answer and 1 or 0), plans + #(answer or {})
    end
    local middle_s <const> = os.clock()
    for _, slice in ipairs(asked) do bounded.bound({ slice = slice, island = on }, bound_ctx) end
    local to_s <const> = os.clock()
    print(("B %3d  %-8s %d of %d slices planned, %4.1f plans each; %4.0f us a query, %5.1f us a bound"):format(microbatches, on.name,
      planned, #asked, plans / math.max(1, planned), (middle_s - from_s) / #asked * 1e6, (to_s - middle_s) / #asked * 1e6))
    all_queries, all_s = all_queries + #asked, all_s + middle_s - from_s
    all_bounds, all_bound_s = all_bounds + #asked, all_bound_s + to_s - middle_s
  end
end
print(("%d queries in %.2f s, %.0f us each; bounds, floors included, %.2f s, %.0f us each"):format(all_queries, all_s,
  all_s / all_queries * 1e6, all_bound_s, all_bound_s / all_bounds * 1e6))
