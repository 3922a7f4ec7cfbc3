--- Plans a small problem with plugins given as source: what specs of faults share.
local core <const> = require "tangram.core"
local planner <const> = require "tangram.planner"
local support <const> = require "tests.spec.support"

local faulty <const> = {}

--- A plugin's file in the folder.
function faulty.write(folder, name, source) return support.write(("%s/%s.lua"):format(folder, name), source) end

--- A model of five atoms (embedding, three layers, head) on two islands of one node; `changes` replace fields of the spec.
--- Where planning raises, the run is lost, and so is the spec.
---@return table? plan, string? why, integer? status
function faulty.plan(changes)
  local spec <const> = {
    model = { name = "small", family = "llama", layers = 3, hidden = 1024, heads = 8, vocab = 32000, positions = 2048, ffn = 2816 },
    cluster = { nodes = { { name = "a1", gpu = "a100-pcie-80", gpus = 2 }, { name = "v1", gpu = "v100-sxm2-32", gpus = 2 } },
      network = { default = { bytes_per_s = "3 GB/s", latency_s = 2e-5 } } },
    training = { global_batch = 2, seq_len = 1024, precision = "fp16", microbatches = { min = 2, max = 2 } }, merged = false,
    query_seconds = 120, query_memory_bytes = 256 << 20, workers = 2, gap = 0,
  }
  for name, value in pairs(changes) do spec[name] = value end
  local plan <const>, why <const>, status <const> = planner.plan(spec)
  if plan then assert(core.plan_check(require("tangram.plan").encode(plan))) end
  return plan, why, status
end

--- Whether a line of the plan's notes matches.
function faulty.noted(plan, pattern)
  for _, line in ipairs(plan.warnings) do
    if line:match(pattern) then return true end
  end
  return false, table.concat(plan.warnings, "\n")
end

--- The body of a function for each way to fail that adapters, cost models and policies share. `n` counts calls.
faulty.ways = {
  raises = "error 'boom'", raises_a_table = "error {}",
  raises_in_tostring = "error(setmetatable({}, { __tostring = function() error 'again' end }))",
  raises_nil = "error()", overflows = "local function f() return 1 + f() end return f()",
  loops = "while true do end", loops_in_pcall = "while true do pcall(function() while true do end end) end",
  loops_in_handler = "return xpcall(function() while true do end end, function() while true do end end)",
  eats_memory = "local t = {} while true do t[#t + 1] = ('x'):rep(1000) .. #t end",
  eats_memory_in_pcall = "local t = {} while true do pcall(function() while true do t[#t + 1] = ('x'):rep(100000) .. #t end end) end",
  returns_nothing = "return", returns_text = "return 'text'", returns_a_cycle = "local t = {} t[1], t.x = t, t return t",
  returns_a_trap = "return setmetatable({}, { __index = function() while true do end end, __len = function() return 1 end })",
}

--- Limits under which a way fails soon, and of what it is to fail. Lua's own limit on the stack is some 100 MiB.
---@param way string
---@return table seconds and bytes of a query
function faulty.limits(way)
  return { query_seconds = way:match "loops" and 0.1 or way:match "pcall" and 0.2 or way:match "trap" and 0.1 or 120,
    query_memory_bytes = (way == "overflows" and 256 or 24) << 20 }
end

--- Plans under limits that cut soon what never ends; anew with more seconds where a busy machine let them cut honest work.
---@param limits table as faulty.limits
---@param plan fun(limits: table): table?, ... a plan, or nil and why not
---@param honest fun(made: table): boolean whether nothing honest was cut
---@return table limits the last ones
---@return ... what plan returned
function faulty.unhurried(limits, plan, honest)
  while true do
    local results <const> = table.pack(pcall(plan, limits))
    local fine <const>, made <const> = results[1], results[2]
    if fine and made and honest(made) or limits.query_seconds >= 120 then
      if not fine then error(made, 0) end
      return limits, table.unpack(results, 2, results.n)
    end
    limits.query_seconds = math.min(120, 5 * limits.query_seconds)
  end
end

--- Whether only slices of three atoms failed.
function faulty.only_threes(made)
  for _, one in ipairs(made.pairs.failed) do
    if one.slice[2] - one.slice[1] ~= 3 then return false end
  end
  return true
end

--- A number as a pattern that matches it.
function faulty.literally(number) return (("%g"):format(number):gsub("%p", "%%%0")) end

return faulty
