--- From a recipe's table to a plan: reads model, cluster and training, groups the cluster into islands, searches, and
--- builds the plan with all that is needed to check, report and launch it (tangram.plan/1).
local catalog <const> = require "tangram.catalog"
local cluster_json <const> = require "tangram.input.cluster_json"
local clusters <const> = require "tangram.cluster"
local contract <const> = require "tangram.contract"
local core <const> = require "tangram.core"
local costs <const> = require "tangram.cost"
local islands <const> = require "tangram.islands"
local loader <const> = require "tangram.loader"
local models <const> = require "tangram.model"
local plain <const> = require "tangram.plain"
local plans <const> = require "tangram.plan"
local schema <const> = require "tangram.schema"
local search <const> = require "tangram.search"
local sorted_keys <const> = require "tangram.sorted_keys"
local targeted <const> = require "tangram.target.search"
local targets <const> = require "tangram.target.branch"
local trainings <const> = require "tangram.training"
local views <const> = require "tangram.views"

local planner <const> = {}

local MOST_WARNINGS <const> = 10000 -- plugins may log without end

local plugin_field <const> = function(default, doc)
  return {
    any_of = {
      { type = "string" },
      { type = "table", fields = { name = { type = "string", required = true }, options = { type = "map", default = {} } } },
    },
    default = default, doc = doc,
  }
end

local source <const> = function(doc)
  return { any_of = { { type = "string" }, { type = "table" } }, required = true, doc = doc }
end

--- The table that tangram.plan takes.
planner.fields = {
  model = source "a model, or the path of a config.json or of Megatron's arguments, or { file =, and what is set over it }",
  cluster = source "a cluster, or the path of its JSON",
  training = { type = "table", required = true, doc = "global_batch, seq_len, … (tangram.training)" },
  parallelizer = plugin_field("exact", "adapter that plans a slice on an island: a name, a path, or { name =, options = }"),
  cost = plugin_field("analytic", "cost model: a name, a path, or { name =, options = }"),
  prune = {
    type = "list", item = plugin_field(nil, "policy"), default = { "infeasible", "redundant", "bounded" },
    doc = "pruning policies, first to last",
  },
  objective = { type = "enum", values = { "simulated", "paper" }, default = "simulated", doc = "what is minimised" },
  p2p = { type = "enum", values = { "overlapped", "blocking" },
    doc = "transfers between stages; default: as the target does them, overlapped without one" },
  warmup = { type = "enum", values = { "1f1b", "auto" }, default = "1f1b", doc = "microbatches in flight" },
  gap = { type = "number", min = 0, max = 0.99, default = 0.005, doc = "fraction from the optimum at which to stop" },
  time_limit_s = { type = "number", above = 0, doc = "seconds after which the best so far is taken" },
  query_seconds = { type = "number", above = 0, default = contract.limits.seconds, doc = "seconds that one query may take" },
  query_memory_bytes = {
    type = "number", above = 0, default = contract.limits.memory_bytes, doc = "bytes by which one query may grow its worker",
  },
  workers = { type = "integer", min = 1, max = 1024, doc = "threads that ask the parallelizer; default: the machine's cores" },
  store = { type = "string", doc = "file in which answers are kept, and looked up first" },
  top = { type = "integer", min = 1, max = 1000, default = 1, doc = "how many of the best plans to list" },
  target = { type = "string", doc = "runtime that must be able to run the plan; default: none" },
  granularity = { type = "enum", values = { "layer", "half" }, default = "layer", doc = "what the model is cut into" },
  exclude = { type = "list", item = { type = "string" }, default = {}, doc = "nodes to leave out" },
  tolerance = islands.options.tolerance, islands = islands.options.islands, cut_nodes = islands.options.cut_nodes,
  split_islands = islands.options.split_islands,
  merged = { type = "boolean", default = true, doc = "also try the partition that hides the difference between GPUs" },
}

--- Loads the plugins that a spec names. A parallelizer's option `objective` is the plan's, unless the spec gives it.
local function load_plugins(spec)
  local parallelizer <const> = loader.load("parallelizer", spec.parallelizer)
  local given <const> = type(spec.parallelizer) == "table" and spec.parallelizer.options or {}
  if parallelizer.option_fields.objective and given.objective == nil then parallelizer.options.objective = spec.objective end
  local cost_plugin <const> = loader.load("cost", spec.cost)
  local policies <const> = {}
  for i, name in ipairs(spec.prune) do policies[i] = loader.load("prune", name) end
  return parallelizer, cost_plugin, policies
end

--- Atoms of the model, the adapter's own if it has some; then in the engine's fields.
local function atoms_of(model, training, spec, parallelizer)
  local standard <const>, why <const> = core.atoms(model, { seq_len = training.seq_len, granularity = spec.granularity })
  if not standard then error(why, 0) end
  if not parallelizer.atoms then return standard, false end
  local ok <const>, own <const> = core.guarded(spec.query_seconds, spec.query_memory_bytes, function()
    return plain(parallelizer.atoms(plain(model),
      { training = plain(training), atoms = plain(standard), options = plain(parallelizer.options) }))
  end)
  if not ok then error(("%s: atoms(): %s"):format(parallelizer.path, own), 0) end
  if not own then return standard, false end
  return require("tangram.atoms").check(parallelizer, own), true
end

--- A record of each GPU type in the cluster, by name.
local function devices_of(description)
  local records <const> = {}
  for i, name in ipairs(sorted_keys(description.gpus)) do
    records[i] = setmetatable({ name = name }, { __index = description.gpus[name] })
  end
  return records
end

--- What is left of a cluster for a runtime that knows no fp16: the nodes with bf16, unless the user chose a precision himself.
local function for_precision(setting, rules, name)
  local asked <const> = setting.training.precision
  for _, wrong in ipairs { "fp16", "fp8" } do
    if rules["no_" .. wrong] and asked == wrong then
      error(("precision: got '%s', which %s does not train in, expected 'bf16'"):format(wrong, name), 0)
    end
  end
  if not rules.no_fp16 or asked ~= "auto" then return end
  local lacking <const>, nodes <const> = {}, setting.cluster.nodes
  for _, node in ipairs(nodes) do
    for _, kind in ipairs(clusters.kinds_of(node)) do
      if not clusters.record_of(setting.cluster, node, kind).bf16_flops and lacking[#lacking] ~= node.name then
        lacking[#lacking + 1] = node.name
      end
    end
  end
  if #lacking == #nodes then
    error(("target: %s trains in bf16 and not in fp16, and no GPU of the cluster has it; expected another target"):format(name), 0)
  elseif #lacking > 0 then
    setting.cluster = clusters.without(setting.cluster, lacking)
    setting.log(("left out of the cluster: %s, without bf16, as %s does not train in fp16"):format(table.concat(lacking, ", "), name))
  end
end

--- One attention implementation for all stages, for a runtime that has no more: unfused if a GPU knows no other.
local function for_attention(setting, name)
  local old, new
  for _, device in ipairs(devices_of(setting.cluster)) do
    if catalog.unfused[device.arch] then old = old or device.name else new = device.name end
  end
  if not (old and new) or setting.training.attention ~= "auto" then return end
  setting.training.attention = "unfused"
  setting.log(("attention is unfused on all GPUs, as %s has no fused kernels and %s takes one implementation for all stages"):format(old,
    name))
end

--- What all partitions of one planning share.
---@param spec table checked against planner.fields
---@return table setting
function planner.setting(spec)
  local setting <const> = { spec = spec, warnings = {}, unfit = {} }
  local function warn(list)
    for _, text in ipairs(list or {}) do setting.warnings[#setting.warnings + 1] = text end
  end
  setting.log = function(text)
    if #setting.warnings < MOST_WARNINGS then warn { text } end
  end
  local warnings
  setting.model, warnings = models.read(spec.model)
  warn(warnings)
  setting.cluster = type(spec.cluster) == "string" and cluster_json.read(spec.cluster) or clusters.describe(spec.cluster)
  if #spec.exclude > 0 then setting.cluster = clusters.without(setting.cluster, spec.exclude) end
  setting.training = trainings.check(spec.training)
  setting.parallelizer, setting.cost_plugin, setting.policies = load_plugins(spec)
  setting.rules = spec.target and targets.rules(spec.target)
  if setting.rules then for_precision(setting, setting.rules, spec.target) end
  local precision <const>, note <const> = trainings.resolve_precision(setting.training, devices_of(setting.cluster))
  if not precision then error(note, 0) end
  setting.training.precision = precision
  warn { note }
  spec.p2p = spec.p2p or setting.rules and setting.rules.waits_for_transfers and "blocking" or "overlapped"
  if setting.rules and setting.rules.one_attention then for_attention(setting, spec.target) end
  setting.atoms, setting.own_atoms = atoms_of(setting.model, setting.training, spec, setting.parallelizer)
  if setting.rules and (setting.own_atoms or spec.granularity ~= "layer") then
    error(("target: no runtime cuts inside a layer, expected granularity 'layer' for %s"):format(spec.target), 0)
  end
  if spec.store then
    local store <const>, refused <const> = core.store(spec.store)
    if not store then error(refused, 0) end
    setting.store = store
  end
  return setting
end

local function same_partition(a, b)
  if #a.islands ~= #b.islands then return false end
  for i, island in ipairs(a.islands) do
    if table.concat(island.nodes, "\0") ~= table.concat(b.islands[i].nodes, "\0") then return false end
  end
  return true
end

--- The fewest islands and, unless it is the same or not wanted, the merged partition.
local function partitions_of(setting)
  local spec <const> = setting.spec
  local first <const> = islands.group(setting.cluster, {
    tolerance = spec.tolerance, islands = spec.islands, cut_nodes = spec.cut_nodes, split_islands = spec.split_islands,
  })
  for _, text in ipairs(first.warnings) do setting.log(text) end
  if not first.proved_fewest then
    setting.log "the islands are not proved the fewest: more than 16 groups of unlike nodes"
  end
  local merged <const> = spec.merged and islands.group(setting.cluster,
    { merged = true, cut_nodes = spec.cut_nodes, split_islands = spec.split_islands })
  if merged and not same_partition(first, merged) then return { first, merged } end
  return { first }
end

--- What search.run takes, for one partition and, with a target, what each stage must be.
---@param setting table planner.setting
---@param partition table islands.group
---@param mode table? ctx.target
---@return tangram.Problem
function planner.problem(setting, partition, mode)
  local bounds = true
  if setting.parallelizer.own_times then
    bounds = false
    setting.log(("%s brings its own times, so no pair is dropped by a bound"):format(setting.parallelizer.name))
  end
  local spec <const>, plugin <const> = setting.spec, setting.cost_plugin
  local problem <const> = {
    model = setting.model, atoms = setting.atoms, cluster = partition.cluster, islands = partition.islands,
    training = setting.training, microbatches = trainings.microbatch_counts(setting.training),
    parallelizer = setting.parallelizer, cost_plugin = plugin, policies = setting.policies, bounds = bounds,
    seconds = spec.query_seconds, memory_bytes = spec.query_memory_bytes, workers = spec.workers or core.processors(),
    store = setting.store, target = mode, log = setting.log,
    note = function(text) setting.log((tostring(text):sub(1, 300):gsub("%c", " "))) end,
  }
  problem.unfit = function(what, count) setting.unfit[what] = (setting.unfit[what] or 0) + count end
  search.prepare(problem)
  problem.sight = views.new(problem)
  problem.cost = costs.wrap(plugin, plugin.options, problem.sight(plugin))
  return problem
end

local function add_counts(sum, result)
  for _, name in ipairs { "all", "queried", "reused", "saved" } do sum[name] = (sum[name] or 0) + result[name] end
  sum.pruned, sum.failed = sum.pruned or {}, sum.failed or {}
  for policy, count in pairs(result.pruned) do sum.pruned[policy] = (sum.pruned[policy] or 0) + count end
  if result.reused > 0 then sum.pruned.redundant = (sum.pruned.redundant or 0) + result.reused end
end

--- One search with the best so far as its cutoff: adds what it did to the outcome. Nil if the time is over.
local function search_once(setting, problem, outcome, hooks)
  local spec <const> = setting.spec
  local options <const> = {
    gap = spec.gap, top = spec.top, cutoff = outcome.best and outcome.best.best.time_s, objective = spec.objective,
    p2p = spec.p2p, warmup = spec.warmup,
    time_limit_s = spec.time_limit_s and spec.time_limit_s - (core.clock_s() - outcome.started_s),
    left_out = not hooks.any and not problem.target, progress = hooks.progress, any = hooks.any, ranks = hooks.ranks,
  }
  if options.time_limit_s and options.time_limit_s <= 0 then
    outcome.stopped = "time"
    return nil
  end
  local result <const>, why <const> = search.run(problem, options)
  if not result then error(why, 0) end
  add_counts(outcome.counts, result)
  for _, one in ipairs(result.failed) do
    outcome.failed[#outcome.failed + 1] = { complaint = one, islands = problem.islands }
  end
  outcome.first = outcome.first or result
  outcome.stopped = outcome.stopped or result.stopped
  return result
end

--- Searches the partitions, fewest islands first, the merged one with the best so far as cutoff.
---@param setting table planner.setting
---@param hooks { before: fun(islands: table[])?, progress: fun(...)?, stored: fun(counts: table)?, ranks: userdata? }?
---@return table outcome { best = result?, islands, proved_fewest, counts, results }
function planner.search(setting, hooks)
  hooks = hooks or {}
  local partitions <const> = partitions_of(setting)
  if hooks.before then hooks.before(partitions[1].islands, setting.training) end
  local outcome <const> =
    { counts = {}, partitions = partitions, bound_s = math.huge, failed = {}, started_s = core.clock_s() }
  local function once(problem) return search_once(setting, problem, outcome, hooks) end
  for _, partition in ipairs(partitions) do
    if setting.rules then
      targeted.search(setting, partition, outcome, function(mode) return planner.problem(setting, partition, mode) end, once)
    else
      local problem <const> = planner.problem(setting, partition)
      local result <const> = once(problem)
      if result then outcome.bound_s = math.min(outcome.bound_s, result.bound_s) end
      if result and result.found then outcome.best, outcome.partition, outcome.problem = result, partition, problem end
    end
    if outcome.stopped then break end
  end
  if setting.rules and outcome.best and not outcome.stopped and not hooks.any then
    targeted.work_out_left_out(outcome, { gap = setting.spec.gap, objective = setting.spec.objective, p2p = setting.spec.p2p,
      warmup = setting.spec.warmup, left_out = true, ranks = hooks.ranks })
  end
  return outcome
end

--- What adapters offered and the target can't run.
local function tell_of_unfit(setting)
  local words <const> = {}
  for what, count in pairs(setting.unfit) do words[#words + 1] = ("%d for %s"):format(count, what) end
  table.sort(words)
  if #words > 0 then
    setting.log(("%s can't run some plans that %s gave, dropped: %s"):format(setting.spec.target, setting.parallelizer.name,
      table.concat(words, ", ")))
  end
end

--- What the runtime refuses whatever the plan, such as a model that it does not know.
local function tell_of_refusals(plan, name)
  local result <const> = require("tangram.output").render(core.json_decode(plans.encode(plan)), name)
  for _, finding in ipairs(result.findings) do
    if finding.fatal then
      table.insert(plan.warnings, ("the export to %s is refused as it stands: %s: %s"):format(name, finding.code, finding.text))
    end
  end
end

--- What came of the store goes to standard error alone: whoever answered, the plan is the same.
local function tell_of_store(setting, hooks)
  local counts <const> = setting.store:counts()
  setting.store:close()
  if counts.trouble then
    io.stderr:write("warning: ", counts.trouble, "; the store is left aside, and the plan is made without it\n")
  elseif hooks and hooks.stored then
    hooks.stored(counts)
  end
end

--- Plans. Raises one line for wrong input; returns nil, why, status where there is no plan.
---@param spec table see planner.fields
---@param hooks table? see planner.search; brief: don't look for what would make it fit
---@return table? plan tangram.plan/1
---@return string? why
---@return integer? status 3: nothing fits; 4: stopped before any plan
function planner.plan(spec, hooks)
  local checked <const> = schema.check(spec, planner.fields, "plan")
  local setting <const> = planner.setting(checked)
  local outcome <const> = planner.search(setting, hooks)
  if setting.store then tell_of_store(setting, hooks) end
  if not outcome.best then
    local diagnose <const> = require "tangram.diagnose"
    if outcome.stopped then
      local failures <const> = diagnose.failures(setting, outcome)
      return nil, "stopped before any plan was found" .. (failures and "; " .. failures or ""), 4
    end
    return nil, hooks and hooks.brief and "no plan fits" or diagnose.explain(setting, outcome), 3
  end
  tell_of_unfit(setting)
  local plan <const> = plans.build(setting, outcome)
  local right <const>, wrong <const> = core.plan_check(plans.encode(plan))
  if not right then error("internal: the plan does not pass its check: " .. wrong) end
  if checked.target then tell_of_refusals(plan, checked.target) end
  return plan
end

return planner
