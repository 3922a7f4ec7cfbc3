local core <const> = require "tangram.core"
local model <const> = require "tangram.model"
local support <const> = require "tests.spec.support"

local with <const>, runs <const> = support.with, support.runs

--- Published shapes, with the published number of parameters where it is exact (norms and biases that the description
--- leaves out are below 0.1 %).
local gpt2 <const> = { model_type = "gpt2", n_embd = 768, n_layer = 12, n_head = 12, n_positions = 1024, vocab_size = 50257 }
local llama <const> = { model_type = "llama", hidden_size = 4096, num_hidden_layers = 32, num_attention_heads = 32,
  num_key_value_heads = 8, intermediate_size = 14336, vocab_size = 128256, tie_word_embeddings = false }
local mixtral <const> = { model_type = "mixtral", hidden_size = 4096, num_hidden_layers = 32, num_attention_heads = 32,
  num_key_value_heads = 8, intermediate_size = 14336, num_local_experts = 8, num_experts_per_tok = 2, vocab_size = 32000,
  sliding_window = core.null }
local qwen3_moe <const> = { model_type = "qwen3_moe", hidden_size = 2048, num_hidden_layers = 48, num_attention_heads = 32,
  num_key_value_heads = 4, head_dim = 128, intermediate_size = 6144, moe_intermediate_size = 768, num_experts = 128,
  num_experts_per_tok = 8, decoder_sparse_step = 1, mlp_only_layers = {}, vocab_size = 151936, tie_word_embeddings = false,
  quantization_config = { bits = 4 }, sliding_window = core.null }
local gpt_oss <const> = { model_type = "gpt_oss", hidden_size = 2880, num_hidden_layers = 24, num_attention_heads = 64,
  num_key_value_heads = 8, head_dim = 64, intermediate_size = 2880, num_local_experts = 32, experts_per_token = 4,
  vocab_size = 201088, sliding_window = 128, tie_word_embeddings = false,
  quantization_config = { quant_method = "mxfp4" } }
local gemma2 <const> = { model_type = "gemma2", hidden_size = 2304, num_hidden_layers = 26, num_attention_heads = 8,
  num_key_value_heads = 4, head_dim = 256, intermediate_size = 9216, vocab_size = 256000, sliding_window = 4096 }
local bloom <const> = { model_type = "bloom", n_embed = 1024, n_layer = 24, num_attention_heads = 16, vocab_size = 250880 }
local deepseek <const> = { model_type = "deepseek_v3", hidden_size = 7168, num_hidden_layers = 61, num_attention_heads = 128,
  num_key_value_heads = 128, intermediate_size = 18432, moe_intermediate_size = 2048, n_routed_experts = 256,
  n_shared_experts = 1, num_experts_per_tok = 8, first_k_dense_replace = 3, moe_layer_freq = 1, kv_lora_rank = 512,
  q_lora_rank = 1536, qk_nope_head_dim = 128, qk_rope_head_dim = 64, v_head_dim = 128, head_dim = 64,
  num_nextn_predict_layers = 1, vocab_size = 129280 }
local opt <const> = { model_type = "opt", hidden_size = 2048, num_hidden_layers = 24, num_attention_heads = 32, ffn_dim = 8192,
  max_position_embeddings = 2048, vocab_size = 50272, word_embed_proj_dim = 2048 }
local falcon <const> = { model_type = "falcon", hidden_size = 4544, num_hidden_layers = 32, num_attention_heads = 71,
  num_kv_heads = 71, multi_query = true, new_decoder_architecture = false, vocab_size = 65024, bias = false }

local function read(config, options) return model.read(core.json_encode(config), options) end
local function billions(config) return (core.model_parameters((read(config)))) / 1e9 end

describe("Hugging Face config.json", function()
  it("gives the published numbers of parameters", function()
    local exact <const> = {
      { gpt2, 124439808 }, { llama, 8030261248 }, { mixtral, 46702792704 }, { deepseek, 671026404352 },
      { opt, 1315758080 },
      { with(qwen3_moe, {}), 30532122624 - 48 * 2 * 128 },    -- without norms of queries and keys
      { gpt_oss, 20914757184 - 24 * 64 },                     -- without attention sinks
      { gemma2, 2614341888 - 26 * 2 * 2304 },                 -- two of its four norms a layer
      { bloom, 559214592 - 2 * 1024 },                        -- without the embedding's norm
    }
    for _, case in ipairs(exact) do assert.equal(case[2], (core.model_parameters((read(case[1]))))) end
    assert.near(6.92, billions(falcon), 0.005)
    assert.near(1.5437, billions { model_type = "qwen2", hidden_size = 1536, num_hidden_layers = 28, num_attention_heads = 12,
      num_key_value_heads = 2, intermediate_size = 8960, vocab_size = 151936, tie_word_embeddings = true }, 1e-3)
    assert.near(3.821, billions { model_type = "phi3", hidden_size = 3072, num_hidden_layers = 32, num_attention_heads = 32,
      intermediate_size = 8192, vocab_size = 32064, sliding_window = 2047 }, 1e-3)
    assert.near(2.7797, billions { model_type = "phi", hidden_size = 2560, num_hidden_layers = 32, num_attention_heads = 32,
      intermediate_size = 10240, vocab_size = 51200 }, 1e-3)
    assert.near(6.857, billions { model_type = "gpt_neox", hidden_size = 4096, num_hidden_layers = 32, num_attention_heads = 32,
      intermediate_size = 16384, vocab_size = 50432 }, 2e-3)
    assert.near(3.030, billions { model_type = "starcoder2", hidden_size = 3072, num_hidden_layers = 30, num_attention_heads = 24,
      num_key_value_heads = 2, intermediate_size = 12288, vocab_size = 49152, sliding_window = 4096 }, 1e-3)
    assert.near(15.706, billions { model_type = "deepseek_v2", hidden_size = 2048, num_hidden_layers = 27, num_attention_heads = 16,
      intermediate_size = 10944, moe_intermediate_size = 1408, n_routed_experts = 64, n_shared_experts = 2,
      num_experts_per_tok = 6, first_k_dense_replace = 1, kv_lora_rank = 512, q_lora_rank = core.null, qk_nope_head_dim = 128,
      qk_rope_head_dim = 64, v_head_dim = 128, vocab_size = 102400 }, 1e-3)
  end)

  it("counts gpt-oss-20b's 20.91 B also without biases", function()
    local d <const> = read(gpt_oss)
    d.bias = false
    assert.near(20.91, core.model_parameters(d) / 1e9, 0.005)
  end)

  it("gives the published sizes of families with keys of their own", function()
    local scout <const> = { model_type = "llama4_text", hidden_size = 5120, num_hidden_layers = 48, num_attention_heads = 40,
      num_key_value_heads = 8, head_dim = 128, intermediate_size = 8192, intermediate_size_mlp = 16384, num_local_experts = 16,
      num_experts_per_tok = 1, interleave_moe_layer_step = 1, attention_chunk_size = 8192, vocab_size = 202048,
      tie_word_embeddings = false }
    local maverick <const> = with(scout, { num_local_experts = 128, interleave_moe_layer_step = 2 })
    local moe <const> = { num_attention_heads = 32, num_key_value_heads = 8, tie_word_embeddings = false, sliding_window = core.null }
    local published <const> = { -- billions, to the digits that stand in their reports or model cards
      { scout, 107.77, 0.01 }, { maverick, 400.7, 0.1 },
      { with(moe, { model_type = "olmoe", hidden_size = 2048, num_hidden_layers = 16, num_attention_heads = 16, num_key_value_heads = 16,
        intermediate_size = 1024, num_experts = 64, num_experts_per_tok = 8, vocab_size = 50304 }), 6.919, 0.001 },
      { with(moe, { model_type = "phimoe", hidden_size = 4096, num_hidden_layers = 32, intermediate_size = 6400, num_local_experts = 16,
        num_experts_per_tok = 2, vocab_size = 32064 }), 41.87, 0.01 },
      { with(moe, { model_type = "minimax_m2", hidden_size = 3072, num_hidden_layers = 62, num_attention_heads = 48, head_dim = 128,
        intermediate_size = 1536, num_local_experts = 256, num_experts_per_tok = 8, vocab_size = 200064 }), 228.7, 0.05 },
      { { model_type = "gptj", n_embd = 4096, n_layer = 28, n_head = 16, vocab_size = 50400 }, 6.05, 0.005 },
      { { model_type = "gpt_neo", hidden_size = 2560, num_layers = 32, num_heads = 20, vocab_size = 50257,
        max_position_embeddings = 2048, intermediate_size = core.null }, 2.65, 0.005 },
      { { model_type = "mpt", d_model = 4096, n_heads = 32, n_layers = 32, vocab_size = 50432 }, 6.65, 0.005 },
      { { model_type = "stablelm", hidden_size = 2560, num_hidden_layers = 32, num_attention_heads = 32, intermediate_size = 6912,
        vocab_size = 50304 }, 2.795, 0.001 },
      { { model_type = "olmo", hidden_size = 4096, num_hidden_layers = 32, num_attention_heads = 32, intermediate_size = 11008,
        vocab_size = 50304 }, 6.888, 0.001 },
    }
    for _, case in ipairs(published) do assert.near(case[2], billions(case[1]), case[3]) end
    local d <const> = read(with(maverick, { num_hidden_layers = 8 }))
    assert.same({ "1 dense 1 moe 1 dense 1 moe 1 dense 1 moe 1 dense 1 moe", "3 sliding 1 full 3 sliding 1 full", 8192, 16384, 8192 },
      { runs(d.layer_mlp), runs(d.layer_attention), d.window, d.ffn, d.shared_expert_ffn })
    assert.equal("1 full 7 sliding", runs(read(with(maverick, { num_hidden_layers = 8,
      no_rope_layers = { 0, 1, 1, 1, 1, 1, 1, 1 } })).layer_attention))
    assert.equal("2 dense 1 moe 5 dense", runs(read(with(maverick, { num_hidden_layers = 8, moe_layers = { 2 } })).layer_mlp))
  end)

  it("counts what a token meets as published: 3.3 B, 12.9 B and, without the embedding's rows, 37 B and 3.6 B", function()
    for _, case in ipairs { { qwen3_moe, 3.3, 0 }, { mixtral, 12.9, 0 }, { deepseek, 37, 1 }, { gpt_oss, 3.6, 1 } } do
      local d <const> = read(case[1])
      local _, active <const> = core.model_parameters(d)
      assert.near(case[2], (active - case[3] * d.vocab * d.hidden) / 1e9, case[2] > 30 and 0.5 or 0.06)
    end
  end)

  it("takes head_dim, KV heads and widths as the family means them", function()
    local d <const> = read(qwen3_moe)
    assert.same({ 128, 4, 6144, 768, 128, 8, 0, "48 moe" }, { d.head_dim, d.kv_heads, d.ffn, d.expert_ffn, d.experts,
      d.experts_per_token, d.window, runs(d.layer_mlp) })
    local v3 <const> = read(deepseek)
    assert.same({ 192, 1536, 2048, 1, "3 dense 58 moe" }, { v3.head_dim, v3.mla.q_lora_rank, v3.shared_expert_ffn,
      v3.mtp_layers, runs(v3.layer_mlp) })
    assert.equal(2050, read(opt).positions)
    assert.equal(1, read(falcon).kv_heads)
    assert.equal(8, read(with(falcon, { new_decoder_architecture = true, num_attention_heads = 8, num_kv_heads = 8,
      hidden_size = 4096 })).kv_heads)
    assert.equal(4096 // 32, read(llama).head_dim)
    assert.equal(3072, read(with(gpt2, { n_inner = core.null })).ffn)
    assert.equal(0, read(with(llama, { max_position_embeddings = 131072 })).positions)
  end)

  it("knows which families gate their MLP, tie their ends and have biases", function()
    local cases <const> = { { llama, true, false, false }, { gpt2, false, true, true }, { bloom, false, true, true },
      { gemma2, true, true, false }, { mixtral, true, false, false }, { opt, false, true, true } }
    for _, case in ipairs(cases) do
      local d <const> = read(with(case[1], { tie_word_embeddings = core.null }))
      assert.same({ case[2], case[3], case[4] }, { d.gated, d.tied, d.bias })
    end
    assert.is_true(read(with(llama, { tie_word_embeddings = true })).tied)
    assert.is_false(read(with(opt, { enable_bias = false })).bias)
  end)

  it("places MoE layers by every rule", function()
    local function placed(changes) return runs(read(with(qwen3_moe, changes)).layer_mlp) end
    local tiny <const> = { num_hidden_layers = 6 }
    assert.equal("6 moe", placed(tiny))
    assert.equal("1 dense 1 moe 1 dense 1 moe 1 dense 1 moe", placed(with(tiny, { decoder_sparse_step = 2 })))
    assert.equal("1 dense 4 moe 1 dense", placed(with(tiny, { mlp_only_layers = { 0, 5 } })))
    assert.equal("2 dense 4 moe", placed(with(tiny, { first_k_dense_replace = 2 })))
    assert.equal("2 dense 1 moe 1 dense 1 moe 1 dense", placed(with(tiny, { first_k_dense_replace = 1, moe_layer_freq = 2 })))
    assert.equal("1 dense 5 moe", placed(with(tiny, { moe_layer_freq = { 0, 1, 1, 1, 1, 1 } })))
    assert.equal("1 dense 1 moe 3 dense 1 moe", placed(with(tiny, { expert_layer_period = 4, expert_layer_offset = 1 })))
    assert.equal("3 dense 1 moe 1 dense 1 moe", placed(with(tiny, { moe_layers = { 3, 5 } })))
    assert.equal("1 dense 5 moe", placed(with(tiny, {
      mlp_layer_types = { "dense", "sparse", "sparse", "sparse", "sparse", "sparse" } })))
  end)

  it("takes 0 or 1 experts, or none named, for a dense model", function()
    for _, count in ipairs { 0, 1, core.null } do
      local d <const> = read(with(qwen3_moe, { num_experts = count, num_hidden_layers = 2 }))
      assert.same({ 0, 0, "2 dense" }, { d.experts, d.expert_ffn, runs(d.layer_mlp) })
    end
  end)

  it("takes every name that a meaning has", function()
    local base <const> = with(qwen3_moe, { num_hidden_layers = 6 })
    local want <const> = read(base)
    local names <const> = { -- the name in base, then its other names
      { "num_hidden_layers", "n_layer", "n_layers", "num_layers" }, { "hidden_size", "n_embd", "n_embed", "d_model" },
      { "num_attention_heads", "n_head", "n_heads" }, { "num_key_value_heads", "num_kv_heads", "n_head_kv" },
      { "head_dim", "attention_head_dim", "kv_channels" }, { "intermediate_size", "ffn_dim", "n_inner", "ffn_hidden_size" },
      { "num_experts", "num_local_experts", "n_routed_experts" }, { "num_experts_per_tok", "experts_per_token", "moe_topk" },
    }
    for _, row in ipairs(names) do
      for i = 2, #row do
        assert.same(want, (read(with(base, { [row[1]] = core.null, [row[i]] = base[row[1]] }))), row[i])
      end
    end
    for _, name in ipairs { "num_nextn_predict_layers", "mtp_num_layers" } do
      assert.equal(2, read(with(base, { [name] = 2 })).mtp_layers)
    end
    assert.equal(96, read(with(base, { shared_expert_intermediate_size = 96 })).shared_expert_ffn)
    assert.equal(3 * 768, read(with(base, { n_shared_experts = 3 })).shared_expert_ffn)
    assert.equal(1, read(with(gpt2, { multi_query = true })).kv_heads)
    for _, name in ipairs { "n_positions", "max_position_embeddings", "seq_length" } do
      assert.equal(512, read(with(gpt2, { n_positions = core.null, [name] = 512 })).positions)
    end
  end)

  it("reads the names of transformers 5", function()
    local renamed <const> = with(qwen3_moe, { num_experts = core.null, num_local_experts = 128, dtype = "bfloat16",
      rope_parameters = { rope_theta = 1e6 } })
    assert.same(read(qwen3_moe), read(renamed))
  end)

  it("places sliding layers by list and by the family's rule", function()
    local function seen(config, changes)
      local d <const> = read(with(config, changes))
      return ("%s, window %d"):format(runs(d.layer_attention), d.window)
    end
    local four <const> = { num_hidden_layers = 4 }
    assert.equal("1 sliding 1 full 1 sliding 1 full, window 128", seen(gpt_oss, four))
    assert.equal("1 full 1 sliding 2 full, window 128", seen(gpt_oss, with(four, {
      layer_types = { "full_attention", "sliding_attention", "full_attention", "full_attention" } })))
    assert.equal("1 sliding 1 full 1 sliding 1 full, window 4096", seen(gemma2, four))
    assert.equal("4 full, window 0", seen(mixtral, four))
    assert.equal("4 sliding, window 4096", seen(with(llama, { model_type = "mistral", sliding_window = 4096 }), four))
    assert.equal("4 full, window 0", seen(with(llama, { model_type = "mistral", sliding_window = core.null }), four))
    local qwen2 <const> = with(llama, { model_type = "qwen2", sliding_window = 32768, max_window_layers = 3, num_hidden_layers = 4 })
    assert.equal("4 full, window 0", seen(qwen2, { use_sliding_window = false }))
    assert.equal("4 full, window 0", seen(qwen2, {}))
    assert.equal("3 full 1 sliding, window 32768", seen(qwen2, { use_sliding_window = true }))
    assert.equal("4 full, window 0", seen(llama, with(four, { sliding_window = 64 })))
  end)

  it("takes the language model out of a multimodal one, with the defaults of its class, and says so", function()
    local config <const> = {
      model_type = "gemma3", architectures = { "Gemma3ForConditionalGeneration" }, vision_config = { hidden_size = 1152 },
      text_config = { model_type = "gemma3_text", hidden_size = 2560, num_hidden_layers = 34, intermediate_size = 10240,
        sliding_window = 1024 },
    }
    local d <const>, warnings <const> = read(config)
    assert.near(3.88, core.model_parameters(d) / 1e9, 0.005)
    assert.equal("5 sliding 1 full", runs({ table.unpack(d.layer_attention, 1, 6) }))
    assert.equal(1024, d.window)
    assert.same({ "only the language model is planned; left out: vision_config", "not in the file, taken from family "
      .. "gemma3_text: head_dim = 256, num_attention_heads = 8, num_key_value_heads = 4, sliding_window_pattern = 6, "
      .. "vocab_size = 262208" }, warnings)
    for _, key in ipairs { "llm_config", "language_config" } do
      assert.same((read(llama)), (read { model_type = "some_vlm", audio_config = { d_model = 3 }, [key] = llama }))
    end
  end)

  it("infers the family from the architecture, and takes --family before all", function()
    local d <const>, warnings <const> = read(with(qwen3_moe, { model_type = core.null, architectures = { "Qwen3MoeForCausalLM" } }))
    assert.same({ "qwen3_moe", "read as family qwen3_moe, by its architecture" }, { d.family, warnings[1] })
    local g <const> = read(with(gpt2, { model_type = core.null, architectures = { "GPT2LMHeadModel" } }))
    assert.equal("gpt2", g.family)
    local forced <const>, notes <const> = read(with(llama, { model_type = "novel" }), { family = "llama" })
    assert.same({ "llama", "model_type is 'novel'; read as family llama" }, { forced.family, notes[1] })
    assert.error_matches(function() read(llama, { family = "lama" }) end, "%-%-family: got 'lama', .+did you mean 'llama'")
  end)

  it("refuses unknown families with what they lack or might be read as", function()
    local function refusal(config, pattern)
      assert.error_matches(function() read(config) end, "^config.json: " .. pattern)
    end
    refusal(with(gpt2, { model_type = core.null }), "model_type: missing, expected a known family; .+ give %-%-family gpt2$")
    refusal(with(llama, { model_type = "novel", hidden_act = "silu" }), "model_type: got 'novel', .+ give %-%-family llama$")
    refusal(with(qwen3_moe, { model_type = "novel" }), "model_type: got 'novel', .+ give %-%-family qwen3_moe$")
    refusal(with(deepseek, { model_type = "deepseek_v4" }), "model_type: got 'deepseek_v4', .+did you mean 'deepseek_v[23]'")
    refusal({ model_type = "mamba", hidden_size = 768, n_layer = 24, vocab_size = 50280 },
      "model_type: got 'mamba', expected a known family; it has none of num_attention_heads, n_head")
    refusal({ model_type = "t5", is_encoder_decoder = true }, "is_encoder_decoder: got true")
    refusal({ model_type = 5 }, "model_type: got 5")
    refusal(with(llama, { layer_types = { "linear_attention" }, num_hidden_layers = 1 }), "layer_types%[1%]: got 'linear_attention'")
    refusal(with(llama, { full_attention_interval = 4 }), "full_attention_interval: got 4; models with Mamba")
    refusal(with(llama, { hybrid_override_pattern = "M*-" }), "hybrid_override_pattern: got 'M%*%-'")
  end)

  it("refuses missing, zero, negative, fractional and huge values with file and key", function()
    for key, min in pairs { num_hidden_layers = 1, hidden_size = 1, num_attention_heads = 1, num_key_value_heads = 1,
      vocab_size = 1, intermediate_size = 1, num_experts = 0, num_experts_per_tok = 0, head_dim = 1 } do
      for _, value in ipairs { -1, 1.5, 1e30, "12", min == 1 and 0 or -2 } do
        assert.error_matches(function() read(with(qwen3_moe, { [key] = value })) end,
          "^config.json: " .. key .. ": got .+, expected a whole number from " .. min .. " to %d+$")
      end
    end
    for _, key in ipairs { "num_hidden_layers", "hidden_size", "vocab_size", "num_attention_heads" } do
      assert.error_matches(function() read(with(qwen3_moe, { [key] = core.null })) end, "^config.json: " .. key .. ": missing, expected")
    end
    local cases <const> = {
      { { num_key_value_heads = 5 }, "num_key_value_heads: got 5, expected a divisor of heads = 32" },
      { { num_experts_per_tok = 129 }, "num_experts_per_tok: got 129, expected 1 to experts = 128" },
      { { num_experts_per_tok = core.null }, "num_experts_per_tok: missing" },
      { { moe_intermediate_size = core.null }, "moe_intermediate_size: missing" },
      { { layer_types = { "full_attention" } }, "layer_types: got 1 items, expected one a layer, 48" },
      { { tie_word_embeddings = "yes" }, "tie_word_embeddings: got 'yes', expected true or false" },
      { { mlp_only_layers = 3 }, "mlp_only_layers: got 3, expected a list" },
      { { decoder_sparse_step = 0 }, "decoder_sparse_step: got 0" },
    }
    for _, case in ipairs(cases) do
      assert.error_matches(function() read(with(qwen3_moe, case[1])) end, "^config.json: " .. case[2])
    end
    assert.error_matches(function() read(with(llama, { intermediate_size = core.null })) end, "ffn: missing")
    assert.error_matches(function() read(with(deepseek, { v_head_dim = core.null })) end, "^config.json: mla: v_head_dim: missing")
  end)

  it("reads a pasted Python dict and NaN, and says so", function()
    local dict <const> = [[{'model_type': 'llama', 'hidden_size': 4096, 'num_hidden_layers': 32, "num_attention_heads": 32,
      'num_key_value_heads': 8, 'intermediate_size': 14336, 'vocab_size': 128256, 'tie_word_embeddings': False,
      'torch_dtype': torch.bfloat16, 'note': 'it\'s "True", None', 'rope_scaling': None, 'use_cache': True,}]]
    local d <const>, warnings <const> = model.read(dict)
    assert.same((read(llama)), d)
    assert.matches("Python dict", warnings[1])
    local _, notes <const> = model.read((core.json_encode(llama):gsub("{", '{"eps": NaN, "limit": -Infinity,', 1)))
    assert.matches("NaN or Infinity", notes[1])
    assert.error_matches(function() model.read((core.json_encode(llama):gsub("14336", "Infinity"))) end,
      "^config.json: intermediate_size: got 'Infinity', expected a whole number")
  end)

  it("refuses what is no JSON object, with the place", function()
    local function refusal(source)
      local ok <const>, why <const> = pcall(model.read, source)
      assert.is_false(ok)
      return why
    end
    assert.matches("^config.json:3:%d+: not JSON", refusal '{\n "model_type": "llama",\n "hidden_size": }')
    assert.matches("^config.json:1:%d+: not JSON", refusal "{hidden_size: 3}")
    assert.equal("config.json: field 'vocab_size' is given twice", refusal '{"vocab_size": 1, "vocab_size": 2}')
    assert.matches("^/nonexistent/config.json: No such file", refusal "/nonexistent/config.json")
    assert.matches("^tests: ", refusal "tests")
    local path <const> = support.write(os.tmpname(), "[1, 2]")
    assert.equal(path .. ": got a table, expected an object: a model's config.json", refusal(path))
    support.write(path, "")
    assert.matches("^" .. path .. ":1:1: not JSON", refusal(path))
    os.remove(path)
  end)

  it("names a model by its file, or what the file says", function()
    assert.equal("llama-3.1-8b", model.read("recipes/models/llama-3.1-8b.json").name)
    assert.equal("Llama-3.1-8B", (read(with(llama, { _name_or_path = "meta-llama/Llama-3.1-8B" }))).name)
    assert.equal("llama-32x4096", (read(llama)).name)
    assert.equal(30532110336, (core.model_parameters((model.read "recipes/models/qwen3-30b-a3b.json"))))
  end)

  it("ignores a byte order mark and notes what is not planned", function()
    local d <const> = model.read("{" .. (core.json_encode(llama):sub(2)))
    local path <const> = os.tmpname()
    support.write(path, "\xEF\xBB\xBF" .. core.json_encode(llama))
    assert.equal(d.hidden, (model.read(path)).hidden)
    os.remove(path)
    assert.same({ "1 multi-token prediction layer is not planned" }, (select(2, read(deepseek))))
    assert.matches("word_embed_proj_dim = 512", select(2, read(with(opt, { word_embed_proj_dim = 512 })))[1])
  end)
end)

describe("samples of config.json", function()
  local function sample(number, family)
    local path <const> = support.shared("data/inputs/hf-config/" .. number .. ".txt")
    if not path then return nil end
    return model.read(path, { family = family })
  end

  it("are read as the log says", function()
    local qwen <const> = sample "001"
    if not qwen then return pending "shared data is absent" end
    assert.same({ 48, "48 moe", 128, 8, 768, 128, 4 }, { qwen.layers, runs(qwen.layer_mlp), qwen.experts, qwen.experts_per_token,
      qwen.expert_ffn, qwen.head_dim, qwen.kv_heads })
    assert.near(30.53, core.model_parameters(qwen) / 1e9, 0.005)
    local r1 <const> = sample "003"
    assert.same({ "3 dense 58 moe", 18432, 2048, 1 }, { runs(r1.layer_mlp), r1.ffn, r1.shared_expert_ffn, r1.mtp_layers })
    assert.near(671.0, core.model_parameters(r1) / 1e9, 0.05)
    local opt_tiny <const> = sample "005"
    assert.same({ 2, 512, true }, { opt_tiny.layers, opt_tiny.ffn, opt_tiny.tied })
    assert.near(63.6e6, opt_tiny.vocab * opt_tiny.hidden, 0.05e6)
    assert.error_matches(function() sample "007" end, "give %-%-family gpt2")
    local kogpt <const> = sample("007", "gpt2")
    assert.same({ true, 1024, 12 }, { kogpt.tied, kogpt.positions, kogpt.layers })
    local internvl <const>, warnings <const> = sample("009", "llama")
    assert.same({ 32, 92553, 8 }, { internvl.layers, internvl.vocab, internvl.kv_heads })
    assert.matches("left out: vision_config", warnings[1])
  end)
end)
