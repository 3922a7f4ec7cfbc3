--- What each stage of a plan must be for a runtime to run it (--target). Rules that compare stages are in branch.lua.
---
--- A mode is what adapters see as ctx.target, plain data, each field optional but `name`: `gpus`, `tp`, `dp`, `cp`, `ep`, `etp`,
--- `sp` of each stage; `spread_experts` (ep above 1); `zero`, the levels allowed where there is anything to share (dp·cp > 1);
--- `selective` (true: each stage, false: none); `least_recomputed`, `most_recomputed`, numbers of layers recomputed in full by
--- every stage, or all of its own if these are fewer; `first`, `last`: { tp =, dp = } of the pipeline's ends;
--- `kv_divides` (tp divides the KV heads); `min_layers`; `whole` (one stage for the whole model); `vendor` of the GPUs; `without`,
--- islands left out, by name.
local target <const> = {}

--- More layers than any stage has.
target.ALL = 1 << 20

--- Is the value in the list?
function target.is_in(list, value)
  for _, one in ipairs(list) do
    if one == value then return true end
  end
  return false
end

--- Layers recomputed in full of a stage's `layers`; "selective".
---@param strategy table
---@param layers integer
---@return integer|string
function target.recomputed(strategy, layers)
  local recompute <const> = strategy.recompute or "none"
  local kind <const> = type(recompute) == "table" and recompute.kind or recompute
  if kind == "none" then return 0 end
  local count <const> = type(recompute) == "table" and math.type(recompute.layers) and recompute.layers or layers
  if kind == "full" then return math.min(count, layers) end
  return count >= layers and "selective" or "selective in part"
end

--- May a stage have this strategy, whatever its layers? What recomputes full counts of them is `recompute_range`'s.
---@param mode table
---@param s table strategy, complete
---@param moe boolean has the stage experts
---@param model table
---@return boolean, string? what is wrong
function target.allows(mode, s, moe, model)
  for _, name in ipairs { "tp", "dp", "cp" } do
    if mode[name] and s[name] ~= mode[name] then return false, name end
  end
  if mode.gpus and s.dp * s.tp * s.cp ~= mode.gpus then return false, "GPUs a stage" end
  if mode.kv_divides and not model.mla and (model.kv_heads or model.heads) % s.tp ~= 0 then return false, "KV heads over tp" end
  if moe and (mode.ep and s.ep ~= mode.ep or mode.etp and s.etp ~= mode.etp or mode.spread_experts and s.ep == 1) then
    return false, "ep"
  end
  if s.dp * s.cp > 1 and not target.is_in(mode.zero, s.zero) then return false, "ZeRO" end
  if s.tp > 1 and mode.sp ~= nil and s.sp ~= mode.sp then return false, "sequence parallelism" end
  if s.fsep then return false, "FSEP" end
  if (s.offload or "none") ~= "none" then return false, "offload" end
  return true
end

--- The least and the most layers that a stage of so many may recompute in full, with `selective` off.
---@return integer least, integer most
function target.recompute_range(mode, layers)
  return math.min(mode and mode.least_recomputed or 0, layers), math.min(mode and mode.most_recomputed or layers, layers)
end

--- May the stage stand where it is?
---@param mode table
---@param stage table { gpus, strategy, layers, moe, has_embedding, has_head }
---@param model table
---@return boolean, string? what is wrong
function target.meets(mode, stage, model)
  local s <const> = stage.strategy
  local ok, what = target.allows(mode, s, stage.moe, model)
  if not ok then return false, what end
  ok, what = target.may_hold(mode, stage.layers, stage.has_embedding, stage.has_head)
  if not ok then return false, what end
  if not target.end_allows(mode, s, stage.has_embedding, stage.has_head) then return false, "tp or dp of the ends" end
  local count <const> = target.recomputed(s, stage.layers)
  if count == "selective in part" then return false, "recompute" end
  if count == "selective" then return mode.selective ~= false, "recompute" end
  local least <const>, most <const> = target.recompute_range(mode, stage.layers)
  return mode.selective ~= true and least <= count and count <= most, "recompute"
end

--- May the island have any stage in this mode: of its size in one node or in whole nodes, on GPUs of its vendor?
---@param mode table
---@param island tangram.Island
---@return boolean
function target.fits_on(mode, island)
  if mode.without and mode.without[island.name] then return false end
  if mode.vendor and island.device.vendor ~= mode.vendor then return false end
  local gpus <const> = mode.gpus
  return not gpus or gpus <= island.gpus and (gpus <= island.gpus_per_node or gpus % island.gpus_per_node == 0)
end

--- May a stage hold this run of atoms?
---@param mode table
---@param layers integer of the run
---@param has_embedding boolean
---@param has_head boolean
---@return boolean, string? what is wrong
function target.may_hold(mode, layers, has_embedding, has_head)
  if layers < mode.min_layers then return false, "layers a stage" end
  return not mode.whole or has_embedding and has_head, "stages of a part of a tied model"
end

--- May a stage with the model's first or last atom have this strategy?
function target.end_allows(mode, s, first, last)
  for _, one in ipairs { first and mode.first or {}, last and mode.last or {} } do
    if one.tp and s.tp ~= one.tp or one.dp and s.dp ~= one.dp then return false end
  end
  return true
end

return target
