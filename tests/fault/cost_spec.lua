local faulty <const> = require "tests.fault.faulty"
local support <const> = require "tests.spec.support"

local folder

--- A cost model of whole stages whose stage() has the body for runs of the head alone or with other atoms; `always`: for all.
local function cost_model(body, always)
  return faulty.write(folder, "mine", ([[
local n = 0
local function price(run, island, strategy, ctx)
  local s = #run * 1e-3 / (strategy.dp * strategy.tp)
  return { atoms = #run, gpus = strategy.dp * strategy.tp * strategy.cp, strategy = strategy, forward_s = s, backward_s = 2 * s,
    sync_s = 0, static_bytes = 1e9, inflight_bytes = 1e6, transient_bytes = 1e6 }
end
return { api = 1, kind = "cost", name = "mine", stage = function(run, island, strategy, ctx)
  local good = price(run, island, strategy, ctx)
  if not %s and not (run.has_head and #run == 2) then return good end
  n = n + 1
  %s
end }]]):format(tostring(always or false), body))
end

--- An adapter of one stage on all GPUs, priced by the cost model.
local function adapter()
  return faulty.write(folder, "plain", [[
return { api = 1, kind = "parallelizer", name = "plain", plan = function(slice, island, ctx)
  return { { ctx.cost.stage(slice:run(1, #slice), island, { dp = 1, tp = island.gpus }, ctx) } }
end }]])
end

local reasons <const> = {
  raises = "mine%.lua:%d+: boom", raises_a_table = "raised a table", raises_in_tostring = "raised a table",
  raises_nil = "raised a nil", overflows = "stack overflow", loops = "time limit of", loops_in_pcall = "time limit of",
  loops_in_handler = "time limit of", eats_memory = "memory limit of", eats_memory_in_pcall = "time limit of",
  returns_nothing = "cost model 'mine': stage: sync_s: got a nil", returns_text = "cost model 'mine': stage: sync_s: got a string",
  returns_a_cycle = "cost model 'mine': stage: sync_s: got a nil", returns_a_trap = "time limit of",
}
local figures <const> = {
  not_a_number = { "good.forward_s = 0 / 0 return good", "cost model 'mine': stage: forward_s: got NaN" },
  negative = { "good.backward_s = -1 return good", "cost model 'mine': stage: backward_s: got %-1, expected a finite number" },
  infinite = { "good.static_bytes = math.huge return good", "cost model 'mine': stage: static_bytes: got inf" },
  gpus = { "good.gpus = 1 return good", "do not make its 1 GPUs" }, atoms = { "good.atoms = 7 return good", "its stages hold 7 atoms" },
}

describe("a faulty cost model costs the pairs that it prices wrong:", function()
  before_each(function() folder = support.folder() end)
  after_each(function() support.remove(folder) end)

  local function check(name, body, pattern)
    it(name, function()
      local spec <const> = faulty.limits(name)
      spec.cost, spec.parallelizer, spec.prune = cost_model(body), adapter(), {}
      local _, made <const>, why <const> = faulty.unhurried(spec, faulty.plan, function(made)
        for _, one in ipairs(made.pairs.failed) do
          if one.slice[1] ~= 3 then return false end
        end
        return true
      end)
      assert.is_truthy(made, why)
      assert.is_true(#made.pairs.failed >= 2) -- atoms 4..5 on two islands
      for _, one in ipairs(made.pairs.failed) do
        assert.same({ 3, 5 }, { one.slice[1], one.slice[2] })
        assert.matches(pattern, one.reason)
      end
      for _, stage in ipairs(made.stages) do assert.is_false(stage.first == 3 and stage.last == 5) end
    end)
  end
  for name, pattern in pairs(reasons) do check(name, faulty.ways[name], pattern) end
  for name, case in pairs(figures) do check(name, case[1], case[2]) end

  it("and ends in status 3, named, where that is all of them", function()
    for _, name in ipairs { "raises", "returns_text" } do
      local made <const>, why <const>, status <const> =
        faulty.plan { cost = cost_model(faulty.ways[name], true), parallelizer = adapter(), prune = { "infeasible", "bounded" } }
      assert.is_nil(made)
      assert.equal(3, status)
      assert.matches(reasons[name], why)
    end
  end)
end)

describe("a cost model's link", function()
  before_each(function() folder = support.folder() end)
  after_each(function() support.remove(folder) end)

  for name, pattern in pairs {
    raises = "boom", loops = "time limit reached", returns_text = "expected a latency", returns_nothing = "expected a latency",
  } do
    it("that fails leaves the cluster's figures, and says so: " .. name, function()
      local function path(body)
        return faulty.write(folder, "linked", ([[
          local function price(run, island, strategy)
            return { atoms = #run, gpus = 2, strategy = strategy, forward_s = 1e-3 * #run, backward_s = 2e-3 * #run, sync_s = 0,
              static_bytes = 1e9, inflight_bytes = 1e6, transient_bytes = 1e6 }
          end
          return { api = 1, kind = "cost", name = "mine", stage = price, %s }]]):format(body))
      end
      local spec <const> = faulty.limits(name)
      spec.cost, spec.parallelizer, spec.prune = path(("link = function(link, ctx) %s end"):format(faulty.ways[name])), adapter(), {}
      spec.query_memory_bytes = nil
      local _, made <const> = faulty.unhurried(spec, faulty.plan, function(made) return #made.pairs.failed == 0 end)
      assert.is_true(faulty.noted(made,
        "^cost model 'mine': link%(%) is called no more, it failed for the link from .* to .*: .*" .. pattern))
      assert.equal(assert(faulty.plan { parallelizer = adapter(), prune = {}, cost = path "" }).time_s, made.time_s)
    end)
  end

  it("and its list of constants that fails leaves the list empty", function()
    local path <const> = cost_model "return good"
    local source <const> = support.read(path):gsub("name = \"mine\",", "name = \"mine\", constants_used = function() error 'boom' end,")
    support.write(path, source)
    local made <const> = assert(faulty.plan { cost = path, parallelizer = adapter(), prune = {} })
    assert.equal(0, #made.constants)
    assert.is_true(faulty.noted(made, "^cost model 'mine': no list of its constants on .*: .*boom"))
  end)
end)
