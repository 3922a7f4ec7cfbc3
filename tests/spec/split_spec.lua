local core <const> = require "tangram.core"
local support <const> = require "tests.spec.support"

local LISTS <const> = { "time_s", "static_bytes", "inflight_bytes", "transient_bytes", "recomputable", "recompute_s",
                        "recomputed_inflight_bytes", "recompute_peak_bytes" }

--- Whole numbers only, so that sums are exact and ties are ties.
local function random_terms(atoms)
  local terms <const> = { stage_s = math.random(0, 2), stage_static_bytes = math.random(0, 5),
                          capacity_bytes = math.random(10, 110), microbatches = math.random(1, 6) }
  for _, name in ipairs(LISTS) do terms[name] = {} end
  local alike <const> = math.random(2) == 1 and { math.random(1, 4), math.random(1, 20), math.random(1, 8), math.random(0, 4) }
  for i = 1, atoms do
    local inflight <const> = alike and alike[2] or math.random(0, 20)
    terms.time_s[i] = alike and i > 1 and i < atoms and 5 or math.random(0, 9)
    terms.static_bytes[i] = alike and 4 or math.random(0, 9)
    terms.inflight_bytes[i] = inflight
    terms.transient_bytes[i] = math.random(0, 6)
    terms.recomputable[i] = math.random(4) > 1
    terms.recompute_s[i] = alike and alike[1] or math.random(0, 5)
    terms.recomputed_inflight_bytes[i] = alike and inflight // 4 or math.random(0, inflight)
    terms.recompute_peak_bytes[i] = alike and alike[4] or math.random(0, 12)
  end
  return terms
end

--- One stage by the definition: time and recomputed atoms, or nil; and the least bytes short.
local function stage_cost(terms, i, j, inflight, allow)
  local candidates <const> = {}
  for a = i, j do if allow and terms.recomputable[a] then candidates[#candidates + 1] = a end end
  local least_short, found_s, found_r = math.huge, nil, nil
  for r = 0, #candidates do
    local last <const> = r == 0 and 0 or candidates[r]
    local static, kept, transient, peak, time_s = terms.stage_static_bytes, 0, 0, 0, terms.stage_s
    for a = i, j do
      local again <const> = terms.recomputable[a] and a <= last
      static, time_s = static + terms.static_bytes[a], time_s + terms.time_s[a] + (again and terms.recompute_s[a] or 0)
      kept = kept + (again and terms.recomputed_inflight_bytes or terms.inflight_bytes)[a]
      transient = math.max(transient, terms.transient_bytes[a])
      if again then peak = math.max(peak, terms.recompute_peak_bytes[a]) end
    end
    local short <const> = static + transient + peak + inflight * kept - terms.capacity_bytes
    least_short = math.min(least_short, math.max(0, short))
    if short <= 0 and not found_s then found_s, found_r = time_s, r end
  end
  return found_s, found_r, least_short
end

--- The same for the best of a stage's ways, once for each stage asked for.
local function remembered()
  local known <const> = {}
  return function(ways, i, j, inflight)
    local own <const> = known[ways] or {}
    known[ways] = own
    local key <const> = (i * 64 + j) * 64 + inflight
    if not own[key] then
      local best_s, least_short = nil, math.huge
      for _, way in ipairs(ways) do
        local time_s <const>, _, short <const> = stage_cost(way.terms, i, j, inflight, way.allow)
        best_s = time_s and math.min(time_s, best_s or math.huge) or best_s
        least_short = math.min(least_short, short)
      end
      own[key] = { best_s, least_short }
    end
    return own[key][1], own[key][2]
  end
end

--- All splits of [first, last] into as many stages as there are lists of ways { terms, allow }.
local function brute_force_ways(ways, first, last, successors)
  local best <const> = { bottleneck_s = math.huge, latency_s = math.huge, short = math.huge }
  local cost <const>, stages <const>, microbatches <const> = remembered(), #ways, ways[1][1].terms.microbatches
  local function extend(k, start, bottleneck_s, latency_s, short)
    if k == stages then
      if start ~= last + 1 then return end
      best.short = math.min(best.short, short)
      if bottleneck_s < best.bottleneck_s or bottleneck_s == best.bottleneck_s and latency_s < best.latency_s then
        best.bottleneck_s, best.latency_s = bottleneck_s, latency_s
      end
      return
    end
    for stop = start, last do
      local inflight <const> = math.min(successors + stages - k, microbatches)
      local time_s <const>, lacking <const> = cost(ways[k + 1], start, stop, inflight)
      extend(k + 1, stop + 1, math.max(bottleneck_s, time_s or math.huge), latency_s + (time_s or math.huge),
             math.max(short, lacking))
    end
  end
  extend(0, first, 0, 0, 0)
  return best
end

--- The same where all stages are alike.
local function brute_force(terms, first, last, stages, successors, allow)
  local ways <const> = {}
  for k = 1, stages do ways[k] = k > 1 and ways[1] or { { terms = terms, allow = allow } } end
  return brute_force_ways(ways, first, last, successors)
end

--- What the split says of itself must be what its bounds give.
local function check_split(terms, first, last, successors, allow, bottleneck_s, latency_s, bounds, recomputed)
  local start, max_s, sum_s = first, 0, 0
  for k, stop in ipairs(bounds) do
    assert.is_true(stop >= start)
    local inflight <const> = math.min(successors + #bounds - k + 1, terms.microbatches)
    local time_s <const>, r <const> = stage_cost(terms, start, stop, inflight, allow)
    assert.equal(r, recomputed[k])
    max_s, sum_s, start = math.max(max_s, time_s), sum_s + time_s, stop + 1
  end
  assert.equal(last + 1, start)
  assert.equal(max_s, bottleneck_s)
  assert.equal(sum_s, latency_s)
end

describe("split", function()
  it("agrees with brute force on random terms", function()
    math.randomseed(11)
    local feasible, recomputing, short_cases = 0, 0, 0
    for _ = 1, 4000 do
      local atoms <const> = math.random(1, 8)
      local terms <const> = random_terms(atoms)
      local compiled <const> = core.terms(terms)
      local first <const> = math.random(1, atoms)
      local last <const> = math.random(first, atoms)
      local stages <const>, successors <const> = math.random(1, math.min(4, last - first + 1)), math.random(0, 3)
      local allow <const> = math.random(3) > 1
      local want <const> = brute_force(terms, first, last, stages, successors, allow)
      local bottleneck_s <const>, latency_s <const>, bounds <const>, recomputed <const> =
        compiled:split(first, last, stages, successors, allow)
      if want.bottleneck_s == math.huge then
        short_cases = short_cases + 1
        assert.is_nil(bottleneck_s)
        assert.equal(want.short, latency_s)
        assert.is_true(bounds >= 1 and bounds <= stages)
        assert.is_nil(compiled:probe(first, last, stages, successors, allow))
      else
        feasible = feasible + 1
        assert.equal(want.bottleneck_s, bottleneck_s)
        assert.equal(want.latency_s, latency_s)
        check_split(terms, first, last, successors, allow, bottleneck_s, latency_s, bounds, recomputed)
        for k = 1, stages do if recomputed[k] > 0 then recomputing = recomputing + 1 break end end
        assert.same({ bottleneck_s, latency_s }, { compiled:probe(first, last, stages, successors, allow) })
      end
    end
    -- The draw must reach all three kinds.
    assert.is_true(feasible > 1000 and recomputing > 250 and short_cases > 250)
  end)

  it("agrees with brute force where stages choose from ways of their own", function()
    math.randomseed(13)
    local feasible, recomputing, short_cases, later_ways = 0, 0, 0, 0
    for _ = 1, support.scale(2500) do
      local atoms <const>, microbatches <const>, capacity_bytes <const> = math.random(1, 8), math.random(1, 6), math.random(10, 90)
      local first <const> = math.random(1, atoms)
      local last <const> = math.random(first, atoms)
      local successors <const> = math.random(0, 3)
      local kinds <const> = {}
      for i = 1, math.random(1, 3) do
        local ways <const> = { flat = {} }
        for w = 1, math.random(1, 3) do
          local terms <const> = random_terms(atoms)
          terms.microbatches, terms.capacity_bytes = microbatches, capacity_bytes
          ways[w] = { terms = terms, allow = math.random(2) == 1 }
          ways.flat[2 * w - 1], ways.flat[2 * w] = core.terms(terms), ways[w].allow
        end
        kinds[i] = ways
      end
      local ways <const>, flat <const> = {}, {}
      for k = 1, math.random(1, math.min(4, last - first + 1)) do
        ways[k] = kinds[math.random(#kinds)]
        flat[k] = ways[k].flat
      end
      local want <const> = brute_force_ways(ways, first, last, successors)
      local bottleneck_s <const>, latency_s <const>, bounds <const>, recomputed <const>, chosen <const> =
        core.split(flat, first, last, successors)
      if want.bottleneck_s == math.huge then
        short_cases = short_cases + 1
        assert.is_nil(bottleneck_s)
        assert.equal(want.short, latency_s)
        assert.is_true(bounds >= 1 and bounds <= #ways)
      else
        feasible = feasible + 1
        assert.equal(want.bottleneck_s, bottleneck_s)
        assert.equal(want.latency_s, latency_s)
        local start, max_s, sum_s = first, 0, 0
        for k, stop in ipairs(bounds) do
          local way <const> = ways[k][chosen[k]]
          local time_s <const>, r <const> =
            stage_cost(way.terms, start, stop, math.min(successors + #ways - k + 1, microbatches), way.allow)
          assert.equal(r, recomputed[k])
          max_s, sum_s, start = math.max(max_s, time_s), sum_s + time_s, stop + 1
          recomputing, later_ways = recomputing + math.min(r, 1), later_ways + (chosen[k] > 1 and 1 or 0)
        end
        assert.same({ last + 1, bottleneck_s, latency_s }, { start, max_s, sum_s })
      end
    end
    assert.is_true(feasible > support.scale(800) and recomputing > support.scale(100) and short_cases > support.scale(150)
      and later_ways > support.scale(200), ("%d %d %d %d"):format(feasible, recomputing, short_cases, later_ways))
  end)

  it("finds the exact bottleneck of a long model, as a quadratic program does", function()
    math.randomseed(12)
    for _ = 1, 8 do
      local atoms <const> = math.random(24, 36)
      local terms <const> = random_terms(atoms)
      terms.capacity_bytes = math.random(150, 500)
      local compiled <const> = core.terms(terms)
      local stages <const> = math.random(2, 8)
      -- best[j]: least bottleneck of stages 1..k over atoms 1..j
      local best = { [0] = 0 }
      for k = 1, stages do
        local inflight <const>, now <const> = math.min(stages - k + 1, terms.microbatches), {}
        for j = k, atoms do
          for i = k - 1, j - 1 do
            if best[i] then
              local time_s <const> = stage_cost(terms, i + 1, j, inflight, true)
              if time_s then now[j] = math.min(now[j] or math.huge, math.max(best[i], time_s)) end
            end
          end
        end
        best = now
      end
      assert.equal(best[atoms], (compiled:split(1, atoms, stages, 0, true)))
    end
  end)

  it("costs and cuts equal runs alike wherever they stand, at any number of stages", function()
    math.randomseed(1)
    for _ = 1, 20 do
      local terms <const>, time_s <const> = { time_s = {}, static_bytes = {}, inflight_bytes = {}, capacity_bytes = 1,
                                              microbatches = 1 }, math.random()
      for i = 1, 42 do terms.time_s[i], terms.static_bytes[i], terms.inflight_bytes[i] = time_s, 0, 0 end
      local compiled <const> = core.terms(terms)
      for stages = 1, 42 do
        assert.near(-(-42 // stages) * time_s, compiled:probe(1, 42, stages, 0, false), 1e-12)
      end
      local bottleneck_s <const>, latency_s <const>, bounds <const> = compiled:split(1, 11, 4, 0, false)
      for first = 2, 32 do
        local bottleneck_there_s <const>, latency_there_s <const>, there <const> = compiled:split(first, first + 10, 4, 0, false)
        assert.same({ bottleneck_s, latency_s }, { bottleneck_there_s, latency_there_s })
        for i, last in ipairs(there) do assert.equal(bounds[i], last - first + 1) end
      end
    end
  end)

  it("prefers the least sum among equal bottlenecks", function()
    -- Either layer in the middle may go to either stage; in front two microbatches are in flight and one layer would be
    -- recomputed, while a bottleneck of 8 is set by the last atom anyway.
    local compiled <const> = core.terms {
      time_s = { 1, 1, 1, 6 }, static_bytes = { 0, 0, 0, 0 }, inflight_bytes = { 4, 4, 4, 4 },
      recomputable = { true, true, true, false }, recompute_s = { 1, 1, 1, 0 }, recomputed_inflight_bytes = { 0, 0, 0, 0 },
      capacity_bytes = 8, microbatches = 8 }
    local bottleneck_s <const>, latency_s <const>, bounds <const>, recomputed <const> = compiled:split(1, 4, 2, 0, true)
    -- (1,1,1 | 6): 3 + 2 recomputed, 6 -> bottleneck 6.
    assert.same({ 6, 11, { 3, 4 }, { 2, 0 } }, { bottleneck_s, latency_s, bounds, recomputed })
  end)

  it("tells the bytes short at the stage that lacks them in the best split", function()
    local terms <const> = { time_s = { 1, 1, 1 }, static_bytes = { 9, 5, 5 }, inflight_bytes = { 1, 1, 1 },
                            capacity_bytes = 8, microbatches = 4 }
    -- 1 | 2 3: front 9 + 2*1 = 11, rear 10 + 2 = 12; 1 2 | 3: 14 + 4 = 18, 6. The least worst is 12 - 8 = 4 at stage 2.
    assert.same({ nil, 4, 2 }, { core.terms(terms):split(1, 3, 2, 0, false) })
    assert.same({ nil, math.huge, 1 }, { core.terms(terms):split(1, 3, 4, 0, false) })
  end)

  it("takes atoms of equal content by rows", function()
    local by_rows <const> = core.terms { time_s = { 1, 2 }, static_bytes = { 3, 1 }, inflight_bytes = { 1, 2 },
      recomputable = { false, true }, recompute_s = { 0, 1 }, recomputed_inflight_bytes = { 1, 0 }, rows = { 1, 2, 2, 2, 1 },
      capacity_bytes = 9, microbatches = 4 }
    local by_atoms <const> = core.terms { time_s = { 1, 2, 2, 2, 1 }, static_bytes = { 3, 1, 1, 1, 3 }, inflight_bytes = { 1, 2, 2, 2, 1 },
      recomputable = { false, true, true, true, false }, recompute_s = { 0, 1, 1, 1, 0 },
      recomputed_inflight_bytes = { 1, 0, 0, 0, 1 }, capacity_bytes = 9, microbatches = 4 }
    for stages = 1, 5 do
      assert.same({ by_atoms:split(1, 5, stages, 0, true) }, { by_rows:split(1, 5, stages, 0, true) })
    end
    assert.is_truthy((by_rows:split(1, 5, 3, 0, true)))
  end)

  it("refuses wrong terms and queries with the field's name", function()
    local function refuses(change, message)
      local terms <const> = { time_s = { 1, 1 }, static_bytes = { 1, 1 }, inflight_bytes = { 1, 1 }, capacity_bytes = 8,
                              microbatches = 4 }
      for key, value in pairs(change) do terms[key] = value end
      assert.error_matches(function() core.terms(terms) end, message)
    end
    refuses({ capacty_bytes = 1 }, "unknown field 'capacty_bytes' %(did you mean 'capacity_bytes'%?%)")
    refuses({ static_bytes = { 1 } }, "'static_bytes': expected a list of 2 numbers, got 1")
    refuses({ time_s = { 1, -1 } }, "'time_s%[2%]': expected a finite number of at least 0, got %-1")
    refuses({ time_s = { 1, 0 / 0 } }, "'time_s%[2%]': expected a finite")
    refuses({ time_s = {} }, "expected 1 to 1024 atoms")
    refuses({ rows = { 1, 3 } }, "'rows%[2%]': expected a whole number from 1 to 2")
    refuses({ rows = {} }, "'rows': expected 1 to 1024 atoms")
    refuses({ inflight_bytes = { 1, "x" } }, "'inflight_bytes%[2%]': expected a finite number of at least 0, got x")
    refuses({ recomputable = { true, 1 } }, "'recomputable%[2%]': expected a boolean, got number")
    refuses({ recomputable = { true, true }, recomputed_inflight_bytes = { 0, 2 } }, "more than the same atom's inflight_bytes")
    refuses({ microbatches = 0 }, "'microbatches': expected an integer from 1")
    refuses({ microbatches = 1.5 }, "'microbatches': expected an integer from 1")
    refuses({ capacity_bytes = 1 / 0 }, "'capacity_bytes': expected a finite number")
    local compiled <const> = core.terms { time_s = { 1, 1 }, static_bytes = { 1, 1 }, inflight_bytes = { 1, 1 },
                                          capacity_bytes = 8, microbatches = 4 }
    assert.equal(2, #compiled)
    assert.error_matches(function() compiled:split(1, 3, 1, 0, false) end, "not a run of the 2 atoms")
    assert.error_matches(function() compiled:split(2, 1, 1, 0, false) end, "not a run of the 2 atoms")
    assert.error_matches(function() compiled:split(0, 1, 1, 0, false) end, "expected an integer from 1")
    assert.error_matches(function() compiled:split(1, 2, 1, -1, false) end, "expected an integer from 0")
    assert.error_matches(function() compiled.split({}, 1, 2, 1, 0, false) end, "tangram.Terms expected")
    for _, ways in ipairs { {}, { {} }, { { compiled, true }, {} }, { { true, compiled } }, { 1 }, { { compiled, true, {}, true } } } do
      assert.error_matches(function() core.split(ways, 1, 2, 0) end, "expected for each stage a list of terms, each with whether")
    end
    assert.error_matches(function() core.split({ { compiled, true } }, 1, 3, 0) end, "not a run of the 2 atoms")
    local longer <const> = core.terms { time_s = { 1, 1, 1 }, static_bytes = { 1, 1, 1 }, inflight_bytes = { 1, 1, 1 },
                                        capacity_bytes = 8, microbatches = 4 }
    assert.error_matches(function() core.split({ { compiled, true }, { longer, true } }, 1, 2, 0) end,
      "stage 2: terms of 3 atoms and 4 microbatches, expected 2 and 4")
  end)
end)
