--- What the GPUs and the nodes in use can't do.
local finding <const> = require "tangram.output.finding"
local fatal <const>, warning <const> = finding.fatal, finding.warning

local devices <const> = {}

function devices.D1(launch)
  if launch.precision ~= "bf16" and launch.precision ~= "fp8" then return nil end
  for _, stage in ipairs(launch.stages) do
    for _, device in ipairs(stage.devices) do
      if not device.bf16_flops then
        return fatal("D1", "%s is planned, but %s (stage %d) can't do bf16; plan with precision fp16 or leave its nodes out",
          launch.precision, device.name, stage.index)
      end
    end
  end
end

local function capability(device) return tonumber(device.compute_capability) end

--- Has one of the GPUs no fused attention kernels (NVIDIA before Ampere)?
function devices.old_device(launch)
  for _, stage in ipairs(launch.stages) do
    for _, device in ipairs(stage.devices) do
      if (capability(device) or 8) < 8 then return device, stage end
    end
  end
end

--- one_kernel: does the runtime take one attention implementation for all stages?
function devices.D2(launch, one_kernel)
  for _, stage in ipairs(launch.stages) do
    for _, device in ipairs(stage.devices) do
      if launch.precision == "fp8" and not device.fp8_flops then
        return fatal("D2", "fp8 is planned, but %s (stage %d) can't do it; plan with precision bf16 or leave its nodes out", device.name,
          stage.index)
      end
    end
  end
  local old <const>, at <const> = devices.old_device(launch)
  if not old then return nil end
  local attention <const> = launch.training.attention
  if attention == "flash" then
    return fatal("D2", "fused attention is planned, but %s (stage %d, compute capability %s) has no kernels for it; plan with"
      .. " attention = 'unfused'", old.name, at.index, old.compute_capability)
  end
  for _, stage in ipairs(one_kernel and attention ~= "unfused" and launch.stages or {}) do
    if (capability(stage.devices[1]) or 8) >= 8 then
      return warning("D2", "stage %d is priced with fused attention, but %s (stage %d) has none, and one implementation serves all"
        .. " stages: attention is unfused everywhere; for its true memory and time plan with --set training.attention=unfused",
        stage.index, old.name, at.index)
    end
  end
end

--- The first GPU, and the first that another vendor made; with the stages they are in. Nothing if there is none.
function devices.vendors(launch)
  local first <const> = launch.stages[1]
  for _, stage in ipairs(launch.stages) do
    for _, device in ipairs(stage.devices) do
      if device.vendor ~= first.devices[1].vendor then return first, first.devices[1], stage, device end
    end
  end
end

function devices.V1(launch, runtime)
  local a <const>, one <const>, b <const>, other <const> = devices.vendors(launch)
  return a and fatal("V1", "stage %d is on %s, stage %d on %s; %s runs on one vendor's GPUs; leave one of the islands out (--exclude),"
    .. " or export to flagscale", a.index, one.vendor, b.index, other.vendor, runtime) or nil
end

--- For launchers that start the same number of processes on every node.
function devices.N1(launch, runtime)
  local first <const> = launch.hosts[1]
  for _, host in ipairs(launch.hosts) do
    if #host.gpus ~= #first.gpus then
      return fatal("N1", "node %s runs %d processes, node %s %d; the launcher of %s needs the same on all", first.name, #first.gpus,
        host.name, #host.gpus, runtime)
    end
  end
end

local function nics_text(host) return ("%d (%s)"):format(#host.nics, table.concat(host.nics, ", ")) end

--- Who makes a network card, by the name of its device.
local function maker(host)
  local name <const> = host.nics[1]
  return name:find "^mlx" and "NVIDIA" or name:find "^bnxt" and "Broadcom" or name:find "^irdma" and "Intel" or nil
end

--- Nodes whose network cards differ, where the cluster names them (not fatal): NCCL pairs them by what it finds.
function devices.N2(launch)
  local first
  for _, host in ipairs(launch.hosts) do
    first = first or host.nics and host or nil
    if host.nics and table.concat(first.nics, ",") ~= table.concat(host.nics, ",") then
      local mixed <const> = maker(first) and maker(host) and maker(first) ~= maker(host)
      return warning("N2", "node %s has the NICs %s, node %s %s: jobs over unlike ones have hung; NCCL_IB_HCA is set on each node%s",
        first.name, nics_text(first), host.name, nics_text(host),
        mixed and (", but %s with %s is unproven: try nccl-tests first"):format(maker(first), maker(host)) or "")
    end
  end
end

--- GPUs on which nothing runs, and the world size (not fatal).
function devices.I1(launch)
  local words <const> = {}
  for _, one in ipairs(launch.idle) do
    words[#words + 1] = ("%d of %s (%s)"):format(#one.indices, one.node, table.concat(one.indices, ", "))
  end
  return #words > 0 and warning("I1", "the plan runs %d processes; idle GPUs: %s", launch.world, table.concat(words, "; ")) or nil
end

return devices
