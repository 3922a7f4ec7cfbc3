--- Hugging Face config.json to a model's description. Keys and traps: the configuration classes of transformers 4 and 5.
local core <const> = require "tangram.core"
local families <const> = require "tangram.families"
local layers_of <const> = require "tangram.input.hf_layers"
local loose_json <const> = require "tangram.input.loose_json"
local model <const> = require "tangram.model"
local schema <const> = require "tangram.schema"
local sorted_keys <const> = require "tangram.sorted_keys"

local hf <const> = {}

local aliases <const> = {
  layers = { "num_hidden_layers", "n_layer", "n_layers", "num_layers" },
  hidden = { "hidden_size", "n_embd", "n_embed", "d_model" },
  heads = { "num_attention_heads", "n_head", "n_heads", "num_heads" },
  kv_heads = { "num_key_value_heads", "num_kv_heads", "n_head_kv" },
  head_dim = { "head_dim", "attention_head_dim", "kv_channels" },
  ffn = { "intermediate_size", "ffn_dim", "n_inner", "ffn_hidden_size" },
  vocab = { "vocab_size" },
  positions = { "n_positions", "max_position_embeddings", "n_ctx", "seq_length" },
  experts = { "num_experts", "num_local_experts", "n_routed_experts" },
  experts_per_token = { "num_experts_per_tok", "experts_per_token", "moe_topk", "num_experts_per_token" },
  expert_ffn = { "moe_intermediate_size" },
  shared_expert_ffn = { "shared_expert_intermediate_size" },
  mtp_layers = { "num_nextn_predict_layers", "mtp_num_layers" },
}
local needed <const> = { "layers", "hidden", "heads", "vocab" }
local nested_keys <const> = { "text_config", "llm_config", "language_config" }
local flag_keys <const> = {
  tied = { "tie_word_embeddings" },
  bias = { "use_bias", "enable_bias", "bias" },
}

--- In a fixed order, so that of two wrong keys the same one is named each time.
local fields <const> = sorted_keys(aliases)

local function present(value) return value ~= nil and value ~= core.null end

--- The first of keys that the configuration has: key, value.
local function find(config, keys)
  for _, key in ipairs(keys) do
    if present(config[key]) then return key, config[key] end
  end
end

--- The language model's part of the configuration, with what it inherits, and notes of what is left out.
local function language_part(config, warnings)
  local inner_key <const>, inner <const> = find(config, nested_keys)
  local left_out <const> = {}
  for key, value in pairs(config) do
    if type(value) == "table" and key:find "_config$" and key ~= inner_key and key ~= "quantization_config"
      and key ~= "generation_config" then
      left_out[#left_out + 1] = key
    end
  end
  table.sort(left_out)
  if #left_out > 0 then
    warnings[#warnings + 1] = ("only the language model is planned; left out: %s"):format(table.concat(left_out, ", "))
  end
  if type(inner) ~= "table" then return config end
  local part <const> = {}
  for key, value in pairs(inner) do part[key] = value end
  for _, key in ipairs { "tie_word_embeddings", "model_type", "architectures", "_name_or_path" } do
    if part[key] == nil then part[key] = config[key] end
  end
  if not families[part.model_type] and families[config.model_type] then part.model_type = config.model_type end
  return part
end

--- The family whose keys these are, judged by the keys alone, for advice.
local function likely_family(config)
  if present(config.kv_lora_rank) then return "deepseek_v3" end
  if find(config, aliases.experts) then return present(config.moe_intermediate_size) and "qwen3_moe" or "mixtral" end
  if present(config.ffn_dim) then return "opt" end
  if present(config.n_embd) or config.hidden_act ~= "silu" and not present(config.rms_norm_eps) then return "gpt2" end
  return "llama"
end

--- The family of an architecture: "Qwen3MoeForCausalLM" gives qwen3_moe.
local function family_of_architecture(config)
  local architecture <const> = type(config.architectures) == "table" and config.architectures[1]
  local stem <const> = type(architecture) == "string" and architecture:match "^(%w-)For%w+$"
    or type(architecture) == "string" and architecture:match "^(%w-)LMHeadModel$"
  for _, name in ipairs(stem and model.family_names or {}) do
    if name:gsub("_", "") == stem:lower() then return name end
  end
end

local function missing_keys(config)
  for _, field in ipairs(needed) do
    if not find(config, aliases[field]) and not (families[config.model_type] or {}).defaults then
      return ("it has none of %s"):format(table.concat(aliases[field], ", "))
    end
  end
end

local function family_of(config, option, where, warnings)
  local kind <const> = config.model_type
  if option then
    schema.value(option, model.fields.family, where .. ": --family")
    if present(kind) and kind ~= option then
      warnings[#warnings + 1] = ("model_type is %s; read as family %s"):format(schema.show(kind), option)
    end
    return option
  end
  if families[kind] then return kind end
  if config.is_encoder_decoder == true then
    error(where .. ": is_encoder_decoder: got true, expected a decoder; encoder-decoder models are not planned", 0)
  end
  local by_architecture <const> = family_of_architecture(config)
  if by_architecture then
    warnings[#warnings + 1] = ("read as family %s, by its architecture"):format(by_architecture)
    return by_architecture
  end
  local lack <const> = missing_keys(config)
  local near <const> = type(kind) == "string" and core.nearest(kind, model.family_names)
  error(("%s: model_type: %s, expected a known family; %s%s"):format(where,
    present(kind) and "got " .. schema.show(kind) or "missing",
    lack or ("if it is built like one, give --family " .. likely_family(config)),
    near and (" (did you mean '%s'?)"):format(near) or ""), 0)
end

--- Fills in what published files of the family leave out, and says so.
local function with_defaults(config, family, warnings)
  local copy <const>, taken <const> = {}, {}
  for key, value in pairs(config) do copy[key] = value end
  for key, value in pairs(families[family].defaults or {}) do
    local known = config[key] ~= nil
    for _, keys in pairs(aliases) do
      for _, alias in ipairs(keys) do known = known or (alias == key and find(config, keys) ~= nil) end
    end
    if not known then
      copy[key] = value
      taken[#taken + 1] = ("%s = %s"):format(key, value)
    end
  end
  table.sort(taken)
  if #taken > 0 then
    warnings[#warnings + 1] = ("not in the file, taken from family %s: %s"):format(family, table.concat(taken, ", "))
  end
  return copy
end

--- Reads one meaning by its aliases, checked against the range of the description's field.
local function take(config, field, where)
  local key <const>, value <const> = find(config, aliases[field])
  if not key then return nil end
  return schema.value(value, model.fields[field], ("%s: %s"):format(where, key)), key
end

--- Multi-head latent attention, checked with the whole description.
local function take_mla(config)
  if not present(config.kv_lora_rank) then return nil end
  local mla <const> = {}
  for name in pairs(model.fields.mla.fields) do mla[name] = config[name] end
  return mla
end

local function take_flags(config, m, where)
  for field, keys in pairs(flag_keys) do
    local key <const>, value <const> = find(config, keys)
    if key then m[field] = schema.value(value, { type = "boolean" }, ("%s: %s"):format(where, key)) end
  end
end

--- Keys that need no more than their name and range.
local function take_widths(config, family, where)
  local m <const>, key_of <const> = { family = family }, {}
  for _, field in ipairs(fields) do
    if field ~= "positions" then m[field], key_of[field] = take(config, field, where) end
  end
  for _, field in ipairs(needed) do
    if not m[field] then
      schema.fail(("%s: %s"):format(where, aliases[field][1]), nil, "it, or one of "
        .. table.concat(aliases[field], ", ", 2) .. " (" .. model.fields[field].doc .. ")")
    end
  end
  return m, key_of
end

local function take_experts(config, m, family, where)
  if (m.experts or 0) <= 1 then
    m.experts, m.experts_per_token, m.expert_ffn, m.shared_expert_ffn = 0, nil, nil, nil
    return
  end
  local own <const> = families[family]
  if own.expert_ffn then m.expert_ffn = m.expert_ffn or m.ffn end
  if own.dense_ffn and present(config[own.dense_ffn]) then
    m.ffn = schema.value(config[own.dense_ffn], model.fields.ffn, ("%s: %s"):format(where, own.dense_ffn))
  end
  if own.shared_expert then m.shared_expert_ffn = m.expert_ffn end
  if not m.experts_per_token then
    schema.fail(where .. ": num_experts_per_tok", nil, "experts that see a token, as there are experts")
  elseif not m.expert_ffn then
    schema.fail(where .. ": moe_intermediate_size", nil, "the width of an expert, as there are experts")
  end
  if present(config.n_shared_experts) then
    local count <const> = schema.value(config.n_shared_experts, { type = "integer", min = 0, max = 64 },
      where .. ": n_shared_experts")
    m.shared_expert_ffn = count * m.expert_ffn
  end
end

local function take_positions(config, family, where)
  local key <const> = families[family].learned
  if not key then return 0 end
  local count <const> = present(config[key]) and schema.value(config[key], model.fields.positions, where .. ": " .. key)
    or take(config, "positions", where)
  return count and count + (families[family].offset or 0) or 0
end

local function take_kv_heads(config, m)
  local one <const> = config.multi_query == true and config.new_decoder_architecture ~= true
  return one and 1 or m.kv_heads
end

local function note_rest(config, m, warnings)
  if (m.mtp_layers or 0) > 0 then
    warnings[#warnings + 1] = ("%d multi-token prediction layer%s not planned"):format(m.mtp_layers,
      m.mtp_layers == 1 and " is" or "s are")
  end
  if present(config.word_embed_proj_dim) and config.word_embed_proj_dim ~= m.hidden then
    warnings[#warnings + 1] = ("word_embed_proj_dim = %s: the embedding is counted at the hidden size %d"):format(
      config.word_embed_proj_dim, m.hidden)
  end
end

--- The description in a configuration that is already a table.
---@param config table
---@param options { family: string?, name: string?, file: string?, vocab: integer? } vocab: in place of the file's
---@param warnings string[] appended to
---@return table description
function hf.read(config, options, warnings)
  local where <const> = options.file or "config.json"
  config = language_part(config, warnings)
  local family <const> = family_of(config, options.family, where, warnings)
  config = with_defaults(config, family, warnings)
  if options.vocab then config.vocab_size = options.vocab end
  local m <const>, key_of <const> = take_widths(config, family, where)
  take_flags(config, m, where)
  take_experts(config, m, family, where)
  m.mla = take_mla(config)
  if m.mla then m.head_dim = nil end
  m.kv_heads = take_kv_heads(config, m)
  m.positions = take_positions(config, family, where)
  m.layer_mlp = layers_of.mlp(config, m, where)
  m.layer_attention, m.window = layers_of.attention(config, m, families[family], where)
  note_rest(config, m, warnings)
  local path <const> = type(config._name_or_path) == "string" and config._name_or_path:match "[^/]+$"
  m.name = options.name or path or nil
  return model.new(m, where, key_of)
end

--- A description from the text of a config.json. Raises one line with file and key.
---@param text string
---@param options { family: string?, name: string?, file: string?, vocab: integer? }
---@return table description
---@return string[] warnings what was guessed, left out or read loosely
function hf.parse(text, options)
  local where <const> = options.file or "config.json"
  local config <const>, note <const> = loose_json(text)
  if config == nil then error(where .. (note:find "^%d" and ":" or ": ") .. note, 0) end
  if type(config) ~= "table" or config[1] ~= nil then schema.fail(where, config, "an object: a model's config.json") end
  local warnings <const> = { note }
  local description <const> = hf.read(config, options, warnings)
  return description, warnings
end

return hf
