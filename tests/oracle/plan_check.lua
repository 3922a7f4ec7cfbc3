--- A second opinion on a plan, in plain Lua and sharing no code with the engine: `lua5.4 tests/oracle/plan_check.lua
--- PLAN.json` says `ok` and the time, or what is wrong (status 1). Also a module: check(plan), simulate(plan).
local targets <const> = require "tests.oracle.target"

local oracle <const> = {}

--- What stage s does, in its order: { "F"|"B", microbatch } for overlapped transfers.
local function operations(depth, count)
  local list <const> = {}
  for m = 1, depth do list[#list + 1] = { "F", m } end
  for m = depth + 1, count do
    list[#list + 1] = { "F", m }
    list[#list + 1] = { "B", m - depth }
  end
  for m = count - depth + 1, count do list[#list + 1] = { "B", m } end
  return list
end

--- Repeats sweeps over all stages, in each of which `advance(s)` does what it can, until nothing moves.
local function sweep(stages, advance, remaining)
  repeat
    local moved = false
    for s = 1, stages do
      while remaining(s) and advance(s) do moved = true end
    end
  until not moved
  for s = 1, stages do
    if remaining(s) then return nil, "the pipeline waits for itself" end
  end
  return true
end

local function overlapped(plan)
  local count <const>, B <const> = #plan.stages, plan.microbatches
  local clock, step, queue, arrived, wire_free, last_backward = {}, {}, {}, {}, {}, {}
  for s = 1, count do clock[s], step[s], queue[s] = 0, 1, operations(plan.warmup[s], B) end
  local function send(kind, from, to, m, now)
    local wire <const> = kind .. math.min(from, to)
    local at <const> = math.max(now, wire_free[wire] or 0) + plan.stages[math.min(from, to)].transfer_s
    wire_free[wire], arrived[kind .. to .. ":" .. m] = at, at
  end
  local ok <const>, why <const> = sweep(count, function(s)
    local kind <const>, m <const> = table.unpack(queue[s][step[s]])
    local from_outside <const> = kind == "F" and s > 1 or kind == "B" and s < count
    local ready <const> = from_outside and arrived[kind .. s .. ":" .. m] or not from_outside and 0
    if not ready then return false end
    clock[s] = math.max(clock[s], ready) + plan.stages[s][kind == "F" and "forward_s" or "backward_s"]
    if kind == "F" and s < count then send("F", s, s + 1, m, clock[s]) end
    if kind == "B" and s > 1 then send("B", s, s - 1, m, clock[s]) end
    if kind == "B" then last_backward[s] = clock[s] end
    step[s] = step[s] + 1
    return true
  end, function(s) return queue[s][step[s]] end)
  return ok and last_backward, why
end

--- Steps of a stage with blocking transfers: a computation, or a batch of messages, each named by its kind, the front one
--- of its two stages, and its microbatch.
local function blocking_steps(s, count, depth, B)
  local list <const> = {}
  local function messages(...)
    local batch <const> = {}
    for _, m in ipairs { ... } do
      if m and m.front >= 1 and m.front < count then batch[#batch + 1] = m.kind .. m.front .. ":" .. m.microbatch end
    end
    list[#list + 1] = { batch = batch, front_of = s }
  end
  local function receive_f(m) return { kind = "F", front = s - 1, microbatch = m } end
  local function send_f(m) return { kind = "F", front = s, microbatch = m } end
  local function receive_b(m) return { kind = "B", front = s, microbatch = m } end
  local function send_b(m) return { kind = "B", front = s - 1, microbatch = m } end
  for m = 1, depth do
    messages(receive_f(m))
    list[#list + 1] = { compute = "forward_s" }
    messages(send_f(m))
  end
  if depth < B then messages(receive_f(depth + 1)) end
  for m = depth + 1, B do
    list[#list + 1] = { compute = "forward_s" }
    messages(send_f(m), receive_b(m - depth))
    list[#list + 1] = { compute = "backward_s" }
    messages(send_b(m - depth), m < B and receive_f(m + 1))
  end
  for m = B - depth + 1, B do
    messages(receive_b(m))
    list[#list + 1] = { compute = "backward_s" }
    messages(send_b(m))
  end
  return list
end

local function blocking(plan)
  local count <const>, B <const> = #plan.stages, plan.microbatches
  local clock, step, queue, posts, last_backward = {}, {}, {}, {}, {}
  for s = 1, count do
    clock[s], step[s], queue[s] = 0, 1, blocking_steps(s, count, plan.warmup[s], B)
  end
  local ok <const>, why <const> = sweep(count, function(s)
    local now <const> = queue[s][step[s]]
    if now.compute then
      clock[s] = clock[s] + plan.stages[s][now.compute]
      if now.compute == "backward_s" then last_backward[s] = clock[s] end
    else
      local over = clock[s]
      for _, name in ipairs(now.batch) do
        posts[name] = posts[name] or {}
        posts[name][s] = clock[s]
      end
      for _, name in ipairs(now.batch) do
        local front <const> = tonumber(name:match "^%a(%d+)")
        local a <const>, b <const> = posts[name][front], posts[name][front + 1]
        if not (a and b) then return false end
        over = math.max(over, math.max(a, b) + plan.stages[front].transfer_s)
      end
      clock[s] = over
    end
    step[s] = step[s] + 1
    return true
  end, function(s) return queue[s][step[s]] end)
  return ok and last_backward, why
end

--- Seconds of one iteration, or nil and why (COMPOSITION.md, section 2).
function oracle.simulate(plan)
  local ends <const>, why <const> = (plan.p2p == "blocking" and blocking or overlapped)(plan)
  if not ends then return nil, why end
  local time_s = 0
  for s, stage in ipairs(plan.stages) do time_s = math.max(time_s, ends[s] + stage.sync_s) end
  return time_s
end

local function near(a, b) return math.abs(a - b) <= 1e-9 * math.max(math.abs(a), math.abs(b)) end

--- True and the simulated time, or nil and what is wrong.
--- Bytes of each GPU of a node, by index.
local function memory_by_gpu(node)
  local bytes <const>, at = {}, 0
  local kinds <const> = type(node.gpus) == "table" and node.gpus or { { count = node.gpus, memory_bytes = node.memory_bytes } }
  for _, kind in ipairs(kinds) do
    for _ = 1, kind.count do bytes[at], at = kind.memory_bytes, at + 1 end
  end
  return bytes
end

function oracle.check(plan)
  local nodes <const>, taken <const> = {}, {}
  for _, node in ipairs(plan.cluster.nodes) do nodes[node.name] = memory_by_gpu(node) end
  local atoms <const> = plan.granularity == "adapter" and plan.atoms or plan.model.layers * (plan.granularity == "half" and 2 or 1) + 2
  local next_atom = 0
  for i, stage in ipairs(plan.stages) do
    local place <const> = "stage " .. i .. ": "
    if stage.first ~= next_atom or stage.last <= stage.first then return nil, place .. "atoms leave a hole or overlap" end
    next_atom = stage.last
    local gpus, smallest = 0, math.huge
    for _, part in ipairs(stage.gpus) do
      local node <const> = nodes[part.node]
      if not node then return nil, place .. "no node " .. part.node end
      for _, index in ipairs(part.indices) do
        local key <const> = part.node .. " " .. index
        if not node[index] then return nil, place .. "no GPU " .. key end
        smallest = math.min(smallest, node[index])
        if taken[key] then return nil, place .. "GPU " .. key .. " is used twice" end
        taken[key], gpus = true, gpus + 1
      end
    end
    local strategy <const>, memory <const> = stage.strategy, stage.memory
    if strategy.dp * strategy.tp * strategy.cp ~= gpus then return nil, place .. "degrees do not give its GPUs" end
    if plan.training.global_batch % (plan.microbatches * strategy.dp) ~= 0 then return nil, place .. "dp does not divide" end
    if stage.inflight ~= math.min(plan.warmup[i] + 1, plan.microbatches) then return nil, place .. "in flight" end
    local total = 0
    for name, bytes in pairs(memory) do
      if name ~= "total_bytes" and name ~= "capacity_bytes" then total = total + bytes end
    end
    local capacity <const> = (1 - plan.training.memory_margin) * smallest
    if not near(total, memory.total_bytes) then return nil, place .. "memory does not add up" end
    if not near(capacity, memory.capacity_bytes) then return nil, place .. "capacity" end
    if memory.total_bytes > capacity * (1 + 1e-9) then return nil, place .. "memory does not fit" end
  end
  if next_atom ~= atoms then return nil, ("%d of %d atoms"):format(next_atom, atoms) end
  if type(plan.target) == "string" then
    local runs <const>, broken <const> =
      targets.check(plan.target, plan.stages, plan.model, plan.training.global_batch // plan.microbatches)
    if not runs then return nil, ("%s can't run it: %s"):format(plan.target, broken) end
  end
  local time_s <const>, why <const> = oracle.simulate(plan)
  if not time_s then return nil, why end
  if not near(time_s, plan.time_s) then return nil, ("time_s %.17g simulates to %.17g"):format(plan.time_s, time_s) end
  return true, time_s
end

if not (arg and arg[0] and arg[0]:find "oracle/plan_check%.lua$") then return oracle end

local file <close> = assert(io.open(arg[1] or error("usage: plan_check.lua PLAN.json", 0)))
local plan <const>, _, broken <const> = require "dkjson".decode(file:read "a")
local ok, told = nil, broken
if plan then ok, told = oracle.check(plan) end
print(ok and ("ok, %.17g s"):format(told) or told)
os.exit(ok and 0 or 1)
