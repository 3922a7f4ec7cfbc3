--- Plans of other systems, to look at beside one's own: Galvatron's JSON, Sailor's planner's answer, FlagScale's meshes. They
--- say who holds which layers at which degrees, and no times.
local files <const> = require "tangram.files"
local flags <const> = require "tangram.input.flags"
local integer_list <const> = require "tangram.input.integer_list"
local schema <const> = require "tangram.schema"

local foreign <const> = {}

local most_layers <const> = 1000

---@class tangram.ForeignPlan
---@field system string "Galvatron"
---@field stages { first: integer, layers: integer, words: string }[] words: degrees as the file says them
---@field global_batch integer
---@field microbatches integer
---@field notes string[]

--- A list of what is there of the arguments.
local function those(...)
  local list <const> = {}
  for i = 1, select("#", ...) do list[#list + 1] = (select(i, ...)) or nil end
  return list
end

--- Which system's plan a text is, or nil.
---@param text string
---@return "galvatron"|"sailor"|"flagscale"|nil
function foreign.kind(text)
  if text:find '"tangram%.plan/' then return nil end
  if text:find '"tp_sizes_enc"' then return "galvatron" end
  if text:find '"pipeline_list"' then return "sailor" end
  if text:find "hetero_process_meshes%s*:" then return "flagscale" end
end

local function whole(where, value, min, max)
  return schema.value(value, { type = "integer", min = min or 1, max = max or 1 << 24 }, where)
end

--- "4", or "2 to 4" of unlike values.
local function span(list, first, count)
  local least, most = math.huge, 0
  for i = first, first + count - 1 do least, most = math.min(least, list[i]), math.max(most, list[i]) end
  return least == most and ("%d"):format(most) or ("%d to %d"):format(least, most)
end

local function ones(list, first, count)
  local sum = 0
  for i = first, first + count - 1 do sum = sum + (list[i] ~= 0 and 1 or 0) end
  return sum
end

--- A list of Galvatron's, "1,1,0", one number a layer.
local function by_layer(config, name, layers, where, default)
  local text <const> = config[name] or default and ("%d,"):format(default):rep(layers)
  local list <const> = type(text) == "string" and integer_list("[" .. text .. "]")
  if type(list) ~= "table" or #list == 0 or #list > most_layers or layers and #list ~= layers then
    schema.fail(("%s: %s"):format(where, name), text, layers and ("%d numbers with commas, one a layer"):format(layers)
      or "numbers with commas")
  end
  return list
end

local function galvatron(config, where)
  local tp <const> = by_layer(config, "tp_sizes_enc", nil, where)
  local zero <const>, ulysses <const> = by_layer(config, "dp_types_enc", #tp, where, 0), by_layer(config, "use_sp", #tp, where, 0)
  local recompute <const>, cp <const> = by_layer(config, "checkpoint", #tp, where, 0), by_layer(config, "cp_sizes_enc", #tp, where, 1)
  local stages <const>, pp <const> = {}, whole(where .. ": pp_deg", config.pp_deg, 1, #tp)
  local even <const> = #tp // pp
  local division <const> = config.pp_division and by_layer(config, "pp_division", pp, where)
  local first = 0
  for s = 1, pp do
    local count <const> = division and division[s] or s < pp and even or #tp - even * (pp - 1)
    if count < 1 then error(("%s: pp_division: got 0 for stage %d, expected at least one layer"):format(where, s), 0) end
    if first + count > #tp then break end
    local sharded <const> = ones(zero, first + 1, count)
    stages[s] = { first = first, layers = count, words = ("%s %s, cp %s, ZeRO 3 in %d layers, recompute in %d"):format(
      ones(ulysses, first + 1, count) > 0 and "Ulysses" or "tp", span(tp, first + 1, count), span(cp, first + 1, count), sharded,
      ones(recompute, first + 1, count)) }
    first = first + count
  end
  if first ~= #tp then
    error(("%s: pp_division: adds up to another number than the %d layers of tp_sizes_enc"):format(where, #tp), 0)
  end
  return { system = "Galvatron", stages = stages, global_batch = whole(where .. ": global_bsz", config.global_bsz),
    microbatches = whole(where .. ": chunks", config.chunks), notes = those(math.type(config.world_size)
      and ("%d GPUs"):format(config.world_size) or "the file does not say on how many GPUs; dp is what tp and cp leave of a stage's",
      ("default_dp_type %s, vocabulary tp %s"):format(schema.show(config.default_dp_type or "ddp"), tostring(config.vtp or 1))) }
end

--- "3 × GH-96 tp 4" of replicas.
local function replicas_text(replicas, where)
  local counts <const>, order <const> = {}, {}
  for r, replica in ipairs(replicas) do
    local parts <const>, gpus <const> = {}, type(replica) == "table" and replica[1]
    if type(gpus) ~= "table" then
      schema.fail(("%s[%d]"):format(where, r - 1), replica, '[[["GPU", count, "zone"]], tp]')
    end
    for g, one in ipairs(gpus) do
      local kind <const>, count <const> = type(one) == "table" and one[1], type(one) == "table" and one[2]
      if type(kind) ~= "string" or math.type(count) ~= "integer" then
        schema.fail(("%s[%d][0][%d]"):format(where, r - 1, g - 1), one, '["GPU", count, "zone"]')
      end
      parts[g] = ("%d %s"):format(count, (kind:gsub("%c", " ")))
    end
    local words <const> = ("(%s, tp %d)"):format(table.concat(parts, " + "), whole(("%s[%d]: tp"):format(where, r - 1), replica[2]))
    if not counts[words] then order[#order + 1] = words end
    counts[words] = (counts[words] or 0) + 1
  end
  for i, words in ipairs(order) do order[i] = ("%d × %s"):format(counts[words], words) end
  return table.concat(order, ", ")
end

local items <const> = { type = "list", item = { type = "any" }, min = 1, max = most_layers }
local function list_at(where, value) return schema.value(value, items, where) end

local function sailor(config, where)
  local pipeline <const> = list_at(where .. ": pipeline_list", config.pipeline_list)[1]
  if type(pipeline) ~= "table" then schema.fail(where .. ": pipeline_list[0]", pipeline, "a table") end
  where = where .. ": pipeline_list[0]"
  local pp <const> = whole(where .. ": num_stages", pipeline.num_stages, 1, most_layers)
  local layers <const>, tmp <const> = list_at(where .. ": layers_per_stage", pipeline.layers_per_stage),
    list_at(where .. ": tmp_per_stage", pipeline.tmp_per_stage)
  if #layers ~= pp or #tmp ~= pp then
    error(("%s: got %d lists of layers and %d of replicas, expected one a stage, %d"):format(where, #layers, #tmp, pp), 0)
  end
  local stages <const>, at = {}, 0
  for s = 1, pp do
    local ids <const> = list_at(("%s: layers_per_stage[%d]"):format(where, s - 1), layers[s])
    for _, id in ipairs(ids) do
      if id ~= at then error(("%s: layers_per_stage[%d]: got %s, expected %d next"):format(where, s - 1, schema.show(id), at), 0) end
      at = at + 1
    end
    local place <const> = ("%s: tmp_per_stage[%d]"):format(where, s - 1)
    stages[s] = { first = at - #ids, layers = #ids, words = replicas_text(list_at(place, tmp[s]), place) }
  end
  local mbs <const>, gbs <const>, dp <const> = whole("mbs", config.mbs), whole("gbs", config.gbs), #tmp[1]
  return { system = "Sailor", stages = stages, global_batch = gbs, microbatches = (gbs + mbs * dp - 1) // (mbs * dp), notes = those(
    "layers count the embedding (0) and what stands behind the last layer",
    type(config.real) == "number" and ("measured: %.4g s an iteration"):format(config.real)) }
end

local function flagscale(text, where)
  local found <const> = {}
  for _, flag in ipairs(flags.read(text, "blocks")) do found[flag.key] = found[flag.key] or flag end
  local function list(key)
    local flag <const> = found[key]
    local value <const> = flag and integer_list(flag.value)
    if type(value) ~= "table" or #value == 0 or #value > 5 * most_layers then
      schema.fail(flag and ("%s:%d: %s"):format(where, flag.line, key) or ("%s: %s"):format(where, key), flag and flag.value,
        "numbers in brackets, in one line")
    end
    return value
  end
  local function number(key)
    return whole(("%s: %s"):format(where, key), found[key] and math.tointeger(tonumber(found[key].value)))
  end
  local meshes <const>, split <const> = list "hetero_process_meshes", list "hetero_pipeline_layer_split"
  if #meshes % 5 ~= 0 then
    error(("%s: hetero_process_meshes: got %d numbers, expected five (tp, cp, ep, dp, pp) a mesh"):format(where, #meshes), 0)
  end
  local stages <const>, first, world, count = {}, 0, 0, 0
  for m = 1, #meshes, 5 do
    local tp <const>, cp <const>, ep <const>, dp <const>, pp <const> = table.unpack(meshes, m, m + 4)
    for _ = 1, math.min(pp, most_layers) do
      local s <const> = #stages + 1
      if not split[s] then break end
      stages[s] = { first = first, layers = split[s], words = ("tp %d, cp %d, ep %d, dp %d: %d GPUs of mesh %d"):format(tp, cp, ep, dp,
        tp * cp * dp, (m - 1) // 5) }
      first = first + split[s]
    end
    world, count = world + tp * cp * dp * pp, count + pp
  end
  if count ~= #split then
    error(("%s: hetero_pipeline_layer_split: got %d stages, but the meshes have %d"):format(where, #split, count), 0)
  end
  local layers <const>, batch <const>, micro <const> = number "num_layers", number "global_batch_size", number "micro_batch_size"
  local per <const> = micro * math.max(meshes[4], 1)
  return { system = "FlagScale", stages = stages, global_batch = batch, microbatches = batch // per, notes = those(
    ("%d GPUs"):format(world), first ~= layers and ("the stages hold %d layers, num_layers is %d"):format(first, layers),
    batch % per ~= 0 and ("global batch %d is not a multiple of microbatch %d x dp %d"):format(batch, micro, meshes[4])) }
end

--- Reads a plan. Raises one line with the field that is wrong.
---@param text string
---@param where string? the file
---@return tangram.ForeignPlan
function foreign.read(text, where)
  where = where or "plan"
  local kind <const> = foreign.kind(text)
  if not kind then error(where .. ": not a plan of Galvatron, Sailor or FlagScale", 0) end
  if #text > 1 << 20 then error(where .. ": over 1024 KiB, expected a plan", 0) end
  if kind == "flagscale" then return flagscale(text, where) end
  local config <const> = files.decode(text, where)
  if type(config) ~= "table" then error(where .. ": not an object", 0) end
  if kind == "galvatron" then return galvatron(config, where) end
  return sailor(config, where)
end

--- The plan as lines for the terminal.
---@param plan tangram.ForeignPlan
---@return string
function foreign.text(plan)
  local last <const> = plan.stages[#plan.stages]
  local lines <const> = { ("%s's plan: %d layers in %d stage%s, global batch %d in %d microbatch%s; it states no times\n"):format(
    plan.system, last.first + last.layers, #plan.stages, #plan.stages == 1 and "" or "s", plan.global_batch, plan.microbatches,
    plan.microbatches == 1 and "" or "es") }
  for s, stage in ipairs(plan.stages) do
    lines[#lines + 1] = ("  stage %d: %d layers (%d to %d), %s\n"):format(s, stage.layers, stage.first, stage.first + stage.layers - 1,
      stage.words)
  end
  for _, note in ipairs(plan.notes) do lines[#lines + 1] = ("note: %s\n"):format(note) end
  return table.concat(lines)
end

return foreign
