--- The analytic cost model: no profile needed. Compute by shape-dependent efficiency, collectives by group and place, memory
--- by part; constants fitted on public runs (tangram.catalog.constants).
---
--- A layer's pass takes S(F) = (F^6 + c^6)^(1/6): its parts' sum F, but no less than about the host's launch time c. Half
--- atoms have c/2 each: two halves add up to their layer exactly in bytes, and in time wherever F or c clearly dominates.
local attention <const> = require "tangram.formulas.attention"
local by_strategy <const> = require "tangram.formulas.by_strategy"
local constants <const> = require "tangram.catalog.constants"
local gemm <const> = require "tangram.formulas.gemm"
local mlp <const> = require "tangram.formulas.mlp"
local setting <const> = require "tangram.formulas.setting"
local states <const> = require "tangram.formulas.states"

local max <const> = math.max

local time_parts <const> = {
  "compute_s", "attention_s", "memory_bound_s", "launch_s", "tp_s", "cp_s", "ep_s", "fsep_s", "fsdp_s", "offload_s", "selective_s",
}

--- Figures of an island's GPUs and links that the formulas take: the catalogue's from datasheets, others as the cluster has them.
local function figures_of(island)
  local device <const>, list <const> = island.device, {}
  local function add(name, value, unit, is_datasheet)
    if not value then return end
    list[#list + 1] = { name = name, value = value, unit = unit, from = is_datasheet and "datasheet" or "measured",
      source = is_datasheet and device.source or "the cluster's description" }
  end
  local known <const> = device.source ~= nil
  add("compute_flops", island.compute_flops, "FLOP/s", known)
  add("fp8_flops", device.fp8_flops, "FLOP/s", known)
  add("memory_bytes_per_s", device.memory_bytes_per_s, "bytes/s", known)
  local inside <const> = island:intra_bytes_per_s(island.gpus_per_node)
  add("intra_bytes_per_s", inside, "bytes/s", known and (inside == device.link_bytes_per_s or inside == device.pcie_bytes_per_s))
  add("inter_bytes_per_s", island.inter and island:inter_bytes_per_s(island.gpus_per_node), "bytes/s", false)
  return list
end

--- The constants in use on an island, for the plan's list: fitted and carried over, then the datasheets' and the cluster's figures.
---@return table[] { name, value, unit, from, source }
local function constants_of(island, ctx)
  local list <const> = constants.list(island.device, { moe = ctx.model.experts > 0, stack = ctx.options.stack })
  local own <const>, given <const> = island.device.constants or {}, ctx.options.constants
  local of_type <const> = (ctx.options.gpus[island.gpu] or {}).constants or {}
  for _, one in ipairs(list) do
    if own[one.name] then one.value, one.from, one.source = own[one.name], "fitted", "the cluster's description of the GPU" end
    if of_type[one.name] then one.value, one.from, one.source = of_type[one.name], "fitted", "option 'gpus'" end
    if given[one.name] then one.value, one.from, one.source = given[one.name], "fitted", "option 'constants'" end
  end
  local figures <const> = figures_of(island)
  return table.move(figures, 1, #figures, #list + 1, list)
end

--- The setting of a strategy, from ctx.memo where it was worked out before.
local function setting_of(island, strategy, ctx)
  local settings = ctx.memo.settings
  if not settings then
    settings = {}
    ctx.memo.settings = settings
  end
  local kept <const> = by_strategy(settings, strategy)
  local s = kept.setting
  if s then return s end
  local k = ctx.memo.constants
  if not k then
    k = {}
    for _, one in ipairs(constants_of(island, ctx)) do k[one.name] = one.value end
    ctx.memo.constants = k
  end
  s = setting.new(island, strategy, ctx, k)
  s.selective, s.slack = strategy.recompute == "selective", 1 + ctx.options.allocator_slack
  kept.setting = s
  return s
end

--- Adds one part's forward and backward to the sums and to the part's own figure.
local function add(terms, part, forward_s, backward_s)
  terms.forward_s, terms.backward_s = terms.forward_s + forward_s, terms.backward_s + backward_s
  terms[part] = terms[part] + forward_s + backward_s
end

--- Adds traffic that runs beside the atom's compute: what is longer than that, and at least a share.
local function add_beside(terms, part, least_share, forward_s, backward_s)
  add(terms, part, max(least_share * forward_s, forward_s - 0.9 * terms.forward_s),
    max(least_share * backward_s, backward_s - 0.9 * terms.backward_s))
end

--- An all-reduce forward and one backward; backward ones hide in part behind weight gradients, not with sequence parallelism.
local function tensor_parallel(s, terms)
  if s.t == 1 then return end
  local once_s <const> = s.y * s.tokens * s.model.hidden * s.tp_s_per_byte + s.tp_latency_s
  add(terms, "tp_s", once_s, once_s * (s.sp and 1 or s.k.tp_backward_exposed))
end

--- Adds the attention half's times; gives the core's forward.
local function attention_times(s, atom, terms)
  local core_forward_s <const>, core_backward_s <const> = attention.core(s, atom.attention)
  add(terms, "compute_s", gemm.passes(s, attention.projections_s(s)))
  add(terms, "attention_s", core_forward_s, core_backward_s)
  add(terms, "memory_bound_s", gemm.elementwise(s, 11 * s.model.hidden / s.u + 4 * attention.qkv_width(s) / s.t, 3))
  add(terms, "cp_s", attention.ring(s, core_forward_s, core_backward_s))
  tensor_parallel(s, terms)
  return core_forward_s
end

local function mlp_times(s, atom, terms)
  local moe <const> = atom.mlp == "moe"
  add(terms, "compute_s", gemm.passes(s, mlp.products_s(s, atom.mlp)))
  add(terms, "memory_bound_s", gemm.elementwise(s, 11 * s.model.hidden / s.u + mlp.elementwise_bytes(s, atom.mlp), 3))
  if moe then
    local exchange_s <const> = mlp.all_to_all_s(s)
    add(terms, "ep_s", exchange_s, exchange_s)
  end
  if not moe or s.etp > 1 then tensor_parallel(s, terms) end
end

local function at_least(x, floor) return (x ^ 6 + floor ^ 6) ^ (1 / 6) end

--- A layer, or a half of one.
local function layer_terms(s, atom, terms)
  local kept, working, scores, core_s = 0, 0, 0, 0
  if atom.kind ~= "mlp" then
    core_s = attention_times(s, atom, terms)
    kept, working, scores = attention.kept_bytes(s), attention.working_bytes(s), attention.score_bytes(s)
  end
  if atom.kind ~= "attention" then
    mlp_times(s, atom, terms)
    kept, working = kept + mlp.kept_bytes(s, atom.mlp), max(working, mlp.working_bytes(s, atom.mlp))
  end
  local share <const> = atom.kind == "layer" and 1 or 0.5
  local floor_s <const>, busy_s <const> = s.launch_s * share, terms.forward_s
  add(terms, "launch_s", at_least(busy_s, floor_s) - busy_s, at_least(terms.backward_s, floor_s) - terms.backward_s)
  local core_again_s <const> = s.flash and 0 or core_s -- fused attention keeps no scores: nothing to recompute selectively
  if s.selective then
    add(terms, "selective_s", 0, core_again_s)
    working = working + scores
  else
    kept = kept + scores
  end
  -- a forward more; of what is recomputed anyway, only once
  terms.recompute_s = max(0, at_least(busy_s * s.k.recompute_share, floor_s) - terms.selective_s)
  terms.recomputed_inflight_bytes = math.min(kept, s.y * s.tokens * s.model.hidden / s.u * share)
  terms.recompute_peak_bytes = kept
  terms.inflight_bytes, terms.transient_bytes = kept, working
  if s.offload_activations then -- all but the atom in work and the one on its way are in the host's memory
    local copy_s <const> = kept * s.host_s_per_byte
    add_beside(terms, "offload_s", 0, copy_s, copy_s)
    terms.inflight_bytes, terms.recomputed_inflight_bytes, terms.transient_bytes = 0, 0, working + 2 * kept
  end
end

--- Token ids and the dropout mask; the output is the first layer's input and counted there.
local function embedding_terms(s, terms)
  local look_up_s <const> = 8 * s.tokens * s.model.hidden * s.s_per_byte
  add(terms, "memory_bound_s", look_up_s, look_up_s)
  tensor_parallel(s, terms)
  terms.inflight_bytes = s.tokens * (8 + s.dropout * s.model.hidden / s.u)
end

--- Final norm, vocabulary-parallel product and loss. The logits live only while the head's own microbatch turns round.
local function head_terms(s, terms)
  local logits <const> = s.tokens * s.vocab / s.t
  local product_s <const> = gemm.product_s(s, s.s_per_gemm_flop, s.tokens, s.vocab / s.t, s.model.hidden)
  add(terms, "compute_s", gemm.passes(s, product_s, 1))
  add(terms, "memory_bound_s", 12 * logits * s.s_per_byte, 12 * logits * s.s_per_byte)
  tensor_parallel(s, terms)
  terms.inflight_bytes = 2 * s.y * s.tokens * s.model.hidden / s.u
  terms.transient_bytes = s.k.logit_bytes * logits
end

local kinds <const> = {
  layer = layer_terms, attention = layer_terms, mlp = layer_terms,
  embedding = function(s, _, terms) embedding_terms(s, terms) end,
  head = function(s, _, terms) head_terms(s, terms) end,
}

local function atom_terms(atom, island, strategy, ctx)
  local s <const> = setting_of(island, strategy, ctx)
  local price <const> = kinds[atom.kind]
  if not price then
    error(("atom kind '%s': the analytic cost model prices embedding, layer, attention, mlp and head"):format(atom.kind), 0)
  end
  local terms <const> = {
    forward_s = 0, backward_s = 0, recompute_s = 0, inflight_bytes = 0, recomputed_inflight_bytes = 0, transient_bytes = 0,
    recompute_peak_bytes = 0,
  }
  for _, part in ipairs(time_parts) do terms[part] = 0 end
  price(s, atom, terms)
  local dense <const>, expert <const> = states.parameters(s, atom)
  add_beside(terms, "fsep_s", 0, states.rebuilding_s(s, expert))
  add_beside(terms, "fsdp_s", s.k.fsdp_exposed, states.sharded_traffic_s(s, dense, expert))
  terms.transient_bytes = terms.transient_bytes + states.gathered_bytes(s, dense, expert)
  for _, name in ipairs { "inflight_bytes", "recomputed_inflight_bytes", "transient_bytes", "recompute_peak_bytes" } do
    terms[name] = terms[name] * s.slack
  end
  terms.weights_bytes, terms.gradients_bytes, terms.optimizer_bytes = states.bytes(s, dense, expert)
  terms.static_bytes = terms.weights_bytes + terms.gradients_bytes + terms.optimizer_bytes
  terms.reduce_s = states.reduce_s(s, dense, expert)
  terms.optimizer_s = states.optimizer_s(s, dense, expert)
  return terms
end

--- Workspace of sequence parallelism's gathered input, and the pipeline's buffers for one activation and one gradient.
local function buffers_bytes(s)
  local hidden <const> = s.y * s.tokens * s.model.hidden
  return (s.sp and hidden or 0) + 2 * hidden / s.u
end

--- One all-reduce of the tied embedding's gradient between the first and the last stage, over the slowest link it may meet.
local function tied_s(s, ctx)
  if not s.model.tied then return 0 end
  local link <const> = ctx.tied_link or s.island.inter and {
    latency_s = s.island.inter.latency_s, bytes_per_s = s.island:inter_bytes_per_s(1),
  } or { latency_s = s.island.intra_latency_s, bytes_per_s = s.island:intra_bytes_per_s(s.island.gpus_per_node) }
  return 2 * link.latency_s + s.vocab * s.model.hidden * s.gradient_bytes / link.bytes_per_s
end

--- Of the gradients' reduction, what stands at the end of a step in any case.
local function reduce_share(s) return s.k.reduce_overlaps == 1 and 0.1 or 1 end

--- What the atoms of a tied model's two ends count twice, and a stage that holds both has once: the vocabulary's weights.
local function counted_twice(s)
  if not s.model.tied then return { weights_bytes = 0, gradients_bytes = 0, optimizer_bytes = 0, reduce_s = 0, optimizer_s = 0 } end
  local vocabulary <const> = s.vocab * s.model.hidden / s.t
  local weights <const>, gradients <const>, optimizer <const> = states.bytes(s, vocabulary, 0)
  return { weights_bytes = weights, gradients_bytes = gradients, optimizer_bytes = optimizer,
    reduce_s = states.reduce_s(s, vocabulary, 0), optimizer_s = states.optimizer_s(s, vocabulary, 0) }
end

local function without_second_embedding(s, run, sum)
  if not s.model.tied or not run.has_embedding or not run.has_head then return sum end
  local held <const> = {}
  for name, value in pairs(counted_twice(s)) do held[name] = sum[name] - value end
  return held
end

local function close(sum, run, island, strategy, ctx)
  local s <const> = setting_of(island, strategy, ctx)
  local held <const> = without_second_embedding(s, run, sum)
  local reduce_s <const> = held.reduce_s > 0 and held.reduce_s + 2 * s.dp_latency_s or 0
  local time <const> = {
    reduce_s = max(reduce_share(s) * reduce_s, reduce_s - sum.forward_s - sum.backward_s),
    optimizer_s = held.optimizer_s + s.k.step_s, tied_s = run.has_embedding ~= run.has_head and tied_s(s, ctx) or 0,
    recompute_s = sum.selective_s + sum.recompute_s,
  }
  for _, part in ipairs(time_parts) do
    if part ~= "selective_s" then time[part] = sum[part] end
  end
  local memory <const> = {
    weights_bytes = held.weights_bytes, gradients_bytes = held.gradients_bytes, optimizer_bytes = held.optimizer_bytes,
    buffers_bytes = buffers_bytes(s), context_bytes = s.k.context_bytes,
  }
  return {
    atoms = #run, gpus = s.gpus, strategy = strategy, forward_s = sum.forward_s, backward_s = sum.backward_s,
    sync_s = time.reduce_s + time.optimizer_s + time.tied_s,
    static_bytes = memory.weights_bytes + memory.gradients_bytes + memory.optimizer_bytes + memory.buffers_bytes
      + memory.context_bytes,
    inflight_bytes = sum.inflight_bytes, transient_bytes = sum.transient_bytes, parts = { memory = memory, time = time },
  }
end

return {
  api = 1, kind = "cost", name = "analytic", description = "closed formulas with constants fitted on public runs; needs no profile",
  options = {
    stack = {
      type = "enum", values = constants.stacks, default = "megatron",
      doc = "software whose fitted constants are taken where a GPU has several sets",
    },
    network = {
      type = "enum", values = { "reached", "nominal" }, default = "reached",
      doc = "what the cluster's rates between nodes are: those that collectives reach, or the links' nominal ones",
    },
    imbalance = {
      type = "number", default = 1, min = 1,
      doc = "largest over mean tokens of a GPU under static expert parallelism (LAER-MoE's logs: 1.66 with 8 experts, 1.73 with 16); "
        .. "fully sharded experts keep a part of what exceeds 1",
    },
    allocator_slack = {
      type = "number", default = 0, min = 0, max = 1,
      doc = "share of activations lost to the allocator; training.memory_margin covers what runs have shown (up to 8 %)",
    },
    constants = {
      type = "map", item = { type = "number", min = 0 }, default = {}, check = constants.check,
      doc = "values by name in place of the catalogue's",
    },
    gpus = {
      type = "map", default = {}, doc = "the same by GPU type, as tangram calibrate writes it: { [type] = { constants = { … } } }",
      item = { type = "table", fields = {
        constants = { type = "map", item = { type = "number", min = 0 }, default = {}, check = constants.check, doc = "values by name" },
      } },
    },
  },
  atom = atom_terms,
  close = close,
  constants = function(island, strategy, ctx)
    local s <const> = setting_of(island, strategy, ctx)
    local twice <const> = counted_twice(s)
    return {
      stage_s = 0, static_bytes = s.k.context_bytes + buffers_bytes(s), step_s = s.k.step_s, reduce_s = 2 * s.dp_latency_s,
      reduce_share = reduce_share(s), tied_s = tied_s(s, ctx), twice = {
        static_bytes = twice.weights_bytes + twice.gradients_bytes + twice.optimizer_bytes, reduce_s = twice.reduce_s,
        optimizer_s = twice.optimizer_s,
      },
    }
  end,
  constants_used = constants_of,
}
