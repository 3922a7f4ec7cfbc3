local core <const> = require "tangram.core"

--- The makespan as the longest path of the schedule's dependencies, relaxed until nothing moves. Order and warm-up are
--- written out as lists, after Narayanan et al. 2021: groups of one microbatch a rank go through all chunks of a rank.
local function longest_path(stages, transfer_s, chunks, microbatches)
  local ranks <const> = #stages // chunks
  local order <const> = {} -- of each rank: { stage, microbatch, backward }
  for r = 1, ranks do
    local forwards <const>, backwards <const> = {}, {}
    for first = 1, microbatches, ranks do
      for c = 1, chunks do
        for m = first, math.min(first + ranks - 1, microbatches) do
          forwards[#forwards + 1] = { (c - 1) * ranks + r, m, false }
          backwards[#backwards + 1] = { (chunks - c) * ranks + r, m, true }
        end
      end
    end
    local list <const>, depth <const> = {}, math.min(#forwards, 2 * (ranks - r) + (chunks - 1) * ranks)
    for i = 1, #forwards + depth do
      if forwards[i] then list[#list + 1] = forwards[i] end
      if i > depth then list[#list + 1] = backwards[i - depth] end
    end
    order[r] = list
  end
  local ends <const>, moved = {}, true
  local function key(stage, m, backward) return (stage * 1000 + m) * 2 + (backward and 1 or 0) end
  local rounds = 0
  while moved do
    moved, rounds = false, rounds + 1
    if rounds > 4 * #stages * microbatches then return nil end
    for r = 1, ranks do
      local free, busy <const> = 0, { [true] = 0, [false] = 0 } -- the links to the rank in front and behind
      for _, op in ipairs(order[r]) do
        local stage <const>, m <const>, backward <const> = table.unpack(op)
        local input
        if backward and stage == #stages then input = ends[key(stage, m, false)]
        elseif backward then input = ends["to" .. key(stage, m, true)]
        elseif stage == 1 then input = 0
        else input = ends["to" .. key(stage, m, false)] end
        if not input then break end
        local now <const> = math.max(free, input) + stages[stage][backward and "backward_s" or "forward_s"]
        if ends[key(stage, m, backward)] ~= now then ends[key(stage, m, backward)], moved = now, true end
        free = now
        local target <const> = backward and stage - 1 or stage + 1
        if target >= 1 and target <= #stages then
          busy[backward] = math.max(busy[backward], now) + transfer_s[math.min(stage, target)]
          ends["to" .. key(target, m, backward)] = busy[backward]
        end
      end
    end
  end
  local time_s = 0
  for r = 1, ranks do
    local last <const> = order[r][#order[r]]
    local sync_s, at = 0, ends[key(table.unpack(last))]
    if not at then return nil end
    for s = r, #stages, ranks do sync_s = sync_s + stages[s].sync_s end
    time_s = math.max(time_s, at + sync_s)
  end
  return time_s
end

describe("interleaved 1F1B", function()
  it("equal stages without transfers: a bubble of (p - 1) / v stages", function()
    for _, case in ipairs { { 4, 2, 8 }, { 4, 3, 16 }, { 8, 2, 8 }, { 2, 5, 6 } } do
      local ranks <const>, chunks <const>, microbatches <const> = table.unpack(case)
      local stages <const>, transfer_s <const> = {}, {}
      for s = 1, ranks * chunks do stages[s], transfer_s[s] = { forward_s = 1, backward_s = 2, sync_s = 0 }, 0 end
      transfer_s[ranks * chunks] = nil
      assert.near((microbatches * chunks + ranks - 1) * 3,
        core.simulate(stages, transfer_s, { microbatches = microbatches, chunks = chunks }), 1e-9)
    end
  end)

  it("equals the longest path of the schedule", function()
    math.randomseed(7)
    local compared = 0
    for _ = 1, 150 do
      local ranks <const>, chunks <const> = math.random(1, 4), math.random(2, 4)
      local microbatches <const> = math.random(1, 9)
      local stages <const>, transfer_s <const> = {}, {}
      for s = 1, ranks * chunks do
        stages[s] = { forward_s = math.random(), backward_s = 2 * math.random(), sync_s = math.random() }
        transfer_s[s] = math.random() * 0.5
      end
      transfer_s[ranks * chunks] = nil
      local expected <const> = longest_path(stages, transfer_s, chunks, microbatches)
      local time_s <const>, why <const> = core.simulate(stages, transfer_s, { microbatches = microbatches, chunks = chunks })
      if expected then
        assert.near(expected, time_s, 1e-9)
        compared = compared + 1
      else
        assert.is_nil(time_s)
        assert.matches("wait for ever", why)
      end
    end
    assert.is_true(compared > 100)
  end)

  it("refuses stages that chunks do not divide", function()
    local one <const> = { forward_s = 1, backward_s = 1, sync_s = 0 }
    local time_s <const>, why <const> = core.simulate({ one, one, one }, { 0, 0 }, { microbatches = 1, chunks = 2 })
    assert.is_nil(time_s)
    assert.matches("3 stages in 2 chunks", why)
  end)
end)
