--- Measured times of a model's parts on a GPU type, for the cost model `profiled`, and the entries that a table lacks.
---
--- A profile: { gpu = "v100-sxm2-32", hidden = 2048, source = "…", entries = { entry, … } }; an entry: { kind = "embedding" |
--- "layer" | "head" | "model", tp, mbs, seq, forward_s, backward_s }: one microbatch of mbs samples on tp GPUs, tensor
--- parallelism's traffic included; a layer is one layer, `model` all atoms together. A plan states the profiles that it used.
local schema <const> = require "tangram.schema"

local profile <const> = {}

local positive <const> = { type = "number", min = 0, required = true }
local entry <const> = {
  kind = { type = "enum", values = { "embedding", "layer", "head", "model" }, required = true, doc = "what was timed" },
  tp = { type = "integer", min = 1, required = true, doc = "GPUs of tensor parallelism" },
  mbs = { type = "integer", min = 1, required = true, doc = "samples of the microbatch" },
  seq = { type = "integer", min = 1, required = true, doc = "tokens a sample" },
  forward_s = positive, backward_s = positive,
}

--- The schema of a list of profiles, as the option of a plugin.
profile.list = {
  type = "list", default = {}, doc = "measured times by GPU type; types without a profile are priced by the analytic model",
  item = { type = "table", fields = {
    gpu = { type = "string", required = true, doc = "GPU type, as islands name it" },
    hidden = { type = "integer", min = 1, doc = "hidden size of the measured model" },
    source = { type = "string", doc = "where the times come from" },
    entries = { type = "list", item = { type = "table", fields = entry }, min = 1, required = true, doc = "the times" },
  } },
}

--- The checked profile; raises one line.
---@param value table
---@param where string
---@return table
function profile.check(value, where) return schema.check(value, profile.list.item.fields, where) end

local log <const>, abs <const> = math.log, math.abs

--- How far an entry is from what is asked for: another degree counts most, then the sequence, then the microbatch.
local function distance(one, tp, mbs, seq)
  return 4 * abs(log(one.tp / tp)) + 2 * abs(log(one.seq / seq)) + abs(log(one.mbs / mbs))
end

--- The two neighbours along `axis` among entries that agree in the rest, or nil.
local function neighbours(entries, axis, point)
  local below, above
  for _, one in ipairs(entries) do
    local same = true
    for _, name in ipairs { "tp", "mbs", "seq" } do same = same and (name == axis or one[name] == point[name]) end
    if same and one[axis] <= point[axis] and (not below or one[axis] > below[axis]) then below = one end
    if same and one[axis] >= point[axis] and (not above or one[axis] < above[axis]) then above = one end
  end
  if below and above then return below, above end
end

--- What a table says about a point: entries with weights that add up to 1, and the gap's name if it holds none near enough to
--- interpolate between.
---@param entries table[] of one kind
---@param point { tp: integer, mbs: number, seq: integer }
---@return { entry: table, weight: number }[]
---@return string? gap
function profile.lookup(entries, point)
  for _, axis in ipairs { "mbs", "seq", "tp" } do
    local below <const>, above <const> = neighbours(entries, axis, point)
    if below and below == above then return { { entry = below, weight = 1 } } end
    if below then
      local share <const> = log(point[axis] / below[axis]) / log(above[axis] / below[axis])
      return { { entry = below, weight = 1 - share }, { entry = above, weight = share } }
    end
  end
  local nearest = entries[1]
  for _, one in ipairs(entries) do
    if distance(one, point.tp, point.mbs, point.seq) < distance(nearest, point.tp, point.mbs, point.seq) then nearest = one end
  end
  return { { entry = nearest, weight = 1 } }, ("tp %d, mbs %g, seq %d; nearest: tp %d, mbs %d, seq %d"):format(point.tp, point.mbs,
    point.seq, nearest.tp, nearest.mbs, nearest.seq)
end

return profile
