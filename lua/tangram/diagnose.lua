--- Why nothing fits, and the smallest change that would: each change is tried by searching again.
local core <const> = require "tangram.core"
local sorted_keys <const> = require "tangram.sorted_keys"

local diagnose <const> = {}

local limit_s <const> = 60 -- for all tries together: some seconds on most machines, and many on a slow and busy one

local function copy(value)
  if type(value) ~= "table" then return value end
  local result <const> = setmetatable({}, getmetatable(value))
  for key, item in pairs(value) do result[key] = copy(item) end
  return result
end

--- The cluster with count more nodes like the given one.
local function with_more(cluster, node, count)
  local larger <const> = copy(cluster)
  local links <const> = larger.network.links or core.array {}
  for i = 1, count do
    local twin <const> = copy(node)
    twin.name = ("%s+%d"):format(node.name, i)
    for _, link in ipairs(copy(links)) do
      for e = 1, 2 do
        if link.between[e] == node.name and link.between[3 - e] ~= twin.name then
          local own <const> = copy(link)
          own.between[e] = twin.name
          links[#links + 1] = own
        end
      end
    end
    larger.nodes[#larger.nodes + 1] = twin
  end
  larger.network.links = links
  -- between twins: as between others, or as inside the node if nothing is said
  larger.network.default = larger.network.default
    or { bytes_per_s = links[1] and links[1].bytes_per_s or node.intra_bytes_per_s, latency_s = links[1] and links[1].latency_s }
  return larger
end

--- Changes to try, smallest first: words and a function that makes them on a copy of the spec.
local function changes(setting, pruned)
  local training <const>, list <const> = setting.training, {}
  local function add(words, change) list[#list + 1] = { words = words, change = change } end
  for i, policy in ipairs(setting.policies) do
    if pruned[policy.name] and not policy.safe then
      add(("no policy '%s', which may drop what fits"):format(policy.name), function(own) table.remove(own.prune, i) end)
    end
  end
  if training.microbatches.max < training.global_batch then
    add(("more, smaller microbatches (--microbatches ..%d)"):format(training.global_batch), function(own)
      own.training.microbatches = { min = training.microbatches.min, max = training.global_batch }
    end)
  end
  for _, margin in ipairs { 0.05, 0.0 } do
    if training.memory_margin > margin then
      add(("a memory margin of %g (--memory-margin %g)"):format(margin, margin), function(own) own.training.memory_margin = margin end)
    end
  end
  if training.gradient_bytes == 4 then
    add("16-bit gradients (--set training.gradient_bytes=2)", function(own) own.training.gradient_bytes = 2 end)
  end
  local function set_option(name, value, words)
    add(words, function(own)
      own.parallelizer = { name = setting.parallelizer.request, options = copy(setting.parallelizer.options) }
      own.parallelizer.options[name] = value
    end)
  end
  local fields <const>, options <const> = setting.parallelizer.option_fields, setting.parallelizer.options
  for _, name in ipairs(sorted_keys(fields)) do
    -- what the spec forbids may be what is missing: recomputation, ZeRO, more stages
    local default <const> = fields[name].default
    if default ~= nil and core.json_encode(options[name]) ~= core.json_encode(default) then
      local words <const> = name == "max_cp" and ("context parallelism, as 2 x cp divides %d tokens"):format(training.seq_len)
        or name:find "recompute" and "more recompute" or name == "selective" and "recompute of the attention core"
      set_option(name, default, ("%s%s's option %s at its default%s"):format(words and words .. " (" or "", setting.parallelizer.name, name,
        words and ")" or ""))
    end
  end
  if fields.offload then
    local value <const> = fields.offload.type == "list" and { "none", "optimizer", "activations", "both" } or "both"
    set_option("offload", value, "optimizer states and activations offloaded (option offload)")
  end
  local seen <const> = {}
  for _, count in ipairs { 1, 2, 3, 4, 6, 8, 12, 16 } do
    for _, node in ipairs(setting.cluster.nodes) do
      local kind <const> = ("%d %s %s"):format(count, tostring(node.gpu), tostring(node.gpus))
      if node.gpu and not seen[kind] then
        seen[kind] = true
        add(("%d more node%s like '%s' (%d × %s)"):format(count, count == 1 and "" or "s", node.name, node.gpus, node.gpu),
          function(own) own.cluster = with_more(setting.cluster, node, count) end)
      end
    end
  end
  return list
end

--- A plan with the change of the spec, or of the target's rules; nil if there is none.
local function fits(setting, change, left_s, change_rules)
  local planner <const> = require "tangram.planner"
  local own <const> = copy(setting.spec)
  own.gap, own.merged, own.time_limit_s, own.top = 0.9, false, left_s, 1
  change(own)
  local ok <const>, plan <const> = pcall(function()
    local changed <const> = planner.setting(own)
    if change_rules then changed.rules = change_rules(changed.rules) end
    local outcome <const> = planner.search(changed, { any = true })
    return outcome.best and require("tangram.plan").build(changed, outcome)
  end)
  return ok and plan or nil
end

--- What a plan's fullest GPU holds, and how its stage runs.
local function fullest(plan)
  local most
  for _, stage in ipairs(plan.stages) do
    local share <const> = stage.memory.total_bytes / stage.memory.capacity_bytes
    if not most or share > most.share then most = { share = share, stage = stage } end
  end
  local words <const>, memory <const> = require "tangram.report.words", most.stage.memory
  return ("%.2f of %.2f GiB on the fullest GPU, %s, recompute %s"):format(memory.total_bytes / 2 ^ 30, memory.capacity_bytes / 2 ^ 30,
    words.strategy(most.stage.strategy), words.recompute(most.stage))
end

--- The rules of runtimes that may be what no plan meets, those that leave most when dropped last.
local rule_words <const> = {
  { "a layer in each stage", "min_layers" }, { "one way of recompute", "one_recompute", "whole_recompute", "selective_all_or_none" },
  { "no selective recompute", "selective_never" }, { "one level of ZeRO", "one_zero", "one_low_zero" },
  { "its levels of ZeRO", "max_zero", "no_zero_one" }, { "KV heads that tp divides", "kv_divide" },
  { "equal tp of the ends, as the embedding is tied", "tied_tp_equal", "tied_dp_divides" },
  { "one stage, as the embedding is tied", "tied_one_stage" }, { "one ep", "one_ep", "ep_all_or_none" }, { "ep 1", "ep_one" },
  { "cp 1", "cp_one" }, { "GPUs of one vendor", "one_vendor" }, { "one tp and dp in all stages", "one_tp" },
  { "equal numbers of GPUs in all stages", "equal_gpus" },
}

--- Rules with one of rule_words less.
local function without(rules, row)
  local changed <const> = copy(rules)
  for i = 2, #row do changed[row[i]] = nil end
  return changed
end

--- For a target that no plan meets: which of its rules is in the way, and which other targets have a plan. Nil if nothing fits
--- without a target either.
local function explain_target(setting, deadline_s)
  local name <const> = setting.spec.target
  local function left_s() return math.max(0.1, deadline_s - core.clock_s()) end
  if not fits(setting, function(own) own.target = nil end, left_s()) then return nil end
  local why = ("no plan that %s can run fits, though one that it can't run does"):format(name)
  local bites
  for _, row in ipairs(rule_words) do
    local has = false
    for i = 2, #row do has = has or setting.rules[row[i]] end
    if has and core.clock_s() < deadline_s
        and fits(setting, function() end, left_s(), function(rules) return without(rules, row) end) then
      bites = row[1]
      break
    end
  end
  why = bites and ("%s: its rule of %s is in the way"):format(why, bites) or why .. ": several of its rules are in the way together"
  local others <const> = {}
  for _, other in ipairs(require("tangram.target.branch").names()) do
    if other ~= name and core.clock_s() < deadline_s and fits(setting, function(own) own.target = other end, left_s()) then
      others[#others + 1] = other
    end
  end
  return #others > 0 and ("%s; there is one with --target %s"):format(why, table.concat(others, ", ")) or why
end

--- Pairs by the policy that dropped them, as words.
local function dropped_by(pruned)
  local words <const> = {}
  for name, count in pairs(pruned) do words[#words + 1] = ("%d by '%s'"):format(count, name) end
  table.sort(words)
  return table.concat(words, ", ")
end

local function said(complaint, islands)
  return ("on island %s, atoms %d..%d at %d microbatch%s: %s"):format(islands[complaint.island].name, complaint.first, complaint.last,
    complaint.microbatches, complaint.microbatches == 1 and "" or "es", complaint.why)
end

--- Most queries failed: what of, each reason once. Nil if most did not.
---@param setting table planner.setting
---@param outcome table planner.search
---@return string?
function diagnose.failures(setting, outcome)
  local failed <const>, queried <const> = outcome.failed, outcome.counts.queried or 0
  if 2 * #failed <= queried then return nil end
  local words <const>, seen <const> = {}, {}
  for _, one in ipairs(failed) do
    if not seen[one.complaint.why] and #words < 3 then words[#words + 1] = said(one.complaint, one.islands) end
    seen[one.complaint.why] = true
  end
  return ("%s queries of the parallelizer %s failed: %s"):format(#failed == queried and ("all %d"):format(queried)
    or ("%d of %d"):format(#failed, queried), setting.parallelizer.path, table.concat(words, "; "))
end

--- Where it falls short, by the complaints of the first search.
local function shortages(setting, outcome)
  local failed <const> = diagnose.failures(setting, outcome)
  if failed then return nil, "no plan: " .. failed end
  local words <const>, counts <const> = {}, outcome.counts
  for _, complaint in ipairs(outcome.first and outcome.first.refused or {}) do
    words[#words + 1] = said(complaint, outcome.partitions[1].islands)
  end
  if setting.rules then return "no plan fits" end -- the complaints are of one way to divide the GPUs, out of many
  return "no plan fits: " .. (#words > 0 and table.concat(words, "; ")
    or ("the policies dropped all %d pairs, %s"):format(counts.all, dropped_by(counts.pruned)))
end

--- One line: where it falls short, by how much, and what would make it fit.
---@param setting table planner.setting
---@param outcome table planner.search, without a plan
---@return string
function diagnose.explain(setting, outcome)
  local why, failed <const> = shortages(setting, outcome)
  if failed then return failed end
  local deadline_s <const> = core.clock_s() + limit_s
  if setting.rules then
    why = explain_target(setting, core.clock_s() + limit_s / 2) or why .. ", and none fits without the target either"
  end
  for _, one in ipairs(changes(setting, outcome.counts.pruned)) do
    local left_s <const> = deadline_s - core.clock_s()
    if left_s <= 0 then return why .. "; no small change was found in the time to look" end
    local plan <const> = fits(setting, one.change, left_s)
    if plan then return ("%s; it fits with %s: %s"):format(why, one.words, fullest(plan)) end
  end
  return why .. "; none of the small changes tried makes it fit"
end

return diagnose
