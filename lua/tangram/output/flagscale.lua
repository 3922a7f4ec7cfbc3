--- FlagScale, heterogeneous training: the one runtime that runs unlike stages as composed. tp, ep, dp and layers by mesh; cp
--- is 1; recompute by stage with the backend of 2025-11.
local args <const> = require "tangram.output.megatron_args"
local checks <const> = require "tangram.output.checks"
local config <const> = require "tangram.output.flagscale_config"
local flagscale_checks <const> = require "tangram.output.flagscale_checks"
local nearest <const> = require "tangram.output.nearest"
local yaml <const> = require "tangram.output.yaml"

local flagscale <const> = {
  name = "flagscale", summary = "FlagScale heterogeneous training: a mesh of tp, cp, ep, dp, pp for each run of like stages",
  versions = { "2025-11", "2026-07" }, -- 2026-07: Megatron-LM-FL, which ignores recompute by stage
  vocab_multiple = config.vocab_multiple, slurm = "head",
}

local function over(part) return { type = "table", doc = ("set over the written %s, e.g. %s"):format(part[1], part[2]) } end

flagscale.options = {
  recompute = { type = "enum", values = { "refuse", "nearest" }, default = "refuse",
    doc = "where the runtime can't recompute as planned: refuse, or take the nearest setting for all stages and price it" },
  system = over { "system:", "system.hetero.hetero_use_cpu_communication=true" },
  model = over { "model:", "model.train_iters=1000" }, data = over { "data:", "data.data_path=corpus" },
  experiment = over { "experiment:", "experiment.runner.ssh_port=2222" },
}

flagscale.rules = {
  cp_one = true, ep_all_or_none = true, one_zero = true, max_zero = 1, selective_all_or_none = true, min_layers = 1,
  whole_layers = true, tied_tp_equal = true, tied_dp_divides = true, no_split_hosts = true, no_fsep = true, no_offload = true,
  one_attention = true, waits_for_transfers = true,
}

--- Does one global setting or, with the backend that has them, a list by stage give what is planned?
local function expressible(launch, version)
  if checks.one_recompute(launch) then return true end
  if version ~= "2025-11" then return false, "ignores settings by stage" end
  for _, stage in ipairs(launch.stages) do
    if stage.recompute.kind == "selective" then
      return false, ("can't set stage %d to the attention core alone while others differ"):format(stage.index)
    end
  end
  return true
end

function flagscale.prepare(plan, options, where)
  if options.recompute == "refuse" then return plan, {} end
  local launch <const> = require("tangram.output.launch").of(plan, where)
  if expressible(launch, options.version) then return plan, {} end
  return nearest.one_recompute(plan, where)
end

local function R2(launch, version)
  local right <const>, why <const> = expressible(launch, version)
  if right then return nil end
  local conflict <const> = checks.R1(launch, "flagscale " .. version)
  return checks.fatal("R2", "%s (it %s)", conflict.text:gsub(" has one setting for all stages,", "'s"), why)
end

--- One host has one label, so it can't serve stages with others between them.
local function P1(launch)
  local seen <const> = {}
  for _, host in ipairs(launch.hosts) do
    if seen[host.name] then
      return checks.fatal("P1", "node %s holds stages %d and %d with others between them, but flagscale gives a node one place in the"
        .. " pipeline; plan again without cutting nodes", host.name, seen[host.name], host.stages[1])
    end
    seen[host.name] = host.stages[#host.stages]
  end
end

local function V2(launch, train)
  for _, stage in ipairs(launch.stages) do
    local _, one <const>, _, other <const> = checks.vendors { stages = { stage } }
    if one then
      return checks.fatal("V2", "stage %d is on GPUs of %s and of %s, but a stage's must be one vendor's; plan again with merged = false",
        stage.index, one.vendor, other.vendor)
    end
  end
  local a <const>, one <const>, b <const>, other <const> = checks.vendors(launch)
  return a and train.system.hetero.hetero_use_cpu_communication ~= true and checks.fatal("V2", "stage %d is on %s, stage %d on %s;"
    .. " between vendors it needs --set system.hetero.hetero_use_cpu_communication=true", a.index, one.vendor, b.index, other.vendor)
    or nil
end

--- Without sequence parallelism planned, what is written (F16) has other memory than planned.
local function S2(launch)
  for _, stage in ipairs(launch.stages) do
    if stage.tp > 1 and not stage.sp then
      return checks.warning("S2", "stage %d is planned without sequence parallelism at tp %d; it is on in all meshes here, which takes"
        .. " less memory", stage.index, stage.tp)
    end
  end
end

--- Checks of the written configuration that say again what one of the plan does.
local SAME <const> = { L1 = "F8", C1 = "F6", E1 = "F7", E2 = "F10", T1 = "F11", T2 = "F11", S1 = "F16" }

function flagscale.check(launch, options)
  local train <const> = config.train(launch, options)
  local findings <const> = checks.run(launch, "flagscale", {
    checks.L1, checks.L2, checks.C1, checks.E1, checks.E2, checks.E4, checks.O1, checks.H1, checks.H2_copies, checks.H3, checks.T1,
    checks.T2, checks.S1, checks.Z1, checks.Z2, checks.D1, { checks.D2, true }, { R2, options.version }, P1, { V2, train }, S2, checks.B3,
    checks.P2, checks.I1, checks.N2, args.model_differs,
  })
  local said <const> = {}
  for _, finding in ipairs(findings) do said[SAME[finding.code] or ""] = true end
  for _, finding in ipairs(flagscale_checks.run(train, launch)) do
    if not said[finding.code] then findings[#findings + 1] = finding end
  end
  return findings
end

local ORDER <const> = {
  "defaults", "experiment", "action", "hydra", "exp_name", "exp_dir", "task", "runner", "envs", "backend", "rdzv_backend", "nnodes",
  "nproc_per_node", "hostfile", "system", "model", "data", "tensor_model_parallel_size", "pipeline_model_parallel_size",
  "sequence_parallel", "use_distributed_optimizer", "hetero", "enable_hetero", "hetero_process_meshes", "hetero_pipeline_layer_split",
  "hetero_device_types", "hetero_current_device_type", "recompute", "recompute_granularity", "recompute_method", "recompute_num_layers",
  "precision", "checkpoint", "logging", "num_layers", "hidden_size", "ffn_hidden_size", "num_attention_heads", "seq_length",
}

local RUN <const> = [[
#!/bin/bash
# Starts the training from here: the runner reaches the hosts of the hostfile by ssh. Run it on the first of them;
# "launch.sh action=stop" ends it.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
cd "${FLAGSCALE:?the folder of FlagScale, at the same path on all hosts}"
exec python run.py --config-path "$here" --config-name config \
  "experiment.runner.hostfile=${HOSTFILE:-$here/hostfile}" "experiment.exp_dir=${OUTPUTS:-$here/outputs}" "${@:-action=run}"
]]

function flagscale.files(launch, options)
  return {
    { name = "config.yaml", text = yaml.encode(config.experiment(launch, options), ORDER) },
    { name = "train/plan.yaml", text = yaml.encode(config.train(launch, options), ORDER) },
    { name = "hostfile", text = config.hostfile(launch) },
    { name = "launch.sh", text = RUN, executable = true },
  }
end

function flagscale.start(launch, options)
  local meshes <const>, lines <const> = config.meshes(launch), {}
  local labels <const> = config.labels(launch, meshes)
  for m, mesh in ipairs(meshes) do
    lines[m] = ("- mesh %d, `%s`: stage%s, tp %d, cp %d, ep %d, dp %d, pp %d, microbatch %d\n"):format(m - 1, labels[m],
      mesh.first == mesh.last and (" %d"):format(mesh.first) or ("s %d to %d"):format(mesh.first, mesh.last), mesh.tp, mesh.cp, mesh.ep,
      mesh.dp, mesh.last - mesh.first + 1, launch.stages[mesh.first].microbatch)
  end
  return ("On %s, with FlagScale (%s) at the same path on all hosts and ssh between them:\n\n```sh\nFLAGSCALE=~/FlagScale ./launch.sh\n"
    .. "```\n\nThe data is made up and the run is 20 iterations long; put your own into `train/plan.yaml`. Checkpoints are of the format\n"
    .. "`torch`: the distributed one does not work with unlike tp.\n\n%s"):format(launch.hosts[1].name, options.version,
    table.concat(lines))
end

return flagscale
