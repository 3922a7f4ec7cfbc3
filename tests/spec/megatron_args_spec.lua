local core <const> = require "tangram.core"
local integer_list <const> = require "tangram.input.integer_list"
local megatron_args <const> = require "tangram.input.megatron_args"
local model <const> = require "tangram.model"
local support <const> = require "tests.spec.support"

local function read(text, vocab) return megatron_args.parse(text, { vocab = vocab, file = "args" }) end

--- GPT-3 175B and DeepSeek-V3 as scripts: their numbers of parameters are published.
local gpt3 <const> = [[
#!/bin/bash
LAYERS=96
HIDDEN=12288
# --num-layers 3 is what we had before
torchrun --nproc-per-node 8 pretrain_gpt.py \
  --num-layers $LAYERS --hidden-size "${HIDDEN}" --num-attention-heads ${HEADS:-96} \
  --seq-length 2048 --max-position-embeddings 2048 --vocab-size=50257 # of GPT-2
]]
local deepseek <const> = [[
MODEL_ARGS=(
    --num-layers 61
    --hidden-size 7168 --ffn-hidden-size 18432 --num-attention-heads 128
    --swiglu --normalization RMSNorm --disable-bias-linear --untie-embeddings-and-output-weights
    --position-embedding-type rope --multi-latent-attention --q-lora-rank 1536 --kv-lora-rank 512
    --qk-head-dim 128 --qk-pos-emb-head-dim 64 --v-head-dim 128
    --num-experts 256 --moe-router-topk 8 --moe-ffn-hidden-size 2048 --moe-shared-expert-intermediate-size 2048
    --moe-layer-freq "'([0]*3+[1]*58)'" --mtp-num-layers 1 --vocab-size 129280
)
python pretrain_gpt.py ${MODEL_ARGS[@]}
]]
local yaml <const> = [[
ENV_VARS:
  CUDA_DEVICE_MAX_CONNECTIONS: 1
MODEL_ARGS:
  --num-layers: 6   # short
  --hidden-size: 384
  --num-attention-heads: 6
  --seq-length: 512
  --max-position-embeddings: 512
  --data-path: ${DATA}/a: b
  --untie-embeddings-and-output-weights: true
  --bf16: true
TEST_TYPE: regular
]]
local flagscale <const> = [[
system:
  tensor_model_parallel_size: 2
  disable_bias_linear: True
  hetero:
    # hetero_pipeline_layer_split: [4, 2]
    hetero_pipeline_layer_split: [5, 3]
model:
  num_layers: 8
  hidden_size: 5120
  num_attention_heads: 40
  max_position_embeddings: 4096
  use_rotary_position_embeddings: true
  swiglu: true
  multiple_of: 256
  normalization: RMSNorm
  untie_embeddings_and_output_weights: true
  optimizer:
    num_layers: 99
data:
  tokenizer:
    vocab_size: 32000
]]
local bridge <const> = [[
model:
  num_layers: 4
  hidden_size: 512
  num_attention_heads: 8
  num_query_groups: 2
  kv_channels: 128
  ffn_hidden_size: 1536
  gated_linear_unit: true
  add_bias_linear: false
  normalization: "RMSNorm"   # as Qwen
  position_embedding_type: rope
  share_embeddings_and_output_weights: false
  vocab_size: 1000
train:
  global_batch_size: 64
]]

describe("Megatron's arguments", function()
  it("are read from a script: arrays, variables, comments, continued lines", function()
    local d <const>, warnings <const> = read(gpt3)
    -- 175 B: 96 (12 h² + 13 h) + 2h + (50257 + 2048) h
    assert.equal(96 * (12 * 12288 ^ 2 + 13 * 12288) + 2 * 12288 + (50257 + 2048) * 12288, (core.model_parameters(d)))
    assert.same({ true, true, 2, 2048, 49152 }, { d.tied, d.bias, d.norm_parameters, d.positions, d.ffn })
    assert.same({ "ffn-hidden-size is not in the file; Megatron's default, 49152" }, warnings)
  end)

  it("give the published size of DeepSeek-V3, with dense layers by expression and latent attention", function()
    local d <const>, warnings <const> = read(deepseek)
    assert.near(671.0, core.model_parameters(d) / 1e9, 0.05)
    assert.same({ "3 dense 58 moe", 1536, 192, 8, 2048, 0, 1 }, { support.runs(d.layer_mlp), d.mla.q_lora_rank, d.head_dim,
      d.experts_per_token, d.shared_expert_ffn, d.positions, d.mtp_layers })
    assert.same({ "1 multi-token prediction layer is not planned" }, warnings)
    local quoted <const> = 'ARGS="' .. deepseek:match "%(%s*(.-)%s*%)\npython":gsub("\n", " \\\n"):gsub("\"'.-'\"", "([0]*3+[1]*58)")
      .. '"\npretrain_gpt.py $ARGS'
    assert.same(d, (read(quoted)))
  end)

  it("are read from YAML maps of flags", function()
    local d <const> = read(yaml, 1000)
    assert.same({ 6, 384, 6, 64, 1536, false, false, 512, 1000 }, { d.layers, d.hidden, d.heads, d.head_dim, d.ffn, d.gated, d.tied,
      d.positions, d.vocab })
  end)

  it("are read from FlagScale's blocks, with its width of SwiGLU", function()
    local d <const> = read(flagscale)
    -- multiple_of: 256 * ceil(int(4 * 5120 * 2 / 3) / 256) = 256 * ceil(13653 / 256) = 13824, as LLaMA 13B has it
    assert.same({ 8, 13824, true, false, false, 1, 0, 32000 }, { d.layers, d.ffn, d.gated, d.tied, d.bias, d.norm_parameters,
      d.positions, d.vocab })
    assert.equal(13632, read((flagscale:gsub("  multiple_of: 256\n", ""))).ffn) -- int(13653.33 / 64) * 64
  end)

  it("are read from a block of Megatron-Bridge and its overrides, where KV heads need no second flag", function()
    local d <const> = read(bridge)
    assert.same({ 2, 128, 1536, true, false, false, 1, 0 }, { d.kv_heads, d.head_dim, d.ffn, d.gated, d.tied, d.bias,
      d.norm_parameters, d.positions })
    local overrides <const> = {}
    for name, value in bridge:match "model:\n(.-)train:":gmatch "(%w[%w_]*): ([^\n#]*)" do
      overrides[#overrides + 1] = ("  cfg.model.%s = %s,"):format(name, value)
    end
    assert.same(d, (read(table.concat(overrides, "\n"))))
  end)

  it("ignore KV heads without group-query-attention, as Megatron does, and say so", function()
    local text <const> = gpt3 .. " --num-query-groups 8"
    local d <const>, warnings <const> = read(text)
    assert.equal(96, d.kv_heads)
    assert.matches("num%-query%-groups = 8 is ignored", warnings[1])
    assert.equal(8, read(text .. " --group-query-attention").kv_heads)
  end)

  it("take Megatron's defaults for experts, and their rule of layers", function()
    local base <const> = gpt3:gsub("=96", "=6")
    local function moe(words) return read(base .. words) end
    local d <const> = moe " --num-experts 4"
    assert.same({ 4, 2, 49152, "6 moe" }, { d.experts, d.experts_per_token, d.expert_ffn, support.runs(d.layer_mlp) })
    assert.equal("1 moe 1 dense 1 moe 1 dense 1 moe 1 dense", support.runs(moe(" --num-experts 4 --moe-layer-freq 2").layer_mlp))
    assert.equal("2 dense 4 moe", support.runs(moe(" --num-experts 4 --moe-layer-freq '[0,0]+[1]*4'").layer_mlp))
    assert.equal(0, moe(" --num-experts 1").experts)
  end)

  it("place windows as window-attn-skip-freq says", function()
    local base <const> = gpt3:gsub("=96", "=6")
    local function window(words)
      local d <const> = read(base .. words)
      return ("%s %d"):format(support.runs(d.layer_attention), d.window)
    end
    assert.equal("6 full 0", window "")
    assert.equal("6 sliding 128", window " --window-size 127,0")
    assert.equal("2 sliding 1 full 2 sliding 1 full 128", window " --window-size '(127, 0)' --window-attn-skip-freq 3")
    assert.equal("1 full 5 sliding 128", window " --window-size 127,0 --window-attn-skip-freq [0]+[1]*5")
  end)

  it("are refused in one line with file, line and flag", function()
    local cases <const> = {
      { yaml, "^args: vocab%-size: missing %(the tokenizer has it%), expected %-%-vocab N, %-%-set model%.vocab=N" },
      { flagscale:gsub("32000", "xxxx"), "^args:21: vocab_size: got 'xxxx', expected a whole number .+%-%-vocab" },
      { gpt3:gsub("LAYERS=96", ""), "^args:6: %-%-num%-layers: got '$LAYERS', .+the script does not set LAYERS" },
      { "LAYERS=4\n" .. gpt3, "%-%-num%-layers: got '$LAYERS', .+sets LAYERS to '4' and to '96'" },
      { gpt3 .. " --num-layers 5", "^args:6: %-%-num%-layers: stands twice, with '96' and, in line 8, '5'" },
      { gpt3:gsub("%-%-hidden%-size \"${HIDDEN}\"", ""), "^args: hidden%-size: missing" },
      { gpt3:gsub("%-%-max%-position%-embeddings 2048", ""), "max%-position%-embeddings: missing, .+position%-embedding%-type" },
      { gpt3:gsub(":%-96", ":-95"), "head_dim: missing, and hidden = 12288 is not a multiple of heads = 95" },
      { deepseek:gsub("58", "57"), "^args:8: %-%-moe%-layer%-freq: got .+for the 61 layers" },
      { deepseek:gsub("%[1%]", "[2]"), "expected 0 and 1 alone" },
      { deepseek:gsub("%-%-kv%-lora%-rank 512", ""), "kv_lora_rank: missing" },
      { gpt3 .. " --hybrid-layer-pattern M*M-", "hybrid%-layer%-pattern: got 'M%*M%-'; only decoders" },
      { "nothing here", "no num%-layers in it" },
    }
    for _, case in ipairs(cases) do
      local ok <const>, why <const> = pcall(read, case[1])
      assert.is_false(ok, case[2])
      assert.matches(case[2], why)
      assert.is_nil(why:find "\n")
    end
  end)

  it("reach the model by its file, whatever it is called", function()
    local folder <const> = support.folder()
    finally(function() support.remove(folder) end)
    local path <const> = support.write(folder .. "/run.sh", gpt3)
    assert.same({ "run", 96 }, { model.read(path).name, model.read(path).layers })
    local short <const> = support.write(folder .. "/config.yaml", yaml)
    assert.equal(777, model.read(short, { vocab = 777 }).vocab)
    local status, out, err = support.run("tangram model show " .. short .. " --vocab 1000")
    assert.equal(0, status)
    assert.matches("vocabulary 1000", out)
    assert.matches("Megatron's default, 1536", err)
    status, out, err = support.run("tangram model show " .. short)
    assert.same({ 2, "" }, { status, out })
    assert.matches("^tangram model: [^\n]*config.yaml: vocab%-size: missing[^\n]*\n$", err)
    support.write(folder .. "/huge", ("--num-layers 2 "):rep(20000))
    assert.error_matches(function() model.read(folder .. "/huge") end, "huge: over 256 KiB, expected Megatron's arguments")
    support.write(folder .. "/huge", ("x "):rep(1 << 20))
    assert.error_matches(function() model.read(folder .. "/huge") end, "huge: over 1024 KiB, expected a model's config.json")
  end)

  it("plan with --vocab or --set model.vocab", function()
    local folder <const> = support.folder()
    finally(function() support.remove(folder) end)
    support.write(folder .. "/args.yaml", yaml)
    support.write(folder .. "/cluster.json", [[{"format": "tangram.cluster/1",
      "nodes": [{"name": "v", "gpu": "v100-sxm2-32", "gpus": 2, "intra_bytes_per_s": 1e11}],
      "network": {"default": {"bytes_per_s": 1e9}}}]])
    for _, option in ipairs { "--vocab 1000", "--set model.vocab=1000", "--vocab 7 --set model.vocab=1000 --set model.tied=true" } do
      local status <const>, out <const>, err <const> = support.run(("tangram plan --model %s/args.yaml --cluster %s/cluster.json "
        .. "--global-batch 4 --seq-len 512 --json - --quiet %s"):format(folder, folder, option))
      assert.same({ 0, "" }, { status, err })
      local plan <const> = core.json_decode(out)
      assert.same({ 1000, option:find "tied" ~= nil }, { plan.model.vocab, plan.model.tied })
      local warnings <const> = table.concat(plan.warnings, "\n")
      assert.matches("precision is fp16 with loss scaling, as v100%-sxm2%-32 can't do bf16", warnings)
      assert.matches("ffn%-hidden%-size is not in the file; Megatron's default, 1536", warnings)
    end
  end)

  it("samples are read as the log says", function()
    local args <const>, mesh <const> = support.shared "data/inputs/megatron-args/001.txt", support.shared "data/inputs/flagscale/001.txt"
    if not args then return pending "shared data is absent" end
    assert.error_matches(function() model.read(args) end, "vocab%-size: missing")
    local d <const> = model.read(args, { vocab = 50257 })
    assert.same({ 12, 512, 8, false, 1024 }, { d.layers, d.hidden, d.heads, d.tied, d.positions })
    local f <const> = model.read(mesh, { vocab = 100008 })
    assert.same({ 12, 4096, 32, 11008, false, 0 }, { f.layers, f.hidden, f.heads, f.ffn, f.tied, f.positions })
  end)
end)

describe("Megatron's expressions for one number a layer", function()
  it("have the value that Python gives them", function()
    local cases <const> = {
      { "3", 3 }, { "([0]*3+[1]*2)", { 0, 0, 0, 1, 1 } }, { "2*[0,1]", { 0, 1, 0, 1 } }, { "[1, 0,]", { 1, 0 } }, { "[]", {} },
      { "([1]+[0]*2)*2+[1]", { 1, 0, 0, 1, 0, 0, 1 } }, { "'[1]*(1+2)'", { 1, 1, 1 } }, { "[1]*0", {} },
    }
    for _, case in ipairs(cases) do assert.same(case[2], integer_list(case[1])) end
  end)

  it("are nothing else, and never run", function()
    for _, text in ipairs { "", "os.exit()", "[1]*[2]", "[1]+1", "[1", "(1", "-1", "[1]*999999", "[1]*99*99*99", "1.5", ("("):rep(5000),
      ("("):rep(900) .. "1" .. (")"):rep(900), "[a]", "1 1" } do
      assert.is_nil(integer_list(text))
    end
  end)
end)
