--- Aceso's evaluator and search on its own profiles: microseconds a plan of the goldens, priced anew and from known stages, and CPU
--- seconds of whole searches over all numbers of stages, with the microbatch free as in the original. Run by the program from the
--- checkout; needs the shared data.
package.path = "./?.lua;" .. package.path
local configuration <const> = require "tangram.aceso.configuration"
local core <const> = require "tangram.core"
local input <const> = require "tangram.input.aceso"
local operators <const> = require "tangram.aceso.operators"
local search <const> = require "tangram.aceso.search"
local support <const> = require "tests.spec.support"

if not support.shared "data/aceso/measured.json" then
  print "no shared data"
  return
end
local options <const> = {}
for name, field in pairs(search.options) do options[name] = field.default end

for _, name in ipairs { "1_3B_4gpu_12g", "1_3B_4gpu_28g", "2_6B_8gpu_28g", "6_7B_16gpu_28g", "13B_32gpu_28g" } do
  local path <const> = support.shared("data/aceso/golden_" .. name .. ".json")
  local golden <const> = core.json_decode(support.read(path))
  local from <const>, best <const> = golden.input, golden.best_plan
  local kinds <const>, sizes <const>, microbatches <const> = {}, { 1, 2, 4, 8 }, {}
  for i = 1, 13 * from.layers + 3 do kinds[i] = "operator" end
  for i, size in ipairs(sizes) do microbatches[i] = from.global_batch // size end
  local model <const> = operators.model(input.read(path:match "^(.*)/" .. "/" .. from.data, from.size), from.layers)
  local function space()
    return operators.space(model, { kinds = kinds, from = 1, to = #kinds, gpus = from.gpus, gpus_per_node = from.gpus_per_node,
      capacity_bytes = from.memory_limit_mib * 2.0 ^ 20, sizes = sizes, microbatches = microbatches })
  end
  local function plan(on)
    local size <const> = best.micro_batch == 1 and 1 or 2
    local c <const>, at = { size = size, last = {}, choice = {} }, 0
    for i, stage in ipairs(best.stages_short) do
      at = at + stage.n_ops
      c.last[i], c.choice[i] = at, on.choice(size, stage.tp[1][1], stage.dp[1][1])
    end
    return c
  end
  local repeats <const> = 2000
  local known <const> = space()
  local c <const> = plan(known)
  local from_s = os.clock()
  for _ = 1, repeats do
    for _, choice in ipairs(c.choice) do choice.memo = {} end
    configuration.measure(known, c)
  end
  local anew_us <const> = (os.clock() - from_s) / repeats * 1e6
  from_s = os.clock()
  for _ = 1, repeats do configuration.measure(known, c) end
  local known_us <const> = (os.clock() - from_s) / repeats * 1e6
  local least_s, stages, evaluated, explored = math.huge, 0, 0, 0
  local searched <const> = space()
  from_s = os.clock()
  for count = 1, math.min(16, from.gpus) do
    local found <const>, counts <const> = search.run(searched, count, options, #kinds, 1)
    if found and found.total_s < least_s then least_s, stages = found.total_s, count end
    if counts then evaluated, explored = evaluated + counts.evaluated, explored + counts.explored end
  end
  local search_s <const> = os.clock() - from_s
  print(("%-15s %2d stages: %3.0f us a plan priced anew, %3.1f us from known stages; search %.2f s, %d evaluated (%.0f us each), "
    .. "%d explored: %.1f ms at %d stages (original %.1f)"):format(name, #best.stages_short, anew_us, known_us, search_s, evaluated,
    search_s / evaluated * 1e6, explored, least_s * 1e3, stages, golden.expected.iteration_ms))
end
