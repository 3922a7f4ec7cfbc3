--- The checks that FlagScale makes of a heterogeneous configuration, F1 to F16, on the configuration as it will be written
--- (with what the user sets over it), so that what is refused there is refused here, with numbers.
local checks <const> = require "tangram.output.checks"
local fatal <const> = checks.fatal

local flagscale <const> = {}

local function list(values)
  local words <const> = {}
  for i, value in ipairs(values) do words[i] = tostring(value) end
  return "[" .. table.concat(words, ", ") .. "]"
end

local function sum(values)
  local total = 0
  for _, value in ipairs(values) do total = total + value end
  return total
end

--- The meshes as the runtime reads them: { tp, cp, ep, dp, pp }.
local function meshes_of(hetero)
  local meshes <const>, flat <const> = {}, hetero.hetero_process_meshes
  for at = 1, #flat - 4, 5 do
    meshes[#meshes + 1] = { tp = flat[at], cp = flat[at + 1], ep = flat[at + 2], dp = flat[at + 3], pp = flat[at + 4] }
  end
  return meshes
end

--- The first mesh of which `wrong` holds, by its number from 0.
local function find(at, wrong)
  for m, mesh in ipairs(at.meshes) do
    if wrong(mesh, m) then return mesh, m - 1 end
  end
end

function flagscale.F1(at)
  local count <const> = #at.hetero.hetero_process_meshes
  return (count == 0 or count % 5 ~= 0) and fatal("F1", "hetero_process_meshes holds %d numbers, expected five a mesh (tp, cp, ep, dp, pp)",
    count)
end

function flagscale.F2(at)
  local stages = 0
  for _, mesh in ipairs(at.meshes) do stages = stages + mesh.pp end
  return at.system.pipeline_model_parallel_size ~= stages and fatal("F2",
    "pipeline_model_parallel_size is %s, but the meshes' pp add up to %d", at.system.pipeline_model_parallel_size, stages)
end

function flagscale.F3(at)
  local count <const> = #at.hetero.hetero_device_types
  return count ~= #at.meshes and fatal("F3", "hetero_device_types holds %d labels, expected one a mesh, %d", count, #at.meshes)
end

function flagscale.F4(at)
  local current <const> = at.hetero.hetero_current_device_type
  for _, label in ipairs(at.hetero.hetero_device_types) do
    if label == current then return nil end
  end
  return fatal("F4", "hetero_current_device_type '%s' is not one of %s", current, list(at.hetero.hetero_device_types))
end

function flagscale.F5(at)
  local samples <const> = at.meshes[1].dp * at.model.micro_batch_size
  local mesh <const>, m <const> = find(at, function(mesh) return samples % mesh.dp ~= 0 end)
  if not mesh then return nil end
  local size = at.model.micro_batch_size
  while find(at, function(one) return at.meshes[1].dp * size % one.dp ~= 0 end) do size = size + 1 end
  return fatal("F5", "dp %d of mesh 0 x micro_batch_size %d = %d is not a multiple of dp %d of mesh %d; the next micro_batch_size that"
    .. " works is %d", at.meshes[1].dp, at.model.micro_batch_size, samples, mesh.dp, m, size)
end

function flagscale.F6(at)
  local mesh <const>, m <const> = find(at, function(mesh) return mesh.cp ~= 1 end)
  return mesh and fatal("F6", "mesh %d has cp %d, but cp must be 1 in every mesh", m, mesh.cp)
end

--- The runtime's own test lets mixtures pass, which then fail.
function flagscale.F7(at)
  local first <const> = at.meshes[1].ep
  local mesh <const>, m <const> = find(at, function(mesh) return (mesh.ep == 1) ~= (first == 1) end)
  return mesh and fatal("F7", "mesh 0 has ep %d and mesh %d ep %d: all must be 1 or none", first, m, mesh.ep)
end

function flagscale.F8(at)
  local split <const>, layers <const> = at.hetero.hetero_pipeline_layer_split, at.model.num_layers
  if #split ~= at.system.pipeline_model_parallel_size then
    return fatal("F8", "hetero_pipeline_layer_split holds %d numbers, expected one a stage, %s", #split,
      at.system.pipeline_model_parallel_size)
  end
  return sum(split) ~= layers and fatal("F8", "hetero_pipeline_layer_split %s adds up to %d, but num_layers is %d", list(split), sum(split),
    layers)
end

function flagscale.F9(at)
  local world = 0
  for _, mesh in ipairs(at.meshes) do world = world + mesh.tp * mesh.cp * mesh.dp * mesh.pp end
  return world ~= at.world and fatal("F9", "the meshes take %d processes, but the hosts start %d", world, at.world)
end

function flagscale.F10(at)
  local etp <const> = at.hetero.expert_tensor_parallel_size_per_process_mesh
  if etp and #etp ~= #at.meshes then
    return fatal("F10", "expert_tensor_parallel_size_per_process_mesh holds %d numbers, expected one a mesh, %d", #etp, #at.meshes)
  end
  local function group(mesh, m) return (etp and etp[m] or mesh.tp) * mesh.ep * mesh.pp end
  local mesh <const>, m <const> = find(at, function(mesh, m) return mesh.tp * mesh.cp * mesh.dp * mesh.pp % group(mesh, m) ~= 0 end)
  return mesh and fatal("F10", "mesh %d has %d processes, which etp %d x ep %d x pp %d do not divide", m,
    mesh.tp * mesh.cp * mesh.dp * mesh.pp, etp and etp[m + 1] or mesh.tp, mesh.ep, mesh.pp)
end

function flagscale.F11(at)
  if at.model.untie_embeddings_and_output_weights and not at.model.mtp_num_layers then return nil end
  local first <const>, last <const> = at.meshes[1], at.meshes[#at.meshes]
  local why <const> = at.model.mtp_num_layers and "multi-token prediction" or "tied embeddings"
  if first.tp ~= last.tp then
    return fatal("F11", "%s: the first mesh has tp %d and the last tp %d, expected the same; untie the embeddings, or plan again with"
      .. " --target flagscale", why, first.tp, last.tp)
  end
  if first.dp == last.dp or not at.system.use_distributed_optimizer then return nil end
  if first.dp % last.dp ~= 0 and last.dp % first.dp ~= 0 then
    return fatal("F11", "%s with ZeRO 1: of dp %d of the first mesh and dp %d of the last neither divides the other", why, first.dp,
      last.dp)
  end
  return at.hetero.use_partial_reduce_for_shared_embedding ~= true and fatal("F11",
    "%s with ZeRO 1: dp %d of the first mesh and dp %d of the last need use_partial_reduce_for_shared_embedding true", why, first.dp,
    last.dp)
end

function flagscale.F12(at)
  for _, name in ipairs { "num_layers_per_virtual_pipeline_stage", "virtual_pipeline_model_parallel_size",
    "num_virtual_stages_per_pipeline_rank" } do
    local value <const> = at.system[name] or at.model[name]
    if value then return fatal("F12", "%s is %s, but a heterogeneous pipeline has no virtual stages", name, value) end
  end
end

function flagscale.F13(at)
  return at.hetero.standalone_embedding_stage ~= false and fatal("F13", "standalone_embedding_stage is %s, expected false",
    tostring(at.hetero.standalone_embedding_stage))
end

function flagscale.F14(at)
  local count <const> = at.system.num_distributed_optimizer_instances or 1
  return count ~= 1 and fatal("F14", "num_distributed_optimizer_instances is %s, expected 1", count)
end

--- One list of rows { stages, microbatches, value, microbatches, value, … }.
local function recompute_list(at, name, is_flag)
  local stages = 0
  local rows <const>, microbatches <const> = at.system.recompute[name], at.microbatches
  for _, row in ipairs(rows) do
    local count = 0
    stages = stages + row[1]
    for i = 2, #row, 2 do
      count = count + row[i]
      if is_flag and row[i + 1] ~= 0 and row[i + 1] ~= 1 then
        return fatal("F15", "%s: the row %s holds the flag %s, expected 0 or 1", name, list(row), row[i + 1])
      end
    end
    if #row % 2 == 0 or count ~= microbatches then
      return fatal("F15", "%s: the row %s covers %d microbatches, expected %d", name, list(row), count, microbatches)
    end
  end
  return stages ~= at.system.pipeline_model_parallel_size and fatal("F15", "%s: the rows cover %d stages, expected %s", name, stages,
    at.system.pipeline_model_parallel_size)
end

function flagscale.F15(at)
  local recompute <const> = at.system.recompute or {}
  for _, one in ipairs { { "granularity", true }, { "method", true }, { "num_layers", false } } do
    local name <const> = ("recompute_%s_per_stage_micro_batch"):format(one[1])
    if recompute[name] then
      if recompute.recompute_granularity ~= "full" or not recompute.recompute_method then
        return fatal("F15", "%s needs recompute_granularity full and a recompute_method, got %s and %s", name,
          recompute.recompute_granularity or "none", recompute.recompute_method or "none")
      end
      local found <const> = recompute_list(at, name, one[2])
      if found then return found end
    end
  end
end

--- Nothing checks this there, and the tensors between meshes come out wrong.
function flagscale.F16(at)
  local mesh <const>, m <const> = find(at, function(mesh) return mesh.tp > 1 end)
  if mesh and at.system.sequence_parallel ~= true then
    return fatal("F16", "mesh %d has tp %d without sequence_parallel: tensors between meshes are cut along the sequence, so it must be"
      .. " true", m, mesh.tp)
  end
  local seq <const> = at.model.seq_length
  local odd <const>, n <const> = find(at, function(one) return seq % one.tp ~= 0 end)
  return odd and fatal("F16", "sequences of %d tokens are not divisible by tp %d of mesh %d; nearest: %d", seq, odd.tp, n,
    seq - seq % odd.tp + odd.tp)
end

--- Runs F1 to F16 over a configuration; what rests on F1 waits for it.
---@param train table { system, model } of flagscale_config.train
---@param launch table
---@return table[] findings
function flagscale.run(train, launch)
  local hetero <const>, findings <const> = train.system.hetero, {}
  local at <const> = { system = train.system, model = train.model, hetero = hetero, meshes = meshes_of(hetero), world = launch.world }
  local first <const> = flagscale.F1(at)
  if first then return { first } end
  at.microbatches = train.model.global_batch_size // (train.model.micro_batch_size * at.meshes[1].dp)
  for code = 2, 16 do
    local found <const> = flagscale[("F%d"):format(code)](at)
    if found then findings[#findings + 1] = found end
  end
  return findings
end

return flagscale
