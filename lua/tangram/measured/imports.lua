--- Measured runs as other projects publish them, in JSON: Alpa's, Aceso's, Galvatron's (LAER-MoE) and Sailor's, as rows
--- (measured.rows). What can't be told from a record stands in the row's `wrong`: it is named, not predicted.
local core <const> = require "tangram.core"
local files <const> = require "tangram.files"

local imports <const> = {}

--- A value, or nil for JSON's null.
local function known(value)
  if value == core.null then return nil end
  return value
end

local function mean(list)
  local sum = 0
  for _, x in ipairs(list) do sum = sum + x end
  return sum / #list
end

--- Layers of each stage from Alpa's groups of layers; nil where a group is not whole layers.
local function layer_split(plan, layers)
  local parts <const> = {}
  for i, ids in ipairs(plan.stage_layer_ids) do
    local count <const> = #ids * layers / plan.auto_layers
    if count % 1 ~= 0 then return nil end
    parts[i] = ("%d"):format(count)
  end
  return table.concat(parts, "|")
end

--- Degrees of a plan of Alpa's; raises what keeps it from being one strategy for all stages.
local function alpa_plan(row, entry)
  local plan <const> = known(entry.plan)
  local mesh = known(entry.logical_mesh_dp_op) or plan and known(plan.logical_mesh_dp_op)
  row.pp = 1
  if plan and plan.logical_meshes_dp_op then
    mesh = plan.logical_meshes_dp_op[1]
    for _, other in ipairs(plan.logical_meshes_dp_op) do
      if other[1] ~= mesh[1] or other[2] ~= mesh[2] then error("plan: stages on meshes of several shapes, expected one shape", 0) end
    end
    row.pp = #plan.logical_meshes_dp_op
    row.layer_split = row.pp > 1 and layer_split(plan, row.layers) or nil
  end
  if not mesh then error("plan: the mesh is not recorded", 0) end
  local microbatches <const> = known(entry.num_micro_batches) or plan and known(plan.num_micro_batches)
  if not microbatches then error("plan: the number of microbatches is not recorded", 0) end
  row.dp, row.tp = mesh[1], mesh[2]
  row.mbs = row.gbs // microbatches // row.dp
end

--- Alpa: entries with instance, method, model, global_batch; GPT on V100, XLA's compiler, full recomputation.
local function alpa(entries)
  local list <const> = {}
  for i, entry in ipairs(entries) do
    local m <const> = entry.model or {}
    local row <const> = {
      id = "alpa/" .. entry.id, source_key = "alpa", model = "GPT " .. (entry.model_name or ""), gpu = "V100-SXM2-16GB",
      n_gpus = entry.gpus, gpus_per_node = 8, interconnect = "NVLink, 25Gb/s Ethernet between nodes", layers = m.layers,
      hidden = m.hidden, heads = m.heads, vocab = m.vocab, seq = m.seq_len, gbs = entry.global_batch, precision = "fp16",
      recompute = "full", stack = "alpa", iter_time_s = entry.latencies_s and mean(entry.latencies_s) or entry.iter_time_s_from_tflops,
    }
    local ok <const>, why <const> = pcall(function()
      if entry.status then error("nothing measured: " .. entry.status, 0) end
      if not entry.model then error("model: its shape is not recorded", 0) end
      if m.family ~= "gpt3" then error("model: GShard's dispatch by dense products is not modelled", 0) end
      alpa_plan(row, entry)
      row.zero = entry.method:match "zero_(%d)"
    end)
    row.wrong = not ok and why or nil
    list[i] = row
  end
  return list
end

--- LAER-MoE (Galvatron): FSEP and static FSDP + EP on 32 A100; FlexMoE's moves of experts and Megatron's plan have no strategy here.
local function galvatron(entries)
  local list <const> = {}
  for i, entry in ipairs(entries) do
    local m <const>, plan <const> = entry.model, entry.plan
    local static <const> = entry.method == "FSDP"
    list[i] = {
      id = "galvatron/" .. entry.id, source_key = "galvatron_laer", model = "mixtral " .. entry.model_name, kind = "moe",
      gpu = "A100-SXM4-80GB", n_gpus = entry.gpus, gpus_per_node = entry.gpus // entry.nodes, interconnect = "800Gb/s InfiniBand a node",
      layers = m.layers_run, hidden = m.hidden, ffn = m.ffn, moe_ffn = m.ffn, heads = m.heads, kv_heads = m.kv_heads, head_dim = 128,
      vocab = m.vocab, n_experts = m.experts, topk = m.top_k, seq = entry.seq_len, gbs = entry.global_batch, tp = 1, pp = 1,
      dp = entry.gpus, ep = static and 8 or 1, zero = "3", fsep = static and 0 or 1, recompute = "full", precision = "bf16", stack = "fsdp",
      mbs = entry.global_batch // (plan.num_micro_batches or 1) // entry.gpus, iter_time_s = entry.iter_time_s,
      imbalance = m.experts == 8 and 1.66 or 1.73, -- static expert parallelism's, by the mean of its logs
      wrong = entry.method == "FLEX" and "plan: FlexMoE's copies of experts, expected static or fully sharded ones"
        or entry.method == "megatron" and "plan: pp is not recorded" or nil,
    }
  end
  return list
end

local SAILOR_MODELS <const> = {
  ["OPT-350"] = { "OPT-350M", 24, 1024, 16, 50272 }, ["GPT-Neo-2.7"] = { "GPT-Neo-2.7B", 32, 2560, 20, 50257 }, -- as published
}
local SAILOR_GPUS <const> = { ["GH-96"] = "GH200-96GB" }

--- Replicas of a stage as `gpu` has them: "RTX-3090x8+RTX-2080x8".
local function sailor_stage(stage)
  local parts <const> = {}
  for i, replica in ipairs(stage.replicas) do
    parts[i] = ("%sx%d"):format(SAILOR_GPUS[replica.gpu] or replica.gpu, replica.tp)
  end
  return table.concat(parts, "+")
end

--- Sailor: 36 runs in FP32, those of one site numbered in order.
local function sailor(entries)
  local list <const>, numbers <const> = {}, {}
  for i, entry in ipairs(entries) do
    local model <const> = SAILOR_MODELS[entry.model] or { entry.model }
    local site <const> = entry.source:find "^mit" and "sailor_mit" or "sailor_gh200"
    numbers[site] = (numbers[site] or 0) + 1
    local stages <const> = {}
    for s, stage in ipairs(entry.plan.stages) do stages[s] = sailor_stage(stage) end
    list[i] = {
      id = ("%s-%03d"):format(site, numbers[site]), source_key = site, model = model[1], layers = model[2], hidden = model[3],
      heads = model[4], vocab = model[5], seq = 2048, gpu = table.concat(stages, " / "), n_gpus = entry.gpus,
      gpus_per_node = entry.plan.stages[1].replicas[1].gpus_per_node,
      interconnect = site == "sailor_gh200" and "Slingshot-11" or nil, tp = entry.tp[1], pp = entry.pp, dp = entry.dp[1], mbs = entry.mbs,
      gbs = entry.gbs, zero = "0", layer_split = table.concat(entry.layers, "|"), seq_par = 0, precision = "fp32",
      schedule = "1F1B(DeepSpeed)", iter_time_s = entry.real_iteration_s, mem_gib = entry.real_max_mem_bytes / 2 ^ 30,
    }
  end
  return list
end

local ACESO_MODELS <const> = { ["350M"] = { 24, 1024, 16 }, ["1_3B"] = { 24, 2048, 32 }, ["2_6B"] = { 32, 2560, 32 },
  ["6_7B"] = { 32, 4096, 32 }, ["13B"] = { 40, 5120, 40 } }

--- Aceso: GPT on V100-32. But for the smallest, its plans are not recorded: the best one found here stands for them.
local function aceso(file)
  local settings <const>, list <const> = file.settings_large.gpt, {}
  for _, size in ipairs { "350M", "1_3B", "2_6B", "6_7B", "13B" } do
    local shape <const>, times <const> = ACESO_MODELS[size], file.large_iteration_s.gpt[size]
    local single <const> = size == "350M"
    list[#list + 1] = {
      id = "aceso/gpt-" .. size, source_key = "aceso", model = "GPT " .. size, gpu = "V100-SXM2-32GB", n_gpus = settings.gpus[size],
      gpus_per_node = 8, interconnect = "InfiniBand EDR 100Gb/s", layers = shape[1], hidden = shape[2], heads = shape[3], vocab = 51200,
      seq = settings.seq, gbs = settings.global_batch, precision = "fp16", iter_time_s = times.measured, tp = single and 1 or nil,
      pp = single and 1 or nil, mbs = single and 8 or nil, recompute = single and "full" or nil, search = single and 0 or 1,
    }
  end
  for _, name in ipairs { "500M", "2B", "4B", "6_8B", "13B" } do
    list[#list + 1] = { id = "aceso/resnet-" .. name, source_key = "aceso", model = "ResNet " .. name, gpu = "V100-SXM2-32GB",
      wrong = "model: a ResNet, expected a decoder" }
  end
  return list
end

--- Rows of a JSON text.
---@param text string
---@param where string the file, for messages
---@return table[] rows of measured.rows
function imports.rows(text, where)
  local file <const> = files.decode(text, where)
  local first <const> = type(file) == "table" and (file.entries or file)[1] or nil
  if type(file) == "table" and type(file.large_iteration_s) == "table" then return aceso(file) end
  if type(first) == "table" and first.real_iteration_s then return sailor(file) end
  if type(first) == "table" and first.aux_loss then return galvatron(file.entries) end
  if type(first) == "table" and first.instance then return alpa(file.entries) end
  error(where .. ": expected CSV, or measured runs of Alpa, Aceso, Galvatron (LAER-MoE) or Sailor in JSON", 0)
end

return imports
