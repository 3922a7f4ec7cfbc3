--- The training table (FORMATS.md): checked, defaults filled in.
local core <const> = require "tangram.core"
local divisors <const> = require "tangram.divisors"
local schema <const> = require "tangram.schema"

local training <const> = {}

local largest_batch <const> = 1 << 24 -- sequences; keeps the list of divisors quick to find

training.fields = {
  global_batch = { type = "integer", required = true, min = 1, max = largest_batch, doc = "sequences an iteration" },
  seq_len = {
    type = "integer", required = true, min = core.model_ranges.seq_len.min, max = core.model_ranges.seq_len.max,
    doc = "tokens a sequence",
  },
  precision = {
    type = "enum", values = { "auto", "bf16", "fp16", "fp8", "fp32" }, default = "auto",
    doc = "of matrix products; auto: bf16 if every GPU in use has it, else fp16",
  },
  gradient_bytes = { type = "enum", values = { 4, 2 }, default = 4, doc = "bytes a gradient is summed in" },
  optimizer = { type = "enum", values = { "adam" }, default = "adam", doc = "two moments and a master weight at 4 bytes" },
  attention = {
    type = "enum", values = { "auto", "flash", "unfused" }, default = "auto",
    doc = "auto: flash where the GPU can run it",
  },
  dropout = { type = "boolean", default = false, doc = "its masks take memory" },
  memory_margin = { type = "number", min = 0, max = 0.9, default = 0.1, doc = "share of a GPU's memory left free" },
  microbatches = {
    doc = "range of microbatches an iteration; default: all divisors of global_batch",
    any_of = {
      {
        type = "table",
        fields = {
          min = { type = "integer", min = 1, max = largest_batch, default = 1 },
          max = { type = "integer", min = 1, max = largest_batch },
        },
      },
      { type = "list", item = { type = "integer", min = 1, max = largest_batch }, min = 2, max = 2 },
    },
  },
}

--- The checked training table; raises one line if a field is wrong or no number of microbatches is possible.
---@param value table
---@param where string? what it is and where it stands, for messages
---@return table
function training.check(value, where)
  where = where or "training"
  local t <const> = schema.check(value, training.fields, where)
  local range <const> = t.microbatches or {}
  local lo <const>, hi <const> = range.min or range[1] or 1, range.max or range[2] or t.global_batch
  t.microbatches = { min = lo, max = hi }
  if lo > hi then error(("%s: microbatches: got min = %d above max = %d"):format(where, lo, hi), 0) end
  if #training.microbatch_counts(t) == 0 then
    local below, above
    for _, d in ipairs(divisors(t.global_batch)) do
      if d < lo then below = d elseif d > hi then above = above or d end
    end
    error(("%s: microbatches: got %d..%d, expected a range that holds a divisor of global_batch = %d (nearest: %s)"):format(
      where, lo, hi, t.global_batch, above and ("%d and %d"):format(below, above) or below), 0)
  end
  return t
end

--- The numbers of microbatches to try: divisors of the global batch within the range, from large to small.
---@param t table a checked training table
---@return integer[]
function training.microbatch_counts(t)
  local counts <const> = {}
  for _, d in ipairs(divisors(t.global_batch)) do
    if d >= t.microbatches.min and d <= t.microbatches.max then table.insert(counts, 1, d) end
  end
  return counts
end

local rate_of <const> = { bf16 = "bf16_flops", fp16 = "fp16_flops", fp8 = "fp8_flops" }

--- Names of the devices without a precision, each once, in order.
local function without(precision, devices)
  local names <const>, seen <const> = {}, {}
  for _, device in ipairs(devices) do
    if not device[rate_of[precision]] and not seen[device.name] then
      seen[device.name] = true
      names[#names + 1] = device.name
    end
  end
  return names
end

--- The precision that a plan over the devices uses.
---@param t table a checked training table
---@param devices { name: string, bf16_flops: number?, fp16_flops: number?, fp8_flops: number? }[] the GPUs in use
---@return string? precision nil if a device can't
---@return string? note for the report, or why not
function training.resolve_precision(t, devices)
  local wanted <const> = t.precision == "auto" and "bf16" or t.precision
  if wanted == "fp32" then return wanted end
  local lacking <const> = without(wanted, devices)
  if #lacking == 0 then return wanted end
  local names <const> = table.concat(lacking, ", ")
  if t.precision ~= "auto" then
    return nil, ("precision: got '%s', which %s can't; give another precision or leave those nodes out"):format(wanted, names)
  end
  local neither <const> = without("fp16", devices)
  if #neither > 0 then
    return nil, ("precision: no 16-bit precision suits every GPU: %s without bf16, %s without fp16"):format(names,
      table.concat(neither, ", "))
  end
  return "fp16", ("precision is fp16 with loss scaling, as %s can't do bf16"):format(names)
end

return training
