"""Compiles all Python of a folder, runs it as its runtime would, with stand-ins for deepspeed and torchtitan, and prints JSON.

runtimes.py deepspeed FOLDER   -> per rank: [stage, first spec, last spec (not counted), dp index, tp index], and what the
                                  PipelineModule was given
runtimes.py torchtitan FOLDER MODULE CONFIG AGE -> the configuration by dotted names; AGE is that of the names: early or late
"""
import glob
import json
import sys
import types


def module(name, **members):
    made = types.ModuleType(name)
    made.__dict__.update(members)
    sys.modules[name] = made
    return made


class Topology:
    """Ranks with the last axis fastest: pipe, data, model."""

    def __init__(self, num_pp, num_mp, num_dp):
        self.dims = (num_pp, num_dp, num_mp)

    def get_coord(self, rank):
        pipe, rest = divmod(rank, self.dims[1] * self.dims[2])
        data, model = divmod(rest, self.dims[2])
        return types.SimpleNamespace(pipe=pipe, data=data, model=model)


def deepspeed(folder):
    state = {}

    class PipelineModule:
        def __init__(self, layers, topology, **options):
            self._topo, self.global_rank, state["options"] = topology, state["rank"], options
            self._partition_layers(method="parameters")

        def _set_bounds(self, start, stop):
            state["bounds"] = (start, stop)

    module("deepspeed")
    module("deepspeed.pipe", PipelineModule=PipelineModule)
    module("deepspeed.runtime")
    module("deepspeed.runtime.pipe")
    module("deepspeed.runtime.pipe.topology", PipeModelDataParallelTopology=Topology)
    sys.path.insert(0, folder)
    import tangram_pipe

    ranks = []
    for rank in range(tangram_pipe.STAGES * tangram_pipe.TP * tangram_pipe.DP):
        state["rank"] = rank
        pipe = tangram_pipe.TangramPipe([object()] * tangram_pipe.BOUNDS[-1])
        at = pipe._topo.get_coord(rank)
        ranks.append([at.pipe, *state["bounds"], at.data, at.model])
    try:
        tangram_pipe.TangramPipe([object()] * (tangram_pipe.BOUNDS[-1] + 1))
        refused = False
    except ValueError:
        refused = True
    return {"ranks": ranks, "options": state["options"], "refuses_other_counts": refused}


def torchtitan(folder, name, config, age):
    parallelism = dict.fromkeys([
        "pipeline_parallel_degree", "pipeline_parallel_schedule", "num_pp_microbatches", "tensor_parallel_degree",
        "context_parallel_degree", "data_parallel_replicate_degree", "data_parallel_shard_degree",
        "fsdp_reshard_after_forward", "expert_parallel_degree",
        "module_fqns_per_model_part" if age == "early" else "pipeline_parallel_module_fqns_per_model_part"])
    training = dict.fromkeys([
        "num_tokens_per_microbatch_per_dp_rank", "num_tokens_per_train_step", "mixed_precision_param",
        "seq_len" if age == "early" else "max_context_length"])
    made = types.SimpleNamespace(
        parallelism=types.SimpleNamespace(**parallelism), training=types.SimpleNamespace(**training),
        activation_checkpoint=types.SimpleNamespace(mode="selective"))
    module("torchtitan")
    module("torchtitan.models")
    module("torchtitan.models." + name)
    module("torchtitan.models." + name + ".config_registry", **{config: lambda: made})
    if age == "late":
        module("torchtitan.distributed")
        full = type("FullAC", (), {"Config": lambda: types.SimpleNamespace(mode="full")})
        module("torchtitan.distributed.activation_checkpoint", FullAC=full)
    sys.path.insert(0, folder)
    import tangram_plan

    done = tangram_plan.plan()
    mode = done.activation_checkpoint.mode if done.activation_checkpoint else "none"
    return {**vars(done.parallelism), **vars(done.training), "recompute": mode}


sys.dont_write_bytecode = True
for path in glob.glob(sys.argv[2] + "/*.py"):
    with open(path, encoding="utf-8") as source:
        compile(source.read(), path, "exec")
print(json.dumps({"deepspeed": deepspeed, "torchtitan": torchtitan}[sys.argv[1]](*sys.argv[2:])))
