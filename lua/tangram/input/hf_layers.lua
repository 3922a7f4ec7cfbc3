--- Which layers of a Hugging Face configuration are MoE and which see only a window.
local core <const> = require "tangram.core"
local schema <const> = require "tangram.schema"

local layers <const> = {}

local function present(value) return value ~= nil and value ~= core.null end

local function number(config, key, min, default, where)
  if not present(config[key]) then return default end
  return schema.value(config[key], { type = "integer", min = min, max = 1 << 24 }, ("%s: %s"):format(where, key))
end

--- The words of a list of one word a layer, by a table of what each means.
local function words(config, key, meanings, count, where)
  local list <const> = schema.value(config[key], { type = "list", item = { type = "string" } }, ("%s: %s"):format(where, key))
  if #list ~= count then
    error(("%s: %s: got %d items, expected one a layer, %d"):format(where, key, #list, count), 0)
  end
  local kinds <const> = core.array {}
  for i, word in ipairs(list) do
    kinds[i] = meanings[word]
    if not kinds[i] then
      error(("%s: %s[%d]: got %s; layers of that kind are not planned"):format(where, key, i, schema.show(word)), 0)
    end
  end
  return kinds
end

local function each(count, is_first, first, second)
  local kinds <const> = core.array {}
  for i = 1, count do kinds[i] = is_first(i - 1) and first or second end
  return kinds
end

--- A set of the numbers in a list, counted from 0.
local function numbers(config, key, where)
  local set <const> = {}
  for _, i in ipairs(schema.value(config[key], { type = "list", item = { type = "integer" } }, ("%s: %s"):format(where, key))) do
    set[i] = true
  end
  return set
end

local mlp_words <const> = { dense = "dense", sparse = "moe", moe = "moe" }

--- One of "dense" and "moe" a layer.
---@param config table
---@param m table the description so far: layers, experts
---@param where string
---@return string[]
function layers.mlp(config, m, where)
  if m.experts == 0 then return each(m.layers, function() return true end, "dense") end
  if present(config.mlp_layer_types) then return words(config, "mlp_layer_types", mlp_words, m.layers, where) end
  local is_moe
  if present(config.moe_layers) then
    local set <const> = numbers(config, "moe_layers", where)
    is_moe = function(i) return set[i] end
  elseif type(config.moe_layer_freq) == "table" then
    local flags <const> = schema.value(config.moe_layer_freq,
      { type = "list", item = { type = "integer", min = 0, max = 1 }, min = m.layers, max = m.layers }, where .. ": moe_layer_freq")
    is_moe = function(i) return flags[i + 1] == 1 end
  elseif present(config.interleave_moe_layer_step) then
    local step <const> = number(config, "interleave_moe_layer_step", 1, 1, where)
    is_moe = function(i) return (i + 1) % step == 0 end
  elseif present(config.expert_layer_period) then
    local period <const> = number(config, "expert_layer_period", 1, 1, where)
    local offset <const> = number(config, "expert_layer_offset", 0, 0, where)
    is_moe = function(i) return i % period == offset end
  else
    local first <const> = number(config, "first_k_dense_replace", 0, 0, where)
    local every <const> = number(config, "moe_layer_freq", 1, 1, where)
    local step <const> = number(config, "decoder_sparse_step", 1, 1, where)
    local dense <const> = present(config.mlp_only_layers) and numbers(config, "mlp_only_layers", where) or {}
    is_moe = function(i) return i >= first and i % every == 0 and (i + 1) % step == 0 and not dense[i] end
  end
  return each(m.layers, is_moe, "moe", "dense")
end

local attention_words <const> = {
  full_attention = "full", attention = "full", global = "full", sliding_attention = "sliding", ["local"] = "sliding",
  chunked_attention = "sliding", -- counted as a window of the chunk: at most twice what its tokens look at
}

--- Refuses what mixes other kinds of layers in without a list of words.
local function refuse_hybrid(config, where)
  for _, key in ipairs { "hybrid_override_pattern", "attn_layer_period", "full_attention_interval" } do
    if present(config[key]) and config[key] ~= 1 then
      error(("%s: %s: got %s; models with Mamba or linear attention layers are not planned"):format(where, key,
        schema.show(config[key])), 0)
    end
  end
end

--- From the rule of the family: does layer i (from 0) slide?
local rules <const> = {
  all = function() return function() return true end end,
  upper = function(config, where) -- qwen: only if switched on, from max_window_layers
    local from <const> = number(config, "max_window_layers", 0, 28, where)
    return function(i) return config.use_sliding_window == true and i >= from end
  end,
  chunks = function(config, where) -- llama4: every fourth layer sees all
    local listed <const> = present(config.no_rope_layers) and schema.value(config.no_rope_layers,
      { type = "list", item = { type = "integer" } }, where .. ": no_rope_layers")
    return function(i)
      if listed then return listed[i + 1] == 1 end
      return (i + 1) % 4 ~= 0
    end
  end,
  alternate = function() return function(i) return i % 2 == 0 end end,
  pattern = function(config, where)
    local key <const> = present(config._sliding_window_pattern) and "_sliding_window_pattern" or "sliding_window_pattern"
    local every <const> = number(config, key, 1, 6, where)
    return function(i) return (i + 1) % every ~= 0 end
  end,
}

--- One of "full" and "sliding" a layer, and the window (0 if none slides).
---@param config table
---@param m table the description so far: layers
---@param family table of families.lua
---@param where string
---@return string[]
---@return integer
function layers.attention(config, m, family, where)
  local rule <const>, key <const> = family.window, family.window_key or "sliding_window"
  local window <const> = config[key] and number(config, key, 0, 0, where) or 0
  local listed <const> = present(config.layer_types) and "layer_types" or present(config.layers_block_type) and "layers_block_type"
  local kinds
  if listed then
    kinds = words(config, listed, attention_words, m.layers, where)
  else
    refuse_hybrid(config, where)
    local on <const> = rule and window > 0 and config.use_sliding_window ~= false
    kinds = each(m.layers, on and rules[rule](config, where) or function() return false end, "sliding", "full")
  end
  for _, kind in ipairs(kinds) do
    if kind == "sliding" then return kinds, window end
  end
  return kinds, 0
end

return layers
