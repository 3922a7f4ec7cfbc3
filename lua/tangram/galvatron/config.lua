--- Plans of Galvatron's own search as the file that its runtime reads (galvatron_config_MODEL_…json).
local core <const> = require "tangram.core"

local config <const> = {}

local order <const> = {
  "pp_deg", "tp_sizes_enc", "tp_consecutive_flags", "dp_types_enc", "use_sp", "checkpoint", "global_bsz", "chunks", "pp_division",
  "pipeline_type", "default_dp_type", "vtp", "vsp", "embed_sdp",
}

--- value(strategy) of every layer, "1,1,0".
local function of_layers(plan, value)
  local words <const> = {}
  for _, stage in ipairs(plan.stages) do
    for _, run in ipairs(stage.runs) do
      for _ = 1, run.layers do words[#words + 1] = tostring(value(run.strategy)) end
    end
  end
  return table.concat(words, ",")
end

local function flag(condition) return condition and 1 or 0 end

--- The fields of the file. A layer's degree is of tensor parallelism, or of Ulysses where use_sp is 1.
---@param plan tangram.GalvatronPlan
---@param spec table as of search.find
---@return table
function config.of(plan, spec)
  local ends <const>, division <const> = plan.ends, {}
  for i, stage in ipairs(plan.stages) do division[i] = stage.layers end
  return {
    pp_deg = #plan.stages, tp_sizes_enc = of_layers(plan, function(s) return s.tp * s.sp end),
    tp_consecutive_flags = of_layers(plan, function() return 1 end),
    dp_types_enc = of_layers(plan, function(s) return flag(s.sharded) end),
    use_sp = of_layers(plan, function(s) return flag(s.sp > 1) end),
    checkpoint = of_layers(plan, function(s) return flag(s.recompute) end), global_bsz = spec.global_batch,
    chunks = spec.microbatches, pp_division = table.concat(division, ","), pipeline_type = "pipedream_flush",
    default_dp_type = spec.zero == 0 and "ddp" or "zero2", vtp = ends.tp * ends.sp, vsp = flag(ends.sp > 1),
    embed_sdp = flag(ends.sharded),
  }
end

--- The file's text.
function config.encode(plan, spec) return core.json_encode(config.of(plan, spec), order) end

return config
