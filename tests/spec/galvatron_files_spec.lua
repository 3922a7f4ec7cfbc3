--- Galvatron's files: every form that its versions write is read, or refused by a line with file, place and what is expected.
local core <const> = require "tangram.core"
local galvatron <const> = require "tangram.input.galvatron"
local profile <const> = require "tangram.galvatron.profile"
local support <const> = require "tests.spec.support"

local MiB <const> = 2 ^ 20

--- Files of a machine of 4 GPUs and of a model, as Galvatron 3 writes them; all values made up.
local function texts()
  local messages <const> = {}
  for _, kind in ipairs { "allreduce", "all2all" } do
    for _, gpus in ipairs { 2, 4 } do
      for k = 0, 7 do messages[#messages + 1] = ('"%s_size_%d_%dMB_time": %g'):format(kind, gpus, 1 << k, 0.01 + 0.02 * (1 << k)) end
    end
  end
  local sizes <const> = '{"1024": {"model_states": {"1": 800, "2": 400, "4": 210}, "activation": {"1": 60, "2": 30, "4": 16}}}'
  return {
    computation = '{"layernum[2]_bsz1_seq1024": 9.5, "layertype_0_bsz1_seq1024": 2.5, "layertype_other_bsz1_seq1024": 1.25}',
    memory = ([[{"1_1_8_sp": {"layernum[1]_bsz8_seq1024_rank0_ms": 1.5}, "layertype_0_sp": {"1024": {"parameter_size": 200,
      "tp_activation_per_bsz_dict": {"1": 90, "2": 46, "4": 23.5, "checkpoint": 8}}}, "other_memory_pp_off_sp": S,
      "other_memory_pp_on_first_sp": S, "other_memory_pp_on_last_sp": S}]]):gsub("S([,}])", sizes .. "%1"),
    allreduce = '{"allreduce_size_4_consec_1": 100, "allreduce_size_2_consec_1": 80, "allreduce_size_2_consec_0": 60}',
    p2p = '{"pp_size_2": 50, "pp_size_4": 40}', messages = "{" .. table.concat(messages, ",") .. "}", overlap = '{"overlap_coe": 1.25}',
  }
end

local folder
before_each(function() folder = support.folder() end)
after_each(function() support.remove(folder) end)

--- The profile of the texts, `changes` in their place; file names may be others.
local function read(changes, spec, names)
  local files <const> = {}
  for name, text in pairs(support.with(texts(), changes or {})) do
    files[name] = support.write(("%s/%s.json"):format(folder, (names or {})[name] or name), text)
  end
  return galvatron.read(support.with({ files = files }, spec or {}))
end

local function refused(changes, spec, names)
  local ok <const>, why <const> = pcall(read, changes, spec, names)
  assert.is_false(ok)
  assert.is_nil(why:find "\n")
  return (why:gsub(folder:gsub("%p", "%%%0") .. "/", ""))
end

describe("Galvatron's profiles", function()
  it("are read: milliseconds, MB and GB/s as their units say", function()
    local from <const> = read()
    local fits <const> = profile.at(from, 1024)
    assert.equal(2.5e-3, fits.forward_s(1))
    assert.equal(2 * 1.25e-3, fits.ends_forward_s(2))
    assert.same({ 200 * MiB, 23.5 * MiB, 8 * MiB }, { fits.parameter_bytes, fits.activation_bytes(4), fits.checkpoint_bytes })
    assert.same({ 210 * MiB, 30 * MiB }, { fits.ends.first.states_bytes(4), fits.ends.last.activation_bytes(2) })
    -- 60 GB/s of 2^20 bytes a millisecond apart, 80 side by side; all GPUs are side by side
    assert.near(1 / (60 * MiB * 1e3), fits.reduce_s_per_byte(2, false), 1e-24)
    assert.near(1 / (80 * MiB * 1e3), fits.reduce_s_per_byte(2, true), 1e-24)
    assert.near(1 / (100 * MiB * 1e3), fits.reduce_s_per_byte(4, false), 1e-24)
    assert.near((0.01 + 0.02 * 3) * 1e-3, fits.message_s("all_to_all", 2, 3 * MiB), 1e-12)
    assert.equal(1.25, fits.overlap)
  end)

  it("are read as 2.x wrote them: lengths in the files' names or told, embedding and head as other_0", function()
    local flat <const> = {
      computation = '{"layertype_0": 3, "layertype_0_bsz2": 2.5, "layertype_other_0_bsz2": 1.25}',
      memory = ([[{"layertype_0": {"parameter_size": 200, "tp_activation_per_bsz_dict": {"1": 90, "checkpoint": 8}},
        "other_memory_pp_off": S, "other_memory_pp_on_first": S, "other_memory_pp_on_last": S}]]):gsub("S([,}])",
        '{"model_states": {"1": 800}, "activation": {"1": 60}}%1'),
    }
    local names <const> = { computation = "computation_profiling_bf16_hidden64_head2_seqlen512",
      memory = "memory_profiling_bf16_hidden64_head2_seqlen512" }
    for _, how in ipairs { { {}, names }, { { seq_len = 512 }, nil } } do
      local fits <const> = profile.at(read(flat, support.with({ sequence_parallel = false }, how[1]), how[2]), 512)
      assert.same({ 2.5e-3, 1.25e-3, 90 * MiB, 45 * MiB },
        { fits.forward_s(1), fits.ends_forward_s(1), fits.activation_bytes(1), fits.activation_bytes(2) })
    end
    assert.equal("computation.json: layertype_0_bsz2: states no sequence length, expected it in the key, in the file's name "
      .. "(…_seqlen2048.json), or as seq_len", refused({ computation = flat.computation }))
    assert.equal("memory.json: layertype_0: states no sequence length, expected it in the key, in the file's name "
      .. "(…_seqlen2048.json), or as seq_len", refused({ memory = flat.memory }, { sequence_parallel = false }))
  end)

  it("take their names from folder, model and machine, with or without _all", function()
    local of <const> = texts()
    local function write(all)
      for _, name in ipairs { "computation", "memory" } do
        support.write(("%s/%s_profiling_fp16_tiny%s.json"):format(folder, name, all), of[name])
      end
    end
    for name, file in pairs { allreduce = "allreduce_bandwidth_1nodes_4gpus_per_node", p2p = "p2p_bandwidth_1nodes_4gpus_per_node",
      messages = "sp_time_1nodes_4gpus_per_node", overlap = "overlap_coefficient" } do
      support.write(("%s/%s.json"):format(folder, file), of[name])
    end
    local spec <const> = { folder = folder, model = "tiny", precision = "fp16", gpus_per_node = 4 }
    assert.matches("computation_profiling_fp16_tiny_all.json: No such file", select(2, pcall(galvatron.read, spec)), 1, true)
    write ""
    assert.equal(2.5e-3, galvatron.read(spec).layer.times[1].forward_s)
    write "_all"
    assert.equal(2.5e-3, galvatron.read(spec).layer.times[1].forward_s)
    assert.equal("Galvatron's profile: model: missing, expected as in the files' names; or files",
      select(2, pcall(galvatron.read, { folder = folder })))
    assert.equal("Galvatron's profile: time_mode: got 'bach', expected one of 'static', 'batch', 'sequence' (did you mean 'batch'?)",
      select(2, pcall(galvatron.read, support.with(spec, { time_mode = "bach" }))))
    assert.equal("Galvatron's profile: sequence_paralel: unknown field (did you mean 'sequence_parallel'?)",
      select(2, pcall(galvatron.read, support.with(spec, { sequence_paralel = false }))))
  end)

  it("are refused where times are missing, of something else or no times", function()
    for text, expected in pairs {
      ["{"] = "computation.json:1:1: not JSON, or cut short",
      ["3"] = "computation.json: expected a table of numbers by key",
      ["{}"] = "computation.json: no key layertype_0_bszB_seqS, expected the forward times of a layer",
      ['{"layernum[2]_bsz1_seq1024": 2}'] = "computation.json: no key layertype_0_bszB_seqS, expected the forward times of a layer: "
        .. "only raw times of whole runs (layernum…), as before Galvatron's profiler has worked them out",
      ['{"layertype_0": 2}'] = "computation.json: no key layertype_0_bszB_seqS, expected the forward times of a layer: "
        .. "layertype_0 states no batch size",
      ['{"layertype_0_bsz1_seq1024_mlp": 2}'] = "computation.json: layertype_0_bsz1_seq1024_mlp is of half layers, expected times of "
        .. "whole ones, layertype_0_bszB_seqS",
      ['{"layertype_0_bsz1_seq1024": 2}'] = "computation.json: no key layertype_other_bszB_seqS, expected the forward times of "
        .. "embedding and head",
      ['{"layertype_0_bsz1_seq1024": -2}'] = "computation.json: layertype_0_bsz1_seq1024: got -2, expected milliseconds of at least 0",
      ['{"layertype_0_bsz1_seq1024": "2"}'] = "computation.json: layertype_0_bsz1_seq1024: got '2', expected milliseconds of at least 0",
      ['{"layertype_0_bsz0_seq1024": 2}'] = "computation.json: layertype_0_bsz0_seq1024: expected a batch size and a length of at "
        .. "least 1",
      ['{"layertype_0_bsz1_seq512": 1, "layertype_1_bsz1_seq512": 1, "layertype_other_bsz1_seq[512,512]": 1}'] =
        "computation.json: layertype_1_bsz1_seq512: several types of layers, expected one: this reads profiles of decoders",
    } do
      assert.equal(expected, refused({ computation = text }), text)
    end
    assert.equal("computation_profiling_bf16_x_mlp.json: is of half layers (mlp), expected a profile of whole ones, …_all.json",
      refused({}, {}, { computation = "computation_profiling_bf16_x_mlp" }))
    assert.equal("memory_profiling_fp32_x_all.json: is of fp32, expected a profile in bf16 or fp16",
      refused({}, {}, { memory = "memory_profiling_fp32_x_all" }))
  end)

  it("are refused where sizes are missing or no sizes, by place", function()
    local good <const> = texts().memory
    local function with(from, to)
      local text <const>, count <const> = good:gsub(from:gsub("%p", "%%%0"), (to:gsub("%%", "%%%%")), 1)
      assert.equal(1, count, from)
      return refused { memory = text }
    end
    local where <const> = "memory.json: layertype_0_sp.1024."
    assert.equal(where .. "parameter_size: missing, expected MB of at least 0", with('"parameter_size": 200,', ""))
    assert.equal(where .. "parameter_size: got -1, expected MB of at least 0", with("200", "-1"))
    assert.equal(where .. "tp_activation_per_bsz_dict.checkpoint: missing, expected MB of at least 0", with(', "checkpoint": 8', ""))
    assert.equal(where .. "tp_activation_per_bsz_dict.2: got 'x', expected MB of at least 0", with("46", '"x"'))
    assert.equal(where .. "tp_activation_per_bsz_dict.two: expected a tensor-parallel degree as key", with('"2": 46', '"two": 46'))
    assert.equal(where .. "tp_activation_per_bsz_dict: got 5, expected a table of MB by tensor-parallel degree, "
      .. '{ "1": …, "2": … }', with('{"1": 90, "2": 46, "4": 23.5, "checkpoint": 8}', "5"))
    assert.equal("memory.json: other_memory_pp_off_sp.1024.model_states: got 2615, expected a table of MB by tensor-parallel degree, "
      .. '{ "1": …, "2": … }', with('{"1": 800, "2": 400, "4": 210}', "2615"))
    assert.equal("memory.json: layertype_0_sp.[512,512]: expected a sequence length as key", with('{"1024"', '{"[512,512]"'))
    assert.equal("memory.json: layertype_0_sp.1024: got 7, expected a table of sizes",
      with('{"parameter_size"', '7, "2048": {"parameter_size"'))
    assert.equal("memory.json: no key other_memory_pp_on_last_sp, expected what was profiled with sequence parallelism",
      with("on_last", "on_lost"))
    assert.equal("memory.json: layertype_1_sp: several types of layers, expected one: this reads profiles of decoders",
      with('"layertype_0_sp"', '"layertype_1_sp"'))
    assert.equal("memory.json: no key layertype_0, expected what was profiled without sequence parallelism: layertype_0_sp is there: "
      .. "sequence_parallel = true takes it", refused({}, { sequence_parallel = false }))
    assert.equal("memory.json: no key layertype_0_sp, expected what was profiled with sequence parallelism: only raw sizes of whole "
      .. "runs (1_1_8…), as before Galvatron's profiler has worked them out",
      refused { memory = '{"1_1_8_sp": {"layernum[1]_bsz8_seq512_rank0_ms": 1}}' })
  end)

  it("are refused where a machine's figures are missing or none, and where more GPUs are asked for than they are of", function()
    for _, case in ipairs {
      { "allreduce", "{}", "no key allreduce_size_2_consec_1, expected one for each power of two up to 2" },
      { "allreduce", '{"allreduce_size_8_consec_1": 1, "allreduce_size_2_consec_1": 1}',
        "no key allreduce_size_4_consec_1, expected one for each power of two up to 8" },
      { "allreduce", '{"allreduce_size_4_consec_1": 1, "allreduce_size_2_consec_1": 1}',
        "no key allreduce_size_2_consec_0, expected one for each power of two up to 2" },
      { "allreduce", '{"allreduce_size_2_consec_1": 0}', "allreduce_size_2_consec_1: got 0, expected GB/s above 0" },
      { "p2p", '{"pp_size_4": 3}', "no key pp_size_2, expected one for each power of two up to 4" },
      { "p2p", '{"pp_size_2": null}', "pp_size_2: got null, expected GB/s of at least 0" },
      { "messages", "{}", "no key all2all_size_G_kMB_time, expected the times of messages by size" },
      { "messages", '{"all2all_size_2_1MB_time": 0.1, "allreduce_size_2_1MB_time": 0.1}',
        "all2all_size_2_…: times of 1 sizes, expected at least 8" },
      { "overlap", "{}", "overlap_coe: missing, expected how many times slower, a number of at least 1" },
      { "overlap", '{"overlap_coe": 0.9}', "overlap_coe: got 0.9, expected how many times slower, a number of at least 1" },
    } do
      assert.equal(case[1] .. ".json: " .. case[3], refused { [case[1]] = case[2] })
    end
    local fits <const> = profile.at(read(), 1024)
    local function why(ask, ...) return select(2, pcall(ask, ...)) end
    local rest <const> = " 4, 8 are asked for; expected the files of more nodes, or less parallelism"
    assert.equal("profile: all-reduce rates by GPUs are of up to" .. rest, why(fits.reduce_s_per_byte, 8, true))
    assert.equal("profile: all-reduce rates by GPUs are of up to" .. rest, why(fits.reduce_s_per_byte, 8, false))
    assert.equal("profile: rates by stages are of up to" .. rest, why(fits.p2p_s_per_byte, 8))
    assert.equal("profile: messages by GPUs are of up to" .. rest, why(fits.message_s, "allreduce", 8, MiB))
    assert.equal(fits.reduce_s_per_byte(4, true), fits.reduce_s_per_byte(3, true)) -- the next larger group
  end)

  it("are refused where they don't tell what the mode asks of them", function()
    local function why(seq_len, spec, changes) return select(2, pcall(profile.at, read(changes, spec), seq_len)) end
    assert.equal("profile: layer: no memory at sequence length 4096, expected one of 1024", why(4096))
    assert.equal("profile: layer: no times at sequence length 4096, expected one of 1024", why(4096, { memory_mode = "sequence" }))
    assert.equal("profile: layer: times of 1 batch sizes at sequence length 1024, expected at least 8", why(1024, { time_mode = "batch" }))
    assert.equal("profile: layer: times of one sample at 1 sequence lengths, expected at least 3", why(1024, { time_mode = "sequence" }))
    local lengths <const> = {}
    for i = 1, 3 do lengths[i] = ('"layertype_0_bsz1_seq%d": %d'):format(512 * i, i) end
    lengths[4] = '"layertype_other_bsz1_seq512": 1}'
    local modes <const> = { time_mode = "sequence", memory_mode = "sequence" }
    assert.equal("profile: embedding and head: times of one sample at 1 sequence lengths, expected at least 2",
      why(1024, modes, { computation = "{" .. table.concat(lengths, ",") }))
    lengths[4] = '"layertype_other_bsz1_seq512": 1, "layertype_other_bsz1_seq1024": 3}'
    -- i ms at 512·i: a line, so the parabola through three points is one; embedding and head: 1 ms + 2 ms a step; sizes scale
    local fits <const> = profile.at(read({ computation = "{" .. table.concat(lengths, ",") }, modes), 2048)
    assert.near(4e-3, fits.forward_s(1), 1e-12)
    assert.near(7e-3, fits.ends_forward_s(1), 1e-12)
    assert.same({ 200 * MiB, 180 * MiB }, { fits.parameter_bytes, fits.activation_bytes(1) })
  end)

  local path <const> = support.shared "data/galvatron/README.md"
  local data <const> = path and path:match "^(.*)/"

  it("of the authors are each read or refused by what they lack", function()
    if not data then return pending "data/galvatron is not there" end
    local good <const>, machine <const> = data .. "/profiles_main_gpt/", {
      allreduce = data .. "/hardware_configs/allreduce_bandwidth_2nodes_8gpus_per_node.json",
      p2p = data .. "/hardware_configs/p2p_bandwidth_2nodes_8gpus_per_node.json",
      messages = data .. "/hardware_configs/sp_time_1nodes_8gpus_per_node.json",
      overlap = data .. "/hardware_configs/overlap_coefficient.json" }
    local model <const> = { computation = good .. "computation_profiling_bf16_llama2-7b_all.json",
      memory = good .. "memory_profiling_bf16_llama2-7b_all.json" }
    local function try(kind, file, spec)
      local files <const> = support.with(support.with(machine, model), { [kind] = data .. "/" .. file })
      return select(2, pcall(galvatron.read, support.with({ files = files }, spec or {})))
    end
    local branch <const> = "profiles_moe_branch/"
    local function times(file, seq_len, samples)
      for _, row in ipairs(try("computation", file).layer.times) do
        if row.seq_len == seq_len and row.samples == samples then return row.forward_s * 1e3 end
      end
    end
    assert.near(4.346069765090942, times(branch .. "llama_hf/computation_profiling_bf16_llama-7b_all.json", 2048, 2), 1e-12)
    assert.near(1.9399904251098627, times(branch .. "bert_hf/computation_profiling_bf16_hidden1024_head16.json", 256, 1), 1e-12)
    assert.near(4.685619068145754,
      times(branch .. "gpt_hf/computation_profiling_bf16_hidden4096_head32_seqlen2048.json", 2048, 2), 1e-12)
    for file, lacks in pairs {
      ["llama_fa/computation_profiling_bf16_hidden4096_head32_seqlen2048.json"] = "layertype_0_bsz1: got -2.36990",
      ["gpt_fa/computation_profiling_bf16_hidden1600_head32_seqlen1024.json"] = "layertype_0 states no batch size",
      ["T5/computation_profiling_bf16_t5-3B.json"] = "several types of layers",
      ["swin/computation_profiling_bf16_swin-huge.json"] = "several types of layers",
      ["llama_hf/computation_profiling_bf16_llama-7b_mlp.json"] = "is of half layers (mlp)",
      ["moe/computation_profiling_bf16_mixtral-8x7b_attention.json"] = "is of half layers (attention)",
    } do
      assert.matches(lacks, try("computation", branch .. file), 1, true)
    end
    assert.matches("layertype_0_bsz10_seq4096_mlp is of half layers",
      try("computation", "laer_moe/computation_profiling_bf16_mixtral-8x7b.json"), 1, true)
    assert.matches("only raw times", try("computation", "profiles_main_gpt/computation_profiling_bf16_llama2-7b_seqlen2048_all.json"),
      1, true)
    local function parameters(file, spec)
      local layer <const> = try("memory", branch .. file, spec).layer
      return layer.memory[1].seq_len, layer.memory[1].parameter_bytes / MiB
    end
    assert.same({ 2048, 778.2236328125 }, { parameters "llama_hf/memory_profiling_bf16_llama-7b_all.json" })
    assert.same({ 2048, 768.859375 }, { parameters "gpt_fa/memory_profiling_bf16_hidden4096_head32_seqlen2048.json" })
    assert.same({ 128, 40.8896484375 }, { parameters "bert_hf/memory_profiling_bf16_hidden1024_head16.json" })
    assert.same({ 197, 75.09375 }, { parameters("vit_hf/memory_profiling_bf16_hidden1280_head16.json", { sequence_parallel = false }) })
    for file, lacks in pairs {
      ["vit_hf/memory_profiling_bf16_hidden1280_head16.json"] = "layertype_0 is there: sequence_parallel = false takes it",
      ["gpt_hf/memory_profiling_bf16_hidden4096_head32.json"] = "only raw sizes",
      ["T5/memory_profiling_bf16_t5-3B.json"] = "layertype_1_sp: several types of layers",
    } do
      assert.matches(lacks, try("memory", branch .. file), 1, true)
    end
    assert.matches("other_memory_pp_off.model_states: got 2615, expected a table of MB by tensor-parallel degree",
      try("memory", branch .. "gpt_fa/memory_profiling_bf16_hidden1600_head32_seqlen1024.json", { sequence_parallel = false }), 1, true)
    assert.is_table(core.json_decode(support.read(model.memory)))
  end)
end)
