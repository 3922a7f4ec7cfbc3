--- ctx.cost: what adapters ask of the chosen cost model, whichever of its two forms it has.
---
--- An additive model (atom, close, constants) prices each distinct atom once for a strategy; a stage is their sum, closed. For
--- a model that prices only whole stages, an atom's terms come from differences of stages, and its own `stage` still prices
--- what adapters return.
local by_strategy <const> = require "tangram.formulas.by_strategy"
local core <const> = require "tangram.core"
local plain <const> = require "tangram.plain"
local schema <const> = require "tangram.schema"
local slice <const> = require "tangram.slice"
local sorted_keys <const> = require "tangram.sorted_keys"

local cost <const> = {}

local max <const> = math.max

local required <const> = {
  "forward_s", "backward_s", "recompute_s", "static_bytes", "inflight_bytes", "recomputed_inflight_bytes", "transient_bytes",
  "recompute_peak_bytes",
}

--- "none", "selective", "full", or a count of layers in full: no runtime recomputes the attention core of some layers alone.
local function recompute_of(recompute)
  if type(recompute) ~= "table" then return recompute or "none" end
  if recompute.layers == nil or recompute.layers == core.null then return recompute.kind end
  if recompute.kind == "full" then return recompute end
  error(("strategy: recompute: got '%s' of %s layers, expected a count with 'full' alone"):format(recompute.kind, recompute.layers), 0)
end

local RECOMPUTE <const> = { none = true, selective = true, full = true }

--- A kind, or a table with one and a count of layers; some call it null where there is none.
local function is_recompute(value)
  if type(value) ~= "table" then return RECOMPUTE[value] end
  for name, item in next, value do
    local counts <const> = name == "layers" and (item == core.null or math.type(item) == "integer" and item >= 0)
    if not counts and not (name == "kind" and RECOMPUTE[item]) then return false end
  end
  return value.kind ~= nil
end

local function is_count(value) return math.type(value) == "integer" and value >= 1 end
local function is_boolean(value) return type(value) == "boolean" end
local OFFLOAD <const> = { none = true, optimizer = true, activations = true, both = true }

--- Fields of a strategy: what may stand there, and in words.
local strategy_fields <const> = {
  zero = { function(value) return math.type(value) == "integer" and value >= 0 and value <= 3 end, "0, 1, 2 or 3" },
  fsep = { is_boolean, "true or false" }, sp = { is_boolean, "true or false" },
  recompute = { is_recompute, "'none', 'selective', 'full' or { kind = 'full', layers = n }" },
  offload = { function(value) return OFFLOAD[value] end, "'none', 'optimizer', 'activations' or 'both'" },
}
for _, name in ipairs { "dp", "tp", "cp", "ep", "etp" } do strategy_fields[name] = { is_count, "a whole number of at least 1" } end

local function refuse_strategy(strategy)
  if type(strategy) ~= "table" then schema.fail("ctx.cost: strategy", strategy, "a table, { dp = 1, tp = 1 }") end
  local names <const> = sorted_keys(strategy_fields)
  for _, name in ipairs(sorted_keys(strategy)) do
    if not strategy_fields[name] then
      local near <const> = core.nearest(tostring(name), names)
      schema.raise("strategy: %s: unknown field%s", tostring(name),
        near and (" (did you mean '%s'?)"):format(near) or ", expected one of " .. table.concat(names, ", "))
    end
  end
  for _, name in ipairs(names) do
    local field <const>, value <const> = strategy_fields[name], strategy[name]
    if math.type(value) == "float" and value % 1 == 0 then
      schema.raise("strategy: %s: got %.1f, expected %s, as // gives it", name, value, field[2])
    elseif value == nil and (name == "dp" or name == "tp") or value ~= nil and not field[1](value) then
      schema.fail("strategy: " .. name, value, field[2])
    end
  end
end

--- Raises for a strategy that none can be; quick for those that can.
local function check_strategy(strategy)
  if type(strategy) ~= "table" or not strategy.dp or not strategy.tp then refuse_strategy(strategy) end
  for name, value in next, strategy do
    local field <const> = strategy_fields[name]
    if not field or not field[1](value) then refuse_strategy(strategy) end
  end
end

--- A strategy with every field; answers carry it.
---@param strategy table dp, tp and what differs from the defaults
---@return table
function cost.complete(strategy)
  local sp = strategy.sp
  if sp == nil then sp = strategy.tp > 1 end
  return {
    dp = strategy.dp, tp = strategy.tp, cp = strategy.cp or 1, ep = strategy.ep or 1, etp = strategy.etp or 1,
    zero = strategy.zero or 0, fsep = strategy.fsep or false, sp = sp, recompute = recompute_of(strategy.recompute),
    offload = strategy.offload or "none",
  }
end

--- How many of a stage's layers (or halves) are recomputed: its first ones, as Megatron's method `block` does.
local function recomputed_count(strategy)
  local recompute <const> = strategy.recompute
  if type(recompute) == "table" then return recompute.layers end
  return recompute == "full" and math.huge or 0
end

local function can_recompute(atom) return atom.kind ~= "embedding" and atom.kind ~= "head" end

local part_figures <const> = { "forward_s", "backward_s", "static_bytes", "inflight_bytes", "transient_bytes" }
local stage_figures <const> = { "sync_s", table.unpack(part_figures) }
local constant_figures <const> = { "stage_s", "static_bytes" }

--- What a model's function returned, or raises: all those figures are there and finite.
local function check(name, of, figures, result)
  for _, field in ipairs(figures) do
    local value <const> = type(result) == "table" and result[field]
    if type(value) ~= "number" or not (value >= 0 and value < math.huge) then
      error(("cost model '%s': %s: %s: got %s, expected a finite number of at least 0"):format(name, of, field,
        type(result) ~= "table" and "a " .. type(result) or type(value) == "number" and schema.show(value) or "a " .. type(value)), 0)
    end
  end
  return result
end

--- The figures of terms that simply add up, as a list of names and values in turn.
local function addends_of(terms)
  local list <const> = {}
  for field, value in pairs(terms) do
    if type(value) == "number" and field ~= "recompute_s" and field ~= "inflight_bytes" then
      list[#list + 1], list[#list + 2] = field, value
    end
  end
  return list
end

--- The terms of a run's distinct atoms with how many there are, kept and recomputed.
local function census(run, recomputed, terms_of)
  local by_hash <const>, list <const>, atoms <const> = {}, {}, rawget(run, "atoms")
  for i = run.first, run.last do
    local atom <const> = atoms[i]
    local entry = by_hash[atom.hash]
    if not entry then
      local terms <const>, addends <const> = terms_of(atom)
      entry = { terms = terms, addends = addends, kept = 0, again = 0 }
      by_hash[atom.hash], list[#list + 1] = entry, entry
    end
    if recomputed > 0 and can_recompute(atom) then
      entry.again, recomputed = entry.again + 1, recomputed - 1
    else
      entry.kept = entry.kept + 1
    end
  end
  return list
end

--- Sums the terms of a run. recompute_s is what recomputing adds, and is in backward_s already.
local function sum_of(entries)
  local sum <const> = { recompute_s = 0, inflight_bytes = 0 }
  local transient_bytes, peak_bytes = 0, 0
  for e = 1, #entries do
    local entry <const> = entries[e]
    local terms <const>, addends <const>, again <const> = entry.terms, entry.addends, entry.again
    local count <const> = entry.kept + again
    for i = 1, #addends, 2 do
      local field <const> = addends[i]
      sum[field] = (sum[field] or 0) + count * addends[i + 1]
    end
    sum.recompute_s = sum.recompute_s + again * terms.recompute_s
    sum.inflight_bytes = sum.inflight_bytes + entry.kept * terms.inflight_bytes + again * terms.recomputed_inflight_bytes
    transient_bytes = max(transient_bytes, terms.transient_bytes)
    if again > 0 then peak_bytes = max(peak_bytes, terms.recompute_peak_bytes) end
  end
  sum.backward_s = sum.backward_s + sum.recompute_s
  sum.transient_bytes, sum.recompute_peak_bytes = transient_bytes + peak_bytes, peak_bytes
  return sum
end

--- Terms of an atom for a model that prices whole stages: a stage of the atom alone, less what any stage bears.
local function terms_by_difference(plugin, island, strategy, ctx)
  local atoms <const> = ctx.atoms
  local function stage(first, last, recompute)
    local asked <const> = cost.complete(strategy)
    asked.recompute = recompute
    return check(plugin.name, "stage", part_figures, plugin.stage(slice.new(ctx.model, atoms, first, last), island, asked, ctx))
  end
  local base <const> = strategy.recompute == "selective" and "selective" or "none"
  local function busy_s(one) return one.forward_s + one.backward_s end
  local stage_s, static_bytes = math.huge, math.huge
  local seen <const>, singles <const> = {}, {}
  for i = 1, #atoms do
    local hash <const> = atoms[i].hash
    singles[hash] = singles[hash] or stage(i, i, base)
    local pair <const> = i > 1 and atoms[i - 1].hash .. "," .. hash
    if pair and not seen[pair] then
      seen[pair] = true
      local a <const>, b <const>, both <const> = singles[atoms[i - 1].hash], singles[hash], stage(i - 1, i, base)
      stage_s = math.min(stage_s, busy_s(a) + busy_s(b) - busy_s(both))
      static_bytes = math.min(static_bytes, a.static_bytes + b.static_bytes - both.static_bytes)
    end
  end
  local constants <const> = #atoms > 1 and { stage_s = max(0, stage_s), static_bytes = max(0, static_bytes) }
    or { stage_s = 0, static_bytes = 0 }
  local function terms_of(atom)
    local one <const> = singles[atom.hash]
    local again <const> = can_recompute(atom) and stage(atom.index, atom.index, "full") or one
    local common <const> = constants.stage_s / busy_s(one)
    return {
      forward_s = max(0, one.forward_s * (1 - common)), backward_s = max(0, one.backward_s * (1 - common)),
      recompute_s = max(0, busy_s(again) - busy_s(one)), static_bytes = max(0, one.static_bytes - constants.static_bytes),
      inflight_bytes = one.inflight_bytes, recomputed_inflight_bytes = math.min(one.inflight_bytes, again.inflight_bytes),
      transient_bytes = one.transient_bytes, recompute_peak_bytes = max(0, again.transient_bytes - one.transient_bytes),
    }
  end
  return terms_of, constants
end

--- For each atom its row in lists of distinct atoms, and these.
local function rows_of(atoms)
  local rows <const>, distinct <const>, by_hash <const> = {}, {}, {}
  for i, atom in ipairs(atoms) do
    if not by_hash[atom.hash] then
      distinct[#distinct + 1] = atom
      by_hash[atom.hash] = #distinct
    end
    rows[i] = by_hash[atom.hash]
  end
  return rows, distinct
end

--- What the engine's split primitive takes. Under "full" everything is recomputed already, so nothing is left to choose.
local function engine_terms(prices, place, strategy)
  local entries <const>, constants <const> = {}, prices.constants
  if not place.rows then place.rows, place.distinct = rows_of(place.ctx.atoms) end
  for i, atom in ipairs(place.distinct) do entries[i] = prices.of(atom) end
  local all <const>, twice <const> = strategy.recompute == "full", constants.twice
  local peak_bytes = 0
  for _, terms in ipairs(entries) do peak_bytes = max(peak_bytes, terms.recompute_peak_bytes) end
  local lists <const> = {
    time_s = {}, forward_s = {}, recompute_s = {}, static_bytes = {}, inflight_bytes = {}, recomputed_inflight_bytes = {},
    transient_bytes = {}, recompute_peak_bytes = {}, recomputable = {}, rows = place.rows, stage_s = constants.stage_s,
    stage_static_bytes = constants.static_bytes,
    capacity_bytes = place.ctx.capacity_bytes, microbatches = place.ctx.microbatches,
    stage_step_s = constants.step_s, stage_reduce_s = constants.reduce_s, reduce_share = constants.reduce_share,
    step_s = constants.reduce_share and {}, reduce_s = constants.reduce_share and {},
    whole_static_bytes = twice and twice.static_bytes, whole_reduce_s = twice and twice.reduce_s,
    whole_step_s = twice and twice.optimizer_s + 2 * (constants.tied_s or 0),
  }
  for i, terms in ipairs(entries) do
    local can <const> = can_recompute(place.distinct[i])
    local now <const> = all and can
    lists.time_s[i] = terms.forward_s + terms.backward_s + (now and terms.recompute_s or 0)
    lists.forward_s[i] = terms.forward_s
    lists.static_bytes[i] = terms.static_bytes
    lists.inflight_bytes[i] = now and terms.recomputed_inflight_bytes or terms.inflight_bytes
    lists.transient_bytes[i] = terms.transient_bytes + (all and peak_bytes or 0)
    lists.recomputable[i] = can and not all
    lists.recompute_s[i] = terms.recompute_s
    lists.recomputed_inflight_bytes[i] = math.min(terms.recomputed_inflight_bytes, lists.inflight_bytes[i])
    lists.recompute_peak_bytes[i] = terms.recompute_peak_bytes
    if constants.reduce_share then
      lists.step_s[i] = terms.optimizer_s + (can and 0 or constants.tied_s or 0)
      lists.reduce_s[i] = terms.reduce_s
    end
  end
  return core.terms(lists)
end

--- Wraps a loaded cost model for one planning.
---@param plugin table kind "cost"
---@param options table its options, checked
---@param sight tangram.Sight? what the model sees; without, what its callers hand over
---@return table cost { name, plugin, additive, stage, terms, atom, link, constants }
function cost.wrap(plugin, options, sight)
  local places <const> = {} -- by island, B and whether the whole model is there: the plugin's context, prices and terms by strategy

  --- What atoms cost is the same wherever the ends of the model are, and so taken from the context that most slices have.
  local place_of
  local function place_seen(island, ctx)
    local usual <const> = sight.context(island.index, ctx.microbatches)
    local own <const> = ctx.tied_link and usual or sight.context(island.index, ctx.microbatches, true)
    return { island = sight.island(island.index), prices = {}, ctx = own, of_atoms = own ~= usual and place_of(island, usual) or nil }
  end

  function place_of(island, ctx)
    if type(island) ~= "table" or not island.index or not ctx.microbatches then
      schema.fail("ctx.cost: island", island, "an island: stage(run, island, strategy, ctx), terms(island, strategy, ctx)")
    end
    local key <const> = island.index .. "," .. ctx.microbatches .. (ctx.tied_link and "" or ",whole")
    local place = places[key]
    if sight then
      places[key] = place or place_seen(island, ctx)
      return places[key]
    end
    if not place or place.ctx.atoms ~= ctx.atoms or place.ctx.training ~= ctx.training or place.island ~= island then
      place = {
        island = island, prices = {},
        ctx = {
          model = ctx.model, atoms = ctx.atoms, islands = ctx.islands, training = ctx.training, microbatches = ctx.microbatches,
          samples = ctx.samples, capacity_bytes = ctx.capacity_bytes, tied_link = ctx.tied_link, options = options, memo = {},
          log = ctx.log,
        },
      }
      places[key] = place
    end
    return place
  end

  --- The same for what depends on memory and links, which a context may know of its own island alone.
  local function own_place_of(island, ctx)
    local place <const> = place_of(island, ctx)
    if not sight then place.ctx.capacity_bytes, place.ctx.tied_link = ctx.capacity_bytes, ctx.tied_link end
    return place
  end

  --- Prices of atoms by hash, and the constants of a stage.
  local prices_of
  function prices_of(place, strategy)
    local prices <const> = by_strategy(place.prices, strategy)
    if prices.of then return prices end
    prices.terms = {}
    if plugin.atom then
      prices.constants = check(plugin.name, "constants", constant_figures, plugin.constants(place.island, strategy, place.ctx))
    end
    local shared <const> = place.of_atoms and prices_of(place.of_atoms, strategy)
    if shared then
      prices.of, prices.constants = shared.of, prices.constants or shared.constants
      return prices
    end
    prices.by_hash, prices.addends = {}, {}
    local price = function(atom) return plugin.atom(atom, place.island, strategy, place.ctx) end
    if not plugin.atom then price, prices.constants = terms_by_difference(plugin, place.island, strategy, place.ctx) end
    function prices.of(atom)
      local terms = prices.by_hash[atom.hash]
      if not terms then
        terms = check(plugin.name, "atom", required, price(atom))
        prices.by_hash[atom.hash], prices.addends[atom.hash] = terms, addends_of(terms)
      end
      return terms, prices.addends[atom.hash]
    end
    return prices
  end

  local function checked(strategy, ctx)
    if type(ctx) ~= "table" or not ctx.samples then
      schema.fail("ctx.cost: last argument", ctx, "ctx: stage(run, island, strategy, ctx), terms(island, strategy, ctx)")
    end
    check_strategy(strategy)
    if ctx.samples % strategy.dp ~= 0 then
      error(("strategy: dp: got %d, expected a divisor of the microbatch's %d samples"):format(strategy.dp, ctx.samples), 0)
    end
    return cost.complete(strategy)
  end

  local made <const> = setmetatable({}, { __mode = "k" })
  local wrapped <const> = { name = plugin.name, plugin = plugin, additive = plugin.atom ~= nil }

  --- A complete stage: the run of atoms under that strategy.
  function wrapped.stage(run, island, strategy, ctx)
    strategy = checked(strategy, ctx)
    local place <const> = own_place_of(island, ctx)
    if sight then run = sight.slice(run.first, run.last) end
    local stage
    if plugin.atom then
      local sum <const> = sum_of(census(run, recomputed_count(strategy), prices_of(place, strategy).of))
      stage = plugin.close(sum, run, place.island, strategy, place.ctx)
    else
      stage = plugin.stage(run, place.island, strategy, place.ctx)
    end
    made[check(plugin.name, plugin.atom and "close" or "stage", stage_figures, stage)] = true
    return stage
  end

  --- How many stages of the pipeline may stand behind this one; negative: it fits nowhere.
  function wrapped.bears(stage, ctx)
    return core.bears(stage.static_bytes, stage.transient_bytes, stage.inflight_bytes, ctx.capacity_bytes, ctx.microbatches)
  end

  --- Do the engine's terms tell a stage's sync_s (the plugin's constants have `reduce_share`)?
  function wrapped.terms_tell_sync(island, strategy, ctx)
    return prices_of(place_of(island, ctx), checked(strategy, ctx)).constants.reduce_share ~= nil
  end

  --- The engine's terms of all atoms (probe, split). With recompute none or selective, a split may recompute the first
  --- layers of a stage in full; "full" recomputes all.
  function wrapped.terms(island, strategy, ctx)
    strategy = checked(strategy, ctx)
    local place <const> = own_place_of(island, ctx)
    local prices <const>, all <const> = prices_of(place, strategy), strategy.recompute == "full"
    local terms = prices.terms[all]
    if not terms then
      terms = engine_terms(prices, place, strategy)
      prices.terms[all] = terms
    end
    return terms
  end

  --- Terms of one atom and the constants of a stage, on any island: what lower bounds are made of. Raises for a model that
  --- prices whole stages (`additive` is false): its terms are estimates and bound nothing.
  ---@return table terms, table constants { stage_s, static_bytes }
  function wrapped.atom(atom, island, strategy, ctx)
    if not plugin.atom then error(("cost model '%s' prices whole stages: it has no terms of atoms"):format(plugin.name), 2) end
    local place <const> = place_of(island, ctx)
    local prices <const> = prices_of(place, checked(strategy, ctx))
    return prices.of(sight and place.ctx.atoms[atom.index] or atom), prices.constants
  end

  --- Whether the stage was priced here.
  function wrapped.made(stage) return stage ~= nil and made[stage] or false end

  --- Latency and rate of a link between islands as the model sees it.
  function wrapped.link(link, ctx)
    if plugin.link then return plugin.link(link, sight and sight.context(link.from.index, ctx.microbatches) or ctx) end
    return link.latency_s, link.bytes_per_s
  end

  --- The constants in use on an island, for the plan's list; empty for models that have none.
  function wrapped.constants(island, ctx)
    return plugin.constants_used and plugin.constants_used(island, place_of(island, ctx).ctx) or {}
  end

  return wrapped
end

--- What one plugin gets as ctx.cost: it leads to nothing of the model's own, and to nothing that another plugin gets.
---@param wrapped table of cost.wrap
---@return table face
function cost.face(wrapped)
  local copies <const> = setmetatable({}, { __mode = "k" })
  local function own(shared)
    copies[shared] = copies[shared] or plain(shared)
    return copies[shared]
  end
  return {
    name = wrapped.name, additive = wrapped.additive, stage = wrapped.stage, terms = wrapped.terms, link = wrapped.link,
    terms_tell_sync = wrapped.terms_tell_sync, bears = wrapped.bears,
    atom = function(...)
      local terms <const>, constants <const> = wrapped.atom(...)
      return own(terms), own(constants)
    end,
  }
end

return cost
