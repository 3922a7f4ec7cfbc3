--- What a runtime can run, as a constraint of the search (--target; DESIGN.md, section 8).
---
--- A runtime's rules are of two kinds. Some each stage meets or not by itself: cp is 1, a layer at least, ZeRO up to 1. The
--- others compare stages: equal GPUs, one tp. Of these a search of its own, a *mode*, fixes the value that stages share, and
--- with that they are rules of each stage too. Modes are taken from wide to narrow: a mode whose best plan meets all rules is
--- done, since every narrower one is a part of it; else it is split by the rule that the plan breaks (`branch`), and nothing
--- is lost between the parts. All share the best time so far.
local core <const> = require "tangram.core"
local target <const> = require "tangram.target"

local targets <const> = {}

local ALL <const> = target.ALL

--- Rules by runtime (reference: what each runtime's own checks ask for). No runtime shares experts as FSEP does, or takes a
--- plan's offload.
local rules <const> = {
  megatron = {
    equal_gpus = true, one_tp = true, one_dp = true, one_cp = true, one_ep = true, one_sp = true, one_zero = true, zero_levels = { 0, 1 },
    one_recompute = true, min_layers = 1,
  },
  flagscale = {
    cp_one = true, sp_with_tp = true, one_zero = true, zero_levels = { 0, 1 }, ep_all_or_none = true, tied_tp_equal = true,
    tied_dp_divides = true, one_selective = true, min_layers = 1,
  },
  galvatron = {
    equal_gpus = true, zero_levels = { 0, 2, 3 }, one_default_zero = true, never_selective = true, min_layers = 1,
  },
  deepspeed = {
    equal_gpus = true, one_tp = true, one_dp = true, cp_one = true, ep_one = true, one_sp = true, one_zero = true, zero_levels = { 0, 1 },
    one_recompute = true, whole_recompute = true, never_selective = true, kv_divides = true, min_layers = 1,
  },
  torchtitan = {
    equal_gpus = true, one_tp = true, one_dp = true, one_cp = true, one_ep = true, one_sp = true, one_zero = true,
    zero_levels = { 0, 2, 3 }, one_recompute = true, whole_recompute = true, kv_divides = true, min_layers = 1,
  },
}

--- The runtimes that can be a target, by letters.
---@return string[]
function targets.names()
  local names <const> = {}
  for name in pairs(rules) do names[#names + 1] = name end
  table.sort(names)
  return names
end

--- The rules of a runtime; raises one line for an unknown one.
---@param name string
---@return table
function targets.rules(name)
  if rules[name] then return rules[name] end
  local names <const> = targets.names()
  local near <const> = core.nearest(name, names)
  error(("target: unknown runtime '%s', expected one of %s%s"):format(name, table.concat(names, ", "),
    near and (" (did you mean '%s'?)"):format(near) or ""), 0)
end

--- What each stage must be by itself, as the mode that all others are parts of.
local function widest(name, own)
  local mode <const> =
    { name = name, zero = own.zero_levels, kv_divides = own.kv_divides, min_layers = own.min_layers, no_idle = own.no_idle }
  if own.cp_one then mode.cp = 1 end
  if own.ep_one then mode.ep = 1 end
  if own.sp_with_tp then mode.sp = true end
  if own.never_selective then mode.selective = false end
  return mode
end

local function with(mode, changes)
  local copy <const> = {}
  for name, value in pairs(mode) do copy[name] = value end
  for name, value in pairs(changes) do copy[name] = value end
  return copy
end

local function is_in(list, value)
  for _, one in ipairs(list) do
    if one == value then return true end
  end
  return false
end

local function divisors(n)
  local found <const> = {}
  for i = 1, n do
    if n % i == 0 then found[#found + 1] = i end
  end
  return found
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
  if not own.never_selective then list[3] = with(mode, { selective = true }) end
  return list
end

--- The modes to begin with; together they hold all plans that meet the rules.
---@param name string the runtime
---@param own table its rules
---@param islands tangram.Island[]
---@return table[]
function targets.roots(name, own, islands)
  local wide <const>, list <const> = widest(name, own), {}
  if not own.equal_gpus then return { wide } end
  for _, gpus in ipairs(sizes(islands)) do
    if not own.one_tp then
      list[#list + 1] = with(wide, { gpus = gpus })
    else
      for _, tp in ipairs(divisors(gpus)) do
        for _, cp in ipairs(own.cp_one and { 1 } or divisors(gpus // tp)) do
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
  function(own, mode, stages) -- a strategy's sequence parallelism is one flag
    if own.one_sp and #values_of(stages, sp_of) > 1 then return split(mode, "sp", { true, false }) end
  end,
  function(own, mode, stages)
    local levels <const> = values_of(stages, zero_of)
    if own.one_zero and #levels > 1 then
      local parts <const> = {}
      for i, level in ipairs(mode.zero) do parts[i] = { level } end
      return split(mode, "zero", parts)
    end
    if own.one_default_zero and is_in(levels, 0) and is_in(levels, 2) then return split(mode, "zero", { { 0, 3 }, { 2, 3 } }) end
  end,
  function(own, mode, stages, model)
    local ep <const> = values_of(stages, function(stage) return stage.moe and stage.strategy.ep or nil end)
    local etp <const> = values_of(stages, function(stage) return stage.moe and stage.strategy.etp or nil end)
    if own.one_ep and #ep > 1 then return split(mode, "ep", divisors(model.experts)) end
    if own.one_ep and #etp > 1 then return split(mode, "etp", divisors(mode.tp)) end
    if own.ep_all_or_none and #ep > 1 and is_in(ep, 1) then return { with(mode, { ep = 1 }), with(mode, { spread_experts = true }) } end
  end,
  function(own, mode, stages)
    if not (own.one_recompute or own.one_selective) then return nil end
    local selective = 0
    for _, stage in ipairs(stages) do
      if target.recomputed(stage.strategy, stage.layers) == "selective" then selective = selective + 1 end
    end
    if selective == #stages then return nil end
    if selective > 0 then return split(mode, "selective", { true, false }) end
    local one <const>, most <const> = one_count(stages)
    if own.one_selective or one and (one == 0 or one == ALL or not own.whole_recompute) then return nil end
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

--- The modes that a mode falls into where its best plan breaks a rule; nil where it meets all.
---@param own table rules
---@param mode table
---@param stages table[] as for `meets`, front first; `samples` of a microbatch
---@param model table
---@return table[]?
function targets.branch(own, mode, stages, model)
  for _, broken in ipairs(breaks) do
    local parts <const> = broken(own, mode, stages, model)
    if parts then return parts end
  end
  return nil
end

return targets
