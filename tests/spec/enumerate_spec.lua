local core <const> = require "tangram.core"
local instances <const> = require "tests.oracle.instances"
local simulate <const> = require("tests.oracle.compose").simulate
local support <const> = require "tests.spec.support"

--- A random problem: a cluster of one-node islands, and an adapter that answers from a table of random plans. A plan bears so
--- many stages behind it as its memory says; asked for more, the adapter leaves it out, so it is never faster with more.
--- With twins, the first two islands are equal, and so are their plans and their links to the third.
local function random_problem(seed, twins)
  local draw <const> = instances.random(seed)
  local function random(low, high) return high and draw(low, high) or draw(1, low) end
  local problem <const> = {
    atoms = 1 + random(3), islands = twins and 3 or 1 + random(2), global_batch = ({ 2, 4, 6 })[random(1, 3)],
    plans = {}, boundary_bytes = {},
    capacity = ({ 100.0, 60.0, 25.0 })[random(3)],
  }
  for i = 1, problem.atoms - 1 do problem.boundary_bytes[i] = random(1, 20) + 0.0 end
  local nodes <const>, links <const> = {}, {}
  for i = 1, problem.islands do
    nodes[i] = {
      name = "n" .. i, gpus = { { gpu = "g" .. i, count = 2, compute_flops = 1e12 * 2 ^ i, memory_bytes = 100.0 } },
      intra_bytes_per_s = { { 1, 10.0 + random(90) } }, intra_latency_s = 0.125,
    }
    for j = 1, i - 1 do
      links[#links + 1] = { between = { "n" .. j, "n" .. i }, latency_s = 0.25,
        bytes_per_s = { { 1, 2.0 + random(50) }, { 2, 60.0 + random(50) } } }
    end
  end
  local pins
  if twins then
    nodes[2].gpus, nodes[2].intra_bytes_per_s, pins = nodes[1].gpus, nodes[1].intra_bytes_per_s, { { "n1" }, { "n2" } }
    links[3].bytes_per_s = links[2].bytes_per_s -- n2-n3 as n1-n3
  end
  problem.cluster = assert(core.cluster { nodes = nodes, links = links })
  problem.island_list = assert(problem.cluster:islands { islands = pins }).islands
  assert.equal(problem.islands, #problem.island_list)
  local function stage(atoms, gpus)
    return {
      atoms = atoms, gpus = gpus, strategy = { dp = 1, tp = gpus }, forward_s = random(20) / 8, backward_s = random(40) / 8,
      sync_s = random(3) > 2 and random(40) / 8 or 0.0, static_bytes = random(90) + 0.0, inflight_bytes = random(40) + 0.0,
      transient_bytes = random(10) + 0.0,
    }
  end
  --- All plans of a pair at B microbatches, the same whenever asked.
  local made <const> = {}
  problem.made = made
  function problem.all(island, first, last, microbatches)
    if twins and island == 2 then island = 1 end
    local key <const> = table.concat({ island, first, last, microbatches }, ",")
    if not made[key] then
      local list <const> = {}
      for _ = 1, random(3) do
        local atoms <const> = last - first + 1
        if atoms > 1 and random(2) == 1 then
          local front <const> = random(1, atoms - 1)
          list[#list + 1] = { stage(front, 1), stage(atoms - front, 1) }
        else
          list[#list + 1] = { stage(atoms, 2) }
        end
      end
      made[key] = list
    end
    return made[key]
  end
  -- the table is filled in one order, whatever the search asks for first
  for _, microbatches in ipairs(problem.microbatches or { 6, 4, 3, 2, 1 }) do
    for island = 1, problem.islands do
      for first = 1, problem.atoms do
        for last = first, problem.atoms do problem.all(island, first, last, microbatches) end
      end
    end
  end
  return problem
end

--- Whether a plan's stages fit with so many stages behind them (DESIGN.md, section 5; closed form, not the engine's).
local function fits(plan, behind, microbatches, capacity)
  for s, stage in ipairs(plan) do
    local inflight <const> = math.min(behind + #plan - s + 1, microbatches)
    if stage.static_bytes + stage.transient_bytes + inflight * stage.inflight_bytes > capacity then return false end
  end
  return true
end

local function counts(batch)
  local list <const> = {}
  for b = batch, 1, -1 do
    if batch % b == 0 then list[#list + 1] = b end
  end
  return list
end

--- The least time over all sequences, by trying every one at every number of microbatches; the largest that has
--- it, and whether a smaller one has it too.
local function brute_force(problem)
  local best, best_microbatches, tied = math.huge, nil, false
  for _, microbatches in ipairs(counts(problem.global_batch)) do
    local samples <const> = problem.global_batch // microbatches
    local function inner_s(island, atom)
      -- both GPUs stand in one node
      local record <const> = problem.island_list[island]
      return record.intra_latency_s + samples * problem.boundary_bytes[atom] / record.intra[1][2]
    end
    local function outer_s(from, rear, to, front, atom)
      local flows <const> = math.min(rear, front)
      local rates <const>, latency_s <const> = problem.cluster:link(problem.island_list[from].nodes[1], problem.island_list[to].nodes[1])
      return latency_s + samples * problem.boundary_bytes[atom] / (flows == 2 and rates[2] or rates[1])[2]
    end
    local function extend(atom, used, stages, transfers, rear, island, chosen)
      if atom > problem.atoms then
        local behind, right = 0, true
        for i = #chosen, 1, -1 do
          right = right and fits(chosen[i], behind, microbatches, problem.capacity)
          behind = behind + #chosen[i]
        end
        local time_s <const> = right and simulate(stages, transfers, microbatches, "overlapped") or math.huge
        if time_s < best * (1 - 1e-12) then -- large numbers come first
          best, best_microbatches, tied = time_s, microbatches, false
        elseif time_s < math.huge and time_s <= best * (1 + 1e-12) and microbatches < best_microbatches then
          tied = true
        end
        return
      end
      for next_island = 1, problem.islands do
        for last = used[next_island] and 0 or atom, used[next_island] and -1 or problem.atoms do
          for _, plan in ipairs(problem.all(next_island, atom, last, microbatches)) do
            local more <const>, hops <const> = table.move(stages, 1, #stages, 1, {}), table.move(transfers, 1, #transfers, 1, {})
            if island then hops[#hops + 1] = outer_s(island, rear, next_island, plan[1].gpus, atom - 1) end
            local at = atom
            for s, stage in ipairs(plan) do
              more[#more + 1] = stage
              at = at + stage.atoms
              if s < #plan then hops[#hops + 1] = inner_s(next_island, at - 1) end
            end
            local marked <const> = {}
            for key in pairs(used) do marked[key] = true end
            marked[next_island] = true
            local list <const> = table.move(chosen, 1, #chosen, 1, {})
            list[#list + 1] = plan
            extend(last + 1, marked, more, hops, plan[#plan].gpus, next_island, list)
          end
        end
      end
    end
    extend(1, {}, {}, {}, nil, nil, {})
  end
  return best, best_microbatches, tied
end

local function enumerate(problem, options)
  options = options or {}
  local flops <const>, capacity <const> = {}, {}
  for i = 1, problem.atoms do flops[i] = 1.0 end
  for i = 1, problem.islands do capacity[i] = problem.capacity end
  local spec <const> = {
    cluster = problem.cluster, islands = problem.island_list, capacity_bytes = capacity, flops = flops,
    boundary_bytes = problem.boundary_bytes, global_batch = problem.global_batch, microbatches = counts(problem.global_batch), gap = 0,
    plan = options.plan or function(island, first, last, microbatches, successors)
      local list <const> = {}
      for _, plan in ipairs(problem.all(island, first, last, microbatches)) do
        if fits(plan, successors, microbatches, problem.capacity) then list[#list + 1] = plan end
      end
      if #list == 0 then return nil, "too little memory" end
      return list
    end,
  }
  for name, value in pairs(options) do spec[name] = value end
  return assert(core.enumerate(spec))
end

describe("enumeration", function()
  it("finds the optimum of brute force over every sequence, microbatch count and position", function()
    local found, none = 0, 0
    for seed = 1, support.scale(300) do
      local problem <const> = random_problem(seed)
      local result <const>, best <const> = enumerate(problem), brute_force(problem)
      if best < math.huge then
        found = found + 1
        assert.is_true(result.found, "seed " .. seed)
        assert.near(best, result.best.time_s, 1e-12 * best, "seed " .. seed)
        assert.is_true(result.proved and result.bound_s <= best * (1 + 1e-12))
      else
        none = none + 1
        assert.is_false(result.found, "seed " .. seed)
      end
    end
    assert.is_true(found > support.scale(100) and none > support.scale(20), ("%d with a plan, %d without"):format(found, none))
  end)

  it("keeps the larger number of microbatches at equal times", function()
    local ties = 0
    for seed = 1, support.scale(400) do
      local problem <const> = random_problem(seed)
      -- a stage's time goes by its samples, which makes ties of those that run alone
      for key, plans in pairs(problem.made) do
        local microbatches <const> = tonumber(key:match "%d+$")
        for _, plan in ipairs(plans) do
          for _, stage in ipairs(plan) do
            stage.forward_s = math.ceil(stage.forward_s) * 12 / microbatches
            stage.backward_s, stage.sync_s = stage.forward_s, 0.0
          end
        end
      end
      local best <const>, microbatches <const>, tied <const> = brute_force(problem)
      local result <const> = enumerate(problem)
      assert.equal(best < math.huge, result.found, "seed " .. seed)
      if result.found then
        assert.near(best, result.best.time_s, 1e-12 * best, "seed " .. seed)
        assert.equal(microbatches, result.best.microbatches, "seed " .. seed)
        ties = ties + (tied and 1 or 0)
      end
    end
    assert.is_true(ties > support.scale(40), ("%d ties"):format(ties))
  end)

  it("keeps the larger number also where it is found later", function()
    local nodes <const> = {}
    for i = 1, 2 do
      nodes[i] = { name = "n" .. i, gpus = { { gpu = "g" .. i, count = 1, compute_flops = 1e12 * (0.8 + 0.2 * i), memory_bytes = 100.0 } },
        intra_bytes_per_s = { { 1, 16.0 } }, intra_latency_s = 0.125 }
    end
    local problem <const> = { atoms = 4, islands = 2, global_batch = 2, boundary_bytes = { 2.0, 2.0, 2.0 }, capacity = 100.0 }
    problem.cluster = assert(core.cluster { nodes = nodes,
      links = { { between = { "n1", "n2" }, latency_s = 0.25, bytes_per_s = { { 1, 8.0 } } } } })
    problem.island_list = assert(problem.cluster:islands {}).islands
    local function stage(atoms, each_s)
      return { atoms = atoms, gpus = 1, strategy = { dp = 1, tp = 1 }, forward_s = each_s, backward_s = each_s, sync_s = 0.0,
        static_bytes = 1.0, inflight_bytes = 1.0, transient_bytes = 0.0 }
    end
    local split_s <const> = simulate({ stage(1, 1.0), stage(3, 1.0) }, { 0.25 + 2 / 8 }, 2, "overlapped")
    -- at two microbatches only a cut that no first guess makes, at one only all on one island: just as quick
    local result <const> = enumerate(problem, { plan = function(_, first, last, microbatches)
      if microbatches == 1 and last - first == 3 then return { { stage(4, split_s / 2) } } end
      if microbatches == 2 and (last == 1 or first == 2 and last == 4) then return { { stage(last - first + 1, 1.0) } } end
      return nil, "no plan"
    end })
    assert.same({ split_s, 2 }, { result.best.time_s, result.best.microbatches })
  end)

  it("finds the optimum where equal islands share their answers", function()
    local both = 0
    for seed = 1, math.max(60, support.scale(150)) do
      local problem <const> = random_problem(seed, true)
      local best <const> = brute_force(problem)
      local result <const> = enumerate(problem, {
        key = function(island, first, last) return ("%d %d %d"):format(island == 2 and 1 or island, first, last) end,
      })
      assert.equal(best < math.huge, result.found, "seed " .. seed)
      if result.found then
        assert.near(best, result.best.time_s, 1e-12 * best, "seed " .. seed)
        local used <const> = {}
        for i, plan in ipairs(result.best.plans) do
          assert.is_nil(used[plan.island])
          used[plan.island] = true
          assert.is_true(result.transfer_s[i] == nil or result.transfer_s[i] < math.huge)
        end
        if used[1] and used[2] then both = both + 1 end
      end
    end
    assert.is_true(both >= 1, "none uses both twins")
  end)

  it("loses nothing to a bound that holds, and asks for less", function()
    local spared = 0
    for seed = 1, 100 do
      local problem <const> = random_problem(seed)
      local function bound(...) return support.least_bottleneck(problem.all(...)) end
      local plain <const>, bounded <const> = enumerate(problem), enumerate(problem, { bound = bound })
      assert.equal(plain.found, bounded.found)
      if plain.found then assert.near(plain.best.time_s, bounded.best.time_s, 1e-12 * plain.best.time_s) end
      spared = spared + (bounded.pruned.bounded or 0)
      local dropped = 0
      for _, count in pairs(bounded.pruned) do dropped = dropped + count end
      assert.equal(bounded.all, bounded.asked + bounded.reused + dropped)
    end
    assert.is_true(spared > 50, ("%d pairs spared"):format(spared))
  end)

  it("asks for slices that no sequence holds only where pairs are few, and counts them all the same", function()
    local two
    for seed = 1, 9 do two = two or random_problem(seed).islands == 2 and seed end
    for atoms, unplaceable in pairs { [140] = 0, [142] = 2 * (142 - 1) * (142 - 2) // 2 } do -- on 2 islands 19,740 pairs, and 20,306
      local problem <const>, asked = random_problem(two), {}
      problem.atoms, problem.global_batch, problem.boundary_bytes = atoms, 1, {}
      for i = 1, atoms - 1 do problem.boundary_bytes[i] = 1.0 end
      local result <const> = enumerate(problem, { plan = function(island, first, last)
        asked[#asked + 1] = { first, last }
        local each_s <const> = (last - first + 1) * island
        return { { { atoms = last - first + 1, gpus = 2, strategy = { dp = 1, tp = 2 }, forward_s = each_s, backward_s = each_s,
          sync_s = 0.0, static_bytes = 1.0, inflight_bytes = 0.0, transient_bytes = 0.0 } } }
      end })
      assert.is_true(result.found)
      assert.equal(atoms * (atoms + 1), result.all)
      assert.equal(unplaceable, result.pruned.unplaceable or 0)
      assert.equal(result.all, result.asked + result.reused + unplaceable)
      for _, run in ipairs(asked) do assert.is_true(unplaceable == 0 or run[1] == 1 or run[2] == atoms) end
    end
  end)

  it("asks once for pairs of equal key, and each pair once for a position", function()
    local problem <const> = random_problem(7)
    local seen <const> = {}
    local plan <const> = function(island, first, last, microbatches, successors)
      local key <const> = table.concat({ island, last - first, microbatches, successors }, ",")
      assert(not seen[key], "asked twice for " .. key)
      seen[key] = true
      return problem.all(island, 1, 1 + last - first, microbatches)
    end
    local result <const> = enumerate(problem, { plan = plan, key = function(island, first, last) return island .. "," .. last - first end })
    assert.is_true(result.reused > 0)
    local queries = 0
    for _ in pairs(seen) do queries = queries + 1 end
    assert.equal(queries, result.queried)
  end)

  it("counts what policies drop, by their names", function()
    local problem <const> = random_problem(3)
    local result <const> = enumerate(problem, { keep = function(_, first) return first > 1 and "front only" or nil end })
    local later = 0
    for first = 2, problem.atoms do later = later + problem.atoms - first + 1 end
    assert.equal(later * problem.islands * #counts(problem.global_batch), result.pruned["front only"])
    if result.found then assert.equal(1, #result.best.plans) end
  end)

  it("bears a failing adapter: the pair is lost, the reason kept", function()
    local problem <const> = random_problem(11)
    local bad <const> = {
      { function() error "boom" end, "boom" }, { function() return "text" end, "returned a string" },
      { function() return {} end, "returned 0 plans" }, { function() return { {} } end, "got 0 stages" },
      { function() return { { { atoms = 1 } } } end, "missing" },
      { function() return nil end, nil },
    }
    for _, case in ipairs(bad) do
      local result <const> = enumerate(problem, { plan = case[1] })
      assert.is_false(result.found)
      if case[2] then
        assert.equal(result.queried, #result.failed)
        assert.matches(case[2], result.failed[1].why)
      else
        assert.equal(0, #result.failed)
        assert.matches("no reason given", result.refused[1].why)
      end
    end
  end)

  it("names field and nearest name of a wrong stage", function()
    local problem <const> = random_problem(11)
    local function with(change)
      return function(_, first, last)
        local stage <const> = { atoms = last - first + 1, gpus = 2, strategy = { dp = 1, tp = 2 }, forward_s = 1.0, backward_s = 1.0,
          sync_s = 0.0, static_bytes = 1.0, inflight_bytes = 1.0, transient_bytes = 1.0 }
        change(stage)
        return { { stage } }
      end
    end
    for _, case in ipairs {
      { function(s) s.forwards_s = 1 end, "stage 1: forwards_s: unknown field %(did you mean 'forward_s'%?%)" },
      { function(s) s.forward_s = 0 / 0 end, "forward_s: got NaN, expected a finite number of at least 0" },
      { function(s) s.sync_s = math.huge end, "sync_s: got inf, expected a finite number" },
      { function(s) s.backward_s = -1 end, "backward_s: got %-1, expected a finite number of at least 0" },
      { function(s) s.gpus = 1 end, "dp 1 %* tp 2 %* cp 1 do not make its 1 GPUs" },
      { function(s) s.gpus, s.strategy.tp = 1, 1 end, "make 1 GPUs, expected the island's 2" },
      { function(s) s.atoms = s.atoms + 1 end, "its stages hold %d+ atoms, expected the slice's" },
      { function(s) s.strategy.recompute = "ful" end, "recompute: got 'ful', expected 'none', 'selective' or 'full'" },
      { function(s) s.strategy.recompute = { kind = "selective", layers = 1 } end,
        "recompute.layers: got 1, expected a count with 'full' alone" },
      { function(s) s.strategy.zer0 = 1 end, "zer0: unknown field %(did you mean 'zero'%?%)" },
      { function(s) s.strategy.zero = 4 end, "expected a whole number from 0 to 3" },
      { function(s) s.forward_s = nil end, "forward_s: missing" },
    } do
      local result <const> = enumerate(problem, { plan = with(case[1]) })
      assert.is_false(result.found)
      assert.matches(case[2], result.failed[1].why)
    end
  end)
end)
