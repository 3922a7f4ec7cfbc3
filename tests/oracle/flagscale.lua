--- FlagScale's reading of a configuration and its hostfile: ranks by label and host, meshes of tp, cp, ep, dp, pp, stages in
--- the shape of tests/oracle/placed.lua; and what each stage recomputes.
local flagscale <const> = {}

--- Hosts of a hostfile: { name, slots, label }.
local function hosts_of(text)
  local hosts <const>, seen <const> = {}, {}
  for line in text:gmatch "[^\n]+" do
    local name <const>, slots <const>, label <const> = line:match "^(%S+)%s+slots=(%d+)%s+type=(%S+)$"
    assert(name, line)
    assert(not seen[name], name .. " is listed twice")
    seen[name] = true
    hosts[#hosts + 1] = { name = name, slots = tonumber(slots), label = label }
  end
  return hosts
end

--- The GPUs in the order in which meshes take them: physical ranks sorted by the first place of their label.
local function logical(hosts, labels, devices_of)
  local place <const>, ranks <const> = {}, {}
  for i, label in ipairs(labels) do place[label] = place[label] or i end
  for _, host in ipairs(hosts) do
    for i = 1, host.slots do
      local devices <const> = devices_of[host.name]
      ranks[#ranks + 1] = { place = assert(place[host.label], "no mesh has the host's label"), rank = #ranks,
        gpu = ("%s:%d"):format(host.name, devices and devices[i] or i - 1) }
    end
  end
  table.sort(ranks, function(a, b)
    if a.place ~= b.place then return a.place < b.place end
    return a.rank < b.rank
  end)
  return ranks
end

local function devices_by_host(experiment)
  local devices_of <const> = {}
  for host, envs in pairs(experiment.envs.node_specific or {}) do
    local text <const> = envs.CUDA_VISIBLE_DEVICES or envs.HIP_VISIBLE_DEVICES
    devices_of[host] = text and {}
    for device in (text or ""):gmatch "%d+" do table.insert(devices_of[host], tonumber(device)) end
  end
  return devices_of
end

--- One value a stage from rows { stages, microbatches, value }.
local function by_stage(rows, microbatches)
  local values <const> = {}
  for _, row in ipairs(rows) do
    assert(#row == 3 and row[2] == microbatches, "one pair a row: an 'off' is never undone")
    for _ = 1, row[1] do values[#values + 1] = row[3] end
  end
  return values
end

--- What stage s of so many layers recomputes: "none", "selective", or the number of layers.
local function recomputed(recompute, s, layers, microbatches)
  if not recompute then return "none" end
  local granularity, method, count = recompute.recompute_granularity, recompute.recompute_method, recompute.recompute_num_layers
  if recompute.recompute_granularity_per_stage_micro_batch then
    assert(granularity == "full" and method)
    if by_stage(recompute.recompute_granularity_per_stage_micro_batch, microbatches)[s] == 0 then return "none" end
    method = by_stage(recompute.recompute_method_per_stage_micro_batch, microbatches)[s] == 0 and "uniform" or "block"
    count = by_stage(recompute.recompute_num_layers_per_stage_micro_batch, microbatches)[s]
  end
  if granularity == "selective" then return "selective" end
  assert(granularity == "full" and count >= 1)
  return method == "uniform" and layers or math.min(count, layers)
end

--- The stages that the files stand for.
---@param experiment table the file of the experiment, read
---@param train table the file of the training, read
---@param hostfile string its text
---@return table[] stages as placed.plan gives them, with recompute and microbatch
function flagscale.stages(experiment, train, hostfile)
  local hetero <const>, model <const>, stages <const> = train.system.hetero, train.model, {}
  local hosts <const> = hosts_of(hostfile)
  assert(experiment.runner.rdzv_backend == "static" and experiment.runner.nnodes == #hosts)
  for _, host in ipairs(hosts) do assert(host.slots <= experiment.runner.nproc_per_node, "processes would be lost") end
  local ranks <const> = logical(hosts, hetero.hetero_device_types, devices_by_host(experiment))
  local rank, layer, flat <const> = 1, 0, hetero.hetero_process_meshes
  assert(#flat % 5 == 0 and #flat // 5 == #hetero.hetero_device_types)
  local microbatches <const> = model.global_batch_size // (model.micro_batch_size * flat[4])
  for m = 1, #flat, 5 do
    local tp <const>, cp <const>, dp <const> = flat[m], flat[m + 1], flat[m + 3]
    for _ = 1, flat[m + 4] do
      local s <const> = #stages + 1
      local layers <const>, gpus <const> = hetero.hetero_pipeline_layer_split[s], {}
      for i = 1, tp * cp * dp do gpus[i] = ranks[rank + i - 1].gpu end
      rank = rank + tp * cp * dp
      stages[s] = { first = layer, last = layer + layers, embedding = s == 1, head = false, tp = tp, dp = dp, cp = cp, gpus = gpus,
        recompute = recomputed(train.system.recompute, s, layers, microbatches), microbatch = flat[4] * model.micro_batch_size // dp }
      layer = layer + layers
    end
  end
  stages[#stages].head = true
  assert(rank == #ranks + 1, "all processes have a place")
  assert(layer == model.num_layers and #stages == train.system.pipeline_model_parallel_size)
  return stages
end

return flagscale
