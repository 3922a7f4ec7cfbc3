--- Can a runtime run a plan's stages? In plain Lua, from what each runtime's own checks say, sharing no code with the search.
local oracle <const> = {}

local function all_equal(stages, value)
  local first
  for _, stage in ipairs(stages) do
    local one <const> = value(stage)
    if one ~= nil and first ~= nil and one ~= first then return false end
    if first == nil then first = one end
  end
  return true
end

local function of_strategy(name)
  return function(stage) return stage.strategy[name] end
end

local function gpus_of(stage) return stage.strategy.dp * stage.strategy.tp * stage.strategy.cp end

--- What shares states: alone there is nothing to share, so any level is the same.
local function zero_of(stage)
  if stage.strategy.dp * stage.strategy.cp > 1 then return stage.strategy.zero end
end

--- Layers recomputed whole, of the stage's own.
local function full_of(stage)
  local recompute <const> = stage.strategy.recompute
  if recompute.kind ~= "full" then return 0 end
  return math.min(recompute.layers or stage.layers, stage.layers)
end

local function count_kind(stages, kind)
  local count = 0
  for _, stage in ipairs(stages) do count = count + (stage.strategy.recompute.kind == kind and 1 or 0) end
  return count
end

--- "block" N: the first N layers of each stage.
local function one_block(stages)
  for n = 0, 1000 do
    local all = true
    for _, stage in ipairs(stages) do all = all and full_of(stage) == math.min(n, stage.layers) end
    if all then return true end
  end
  return false
end

local function all_or_none(stages)
  local none, all = true, true
  for _, stage in ipairs(stages) do none, all = none and full_of(stage) == 0, all and full_of(stage) == stage.layers end
  return none or all
end

local function moe_of(stage, model)
  for layer = math.max(stage.first, 1), math.min(stage.last - 1, model.layers) do
    if model.layer_mlp and model.layer_mlp[layer] == "moe" then return true end
  end
  return false
end

--- Rules that a runtime's check sees in sizes and degrees alone.
local checks <const> = {
  grid = function(stages, model) -- A1.1: one world, one tp, cp, ep
    for _, name in ipairs { "tp", "dp", "cp" } do
      if not all_equal(stages, of_strategy(name)) then return name .. " differs" end
    end
    for _, name in ipairs { "ep", "etp" } do
      if not all_equal(stages, function(stage) return moe_of(stage, model) and stage.strategy[name] or nil end) then
        return name .. " differs"
      end
    end
    if not all_equal(stages, function(stage)
      if stage.strategy.tp > 1 then return stage.strategy.sp end
    end) then return "sequence parallelism differs" end
  end,
  replicas = function(stages) -- A8.2
    if not all_equal(stages, of_strategy "dp") then return "dp differs" end
  end,
  size = function(stages)
    if not all_equal(stages, gpus_of) then return "stages of unlike size" end
  end,
  one_zero = function(stages)
    if not all_equal(stages, zero_of) then return "ZeRO differs" end
  end,
  one_recompute = function(stages)
    local selective <const> = count_kind(stages, "selective")
    if selective > 0 and selective < #stages or selective == 0 and not one_block(stages) then return "recompute differs" end
  end,
  whole_recompute = function(stages)
    if not all_or_none(stages) then return "some layers recomputed" end
  end,
  never_selective = function(stages)
    if count_kind(stages, "selective") > 0 then return "selective recompute" end
  end,
  no_context_parallel = function(stages)
    for _, stage in ipairs(stages) do
      if stage.strategy.cp ~= 1 then return "cp" end
    end
  end,
  kv_heads = function(stages, model)
    for _, stage in ipairs(stages) do
      if not model.mla and (model.kv_heads or model.heads) % stage.strategy.tp ~= 0 then return "KV heads" end
    end
  end,
  dense = function(stages, model)
    for _, stage in ipairs(stages) do
      if moe_of(stage, model) and stage.strategy.ep ~= 1 then return "ep" end
    end
  end,
  flagscale = function(stages, model, samples) -- A2.4: F5, F7, F11, F16; A2.7
    local spread, still, front, rear = 0, 0, stages[1].strategy, stages[#stages].strategy
    for _, stage in ipairs(stages) do
      local s <const> = stage.strategy
      if samples % s.dp ~= 0 then return "F5" end
      if s.tp > 1 and not s.sp then return "F16" end
      if moe_of(stage, model) and s.ep > 1 then spread = spread + 1 elseif moe_of(stage, model) then still = still + 1 end
    end
    if spread > 0 and still > 0 then return "F7" end
    if model.tied and #stages > 1 and front.tp ~= rear.tp then return "F11" end
    local sharing <const> = math.max(zero_of(stages[1]) or 0, zero_of(stages[#stages]) or 0) > 0
    if model.tied and sharing and front.dp % rear.dp ~= 0 and rear.dp % front.dp ~= 0 then return "F11" end
    local selective <const> = count_kind(stages, "selective")
    if selective > 0 and selective < #stages then return "selective recompute in some stages" end
  end,
  tied = function(stages, model)
    if model.tied and #stages > 1 then return "tied embeddings over more than one stage" end
  end,
  one_default = function(stages) -- A6.1: default_dp_type is one; zero3 is the layers' own
    local seen <const> = {}
    for _, stage in ipairs(stages) do seen[zero_of(stage) or 3] = true end
    if seen[0] and seen[2] then return "default_dp_type differs" end
  end,
}

local runtimes <const> = {
  megatron = { least_layers = 0, levels = { [0] = true, true }, "size", "grid", "one_zero", "one_recompute" },
  flagscale = { levels = { [0] = true, true }, "no_context_parallel", "one_zero", "flagscale" },
  galvatron = { levels = { [0] = true, [2] = true, [3] = true }, "size", "kv_heads", "never_selective", "one_default" },
  primus = { levels = { [0] = true, true }, "size", "grid", "one_zero", "one_recompute" },
  ["sailor-json"] = { levels = { [0] = true, true, true, true }, "replicas", "no_context_parallel", "dense" },
  deepspeed = { levels = { [0] = true, true }, "size", "grid", "no_context_parallel", "dense", "kv_heads", "one_zero", "one_recompute",
    "whole_recompute", "never_selective" },
  torchtitan = { levels = { [0] = true, true }, "size", "grid", "kv_heads", "one_zero", "one_recompute",
    "whole_recompute", "never_selective", "tied" },
}

--- True, or nil and what the runtime can't run.
---@param name string
---@param stages table[] of a tangram.plan/1
---@param model table
---@param samples integer of a microbatch
function oracle.check(name, stages, model, samples)
  local runtime <const> = runtimes[name]
  if not runtime then return nil, "no rules of " .. name end
  for i, stage in ipairs(stages) do
    local s <const> = stage.strategy
    if stage.layers < (runtime.least_layers or 1) then return nil, ("stage %d has no layer"):format(i) end
    if s.fsep or (s.offload or "none") ~= "none" then return nil, ("stage %d: FSEP or offload"):format(i) end
    if zero_of(stage) and not runtime.levels[s.zero] then return nil, ("stage %d: ZeRO %d"):format(i, s.zero) end
  end
  for _, check in ipairs(runtime) do
    local wrong <const> = checks[check](stages, model, samples)
    if wrong then return nil, wrong end
  end
  return true
end

return oracle
