--- Stages of profiled operators (tangram.input.aceso): Aceso's evaluator, as formulas of reference FORMULAS.md, 5.1 and the
--- EuroSys'24 code have it, behind the functions that the search asks (tangram.aceso.configuration). `repair` adds what it leaves
--- out: the gradients' all-reduce between replicas and the optimizer's step; messages between stages at their own size's rate,
--- GiB of 1024 MiB; no more microbatches in flight than there are.
local core <const> = require "tangram.core"

local operators <const> = {}

local MiB <const> = 2.0 ^ 20
local ROWS <const>, LAYER_ROWS <const> = 16, 13
local REAL_GIB <const> = 1.024 -- the importer takes a GiB for 1000 MiB, as Aceso does
local STEP_BYTES <const> = 30 -- read and written for a parameter in an optimizer's step

--- What is expected of a database that lacks something; nil if nothing.
---@param database table
---@return string?
function operators.check(database)
  for _, name in ipairs { "samples", "tp", "profiles", "names", "intra_bytes_per_s", "inter_bytes_per_s", "collectives" } do
    if type(database[name]) ~= "table" then return ("what tangram.input.aceso's read gives, which has %s"):format(name) end
  end
end

--- Profiled rows of the operators of a model of so many layers: 1, then 2..14 a layer, then 15 and 16.
local function rows_of(layers)
  local rows <const> = { 1 }
  for _ = 1, layers do
    for row = 2, 1 + LAYER_ROWS do rows[#rows + 1] = row end
  end
  rows[#rows + 1], rows[#rows + 2] = ROWS - 1, ROWS
  return rows
end

--- Operators that each atom is made of, by its kind.
local operators_in <const> = { embedding = 1, layer = 13, attention = 9, mlp = 4, head = 2, operator = 1 }

--- Is the operator of a profiled row part of the attention core, what selective recompute does again?
function operators.in_core(row) return row >= 4 and row <= 7 end

--- Seconds to send a message between stages. The rate is that of the power of two below half the message: Aceso's index is
--- trunc(log2 MiB), less 1 from 1 on; below 1 MiB it is negative and counts from the table's end.
local function transfer_s(bytes, rates, repair)
  if bytes == 0 then return 0 end
  local index, fraction = math.modf(math.log(bytes / MiB, 2))
  -- log2 of a power of two may come out a hair below
  if fraction > 1 - 1e-12 then index = index + 1 end
  index = math.tointeger(index)
  if repair then return bytes / (rates[math.max(1, math.min(index + 1, #rates))] * REAL_GIB) end
  if index >= 1 then index = index - 1 end
  index = index < 0 and #rates + index + 1 or index + 1
  return bytes / rates[math.max(1, math.min(index, #rates))]
end
operators.transfer_s = transfer_s

--- What ends a step, which Aceso leaves out: an all-reduce of the gradients between the replicas, at the rate of the largest that
--- was profiled, or a ring's of the stages' rate; and the optimizer's step, at the GPU's memory bandwidth.
---@param database tangram.AcesoDatabase
---@param weight_bytes number of a GPU; gradients are as many
---@param dp integer
---@param memory_bytes_per_s number? without, the step is free
---@return number seconds
function operators.sync_s(database, weight_bytes, dp, memory_bytes_per_s)
  local rates <const> = database.intra_bytes_per_s
  local s_per_byte = 2 * (dp - 1) / dp / (rates[#rates] * REAL_GIB)
  for _, one in ipairs(database.collectives) do
    local largest <const> = one.rows[#one.rows]
    if one.name == "all_reduce" and one.gpus == dp and largest then s_per_byte = largest[2] / largest[1] end
  end
  local optimizer_s <const> = memory_bytes_per_s and weight_bytes / 2 * STEP_BYTES / memory_bytes_per_s or 0
  return (dp > 1 and weight_bytes * s_per_byte or 0) + optimizer_s
end

--- Rounds a list to a power of two of which it makes fewer than 2^51 in all: sums are then exact, and equal stages equal wherever
--- they lie, so that ties are ties.
local function on_grid(list)
  local total = 0
  for _, x in ipairs(list) do total = total + x end
  if total == 0 then return list end
  local quantum <const>, rounded <const> = 2.0 ^ (math.ceil(math.log(total, 2)) - 51), {}
  for i, x in ipairs(list) do rounded[i] = (x / quantum + 0.5) // 1 * quantum end
  return rounded
end

--- The profile of so many samples on a GPU, cut as Megatron does; nil if there is none.
local function profile_of(database, samples, tp)
  for _, one in ipairs(database.profiles) do
    if one.samples == samples and one.tp == tp and one.cut == 0 then return one end
  end
end

--- What the engine prices for so many samples a GPU and that degree; nil if it was not profiled.
local function priced(database, rows, samples, tp)
  local profile <const> = profile_of(database, samples, tp)
  if not profile then return nil end
  local lists <const> = { name = {}, recomputes = {}, layer = {}, kept_bytes = {} }
  local same <const> = { "forward_s", "backward_s", "weight_bytes", "input_bytes", "activation_bytes", "forward_reserved_bytes",
    "backward_reserved_bytes" }
  for _, field in ipairs(same) do lists[field] = {} end
  for i, row in ipairs(rows) do
    for _, field in ipairs(same) do lists[field][i] = profile[field][row] end
    local name <const> = database.names[row]
    -- buffers that the two share
    local factor <const> = name == "enc-attention-dropout" and 1.5 or name == "enc-attention-softmax" and 0 or 1
    lists.kept_bytes[i] = factor * profile.activation_bytes[row]
    lists.name[i], lists.layer[i] = row, name == "enc-1st-layernorm"
    lists.recomputes[i] = not lists.layer[i] and name ~= "encoder-embedding" and name ~= "gpt-post-process"
  end
  for _, field in ipairs { "forward_s", "backward_s", "weight_bytes", "kept_bytes" } do lists[field] = on_grid(lists[field]) end
  local busy_s <const> = { [0] = 0 }
  for i = 1, #rows do busy_s[i] = busy_s[i - 1] + lists.forward_s[i] + lists.backward_s[i] end
  local function borders(repair)
    local border <const> = {}
    for kind, rates in pairs { [false] = database.intra_bytes_per_s, [true] = database.inter_bytes_per_s } do
      local into <const>, out <const> = {}, {}
      for row = 1, ROWS do
        into[row] = transfer_s(profile.input_bytes[row], rates, repair)
        out[row] = transfer_s(profile.output_bytes[row], rates, repair)
      end
      border[kind] = { into = into, out = out }
    end
    return border
  end
  return { engine = core.operators(lists), busy_s = busy_s, border = borders(false), repaired_border = borders(true), profile = profile }
end

--- A model's operators: rows, and what is priced by samples and degree, made when first asked for.
---@param database tangram.AcesoDatabase
---@param layers integer
function operators.model(database, layers)
  local rows <const> = rows_of(layers)
  local known <const> = {}
  return {
    database = database, rows = rows,
    priced = function(samples, tp)
      local key <const> = samples << 16 | tp
      if known[key] == nil then known[key] = priced(database, rows, samples, tp) or false end
      return known[key] or nil
    end,
  }
end

--- First and last operator of each atom, for any mix of kinds; nil, why if they don't make up the model.
---@param kinds string[] embedding, layer, attention, mlp, head, operator
---@param rows integer[]
function operators.spans(kinds, rows)
  local first <const>, last <const>, at = {}, {}, 1
  for i, kind in ipairs(kinds) do
    if not operators_in[kind] then
      return nil, ("atom kind '%s': the database has embedding, layer, attention, mlp, head, operator"):format(kind)
    end
    first[i], last[i] = at, at + operators_in[kind] - 1
    at = last[i] + 1
  end
  if at - 1 ~= #rows then return nil, ("%d operators in the atoms, %d in the model"):format(at - 1, #rows) end
  return first, last
end

--- The engine's answer about a stage, by name.
local function named(forward_s, backward_s, recompute_s, weight_bytes, live_bytes, peak_bytes, reserved_bytes, flagged)
  return {
    forward_s = forward_s, backward_s = backward_s, busy_s = forward_s + backward_s, recompute_s = recompute_s,
    weight_bytes = weight_bytes, live_bytes = live_bytes, peak_bytes = peak_bytes, reserved_bytes = reserved_bytes, flagged = flagged,
  }
end
operators.named = named

--- A stage of the contract. Parameters and gradients of 16 bits, a copy and two moments of 32: 16 bytes a parameter.
---@param price table named
---@param strategy table
---@param atoms integer
---@param sync_s number? at the end of a step
function operators.stage(price, strategy, atoms, sync_s)
  local weight_bytes <const> = price.weight_bytes
  local memory <const> = {
    weights_bytes = 3 * weight_bytes, gradients_bytes = weight_bytes, optimizer_bytes = 4 * weight_bytes,
    buffers_bytes = price.reserved_bytes,
  }
  return {
    atoms = atoms, gpus = strategy.dp * strategy.tp, strategy = strategy, forward_s = price.forward_s,
    backward_s = price.backward_s + price.recompute_s, sync_s = sync_s or 0, static_bytes = 8 * weight_bytes + price.reserved_bytes,
    inflight_bytes = price.live_bytes, transient_bytes = price.peak_bytes,
    parts = { memory = memory, time = { compute_s = price.busy_s, recompute_s = price.recompute_s } },
  }
end

--- The model's operators as atoms, for those who plan at that granularity. Their FLOPs are their atom's, shared out by time.
---@param model table the model's description
---@param standard table[] its usual atoms, whole layers
---@param database tangram.AcesoDatabase
function operators.atoms(model, standard, database)
  local rows <const>, samples <const>, tp <const> = rows_of(model.layers), database.samples[1], database.tp[1]
  local profile <const>, atoms <const> = profile_of(database, samples, tp), {}
  local from = 1
  for _, whole in ipairs(standard) do
    local to <const> = from + operators_in[whole.kind] - 1
    local all_s = 0
    for i = from, to do all_s = all_s + profile.forward_s[rows[i]] end
    for i = from, to do
      local row <const> = rows[i]
      atoms[i] = {
        kind = "operator", name = database.names[row], hash = "aceso:" .. database.size .. ":" .. row,
        flops = whole.flops * profile.forward_s[row] / all_s, parameter_bytes = profile.weight_bytes[row] * tp,
        boundary_bytes = profile.output_bytes[row] / samples,
      }
    end
    from = to + 1
  end
  return atoms
end

--- What the search asks, over atoms `from`..`to` of a model.
---@param model table operators.model
---@param where table { kinds, from, to, gpus, gpus_per_node, capacity_bytes, successors, sizes (samples of a microbatch),
---  microbatches (of each size), max_stage_gpus, max_tp, choices (a table kept between spaces that differ in their atoms and
---  successors alone), repair, memory_bytes_per_s (of a GPU, for `repair`) }
function operators.space(model, where)
  local first_of <const>, last_of <const> = operators.spans(where.kinds, model.rows)
  if not first_of then error(last_of, 0) end
  local rows <const>, capacity_bytes <const>, offset <const> = model.rows, where.capacity_bytes, where.from - 1
  local space <const> = {
    count = where.to - offset, gpus = where.gpus, gpus_per_node = where.gpus_per_node,
    max_stage_gpus = math.min(where.gpus_per_node, where.max_stage_gpus or 8),
    capacity_bytes = capacity_bytes, successors = where.successors or 0, sizes = where.sizes, microbatches = where.microbatches,
  }
  local max_tp <const> = math.min(where.gpus_per_node, where.max_tp or math.huge)
  local choices <const> = where.choices or {}

  --- The strategy of one stage: nil where it was not profiled.
  function space.choice(size, tp, dp)
    local key <const> = (size << 16 | tp) << 16 | dp
    local choice = choices[key]
    if choice == nil then
      local ready <const> = tp <= max_tp and where.sizes[size] % dp == 0 and model.priced(where.sizes[size] // dp, tp)
      choice = false
      if ready then
        choices.count = (choices.count or 0) + 1
        choice = { id = choices.count, size = size, tp = tp, dp = dp, gpus = tp * dp, priced = ready, memo = {}, doubled = {}, halved = {} }
      end
      choices[key] = choice
    end
    return choice or nil
  end

  --- The strategies of so many GPUs.
  function space.choices(size, gpus)
    local list <const> = {}
    for tp = 1, gpus do list[#list + 1] = gpus % tp == 0 and space.choice(size, tp, gpus // tp) or nil end
    return list
  end

  --- Forward and backward of a stage, nothing recomputed or sent: never falls as the stage grows.
  function space.busy_s(choice, first, last)
    local busy_s <const> = choice.priced.busy_s
    return busy_s[last_of[last + offset]] - busy_s[first_of[first + offset] - 1]
  end

  function space.price(choice, first, last, behind)
    first, last = first_of[first + offset], last_of[last + offset]
    if where.repair then behind = math.min(behind, where.microbatches[choice.size] - 1) end
    local key <const> = ((first << 16) | last) << 16 | behind
    local price = choice.memo[key]
    if not price then
      price = named(choice.priced.engine:fit(first, last, behind, capacity_bytes))
      price.time_s = price.busy_s + price.recompute_s
      price.bytes = 8 * price.weight_bytes + price.live_bytes * (behind + 1) + price.peak_bytes + price.reserved_bytes
      choice.memo[key] = price
    end
    return price
  end

  --- Receiving what enters the stage and sending what leaves it; across nodes: true.
  function space.border_s(choice, first, last, enters_across, leaves_across)
    local border <const> = where.repair and choice.priced.repaired_border or choice.priced.border
    return border[enters_across].into[rows[first_of[first + offset]]] + border[leaves_across].out[rows[last_of[last + offset]]]
  end

  function space.stage(choice, price, first, last)
    -- operators one by one, for which strategies have no word; the nearest is the first that the rule takes
    local recompute <const> = price.flagged > 0 and "selective" or "none"
    local sync_s <const> = where.repair and operators.sync_s(model.database, price.weight_bytes, choice.dp, where.memory_bytes_per_s)
    return operators.stage(price, { dp = choice.dp, tp = choice.tp, recompute = recompute }, last - first + 1, sync_s or nil)
  end

  return space
end

return operators
