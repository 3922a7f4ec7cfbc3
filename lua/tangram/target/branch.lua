--- What a runtime can run, as a constraint of the search (--target; DESIGN.md, section 8).
---
--- A runtime's rules are of two kinds. Some each stage meets or not by itself: cp is 1, a layer at least, ZeRO up to 1. The
--- others compare stages: equal GPUs, one tp. Of these a search of its own, a *mode*, fixes the value that stages share, and
--- with that they are rules of each stage too. Modes are taken from wide to narrow: a mode whose best plan meets all rules is
--- done, since every narrower one is a part of it; else it is split by the rule that the plan breaks (`branch`), and nothing
--- is lost between the parts. All share the best time so far.
local core <const> = require "tangram.core"
local divisors <const> = require "tangram.divisors"
local target <const> = require "tangram.target.stage"

local is_in <const> = target.is_in

local targets <const> = {}

local ALL <const> = target.ALL

--- The runtimes that can be a target, by letters: the exporters that ask anything of plans.
---@return string[]
function targets.names()
  local names <const> = {}
  for _, exporter in ipairs(require("tangram.output").list()) do
    if next(exporter.rules) then names[#names + 1] = exporter.name end
  end
  table.sort(names)
  return names
end

--- The rules of a runtime (tangram.output's `rules`); raises one line for an unknown one.
---@param name string
---@return table
function targets.rules(name)
  local names <const> = targets.names()
  for _, known in ipairs(names) do
    if known == name then return require("tangram.output").find(name).rules end
  end
  local near <const> = core.nearest(name, names)
  error(("target: unknown runtime '%s', expected one of %s%s"):format(name, table.concat(names, ", "),
    near and (" (did you mean '%s'?)"):format(near) or ""), 0)
end

--- What each stage must be by itself, as the mode that all others are parts of.
local function widest(name, own, model)
  local mode <const> = { name = name, zero = {}, kv_divides = own.kv_divide, min_layers = own.min_layers or 0 }
  for level = 0, own.max_zero or 3 do
    if level ~= 1 or not own.no_zero_one then mode.zero[#mode.zero + 1] = level end
  end
  if own.cp_one then mode.cp = 1 end
  if own.ep_one then mode.ep, mode.etp = 1, 1 end
  if own.sp_with_tp then mode.sp = true end
  if own.selective_never then mode.selective = false end
  if own.tied_one_stage and model.tied then mode.whole = true end
  return mode
end

local function with(mode, changes)
  local copy <const> = {}
  for name, value in pairs(mode) do copy[name] = value end
  for name, value in pairs(changes) do copy[name] = value end
  return copy
end

--- The sizes that a stage can have on some island.
local function sizes(islands)
  local seen <const>, list <const> = {}, {}
  for _, island in ipairs(islands) do
    for gpus = 1, island.gpus do
      if not seen[gpus] and (gpus < island.gpus_per_node or gpus % island.gpus_per_node == 0) then
        seen[gpus] = true
        list[#list + 1] = gpus
      end
    end
  end
  table.sort(list)
  return list
end

--- Every way to recompute for a runtime that knows none, all layers, and attention alone.
local function whole_recompute(mode, own)
  local list <const> = {
    with(mode, { selective = false, most_recomputed = 0 }), with(mode, { selective = false, least_recomputed = ALL }),
  }
  if not own.selective_never then list[3] = with(mode, { selective = true }) end
  return list
end

local function vendors_of(islands)
  local seen <const>, list <const> = {}, {}
  for _, island in ipairs(islands) do
    local vendor <const> = island.device.vendor or "unknown"
    if not seen[vendor] then list[#list + 1] = vendor end
    seen[vendor] = true
  end
  return list
end

--- The modes to begin with; together they hold all plans that meet the rules.
---@param name string the runtime
---@param own table its rules
---@param islands tangram.Island[]
---@param model table
---@return table[]
function targets.roots(name, own, islands, model)
  local wide <const>, list <const> = widest(name, own, model), {}
  if own.one_vendor and #vendors_of(islands) > 1 then
    for _, vendor in ipairs(vendors_of(islands)) do
      local of_one <const>, some <const> = with(own, { one_vendor = false }), {}
      for _, island in ipairs(islands) do some[#some + 1] = island.device.vendor == vendor and island or nil end
      for _, mode in ipairs(targets.roots(name, of_one, some, model)) do list[#list + 1] = with(mode, { vendor = vendor }) end
    end
    return list
  end
  if not own.equal_gpus then return { wide } end
  local most_tp = 1 -- tp stays inside a node, as in tangram.strategies
  for _, island in ipairs(islands) do most_tp = math.max(most_tp, island.gpus_per_node) end
  for _, gpus in ipairs(sizes(islands)) do
    if not own.one_tp then
      list[#list + 1] = with(wide, { gpus = gpus })
    else
      for _, tp in ipairs(divisors(gpus)) do
        for _, cp in ipairs(tp > most_tp and {} or own.cp_one and { 1 } or divisors(gpus // tp)) do
          list[#list + 1] = with(wide, { gpus = gpus, tp = tp, cp = cp, dp = gpus // tp // cp })
        end
      end
    end
  end
  return list
end

--- Children that differ in one field.
local function split(mode, field, values)
  local list <const> = {}
  for i, value in ipairs(values) do list[i] = with(mode, { [field] = value }) end
  return list
end

--- The values of a field among stages that have it.
local function values_of(stages, value)
  local seen <const>, list <const> = {}, {}
  for _, stage in ipairs(stages) do
    local one <const> = value(stage)
    if one ~= nil and not seen[one] then
      seen[one] = true
      list[#list + 1] = one
    end
  end
  return list
end

local function zero_of(stage)
  if stage.strategy.dp * stage.strategy.cp > 1 then return stage.strategy.zero end
end

local function sp_of(stage)
  if stage.strategy.tp > 1 then return stage.strategy.sp end
end

--- The one number of layers that all stages recompute, or all of theirs; nil if there is none, then with the largest number.
local function one_count(stages)
  local partial, whole = nil, 0
  local same, largest = true, 0
  for _, stage in ipairs(stages) do
    local count <const> = target.recomputed(stage.strategy, stage.layers)
    largest = math.max(largest, count)
    if count < stage.layers then
      same, partial = same and (partial or count) == count, count
    else
      whole = math.max(whole, count)
    end
  end
  if same and (not partial or whole <= partial) then return partial or ALL end
  return nil, largest
end

--- Each broken rule with the modes that a mode falls into, in the order in which they are looked at.
local breaks <const> = {
  function(own, mode, stages) -- one dp on stages of any size
    local function dp_of(stage) return stage.strategy.dp end
    if own.one_dp and #values_of(stages, dp_of) > 1 then return split(mode, "dp", divisors(stages.global_batch)) end
  end,
  function(own, mode, stages) -- a strategy's sequence parallelism is one flag
    if own.one_tp and #values_of(stages, sp_of) > 1 then return split(mode, "sp", { true, false }) end
  end,
  function(own, mode, stages)
    local levels <const> = values_of(stages, zero_of)
    if own.one_zero and #levels > 1 then
      local parts <const> = {}
      for i, level in ipairs(mode.zero) do parts[i] = { level } end
      return split(mode, "zero", parts)
    end
    local low <const>, parts <const> = {}, {}
    for _, level in ipairs(levels) do low[#low + 1] = level < 3 and level or nil end
    if own.one_low_zero and #low > 1 then
      for _, level in ipairs(mode.zero) do parts[#parts + 1] = level < 3 and { level, is_in(mode.zero, 3) and 3 or nil } or nil end
      return split(mode, "zero", parts)
    end
  end,
  function(own, mode, stages, model)
    local ep <const> = values_of(stages, function(stage) return stage.moe and stage.strategy.ep or nil end)
    local etp <const> = values_of(stages, function(stage) return stage.moe and stage.strategy.etp or nil end)
    if own.one_ep and #ep > 1 then return split(mode, "ep", divisors(model.experts)) end
    if own.one_ep and #etp > 1 then return split(mode, "etp", divisors(mode.tp)) end
    if own.ep_all_or_none and #ep > 1 and is_in(ep, 1) then return { with(mode, { ep = 1 }), with(mode, { spread_experts = true }) } end
  end,
  function(own, mode, stages)
    if not (own.one_recompute or own.selective_all_or_none) then return nil end
    local selective = 0
    for _, stage in ipairs(stages) do
      if target.recomputed(stage.strategy, stage.layers) == "selective" then selective = selective + 1 end
    end
    if selective == #stages then return nil end
    if selective > 0 then return split(mode, "selective", { true, false }) end
    local one <const>, most <const> = one_count(stages)
    if own.selective_all_or_none or one and (one == 0 or one == ALL or not own.whole_recompute) then return nil end
    if own.whole_recompute then return whole_recompute(mode, own) end
    return { with(mode, { least_recomputed = most, selective = false }), with(mode, { most_recomputed = most - 1, selective = false }) }
  end,
  function(own, mode, stages, model)
    local front <const>, rear <const> = stages[1].strategy, stages[#stages].strategy
    if not model.tied or #stages == 1 then return nil end
    local list <const> = {}
    if own.tied_tp_equal and front.tp ~= rear.tp then
      for _, tp in ipairs(divisors(model.heads)) do
        list[#list + 1] = with(mode, { first = with(mode.first or {}, { tp = tp }), last = with(mode.last or {}, { tp = tp }) })
      end
      return list
    end
    if own.tied_dp_divides and math.max(zero_of(stages[1]) or 0, zero_of(stages[#stages]) or 0) > 0
        and front.dp % rear.dp ~= 0 and rear.dp % front.dp ~= 0 then
      list[1] = with(mode, { zero = { 0 } })
      for _, a in ipairs(divisors(stages.samples)) do
        for _, b in ipairs(divisors(stages.samples)) do
          if a % b == 0 or b % a == 0 then
            list[#list + 1] = with(mode, { first = with(mode.first or {}, { dp = a }), last = with(mode.last or {}, { dp = b }) })
          end
        end
      end
      return list
    end
  end,
}

--- A host whose stages have others between them, and the islands that these are on; nil if there is none.
local function split_host(stages)
  local last <const>, islands_of <const>, found = {}, {}, nil
  for s, stage in ipairs(stages) do
    for _, host in ipairs(stage.hosts) do
      islands_of[host] = islands_of[host] or {}
      table.insert(islands_of[host], stage.island)
      if last[host] and last[host] < s - 1 then found = found or host end
      last[host] = s
    end
  end
  return found, found and islands_of[found]
end

--- The modes that a mode falls into where its best plan breaks a rule; nil where it meets all.
---@param own table rules
---@param mode table
---@param stages table[] as for `meets`, front first; each with `island` and `hosts` too; `samples` of a microbatch, `global_batch`
---@param model table
---@return table[]? parts; `partial`: they don't hold all plans of the mode that meet the rules
function targets.branch(own, mode, stages, model)
  local split_on, names
  if own.no_split_hosts then split_on, names = split_host(stages) end
  if split_on then -- one of its islands is left out; that they may also be neighbours is not searched for
    local parts <const>, seen <const> = { partial = true }, {}
    for _, name in ipairs(names) do
      if not seen[name] then parts[#parts + 1] = with(mode, { without = with(mode.without or {}, { [name] = true }) }) end
      seen[name] = true
    end
    return parts
  end
  for _, broken in ipairs(breaks) do
    local parts <const> = broken(own, mode, stages, model)
    if parts then return parts end
  end
  return nil
end

return targets
