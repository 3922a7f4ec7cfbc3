--- The strategies of a stage: every (dp, tp, cp, ep) with dp·tp·cp = its GPUs that the model, the microbatch and the node
--- allow, with each ZeRO level, FSEP, the kinds of recompute and of offload. Shared by adapters and pruning policies. Where the
--- plan has a runtime as its target (ctx.target), only what that one can run.
local divisors <const> = require "tangram.divisors"
local target <const> = require "tangram.target.stage"

local strategies <const> = {}

--- The options that `list` reads, as a schema; an adapter takes them into its own.
strategies.options = {
  max_tp = { type = "integer", default = 8, min = 1, doc = "largest tensor-parallel degree" },
  max_cp = { type = "integer", default = 8, min = 1, doc = "largest context-parallel degree" },
  max_ep = { type = "integer", default = 64, min = 1, doc = "largest expert-parallel degree" },
  any_cp = { type = "boolean", default = false, doc = "split sequences also where more replicas could split the samples" },
  folded_experts = { type = "boolean", default = false,
    doc = "give experts degrees of their own: ep over all the stage's GPUs, etp up to tp" },
  zero = { type = "list", item = { type = "integer", min = 0, max = 3 }, min = 1, default = { 0, 1, 2, 3 },
    doc = "ZeRO levels to try (3 = FSDP)" },
  fsep = { type = "boolean", default = true, doc = "try fully sharded experts (with ZeRO 3)" },
  selective = { type = "boolean", default = true, doc = "try recompute of the attention core alone" },
  offload = { type = "list", item = { type = "enum", values = { "none", "optimizer", "activations", "both" } }, min = 1,
    default = { "none" }, doc = "what may be kept in the host's memory" },
}

--- Heads, MLP widths and the sequence share that tp cuts; the vocabulary is padded. MLA has no key-value heads to share.
local function tp_divides(tp, model, has, sequence)
  local kv <const> = model.kv_heads or model.heads
  return model.heads % tp == 0 and (model.mla or kv % tp == 0 or tp % kv == 0)
    and (not has.dense or model.ffn % tp == 0)
    and (not has.moe or (model.shared_expert_ffn or 0) % tp == 0)
    and sequence % tp == 0
end

--- Ring attention gives each rank a chunk from the front and one from the back, so that causal work is even.
local function cp_divides(cp, seq_len) return cp == 1 or seq_len % (2 * cp) == 0 end

--- Could a factor of cp split samples instead? Then tokens per GPU and sharding group are the same, without the exchange
--- of keys and values, and cp is no better.
local function dp_could(dp, cp, samples)
  for factor = 2, cp do
    if cp % factor == 0 and samples % (dp * factor) == 0 then return true end
  end
  return false
end

local function layer_kinds(model)
  local has <const> = {}
  for _, mlp in ipairs(model.layer_mlp or {}) do has[mlp] = true end
  if not has.moe then has.dense = true end
  return has
end

--- The kinds of recompute to choose from before any count of layers recomputed in full.
local function kinds_of(options, mode)
  local plain <const> = mode and mode.least_recomputed == target.ALL and "full" or "none"
  if not options.selective or mode and mode.selective == false then return { plain } end
  if mode and mode.selective then return { "selective" } end
  return { plain, "selective" }
end

--- Appends the variants of one (dp, tp, cp, ep, etp) to found; FSEP, which spreads experts by itself, if asked.
local function add_variants(found, degrees, options, ctx, fsep_too)
  for _, zero in ipairs(degrees.dp * degrees.cp > 1 and options.zero or { 0 }) do -- alone there is nothing to share
    for fsep = 0, fsep_too and zero == 3 and 1 or 0 do
      for _, kind in ipairs(kinds_of(options, ctx.target)) do
        for _, offload in ipairs(options.offload) do
          local strategy <const> = {
            dp = degrees.dp, tp = degrees.tp, cp = degrees.cp, ep = degrees.ep, etp = degrees.etp, zero = zero,
            fsep = fsep == 1, sp = degrees.tp > 1, recompute = kind, offload = offload,
          }
          if not ctx.target or target.allows(ctx.target, strategy, degrees.moe, ctx.model) then found[#found + 1] = strategy end
        end
      end
    end
  end
end

--- Spreads the experts in each way that divides.
local function add_experts(found, degrees, options, ctx)
  local model <const> = ctx.model
  local shards <const> = degrees.dp * degrees.cp
  for _, etp in ipairs(options.folded_experts and divisors(degrees.tp, degrees.tp) or { 1 }) do
    local most <const> = options.folded_experts and shards * degrees.tp // etp or shards
    for _, ep in ipairs(model.expert_ffn % etp == 0 and divisors(most, options.max_ep) or {}) do
      if model.experts % ep == 0 then
        degrees.ep, degrees.etp = ep, etp
        add_variants(found, degrees, options, ctx, options.fsep and ep * etp == 1)
      end
    end
  end
end

--- All strategies of `gpus` GPUs, in a fixed order (tp, cp, ep, etp, ZeRO, … ascending).
---@param gpus integer GPUs of the stage, inside one node or whole nodes
---@param moe boolean has the stage a layer with experts (else ep is 1: there is nothing to spread)
---@param island table tangram.Island
---@param ctx table model, training, samples, target
---@param options table checked against strategies.options
---@return table[] strategies
function strategies.list(gpus, moe, island, ctx, options)
  local model <const>, seq_len <const> = ctx.model, ctx.training.seq_len
  local has <const>, found <const> = layer_kinds(model), {}
  if ctx.target and ctx.target.gpus and ctx.target.gpus ~= gpus then return found end
  -- tp stays inside a node: there its all-reduces of every layer run 4–10 times faster than between nodes
  local in_node <const> = math.min(gpus, island.gpus_per_node)
  for _, tp in ipairs(divisors(in_node, options.max_tp)) do
    for _, cp in ipairs(gpus % tp == 0 and divisors(gpus // tp, options.max_cp) or {}) do
      local dp <const> = gpus // (tp * cp)
      if ctx.samples % dp == 0 and cp_divides(cp, seq_len) and tp_divides(tp, model, has, seq_len // cp)
          and (cp == 1 or options.any_cp or not dp_could(dp, cp, ctx.samples)) then
        local degrees <const> = { dp = dp, tp = tp, cp = cp, moe = moe }
        if moe then
          add_experts(found, degrees, options, ctx)
        else
          degrees.ep, degrees.etp = 1, 1
          add_variants(found, degrees, options, ctx)
        end
      end
    end
  end
  return found
end

--- Stages of d GPUs side by side in an island's order: does each lie in one node or in whole nodes?
---@param gpus integer GPUs of each stage
---@param stages integer
---@param gpus_per_node integer
---@return boolean
function strategies.lies_well(gpus, stages, gpus_per_node)
  if gpus >= gpus_per_node then return gpus % gpus_per_node == 0 end
  return gpus_per_node % gpus == 0 or gpus * stages <= gpus_per_node
end

--- No runtime recomputes some layers in full and the attention core of the others: a count goes with "none" alone.
---@param strategy table one of `list`
---@param ctx table
---@return boolean
function strategies.may_recompute(strategy, ctx)
  return strategy.recompute == "none" and not (ctx.target and ctx.target.most_recomputed == 0)
end

local function has_moe(atoms, first, last)
  for i = first, last do
    if atoms[i].mlp == "moe" then return true end
  end
  return false
end
strategies.has_moe = has_moe

--- "dp 2, tp 4, ZeRO 1": what differs from the plain case, for messages.
---@param strategy table
---@return string
function strategies.describe(strategy)
  local words <const> = { "dp " .. strategy.dp, "tp " .. strategy.tp }
  for _, name in ipairs { "cp", "ep", "etp" } do
    if (strategy[name] or 1) > 1 then words[#words + 1] = name .. " " .. strategy[name] end
  end
  if (strategy.zero or 0) > 0 then words[#words + 1] = "ZeRO " .. strategy.zero end
  if strategy.fsep then words[#words + 1] = "FSEP" end
  if strategy.recompute == "selective" then words[#words + 1] = "selective recompute" end
  if (strategy.offload or "none") ~= "none" then words[#words + 1] = "offload of " .. strategy.offload end
  return table.concat(words, ", ")
end

return strategies
