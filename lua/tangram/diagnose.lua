--- Why nothing fits, and the smallest change that would: each change is tried by searching again.
local core <const> = require "tangram.core"

local diagnose <const> = {}

local limit_s <const> = 20 -- for all tries together

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
  local fields <const>, options <const>, names <const> = setting.parallelizer.option_fields, setting.parallelizer.options, {}
  for name in pairs(fields) do names[#names + 1] = name end
  table.sort(names)
  for _, name in ipairs(names) do
    -- what the spec forbids may be what is missing: recomputation, ZeRO, more stages
    local default <const> = fields[name].default
    if default ~= nil and core.json_encode(options[name]) ~= core.json_encode(default) then
      set_option(name, default, ("%s's option %s at its default"):format(setting.parallelizer.name, name))
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

--- Whether there is any plan with the change.
local function fits(setting, change, left_s)
  local planner <const> = require "tangram.planner"
  local own <const> = copy(setting.spec)
  own.gap, own.merged, own.time_limit_s, own.top = 0.9, false, left_s, 1
  change(own)
  local ok <const>, outcome <const> = pcall(function()
    return planner.search(planner.setting(own), { any = true })
  end)
  return ok and outcome.best ~= nil
end

--- Pairs by the policy that dropped them, as words.
local function dropped_by(pruned)
  local words <const> = {}
  for name, count in pairs(pruned) do words[#words + 1] = ("%d by '%s'"):format(count, name) end
  table.sort(words)
  return table.concat(words, ", ")
end

--- One line: where it falls short, by how much, and what would make it fit.
---@param setting table planner.setting
---@param outcome table planner.search, without a plan
---@return string
function diagnose.explain(setting, outcome)
  local words <const>, counts <const> = {}, outcome.counts
  for _, complaint in ipairs(outcome.first.refused) do
    words[#words + 1] = ("on island %s, atoms %d..%d at %d microbatch%s: %s"):format(
      outcome.partitions[1].islands[complaint.island].name, complaint.first, complaint.last, complaint.microbatches,
      complaint.microbatches == 1 and "" or "es", complaint.why)
  end
  if counts.queried > 0 and #outcome.failed == counts.queried then
    return ("no plan: all %d queries of the parallelizer failed: %s"):format(counts.queried, table.concat(words, "; "))
  end
  local why <const> = "no plan fits: " .. (#words > 0 and table.concat(words, "; ")
    or ("the policies dropped all %d pairs, %s"):format(counts.all, dropped_by(counts.pruned)))
  local deadline_s <const> = core.clock_s() + limit_s
  for _, one in ipairs(changes(setting, counts.pruned)) do
    local left_s <const> = deadline_s - core.clock_s()
    if left_s <= 0 then return why .. "; no small change was found in the time to look" end
    if fits(setting, one.change, left_s) then return why .. "; it fits with " .. one.words end
  end
  return why .. "; none of the small changes tried makes it fit"
end

return diagnose
