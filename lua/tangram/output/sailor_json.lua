--- Sailor (eth-easl/sailor): its planner's answer in its own form, for comparison with its simulator, and the ranks by stage
--- and replica that its fork of Megatron-DeepSpeed starts from.
local checks <const> = require "tangram.output.checks"
local core <const> = require "tangram.core"

local sailor <const> = {
  name = "sailor-json", summary = "Sailor's plan and rank lists, to compare plans in its simulator", versions = { "2025" },
}

sailor.options = {
  zone = { type = "string", default = "us-central1-a", doc = "the zone that its network tables name" },
  gpus = { type = "map", item = { type = "string" }, default = {}, doc = 'names by GPU, e.g. gpus={"a100-pcie-80":"A100-80"}' },
  norm_apart = { type = "boolean", doc = "its profile counts the last norm as a layer; default: as for LLaMA models" },
}

sailor.rules = {
  one_dp = true, cp_one = true, ep_one = true, min_layers = 1, whole_layers = true, one_vendor = true, no_fsep = true, no_offload = true,
}

--- Sailor's names: those of its own profiles, else the model of the part and its memory, "V100-32".
local NAMES <const> = { rtx3090 = "RTX-3090", ["titan-rtx"] = "Titan-RTX", rtx2080 = "RTX-2080", rtx2080ti = "RTX-2080" }

local function gpu_name(device, options)
  local name <const> = device.name
  if options.gpus[name] or NAMES[name] then return options.gpus[name] or NAMES[name] end
  local part <const> = name:match "^%w+"
  return ("%s-%d"):format(part == "gh200" and "GH" or part:upper(), math.floor(device.memory_bytes / 2 ^ 30 + 0.5))
end

local function G3(launch)
  for _, stage in ipairs(launch.stages) do
    if stage.dp ~= launch.stages[1].dp then
      return checks.fatal("G3", "stage 1 has %d replicas, stage %d %d; sailor-json needs as many in each; plan again with --target"
        .. " sailor-json, which keeps to this", launch.stages[1].dp, stage.index, stage.dp)
    end
  end
end

--- Neighbours' tensor parallel groups exchange whole shares.
local function H4(launch)
  for s = 2, #launch.stages do
    local a <const>, b <const> = launch.stages[s - 1], launch.stages[s]
    if a.tp % b.tp ~= 0 and b.tp % a.tp ~= 0 then
      return checks.warning("H4", "stage %d has tp %d, stage %d tp %d: Sailor's runtime needs one to divide the other", a.index, a.tp,
        b.index, b.tp)
    end
  end
end

--- What the form has no place for.
local function unsaid(launch)
  for _, stage in ipairs(launch.stages) do
    if #stage.devices > 1 then
      return checks.warning("W1", "stage %d is on %s and %s; all of it is written as the first", stage.index, stage.devices[1].name,
        stage.devices[2].name)
    end
    if stage.recompute.kind ~= "none" or stage.zero > 0 and stage.dp > 1 then
      return checks.warning("W1", "stage %d is planned with %s, which Sailor's form does not say and its simulator does not price",
        stage.index, stage.recompute.kind ~= "none" and "recompute" or ("ZeRO %d"):format(stage.zero))
    end
  end
end

function sailor.check(launch)
  return checks.run(launch, "sailor-json", {
    checks.L1, checks.L2, G3, checks.C1, checks.E5, checks.E4, checks.O1, checks.H1, checks.B1, checks.V1, H4, unsaid, checks.B3,
    checks.I1,
  })
end

--- Ids of what a stage holds: the embedding is 0, the layers follow, then the last norm if it is counted apart, and the head.
local function ids(stage, layers, norm_apart)
  local list <const> = core.array {}
  if stage.has_embedding then list[1] = 0 end
  for i = stage.first_layer + 1, stage.first_layer + stage.layers do list[#list + 1] = i end
  if stage.has_head then
    for i = layers + 1, layers + (norm_apart and 2 or 1) do list[#list + 1] = i end
  end
  return list
end

--- What its replicas are on, and their tp.
local function replicas(stage, options)
  local device <const> = stage.devices[1]
  local list <const> = core.array {}
  for r = 1, stage.dp do
    list[r] = core.array { core.array { core.array { gpu_name(device, options), stage.tp, options.zone } }, stage.tp }
  end
  return list
end

--- Ranks by replica: tp runs fastest.
local function ranks(stage)
  local list <const> = core.array {}
  for r = 1, stage.dp do
    list[r] = core.array {}
    for t = 1, stage.tp do list[r][t] = stage.ranks.first + (r - 1) * stage.tp + t - 1 end
  end
  return list
end

function sailor.files(launch, options)
  local norm_apart = options.norm_apart
  if norm_apart == nil then norm_apart = launch.model.family == "llama" end
  local layers <const>, tmp <const>, dp <const>, groups <const> = core.array {}, core.array {}, core.array {}, core.array {}
  for s, stage in ipairs(launch.stages) do
    layers[s], tmp[s] = ids(stage, launch.model.layers, norm_apart), replicas(stage, options)
    dp[s], groups[s] = stage.dp, ranks(stage)
  end
  local plan <const> = {
    zone = options.zone, mbs = launch.stages[1].microbatch, gbs = launch.training.global_batch, estimated_s = launch.time_s,
    pipeline_list = core.array { { num_stages = #launch.stages, layers_per_stage = layers, tmp_per_stage = tmp, dp = dp } },
  }
  return {
    { name = "plan_config.json", text = core.json_encode(plan, { "zone", "pipeline_list", "num_stages", "layers_per_stage",
      "tmp_per_stage", "dp", "mbs", "gbs" }) .. "\n" },
    { name = "dist_config.json", text = core.json_encode(groups) .. "\n" },
  }
end

function sailor.start()
  return "Nothing here starts a training. `plan_config.json` is what Sailor's planner answers and its simulator takes;\n"
    .. "`dist_config.json` is what its fork of Megatron-DeepSpeed takes as `--distributed-config-file`: ranks by stage and replica.\n"
    .. "`estimated_s` is tangram's own time of an iteration.\n"
end

return sailor
