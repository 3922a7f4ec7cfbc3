--- Seconds to plan each recipe, in one thread: build/tangram tests/bench/plan.lua [RECIPE.lua ...]
local core <const> = require "tangram.core"
local planner <const> = require "tangram.planner"
local recipe <const> = require "tangram.recipe"

local names <const> = #arg > 0 and arg or { "recipes/quickstart.lua", "recipes/qwen3-30b-a3b.lua", "recipes/llama-3.1-8b.lua" }

local function spec_of(path)
  local caught
  recipe.configure { function(spec)
    caught = spec
    error("caught", 0)
  end }
  local _, why <const> = recipe.run(path, 10)
  recipe.configure {}
  return assert(caught, why)
end

print(("%-28s %8s %9s %9s %9s %9s"):format("recipe", "gap", "plan, s", "time, s", "proved", "queries"))
for _, name in ipairs(names) do
  for _, gap in ipairs { 0.005, 0 } do
    local spec <const> = spec_of(name)
    spec.gap = gap
    local started_s <const> = core.clock_s()
    local plan <const> = assert(planner.plan(spec))
    print(("%-28s %8g %9.2f %9.4g %9s %9d"):format(name, gap, core.clock_s() - started_s, plan.time_s, tostring(plan.proved),
      plan.pairs.queried))
  end
end
