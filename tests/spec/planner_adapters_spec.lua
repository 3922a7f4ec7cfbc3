--- What must hold of Tangram over every adapter of the papers and our own, at gap 0, on every recipe.
local clusters <const> = require "tangram.cluster"
local core <const> = require "tangram.core"
local islands <const> = require "tangram.islands"
local plan_file <const> = require "tangram.plan"
local planner <const> = require "tangram.planner"
local recipe <const> = require "tangram.recipe"
local recost <const> = require "tangram.recost"
local schema <const> = require "tangram.schema"
local search <const> = require "tangram.search"
local slices <const> = require "tangram.slice"
local support <const> = require "tests.spec.support"

local ADAPTERS <const> = { "exact", "uniform", "alpa", "aceso", "galvatron" }
local RECIPES <const> = { "quickstart", "llama-3.1-8b", "qwen3-30b-a3b" }

--- The table that a recipe gives to tangram.plan, with changes; one number of microbatches, for time's sake (planner_spec has the
--- default adapter with all of them).
local function spec_of(name, adapter, changes)
  local caught
  recipe.configure { function(spec)
    caught = spec
    error("caught", 0)
  end }
  local _, why <const> = recipe.run("recipes/" .. name .. ".lua", 10)
  recipe.configure {}
  assert(caught, why)
  caught.parallelizer, caught.gap, caught.training.microbatches = adapter, 0, { min = 64, max = 64 }
  for field, value in pairs(changes or {}) do caught[field] = value end
  return caught
end

--- Least seconds, simulated, of all plans that the adapter gives for the whole model on the one island of a partition; infinite if
--- there is none.
local function own_best_s(setting, group)
  local problem <const> = planner.problem(setting, group)
  local adapter <const>, island <const>, best_s = problem.parallelizer, group.islands[1], math.huge
  for _, microbatches in ipairs(problem.microbatches) do
    local ctx <const> = search.context(problem, island, microbatches)
    local slice <const> = slices.new(setting.model, setting.atoms, 1, #setting.atoms)
    local able <const> = not adapter.supports or adapter.supports(slice, island, ctx)
    for _, stages in ipairs(able and adapter.plan(slice, island, ctx) or {}) do
      local counts <const>, times <const>, transfer_s <const>, at = {}, {}, {}, 0
      for s, stage in ipairs(stages) do
        counts[s] = stage.gpus
        times[s] = { forward_s = stage.forward_s, backward_s = stage.backward_s, sync_s = stage.sync_s }
      end
      local _, links <const> = group.cluster:place(island, counts, stages.idle or 0)
      for s = 1, #stages - 1 do
        at = at + stages[s].atoms
        transfer_s[s] = links[s].latency_s + ctx.samples * setting.atoms[at].boundary_bytes / links[s].bytes_per_s
      end
      best_s = math.min(best_s, (core.simulate(times, transfer_s, { microbatches = microbatches })))
    end
  end
  return best_s
end

local function setting_of(spec) return planner.setting(schema.check(spec, planner.fields, "spec")) end

--- The nodes that are not in the island.
local function others_of(all, island)
  local mine <const>, others <const> = {}, {}
  for _, node in ipairs(island.nodes) do mine[node] = true end
  for _, node in ipairs(all.nodes) do others[#others + 1] = not mine[node.name] and node.name or nil end
  return others
end

for _, adapter in ipairs(ADAPTERS) do
  describe("Tangram over " .. adapter, function()
    for r = 1, support.scale(#RECIPES) do
      local name <const> = RECIPES[r]
      it(name .. ": on one island gives the adapter's own best plan; composed is never slower than that, nor than merged", function()
        local spec <const> = spec_of(name, adapter)
        local composed <const> = assert(planner.plan(spec))
        assert.is_true(core.plan_check(plan_file.encode(composed)))
        local all <const> = clusters.describe(spec.cluster)
        -- precision stays that of the whole cluster, so that the times compare
        spec.training.precision, spec.merged = composed.training.precision, false
        for _, island in ipairs(islands.group(all).islands) do
          spec.exclude = others_of(all, island)
          local setting <const> = setting_of(spec)
          local own_s <const>, alone <const> = own_best_s(setting, islands.group(setting.cluster)), planner.search(setting).best
          if alone then
            assert.near(1, own_s / alone.best.time_s, 1e-12)
            assert.is_true(composed.time_s <= own_s * (1 + 1e-12), island.name .. " alone is faster")
          else
            assert.equal(math.huge, own_s)
          end
        end
        spec.exclude = nil
        local setting <const> = setting_of(spec)
        local merged_s <const> = own_best_s(setting, islands.group(setting.cluster, { merged = true }))
        assert.is_true(composed.time_s <= merged_s * (1 + 1e-12), "merged is faster")
      end)
    end

    -- Nothing divides heads, samples and tokens, and no GPU holds it all: two stages of one GPU, on one island or on two.
    it("charges the two ends of a tied model on one island no link to another", function()
      local spec <const> = {
        model = { family = "gpt2", layers = 8, hidden = 1280, heads = 5, vocab = 8000 },
        cluster = {
          nodes = {
            { name = "a", gpu = "a100-sxm4-40", gpus = 2, intra_bytes_per_s = "100 GB/s", memory_bytes = 4e9 },
            { name = "b", gpu = "v100-sxm2-32", gpus = 2, intra_bytes_per_s = "100 GB/s", memory_bytes = 4e9 },
          },
          network = { default = { bytes_per_s = "1 MB/s" } },
        },
        training = { global_batch = 2, seq_len = 511, microbatches = { 2, 2 }, precision = "fp16" },
        parallelizer = adapter, gap = 0,
      }
      local plan <const> = assert(planner.plan(spec))
      assert.is_true(core.plan_check(plan_file.encode(plan)))
      assert.same({ 2, plan.stages[1].island }, { #plan.stages, plan.stages[2].island })
      local sent_s <const> = 8064 * 1280 * 4 / 100e9 -- the padded vocabulary's gradients
      for _, stage in ipairs(plan.stages) do
        assert.is_true(sent_s <= stage.time_parts.tied_s and stage.time_parts.tied_s <= sent_s + 1e-4, stage.time_parts.tied_s)
      end
      local setting <const> = setting_of(support.with(spec, { exclude = { plan.stages[1].gpus[1].node == "a" and "b" or "a" } }))
      assert.near(1, own_best_s(setting, islands.group(setting.cluster)) / plan.time_s, 1e-12)
      local again <const> = recost.plan(core.json_decode(plan_file.encode(plan)), "plan")
      assert.near(plan.time_s, again.time_s, 1e-12)
    end)

    it("plans halves of layers, no worse for its cuts than whole ones by more than what halves are priced dearer", function()
      local function planned_s(granularity)
        local plan <const> = assert(planner.plan(spec_of(RECIPES[2], adapter,
          { granularity = granularity, exclude = { "l1" }, merged = false })))
        assert.is_true(core.plan_check(plan_file.encode(plan)))
        return plan.time_s
      end
      assert.is_true(planned_s "half" <= 1.02 * planned_s "layer")
    end)
  end)
end
