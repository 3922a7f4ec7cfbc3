--- Feeds damaged input to every parser that Lua reaches: `build/tangram tests/fuzz/mutate.lua SECONDS [SEED [NAME]]`, to that of
--- NAME alone if given.
--- Found is a crash, more than a second of the processor, or an error that is not one line written for people. The last line says how many
--- inputs were tried; a find stops the run with status 1 and leaves the input in build/fuzz-find.txt.
local core <const> = require "tangram.core"

local seconds <const>, seed <const> = tonumber(arg[1]) or 5, math.tointeger(tonumber(arg[2])) or os.time()
local LIMIT_S <const> = 1
math.randomseed(seed)

local function read(path)
  local file <close> = assert(io.open(path, "rb"))
  return file:read "a"
end

--- A parser takes text; it returns what it read, returns nil and a sentence, or raises a sentence.
local targets <const> = {}

local function target(name, seeds, parse)
  if not arg[3] or arg[3] == name then targets[#targets + 1] = { name = name, seeds = seeds, parse = parse } end
end

--- A parser of a Lua table, by way of JSON.
local function of_table(check)
  return function(text)
    local value <const>, why <const> = core.json_decode(text)
    if value == nil then return nil, why end
    return check(value)
  end
end

local models <const> = { read "recipes/models/llama-3.1-8b.json", read "recipes/models/qwen3-30b-a3b.json" }
local plan <const> = read "tests/golden/plan.json"

target("json", { plan, models[1], '{"a":[1,2.5e-3,null,true,"\\u00e9\\n"],"b":{}}' }, function(text)
  local value <const>, why <const> = core.json_decode(text)
  if value == nil then return nil, why end
  local again <const> = core.json_encode(value)
  assert(core.json_encode(core.json_decode(again)) == again, "the round trip changes it")
end)

target("model", models, function(text) return (require "tangram.input.hf".parse(text, {})) end)

target("megatron args", {
  "L=6\nARGS=(\n --num-layers $L --hidden-size \"64\" --num-attention-heads=4 --vocab-size ${V:-99} # words\n --swiglu \\\n"
    .. "--group-query-attention --num-query-groups 2 --num-experts 4 --moe-layer-freq '([0]*2+[1]*4)' --window-size 7,0\n"
    .. "--position-embedding-type rope)\npython pretrain_gpt.py ${ARGS[@]} --mtp-num-layers 1",
  "MODEL_ARGS:\n  --num-layers: 4 # four\n  --hidden-size: 64\n  --num-attention-heads: 4\n  --vocab-size: '99'\n"
    .. "  --max-position-embeddings: 32\n  --multi-latent-attention: true\n  --kv-lora-rank: 8\n",
  "system:\n  disable_bias_linear: True\nmodel:\n  num_layers: 4\n  hidden_size: 64\n  num_attention_heads: 4\n"
    .. "  swiglu: true\n  multiple_of: 32\n  use_rotary_position_embeddings: true\ndata:\n  tokenizer:\n    vocab_size: 99\n",
}, function(text) return (require "tangram.input.megatron_args".parse(text, {})) end)

target("integer list", { "([0]*3+[1]*58)", "'[0,1]*12'", "2*([1]+[0, 0])" }, function(text)
  local value <const> = require "tangram.input.integer_list"(text)
  assert(value == nil or type(value) == "table" or math.type(value), "neither a number nor a list")
end)

target("foreign plan", {
  '{"pp_deg":2,"tp_sizes_enc":"2,2,1","dp_types_enc":"0,1,0","checkpoint":"1,0,0","pp_division":"2,1","global_bsz":8,"chunks":4,"vtp":2}',
  '{"pipeline_list":[{"num_stages":2,"layers_per_stage":[[0,1],[2,3,4]],"dp":[2,2],"tmp_per_stage":[[[[["A",2,"z"]],2],[[["B",2,"z"]],2]],'
    .. '[[[["A",1,"z"]],1],[[["A",1,"z"]],1]]]}],"mbs":2,"gbs":16}',
  "system:\n  hetero:\n    hetero_process_meshes: [2, 1, 1, 1, 1, 1, 1, 1, 2, 2]\n    hetero_pipeline_layer_split: [3, 2, 1]\n"
    .. "model:\n  num_layers: 6\n  global_batch_size: 8\n  micro_batch_size: 2\n",
}, function(text)
  local foreign <const> = require "tangram.input.foreign_plan"
  return foreign.text(foreign.read(text))
end)

target("model table", {
  '{"family":"gpt2","hidden":1024,"layers":4,"heads":16,"vocab":51200}',
  '{"family":"llama","hidden":64,"layers":2,"heads":8,"kv_heads":2,"ffn":128,"gated":true,"vocab":100,"experts":4,'
    .. '"experts_per_token":2,"expert_ffn":32,"layer_mlp":["dense","moe"],"window":16,"layer_attention":["full","sliding"]}',
}, of_table(function(value) return require "tangram.model".new(value) end))

target("training", {
  '{"global_batch":96,"seq_len":2048,"precision":"auto","gradient_bytes":2,"attention":"flash","dropout":true,'
    .. '"memory_margin":0.1,"microbatches":{"min":4,"max":96}}',
  '{"global_batch":1024,"seq_len":4096,"optimizer":"adam","microbatches":[8,64]}',
}, of_table(function(value) return require "tangram.training".check(value) end))

target("cluster", {
  '{"format":"tangram.cluster/1","nodes":['
    .. '{"name":"a1","gpu":"a100-pcie-80","gpus":4,"intra_bytes_per_s":{"2":2.53e11,"4":4.4e10},"memory_bytes":85899345920},'
    .. '{"name":"v","count":3,"gpu":"my-gpu","gpus":8,"intra_bytes_per_s":1e10}],'
    .. '"network":{"default":{"bytes_per_s":3e9,"latency_s":2e-5},'
    .. '"links":[{"between":["a1","v-1"],"bytes_per_s":{"1":2.45e9,"2":4.36e9},"latency_s":2e-5}]},'
    .. '"gpus":{"my-gpu":{"fp16_flops":1e14,"memory_bytes":34359738368,"memory_bytes_per_s":9e11}}}',
}, of_table(function(value)
  local cluster <const> = require "tangram.cluster"
  return cluster.build(cluster.describe(value, "fuzz.json"))
end))

target("units", { "80 GiB", "25 Gb/s", "312 TFLOP/s", "20 us", "1.5e3 MB/s", "0.5 min" }, function(text)
  local units <const> = require "tangram.units"
  for _, name in ipairs { "bytes", "bytes_per_s", "flops", "seconds" } do
    local value <const>, why <const> = units[name](text)
    assert(value or type(why) == "string", "neither a value nor a sentence")
    assert(not value or value >= 0 and value < math.huge, "a value out of range")
  end
end)

--- The readers of clusters, from the fixtures of their specs: KIND.VARIANT.txt.
local fixtures <const> = {}
local listing <close> = assert(io.popen "ls tests/spec/fixtures/inputs/*")
for path in listing:lines() do
  local kind <const> = path:match "([^/.]+)[^/]*$"
  fixtures[kind] = fixtures[kind] or {}
  table.insert(fixtures[kind], read(path))
end
local kinds <const> = require "tangram.input.kinds"
for _, module in ipairs(kinds) do
  local reader <const> = kinds.reader(module)
  target(reader.kind, assert(fixtures[reader.kind], reader.kind), function(text)
    local sure <const> = reader.sniff(text)
    assert(sure >= 0 and sure <= 1, "a guess out of range")
    return reader.read(text)
  end)
end
target("joined cluster", fixtures["slurm-nodes"] and {
  fixtures["slurm-nodes"][1], fixtures["sinfo"][2], fixtures["kubernetes"][3], fixtures["hostfile"][1], fixtures["ray"][1],
} or {}, function(text)
  local read_facts <const>, why <const> = kinds.read(text)
  if not read_facts then return nil, why end
  local sources <const> = { { path = "damaged", facts = read_facts } }
  local first <const> = read_facts.nodes[1]
  if first and first.name and require "tangram.input.hostlist".expand(first.name) then
    sources[2] = { path = "topo", node = first.name, facts = kinds.read(fixtures["nvidia-smi-topo"][1]) }
  end
  local description <const>, refusal <const> = require "tangram.input.join".cluster(sources, { bytes_per_s = { "1 GB/s", "leaf=2e9" },
    gpu_types = { ["*"] = "t4", v100 = "v100-pcie-16", a100 = "a100-pcie-40" } })
  return description, not description and refusal or nil
end)
target("hostlist", { "gpu[001-003,7],x1", "r[1-2]n[01-16]-ib,login", "rack[1-3]" }, require "tangram.input.hostlist".expand)

local numbers <const> = {
  "0", "-1", "1.5", "1e308", "-1e308", "5e-324", "1e999", "9223372036854775807", "9007199254740993", "2147483648", "-0.0", "NaN",
  "16777216", "3",
}
local tokens <const> = {
  "null", "true", "{}", "[]", '""', '"x"', "[[[[", '{"a":', ",", "\0", "\n", "\\u0000", "\xff\xfe", '"\\ud800"', "é", "%s%n", "-", "e", " ",
  "\t", "GPU0", " X ", "NV12", "N/A", "[N/A]", "# ", "<pci>", "<!--", "\27[4m", "\r\n", "(", "[001-003]",
}

local function pick(list) return list[math.random(#list)] end

--- A random span of the text.
local function span(text)
  local first <const> = math.random(#text + 1)
  return first, math.min(#text, first + math.random(0, math.random(2) == 1 and 3 or 40))
end

local mutations <const> = {
  function(text) -- another number
    local spots <const> = {}
    for first, last in text:gmatch "()%-?%d[%d.eE+-]*()" do spots[#spots + 1] = { first, last } end
    if #spots == 0 then return text end
    local spot <const> = pick(spots)
    return text:sub(1, spot[1] - 1) .. pick(numbers) .. text:sub(spot[2])
  end,
  function(text) -- a field or element gone, or there twice
    local spots <const> = {}
    for first, last in text:gmatch "[{%[,]()[^{}%[%],]*()" do spots[#spots + 1] = { first, last } end
    if #spots == 0 then return text end
    local spot <const> = pick(spots)
    local part <const> = math.random(2) == 1 and "" or text:sub(spot[1], spot[2] - 1) .. "," .. text:sub(spot[1], spot[2] - 1)
    return text:sub(1, spot[1] - 1) .. part .. text:sub(spot[2])
  end,
  function(text) -- another value of any kind
    local spots <const> = {}
    for first, last in text:gmatch ':()[^,{}%[%]]+()' do spots[#spots + 1] = { first, last } end
    if #spots == 0 then return text end
    local spot <const> = pick(spots)
    return text:sub(1, spot[1] - 1) .. pick(math.random(2) == 1 and numbers or tokens) .. text:sub(spot[2])
  end,
  function(text) -- a byte
    local at <const> = math.random(#text + 1)
    return text:sub(1, at - 1) .. string.char(math.random(0, 255)) .. text:sub(at + 1)
  end,
  function(text) -- a span gone
    local first <const>, last <const> = span(text)
    return text:sub(1, first - 1) .. text:sub(last + 1)
  end,
  function(text) -- a span again, elsewhere
    local first <const>, last <const> = span(text)
    local at <const> = math.random(#text + 1)
    return text:sub(1, at - 1) .. text:sub(first, last) .. text:sub(at)
  end,
  function(text) -- a line gone, or there twice
    local spots <const> = {}
    for first, last in text:gmatch "()[^\n]*\n()" do spots[#spots + 1] = { first, last } end
    if #spots == 0 then return text end
    local spot <const> = pick(spots)
    local line <const> = math.random(2) == 1 and "" or text:sub(spot[1], spot[2] - 1):rep(2)
    return text:sub(1, spot[1] - 1) .. line .. text:sub(spot[2])
  end,
  function(text) return text:sub(1, math.random(0, #text)) end,
  function(text)
    local at <const> = math.random(#text + 1)
    return text:sub(1, at - 1) .. pick(tokens) .. text:sub(at)
  end,
}

--- What no message for people holds: the place of Lua code, a traceback, Lua's own words.
local slips <const> = { "^tangram[%w_.]*:%d", "attempt to ", "bad argument", "assertion failed", "stack overflow", "\n" }

--- Nil if the parser kept its promise, or what it did.
local function wrong(parse, text)
  local start_s <const> = os.clock() -- seconds of the processor: a busy machine is no find
  local _ <const>, ok <const>, value <const>, refusal <const> = core.limited(20 * LIMIT_S, pcall, parse, text)
  if os.clock() - start_s > LIMIT_S then return ("took %.1f s"):format(os.clock() - start_s) end
  if ok and not refusal then return nil end
  local why <const> = ok and refusal or value
  if type(why) ~= "string" or why == "" then return "an error that is no sentence: " .. tostring(why) end
  for _, slip in ipairs(slips) do
    if why:find(slip) then return "not a sentence for people: " .. why end
  end
end

local function found(one, text, what)
  local file <close> = assert(io.open("build/fuzz-find.txt", "wb"))
  file:write(text)
  print(("%s: %s\nseed %d; the input is in build/fuzz-find.txt"):format(one.name, what, seed))
  os.exit(1, true)
end

if #targets == 0 then error(("no parser '%s'"):format(arg[3]), 0) end
for _, one in ipairs(targets) do
  for _, text in ipairs(one.seeds) do
    local ok <const>, value <const>, why <const> = pcall(one.parse, text)
    if not ok or value == nil and why then found(one, text, "a seed is refused: " .. tostring(why or value)) end
  end
end

local tried, until_s = 0, core.clock_s() + seconds
while core.clock_s() < until_s do
  local one <const> = targets[tried % #targets + 1]
  local text = pick(one.seeds)
  for _ = 1, math.random(4) do text = pick(mutations)(text) end
  local what <const> = wrong(one.parse, text)
  if what then found(one, text, what) end
  tried = tried + 1
end
print(("%d inputs, nothing found (seed %d)"):format(tried, seed))
