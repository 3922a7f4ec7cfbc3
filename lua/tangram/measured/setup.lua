--- A measured row as inputs of the planner's parts: model, training, strategy, stages, machine. Raises one line for a row that
--- can't be expressed.
local families <const> = require "tangram.families"
local machine <const> = require "tangram.measured.machine"
local models <const> = require "tangram.model"
local sources <const> = require "tangram.measured.sources"
local training <const> = require "tangram.training"

local setup <const> = {}

--- A reader of columns that notes what it had to assume.
local function reader(row, source)
  local assumed <const>, defaults <const> = {}, source.assume or {}
  local function get(name, otherwise)
    if row[name] ~= nil then return row[name] end
    local value = defaults[name]
    if value == nil then value = otherwise end
    if value == nil then error(name .. ": not stated", 0) end
    assumed[#assumed + 1] = ("%s %s"):format(name, value)
    return value
  end
  return get, assumed
end

--- Families by words of models' names; a model of none of them is plain if its MLP is four times its hidden size.
local NAMES <const> = {
  { "mixtral", "mixtral" }, { "mistral", "mistral" }, { "llama", "llama" }, { "qwen", "qwen3" }, { "deepseek", "deepseek_v3" },
  { "kimi", "deepseek_v3" }, { "gemma", "gemma" }, { "nemotron", "gpt_neox" }, { "gpt%-oss", "gpt_oss" }, { "gpt", "gpt2" },
  { "opt", "opt" }, { "mpt", "bloom" }, { "bloom", "bloom" },
}

local function family_of(row)
  local name <const> = (row.model or ""):lower()
  for _, pair in ipairs(NAMES) do
    if name:find(pair[1]) then return pair[2] end
  end
  return row.ffn and row.ffn ~= 4 * row.hidden and "llama" or "gpt2"
end

--- DeepSeek's published shapes: latent attention, shared experts, leading dense layers (one in shortened models).
local function add_deepseek(m, row)
  local name <const> = row.model:lower()
  local v2 <const>, lite <const> = name:find "v2", name:find "lite"
  m.mla = { q_lora_rank = lite and 0 or 1536, kv_lora_rank = 512, qk_nope_head_dim = 128, qk_rope_head_dim = 64, v_head_dim = 128 }
  m.head_dim, m.shared_expert_ffn, m.layer_mlp = nil, (row.moe_ffn or 0) * (v2 and 2 or 1), {}
  local dense <const> = row.layers < 20 and 1 or v2 and 1 or 3
  for i = 1, row.layers do m.layer_mlp[i] = i <= dense and "dense" or "moe" end
end

local function model_of(row, source, get)
  local family <const>, known <const> = family_of(row), (source.shapes or {})[row.model] or {}
  local heads <const> = known.heads or get("heads", math.max(1, row.hidden // 128))
  local m <const> = {
    name = row.model, family = family, hidden = row.hidden, layers = row.layers, heads = heads, kv_heads = known.kv_heads or row.kv_heads,
    head_dim = known.head_dim or row.head_dim or row.hidden // heads, vocab = known.vocab or get("vocab", 51200),
    ffn = row.ffn or not families[family].gated and 4 * row.hidden or nil, experts = row.n_experts or 0,
    experts_per_token = row.topk or 0, expert_ffn = row.n_experts and row.n_experts > 0 and get("moe_ffn", row.ffn) or 0,
  }
  if m.experts == 0 then m.experts_per_token, m.expert_ffn = 0, 0 end
  if family == "deepseek_v3" and m.experts > 0 then add_deepseek(m, row) end
  return models.new(m)
end

--- The first word of a list that a text holds, or nil.
local function first_of(words, text)
  text = text:lower()
  for _, pair in ipairs(words) do
    if text:find(pair[1]) then return pair[2] end
  end
end

local PRECISIONS <const> = { { "fp8", "fp8" }, { "float8", "fp8" }, { "bf16", "bf16" }, { "bfloat16", "bf16" }, { "fp16", "fp16" },
  { "float16", "fp16" }, { "fp32", "fp32" }, { "float32", "fp32" }, { "tf32", "fp32" } }
local function precision_of(text)
  return first_of(PRECISIONS, text) or error(("precision: got '%s', expected bf16, fp16, fp8 or fp32"):format(text), 0)
end

local RECOMPUTE <const> = { { "full", "full" }, { "uniform", "full" }, { "block", "full" }, { "sel", "selective" }, { "^op", "selective" },
  { "^no", "none" }, { "^off", "none" }, { "^false", "none" }, { "^0$", "none" }, { "^unknown", "none" }, { "^yes", "full" },
  { "^on", "full" }, { "^true", "full" }, { "^1$", "full" } }
local function recompute_of(text)
  return first_of(RECOMPUTE, text) or error(("recompute: got '%s', expected none, selective or full"):format(text), 0)
end

--- ZeRO stage; "2+sdp" shards gradients, as a plain 2 does; FSDP shards all.
local function zero_of(text)
  local stage <const> = text:lower():find "sdp" and not text:match "^%d" and 3 or tonumber(text:match "%d")
  if not stage or stage > 3 then error(("zero: got '%s', expected 0 to 3"):format(text), 0) end
  return math.tointeger(stage)
end

--- Layers of each of `count` stages or chunks, front first.
local function layers_by_stage(row, count)
  local layers <const> = {}
  if row.layer_split then
    local total = 0
    for part in row.layer_split:gmatch "%d+" do
      layers[#layers + 1] = math.tointeger(tonumber(part))
      total = total + layers[#layers]
    end
    -- embedding and head counted as a layer each (Sailor), or as three each (DeepSpeed's pipeline of GPT)
    local ends <const> = total - row.layers
    if #layers ~= count or ends ~= 0 and ends ~= 2 and ends ~= 6 then
      error(("layer_split: %d parts that add up to %d, expected %d parts and %d, %d or %d"):format(#layers, total, count, row.layers,
        row.layers + 2, row.layers + 6), 0)
    end
    layers[1] = layers[1] - ends // 2
    layers[count] = layers[count] - ends // 2
    return layers
  end
  local as_layers <const> = row.layers % count ~= 0 and (row.layers + 2) % count == 0 and count > 1 -- both ends take a layer's place
  local all <const> = row.layers + (as_layers and 2 or 0)
  for i = 1, count do layers[i] = all // count + (i <= all % count and 1 or 0) end
  if as_layers then layers[1], layers[count] = layers[1] - 1, layers[count] - 1 end
  return layers
end

--- First and last atom of each stage or chunk.
local function bounds_of(row, count)
  local bounds <const>, first = {}, 1
  for i, layers in ipairs(layers_by_stage(row, count)) do
    local last <const> = first + layers - 1 + (i == 1 and 1 or 0) + (i == count and 1 or 0)
    if layers < 0 or last < first then error(("layer_split: part %d holds nothing"):format(i), 0) end
    bounds[i] = { first, last }
    first = last + 1
  end
  return bounds
end

--- Chunks of a rank. Megatron-Core's runs interleave: where a row says nothing, four, or the most below that the layers allow.
local function chunks_of(row, get, pp, interleaves)
  if row.vpp or pp == 1 then return row.vpp or 1 end
  for v = interleaves and 4 or 1, 2, -1 do
    if row.layers % (pp * v) == 0 or (row.layers + 2) % (pp * v) == 0 then return get("vpp", v) end
  end
  return get("vpp", 1)
end

--- Degrees that multiply to the GPUs. A source that counts expert parallelism beside data parallelism has ep times the replicas.
local function degrees_of(row, get, interleaves)
  local d <const> = { tp = get("tp", 1), pp = get("pp", 1), cp = get("cp", 1), ep = get("ep", 1) }
  d.vpp = chunks_of(row, get, d.pp, interleaves)
  local others <const> = d.tp * d.pp * d.cp
  d.dp = row.dp or row.n_gpus // others
  if others * d.dp ~= row.n_gpus and others * d.dp * d.ep == row.n_gpus then d.dp, d.outer_ep = d.dp * d.ep, d.ep end
  if others * d.dp ~= row.n_gpus then
    error(("tp, pp, dp, cp: multiply to %d, expected n_gpus = %d"):format(others * d.dp, row.n_gpus), 0)
  end
  return d
end

--- Samples a replica and microbatch, and microbatches.
local function batch_of(row, d, get)
  local a_replica <const> = row.gbs // d.dp
  if a_replica < 1 then error(("gbs: got %d, expected at least one sample for each of dp = %d"):format(row.gbs, d.dp), 0) end
  local mbs = get("mbs", d.pp > 1 and 1 or a_replica)
  if d.outer_ep then mbs = math.max(1, mbs // d.outer_ep) end
  mbs = math.min(mbs, a_replica)
  return mbs, a_replica // mbs
end

--- Which software's constants hold: the row's own word, its source's, or what its schedule and generation say.
local function stack_of(row, source)
  if row.stack or source.stack then return row.stack or source.stack end
  local schedule <const> = (row.schedule or ""):lower()
  if schedule:find "fsdp" then return "fsdp" end
  if schedule:find "deepspeed" then return "megatron-deepspeed" end
  if (row.zero or ""):find "^3" and (row.tp or 1) * (row.pp or 1) == 1 then return "fsdp" end -- Megatron shards no weights
  return "megatron"
end

--- Sizes beyond which a row is a slip of the pen.
local MOST <const> = { n_gpus = 1 << 17, gpus_per_node = 1 << 10, layers = 1 << 12, hidden = 1 << 20, gbs = 1 << 20, mbs = 1 << 20,
  tp = 1 << 10, pp = 1 << 10, vpp = 1 << 8, dp = 1 << 17, cp = 1 << 10, ep = 1 << 12 }
local MOST_OPERATIONS <const> = 1 << 23 -- of a simulation: stages times microbatches

local RECENT <const> = { Hopper = true, Blackwell = true }

---@param row table of measured.rows
---@param gpus table<string, table> GPUs' own records
---@return table { model, training, strategy, pp, vpp, bounds, microbatches, ranks, network, stack, constants, p2p?, partitioned?,
---  imbalance?, search, assumed }
function setup.of(row, gpus)
  if row.wrong then error(row.wrong, 0) end
  for _, name in ipairs { "gpu", "n_gpus", "layers", "hidden", "gbs" } do
    if not row[name] then error(name .. ": not stated", 0) end
  end
  for name, most in pairs(MOST) do
    local value <const> = row[name]
    if value and (value < 1 or value > most) then error(("%s: got %d, expected 1 to %d"):format(name, value, most), 0) end
  end
  local source <const> = sources.of(row)
  local get <const>, said <const> = reader(row, source)
  local assumed = said
  local ranks <const> = machine.ranks(row, gpus, source)
  local per_node <const> = math.min(get("gpus_per_node", 8), machine.shortest_run(ranks)) -- a node has one type
  local recent <const> = RECENT[ranks[1].arch]
  local model <const> = model_of(row, source, get)
  local stack <const> = stack_of(row, source)
  local d <const> = degrees_of(row, get, recent and stack == "megatron" and not (row.schedule or ""):find "^1F1B" and not row.layer_split)
  local mbs <const>, microbatches <const> = batch_of(row, d, get)
  if d.pp * d.vpp * microbatches > MOST_OPERATIONS then
    error(("gbs, mbs: %d microbatches over %d stages, expected no more than %d together"):format(microbatches, d.pp * d.vpp,
      MOST_OPERATIONS), 0)
  end
  local search <const> = row.search == 1
  if search then assumed = { "the plan, the best one found" } end
  local network <const>, network_assumed <const> = machine.network(row, source, ranks[1])
  if network_assumed and row.n_gpus > per_node then assumed[#assumed + 1] = network_assumed end
  local sp = row.seq_par == 1
  if row.seq_par == nil then sp = recent or false end
  return {
    model = model, pp = d.pp, vpp = d.vpp, bounds = bounds_of(row, d.pp * d.vpp), microbatches = microbatches, ranks = ranks,
    gpus_per_node = per_node, network = network, stack = stack, constants = source.constants or {},
    assumed = assumed,
    training = training.check {
      global_batch = mbs * d.dp * microbatches, seq_len = get("seq"), precision = precision_of(get("precision", "bf16")),
      gradient_bytes = source.gradient_bytes or 2, attention = source.attention or "auto", dropout = source.dropout or false,
    },
    strategy = {
      dp = d.dp, tp = d.tp, cp = d.cp, ep = d.ep, zero = zero_of(get("zero", stack == "fsdp" and "3" or recent and "1" or "0")),
      fsep = row.fsep == 1, recompute = recompute_of(get("recompute", "none")), sp = sp and d.tp > 1,
    },
    attention_square = source.attention_square or false, p2p = source.p2p, partitioned = source.partitioned,
    imbalance = row.imbalance, search = search,
  }
end

return setup
