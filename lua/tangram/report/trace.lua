--- A simulated iteration in the trace-event format that Chrome's and Perfetto's viewers open: a process an island, a thread a
--- stage, arrows for what a stage waits for from its neighbours. Times in microseconds.
local core <const> = require "tangram.core"
local plans <const> = require "tangram.plan"
local timeline <const> = require "tangram.report.timeline"

local trace <const> = {}

local order <const> = { "displayTimeUnit", "otherData", "traceEvents", "name", "cat", "ph", "pid", "tid", "ts", "dur", "id", "bp", "args" }

local function name_event(what, pid, tid, name)
  return { name = what, ph = "M", pid = pid, tid = tid, args = { name = name } }
end

--- Names of the processes and threads; the islands' numbers by name.
local function add_names(events, plan)
  local pid_of <const> = {}
  for i, island in ipairs(plan.islands) do
    pid_of[island.name] = i
    if island.used then events[#events + 1] = name_event("process_name", i, 0, "island " .. island.name) end
  end
  for s, stage in ipairs(plan.stages) do
    events[#events + 1] = name_event("thread_name", pid_of[stage.island], s, ("stage %d"):format(s))
    events[#events + 1] = { name = "thread_sort_index", ph = "M", pid = pid_of[stage.island], tid = s, args = { sort_index = s } }
  end
  return pid_of
end

local function complete(name, category, pid, tid, start_s, end_s, args)
  return { name = name, cat = category, ph = "X", pid = pid, tid = tid, ts = 1e6 * start_s, dur = 1e6 * (end_s - start_s), args = args }
end

--- An arrow between two operations. Viewers tie its ends to the slices around them, hence the middles.
local function add_arrow(events, id, name, from, to, pids)
  events[#events + 1] = { name = name, cat = "transfer", ph = "s", id = id, pid = pids[from.stage], tid = from.stage,
    ts = 5e5 * (from.start_s + from.end_s) }
  events[#events + 1] = { name = name, cat = "transfer", ph = "f", bp = "e", id = id, pid = pids[to.stage], tid = to.stage,
    ts = 5e5 * (to.start_s + to.end_s) }
end

--- Activations travel to the rear, gradients to the front.
local function add_transfers(events, lanes, pids)
  local forward <const>, backward <const>, id = {}, {}, 0
  for s, lane in ipairs(lanes) do
    forward[s], backward[s] = {}, {}
    for _, one in ipairs(lane.operations) do (one.backward and backward or forward)[s][one.microbatch] = one end
  end
  for s = 1, #lanes - 1 do
    for m = 1, #forward[s] do
      add_arrow(events, id + 1, "activations", forward[s][m], forward[s + 1][m], pids)
      add_arrow(events, id + 2, "gradients", backward[s + 1][m], backward[s][m], pids)
      id = id + 2
    end
  end
end

--- The trace. Raises one line if the plan can't be simulated.
---@param plan table tangram.plan/1
---@return string JSON
function trace.plan(plan)
  local time_s <const>, operations <const> = core.plan_simulate(plans.encode(plan))
  if not time_s then error("plan: " .. operations, 0) end
  local events <const>, pids <const> = core.array {}, {}
  local pid_of <const>, lanes <const> = add_names(events, plan), timeline.lanes(plan, operations)
  for s, lane in ipairs(lanes) do
    pids[s] = pid_of[lane.stage.island]
    for _, one in ipairs(lane.operations) do
      local what <const> = one.backward and "backward" or "forward"
      events[#events + 1] = complete(("%s %d"):format(what, one.microbatch), what, pids[s], s, one.start_s, one.end_s,
        { microbatch = one.microbatch })
    end
    if lane.stage.sync_s > 0 then
      events[#events + 1] = complete("sync", "sync", pids[s], s, lane.end_s, lane.end_s + lane.stage.sync_s)
    end
  end
  add_transfers(events, lanes, pids)
  return core.json_encode({ displayTimeUnit = "ms", traceEvents = events,
    otherData = { model = plan.model.name, time_s = time_s, version = plan.version } }, order)
end

return trace
