--- How much sooner 2 workers plan than 1, on an adapter that computes 1 ms a query. Run by the program from the checkout;
--- the ratio is of one run, each number of workers in turn, the best of 3 rounds.
local core <const> = require "tangram.core"
local planner <const> = require "tangram.planner"

local folder <const> = os.tmpname()
os.remove(folder)
assert(os.execute("mkdir " .. folder))
local path <const> = folder .. "/busy.lua"
local file <const> = assert(io.open(path, "w"))
-- About 1 ms of arithmetic, then one stage.
file:write(([[
return { api = 1, kind = "parallelizer", name = "busy", own_times = true,
  plan = function(slice, island, ctx)
    local x = 0.0
    for i = 1, %d do x = x + 1.0 / i end
    return { { { atoms = #slice, gpus = island.gpus, strategy = { dp = 1, tp = island.gpus }, forward_s = #slice * 1e-3,
      backward_s = #slice * 2e-3, sync_s = x * 0, static_bytes = 1e9, inflight_bytes = 1e6, transient_bytes = 1e6 } } }
  end }
]]):format(tonumber(arg[1]) or 200000))
file:close()

local function seconds(workers)
  local started_s <const> = core.clock_s()
  local plan <const> = assert(planner.plan {
    model = { name = "deep", family = "gpt2", layers = 30, hidden = 1024, heads = 16, vocab = 50272, positions = 1024 },
    cluster = { nodes = { { name = "a1", gpu = "a100-pcie-80", gpus = 1 }, { name = "t1", gpu = "t4", gpus = 1 } },
      network = { default = { bytes_per_s = "3 GB/s", latency_s = "20 us" } } },
    training = { global_batch = 1, seq_len = 1024 }, parallelizer = path, prune = {}, merged = false, workers = workers,
  })
  return core.clock_s() - started_s, plan.pairs.queried
end

local best <const> = {}
for round = 1, 3 do
  for workers = 1, 2 do
    local s <const>, queries <const> = seconds(workers)
    best[workers] = math.min(best[workers] or math.huge, s)
    print(("round %d: %d worker%s: %.2f s, %.2f ms a query of %d"):format(round, workers, workers == 1 and " " or "s", s,
      s / queries * 1e3, queries))
  end
end
print(("2 workers are %.2f times as fast as 1"):format(best[1] / best[2]))
os.execute("rm -r " .. folder)
