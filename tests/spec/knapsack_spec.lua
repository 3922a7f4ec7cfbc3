local core <const> = require "tangram.core"

--- All (bytes, time) of a problem, by trying every row of choices.
local function every_row(problem)
  local rows <const> = {}
  local function extend(i, bytes, time_s, choices)
    if i > #problem.time_s then
      rows[#rows + 1] = { bytes = bytes, time_s = time_s, choices = { table.unpack(choices) } }
      return
    end
    for c, own_s in ipairs(problem.time_s[i]) do
      local switch_s <const> = i > 1 and problem.switch_s and problem.switch_s[choices[i - 1]][c] or 0
      choices[i] = c
      extend(i + 1, bytes + math.ceil(problem.bytes[i][c]), time_s + own_s + switch_s, choices)
    end
  end
  extend(1, 0, 0, {})
  return rows
end

local function best_of(rows, capacity_bytes)
  local best
  for _, row in ipairs(rows) do
    if row.bytes <= capacity_bytes and row.time_s < math.huge and (not best or row.time_s < best.time_s) then best = row end
  end
  return best
end

local function value_of(problem, choices)
  local bytes, time_s = 0, 0
  for i, c in ipairs(choices) do
    bytes, time_s = bytes + math.ceil(problem.bytes[i][c]), time_s + problem.time_s[i][c]
    if i > 1 and problem.switch_s then time_s = time_s + problem.switch_s[choices[i - 1]][c] end
  end
  return bytes, time_s
end

local function random_problem(items, choices, switches)
  local problem <const> = { time_s = {}, bytes = {}, switch_s = switches and {} or nil, capacity_bytes = 10 * items }
  for i = 1, items do
    problem.time_s[i], problem.bytes[i] = {}, {}
    for c = 1, choices do
      problem.time_s[i][c] = math.random(8) == 1 and math.huge or math.random(0, 30)
      problem.bytes[i][c] = math.random(0, 20) - math.random(0, 1) * 0.5
      if problem.bytes[i][c] < 0 then problem.bytes[i][c] = 0 end
    end
  end
  for a = 1, switches and choices or 0 do
    problem.switch_s[a] = {}
    for b = 1, choices do problem.switch_s[a][b] = a == b and 0 or math.random(0, switches) end
  end
  return problem
end

describe("knapsack", function()
  it("is the best of all rows at every budget, with and without prices between neighbours", function()
    math.randomseed(11)
    for round = 1, 120 do
      local problem <const> = random_problem(math.random(1, 6), math.random(1, 4), ({ false, 2, 25 })[round % 3 + 1])
      local rows <const>, solved <const> = every_row(problem), core.knapsack(problem)
      for capacity = 0, problem.capacity_bytes, 3 do
        local expected <const> = best_of(rows, capacity)
        local time_s <const>, bytes <const>, choices <const> = solved:best(capacity, true)
        assert.equal(expected and expected.time_s, time_s)
        if expected then
          assert.is_true(bytes <= capacity)
          local own_bytes <const>, own_s <const> = value_of(problem, choices)
          assert.equal(own_bytes, bytes)
          assert.equal(own_s, time_s)
        end
      end
    end
  end)

  it("keeps no row that another is as good as", function()
    -- one item of 4 ways: (3, 9) and (5, 9) lose against (3, 7), (4, 8) too
    local solved <const> = core.knapsack { time_s = { { 9, 7, 8, 1 } }, bytes = { { 3, 3, 4, 9 } }, capacity_bytes = 100 }
    assert.equal(2, #solved)
    assert.same({ 7, 3, { 2 } }, { solved:best(8, true) })
    assert.same({ 1, 9, { 4 } }, { solved:best(9, true) })
  end)

  it("says how many bytes are the least where nothing fits", function()
    local solved <const> = core.knapsack { time_s = { { 1, 2 }, { 1, math.huge } }, bytes = { { 5, 4 }, { 7, 1 } }, capacity_bytes = 10 }
    assert.same({ nil, 11 }, { solved:best(10) })
    assert.equal(0, #solved)
  end)

  it("of equal rows takes the one whose choices come first", function()
    local solved <const> = core.knapsack { time_s = { { 1, 1 }, { 1, 1 } }, bytes = { { 1, 1 }, { 1, 1 } }, capacity_bytes = 9 }
    assert.same({ 2, 2, { 1, 1 } }, { solved:best(9, true) })
  end)

  it("refuses what is no problem, with the field", function()
    local function refused(problem) return select(2, pcall(core.knapsack, problem)) end
    assert.matches("time_s%[1%]%[2%].*at least 0", refused { time_s = { { 1, -1 } }, bytes = { { 1, 1 } }, capacity_bytes = 1 })
    assert.matches("bytes%[2%].*2 numbers", refused { time_s = { { 1, 1 }, { 1, 1 } }, bytes = { { 1, 1 }, { 1 } }, capacity_bytes = 1 })
    assert.matches("capacity_bytes", refused { time_s = { { 1 } }, bytes = { { 1 } } })
    assert.matches("switch_s%[1%]%[2%].*finite",
      refused { time_s = { { 1, 1 } }, bytes = { { 1, 1 } }, switch_s = { { 0, math.huge }, { 0, 0 } }, capacity_bytes = 1 })
    assert.matches("capacity_byte", refused { time_s = { { 1 } }, bytes = { { 1 } }, capacity_byte = 1 })
  end)
end)
