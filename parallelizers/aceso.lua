--- Aceso (Liu et al., EuroSys 2024): iterative bottleneck alleviation, for each number of stages from a balanced start. Its clock
--- is a count of evaluations, and the number of microbatches is given, so inc_mbs and dec_mbs choose each stage's uniform
--- strategy anew. Times come from the chosen cost model or, with the option `database`, from Aceso's own profiles of operators,
--- whose recompute is chosen operator by operator; such a stage says "selective". Without `repair` a stage has dp and tp alone.
--- The original's answers may be worse with more memory; by default they are made `steady` (tangram.aceso.steady).
---
---     local database <const> = require("tangram.input.aceso").read("profiles/v100-large", "2_6B")   -- in a recipe
---     parallelizer = { name = "aceso", options = { database = database } }
local core <const> = require "tangram.core"
local operators <const> = require "tangram.aceso.operators"
local priced <const> = require "tangram.aceso.priced"
local search <const> = require "tangram.aceso.search"
local steady <const> = require "tangram.aceso.steady"
local strategies <const> = require "tangram.strategies"

local options <const> = {
  max_stages = { type = "integer", default = 16, min = 1, doc = "most pipeline stages on one island" },
  max_stage_gpus = { type = "integer", default = 8, min = 1, doc = "most GPUs of a stage; never more than a node's unless `repair`" },
  database = { type = "table", check = operators.check,
    doc = "profiles, as tangram.input.aceso's read gives them (a recipe calls it: plugins read no files)" },
  operators = { type = "boolean", default = false,
    doc = "cut between the database's operators, as the original does: for study, no runtime cuts inside a layer" },
  steady = { type = "boolean", default = true,
    doc = "never worse with more memory or fewer stages behind: search as if memory were ample, then choose cuts, tp, dp and recompute "
      .. "exactly for what there is; without, and with `database`, search at the memory there is, as the original" },
}
for _, fields in ipairs { search.options, strategies.options } do
  for name, field in pairs(fields) do options[name] = field end
end
options.max_tp.doc = "largest tensor-parallel degree"

--- The operators of the database for this model; made once.
local function operators_of(model, ctx)
  if not ctx.memo.operators then ctx.memo.operators = operators.model(ctx.options.database, model.layers) end
  return ctx.memo.operators
end

local function database_space(slice, island, ctx)
  ctx.memo.choices = ctx.memo.choices or {}
  local model <const>, kinds <const> = operators_of(ctx.model, ctx), {}
  for i, atom in ipairs(ctx.atoms) do kinds[i] = atom.kind end
  return operators.space(model, {
    kinds = kinds, from = slice.first, to = slice.last, gpus = island.gpus, gpus_per_node = island.gpus_per_node,
    capacity_bytes = ctx.capacity_bytes, successors = ctx.successors, sizes = { ctx.samples }, microbatches = { ctx.microbatches },
    max_stage_gpus = ctx.options.max_stage_gpus, max_tp = ctx.options.max_tp, choices = ctx.memo.choices,
    repair = ctx.options.repair, memory_bytes_per_s = island.device.memory_bytes_per_s,
  })
end

--- The plan of a configuration, with the numbers that plans are compared by; nil if a stage, priced whole, does not fit.
local function build(space, c, ctx)
  local plan <const>, first = {}, 1
  local made <const> = { plan = plan, stages = #c.last, bottleneck_s = 0, latency_s = 0, sync_s = 0, successors = ctx.microbatches }
  -- with as many stages behind as microbatches, memory needs no more
  for i, last in ipairs(c.last) do
    local stage <const> = space.stage(c.choice[i], c.price[i], first, last)
    local busy_s <const> = stage.forward_s + stage.backward_s
    local bears <const> = ctx.cost.bears(stage, ctx) - (#c.last - i)
    if bears < ctx.successors then return nil end
    plan[i], first = stage, last + 1
    made.bottleneck_s, made.latency_s = math.max(made.bottleneck_s, busy_s), made.latency_s + busy_s
    made.sync_s, made.successors = math.max(made.sync_s, stage.sync_s), math.min(made.successors, bears)
  end
  return made
end

--- Space and search of one number of stages, as steady.finder gives them: at the memory there is, as the original.
local function finder(slice, island, ctx)
  local space <const> = ctx.options.database and database_space(slice, island, ctx) or priced.space(slice, island, ctx, ctx.options)
  return space, function(stages)
    local best <const>, counts <const> = search.run(space, stages, ctx.options, #ctx.atoms, ctx.budget.share)
    return { best }, counts and counts.least.bytes - ctx.capacity_bytes
  end
end

local compared <const> = { "stages", "bottleneck_s", "latency_s", "sync_s", "-successors" }

return {
  api = 1, kind = "parallelizer", name = "aceso",
  description = "iterative bottleneck alleviation (Aceso, EuroSys 2024)",
  options = options,
  atoms = function(model, ctx)
    if not ctx.options.operators then return nil end
    if not ctx.options.database then error("option 'operators': needs the option 'database'", 0) end
    return operators.atoms(model, ctx.atoms, ctx.options.database)
  end,
  plan = function(slice, island, ctx)
    local make <const> = ctx.options.steady and not ctx.options.database and steady.finder or finder
    local space <const>, find <const> = make(slice, island, ctx)
    local made <const>, tried, short_bytes, short_stages = {}, false, nil, nil
    for stages = 1, math.min(#slice, island.gpus, ctx.options.max_stages) do
      local found <const>, short <const> = find(stages)
      for _, c in ipairs(found) do made[#made + 1], tried = build(space, c, ctx), true end
      if short and short < (short_bytes or math.huge) then short_bytes, short_stages = short, stages end
    end
    if #made > 0 then
      local plans <const> = {}
      for i, one in ipairs(core.pareto(made, compared)) do plans[i] = one.plan end
      return plans
    end
    if tried then return nil, "no plan's stages fit, priced whole" end
    if not short_bytes then return nil, ("no number of stages uses all %d GPUs for %d atoms"):format(island.gpus, #slice) end
    return nil, ("%d stages are %.2f GiB short, the nearest to fitting"):format(short_stages, short_bytes / 2 ^ 30)
  end,
}
