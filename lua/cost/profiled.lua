--- Measured times where a profile has them; between its entries and beyond them the analytic model, scaled to what was measured
--- nearest. Memory, and traffic that profiles don't hold (data, expert, context parallelism), are the analytic model's.
local analytic <const> = require "tangram.formulas.analytic"
local profile <const> = require "tangram.profile"

local parts <const> = { "compute_s", "attention_s", "memory_bound_s", "launch_s", "tp_s", "selective_s" }

--- Entries of the island's GPU type, of one kind; nil without any.
local function entries_of(island, kind, ctx)
  local memo <const> = ctx.memo
  memo.entries = memo.entries or {}
  if memo.entries[kind] == nil then
    local found <const> = {}
    for _, one in ipairs(ctx.options.profiles) do
      if one.gpu == island.gpu then
        if one.hidden and one.hidden ~= ctx.model.hidden then
          error(("profile of '%s': measured at hidden size %d, the model has %d"):format(one.gpu, one.hidden, ctx.model.hidden), 0)
        end
        for _, entry in ipairs(one.entries) do
          if entry.kind == kind then found[#found + 1] = entry end
        end
      end
    end
    memo.entries[kind] = found[1] and found or false
  end
  return memo.entries[kind] or nil
end

--- The plugin's context for formulas: theirs have no `profiles`, and a memo of their own for each point.
local function context_at(ctx, point)
  local memo <const> = ctx.memo
  memo.contexts = memo.contexts or {}
  local key <const> = point and ("%d,%d,%d"):format(point.tp, point.mbs, point.seq) or "asked"
  local context = memo.contexts[key]
  if not context then
    context = setmetatable({ memo = {} }, { __index = ctx })
    if point then
      context.samples = point.mbs
      context.training = setmetatable({ seq_len = point.seq, global_batch = point.mbs }, { __index = ctx.training })
    end
    memo.contexts[key] = context
  end
  return context
end

--- Forward and backward seconds of the formulas at an entry's point: of one atom, or of the model.
local function formula_s(atom, entry, island, strategy, ctx)
  local plain <const> = {
    dp = 1, tp = entry.tp, cp = 1, ep = 1, etp = 1, zero = 0, fsep = false, sp = strategy.sp and entry.tp > 1, recompute = "none",
    offload = "none",
  }
  local there <const> = context_at(ctx, entry)
  if entry.kind ~= "model" then
    local terms <const> = analytic.atom(atom, island, plain, there)
    local share <const> = atom.kind == "layer" and 1 or (atom.kind == "attention" or atom.kind == "mlp") and 2 or 1
    return terms.forward_s * share, terms.backward_s * share
  end
  local forward_s, backward_s, priced <const> = 0, 0, {}
  for _, one in ipairs(ctx.atoms) do
    priced[one.hash] = priced[one.hash] or analytic.atom(one, island, plain, there)
    forward_s, backward_s = forward_s + priced[one.hash].forward_s, backward_s + priced[one.hash].backward_s
  end
  return forward_s, backward_s
end

--- What measured times are of the formulas', forward and backward, at the strategy's point; nil without a profile.
local function scales(atom, island, strategy, ctx)
  local kind <const> = (atom.kind == "attention" or atom.kind == "mlp") and "layer" or atom.kind
  local entries <const> = entries_of(island, kind, ctx) or entries_of(island, "model", ctx)
  if not entries then return nil end
  local found <const>, gap <const> = profile.lookup(entries, {
    tp = strategy.tp, mbs = ctx.samples / strategy.dp, seq = ctx.training.seq_len,
  })
  local forward, backward = 0, 0
  for _, one in ipairs(found) do
    local forward_s <const>, backward_s <const> = formula_s(atom, one.entry, island, strategy, ctx)
    forward = forward + one.weight * math.log(math.max(1e-12, one.entry.forward_s) / forward_s)
    backward = backward + one.weight * math.log(math.max(1e-12, one.entry.backward_s) / backward_s)
  end
  return math.exp(forward), math.exp(backward), gap, kind
end

--- Remembers what was asked of the tables, for the plan's list.
local function note(ctx, kind, strategy, gap, forward)
  local memo <const> = ctx.memo
  memo.noted, memo.asked = memo.noted or {}, memo.asked or {}
  local name <const> = ("profile: %s, tp %d, mbs %g, seq %d"):format(kind, strategy.tp, ctx.samples / strategy.dp, ctx.training.seq_len)
  if memo.noted[name] then return end
  memo.noted[name] = true
  memo.asked[#memo.asked + 1] = {
    name = name, value = forward, unit = "", from = gap and "default" or "measured",
    source = gap and "gap: no entry for " .. gap or "measured over formula, forward",
  }
end

local function atom_terms(atom, island, strategy, ctx)
  local here <const> = context_at(ctx)
  local terms <const> = analytic.atom(atom, island, strategy, here)
  local forward <const>, backward <const>, gap <const>, kind <const> = scales(atom, island, strategy, ctx)
  if not forward then return terms end
  note(ctx, kind, strategy, gap, forward)
  local busy_s, before_s = 0, terms.forward_s + terms.backward_s
  for _, part in ipairs(parts) do busy_s = busy_s + terms[part] end
  -- what a profile does not hold stays as it is, in equal shares of both directions
  local other_s <const> = math.max(0, before_s - busy_s) / 2
  local forward_other_s <const> = math.min(other_s, terms.forward_s)
  local backward_other_s <const> = math.max(0, before_s - busy_s) - forward_other_s
  terms.forward_s = (terms.forward_s - forward_other_s) * forward + forward_other_s
  terms.backward_s = (terms.backward_s - backward_other_s) * backward + backward_other_s
  local scale <const> = busy_s > 0 and (terms.forward_s + terms.backward_s - (before_s - busy_s)) / busy_s or 1
  for _, part in ipairs(parts) do terms[part] = terms[part] * scale end
  terms.recompute_s = terms.recompute_s * forward
  return terms
end

local options <const> = { profiles = profile.list }
for name, field in pairs(analytic.options) do options[name] = field end

return {
  api = 1, kind = "cost", name = "profiled",
  description = "measured tables of layers by GPU type, interpolated; the analytic model, scaled to them, where they have no entry",
  options = options, atom = atom_terms,
  close = function(sum, run, island, strategy, ctx) return analytic.close(sum, run, island, strategy, context_at(ctx)) end,
  constants = function(island, strategy, ctx) return analytic.constants(island, strategy, context_at(ctx)) end,
  constants_used = function(island, ctx)
    local list <const> = analytic.constants_used(island, ctx)
    table.sort(ctx.memo.asked or {}, function(a, b) return a.name < b.name end)
    for _, one in ipairs(ctx.memo.asked or {}) do list[#list + 1] = one end
    return list
  end,
}
