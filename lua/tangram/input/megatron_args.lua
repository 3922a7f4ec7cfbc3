--- Megatron-LM's arguments to a model's description: YAML of its tests, shell scripts, FlagScale's and Megatron-Bridge's model
--- blocks. Defaults as megatron/training/arguments.py has them ("flags"), or TransformerConfig where a block of Bridge names
--- its fields ("fields").
local core <const> = require "tangram.core"
local flags <const> = require "tangram.input.flags"
local integer_list <const> = require "tangram.input.integer_list"
local model <const> = require "tangram.model"
local schema <const> = require "tangram.schema"
local sorted_keys <const> = require "tangram.sorted_keys"

local megatron_args <const> = {}

--- Field of the description: names of the flag, the later ones in other dialects.
local names <const> = {
  layers = { "num_layers" }, hidden = { "hidden_size" }, heads = { "num_attention_heads" }, kv_heads = { "num_query_groups" },
  head_dim = { "kv_channels" }, ffn = { "ffn_hidden_size" }, vocab = { "vocab_size", "padded_vocab_size" },
  positions = { "max_position_embeddings" }, experts = { "num_experts", "num_moe_experts" },
  experts_per_token = { "moe_router_topk" }, expert_ffn = { "moe_ffn_hidden_size" },
  shared_expert_ffn = { "moe_shared_expert_intermediate_size" }, mtp_layers = { "mtp_num_layers" },
}
local fields <const> = sorted_keys(names)
--- Field, name, default.
local mla_names <const> = {
  { "q_lora_rank", "q_lora_rank", nil }, { "kv_lora_rank", "kv_lora_rank", nil }, { "qk_nope_head_dim", "qk_head_dim", 128 },
  { "qk_rope_head_dim", "qk_pos_emb_head_dim", 64 }, { "v_head_dim", "v_head_dim", 128 },
}
local nothing <const> = { none = true, null = true, ["false"] = true, no = true, off = true, ["~"] = true, ["0"] = true }

--- Which of two blocks says what the model is: MODEL_ARGS, then `model`, then what is least deep.
local function rank(block)
  if block:find "MODEL_ARGS" then return 0 end
  if block == "model" or block:find "^model%." or block:find "%.model$" then return 1 + select(2, block:gsub("%.", "")) end
  return block == "" and 10 or 20 + select(2, block:gsub("%.", ""))
end

--- The flags by key, the best block's first. Raises if one is given two values in one block.
local function index(list, where)
  local by_key <const> = {}
  for _, flag in ipairs(list) do
    local other <const> = by_key[flag.key]
    if not other or rank(flag.block) < rank(other.block) then
      by_key[flag.key] = flag
    elseif flag.block == other.block and flag.value ~= other.value then
      other.also = other.also or flag
    end
  end
  return function(key)
    local flag <const> = by_key[key]
    if flag and flag.also then
      error(("%s:%d: %s: stands twice, with %s and, in line %d, %s, expected one value"):format(where, flag.line, flag.name,
        schema.show(flag.value), flag.also.line, schema.show(flag.also.value)), 0)
    end
    return flag
  end
end

local function is_on(flag)
  return flag ~= nil and (flag.value == true or not nothing[flag.value:lower()])
end

local function place(flag, where) return ("%s:%d: %s"):format(where, flag.line, flag.name) end

local vocab_hint <const> = "--vocab N, --set model.vocab=N, or in a recipe tangram.model(path, { vocab = N })"

local function whole(flag, field, where)
  if flag.value ~= true and nothing[flag.value:lower()] and flag.value ~= "0" then return nil end
  local value <const> = flag.value ~= true and math.tointeger(tonumber((flag.value:gsub("[\"'_]", "")))) or nil
  if not value then
    error(("%s: got %s, expected %s%s%s"):format(place(flag, where), schema.show(flag.value), schema.expected(field),
      flag.lack and (" (%s)"):format(flag.lack) or "", field == model.fields.vocab and ", or " .. vocab_hint or ""), 0)
  end
  return schema.value(value, field, place(flag, where))
end

--- Reads the whole numbers: description so far, and where each comes from.
local function take_widths(get, where, vocab)
  local m <const>, key_of <const> = {}, {}
  for _, field in ipairs(fields) do
    for _, name in ipairs(names[field]) do
      local flag <const> = get(name)
      if flag and m[field] == nil and not (field == "vocab" and vocab) then
        m[field], key_of[field] = whole(flag, model.fields[field], where), flag.name
      end
    end
  end
  m.vocab = vocab or m.vocab
  for _, field in ipairs { "layers", "hidden", "heads" } do
    if not m[field] then
      schema.fail(("%s: %s"):format(where, names[field][1]:gsub("_", "-")), nil, schema.expected(model.fields[field]))
    end
  end
  if not m.vocab then
    error(where .. ": vocab-size: missing (the tokenizer has it), expected " .. vocab_hint, 0)
  end
  return m, key_of
end

local function take_shape(get, m, dialect, warnings)
  local rms <const>, bias <const> = get "normalization", get "add_bias_linear"
  m.gated = is_on(get "swiglu") or is_on(get "gated_linear_unit")
  m.norm_parameters = rms and rms.value ~= true and rms.value:lower():find "rms" and 1 or 2
  m.bias = not is_on(get "disable_bias_linear") and not (bias and not is_on(bias))
  local share <const> = get "share_embeddings_and_output_weights"
  m.tied = not is_on(get "untie_embeddings_and_output_weights") and not (share and not is_on(share))
  if m.kv_heads and dialect == "flags" and not is_on(get "group_query_attention") then
    warnings[#warnings + 1] = ("num-query-groups = %d is ignored, as Megatron does without group-query-attention"):format(m.kv_heads)
    m.kv_heads = nil
  end
end

--- Megatron's width where none is given; with SwiGLU two thirds of it, in multiples of 64 or as FlagScale's multiple_of says.
local function take_ffn(get, m, dialect, where, warnings)
  if m.ffn then return end
  m.ffn = 4 * m.hidden
  if dialect == "flags" and m.gated then
    local multiple <const>, factor <const> = get "multiple_of", get "hidden_dim_multiplier"
    m.ffn = 8 * m.hidden // 3 // 64 * 64
    if multiple then
      local step <const> = whole(multiple, model.fields.ffn, where)
      local wide <const> = math.floor(8 * m.hidden // 3 * math.min(factor and tonumber(factor.value) or 1, 1e3))
      m.ffn = step and (wide + step - 1) // step * step or m.ffn
    end
  end
  warnings[#warnings + 1] = ("ffn-hidden-size is not in the file; Megatron's default, %d"):format(m.ffn)
end

local function take_positions(get, m, where)
  local kind <const> = get "position_embedding_type"
  local learned <const> = not is_on(get "use_rotary_position_embeddings") and not is_on(get "no_position_embedding")
    and (not kind or kind.value == "learned_absolute")
  if learned and not m.positions then
    schema.fail(where .. ": max-position-embeddings", nil,
      "it, as positions are learned (else position-embedding-type: rope or none)")
  end
  m.positions = learned and m.positions or 0
end

--- One of two kinds a layer, from a rule of the layer's index (from 0) or a list expression.
local function each_layer(flag, count, where, of_number, first, second)
  local kinds <const> = core.array {}
  local value <const> = flag and flag.value ~= true and integer_list(flag.value)
  if flag and (not value or type(value) == "table" and #value ~= count or value == 0) then
    error(("%s: got %s, expected a whole number of at least 1 or a list for the %d layers, e.g. ([0]*3+[1]*%d)"):format(
      place(flag, where), schema.show(flag.value), count, math.max(count - 3, 1)), 0)
  end
  for i = 1, count do
    local one
    if type(value) == "table" then one = value[i] else one = of_number(i - 1, value or 1) and 1 or 0 end
    if one ~= 0 and one ~= 1 then
      error(("%s: got %s, expected 0 and 1 alone"):format(place(flag, where), schema.show(flag.value)), 0)
    end
    kinds[i] = one == 1 and first or second
  end
  return kinds
end

local function take_experts(get, m, where)
  if (m.experts or 0) <= 1 then
    m.experts, m.experts_per_token, m.expert_ffn, m.shared_expert_ffn = 0, nil, nil, nil
    return
  end
  m.experts_per_token = m.experts_per_token or math.min(2, m.experts) -- moe-router-topk's default
  m.expert_ffn = m.expert_ffn or m.ffn
  m.layer_mlp = each_layer(get "moe_layer_freq", m.layers, where, function(i, every) return i % every == 0 end, "moe", "dense")
end

--- A window of (left, right) tokens, on the layers that window-attn-skip-freq leaves.
local function take_window(get, m, where)
  local window <const> = get "window_size"
  local left <const> = window and window.value ~= true and math.tointeger(tonumber(window.value:match "%-?%d+"))
  if not left or left < 0 then return end
  m.window = schema.value(left + 1, model.fields.window, place(window, where)) -- the token itself is not counted there
  local skip <const> = get "window_attn_skip_freq"
  m.layer_attention = each_layer(skip, m.layers, where, function(i, every) return not skip or (i + 1) % every ~= 0 end,
    "sliding", "full")
end

local function take_mla(get, m, where)
  if not is_on(get "multi_latent_attention") then return end
  m.mla, m.head_dim, m.kv_heads = {}, nil, nil
  for _, row in ipairs(mla_names) do
    local flag <const> = get(row[2])
    m.mla[row[1]] = flag and whole(flag, model.fields.mla.fields[row[1]], where) or row[3]
  end
end

local function refuse_others(get, where)
  for _, name in ipairs { "hybrid_layer_pattern", "hybrid_override_pattern", "is_hybrid_model", "encoder_num_layers",
    "experimental_attention_variant" } do
    local flag <const> = get(name)
    if is_on(flag) then
      error(("%s: got %s; only decoders of attention and MLP are planned"):format(place(flag, where), schema.show(flag.value)), 0)
    end
  end
end

--- Flags with their dashes, or FlagScale's blocks, which are passed on as flags: "flags"; else "fields" of a configuration.
local function dialect_of(list)
  for _, flag in ipairs(list) do
    if flag.name:find "^%-%-" or flag.block:find "system" then return "flags" end
  end
  return "fields"
end

--- Whether a text holds Megatron's arguments.
---@param text string
---@return boolean
function megatron_args.is(text) return flags.kind(text, "num_layers") ~= nil end

--- A description from a text. Raises one line with file, line and flag.
---@param text string
---@param options { name: string?, file: string?, family: string?, vocab: integer? } vocab: in place of the file's
---@return table description
---@return string[] warnings what was ignored or taken from Megatron's defaults
function megatron_args.parse(text, options)
  local where <const> = options.file or "arguments"
  local kind <const> = flags.kind(text, "num_layers")
  if not kind then error(where .. ": no num-layers in it, expected Megatron's arguments", 0) end
  local list <const> = flags.read(text, kind)
  local get <const>, dialect <const> = index(list, where), dialect_of(list)
  local warnings <const> = {}
  if options.family then warnings[1] = ("family %s is not asked for: the arguments say it all"):format(schema.show(options.family)) end
  refuse_others(get, where)
  local m <const>, key_of <const> = take_widths(get, where, options.vocab)
  take_shape(get, m, dialect, warnings)
  take_ffn(get, m, dialect, where, warnings)
  take_positions(get, m, where)
  take_experts(get, m, where)
  take_window(get, m, where)
  take_mla(get, m, where)
  m.family, m.name = m.gated and "llama" or "gpt2", options.name
  if (m.mtp_layers or 0) > 0 then
    warnings[#warnings + 1] = ("%d multi-token prediction layer%s not planned"):format(m.mtp_layers, m.mtp_layers == 1 and " is" or "s are")
  end
  return model.new(m, where, key_of), warnings
end

return megatron_args
