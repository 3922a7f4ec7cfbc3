--- A model and its training as Megatron's arguments, which FlagScale takes too: ordered groups { "name", value … }, without
--- the dashes; a group of a name alone is a switch.
local checks <const> = require "tangram.output.checks"

local args <const> = {}

--- What Megatron builds otherwise than the original of a family.
local unlike <const> = {
  bloom = "positions are rotary, the original's are ALiBi", gemma = "the gate is SiLU, the original's GELU",
  gemma2 = "the gate is SiLU, the original's GELU", gemma3 = "the gate is SiLU, the original's GELU",
  gemma3_text = "the gate is SiLU, the original's GELU", falcon = "attention and MLP are in turn, the original's in parallel",
  phi = "attention and MLP are in turn, the original's in parallel", opt = "the MLP's function is GELU, the original's ReLU",
  cohere = "attention and MLP are in turn, the original's in parallel",
  cohere2 = "attention and MLP are in turn, the original's in parallel", gptj = "attention and MLP are in turn, the original's in parallel",
  mpt = "positions are rotary, the original's are ALiBi", nemotron = "the MLP's function is GELU, the original's squared ReLU",
}

--- A list of 0 and 1 as the expression that Megatron evaluates: "[0]*3+[1]*58".
---@param bits integer[]
---@return string
function args.pattern(bits)
  local words <const>, from = {}, 1
  for i = 1, #bits do
    if bits[i + 1] ~= bits[i] then
      words[#words + 1] = ("[%d]*%d"):format(bits[i], i - from + 1)
      from = i + 1
    end
  end
  return table.concat(words, "+")
end

local function bits_of(kinds, one)
  local bits <const>, ones = {}, 0
  for layer, kind in ipairs(kinds) do
    bits[layer] = kind == one and 1 or 0
    ones = ones + bits[layer]
  end
  return bits, ones
end

local function attention(model, add)
  add("num-attention-heads", model.heads)
  if model.mla then
    add "multi-latent-attention"
    if model.mla.q_lora_rank > 0 then add("q-lora-rank", model.mla.q_lora_rank) end
    add("kv-lora-rank", model.mla.kv_lora_rank)
    add("qk-head-dim", model.mla.qk_nope_head_dim)
    add("qk-pos-emb-head-dim", model.mla.qk_rope_head_dim)
    add("v-head-dim", model.mla.v_head_dim)
  else
    if model.kv_heads ~= model.heads then
      add "group-query-attention"
      add("num-query-groups", model.kv_heads)
    end
    add("kv-channels", model.head_dim)
  end
  local bits <const>, sliding <const> = bits_of(model.layer_attention, "sliding")
  if sliding == 0 or model.window == 0 then return end
  add("window-size", ("%d,0"):format(model.window - 1)) -- tokens to the left, beside the token itself
  if sliding < model.layers then add("window-attn-skip-freq", args.pattern(bits)) end
end

local function experts(launch, fused, add)
  local model <const> = launch.model
  local bits <const>, moe <const> = bits_of(model.layer_mlp, "moe")
  if moe == 0 then return end
  add("num-experts", model.experts)
  add("moe-router-topk", model.experts_per_token)
  add("moe-ffn-hidden-size", model.expert_ffn)
  if model.shared_expert_ffn > 0 then add("moe-shared-expert-intermediate-size", model.shared_expert_ffn) end
  if moe < model.layers then add("moe-layer-freq", args.pattern(bits)) end
  add("moe-token-dispatcher-type", "alltoall")
  if fused then add "moe-grouped-gemm" end
end

--- The model's groups.
---@param launch table
---@return table[]
function args.model(launch)
  local model <const>, list <const> = launch.model, {}
  local function add(...) list[#list + 1] = { ... } end
  add("num-layers", model.layers)
  add("hidden-size", model.hidden)
  add("ffn-hidden-size", model.ffn)
  attention(model, add)
  add("seq-length", launch.training.seq_len)
  add("max-position-embeddings", math.max(launch.training.seq_len, model.positions))
  add("position-embedding-type", model.positions > 0 and "learned_absolute" or "rope")
  if model.norm_parameters == 1 then add("normalization", "RMSNorm") end
  if model.gated then add "swiglu" end
  if not model.bias then add "disable-bias-linear" end
  if model.family:find "^qwen2" then add "add-qkv-bias" end
  if model.family:find "^qwen3" then add "qk-layernorm" end
  if not model.tied then add "untie-embeddings-and-output-weights" end
  if not launch.training.dropout then
    add("attention-dropout", 0)
    add("hidden-dropout", 0)
  end
  experts(launch, not checks.old_device(launch), add)
  return list
end

--- The groups of precision, kernels and optimizer.
---@param launch table
---@return table[]
function args.training(launch)
  local training <const>, list <const> = launch.training, {}
  local function add(...) list[#list + 1] = { ... } end
  local precision <const> = launch.precision
  if precision == "bf16" or precision == "fp8" then add "bf16" elseif precision == "fp16" then add "fp16" end
  if precision == "fp8" then add("fp8-format", "hybrid") end
  if training.gradient_bytes == 4 and precision == "fp16" then add "accumulate-allreduce-grads-in-fp32" end
  if training.gradient_bytes == 2 and precision ~= "fp16" and precision ~= "fp32" then add "grad-reduce-in-bf16" end
  local old <const> = checks.old_device(launch)
  add("transformer-impl", old and "local" or "transformer_engine")
  if old or training.attention == "unfused" then
    add("attention-backend", "unfused")
  elseif training.attention == "flash" then
    add("attention-backend", "flash")
  end
  if checks.zero_level(launch) > 0 then add "use-distributed-optimizer" end
  return list
end

--- Does a stage need this set to 1, for its kernels and transfers to run in the order they are issued? Not from Blackwell on.
---@param launch table
---@return boolean
function args.one_connection(launch)
  for _, stage in ipairs(launch.stages) do
    if stage.tp * stage.cp > 1 then
      for _, device in ipairs(stage.devices) do
        if (tonumber(device.compute_capability) or 0) < 10 then return true end
      end
    end
  end
  return false
end

--- What a reader of the export should know about the model: findings that are not fatal.
---@param launch table
---@param runtime string
---@return table? finding
function args.model_differs(launch, runtime)
  local model <const> = launch.model
  local words <const> = { unlike[model.family] }
  if model.mtp_layers > 0 then words[#words + 1] = ("its %d multi-token prediction layers are left out"):format(model.mtp_layers) end
  return #words > 0 and checks.warning("M2", "the %s model in %s: %s", model.family, runtime, table.concat(words, "; ")) or nil
end

return args
