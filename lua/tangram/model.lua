--- The model's description: one plain, checked table, from a recipe's table or a Hugging Face config.json.
local core <const> = require "tangram.core"
local files <const> = require "tangram.files"
local families <const> = require "tangram.families"
local schema <const> = require "tangram.schema"
local sorted_keys <const> = require "tangram.sorted_keys"

local model <const> = {}

local function whole(name, doc, default)
  local range <const> = core.model_ranges[name]
  return { type = "integer", min = range.min, max = range.max, default = default, doc = doc }
end

local function required(field)
  field.required = true
  return field
end

local family_names <const> = sorted_keys(families)
model.family_names = family_names

local function kinds(doc, ...)
  return { type = "list", item = { type = "enum", values = { ... } }, doc = doc }
end

--- What a recipe's table may hold; the whole table is the "model" of a plan.
model.fields = {
  name = { type = "string", doc = "as in reports; default: family, layers and hidden size" },
  family = { type = "enum", values = family_names, default = "gpt2", doc = "gives the defaults of gated, norms, biases, tied" },
  hidden = required(whole("hidden", "hidden size")),
  layers = required(whole("layers", "transformer layers")),
  heads = required(whole("heads", "attention heads")),
  kv_heads = whole("kv_heads", "heads of keys and values; default heads"),
  head_dim = whole("head_dim", "default hidden / heads"),
  ffn = whole("ffn", "width of a dense MLP; default 4 * hidden unless gated"),
  gated = { type = "boolean", doc = "three MLP matrices (SwiGLU), not two" },
  vocab = required(whole("vocab", "vocabulary, not padded")),
  positions = whole("positions", "learned position embeddings", 0),
  tied = { type = "boolean", doc = "embedding and head share their weights" },
  norm_parameters = whole("norm_parameters", "of a norm, in units of hidden: 1 RMS norm, 2 layer norm with bias"),
  bias = { type = "boolean", doc = "linear layers have biases" },
  experts = whole("experts", "experts of an MoE layer; 0 dense", 0),
  experts_per_token = whole("experts_per_token", "experts that see a token", 0),
  expert_ffn = whole("expert_ffn", "width of an expert", 0),
  shared_expert_ffn = whole("shared_expert_ffn", "total width of shared experts", 0),
  layer_mlp = kinds("one a layer; default 'moe' if there are experts", "dense", "moe"),
  layer_attention = kinds("one a layer; default 'sliding' if there is a window", "full", "sliding"),
  window = whole("window", "tokens that sliding attention sees", 0),
  mla = {
    type = "table", doc = "multi-head latent attention",
    fields = {
      q_lora_rank = whole("q_lora_rank", "0: queries straight from the hidden state", 0),
      kv_lora_rank = required(whole("kv_lora_rank", "rank of the latent keys and values")),
      qk_nope_head_dim = required(whole("qk_nope_head_dim", "part of a head without rotary positions")),
      qk_rope_head_dim = required(whole("qk_rope_head_dim", "part with them")),
      v_head_dim = required(whole("v_head_dim", "of a value")),
    },
  },
  mtp_layers = whole("mtp_layers", "multi-token prediction layers; not planned", 0),
}

local function fill_head_dim(m, where)
  if m.mla then
    m.head_dim = m.head_dim or m.mla.qk_nope_head_dim + m.mla.qk_rope_head_dim
  elseif not m.head_dim and m.hidden % m.heads ~= 0 then
    error(("%s: head_dim: missing, and hidden = %d is not a multiple of heads = %d"):format(where, m.hidden, m.heads), 0)
  end
  m.head_dim = m.head_dim or m.hidden // m.heads
end

local function fill_ffn(m, where)
  if m.ffn then return end
  if m.gated and m.experts == 0 then schema.fail(where .. ": ffn", nil, schema.expected(model.fields.ffn)) end
  m.ffn = m.gated and math.max(m.expert_ffn, 1) or 4 * m.hidden
end

local function fill_layers(m, field, kind, where)
  if not m[field] then
    m[field] = core.array {}
    for i = 1, m.layers do m[field][i] = kind end
  elseif #m[field] ~= m.layers then
    error(("%s: %s: got %d items, expected one a layer, %d"):format(where, field, #m[field], m.layers), 0)
  end
end

local function fill(m, where)
  local family <const> = families[m.family]
  for field, value in pairs { gated = family.gated, tied = family.tied, bias = family.bias, norm_parameters = family.norm } do
    if m[field] == nil then m[field] = value end
  end
  m.kv_heads = m.kv_heads or m.heads
  fill_head_dim(m, where)
  fill_ffn(m, where)
  fill_layers(m, "layer_mlp", m.experts > 0 and "moe" or "dense", where)
  fill_layers(m, "layer_attention", m.window > 0 and "sliding" or "full", where)
  m.name = m.name or ("%s-%dx%d"):format(m.family, m.layers, m.hidden)
  return m
end

--- The checked description of a recipe's table, defaults filled in; raises one line. A description passes unchanged.
---@param value table see model.fields
---@param where string? what it is and where it stands, for messages
---@param key_of table<string, string>? names of the fields where they come from, for messages
---@return table description
function model.new(value, where, key_of)
  where = where or "model"
  local m <const> = fill(schema.check(value, model.fields, where), where)
  local ok <const>, why <const> = core.model_check(m)
  if not ok then error(("%s: %s"):format(where, why:gsub("^[%w_]+", key_of or {})), 0) end
  return m
end

--- `base/name.json` gives name, `name/config.json` too.
local function name_of(path)
  local folder <const>, base = path:match "([^/]*)/?([^/]*)$"
  base = base:gsub("%.%w+$", "")
  if base ~= "config" and base ~= "" then return base end
  return folder ~= "" and folder ~= "." and folder ~= ".." and folder or nil
end

--- Bytes of a file; some fifty times what the largest published ones take.
local largest_config <const>, largest_arguments <const> = 1 << 20, 256 << 10

--- A description from what a file holds: a Hugging Face config.json or Megatron's arguments.
local function parse(text, options)
  local megatron_args <const> = require "tangram.input.megatron_args"
  if not text:find "^[\xEF\xBB\xBF%s]*[{[]" and megatron_args.is(text) then
    if #text > largest_arguments then
      error(("%s: over %d KiB, expected Megatron's arguments"):format(options.file, largest_arguments >> 10), 0)
    end
    return megatron_args.parse(text, options)
  end
  return require "tangram.input.hf".parse(text, options)
end

local function read_file(path, options)
  local text <const> = files.read(path, largest_config, "a model's config.json or Megatron's arguments")
  return parse(text, { family = options.family, name = options.name or name_of(path), file = path, vocab = options.vocab })
end

local of_reading <const> = { file = true, family = true, name = true, vocab = true }

--- A table { file =, family =, vocab =, … }: what the file says, and the other fields over it.
local function read_with_changes(source)
  if type(source.file) ~= "string" then schema.fail("model: file", source.file, "the path of a model's file") end
  local vocab <const> = source.vocab and schema.value(source.vocab, model.fields.vocab, "model: vocab")
  local description <const>, warnings <const> = read_file(source.file, { family = source.family, name = source.name, vocab = vocab })
  for field, value in pairs(source) do
    if not of_reading[field] then description[field] = value end
  end
  return model.new(description), warnings
end

--- A description from a recipe's table, which may name a file to start from; from the path of a config.json or of a file with
--- Megatron's arguments; or from the text of a config.json (which starts with a brace). Raises one line.
---@param source table|string
---@param options { family: string?, name: string?, vocab: integer? }? vocab: where the file leaves the vocabulary to a tokenizer
---@return table description
---@return string[] warnings
function model.read(source, options)
  if type(source) == "table" then
    if source.file ~= nil then return read_with_changes(source) end
    return model.new(source), {}
  end
  options = options or {}
  if source:find "^%s*{" then return parse(source, options) end
  return read_file(source, options)
end

return setmetatable(model, { __call = function(_, ...) return model.read(...) end })
