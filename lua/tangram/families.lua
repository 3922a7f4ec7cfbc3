--- Families of decoders: what their Hugging Face configuration leaves unsaid, from the defaults of their classes.
---
--- gated: three MLP matrices; norm: parameters of a norm in units of hidden (1 RMS, 2 layer norm with bias); bias: biases of
--- linear layers; tied: `tie_word_embeddings` where the key is absent; learned: the key of learned positions, and `offset`
--- positions more; defaults: keys that published files leave out; window: where sliding layers lie without `layer_types`, and
--- window_key: the key of its tokens; expert_ffn: the key of an expert's width; dense_ffn: that of a dense MLP beside it;
--- shared_expert: one more expert sees each token. Not counted, as below 0.1 % of a model: norms beyond two a layer, norms of
--- queries and keys, biases of only some linear layers (qwen2), gates of shared experts.
local llama <const> = { gated = true, norm = 1, bias = false, tied = false }
local gpt <const> = { gated = false, norm = 2, bias = true, tied = true }

local function like(base, changes)
  local family <const> = {}
  for name, value in pairs(base) do family[name] = value end
  for name, value in pairs(changes) do family[name] = value end
  return family
end

local gemma3 <const> = like(llama, {
  tied = true, window = "pattern",
  defaults = { num_attention_heads = 8, num_key_value_heads = 4, head_dim = 256, vocab_size = 262208, sliding_window = 4096,
    sliding_window_pattern = 6 },
})
local qwen <const> = like(llama, { window = "upper" })
local deepseek <const> = llama
local mixtral <const> = like(llama, { window = "all", expert_ffn = "intermediate_size" })
local llama4 <const> = like(llama, {
  expert_ffn = "intermediate_size", dense_ffn = "intermediate_size_mlp", shared_expert = true, window = "chunks",
  window_key = "attention_chunk_size",
})

return {
  llama = llama, olmo2 = llama, glm = llama, glm4 = llama, glm4_moe = llama, granite = llama, internlm2 = llama, seed_oss = llama,
  exaone4 = llama, llama4 = llama4, llama4_text = llama4,
  olmo = like(llama, { norm = 0 }),
  olmoe = mixtral, phimoe = mixtral, granitemoe = mixtral, minimax_m2 = mixtral,
  stablelm = like(llama, { norm = 2 }),
  smollm3 = like(llama, { tied = true }),
  mistral = like(llama, { window = "all", defaults = { sliding_window = 4096 } }),
  mixtral = mixtral,
  qwen2 = qwen, qwen2_vl = qwen, qwen2_vl_text = qwen, qwen2_5_vl = qwen, qwen2_5_vl_text = qwen, qwen2_moe = qwen,
  qwen3 = qwen, qwen3_vl_text = qwen, qwen3_moe = qwen, qwen3_vl_moe_text = qwen,
  gemma = like(llama, { tied = true, defaults = { head_dim = 256 } }),
  gemma2 = like(llama, { tied = true, window = "alternate", defaults = { head_dim = 256, sliding_window = 4096 } }),
  gemma3 = gemma3, gemma3_text = gemma3,
  phi = like(gpt, { tied = false }),
  phi3 = like(llama, { window = "all" }),
  deepseek_v2 = deepseek, deepseek_v3 = deepseek, kimi_k2 = deepseek,
  gpt_oss = like(llama, {
    bias = true, window = "alternate", expert_ffn = "intermediate_size", defaults = { head_dim = 64, sliding_window = 128 },
  }),
  cohere = like(llama, { tied = true }),
  cohere2 = like(llama, { tied = true, window = "pattern", defaults = { sliding_window_pattern = 4 } }),
  gpt2 = like(gpt, { learned = "n_positions" }),
  gpt_bigcode = like(gpt, { learned = "n_positions", defaults = { multi_query = true } }),
  gpt_neo = like(gpt, { learned = "max_position_embeddings" }),
  gpt_neox = like(gpt, { tied = false }), gptj = like(gpt, { tied = false }),
  mpt = like(gpt, { bias = false, norm = 1 }),
  nemotron = like(gpt, { bias = false, tied = false }),
  opt = like(gpt, { learned = "max_position_embeddings", offset = 2 }),
  bloom = gpt,
  falcon = like(gpt, { bias = false, defaults = { multi_query = true } }),
  starcoder2 = like(gpt, { window = "all" }),
}
