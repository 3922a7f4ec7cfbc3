--- Primus (AMD-AGI/Primus, Megatron on ROCm): Megatron's arguments as overrides in YAML, layers by stage as a plain list.
local args <const> = require "tangram.output.megatron_args"
local checks <const> = require "tangram.output.checks"
local nearest <const> = require "tangram.output.nearest"
local torchrun <const> = require "tangram.output.torchrun"
local yaml <const> = require "tangram.output.yaml"

local primus <const> = {
  name = "primus", summary = "Primus, Megatron on ROCm: decoder_pipeline_manual_split_list", versions = { "2026" },
}

primus.options = {
  recompute = { type = "enum", values = { "refuse", "nearest" }, default = "refuse",
    doc = "where stages recompute differently: refuse, or take the nearest setting for all and price it" },
  port = { type = "integer", min = 1, max = 65535, default = 29500, doc = "of the rendezvous, on the first node" },
}

primus.rules = {
  equal_gpus = true, one_tp = true, one_dp = true, one_cp = true, one_ep = true, one_zero = true, max_zero = 1,
  one_recompute = true, min_layers = 1, whole_layers = true, one_vendor = true, no_fsep = true, no_offload = true,
  one_attention = true, waits_for_transfers = true,
}

function primus.prepare(plan, options, where)
  if options.recompute == "nearest" then return nearest.one_recompute(plan, where) end
  return plan, {}
end

function primus.check(launch)
  return checks.run(launch, "primus", {
    checks.L1, checks.L2, checks.M1, checks.G1, checks.G2, checks.E2, checks.E3, checks.E4, checks.O1, checks.H1, checks.H2_copies,
    checks.H3, checks.C2, checks.B1, checks.R1, checks.Z1, checks.Z2, checks.D1, { checks.D2, true }, checks.V1, checks.B3, checks.P2,
    checks.I1,
    args.model_differs,
  })
end

local function underscored(groups, into)
  for _, group in ipairs(groups) do into[group[1]:gsub("%-", "_")] = #group == 1 and true or group[2] end
  return into
end

local function recompute(launch, into)
  local one <const> = checks.one_recompute(launch)
  if one.kind == "none" then return end
  into.recompute_granularity = one.kind
  if one.kind == "full" then
    into.recompute_method = one.all and "uniform" or "block"
    into.recompute_num_layers = one.all and 1 or one.layers
  end
end

--- The overrides: Megatron's arguments with underscores.
local function overrides(launch)
  local first <const>, ep <const>, etp <const> = launch.stages[1], checks.expert_degrees(launch)
  local split <const> = {}
  for s, stage in ipairs(launch.stages) do split[s] = stage.layers end
  local map <const> = underscored(args.model(launch), underscored(args.training(launch), {
    train_iters = 20, lr = 1e-4, min_lr = 1e-5, lr_decay_style = "cosine", mock_data = true, tokenizer_type = "NullTokenizer",
    vocab_size = launch.model.vocab - 1, -- the tokenizer adds one token
    micro_batch_size = first.microbatch, global_batch_size = launch.training.global_batch, tensor_model_parallel_size = first.tp,
    pipeline_model_parallel_size = #launch.stages, context_parallel_size = first.cp, expert_model_parallel_size = ep,
    expert_tensor_parallel_size = launch.model.experts > 0 and etp or nil, sequence_parallel = first.tp > 1 and first.sp,
    decoder_pipeline_manual_split_list = #split > 1 and split or nil,
  }))
  local model <const> = launch.model
  -- Its base configuration says otherwise for some, and names others as Megatron does inside.
  map.disable_bias_linear, map.add_bias_linear = nil, model.bias
  map.swiglu, map.untie_embeddings_and_output_weights = model.gated, not model.tied
  map.fp8_format, map.fp8 = nil, map.fp8_format
  map.use_distributed_optimizer = checks.zero_level(launch) > 0
  recompute(launch, map)
  return map
end

local ORDER <const> = {
  "work_group", "user_name", "exp_name", "workspace", "modules", "framework", "config", "model", "tensor_model_parallel_size",
  "pipeline_model_parallel_size", "decoder_pipeline_manual_split_list", "micro_batch_size", "global_batch_size", "num_layers",
}

function primus.files(launch, options)
  local experiment <const> = yaml.encode({
    work_group = "${PRIMUS_TEAM:amd}", user_name = "${PRIMUS_USER:root}", exp_name = launch.name,
    workspace = "${PRIMUS_WORKSPACE:./output}",
    modules = { pre_trainer = { framework = "megatron", config = "pre_trainer.yaml", model = "language_model.yaml",
      overrides = overrides(launch) } },
  }, ORDER)
  return {
    { name = "experiment.yaml", text = experiment },
    torchrun.node(launch, { port = options.port,
      setup = 'PRIMUS=${PRIMUS:?the folder of Primus}\nexport PYTHONPATH="$PRIMUS${PYTHONPATH:+:$PYTHONPATH}"\n',
      command = '"$PRIMUS/primus/cli/main.py" train pretrain --config experiment.yaml' }),
    torchrun.ssh(launch, { "PRIMUS" }),
  }
end

function primus.vocab_multiple() return 128 end

function primus.start(launch)
  local split <const> = {}
  for s, stage in ipairs(launch.stages) do split[s] = ("%d"):format(stage.layers) end
  return torchrun.start(launch, ("`PRIMUS` names the folder of Primus on the nodes. Layers by stage are\n"
    .. "`decoder_pipeline_manual_split_list: [%s]` in `experiment.yaml`, which holds all of the model and a trial of 20\niterations"
    .. " on random data."):format(
    table.concat(split, ",")))
end

primus.slurm = "nodes"

return primus
