--- Galvatron's cost model on its own profiles, as measured tables for any parallelizer: layers, messages and memory as
--- tangram.galvatron.costs has them. Transfers between stages and the allocator's reserve are Tangram's own affair
--- (training.memory_margin); embedding and head are always the first's and the last's share, so that costs add up.
local costs <const> = require "tangram.galvatron.costs"
local profile <const> = require "tangram.galvatron.profile"

--- Forward's share of a layer's messages: a third of the passes.
local FORWARD_SHARE <const> = 1 / 3

local function refuse(format, ...) error(("cost model 'galvatron': " .. format):format(...), 0) end

--- The profile's figures for an island's GPUs at the training's sequence length.
local function fits_of(island, ctx)
  if not ctx.memo.fits then
    local from <const> = ctx.options.profiles[island.gpu]
    if not from then refuse("no profile of GPU '%s', expected it in option 'profiles'", island.gpu) end
    if not (from.layer and from.ends and from.hardware) then
      refuse("option 'profiles': %s: not a table of tangram.input.galvatron.read", island.gpu)
    end
    if ctx.model.experts > 0 then refuse("profiles have no experts, the model has %d", ctx.model.experts) end
    if ctx.training.precision ~= "bf16" and ctx.training.precision ~= "fp16" then
      refuse("profiles are of 16-bit training, this is %s", ctx.training.precision)
    end
    ctx.memo.fits = profile.at(from, ctx.training.seq_len)
  end
  return ctx.memo.fits
end

--- Prices and Galvatron's form of a strategy: Ulysses stands as cp.
local function setting_of(island, strategy, ctx)
  local key <const> = strategy.zero .. "," .. strategy.dp * strategy.tp * strategy.cp
  local priced = ctx.memo[key]
  if not priced then
    priced = costs.new(fits_of(island, ctx), {
      gpus = strategy.dp * strategy.tp * strategy.cp, stages = 1, layers = ctx.model.layers, seq_len = ctx.training.seq_len,
      hidden = ctx.model.hidden, global_batch = ctx.training.global_batch, microbatches = ctx.microbatches,
      zero = strategy.zero, async_reduce = ctx.options.async_reduce, repair = ctx.options.repair,
    })
    ctx.memo[key] = priced
  end
  return priced, { tp = strategy.tp, sp = strategy.cp, dp = strategy.dp, sharded = strategy.zero == 3, recompute = false }
end

local function layer_terms(priced, s)
  local seconds <const>, kept <const> = priced.layer_s(s, false), priced.layer_kept_bytes(s)
  local states_bytes <const> = priced.layer_states_bytes(s)
  local sync_s <const> = priced.layer_s(s, true) - seconds
  local forward_s <const> = priced.layer_forward_s(s) + FORWARD_SHARE * priced.layer_messages_s(s)
  s.recompute = true
  return {
    forward_s = forward_s, backward_s = seconds - forward_s, sync_s = sync_s, recompute_s = priced.layer_s(s, false) - seconds,
    static_bytes = states_bytes, inflight_bytes = kept, recomputed_inflight_bytes = math.min(kept, priced.layer_kept_bytes(s)),
    recompute_peak_bytes = kept, transient_bytes = s.tp > 1 and priced.buffer_bytes(s.tp) or 0,
  }
end

local function end_terms(priced, s, place)
  local seconds <const>, kept <const> = priced.ends_s(s, place, false), priced.ends_kept_bytes(s, place)
  local states_bytes <const> = priced.ends_states_bytes(s, place)
  return {
    forward_s = seconds / 3, backward_s = seconds * 2 / 3, sync_s = priced.ends_s(s, place, true) - seconds, recompute_s = 0,
    static_bytes = states_bytes, inflight_bytes = place == "first" and kept or 0, recomputed_inflight_bytes = 0,
    recompute_peak_bytes = 0, transient_bytes = place == "last" and kept or 0,
  }
end

return {
  api = 1, kind = "cost", name = "galvatron", description = "Galvatron's cost model on its profiles",
  options = {
    profiles = { type = "map", item = { type = "table" }, required = true,
      doc = "by GPU type: tables of tangram.input.galvatron.read" },
    async_reduce = { type = "boolean", default = true, doc = "gradients are reduced behind the backward passes" },
    repair = { type = "boolean", default = false,
      doc = "Ulysses alone shards its states and pays their reduction; ZeRO 3 gathers weights for both passes" },
  },
  atom = function(atom, island, strategy, ctx)
    local priced <const>, s <const> = setting_of(island, strategy, ctx)
    if atom.kind == "layer" then return layer_terms(priced, s) end
    if atom.kind == "embedding" then return end_terms(priced, s, "first") end
    if atom.kind == "head" then return end_terms(priced, s, "last") end
    refuse("profiles are of whole layers, the atom is '%s'", atom.kind)
  end,
  close = function(sum, run, _, strategy)
    return {
      atoms = #run, gpus = strategy.dp * strategy.tp * strategy.cp, strategy = strategy, forward_s = sum.forward_s,
      backward_s = sum.backward_s, sync_s = sum.sync_s, static_bytes = sum.static_bytes + costs.CONTEXT_BYTES,
      inflight_bytes = sum.inflight_bytes, transient_bytes = sum.transient_bytes,
      parts = {
        memory = { weights_bytes = sum.static_bytes, context_bytes = costs.CONTEXT_BYTES },
        time = { recompute_s = sum.recompute_s, reduce_s = sum.sync_s },
      },
    }
  end,
  constants = function() return { stage_s = 0, static_bytes = costs.CONTEXT_BYTES } end,
}
