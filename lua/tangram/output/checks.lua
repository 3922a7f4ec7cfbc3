--- What runtimes can't run, by code: one function a code, over a launch (output/launch.lua), so that all exporters say the
--- same sentence. Each gives nil, or { code, text, fatal }: what is wrong with its numbers, and the nearest that works.
--- Stages without experts suit any ep, and stages without replicas any ZeRO level.
local finding <const> = require "tangram.output.finding"
local fatal <const>, warning <const> = finding.fatal, finding.warning
local again <const>, differing <const>, divisors <const> = finding.again, finding.differing, finding.divisors

local checks <const> = { fatal = fatal, warning = warning }
for _, part in ipairs { "tangram.output.checks_recompute", "tangram.output.checks_devices", "tangram.output.checks_limits" } do
  for code, check in pairs(require(part)) do checks[code] = check end
end

--- Has the stage layers with experts?
---@param launch table
---@param stage table
function checks.has_experts(launch, stage)
  for layer = stage.first_layer + 1, stage.first_layer + stage.layers do
    if launch.model.layer_mlp[layer] == "moe" then return true end
  end
  return false
end

local function expert_stages(launch)
  local list <const> = {}
  for _, stage in ipairs(launch.stages) do
    if checks.has_experts(launch, stage) then list[#list + 1] = stage end
  end
  return list
end

--- The ep and etp that all stages with experts have: those of the first (1, 1 without any).
---@return integer ep, integer etp
function checks.expert_degrees(launch)
  local first <const> = expert_stages(launch)[1]
  if not first then return 1, 1 end
  return first.ep, first.etp
end

--- The ZeRO level of the stages that have replicas: that of the first of them.
---@return integer
function checks.zero_level(launch)
  local first <const> = finding.replicated(launch)[1]
  return first and first.zero or 0
end

function checks.G1(launch, runtime)
  local a <const>, b <const> = differing(launch.stages, function(stage) return stage.gpus end)
  return a and fatal("G1", "stage %d has %d GPUs, stage %d %d; %s needs equal stages; %s", a.index, a.gpus, b.index, b.gpus,
    runtime, again(runtime))
end

function checks.G2(launch, runtime)
  local function degrees(stage)
    return ("tp %d x dp %d%s%s"):format(stage.tp, stage.dp, stage.cp > 1 and (" x cp %d"):format(stage.cp) or "",
      stage.sp and stage.tp > 1 and " with sequence parallelism" or "")
  end
  local a <const>, b <const> = differing(launch.stages, degrees)
  return a and fatal("G2", "stage %d uses %s but stage %d %s; %s has one tp and dp for all stages; %s", a.index, degrees(a),
    b.index, degrees(b), runtime, again(runtime))
end

function checks.L1(launch)
  local sum = 0
  for _, stage in ipairs(launch.stages) do sum = sum + stage.layers end
  return sum ~= launch.model.layers and fatal("L1", "the stages' layers add up to %d, but the model has %d", sum, launch.model.layers)
    or nil
end

function checks.L2(launch, runtime)
  for _, stage in ipairs(launch.stages) do
    if stage.layers == 0 then
      return fatal("L2", "stage %d holds no transformer layer, and %s needs at least one in each; give it one of its neighbour's, or %s",
        stage.index, runtime, again(runtime))
    end
  end
end

--- The words of a stage's tp check against a divisor rule.
local function tp_fails(launch, code, fits, what, legal)
  for _, stage in ipairs(launch.stages) do
    if not fits(stage) then
      return fatal(code, "stage %d has tp %d, but %s; legal tp: %s", stage.index, stage.tp, what, legal)
    end
  end
end

function checks.H1(launch)
  local heads <const> = launch.model.heads
  return tp_fails(launch, "H1", function(stage) return heads % stage.tp == 0 end,
    ("%d heads are not divisible by it"):format(heads), divisors(heads))
end

--- For runtimes that cut key-value heads and never copy them.
function checks.H2(launch, runtime)
  local model <const> = launch.model
  if model.mla then return nil end
  local kv <const> = model.kv_heads
  return tp_fails(launch, "H2", function(stage) return kv % stage.tp == 0 end,
    ("the model has %d key-value heads, and %s needs tp to divide them"):format(kv, runtime),
    divisors(kv, function(d) return model.heads % d == 0 end))
end

--- For runtimes that copy key-value heads where tp is larger.
function checks.H2_copies(launch)
  local model <const> = launch.model
  if model.mla then return nil end
  local kv <const> = model.kv_heads
  local function fits(tp) return kv % tp == 0 or tp % kv == 0 end
  return tp_fails(launch, "H2", function(stage) return fits(stage.tp) end,
    ("the model has %d key-value heads, of which tp is neither a divisor nor a multiple"):format(kv),
    divisors(model.heads, fits))
end

function checks.H3(launch)
  local model <const> = launch.model
  for _, stage in ipairs(launch.stages) do
    local dense = false
    for layer = stage.first_layer + 1, stage.first_layer + stage.layers do
      dense = dense or model.layer_mlp[layer] ~= "moe"
    end
    local moe <const> = checks.has_experts(launch, stage)
    for _, width in ipairs {
      { dense, model.ffn, stage.tp, "tp", "MLP" }, { moe, model.shared_expert_ffn, stage.tp, "tp", "shared experts" },
      { moe, model.expert_ffn, stage.etp, "etp", "an expert" },
    } do
      local counts <const>, size <const>, cut <const>, name <const>, what <const> = table.unpack(width)
      if counts and size > 0 and size % cut ~= 0 then
        return fatal("H3", "stage %d has %s %d, but the width %d of %s is not divisible by it; legal %s: %s", stage.index, name, cut,
          size, what, name, divisors(size, function(d) return d <= 2 * cut end))
      end
    end
  end
end

function checks.B1(launch)
  local batch <const> = launch.training.global_batch
  for _, stage in ipairs(launch.stages) do
    local step <const> = math.max(stage.microbatch, 1) * stage.dp
    if batch % step ~= 0 then
      local rest <const> = batch % step
      return fatal("B1", "global batch %d leaves %d over microbatch %d x dp %d of stage %d; nearest: %s%d", batch, rest,
        math.max(stage.microbatch, 1), stage.dp, stage.index, batch > rest and ("%d or "):format(batch - rest) or "",
        batch + step - rest)
    end
  end
end

function checks.B3(launch)
  local m <const>, p <const> = launch.microbatches, #launch.stages
  return m < p and warning("B3", "%d microbatches for %d stages: the pipeline is empty %.0f %% of the time; use at least %d", m, p,
    100 * (p - 1) / (m + p - 1), p) or nil
end

function checks.Z1(launch, runtime)
  for _, stage in ipairs(finding.replicated(launch)) do
    if stage.zero > 1 then
      return fatal("Z1", "stage %d uses ZeRO %d, but %s has at most ZeRO 1 with a pipeline; %s", stage.index, stage.zero, runtime,
        again(runtime))
    end
  end
end

function checks.Z2(launch, runtime)
  local a <const>, b <const> = differing(finding.replicated(launch), function(stage) return stage.zero end)
  return a and fatal("Z2", "stage %d uses ZeRO %d, stage %d ZeRO %d; %s has one for all stages; %s", a.index, a.zero, b.index, b.zero,
    runtime, again(runtime))
end

function checks.C1(launch, runtime)
  for _, stage in ipairs(launch.stages) do
    if stage.cp > 1 then
      return fatal("C1", "stage %d has cp %d, but %s needs cp 1 in every stage; %s", stage.index, stage.cp, runtime, again(runtime))
    end
  end
end

function checks.C2(launch)
  local seq <const> = launch.training.seq_len
  for _, stage in ipairs(launch.stages) do
    local share <const> = stage.sp and stage.tp or 1
    local step <const> = stage.cp > 1 and stage.cp * (share % 2 == 0 and share or 2 * share) or share
    if seq % step ~= 0 then
      return fatal("C2", "sequences of %d tokens are not divisible by %d, which cp %d%s of stage %d needs; nearest: %d", seq, step,
        stage.cp, stage.sp and (" with sequence parallelism over tp %d"):format(stage.tp) or "", stage.index,
        seq - seq % step + step)
    end
  end
end

function checks.S1(launch)
  local seq <const> = launch.training.seq_len
  for _, stage in ipairs(launch.stages) do
    if seq % stage.tp ~= 0 then
      return fatal("S1", "sequences of %d tokens are not divisible by tp %d of stage %d; nearest: %d", seq, stage.tp, stage.index,
        seq - seq % stage.tp + stage.tp)
    end
  end
end

function checks.E1(launch, runtime)
  local a <const>, b <const> = differing(expert_stages(launch), function(stage) return stage.ep > 1 end)
  return a and fatal("E1", "stage %d has ep %d, stage %d ep %d; in %s all are 1 or none is; %s", a.index, a.ep, b.index, b.ep, runtime,
    again(runtime))
end

--- Experts and expert groups divide, in each stage by itself.
function checks.E2(launch)
  local experts <const> = launch.model.experts
  for _, stage in ipairs(launch.stages) do
    if stage.ep > 1 and (experts == 0 or experts % stage.ep ~= 0) then
      return fatal("E2", "stage %d has ep %d, but %d experts are not divisible by it; legal ep: %s", stage.index, stage.ep, experts,
        experts > 0 and divisors(experts) or "1")
    elseif stage.gpus % (stage.etp * stage.ep) ~= 0 then
      return fatal("E2", "stage %d has %d GPUs, which etp %d x ep %d don't divide; legal ep: %s", stage.index, stage.gpus, stage.etp,
        stage.ep, divisors(stage.gpus, function(d) return stage.gpus % (d * stage.etp) == 0 and math.max(experts, 1) % d == 0 end))
    end
  end
end

--- For runtimes with one ep and etp for all stages.
function checks.E3(launch, runtime)
  local function degrees(stage) return ("ep %d x etp %d"):format(stage.ep, stage.etp) end
  local list <const> = expert_stages(launch)
  local a <const>, b <const> = differing(list, degrees)
  if a then
    return fatal("E3", "stage %d uses %s but stage %d %s; %s has one for all stages; %s", a.index, degrees(a), b.index, degrees(b),
      runtime, again(runtime))
  end
  local ep <const>, etp <const> = checks.expert_degrees(launch)
  for _, stage in ipairs(launch.stages) do
    if stage.gpus % (ep * etp) ~= 0 then
      return fatal("E3", "stage %d has %d GPUs, which the ep %d x etp %d of stage %d don't divide; %s", stage.index, stage.gpus, ep, etp,
        list[1].index, again(runtime))
    end
  end
end

--- Fully sharded experts are of no runtime here.
function checks.E4(launch, runtime)
  for _, stage in ipairs(launch.stages) do
    if stage.fsep then
      return fatal("E4", "stage %d shards its experts fully (FSEP), which %s can't; plan again with"
        .. " --set parallelizer.options.fsep=false or --target %s", stage.index, runtime, runtime)
    end
  end
end

function checks.O1(launch, runtime)
  for _, stage in ipairs(launch.stages) do
    if stage.offload ~= "none" then
      return fatal("O1", "stage %d keeps its %s in the host's memory, which is not exported to %s; %s", stage.index,
        stage.offload == "both" and "optimizer and activations" or stage.offload, runtime, again(runtime))
    end
  end
end

function checks.T1(launch, runtime)
  local first <const>, last <const> = launch.stages[1], launch.stages[#launch.stages]
  return launch.tied and first.tp ~= last.tp and fatal("T1",
    "the embedding is tied to the head, but stage 1 has tp %d and stage %d tp %d; %s needs them equal; untie them, or %s",
    first.tp, last.index, last.tp, runtime, again(runtime)) or nil
end

function checks.T2(launch, runtime)
  local first <const>, last <const> = launch.stages[1], launch.stages[#launch.stages]
  return launch.tied and checks.zero_level(launch) > 0 and first.dp % last.dp ~= 0 and last.dp % first.dp ~= 0
    and fatal("T2", "the embedding is tied to the head, but of dp %d of stage 1 and dp %d of stage %d neither divides the other,"
      .. " which %s needs with ZeRO 1; %s", first.dp, last.dp, last.index, runtime, again(runtime)) or nil
end

function checks.M1(launch)
  for layer, kind in ipairs(launch.model.layer_attention) do
    if kind ~= "full" and kind ~= "sliding" then
      return fatal("M1", "layer %d is of kind '%s': a hybrid model takes --hybrid-layer-pattern, not a layout", layer - 1, kind)
    end
  end
end

--- For runtimes whose plain 1F1B sends nothing beside the work (not fatal).
function checks.P2(launch, runtime)
  local other_s <const> = launch.blocking_s
  return other_s and other_s > 1.01 * launch.time_s and warning("P2",
    "transfers are planned as hidden behind work, but %s waits for them: %.4g s an iteration in place of %.4g s; plan with"
    .. " --p2p blocking", runtime, other_s, launch.time_s) or nil
end

--- Runs checks in order. Each of list is a code's function with the runtime's name, or { function, argument }.
---@param launch table
---@param runtime string
---@param list table[]
---@return table[] findings { code, text, fatal }
function checks.run(launch, runtime, list)
  local findings <const> = {}
  for _, one in ipairs(list) do
    local found
    if type(one) == "table" then found = one[1](launch, one[2]) else found = one(launch, runtime) end
    if found then findings[#findings + 1] = found end
  end
  return findings
end

--- The vocabulary as Megatron and what builds on it pad it for a tp.
---@param launch table
---@param tp integer
---@param multiple integer make-vocab-size-divisible-by
---@return integer
function checks.padded_vocabulary(launch, tp, multiple)
  local step <const> = multiple * tp
  return (launch.model.vocab + step - 1) // step * step
end

return checks
