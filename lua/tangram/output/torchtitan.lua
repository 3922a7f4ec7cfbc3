--- torchtitan: one tp, cp, ep and dp for all stages; layers by stage as lists of module names in a function of configuration
--- (2026; lists of lists are no flags, and flags are to go), or as split points of a TOML file (2025).
local checks <const> = require "tangram.output.checks"
local nearest <const> = require "tangram.output.nearest"
local torchrun <const> = require "tangram.output.torchrun"

local torchtitan <const> = {
  name = "torchtitan", summary = "torchtitan: a configuration with module names by stage, or the TOML of 2025",
  versions = { "2026", "2025" },
}

--- A word that goes into Python or TOML.
local function word(doc)
  return { type = "string", doc = doc, check = function(value)
    return not value:find "^[%w_.-]+$" and "letters, digits, '_', '.' and '-'" or nil
  end }
end

torchtitan.options = {
  recompute = { type = "enum", values = { "refuse", "nearest" }, default = "refuse",
    doc = "where not all layers of all stages are recomputed alike: refuse, or recompute all and price it" },
  module = word "its module of the model, e.g. llama3; default: by the family",
  config = word "2026: the function of its config_registry that has the model's dimensions, e.g. llama3_8b",
  flavor = word "2025: the flavor that has the model's dimensions, e.g. 8B",
  port = { type = "integer", min = 1, max = 65535, default = 29500, doc = "of the rendezvous, on the first node" },
}

torchtitan.rules = {
  equal_gpus = true, one_tp = true, one_dp = true, one_cp = true, one_ep = true, one_zero = true, max_zero = 1,
  one_recompute = true, whole_recompute = true, selective_never = true, sp_with_tp = true, kv_divide = true, min_layers = 1,
  whole_layers = true, tied_one_stage = true, no_fp16 = true, no_fp8 = true, one_vendor = true, no_fsep = true, no_offload = true,
  one_attention = true,
}

function torchtitan.prepare(plan, options, where)
  if options.recompute == "nearest" then return nearest.whole_recompute(plan, where) end
  return plan, {}
end

local MODULES <const> = {
  llama = "llama3", qwen3 = "qwen3", qwen3_moe = "qwen3", deepseek_v3 = "deepseek_v3", gpt_oss = "gpt_oss",
}

--- Its own sizes, by module, layers and hidden size: function of the registry, flavor of 2025.
local SIZES <const> = {
  llama3 = { ["32x4096"] = { "llama3_8b", "8B" }, ["80x8192"] = { "llama3_70b", "70B" }, ["126x16384"] = { "llama3_405b", "405B" } },
  deepseek_v3 = { ["27x2048"] = { "deepseek_v3_16b", "16B" }, ["61x7168"] = { "deepseek_v3_671b", "671B" } },
}

local function module_of(launch, options) return options.module or MODULES[launch.model.family] end

--- The function (2026) or flavor (2025) that has the model's dimensions.
local function config_of(launch, options)
  local which <const> = options.version == "2025" and 2 or 1
  local known <const> = (SIZES[module_of(launch, options)] or {})[("%dx%d"):format(launch.model.layers, launch.model.hidden)]
  return which == 2 and options.flavor or which == 1 and options.config or known and known[which]
end

local function M3(launch, options)
  local model <const> = launch.model
  local option <const>, what <const> = options.version == "2025" and "flavor" or "config",
    options.version == "2025" and "the flavor" or "the function of its config_registry"
  if not module_of(launch, options) then
    return checks.fatal("M3", "torchtitan has no model of family %s by name; --set module=NAME --set %s=NAME name yours", model.family,
      option)
  elseif not config_of(launch, options) then
    return checks.fatal("M3", "no size of torchtitan's %s is known to have %d layers of hidden size %d; --set %s=NAME names %s that has",
      module_of(launch, options), model.layers, model.hidden, option, what)
  end
end

local function E6(launch)
  local _, etp <const> = checks.expert_degrees(launch)
  return etp > 1 and checks.fatal("E6", "experts are cut over etp %d, but torchtitan cuts none; nearest: etp 1", etp) or nil
end

--- FSDP keeps whole weights and gradients from microbatch to microbatch where a pipeline drives it (torch.distributed's
--- pipelining reduces after a stage's last backward): ZeRO 1 in all but name. Without a pipeline it is ZeRO 2 or 3.
local function Z1(launch)
  return #launch.stages > 1 and checks.Z1(launch, "torchtitan") or nil
end

local function shards_more(launch)
  return #launch.stages == 1 and checks.zero_level(launch) == 1 and checks.warning("W6", "ZeRO 1 is planned, but torchtitan's FSDP"
    .. " shards gradients too: less memory, and a reduction every microbatch") or nil
end

--- The newest ask it of experts.
local function E7(launch)
  local ep <const> = checks.expert_degrees(launch)
  return launch.model.experts > 0 and ep < launch.stages[1].tp and checks.warning("E7", "ep %d is less than tp %d, which the newest"
    .. " torchtitan refuses; nearest: ep %d", ep, launch.stages[1].tp, launch.stages[1].tp) or nil
end

--- Of 2025, plain replicas are for data parallelism alone.
local function Z4(launch, options)
  local first <const> = launch.stages[1]
  return options.version == "2025" and first.dp > 1 and checks.zero_level(launch) == 0
    and checks.fatal("Z4", "dp %d is planned as ZeRO 0, but torchtitan of 2025 shards with a pipeline; nearest: ZeRO 1 (--set"
      .. " parallelizer.options.zero=[1]), or --runtime-version 2026", first.dp) or nil
end

local function precision_notes(launch)
  return launch.training.gradient_bytes == 2 and checks.warning("W4", "gradients are planned in 2 bytes, but torchtitan reduces in 4:"
    .. " more memory than planned") or nil
end

local function tied(launch)
  return launch.tied and #launch.stages > 1 and checks.fatal("T4", "embedding and head are tied, which torchtitan can't do over a"
    .. " pipeline; nearest: --set model.tied=false when planning") or nil
end

local function D3(launch) return checks.D3(launch, "torchtitan", { "bf16", "fp32" }) end

function torchtitan.check(launch, options)
  return checks.run(launch, "torchtitan", {
    checks.L1, checks.L2, checks.G1, checks.G2, checks.E2, checks.E3, E6, checks.E4, checks.O1, checks.H1, checks.H2, checks.H3,
    checks.C2, checks.B1, checks.R3_whole, Z1, checks.Z2, { Z4, options }, checks.S3, checks.D1, { checks.D2, true },
    { D3 }, checks.V1, tied, { M3, options }, checks.B3, checks.I1, precision_notes,
    shards_more, E7,
  })
end

--- Names of a stage's modules.
---@param stage table
---@return string[]
function torchtitan.modules(stage)
  local names <const> = {}
  if stage.has_embedding then names[1] = "tok_embeddings" end
  for layer = stage.first_layer, stage.first_layer + stage.layers - 1 do names[#names + 1] = ("layers.%d"):format(layer) end
  if stage.has_head then
    names[#names + 1] = "norm"
    names[#names + 1] = "lm_head"
  end
  return names
end

--- Each module of the model in one stage, and none besides: a missing one would silently not be built.
local function check_union(launch, lists)
  local where <const>, count = {}, 0
  for s, list in ipairs(lists) do
    for _, name in ipairs(list) do
      assert(not where[name], "a module in two stages")
      where[name], count = s, count + 1
    end
  end
  for layer = 0, launch.model.layers - 1 do assert(where[("layers.%d"):format(layer)], "a layer in no stage") end
  assert(count == launch.model.layers + 3 and where.tok_embeddings and where.norm and where.lm_head, "an end in no stage")
end

--- Replicas, shards, and whether weights are gathered anew for the backward.
local function replicas(launch)
  local dp <const>, zero <const> = launch.stages[1].dp, checks.zero_level(launch)
  return zero == 0 and dp or 1, zero > 0 and dp or 1, zero == 3 and "always" or "never"
end

local function precision(launch) return launch.precision == "fp32" and "float32" or "bfloat16" end

--- Fields of the configuration; batches are counted in tokens.
local function settings(launch)
  local first <const>, list <const> = launch.stages[1], {}
  local replicate <const>, shard <const>, reshard <const> = replicas(launch)
  local function add(name, value)
    list[#list + 1] = ('    "%s": %s,'):format(name, type(value) == "string" and ('"%s"'):format(value) or ("%d"):format(value))
  end
  add("parallelism.pipeline_parallel_degree", #launch.stages)
  add("parallelism.pipeline_parallel_schedule", "1F1B")
  add("parallelism.num_pp_microbatches", launch.microbatches)
  add("parallelism.tensor_parallel_degree", first.tp)
  add("parallelism.context_parallel_degree", first.cp)
  add("parallelism.data_parallel_replicate_degree", replicate)
  add("parallelism.data_parallel_shard_degree", shard)
  add("parallelism.fsdp_reshard_after_forward", reshard)
  add("parallelism.expert_parallel_degree", (checks.expert_degrees(launch)))
  add("training.max_context_length", launch.training.seq_len)
  add("training.num_tokens_per_microbatch_per_dp_rank", first.microbatch * launch.training.seq_len)
  add("training.num_tokens_per_train_step", launch.training.global_batch * launch.training.seq_len)
  add("training.mixed_precision_param", precision(launch))
  return table.concat(list, "\n")
end

local function plan_py(launch, options)
  local lists <const>, lines <const> = {}, {}
  for s, stage in ipairs(launch.stages) do
    lists[s] = torchtitan.modules(stage)
    local quoted <const> = {}
    for i, name in ipairs(lists[s]) do quoted[i] = ('"%s"'):format(name) end
    lines[s] = ("    [%s],  # stage %d"):format(table.concat(quoted, ", "), stage.index)
  end
  check_union(launch, lists)
  return ([[
"""The plan as a configuration of torchtitan: --module tangram_plan --config plan."""
import importlib

MODULES = [
%s
]
SETTINGS = {
%s
}
RECOMPUTE = %s  # of every layer, in every stage
# Names of 2026 that have changed.
OTHER_NAMES = {
    "module_fqns_per_model_part": "pipeline_parallel_module_fqns_per_model_part",
    "max_context_length": "seq_len",
}


def put(section, name, value):
    name = name if hasattr(section, name) else OTHER_NAMES.get(name, name)
    if not hasattr(section, name):
        raise AttributeError(f"this torchtitan has no {name} in {type(section).__name__}")
    setattr(section, name, value)


def recompute(config):
    try:
        from torchtitan.distributed.activation_checkpoint import FullAC
    except ImportError:  # where it is a mode
        config.activation_checkpoint.mode = "full" if RECOMPUTE else "none"
    else:
        config.activation_checkpoint = FullAC.Config() if RECOMPUTE else None


def plan():
    base = importlib.import_module("torchtitan.models.%s.config_registry")
    config = base.%s()
    for name, value in SETTINGS.items():
        section, field = name.split(".")
        put(getattr(config, section), field, value)
    put(config.parallelism, "module_fqns_per_model_part", MODULES)
    recompute(config)
    return config
]]):format(table.concat(lines, "\n"), settings(launch), launch.stages[1].recompute.layers > 0 and "True" or "False",
    module_of(launch, options), config_of(launch, options))
end

local function toml(launch, options)
  local first <const>, points <const> = launch.stages[1], {}
  local replicate <const>, shard <const>, reshard <const> = replicas(launch)
  for s = 2, #launch.stages do points[s - 1] = ('"layers.%d"'):format(launch.stages[s].first_layer) end
  return ([[
# The plan for torchtitan until 2025.
[model]
name = "%s"
flavor = "%s"

[training]
local_batch_size = %d
global_batch_size = %d
seq_len = %d
steps = 20
mixed_precision_param = "%s"
dataset = "c4_test"

[parallelism]
pipeline_parallel_degree = %d
pipeline_parallel_split_points = [%s]
pipeline_parallel_schedule = "1F1B"
pipeline_parallel_microbatch_size = %d
tensor_parallel_degree = %d
context_parallel_degree = %d
data_parallel_replicate_degree = %d
data_parallel_shard_degree = %d
fsdp_reshard_after_forward = "%s"
expert_parallel_degree = %d

[activation_checkpoint]
mode = "%s"

[lr_scheduler]
warmup_steps = 2

[metrics]
log_freq = 1
]]):format(module_of(launch, options), config_of(launch, options), first.microbatch * launch.microbatches,
    launch.training.global_batch, launch.training.seq_len, precision(launch), #launch.stages, table.concat(points, ", "), first.microbatch,
    first.tp, first.cp, replicate, shard, reshard, (checks.expert_degrees(launch)), first.recompute.layers > 0 and "full" or "none")
end

function torchtitan.files(launch, options)
  local old <const> = options.version == "2025"
  local setup <const> = "TORCHTITAN=${TORCHTITAN:?the folder of torchtitan}\nhere=$PWD\n"
    .. 'export PYTHONPATH="$PWD:$TORCHTITAN${PYTHONPATH:+:$PYTHONPATH}"\ncd "$TORCHTITAN"\n'
  return {
    old and { name = "plan.toml", text = toml(launch, options) } or { name = "tangram_plan.py", text = plan_py(launch, options) },
    torchrun.node(launch, { setup = setup, port = options.port, command = old
      and '-m torchtitan.train --job.config_file "$here/plan.toml" --job.dump_folder "$here/outputs"'
      or '-m torchtitan.train --module tangram_plan --config plan --dump_folder "$here/outputs"' }),
    torchrun.ssh(launch, { "TORCHTITAN" }),
  }
end

function torchtitan.start(launch, options)
  return torchrun.start(launch, ("`TORCHTITAN` names the folder of torchtitan on the nodes; the model is `%s` of `%s`. To see without\n"
    .. "GPUs whether it takes the plan, in that folder, with this one as `HERE`:\n"
    .. "`NGPU=%d COMM_MODE=fake_backend %s ./run_train.sh`"):format(config_of(launch, options), module_of(launch, options), launch.world,
    options.version == "2025" and "CONFIG_FILE=$HERE/plan.toml" or "PYTHONPATH=$HERE MODULE=tangram_plan CONFIG=plan"))
end

torchtitan.slurm = "nodes"

return torchtitan
