-- Run as `tangram run misbehave.lua FAULT [TOKEN]`: a program that answers the process adapter's questions rightly, but for slices of
-- three atoms, where it does what FAULT says.
local core <const> = require "tangram.core"

local function right(question)
  local gpus <const> = question.island.gpus
  return {
    id = question.id,
    candidates = core.array { {
      stages = core.array { {
        atoms = #question.slice.atoms, gpus = gpus, strategy = { dp = 1, tp = gpus }, forward_s = #question.slice.atoms / gpus,
        backward_s = 2 * #question.slice.atoms / gpus, sync_s = 0.25, static_bytes = 1e9, inflight_bytes = 1e6, transient_bytes = 0,
      } },
    } },
  }
end

local function line_of(reply) return (core.json_encode(reply):gsub("%s*\n%s*", " ")) end

local function say(text)
  io.write(text, "\n")
  io.flush()
end

--- Does something to the process that asks, once: whoever finds the file TOKEN there takes it away.
local function to_parent(signal)
  return function(reply)
    if os.remove(arg[2]) then
      local stat <close> = assert(io.open("/proc/self/stat"))
      os.execute(("kill -%s %d"):format(signal, stat:read("a"):match "%) %S (%d+)"))
    end
    say(line_of(reply))
  end
end

local function forever() os.execute "sleep 98.76" end

local function with(change)
  return function(reply)
    change(reply, reply.candidates[1].stages[1])
    say(line_of(reply))
  end
end

--- The reply's line with another forward_s, as no encoder of ours would write it.
local function with_text(number)
  return function(reply) say((line_of(reply):gsub('("forward_s":%s*)[%d.e+-]+', "%1" .. number))) end
end

local faults <const> = {
  stops_parent = to_parent "STOP", kills_parent = to_parent "KILL",
  none = function(reply) say(line_of(reply)) end,
  exits = function() os.exit(3) end,
  killed = function() os.execute "kill -9 $PPID" end,
  garbage = function() say "Traceback (most recent call last):" end,
  empty = function() say "" end,
  half = function(reply)
    io.write(line_of(reply):sub(1, 20))
    io.flush()
    forever()
  end,
  half_exit = function(reply)
    io.write(line_of(reply):sub(1, 20))
    io.flush()
    os.exit(0)
  end,
  never_reads = function(reply)
    say(line_of(reply))
    forever()
  end,
  slow = forever,
  leaves_child = function()
    os.execute "sleep 98.76 &"
    os.exit(0)
  end,
  nan = with_text "NaN",
  infinite = with_text "1e999",
  negative = with_text "-1",
  a_word = with_text '"fast"',
  gpus = with(function(_, stage) stage.gpus = stage.gpus + 1 end),
  dp = with(function(_, stage) stage.strategy.dp = 3 end),
  atoms = with(function(_, stage) stage.atoms = 1 end),
  unknown = with(function(_, stage) stage.forwards_s = 1 end),
  other_id = with(function(reply) reply.id = reply.id + 1 end),
  a_string = function() say '"no"' end,
  no_candidates = with(function(reply) reply.candidates = core.array {} end),
  no_reason = function(reply) say(line_of { id = reply.id }) end,
  refuses = function(reply) say(line_of { id = reply.id, why = "not three" }) end,
  twice = function(reply) -- the next question gets the second
    say(line_of(reply))
    say(line_of(reply))
  end,
  chatty = function(reply) -- no fault: more than a pipe holds
    for i = 1, 3000 do io.stderr:write(("remark %d: "):format(i), ("x"):rep(60), "\n") end
    io.stderr:write "unfinished"
    say(line_of(reply))
  end,
}

local fault <const> = faults[arg[1]]
for line in io.lines() do
  local question <const> = core.json_decode(line)
  local reply <const> = right(question);
  (#question.slice.atoms == 3 and fault or faults.none)(reply)
end
