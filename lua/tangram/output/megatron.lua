--- Megatron-LM: one tp, cp, ep and dp for all stages, any number of layers in each by a layout string.
local args <const> = require "tangram.output.megatron_args"
local checks <const> = require "tangram.output.checks"
local nearest <const> = require "tangram.output.nearest"
local torchrun <const> = require "tangram.output.torchrun"

local megatron <const> = {
  name = "megatron", summary = "Megatron-LM: a layout string of layers a stage, node scripts with torchrun",
  slurm = "nodes", versions = { "2026", "2024" }, -- 2024: before layouts, and tp divides the key-value heads
}

megatron.options = {
  recompute = { type = "enum", values = { "refuse", "nearest" }, default = "refuse",
    doc = "where stages recompute differently: refuse, or take the nearest setting for all and price it" },
  port = { type = "integer", min = 1, max = 65535, default = 29500, doc = "of the rendezvous, on the first node" },
}

megatron.rules = {
  equal_gpus = true, one_tp = true, one_dp = true, one_cp = true, one_ep = true, one_zero = true, max_zero = 1,
  one_recompute = true, whole_layers = true, one_vendor = true, no_fsep = true, no_offload = true, one_attention = true,
  waits_for_transfers = true,
}

function megatron.prepare(plan, options, where)
  if options.recompute == "nearest" then return nearest.one_recompute(plan, where) end
  return plan, {}
end

local function layers_of(launch)
  local list <const> = {}
  for s, stage in ipairs(launch.stages) do list[s] = stage.layers end
  return list
end

local function even(layers)
  for _, count in ipairs(layers) do
    if count ~= layers[1] or count == 0 then return false end
  end
  return true
end

--- The layout of exactly one segment a stage: more would be read as an interleaved schedule.
---@param launch table
---@return string "Et*12|t*7|t*5L"
function megatron.layout(launch)
  local segments <const> = {}
  for s, stage in ipairs(launch.stages) do
    local layers <const> = stage.layers > 1 and ("t*%d"):format(stage.layers) or ("t"):rep(stage.layers)
    segments[s] = (stage.has_embedding and "E" or "") .. layers .. (stage.has_head and "L" or "")
  end
  return table.concat(segments, "|")
end

--- The split by the number of layers of the first and the last stage, if those between are equal.
---@param layers integer[]
---@return table[]? groups
local function first_last(layers)
  local count <const> = #layers
  local first <const>, middle <const>, last <const> = layers[1], layers[2], layers[count]
  for _, number in ipairs(layers) do
    if number == 0 then return nil end
  end
  if count == 2 then return { { "decoder-first-pipeline-num-layers", first } } end
  for s = 3, count - 1 do
    if layers[s] ~= middle then return nil end
  end
  local groups <const> = {}
  if first ~= middle then groups[1] = { "decoder-first-pipeline-num-layers", first } end
  if last ~= middle then groups[#groups + 1] = { "decoder-last-pipeline-num-layers", last } end
  return groups
end

--- The split nearest to layers that has equal stages between the first and the last.
local function nearest_split(layers)
  local count <const>, sum = #layers, 0
  for s = 2, count - 1 do sum = sum + layers[s] end
  local middle <const> = math.max(1, (sum + (count - 2) // 2) // (count - 2))
  local split <const> = { layers[1] + sum - middle * (count - 2) }
  for s = 2, count - 1 do split[s] = middle end
  split[count] = layers[count]
  if split[1] < 1 then split[1], split[count] = 1, split[count] + split[1] - 1 end
  return table.concat(split, ", ")
end

local function L4(launch)
  local layers <const> = layers_of(launch)
  if even(layers) or first_last(layers) then return nil end
  return checks.fatal("L4", "the stages hold %s layers; version 2024 has no layout, and its flags for the first and the last stage"
    .. " need at least one layer in each and equal stages between%s; or take --runtime-version 2026", table.concat(layers, ", "),
    #layers > 2 and (", nearest: %s"):format(nearest_split(layers)) or "")
end

--- A stage of the embedding or the head alone runs, but seldom pays; one of nothing would wait for ever.
local function empty_stages(launch, runtime)
  for _, stage in ipairs(launch.stages) do
    if stage.layers == 0 and not stage.has_embedding and not stage.has_head then return checks.L2(launch, runtime) end
  end
  for _, stage in ipairs(launch.stages) do
    if stage.layers == 0 then
      return checks.warning("L2", "stage %d holds only the %s", stage.index, stage.has_embedding and "embedding" or "head")
    end
  end
end

local function experts_need_sp(launch)
  for _, stage in ipairs(launch.stages) do
    if stage.tp > 1 and not stage.sp and checks.has_experts(launch, stage) then
      return checks.fatal("S2", "stage %d has experts and tp %d without sequence parallelism, which megatron needs there; nearest: sp"
        .. " on", stage.index, stage.tp)
    end
  end
end

local function cp_needs_kernels(launch)
  local old <const> = checks.old_device(launch)
  return old and launch.stages[1].cp > 1 and checks.fatal("D2", "cp %d needs fused attention, which %s hasn't; nearest: cp 1, plan"
    .. " again with --set parallelizer.options.max_cp=1", launch.stages[1].cp, old.name) or nil
end

--- Without a pipeline, gradients (ZeRO 2) and weights (ZeRO 3) are sharded by Megatron-FSDP.
local function fsdp(launch, options)
  local zero <const> = checks.zero_level(launch)
  return #launch.stages == 1 and options.version ~= "2024" and zero > 1 and zero or nil
end

function megatron.check(launch, options)
  local list <const> = {
    checks.L1, empty_stages, checks.M1, checks.G1, checks.G2, checks.E2, checks.E3, checks.E4, checks.O1, checks.H1,
    options.version == "2024" and checks.H2 or checks.H2_copies, checks.H3, checks.C2, checks.B1, checks.R1, checks.Z2,
    experts_need_sp, checks.D1, { checks.D2, true }, cp_needs_kernels, checks.V1, checks.B3, checks.P2, checks.I1, checks.N2,
    args.model_differs,
  }
  if not fsdp(launch, options) then table.insert(list, checks.Z1) end
  if options.version == "2024" then table.insert(list, 3, L4) end
  return checks.run(launch, "megatron", list)
end

local function recompute(launch, add)
  local one <const> = checks.one_recompute(launch)
  if one.kind == "none" then return end
  add("recompute-granularity", one.kind)
  if one.kind == "selective" then
    add("recompute-modules", "core_attn")
  elseif one.all then
    add("recompute-method", "uniform")
    add("recompute-num-layers", 1)
  else
    add("recompute-method", "block")
    add("recompute-num-layers", one.layers)
  end
end

local function parallel(launch, options)
  local list <const>, first <const>, layers <const> = {}, launch.stages[1], layers_of(launch)
  local function add(...) list[#list + 1] = { ... } end
  add("tensor-model-parallel-size", first.tp)
  add("pipeline-model-parallel-size", #launch.stages)
  if not even(layers) then
    if options.version == "2024" then
      for _, group in ipairs(first_last(layers)) do add(table.unpack(group)) end
    else
      add("pipeline-model-parallel-layout", megatron.layout(launch))
    end
  end
  if first.cp > 1 then add("context-parallel-size", first.cp) end
  local ep <const>, etp <const> = checks.expert_degrees(launch)
  if launch.model.experts > 0 then
    add("expert-model-parallel-size", ep)
    add("expert-tensor-parallel-size", etp)
  end
  if first.tp > 1 and first.sp then add "sequence-parallel" end
  add("micro-batch-size", first.microbatch)
  add("global-batch-size", launch.training.global_batch)
  recompute(launch, add)
  local zero <const> = fsdp(launch, options)
  if zero then
    add "use-megatron-fsdp"
    add("data-parallel-sharding-strategy", zero == 2 and "optim_grads" or "optim_grads_params")
    add("ckpt-format", "fsdp_dtensor")
  end
  return list
end

--- Megatron of 2024 has no choice of attention kernels.
local function known(groups, version)
  local list <const> = {}
  for _, group in ipairs(groups) do
    if group[1] == "attention-backend" and version == "2024" then
      if group[2] == "flash" then list[#list + 1] = { "use-flash-attn" } end
    elseif group[1] == "recompute-modules" and version == "2024" then -- the attention core is what selective meant
      list[#list] = { "recompute-granularity", "selective" }
    else
      list[#list + 1] = group
    end
  end
  return list
end

local function shell_words(...)
  local groups <const> = {}
  for _, list in ipairs { ... } do
    for _, group in ipairs(list) do
      local words <const> = { "--" .. group[1] }
      for i = 2, #group do words[i] = group[i] end
      groups[#groups + 1] = words
    end
  end
  return torchrun.array(groups)
end

local function setup(launch, options)
  local list <const> = known(parallel(launch, options), options.version)
  return ([[
%sMEGATRON=${MEGATRON:?the folder of Megatron-LM}
PLAN=(
%s
)
# A trial on random data unless told otherwise.
[ -n "${DATA:-}" ] || DATA="--mock-data --tokenizer-type NullTokenizer --vocab-size %d"
[ -n "${TRAIN:-}" ] || TRAIN="--train-iters 20 --lr 1e-4 --min-lr 1e-5 --lr-decay-style cosine --log-interval 1"
]]):format(args.one_connection(launch) and not fsdp(launch, options) and "export CUDA_DEVICE_MAX_CONNECTIONS=1\n" or "",
    shell_words(list, args.model(launch), known(args.training(launch), options.version)),
    launch.model.vocab - 1) -- the tokenizer adds one token
end

function megatron.vocab_multiple() return 128 end

function megatron.files(launch, options)
  return {
    torchrun.node(launch, { setup = setup(launch, options), port = options.port,
      command = '"$MEGATRON/pretrain_gpt.py" "${PLAN[@]}" $DATA $TRAIN' }),
    torchrun.ssh(launch, { "MEGATRON", "DATA", "TRAIN" }),
  }
end

function megatron.start(launch)
  local layout <const> = not even(layers_of(launch)) and (" The stages' layers are `%s`."):format(megatron.layout(launch)) or ""
  return torchrun.start(launch, "`MEGATRON` names the folder of Megatron-LM on the nodes; `DATA` and `TRAIN` hold its arguments for\n"
    .. "data and schedule (a trial of 20 iterations on random data without them)." .. layout)
end

return megatron
