--- Galvatron's cost model: seconds and bytes of a layer, of embedding and head, of a pipeline (Hetu-Galvatron, branch main,
--- cea12ff), on a profile's figures. Everything is of one microbatch and one GPU. `repair` mends what the original gets wrong:
--- Ulysses alone shards states, reduces gradients and exchanges the embedding's activations as well; ZeRO 3 gathers weights for
--- both passes; a change of degree between layers costs its bytes once, not 105 times; any stage may be the slowest.
local costs <const> = {}

local max <const>, min <const> = math.max, math.min
local MiB <const> = 2.0 ^ 20

--- Gradients and weights cross at 2 bytes, the profile counts 4.
local HALF <const> = 0.5
--- Kept free of the budget on every stage for PyTorch's context.
costs.CONTEXT_BYTES = 1024 * MiB
--- Messages a layer and microbatch: reduce-scatters and all-gathers, or all-to-alls; more by half if recomputed.
local TP_MESSAGES <const>, SP_MESSAGES <const> = 6, 4
--- Galvatron turns bytes · (ms/MB) into seconds by 1e-7; 2^-20 / 1000 is right, 105 times less.
local SWITCH_FACTOR <const> = 1e-7 / (1e-3 / MiB)
--- What orders layers of equal cost: to Ulysses, to ZeRO-3, to recompute, to both, from ZeRO-3 to recompute.
local BIAS_S <const> = { sp = 1e-10, sharded = 1e-9, recompute = 2e-9, both = 3e-9, sharded_to_recompute = 1e-9 }

---@class tangram.GalvatronStrategy
---@field tp integer
---@field sp integer degree of Ulysses; in Galvatron tp or sp is 1
---@field dp integer
---@field sharded boolean ZeRO-3; else the setting's zero
---@field recompute boolean

--- States' share of 4 bytes a parameter times 4, as Galvatron has fitted it (FORMULAS.md, section 4), 16 bit.
--- ZeRO 1, which it has not, shards 12 of 16 bytes.
local function states_share(zero, shards, many, async)
  if zero == 0 or shards == 1 then return 1 end
  local share <const> = 1 / shards + 0.003
  if zero == 1 then return 3 / 4 * share + 1 / 4 end
  if not many then return zero == 3 and share or 7 / 8 * share + 1 / 8 end
  if async then return zero == 3 and 7 / 8 * share + 1 / 8 or 6 / 8 * share + 2 / 8 end
  return zero == 3 and 5 / 4 * share or 5 / 4 * (7 / 8 * share + 1 / 8)
end

--- Communication beside computation, both slowed down: seconds of the two together.
local function beside(co, communication_s, computation_s)
  if computation_s * co > communication_s then return computation_s + communication_s * (1 - 1 / co) end
  return communication_s
end

---@class tangram.GalvatronSetting
---@field gpus integer of the whole pipeline, a power of two
---@field stages integer
---@field layers integer in the whole model
---@field seq_len integer
---@field hidden integer
---@field global_batch integer
---@field microbatches integer
---@field zero integer of layers that are not sharded: 0, 2 (or 1)
---@field async_reduce boolean gradients reduced behind the backward passes
---@field repair boolean?

--- The prices of a setting.
---@param fits tangram.GalvatronFits
---@param of tangram.GalvatronSetting
function costs.new(fits, of)
  local priced <const> = {}
  local samples <const>, stages <const>, co <const> = of.global_batch // of.microbatches, of.stages, fits.overlap
  local stage_gpus <const> = of.gpus // stages
  local token_bytes <const> = of.seq_len * of.hidden * 2.0

  local function degree(s) return s.tp * s.sp end
  local function shards(s) return s.dp * s.sp end
  local function local_samples(s) return samples // s.dp end
  --- In the original Ulysses alone shards nothing and pays no reduction.
  local function replicas(s) return of.repair and shards(s) or s.dp end
  local function zero_of(s) return replicas(s) == 1 and 0 or s.sharded and 3 or of.zero end
  --- Groups whose ranks stand side by side: no tensor parallelism between them, or none of their own.
  local function reduce_s_per_byte(s) return fits.reduce_s_per_byte(shards(s), s.tp == 1 or shards(s) == of.gpus) end

  --- So many messages of tensor parallelism and of Ulysses.
  local function messages_s(s, tp_messages, sp_messages)
    local bytes <const> = local_samples(s) * token_bytes
    return (s.tp > 1 and tp_messages * fits.message_s("allreduce", s.tp, bytes) / 2 or 0)
      + (s.sp > 1 and sp_messages * fits.message_s("all_to_all", s.sp, bytes) or 0)
  end

  --- Bytes that one stage hands to the next cost the layers a share each; the more, the more stages.
  local function transfer_s(s)
    if stages == 1 then return 0 end
    local bytes <const> = stages * 2 * local_samples(s) * token_bytes
    return bytes * fits.p2p_s_per_byte(stages) / of.layers
  end

  function priced.layer_forward_s(s) return fits.forward_s(local_samples(s) / degree(s)) end
  function priced.layer_messages_s(s) return (s.recompute and 1.5 or 1) * messages_s(s, TP_MESSAGES, SP_MESSAGES) end

  --- A layer's time: forward, backward beside the gradients' reduction, messages, gather, transfer.
  ---@param s tangram.GalvatronStrategy
  ---@param sync boolean with the gradients' reduction (the last microbatch of an iteration)
  ---@return number seconds
  function priced.layer_s(s, sync)
    local forward_s <const> = priced.layer_forward_s(s)
    local backward_s <const> = (s.recompute and 3 or 2) * forward_s
    local n <const> = shards(s)
    local seconds = forward_s + backward_s
    if replicas(s) > 1 then
      local reduce_s <const> = 2 * (n - 1) / n * fits.parameter_bytes / s.tp * HALF * reduce_s_per_byte(s)
      if sync then seconds = forward_s + beside(co, reduce_s * co, backward_s) end
      if s.sharded then seconds = seconds + (of.repair and 1 or 0.5) * reduce_s end -- a gather is half an all-reduce
    end
    return seconds + priced.layer_messages_s(s) + transfer_s(s)
  end

  local function states(bytes, s)
    return bytes * states_share(zero_of(s), replicas(s) == 1 and 1 or shards(s), of.microbatches > 1, of.async_reduce)
  end

  --- Bytes of a layer's states, and of its activations of one microbatch.
  function priced.layer_states_bytes(s) return states(fits.parameter_bytes / s.tp * 4, s) end
  function priced.layer_kept_bytes(s)
    local t <const> = degree(s)
    return local_samples(s) * (s.recompute and fits.checkpoint_bytes / t or fits.activation_bytes(t))
  end

  --- Embedding and head, under a strategy of their own: seconds of a microbatch.
  ---@param place "whole"|"first"|"last" both, or those of the first or the last of several stages
  function priced.ends_s(s, place, sync)
    local n <const> = shards(s)
    local forward_s <const> = fits.ends_forward_s(local_samples(s) / degree(s)) * (place == "whole" and 1 or 0.5)
    local reduce_s <const> = n == 1 and 0
      or fits.ends[place].states_bytes(s.tp) / 4 * HALF * (n - 1) / n * reduce_s_per_byte(s)
    local gather <const> = s.sharded and 0.5 or 0
    local back <const> = (s.sharded and 1 or 0.5) - (sync and 0 or 0.5)
    -- Ulysses' messages are not counted in the original
    return beside(co, gather * reduce_s, forward_s) + beside(co, back * reduce_s, 2 * forward_s)
      + (place == "whole" and 2 or 1) * messages_s(s, 1, of.repair and 1 or 0)
  end
  function priced.ends_states_bytes(s, place) return states(fits.ends[place].states_bytes(s.tp), s) end
  function priced.ends_kept_bytes(s, place) return fits.ends[place].activation_bytes(degree(s)) * local_samples(s) end

  --- Workspace for gathered inputs of tensor parallelism of that degree.
  function priced.buffer_bytes(tp) return samples / (stage_gpus / tp) * of.hidden * of.seq_len * 4 * HALF end

  --- Seconds between a layer and the next of another strategy.
  function priced.switch_s(a, b)
    local t <const> = max(degree(a), degree(b))
    if degree(a) ~= degree(b) then
      local bytes <const> = (t - 1) / t * (samples / (stage_gpus / t)) * token_bytes
      return bytes * fits.reduce_s_per_byte(t, true) * (of.repair and 1 or SWITCH_FACTOR)
    end
    local same_sp <const> = a.sp == b.sp
    local to_sharded <const>, to_recompute <const> = b.sharded and not a.sharded, b.recompute and not a.recompute
    if a.sharded == b.sharded and a.recompute == b.recompute then return b.sp > a.sp and BIAS_S.sp or 0 end
    if not same_sp then return 0 end
    if to_sharded and to_recompute then return BIAS_S.both end
    if to_recompute and a.sharded and not b.sharded then return BIAS_S.sharded_to_recompute end
    if to_recompute and a.sharded == b.sharded then return BIAS_S.recompute end
    return to_sharded and a.recompute == b.recompute and BIAS_S.sharded or 0
  end

  return priced
end

--- Galvatron's estimate of an iteration, for its own search alone: it takes the first or the last stage for the slowest.
---@param alone_s number[] each stage's microbatch without gradient reduction, embedding and head included
---@param last_s number[] with the reduction, without embedding and head
---@param microbatches integer
---@param repair boolean? take the slowest stage for the slowest
---@return number seconds
function costs.pipeline_s(alone_s, last_s, microbatches, repair)
  local stages <const> = #alone_s
  local behind_s, sum_s, exposed_s = 0, 0, 0
  for i, seconds in ipairs(alone_s) do
    sum_s = sum_s + seconds
    if i > 1 then behind_s = behind_s + seconds end
    exposed_s = max(exposed_s, last_s[i] - sum_s)
  end
  if repair then return sum_s + max(table.unpack(alone_s)) * (microbatches - 1) + exposed_s end
  local warm <const> = min(stages - 1, microbatches - 1)
  local by_last_s <const> = sum_s + alone_s[stages] * (microbatches - 1)
  local by_first_s <const> = max(warm * alone_s[1] / 3, behind_s / 3) + max(warm * alone_s[1] * 2 / 3, behind_s * 2 / 3)
    + alone_s[1] * max(0, microbatches + 1 - stages)
  return max(by_last_s, by_first_s) + exposed_s
end

return costs
