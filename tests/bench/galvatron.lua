--- CPU seconds of Galvatron's own search against the original's (as recorded with the golden runs), and microseconds a query of
--- the parallelizer: GPT-3 13B on 8 V100, every slice that the policy `redundant` leaves. Run by the program from the checkout.
package.path = "./?.lua;" .. package.path
local core <const> = require "tangram.core"
local importer <const> = require "tangram.input.galvatron"
local pricing <const> = require "tests.spec.pricing"
local schema <const> = require "tangram.schema"
local search <const> = require "tangram.galvatron.search"
local support <const> = require "tests.spec.support"
local adapter <const> = dofile "parallelizers/galvatron.lua"

local golden <const> = support.shared "data/galvatron/golden_search.json"
if golden then
  local folder <const> = golden:match "^(.*)/"
  local profile <const> = importer.read { folder = folder .. "/profiles_main_gpt", hardware_folder = folder .. "/hardware_configs",
    model = "llama2-7b", time_mode = "batch" }
  for _, case in ipairs(core.json_decode(support.read(golden))) do
    local i <const> = case.inputs
    if i.prof == "profiles_main_gpt" then
      local from_s <const> = os.clock()
      search.find(profile, { gpus = 8, layers = i.layers, hidden = i.hidden, seq_len = i.seq, global_batch = i.settle_bsz,
        microbatches = i.settle_chunk, budget_bytes = i.mem * 2 ^ 30, uniform = i.fine == 0, recompute = i.disable_ckpt ~= 1 })
      local seconds <const> = os.clock() - from_s
      print(("%-10s %7.4f s, the original %5.2f s: %4.0f times less"):format(case.case, seconds, case.cpu_user_s,
        case.cpu_user_s / seconds))
    end
  end
else
  print "data/galvatron is not there: no searches of its own"
end

local island <const> = pricing.island({ name = "v100", gpu = "v100", memory_bytes = 32 * 2 ^ 30, compute_flops = 125e12,
  intra = { { 2, 45.7e9 }, { 8, 21.9e9 } } },
  { arch = "Volta", fp16_flops = 125e12, memory_bytes_per_s = 900e9, pcie_bytes_per_s = 15.75e9 })
local model <const> = { hidden = 5120, layers = 40, heads = 40, vocab = 50272, positions = 2048 }
for _, mode in ipairs { "layerwise", "uniform" } do
  for _, microbatches in ipairs { 128, 32, 8 } do
    local ctx <const> = pricing.context(model, { global_batch = 128, seq_len = 2048, precision = "fp16" }, island, microbatches, {
      cost = pricing.wrap "lua/cost/analytic.lua", options = schema.check({ mode = mode }, adapter.options, "galvatron"), memo = {} })
    local queries, planned = 0, 0
    local from_s <const> = os.clock()
    for first = 1, #ctx.atoms do
      for last = first, #ctx.atoms do
        if first <= 2 or last == #ctx.atoms then -- slices without an end differ by their length alone
          ctx.successors, queries = last == #ctx.atoms and 0 or 1, queries + 1
          planned = planned + (adapter.plan(pricing.run(ctx, first, last), island, ctx) and 1 or 0)
        end
      end
    end
    print(("%-9s B %3d: %d of %d slices planned, %4.0f us a query"):format(mode, microbatches, planned, queries,
      (os.clock() - from_s) / queries * 1e6))
  end
end
