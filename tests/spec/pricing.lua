--- For specs of cost models: an island, a context and the wrapped model by hand, without a planning.
local core <const> = require "tangram.core"
local cost <const> = require "tangram.cost"
local island <const> = require "tangram.island"
local model <const> = require "tangram.model"
local schema <const> = require "tangram.schema"
local slice <const> = require "tangram.slice"

local pricing <const> = {}

--- An island of A100; `fields` replace the island's, `device` the GPU's. Its rates are not the datasheet's, which is 310 GB/s.
function pricing.island(fields, device)
  local record <const> = {
    index = 1, name = "a", gpu = "a100", gpus = 8, gpus_per_node = 8, node_count = 1, compute_flops = 312e12, memory_bytes = 80 * 2 ^ 30,
    intra = { { 2, 300e9 } }, intra_latency_s = 5e-6, inter = { rates = { { 1, 100e9 } }, latency_s = 2e-5 }, signature = "a",
    device = { arch = "Ampere", bf16_flops = 312e12, fp16_flops = 312e12, memory_bytes_per_s = 2039e9, link_bytes_per_s = 310e9,
      pcie_bytes_per_s = 31.5e9 },
  }
  for name, value in pairs(fields or {}) do record[name] = value end
  for name, value in pairs(device or {}) do record.device[name] = value end
  record.node_count = record.gpus // record.gpus_per_node
  return island.new(record)
end

--- A cost model's file, loaded and wrapped with options checked against its schema.
function pricing.wrap(path, options)
  local plugin <const> = dofile(path)
  return cost.wrap(plugin, schema.check(options or {}, plugin.options, path)), plugin
end

--- The context of one island and B. `training` needs global_batch, seq_len; `extra` replaces fields of the context.
function pricing.context(description, training, on, microbatches, extra)
  local full <const> = {
    precision = "bf16", gradient_bytes = 2, optimizer = "adam", attention = "auto", dropout = false, memory_margin = 0.1,
  }
  for name, value in pairs(training) do full[name] = value end
  local m <const> = model.new(description)
  local ctx <const> = {
    model = m, atoms = assert(core.atoms(m, { seq_len = full.seq_len, granularity = extra and extra.granularity })),
    islands = { on }, training = full,
    microbatches = microbatches, samples = full.global_batch // microbatches, successors = 0,
    capacity_bytes = (1 - full.memory_margin) * on.memory_bytes,
  }
  for name, value in pairs(extra or {}) do ctx[name] = value end
  return ctx
end

--- The run of a context's atoms first..last, all by default.
function pricing.run(ctx, first, last) return slice.new(ctx.model, ctx.atoms, first or 1, last or #ctx.atoms) end

return pricing
