--- A launch as FlagScale's configuration: meshes of stages with the same degrees, one label a mesh, hosts by label.
local args <const> = require "tangram.output.megatron_args"
local checks <const> = require "tangram.output.checks"
local launches <const> = require "tangram.output.launch"
local torchrun <const> = require "tangram.output.torchrun"

local config <const> = {}

--- Stages without experts take the degrees of those with, where their GPUs allow it.
local function expert_degrees(launch, stage)
  local ep <const>, etp <const> = checks.expert_degrees(launch)
  if not checks.has_experts(launch, stage) and stage.gpus % (ep * etp) == 0 then return ep, etp end
  return stage.ep, stage.etp
end

--- Runs of stages on one island with the same degrees: { first, last, tp, cp, ep, dp, etp } with stages from 1, inclusive.
---@param launch table
---@return table[]
function config.meshes(launch)
  local list <const> = {}
  for s, stage in ipairs(launch.stages) do
    local ep <const>, etp <const> = expert_degrees(launch, stage)
    local mesh = list[#list]
    if mesh and mesh.island == stage.island and mesh.tp == stage.tp and mesh.cp == stage.cp and mesh.dp == stage.dp
      and mesh.ep == ep and mesh.etp == etp then
      mesh.last = s
    else
      mesh = { first = s, last = s, island = stage.island, tp = stage.tp, cp = stage.cp, ep = ep, dp = stage.dp, etp = etp }
      list[#list + 1] = mesh
    end
  end
  return list
end

local function shares_host(launch, a, b)
  local last <const> = launch.stages[a.last].hosts
  return last[#last].node == launch.stages[b.first].hosts[1].node
end

--- A label for each mesh. Ranks are sorted by the first place of their label, so each mesh has its own, save neighbours on
--- one host, as a host has one label.
---@param launch table
---@param meshes table[]
---@return string[]
function config.labels(launch, meshes)
  local labels <const>, taken <const> = {}, {}
  for m, mesh in ipairs(meshes) do
    if m > 1 and shares_host(launch, meshes[m - 1], mesh) then
      labels[m] = labels[m - 1]
    else
      local base <const> = mesh.island:gsub("[^%w_.-]", "_")
      local label, count = base, 1
      while taken[label] do
        count = count + 1
        label = ("%s_%d"):format(base, count)
      end
      labels[m], taken[label] = label, true
    end
  end
  return labels
end

local function label_of_host(launch, meshes, labels, host)
  for m, mesh in ipairs(meshes) do
    if host.stages[1] >= mesh.first and host.stages[1] <= mesh.last then return labels[m] end
  end
  error(("internal: no mesh holds stage %d of %d"):format(host.stages[1], #launch.stages), 0)
end

--- The hostfile: hosts in the order of ranks.
---@param launch table
---@return string
function config.hostfile(launch)
  local meshes <const>, lines <const> = config.meshes(launch), {}
  local labels <const> = config.labels(launch, meshes)
  for h, host in ipairs(launch.hosts) do
    lines[h] = ("%s slots=%d type=%s\n"):format(host.name, #host.gpus, label_of_host(launch, meshes, labels, host))
  end
  return table.concat(lines)
end

local function gcd(a, b) return b == 0 and a or gcd(b, a % b) end

--- The make_vocab_size_divisible_by with which the first and the last stage, each padding for its own tp, come to the same
--- size, the least multiple of 128 times both; 128 where a small vocabulary leaves none.
---@param launch table
---@return integer
function config.vocab_multiple(launch)
  local a <const>, b <const> = launch.stages[1].tp, launch.stages[#launch.stages].tp
  local both <const> = a // gcd(a, b) * b
  if a == b then return 128 end
  local multiple <const> = checks.padded_vocabulary(launch, both, 128) // both
  return checks.padded_vocabulary(launch, a, multiple) == checks.padded_vocabulary(launch, b, multiple) and multiple or 128
end

--- Rows { stages, microbatches, value }, one for each run of stages with the same value; a stage keeps its setting for all
--- microbatches, as an "off" is never undone.
local function rows(launch, value_of)
  local list <const> = {}
  for _, stage in ipairs(launch.stages) do
    local value <const>, row <const> = value_of(stage), list[#list]
    if row and row[3] == value then row[1] = row[1] + 1 else list[#list + 1] = { 1, launch.microbatches, value } end
  end
  return list
end

local function full(stage) return stage.recompute.kind == "full" end
local function part(stage) return full(stage) and stage.recompute.layers < stage.layers end

--- One setting where one does, else lists by stage, which the backend of 2025-11 reads.
local function recompute(launch)
  local one <const> = checks.one_recompute(launch)
  if one and one.kind == "none" then return nil end
  if one and one.kind == "selective" then return { recompute_granularity = "selective" } end
  if one then
    return { recompute_granularity = "full", recompute_method = one.all and "uniform" or "block",
      recompute_num_layers = one.all and 1 or one.layers }
  end
  return {
    recompute_granularity = "full", recompute_method = "uniform", recompute_num_layers = 1,
    recompute_granularity_per_stage_micro_batch = rows(launch, function(stage) return full(stage) and 1 or 0 end),
    recompute_method_per_stage_micro_batch = rows(launch, function(stage) return part(stage) and 1 or 0 end),
    recompute_num_layers_per_stage_micro_batch = rows(launch, function(stage) return part(stage) and stage.recompute.layers or 1 end),
  }
end

local function hetero(launch)
  local meshes <const> = config.meshes(launch)
  local labels <const>, flat <const>, etp <const>, split <const> = config.labels(launch, meshes), {}, {}, {}
  for m, mesh in ipairs(meshes) do
    for _, degree in ipairs { mesh.tp, mesh.cp, mesh.ep, mesh.dp, mesh.last - mesh.first + 1 } do flat[#flat + 1] = degree end
    etp[m] = mesh.etp
  end
  for s, stage in ipairs(launch.stages) do split[s] = stage.layers end
  local first <const>, last <const> = launch.stages[1], launch.stages[#launch.stages]
  return {
    enable_hetero = true, hetero_process_meshes = flat, hetero_pipeline_layer_split = split, hetero_device_types = labels,
    hetero_current_device_type = labels[1], hetero_use_cpu_communication = false, standalone_embedding_stage = false,
    expert_tensor_parallel_size_per_process_mesh = launch.model.experts > 0 and etp or nil,
    use_partial_reduce_for_shared_embedding = launch.tied and first.dp ~= last.dp or nil,
  }
end

local function underscored(groups, into)
  for _, group in ipairs(groups) do into[group[1]:gsub("%-", "_")] = #group == 1 and true or group[2] end
  return into
end

--- Adds what the user sets over the configuration, table by table.
local function merge(into, given)
  for key, value in pairs(given or {}) do
    if type(value) == "table" and type(into[key]) == "table" and value[1] == nil then merge(into[key], value) else into[key] = value end
  end
end

local function any_tp(launch)
  for _, stage in ipairs(launch.stages) do
    if stage.tp > 1 then return true end
  end
  return false
end

local PRECISION <const> = {
  fp16 = true, bf16 = true, fp8_format = true, accumulate_allreduce_grads_in_fp32 = true, grad_reduce_in_bf16 = true,
}

--- The training configuration: { system, model, data }.
---@param launch table
---@param options table { system?, model?, data? } what the user sets over it
---@return table
function config.train(launch, options)
  local first <const> = launch.stages[1]
  local system <const> = {
    tensor_model_parallel_size = first.tp, pipeline_model_parallel_size = #launch.stages, sequence_parallel = any_tp(launch),
    use_distributed_optimizer = checks.zero_level(launch) > 0, hetero = hetero(launch), recompute = recompute(launch), precision = {},
    logging = { log_interval = 1 }, checkpoint = { ckpt_format = "torch" }, -- distributed checkpoints fail with unlike tp
  }
  local model <const> = underscored(args.model(launch), {
    micro_batch_size = first.microbatch, global_batch_size = launch.training.global_batch, train_iters = 20, use_mcore_models = true,
    optimizer = { lr_scheduler = { lr = 1e-4, min_lr = 1e-5, lr_decay_style = "cosine" } },
  })
  for key, value in pairs(underscored(args.training(launch), {})) do
    if PRECISION[key] then
      system.precision[key] = value
    elseif key ~= "use_distributed_optimizer" then
      model[key] = value
    end
  end
  if not next(system.precision) then system.precision = nil end
  model.untie_embeddings_and_output_weights = not launch.tied
  local tokenizer <const> = { tokenizer_type = "NullTokenizer", vocab_size = launch.model.vocab - 1, -- it adds one token
    make_vocab_size_divisible_by = config.vocab_multiple(launch) }
  local all <const> = { system = system, model = model, data = { mock_data = true, tokenizer = tokenizer } }
  merge(all, { system = options.system, model = options.model, data = options.data })
  return all
end

--- The experiment: who runs what where.
---@param launch table
---@param options table { experiment? } what the user sets over it
---@return table
function config.experiment(launch, options)
  local envs <const>, node_specific <const> = { HYDRA_FULL_ERROR = 1 }, {}
  local most = 0
  for _, host in ipairs(launch.hosts) do
    most = math.max(most, #host.gpus)
    local own <const> = { NCCL_IB_HCA = torchrun.nics(host) }
    if not launches.whole(host) then own[torchrun.visible(host)] = torchrun.devices(host) end
    if next(own) then node_specific[host.name] = own end
  end
  if args.one_connection(launch) then envs.CUDA_DEVICE_MAX_CONNECTIONS = 1 end
  if next(node_specific) then envs.node_specific = node_specific end
  local experiment <const> = {
    exp_name = launch.name, exp_dir = "./outputs",
    task = { type = "train", backend = "megatron", entrypoint = "flagscale/train/train_gpt.py" },
    runner = { backend = "torchrun", rdzv_backend = "static", nnodes = #launch.hosts, nproc_per_node = most, hostfile = "./hostfile",
      ssh_port = 22 },
    envs = envs,
  }
  merge(experiment, options.experiment)
  return { defaults = { "_self_", { train = "plan" } }, experiment = experiment, action = "run",
    hydra = { run = { dir = "${experiment.exp_dir}/hydra" } } }
end

return config
