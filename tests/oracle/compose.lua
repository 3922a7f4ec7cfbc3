--- Composition by brute force, written from the semantics alone: every sequence is listed, and simulated as a set of
--- dependency equations solved by memo. Instances are tangram.instance/1 as Lua tables (indices from 0, a null is `false`
--- or any value that is no table or number).
local oracle <const> = {}

local max <const>, min <const>, huge <const> = math.max, math.min, math.huge

--- The order of a stage's operations: w forwards, then forward and backward in turn, then the backwards left.
--- Forward of microbatch m is m + 1, backward -(m + 1).
local function order_of(w, microbatches)
  local list <const> = {}
  for m = 1, w do list[m] = m end
  for m = w + 1, microbatches do
    list[#list + 1] = m
    list[#list + 1] = w - m
  end
  for m = microbatches - w + 1, microbatches do list[#list + 1] = -m end
  return list
end

--- End of the last backward of each stage, or nil where the equations go round in a circle.
local function overlapped(stages, transfer, depth, microbatches)
  local S <const> = #stages
  local order <const>, place <const>, ends <const>, arrivals <const> = {}, {}, {}, {}
  for s = 1, S do
    order[s], place[s], ends[s], arrivals[s] = order_of(depth[s], microbatches), {}, {}, {}
    for k, op in ipairs(order[s]) do place[s][op] = k end
  end
  local finish
  --- When what operation op of stage s needs from its neighbour is there.
  local function arrival(s, op)
    local from <const> = op > 0 and s - 1 or s + 1
    if from < 1 or from > S then return 0 end
    local known = arrivals[s][op]
    if known then return known end
    local sent = finish(from, place[from][op])
    if not sent then return nil end
    if op ~= 1 and op ~= -1 then sent = max(sent, arrival(s, op > 0 and op - 1 or op + 1)) end
    known = sent + transfer[op > 0 and from or s]
    arrivals[s][op] = known
    return known
  end
  function finish(s, k)
    local known = ends[s][k]
    if known ~= nil then return known end -- false: being worked out, a circle
    ends[s][k] = false
    local op <const> = order[s][k]
    local before = 0
    if k > 1 then before = finish(s, k - 1) end
    local input <const> = before and arrival(s, op)
    if not input then return nil end
    known = max(before, input) + (op > 0 and stages[s].forward_s or stages[s].backward_s)
    ends[s][k] = known
    return known
  end
  local last <const> = {}
  for s = 1, S do
    last[s] = finish(s, 2 * microbatches)
    if not last[s] then return nil end
  end
  return last
end

--- The steps of a stage that sends and receives itself: numbers are computations, tables batches of messages, each
--- { link, to the rear?, microbatch }.
local function steps_of(s, S, w, microbatches)
  local steps <const> = {}
  local function batch(...)
    local messages <const> = {}
    for _, name in ipairs { ... } do
      local link <const> = (name[1] == "F" and name[2] == "in" or name[1] == "B" and name[2] == "out") and s - 1 or s
      if link >= 1 and link < S then messages[#messages + 1] = { link, name[1] == "F", name[3] } end
    end
    steps[#steps + 1] = messages
  end
  for m = 1, w do
    batch { "F", "in", m }
    steps[#steps + 1] = m
    batch { "F", "out", m }
  end
  if w < microbatches then batch { "F", "in", w + 1 } end
  for m = 1, microbatches - w do
    steps[#steps + 1] = w + m
    batch({ "F", "out", w + m }, { "B", "in", m })
    steps[#steps + 1] = -m
    if w + m < microbatches then
      batch({ "B", "out", m }, { "F", "in", w + m + 1 })
    else
      batch { "B", "out", m }
    end
  end
  for m = microbatches - w + 1, microbatches do
    batch { "B", "in", m }
    steps[#steps + 1] = -m
    batch { "B", "out", m }
  end
  return steps
end

local function blocking(stages, transfer, depth, microbatches)
  local S <const> = #stages
  local steps <const>, ends <const>, peer <const> = {}, {}, {}
  for s = 1, S do
    steps[s], ends[s] = steps_of(s, S, depth[s], microbatches), {}
    for k, step in ipairs(steps[s]) do
      if type(step) == "table" then
        for _, message in ipairs(step) do
          local key <const> = (message[1] * 2 + (message[2] and 1 or 0)) * (microbatches + 1) + message[3]
          local both <const> = peer[key] or {}
          both[s == message[1] and 1 or 2] = k
          peer[key] = both
          message.both = both
        end
      end
    end
  end
  local function finish(s, k)
    if k == 0 then return 0 end
    local known = ends[s][k]
    if known ~= nil then return known end
    ends[s][k] = false
    local before <const> = finish(s, k - 1)
    if not before then return nil end
    local step <const> = steps[s][k]
    if type(step) == "number" then
      known = before + (step > 0 and stages[s].forward_s or stages[s].backward_s)
    else
      known = before
      for _, message in ipairs(step) do
        local link <const> = message[1]
        local other <const> = s == link and link + 1 or link
        local posted <const> = finish(other, message.both[s == link and 2 or 1] - 1)
        if not posted then return nil end
        known = max(known, max(before, posted) + transfer[link])
      end
    end
    ends[s][k] = known
    return known
  end
  local last <const> = {}
  for s = 1, S do
    local k = #steps[s]
    while steps[s][k] ~= -microbatches do k = k - 1 end
    for j = 1, #steps[s] do -- in order, to keep the recursion shallow
      if not finish(s, j) then return nil end
    end
    last[s] = ends[s][k]
  end
  return last
end

--- Time of a pipeline, or nil for a deadlock. depth defaults to plain 1F1B.
function oracle.simulate(stages, transfer, microbatches, p2p, depth)
  local capped <const> = {}
  for s = 1, #stages do capped[s] = min(depth and depth[s] or #stages - s, microbatches) end
  local last <const> = (p2p == "blocking" and blocking or overlapped)(stages, transfer, capped, microbatches)
  if not last then return nil end
  local time = 0
  for s = 1, #stages do time = max(time, last[s] + (stages[s].sync_s or 0)) end
  return time
end

--- All legal depth vectors of a pipeline, each handed to visit.
function oracle.depths(stages, microbatches, p2p, visit)
  local S <const>, depth <const> = #stages, {}
  local function choose(s)
    if s == 0 then return visit(depth) end
    local n <const> = S - s
    local held = stages[s].max_inflight
    if held == nil then held = n + 1 elseif type(held) ~= "number" then held = huge end
    local behind <const> = depth[s + 1] or 0
    local most = min(max(n, held - 1), microbatches)
    if p2p == "blocking" and s < S then most = min(most, behind + 2) end
    for w = max(min(n, microbatches), behind), most do
      depth[s] = w
      choose(s - 1)
    end
    depth[s] = nil
  end
  choose(S)
end

local function class_of(instance, plan, end_name)
  if plan[end_name] then return plan[end_name] end
  for c, island in ipairs(instance.class_island or {}) do
    if island == plan.island then return c - 1 end
  end
  return plan.island
end

local function transfer_of(instance, p, q)
  local link <const> = instance.links[class_of(instance, p, "rear_class") + 1][class_of(instance, q, "front_class") + 1]
  return type(link) == "table" and link.latency_s + instance.boundary_bytes[p.last] / link.bytes_per_s or nil
end

--- Section 3: the sum of latencies and transfers and the worst (B-1) * bottleneck + sync.
local function paper(instance, plans, transfer)
  local steady <const> = instance.microbatches - 1
  local sum, worst = 0, 0
  for i, plan in ipairs(plans) do
    local bottleneck, sync = 0, 0
    for _, stage in ipairs(plan.stages) do
      sum = sum + stage.forward_s + stage.backward_s
      bottleneck, sync = max(bottleneck, stage.forward_s + stage.backward_s), max(sync, stage.sync_s)
    end
    for _, inner in ipairs(plan.inner_transfer_s) do
      sum, bottleneck = sum + 2 * inner, max(bottleneck, inner)
    end
    worst = max(worst, steady * bottleneck + sync)
    if transfer[i] then
      sum, worst = sum + 2 * transfer[i], max(worst, steady * transfer[i])
    end
  end
  return sum + worst
end

--- Every feasible sequence: { plans = indices from 1, time_s, paper_s }.
---@param options { p2p: string?, warmup: string?, required_island: integer? }
function oracle.sequences(instance, options)
  local found <const>, plans <const>, used <const>, indices <const> = {}, {}, {}, {}

  local function enter()
    local behind = 0
    for i = #plans, 1, -1 do
      local plan <const> = plans[i]
      local most <const> = type(plan.max_successors) == "number" and plan.max_successors or huge
      if behind > most or behind < (plan.min_successors or 0) then return end
      behind = behind + #plan.stages
    end
    if options.required_island and not used[options.required_island - 1] then return end
    local stages <const>, transfer <const>, outer <const> = {}, {}, {}
    for i, plan in ipairs(plans) do
      for s, stage in ipairs(plan.stages) do
        stages[#stages + 1] = stage
        transfer[#stages] = plan.inner_transfer_s[s]
      end
      if plans[i + 1] then
        outer[i] = transfer_of(instance, plan, plans[i + 1])
        if not outer[i] then return end
        transfer[#stages] = outer[i]
      end
    end
    local B <const>, p2p <const> = instance.microbatches, options.p2p
    local time
    if options.warmup == "auto" then
      time = huge
      oracle.depths(stages, B, p2p, function(depth)
        time = min(time, oracle.simulate(stages, transfer, B, p2p, depth))
      end)
    else
      time = oracle.simulate(stages, transfer, B, p2p)
    end
    found[#found + 1] = { plans = { table.unpack(indices) }, time_s = time, paper_s = paper(instance, plans, outer) }
  end

  local by_first <const> = {}
  for i, plan in ipairs(instance.plans) do
    local list <const> = by_first[plan.first] or {}
    by_first[plan.first] = list
    list[#list + 1] = i
  end
  local function extend(at)
    if at == instance.atoms then return enter() end
    for _, i in ipairs(by_first[at] or {}) do
      local plan <const> = instance.plans[i]
      if not used[plan.island] then
        used[plan.island] = true
        plans[#plans + 1], indices[#indices + 1] = plan, i
        extend(plan.last)
        plans[#plans], indices[#indices] = nil, nil
        used[plan.island] = nil
      end
    end
  end
  extend(0)
  return found
end

return oracle
