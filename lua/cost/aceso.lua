--- Aceso's profiled cost model: times and memory of a GPT model's operators as measured on one kind of GPU (tangram.input.aceso),
--- by the rules of its evaluator. For whole layers, halves or operators. What was not profiled (context and expert parallelism,
--- ZeRO, offload, other degrees or samples) fits nowhere.
local operators <const> = require "tangram.aceso.operators"

local NOWHERE_BYTES <const> = 2.0 ^ 60

--- The operators, kept for one model.
local function model_of(ctx)
  if not ctx.memo.model then
    local kinds <const> = {}
    for i, atom in ipairs(ctx.atoms) do kinds[i] = atom.kind end
    local model <const> = operators.model(ctx.options.database, ctx.model.layers)
    local first <const>, last <const> = operators.spans(kinds, model.rows)
    if not first then error("cost model 'aceso': " .. last, 0) end
    ctx.memo.model, ctx.memo.first, ctx.memo.last = model, first, last
  end
  return ctx.memo.model, ctx.memo.first, ctx.memo.last
end

--- Which operators of the run are recomputed.
local function flags_of(run, recompute, model, first, last)
  local kind <const> = type(recompute) == "table" and "full" or recompute
  local left = type(recompute) == "table" and recompute.layers or math.huge
  local flags <const> = {}
  for i = run.first, run.last do
    local atom <const> = run[i - run.first + 1]
    local chosen <const> = kind ~= "none" and left > 0 and atom.kind ~= "embedding" and atom.kind ~= "head"
    if chosen then left = left - 1 end
    for op = first[i], last[i] do
      flags[#flags + 1] = chosen and (kind == "full" or operators.in_core(model.rows[op]))
    end
  end
  return flags
end

local function plain(s)
  return s.cp == 1 and s.ep == 1 and s.etp == 1 and s.zero == 0 and not s.fsep and s.offload == "none"
end

return {
  api = 1, kind = "cost", name = "aceso", description = "Aceso's profiled operators of a GPT model",
  options = {
    database = { type = "table", required = true, check = operators.check,
      doc = "profiles, as tangram.input.aceso's read gives them (a recipe calls it)" },
    repair = { type = "boolean", default = false,
      doc = "also the gradients' all-reduce between replicas and the optimizer's step, which Aceso leaves out" },
  },
  stage = function(run, island, strategy, ctx)
    local model <const>, first <const>, last <const> = model_of(ctx)
    local ready <const> = plain(strategy) and model.priced(ctx.samples // strategy.dp, strategy.tp)
    if not ready then
      local nothing <const> = operators.named(1, 1, 0, 0, 0, 0, 0, 0)
      local stage <const> = operators.stage(nothing, strategy, #run)
      stage.gpus, stage.static_bytes = strategy.dp * strategy.tp * strategy.cp, NOWHERE_BYTES
      stage.parts.memory.buffers_bytes = NOWHERE_BYTES
      return stage
    end
    local flags <const> = flags_of(run, strategy.recompute, model, first, last)
    local price <const> = operators.named(ready.engine:price(first[run.first], last[run.last], flags))
    return operators.stage(price, strategy, #run, ctx.options.repair
      and operators.sync_s(ctx.options.database, price.weight_bytes, strategy.dp, island.device.memory_bytes_per_s) or nil)
  end,
}
