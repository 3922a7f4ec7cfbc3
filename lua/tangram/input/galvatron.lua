--- Reads Galvatron's profiles (PKU-DAIR/Hetu-Galvatron): forward times and memory of a model's layers, and the collectives of
--- a node. Reads files, so recipes call it, not plugins; they get the table as their option `profile`. All lists are of
--- records, so that a plan can state the profile it was made with.
local files <const> = require "tangram.files"

local galvatron <const> = {}

local MiB <const>, MS <const> = 2.0 ^ 20, 1e-3

local function decode(path) return files.table(path, "a table of numbers by key") end

local function integer(text) return math.tointeger(tonumber(text)) end

local function positive(path, key, value)
  if type(value) ~= "number" or not (value >= 0 and value < math.huge) then
    error(("%s: %s: got %s, expected a finite number of at least 0"):format(path, key, tostring(value)), 0)
  end
  return value
end

local function sorted_keys(t)
  local keys <const> = {}
  for key in pairs(t) do keys[#keys + 1] = key end
  table.sort(keys)
  return keys
end

--- Calls visit(key, value, …captures) for the keys that match, by letters.
local function each(table_, pattern, visit)
  for _, key in ipairs(sorted_keys(table_)) do
    if key:match(pattern) then visit(key, table_[key], key:match(pattern)) end
  end
end

--- Rows { samples, seq_len, forward_s }: forward seconds of one sample, when so many go through at once.
local function times_of(file, path, pattern)
  local rows <const> = {}
  each(file, pattern, function(key, value, samples, seq_len)
    rows[#rows + 1] = { samples = integer(samples), seq_len = integer(seq_len), forward_s = positive(path, key, value) * MS }
  end)
  table.sort(rows, function(a, b)
    if a.seq_len ~= b.seq_len then return a.seq_len < b.seq_len end
    return a.samples < b.samples
  end)
  return rows
end

local function read_times(path)
  local file <const> = decode(path)
  local layer <const> = times_of(file, path, "^layertype_0_bsz(%d+)_seq(%d+)$")
  if #layer == 0 then error(path .. ": no key layertype_0_bszB_seqS, expected the forward times of a layer", 0) end
  if #times_of(file, path, "^layertype_1_bsz(%d+)_seq(%d+)$") > 0 then
    error(path .. ": several types of layers, expected one: this reads profiles of decoders", 0)
  end
  return layer, times_of(file, path, "^layertype_other_bsz(%d+)_seq(%d+)$")
end

--- { { degree, bytes } … } of a table by degree; the entry "checkpoint" apart.
local function by_degree(path, values)
  local rows <const> = {}
  for _, key in ipairs(sorted_keys(values)) do
    local degree <const> = integer(key)
    if degree then rows[#rows + 1] = { degree = degree, bytes = positive(path, key, values[key]) * MiB } end
  end
  table.sort(rows, function(a, b) return a.degree < b.degree end)
  return rows
end

--- What a key says at each sequence length.
local function each_length(file, path, key, record_of)
  if type(file[key]) ~= "table" then error(("%s: no key %s"):format(path, key), 0) end
  local rows <const> = {}
  for _, length in ipairs(sorted_keys(file[key])) do
    local value <const>, where <const> = file[key][length], ("%s: %s: %s"):format(path, key, length)
    if not integer(length) or type(value) ~= "table" then
      error(where .. ": expected a table for each sequence length, as Galvatron 3 writes it", 0)
    end
    local record <const> = record_of(value, where)
    record.seq_len = integer(length)
    rows[#rows + 1] = record
  end
  table.sort(rows, function(a, b) return a.seq_len < b.seq_len end)
  return rows
end

local function layer_record(value, where)
  local activation <const> = value.tp_activation_per_bsz_dict
  if type(activation) ~= "table" then error(where .. ": no tp_activation_per_bsz_dict", 0) end
  return {
    parameter_bytes = positive(where, "parameter_size", value.parameter_size) * MiB,
    checkpoint_bytes = positive(where, "checkpoint", activation.checkpoint or 0) * MiB, activation_bytes = by_degree(where, activation),
  }
end

local function ends_record(value, where)
  if type(value.model_states) ~= "table" or type(value.activation) ~= "table" then
    error(where .. ": no model_states and activation", 0)
  end
  return { states_bytes = by_degree(where, value.model_states), activation_bytes = by_degree(where, value.activation) }
end

local function read_memory(path, suffix)
  local file <const>, ends <const> = decode(path), {}
  local layer <const> = each_length(file, path, "layertype_0" .. suffix, layer_record)
  for name, key in pairs { whole = "off", first = "on_first", last = "on_last" } do
    ends[name] = each_length(file, path, "other_memory_pp_" .. key .. suffix, ends_record)
  end
  return layer, ends
end

--- GB/s that are MiB a millisecond.
local function rate(path, key, value)
  if positive(path, key, value) == 0 then error(("%s: %s: must be above 0"):format(path, key), 0) end
  return value * MiB / MS
end

local function read_hardware(paths)
  local allreduce <const>, p2p <const>, messages <const> = {}, {}, {}
  each(decode(paths.allreduce), "^allreduce_size_(%d+)_consec_([01])$", function(key, value, gpus, consecutive)
    allreduce[#allreduce + 1] =
      { gpus = integer(gpus), consecutive = consecutive == "1", bytes_per_s = rate(paths.allreduce, key, value) }
  end)
  each(decode(paths.p2p), "^pp_size_(%d+)$", function(key, value, stages)
    p2p[#p2p + 1] = { stages = integer(stages), bytes_per_s = rate(paths.p2p, key, value) }
  end)
  for _, kind in ipairs { "allreduce", "all2all" } do
    each(decode(paths.messages), "^" .. kind .. "_size_(%d+)_(%d+)MB_time$", function(key, value, gpus, mib)
      messages[#messages + 1] = {
        kind = kind == "all2all" and "all_to_all" or kind, gpus = integer(gpus), bytes = integer(mib) * MiB,
        seconds = positive(paths.messages, key, value) * MS,
      }
    end)
  end
  table.sort(messages, function(a, b)
    if a.kind ~= b.kind then return a.kind < b.kind end
    if a.gpus ~= b.gpus then return a.gpus < b.gpus end
    return a.bytes < b.bytes
  end)
  local overlap <const> = positive(paths.overlap, "overlap_coe", decode(paths.overlap).overlap_coe)
  return { allreduce = allreduce, p2p = p2p, messages = messages, overlap = overlap }
end

--- The names that Galvatron gives the files of a model and of nodes.
local function named(spec)
  local of_model <const> = ("%s/%%s_profiling_%s_%s_all.json"):format(spec.folder, spec.precision or "bf16", spec.model)
  local of_nodes <const> = ("%s/%%s_%dnodes_%dgpus_per_node.json"):format(
    spec.hardware_folder or spec.folder, spec.nodes or 1, spec.gpus_per_node or 8)
  return {
    computation = of_model:format "computation", memory = of_model:format "memory",
    allreduce = of_nodes:format "allreduce_bandwidth", p2p = of_nodes:format "p2p_bandwidth", messages = of_nodes:format "sp_time",
    overlap = (spec.hardware_folder or spec.folder) .. "/overlap_coefficient.json",
  }
end

---@class tangram.GalvatronProfile
---@field time_mode string how forward times follow from the rows: "static", "batch", "sequence"
---@field memory_mode string "static" or "sequence"
---@field layer { times: table[], memory: table[] } times: { samples, seq_len, forward_s of one sample } …; memory: { seq_len,
---  parameter_bytes (fp32, whole layer), activation_bytes = { { degree, bytes of one sample } … }, checkpoint_bytes } …
---@field ends { times: table[], memory: table } embedding and head together: memory of `whole`, `first`, `last` stage:
---  { seq_len, states_bytes = { { degree, bytes } … }, activation_bytes = likewise } …
---@field hardware table allreduce { gpus, consecutive, bytes_per_s } …, p2p { stages, bytes_per_s } …, messages { kind, gpus, bytes,
---  seconds } …, overlap

--- Reads one model's profile. Raises one line, with file and key, for what is not as expected.
---@param spec table { folder, hardware_folder, model, precision = "bf16", nodes = 1, gpus_per_node = 8 }, from which the six names
---  follow, or `files` = { computation, memory, allreduce, p2p, messages, overlap }; time_mode = "static" | "batch" | "sequence",
---  memory_mode = "static" | "sequence"; sequence_parallel = true
---@return tangram.GalvatronProfile
function galvatron.read(spec)
  local paths <const> = spec.files or named(spec)
  local times <const>, end_times <const> = read_times(paths.computation)
  local memory <const>, end_memory <const> = read_memory(paths.memory, spec.sequence_parallel == false and "" or "_sp")
  return {
    time_mode = spec.time_mode or "static", memory_mode = spec.memory_mode or "static",
    layer = { times = times, memory = memory }, ends = { times = end_times, memory = end_memory },
    hardware = read_hardware(paths),
  }
end

return galvatron
