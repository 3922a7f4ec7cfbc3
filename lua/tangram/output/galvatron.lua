--- Galvatron (PKU-DAIR/Hetu-Galvatron): tp, cp, ep, ZeRO and recompute by layer, on stages of equal size. A JSON file of
--- comma lists with one entry a layer, beside the configuration of training.
local checks <const> = require "tangram.output.checks"
local core <const> = require "tangram.core"
local torchrun <const> = require "tangram.output.torchrun"
local yaml <const> = require "tangram.output.yaml"

local galvatron <const> = {
  name = "galvatron", summary = "Galvatron: lists of tp, ZeRO and recompute by layer in JSON",
  versions = { "2026", "2025" }, -- 2026: one model from a YAML; 2025: a folder of code a family, flags, no cp and ep by layer
}

galvatron.options = {
  port = { type = "integer", min = 1, max = 65535, default = 29500, doc = "of the rendezvous, on the first node" },
}

galvatron.rules = {
  equal_gpus = true, min_layers = 1, whole_layers = true, selective_never = true, no_zero_one = true, one_low_zero = true,
  sp_with_tp = true, kv_divide = true, one_vendor = true, no_fsep = true, no_offload = true, no_fp8 = true, one_attention = true,
}

--- dp where tp and cp are least, by which the runtime divides the batch whether or not a layer has both.
local function B4(launch)
  local tp, cp = math.huge, math.huge
  for _, stage in ipairs(launch.stages) do tp, cp = math.min(tp, stage.tp), math.min(cp, stage.cp) end
  local batch <const>, step <const> = launch.training.global_batch, launch.stages[1].gpus // (tp * cp)
  local rest <const> = step > 0 and batch % step or 0
  return rest ~= 0 and checks.fatal("B4", "global batch %d is not a multiple of %d GPUs a stage / least tp %d / least cp %d = %d;"
    .. " nearest: %s%d", batch, launch.stages[1].gpus, tp, cp, step, batch > rest and ("%d or "):format(batch - rest) or "",
    batch + step - rest) or nil
end

--- Embedding and head share their degrees: those of the last stage, where the logits are.
local function T3(launch)
  local first <const>, last <const> = launch.stages[1], launch.stages[#launch.stages]
  return (first.tp ~= last.tp or first.cp ~= last.cp) and checks.warning("T3", "the embedding of stage 1 takes tp %d and cp %d of the"
    .. " head's stage %d, as galvatron has one setting for both (planned: tp %d, cp %d)", last.tp, last.cp, last.index, first.tp,
    first.cp) or nil
end

local function uses(launch, degree)
  for _, stage in ipairs(launch.stages) do
    if stage[degree] > 1 then return stage end
  end
end

--- What its model code has not.
local function M3(launch, options)
  local model <const> = launch.model
  local function no(what) return checks.fatal("M3", "galvatron's model has no %s, which %s has", what, model.name) end
  local moe = 0
  for _, kind in ipairs(model.layer_mlp) do moe = moe + (kind == "moe" and 1 or 0) end
  if model.mla then return no "latent attention" end
  if moe > 0 and moe < model.layers then return no "dense layers among those with experts" end
  if options.version ~= "2025" then return nil end
  if moe > 0 then return no "experts before version 2026" end
  local cp <const> = uses(launch, "cp")
  return cp and checks.fatal("C1", "stage %d has cp %d, which galvatron has from version 2026 on; nearest: cp 1", cp.index, cp.cp) or nil
end

--- One setting says when gradients are reduced.
local function W5(launch)
  local late, early
  for _, stage in ipairs(launch.stages) do
    if stage.dp * stage.cp > 1 then
      if stage.zero == 0 then late = stage else early = stage end
    end
  end
  return late and early and checks.warning("W5", "stage %d (ZeRO 0) reduces its gradients at every microbatch, as stage %d (ZeRO %d)"
    .. " must to hold them sharded", late.index, early.index, early.zero) or nil
end

local function sliding(launch)
  return launch.model.window > 0 and checks.warning("M2", "galvatron's attention looks at the whole sequence, not at a window of %d tokens",
    launch.model.window) or nil
end

local function D3(launch) return checks.D3(launch, "galvatron", { "bf16", "fp16", "fp32" }) end

function galvatron.check(launch, options)
  return checks.run(launch, "galvatron", {
    checks.L1, checks.L2, checks.G1, checks.H1, checks.H2, checks.H3, checks.C2, checks.E2, checks.E4, checks.O1, checks.B1, B4,
    checks.R3, checks.Z3, checks.Z2_low, checks.S3, checks.D1, { checks.D2, true }, { D3 }, checks.V1, { M3, options }, T3, checks.B3,
    checks.I1, sliding, W5,
  })
end

--- "2,2,1": value(stage, layer in the stage from 1) of every layer.
local function by_layer(launch, value)
  local words <const> = {}
  for _, stage in ipairs(launch.stages) do
    for layer = 1, stage.layers do words[#words + 1] = ("%d"):format(value(stage, layer)) end
  end
  return table.concat(words, ",")
end

local function flag(condition) return condition and 1 or 0 end
local function sharded(stage) return flag(stage.zero == 3 and stage.dp * stage.cp > 1) end

--- ZeRO of the layers that are not fully sharded.
local function default_dp_type(launch)
  for _, stage in ipairs(launch.stages) do
    if stage.dp * stage.cp > 1 and stage.zero == 2 then return "zero2" end
  end
  return "ddp"
end

local ORDER <const> = {
  "pp_deg", "tp_sizes_enc", "tp_consecutive_flags", "cp_sizes_enc", "dp_types_enc", "use_sp", "checkpoint", "ep_sizes_enc",
  "tp_of_ep_sizes_enc", "global_bsz", "chunks", "pp_division", "pipeline_type", "default_dp_type", "vtp", "vsp", "vcp", "vocab_sdp",
  "embed_sdp", "world_size",
}

--- The fields of the JSON file.
local function strategy(launch, options)
  local division <const>, last <const> = {}, launch.stages[#launch.stages]
  for s, stage in ipairs(launch.stages) do division[s] = stage.layers end
  local config <const> = {
    pp_deg = #launch.stages, tp_sizes_enc = by_layer(launch, function(stage) return stage.tp end),
    tp_consecutive_flags = by_layer(launch, function() return 1 end), dp_types_enc = by_layer(launch, sharded),
    use_sp = by_layer(launch, function() return 0 end),
    checkpoint = by_layer(launch, function(stage, layer) return flag(layer <= stage.recompute.layers) end),
    global_bsz = launch.training.global_batch, chunks = launch.microbatches, pp_division = table.concat(division, ","),
    pipeline_type = "pipedream_flush", default_dp_type = default_dp_type(launch), vtp = last.tp, vsp = 0,
    vocab_sdp = sharded(last), embed_sdp = sharded(last), -- the search writes one name, the runtime reads the other
  }
  if options.version ~= "2025" then
    config.cp_sizes_enc, config.vcp = by_layer(launch, function(stage) return stage.cp end), last.cp
    config.ep_sizes_enc = by_layer(launch, function(stage) return stage.ep end)
    config.tp_of_ep_sizes_enc = by_layer(launch, function(stage) return stage.etp end)
    config.world_size = launch.world
  end
  return config
end

local function fused(launch) return launch.training.attention ~= "unfused" and not checks.old_device(launch) end

local function model_args(launch)
  local model <const> = launch.model
  local moe <const> = model.experts > 0 and model.layer_mlp[1] == "moe"
  return {
    set_model_config_manually = 1, initialize_on_meta = 1, shape_order = "SBH", vocab_size = model.vocab, hidden_size = model.hidden,
    ffn_hidden_size = model.ffn, num_layers = model.layers, num_attention_heads = model.heads, num_query_groups = model.kv_heads,
    kv_channels = model.head_dim, position_embedding_type = model.positions > 0 and "learned_absolute" or "rope",
    normalization = model.norm_parameters == 1 and "RMSNorm" or "LayerNorm", add_bias_linear = model.bias,
    gated_linear_unit = model.gated, activation_func = model.gated and "torch.nn.functional.silu" or "torch.nn.functional.gelu",
    untie_embeddings_and_output_weights = not model.tied, add_qkv_bias = model.family:find "^qwen2" ~= nil,
    qk_layernorm = model.family:find "^qwen3" ~= nil, model_size = model.name,
    is_moe_model = moe, num_moe_experts = moe and model.experts or nil, moe_router_topk = moe and model.experts_per_token or nil,
    moe_ffn_hidden_size = moe and model.expert_ffn or nil,
    moe_shared_expert_intermediate_size = moe and model.shared_expert_ffn > 0 and model.shared_expert_ffn or nil,
  }
end

--- Are gradients summed whole until the last microbatch? Sharded as planned from ZeRO 2 on only if reduced at every one.
local function reduces_late(launch)
  for _, stage in ipairs(launch.stages) do
    if stage.dp * stage.cp > 1 and stage.zero >= 2 then return false end
  end
  return true
end

--- The configuration of train_dist.py.
local function runtime(launch)
  return yaml.encode({ runtime = {
    parallel = { galvatron_config_path = "galvatron_config.json", mixed_precision = launch.precision,
      reduce_in_fp32 = launch.training.gradient_bytes == 4, async_grad_reduce = reduces_late(launch) },
    model = model_args(launch),
    profile = { profile = 1, exit_after_profiling = 0 },
    train = { train_iters = 20, eval_iters = 1, lr = 1e-4, min_lr = 1e-5, lr_decay_style = "cosine", sequence_parallel = true,
      use_flash_attn = fused(launch), global_batch_size = launch.training.global_batch, micro_batch_size = launch.stages[1].microbatch,
      chunks = launch.microbatches, seq_length = launch.training.seq_len },
    data = { use_random_dataset = true, split = "949,50,1", tokenizer_type = "HuggingFaceTokenizer" },
  } }, { "parallel", "model", "train", "data", "profile" })
end

local SETUP_2026 <const> = [[
GALVATRON=${GALVATRON:?the folder of Hetu-Galvatron}
export PYTHONPATH="$GALVATRON${PYTHONPATH:+:$PYTHONPATH}" CUDA_DEVICE_MAX_CONNECTIONS=1
]]

local function setup_2025(launch)
  local model <const>, groups <const> = launch.model, {}
  local function add(...) groups[#groups + 1] = { ... } end
  add("--galvatron_config_path", "galvatron_config.json")
  add("--global_train_batch_size", launch.training.global_batch)
  add("--chunks", launch.microbatches)
  add("--pipeline_type", "pipedream_flush")
  add("--default_dp_type", default_dp_type(launch))
  add("--mixed_precision", launch.precision)
  add "--sequence-parallel"
  if fused(launch) then add "--use-flash-attn" end
  if launch.training.gradient_bytes == 4 then add "--reduce_in_fp32" end
  if not reduces_late(launch) then add "--no_async_grad_reduce" end
  add("--initialize_on_meta", 1)
  for _, pair in ipairs {
    { "set_model_config_manually", 1 }, { "vocab_size", model.vocab }, { "hidden_size", model.hidden },
    { "num_hidden_layers", model.layers }, { "num_attention_heads", model.heads }, { "seq_length", launch.training.seq_len },
  } do add("--" .. pair[1], pair[2]) end
  return SETUP_2026 .. ([[
MODEL=${MODEL:-%s} # the folder below galvatron/models
PLAN=(
%s
)
TRAIN=${TRAIN:---epochs 1 --lr 1e-4 --adam_weight_decay 0.01 --dropout_prob 0 --check_loss 0 --profile 1 --save_profiled_memory 0}
]]):format(model.gated and "llama_hf" or "gpt_hf", torchrun.array(groups))
end

function galvatron.files(launch, options)
  local old <const> = options.version == "2025"
  local files <const> = {
    { name = "galvatron_config.json", text = core.json_encode(strategy(launch, options), ORDER) .. "\n" },
    torchrun.node(launch, { setup = old and setup_2025(launch) or SETUP_2026, port = options.port,
      command = old and '"$GALVATRON/galvatron/models/$MODEL/train_dist.py" "${PLAN[@]}" $TRAIN'
        or '"$GALVATRON/galvatron/models/gpt/train_dist.py" train.yaml' }),
    torchrun.ssh(launch, old and { "GALVATRON", "MODEL", "TRAIN" } or { "GALVATRON" }),
  }
  if not old then table.insert(files, 2, { name = "train.yaml", text = runtime(launch) }) end
  return files
end

function galvatron.start(launch, options)
  return torchrun.start(launch, "`GALVATRON` names the folder of Hetu-Galvatron on the nodes. The strategy of every layer is in\n"
    .. "`galvatron_config.json`; a distributed checkpoint loads with the same strategy alone. "
    .. (options.version == "2025" and ("`MODEL` names the folder of the\nmodel's code, which must have MLPs of width %d and %d key-value"
      .. " heads; `TRAIN` holds the schedule."):format(launch.model.ffn, launch.model.kv_heads)
      or "Data and schedule are in\n`train.yaml`: a trial of 20 iterations on random data."))
end

galvatron.slurm = "nodes"

return galvatron
