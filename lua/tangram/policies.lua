--- The policies of a planning and its cost model's links, as core.enumerate asks them: under limits, and so that a faulty one
--- costs nothing but what it would have dropped. A function that fails once is not called again, and the report says so.
local core <const> = require "tangram.core"
local target <const> = require "tangram.target.stage"

local policies <const> = {}

--- plugin[name] under limits, as call(a, b, c, d, ...) of a place and what the plugin gets; its results, or nothing where it
--- failed, now or before. wrong(first, second) says what is wrong with a result, where(a, b, c, d) which place it was.
local function guard(problem, plugin, name, wrong, where)
  local off = false
  return function(a, b, c, d, ...)
    if off then return nil end
    local ok <const>, first <const>, second <const> = core.guarded(problem.seconds, problem.memory_bytes, plugin[name], ...)
    local fault <const> = ok and wrong(first, second) or not ok and first
    if not fault then return first, second end
    if second == "stop" then return nil end
    off = true
    problem.log(("%s '%s': %s() is called no more, it failed for %s: %s"):format(
      plugin.kind == "cost" and "cost model" or "policy", plugin.name, name, where(a, b, c, d), fault))
  end
end

local checks <const> = {
  keep = function(kept)
    if type(kept) ~= "boolean" then return ("returned a %s, expected true or false"):format(type(kept)) end
  end,
  key = function(key)
    if type(key) ~= "string" then return ("returned a %s, expected a string"):format(type(key)) end
  end,
  bound = function(bound_s)
    if type(bound_s) ~= "number" or bound_s ~= bound_s or bound_s < 0 then
      return ("returned %s, expected seconds"):format(type(bound_s) == "number" and bound_s or "a " .. type(bound_s))
    end
  end,
  link = function(latency_s, bytes_per_s)
    local function within(x, least) return type(x) == "number" and x == x and x >= least end
    if not within(latency_s, 0) or latency_s == math.huge or not within(bytes_per_s, 0) or bytes_per_s == 0 then
      return "expected a latency of at least 0 seconds and a rate above 0"
    end
  end,
}

--- The policies that have the function, each as call(island, first, last, microbatches) under limits.
local function callers(problem, name)
  local list <const> = {}
  local function where(island, first, last, microbatches)
    return ("atoms %d..%d on %s%s"):format(first, last, problem.islands[island].name,
      name ~= "key" and (" at %d microbatches"):format(microbatches) or "")
  end
  for _, policy in ipairs(problem.policies) do
    if policy[name] and (problem.bounds or not policy.by_cost) then
      local call <const>, sight <const> = guard(problem, policy, name, checks[name], where), problem.sight(policy)
      list[#list + 1] = {
        name = policy.name,
        call = function(island, first, last, microbatches)
          return call(island, first, last, microbatches, { slice = sight.slice(first, last), island = sight.island(island) },
            sight.context(island, microbatches))
        end,
      }
    end
  end
  return list
end

--- The pairs that no plan for the target can be of, whatever the adapter: too few layers, or no stage of the asked size.
local function for_target(problem)
  local mode <const>, sight <const> = problem.target, problem.sight(problem.parallelizer)
  return {
    name = "target",
    call = function(index, first, last)
      local slice <const> = sight.slice(first, last)
      return target.fits_on(mode, problem.islands[index]) and slice.layers >= mode.min_layers
        and (not mode.whole or slice.has_embedding and slice.has_head)
    end,
  }
end

--- core.enumerate's keep, key, bound and link; nil where no plugin has the function.
---@param problem tangram.Problem
---@return table
function policies.callbacks(problem)
  local keeping <const>, keyed <const>, bounding <const> =
    callers(problem, "keep"), callers(problem, "key"), callers(problem, "bound")
  if problem.target then table.insert(keeping, 1, for_target(problem)) end
  local back <const> = {}
  back.keep = #keeping > 0 and function(island, first, last, microbatches)
    for _, policy in ipairs(keeping) do
      if policy.call(island, first, last, microbatches) == false then return policy.name end
    end
  end or nil
  back.key = #keyed > 0 and function(island, first, last)
    local keys <const> = {}
    for i, policy in ipairs(keyed) do
      -- a policy without an answer shares nothing
      keys[i] = policy.call(island, first, last, problem.microbatches[1]) or ("%d,%d,%d"):format(island, first, last)
    end
    return table.concat(keys, "|")
  end or nil
  back.bound = #bounding > 0 and function(island, first, last, microbatches)
    local most = 0
    for _, policy in ipairs(bounding) do most = math.max(most, policy.call(island, first, last, microbatches) or 0) end
    return most
  end or nil
  if problem.cost_plugin.link then
    local function where(from, to)
      return ("the link from %s to %s"):format(problem.islands[from].name, problem.islands[to].name)
    end
    local call <const> = guard(problem, problem.cost_plugin, "link", checks.link, where)
    local sight <const> = problem.sight(problem.cost_plugin)
    back.link = function(from, to, latency_s, bytes_per_s)
      local own_latency_s <const>, own_bytes_per_s <const> = call(from, to, nil, nil,
        { from = sight.island(from), to = sight.island(to), latency_s = latency_s, bytes_per_s = bytes_per_s },
        sight.context(from, problem.microbatches[1]))
      if own_latency_s then return own_latency_s, own_bytes_per_s end
      return latency_s, bytes_per_s
    end
  end
  return back
end

return policies
