--- DeepSpeed, experimental: no setting takes a given partition, so this writes code, a PipelineModule with the plan's bounds.
local checks <const> = require "tangram.output.checks"
local core <const> = require "tangram.core"
local nearest <const> = require "tangram.output.nearest"
local torchrun <const> = require "tangram.output.torchrun"

local deepspeed <const> = {
  name = "deepspeed", summary = "DeepSpeed, experimental: a PipelineModule subclass, ds_config.json, hostfile", versions = { "0.19" },
}

local LAUNCHERS <const> = { "pdsh", "ssh", "openmpi", "mpich", "impi", "mvapich", "torchrun" }

deepspeed.options = {
  recompute = { type = "enum", values = { "refuse", "nearest" }, default = "refuse",
    doc = "where not all layers of all stages are recomputed alike: refuse, or recompute all and price it" },
  launcher = { type = "enum", values = LAUNCHERS, default = "pdsh", doc = "what launch.sh starts the processes with" },
  port = { type = "integer", min = 1, max = 65535, default = 29500, doc = "of the rendezvous, on the first node" },
}

deepspeed.rules = {
  equal_gpus = true, one_tp = true, one_dp = true, cp_one = true, ep_one = true, one_zero = true, max_zero = 1,
  one_recompute = true, whole_recompute = true, selective_never = true, min_layers = 1, whole_layers = true, kv_divide = true,
  one_vendor = true, no_split_hosts = true, no_fsep = true, no_offload = true, no_fp8 = true, one_attention = true,
}

function deepspeed.prepare(plan, options, where)
  if options.recompute == "nearest" then return nearest.whole_recompute(plan, where) end
  return plan, {}
end

--- A hostfile names a host once, and its GPUs are taken in ascending order.
local function P1(launch, launcher)
  local seen <const> = {}
  for _, host in ipairs(launcher ~= "torchrun" and launch.hosts or {}) do
    if seen[host.name] then
      return checks.fatal("P1", "node %s holds stages %d and %d with others between them, but a hostfile names a node once; nearest:"
        .. " --set launcher=torchrun", host.name, seen[host.name], host.stages[1])
    end
    seen[host.name] = host.stages[#host.stages]
    for i = 2, #host.gpus do
      if host.gpus[i] < host.gpus[i - 1] then
        return checks.fatal("P1", "GPU %d of node %s comes before its GPU %d, but deepspeed takes a node's GPUs in ascending order;"
          .. " nearest: --set launcher=torchrun", host.gpus[i - 1], host.name, host.gpus[i])
      end
    end
  end
end

local EQUAL <const> = { mpich = true, impi = true, mvapich = true }

local function N1(launch, launcher) return EQUAL[launcher] and checks.N1(launch, launcher) or nil end

local function mixed(launch)
  local first <const> = launch.stages[1].devices[1]
  for _, stage in ipairs(launch.stages) do
    if stage.devices[1].name ~= first.name then
      return checks.warning("W2", "stage 1 is on %s, stage %d on %s: DeepSpeed is made for equal GPUs and balances nothing; the balance"
        .. " lies in the bounds of tangram_pipe.py alone", first.name, stage.index, stage.devices[1].name)
    end
  end
end

local function cut_layers(launch)
  local tp <const> = launch.stages[1].tp
  return tp > 1 and checks.warning("W3", "tp %d is of your layers' own code (column and row parallel linear layers, as in"
    .. " Megatron-DeepSpeed); PipelineModule only groups the ranks", tp) or nil
end

local function D3(launch) return checks.D3(launch, "deepspeed", { "bf16", "fp16", "fp32" }) end

function deepspeed.check(launch, options)
  return checks.run(launch, "deepspeed", {
    checks.L1, checks.L2, checks.G1, checks.G2, checks.C1, checks.E2, checks.E5, checks.E4, checks.O1, checks.H1, checks.H2, checks.H3,
    checks.C2, checks.B1, checks.R3_whole, checks.Z1, checks.Z2, checks.D1, { checks.D2, true },
    { D3 }, checks.V1, { P1, options.launcher }, { N1, options.launcher },
    checks.B3, checks.I1, mixed, cut_layers,
  })
end

--- Bounds of the stages in layer specs: embedding, transformer layers, then the last norm and the head as two.
local function bounds(launch)
  local list <const>, at = { "0" }, 0
  for s, stage in ipairs(launch.stages) do
    at = at + stage.layers + (stage.has_embedding and 1 or 0) + (stage.has_head and 2 or 0)
    list[s + 1] = ("%d"):format(at)
  end
  return table.concat(list, ", ")
end

local function pipe(launch)
  local first <const> = launch.stages[1]
  return ([[
"""The pipeline of the plan. This is code, not configuration: PipelineModule has no setting for a given partition."""
from deepspeed.pipe import PipelineModule
from deepspeed.runtime.pipe.topology import PipeModelDataParallelTopology

# Layer specs of stage s are BOUNDS[s] to BOUNDS[s + 1] - 1. They are, in order: the embedding, %d transformer layers, the
# last norm, the head.
BOUNDS = [%s]
STAGES, TP, DP = %d, %d, %d
RECOMPUTE = %s  # of every layer, in every stage


class TangramPipe(PipelineModule):
    """A PipelineModule with the plan's bounds, whatever partition_method says."""

    def __init__(self, layers, **options):
        layers = list(layers)
        if len(layers) != BOUNDS[-1]:
            raise ValueError(f"got {len(layers)} layer specs, the plan has {BOUNDS[-1]}")
        options.setdefault("topology", PipeModelDataParallelTopology(num_pp=STAGES, num_mp=TP, num_dp=DP))
        options.setdefault("activation_checkpoint_interval", 1 if RECOMPUTE else 0)
        super().__init__(layers=layers, **options)

    def _partition_layers(self, method="uniform"):
        stage = self._topo.get_coord(self.global_rank).pipe
        self.parts = list(BOUNDS)
        self._set_bounds(start=BOUNDS[stage], stop=BOUNDS[stage + 1])
]]):format(launch.model.layers, bounds(launch), #launch.stages, first.tp, first.dp,
    first.recompute.layers > 0 and "True" or "False")
end

local TRAIN <const> = [[
"""Starts a training with the plan's pipeline.

The module named by TANGRAM_LAYERS is yours. It has layers() -> list of LayerSpec or TiedLayerSpec (see tangram_pipe.py for
their order), loss(outputs, labels), and data() -> an iterator of (inputs, labels) of one microbatch.
"""
import importlib
import os

import deepspeed

from tangram_pipe import TangramPipe


def main():
    yours = importlib.import_module(os.environ["TANGRAM_LAYERS"])
    deepspeed.init_distributed()
    model = TangramPipe(yours.layers(), loss_fn=yours.loss)
    engine, _, _, _ = deepspeed.initialize(
        model=model, model_parameters=[p for p in model.parameters() if p.requires_grad], config="ds_config.json")
    batches = yours.data()
    for _ in range(int(os.environ.get("STEPS", "20"))):
        engine.train_batch(data_iter=batches)


if __name__ == "__main__":
    main()
]]

local function ds_config(launch)
  local first <const>, precision <const> = launch.stages[1], launch.precision
  return core.json_encode({
    train_batch_size = launch.training.global_batch, train_micro_batch_size_per_gpu = first.microbatch,
    gradient_accumulation_steps = launch.microbatches, zero_optimization = { stage = checks.zero_level(launch) },
    fp16 = { enabled = precision == "fp16" }, bf16 = { enabled = precision == "bf16" },
    data_types = launch.training.gradient_bytes == 4 and precision ~= "fp32" and { grad_accum_dtype = "fp32" } or nil,
    optimizer = { type = "Adam", params = { lr = 1e-4 } },
    activation_checkpointing = { partition_activations = false, cpu_checkpointing = false },
    gradient_clipping = 1.0, steps_per_print = 1,
  }, { "train_batch_size", "train_micro_batch_size_per_gpu", "gradient_accumulation_steps", "zero_optimization" }) .. "\n"
end

local function hostfile(launch)
  local lines <const> = {}
  for h, host in ipairs(launch.hosts) do lines[h] = ("%s slots=%d\n"):format(host.name, host.machine_gpus) end
  return table.concat(lines)
end

--- "a1@v1:0,1": GPUs of the plan, in the hostfile's order; a host without a list gives all of its own.
local function include(launch)
  local words <const> = {}
  for h, host in ipairs(launch.hosts) do
    words[h] = #host.gpus < host.machine_gpus and ("%s:%s"):format(host.name, table.concat(host.gpus, ",")) or host.name
  end
  return table.concat(words, "@")
end

local function launcher(launch, options)
  return { name = "launch.sh", executable = true, text = ([[
#!/bin/bash
# Starts the training from here by %s; ranks follow the hostfile. This folder must be at the same path on all nodes.
set -euo pipefail
cd "$(dirname "$0")"
export TANGRAM_LAYERS=${TANGRAM_LAYERS:?your module of layers, see train.py} PYTHONPATH="$PWD${PYTHONPATH:+:$PYTHONPATH}"
printf '%%s=%%s\n' TANGRAM_LAYERS "$TANGRAM_LAYERS" PYTHONPATH "$PYTHONPATH" STEPS "${STEPS:-20}" >.deepspeed_env
export DS_ENV_FILE="$PWD/.deepspeed_env"
exec deepspeed --hostfile "${HOSTFILE:-hostfile}" --include '%s' --launcher %s \
  --master_addr "${MASTER_ADDR:-%s}" --master_port "${MASTER_PORT:-%d}" train.py "$@"
]]):format(options.launcher, include(launch), options.launcher, launch.hosts[1].name, options.port) }
end

function deepspeed.files(launch, options)
  return {
    { name = "tangram_pipe.py", text = pipe(launch) }, { name = "train.py", text = TRAIN },
    { name = "ds_config.json", text = ds_config(launch) }, { name = "hostfile", text = hostfile(launch) },
    torchrun.node(launch, { port = options.port, command = "train.py",
      setup = 'export TANGRAM_LAYERS=${TANGRAM_LAYERS:?your module of layers, see train.py}'
        .. ' PYTHONPATH="$PWD${PYTHONPATH:+:$PYTHONPATH}"\n' }),
    options.launcher == "torchrun" and torchrun.ssh(launch, { "TANGRAM_LAYERS", "STEPS", "PYTHONPATH" }) or launcher(launch, options),
  }
end

function deepspeed.start(launch)
  return "**Experimental.** DeepSpeed has no setting for a given partition: `tangram_pipe.py` is code, a `PipelineModule` whose\n"
    .. "bounds are the plan's. Your module, named by `TANGRAM_LAYERS`, gives layers, loss and data (`train.py` says how).\n\n"
    .. torchrun.start(launch, "`launch.sh` uses the hostfile (but for `--set launcher=torchrun`); `node.sh` starts one node by torchrun.")
end

deepspeed.slurm = "nodes"

return deepspeed
