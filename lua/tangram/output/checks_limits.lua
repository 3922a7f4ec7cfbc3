--- What runtimes with fewer settings than Megatron lack: recompute of parts, ZeRO levels, precisions, expert parallelism.
local finding <const> = require "tangram.output.finding"
local fatal <const>, again <const> = finding.fatal, finding.again

local limits <const> = {}

--- The attention core alone is never recomputed.
function limits.R3(launch, runtime)
  for _, stage in ipairs(launch.stages) do
    if stage.recompute.kind == "selective" then
      return fatal("R3", "stage %d recomputes the attention core alone, but %s recomputes whole layers; nearest: all layers or none; %s",
        stage.index, runtime, again(runtime))
    end
  end
end

--- All layers are recomputed, or none is, in every stage alike.
function limits.R3_whole(launch, runtime)
  local selective <const> = limits.R3(launch, runtime)
  if selective then return selective end
  local first <const> = launch.stages[1]
  for _, stage in ipairs(launch.stages) do
    if stage.recompute.layers ~= (first.recompute.layers > 0 and stage.layers or 0) then
      return fatal("R3", "stage %d recomputes %d of %d layers, stage %d %d of %d; %s recomputes all layers or none; --set"
        .. " recompute=nearest takes all and prices it, or %s", first.index, first.recompute.layers, first.layers, stage.index,
        stage.recompute.layers, stage.layers, runtime, again(runtime))
    end
  end
end

function limits.Z3(launch, runtime)
  for _, stage in ipairs(finding.replicated(launch)) do
    if stage.zero == 1 then
      return fatal("Z3", "stage %d uses ZeRO 1, but %s has ZeRO 0, 2 and 3; nearest: 2; %s", stage.index, runtime, again(runtime))
    end
  end
end

--- One level for the stages that are not fully sharded.
function limits.Z2_low(launch, runtime)
  local low <const> = {}
  for _, stage in ipairs(finding.replicated(launch)) do
    if stage.zero < 3 then low[#low + 1] = stage end
  end
  local a <const>, b <const> = finding.differing(low, function(stage) return stage.zero end)
  return a and fatal("Z2", "stage %d uses ZeRO %d, stage %d ZeRO %d; beside ZeRO 3 %s has one level for all stages; %s", a.index,
    a.zero, b.index, b.zero, runtime, again(runtime))
end

function limits.S3(launch, runtime)
  for _, stage in ipairs(launch.stages) do
    if stage.tp > 1 and not stage.sp then
      return fatal("S3", "stage %d has tp %d without sequence parallelism, which %s always has with tp; %s", stage.index, stage.tp,
        runtime, again(runtime))
    end
  end
end

function limits.E5(launch, runtime)
  for _, stage in ipairs(launch.stages) do
    if stage.ep > 1 or stage.etp > 1 then
      return fatal("E5", "stage %d has ep %d x etp %d, but pipelines of %s have ep 1; %s", stage.index, stage.ep, stage.etp, runtime,
        again(runtime))
    end
  end
end

--- known: the precisions that the runtime has.
function limits.D3(launch, runtime, known)
  for _, name in ipairs(known) do
    if name == launch.precision then return nil end
  end
  return fatal("D3", "%s is planned, but %s trains in %s; plan with --precision %s%s", launch.precision, runtime,
    table.concat(known, " or "), known[1], known[1] == "bf16" and " on GPUs that have it" or "")
end

return limits
