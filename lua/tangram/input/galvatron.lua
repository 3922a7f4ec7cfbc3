--- Reads Galvatron's profiles (PKU-DAIR/Hetu-Galvatron): forward times and memory of a model's layers, and the collectives of
--- a node. Reads files, so recipes call it, not plugins; they get the table as their option `profile`. All lists are of
--- records, so that a plan can state the profile it was made with.
---
--- Keys of Galvatron 3 name the sequence length; of files of 2.x that don't, it stands in their name (…_seqlen2048.json) or is
--- told. What the profiler leaves beside its results (layernum…, 1_1_8_sp, …) is passed over.
local files <const> = require "tangram.files"
local schema <const> = require "tangram.schema"

local galvatron <const> = {}

local MiB <const>, MS <const> = 2.0 ^ 20, 1e-3
--- Fewest sizes of messages that Galvatron fits a line to.
local ENOUGH_SIZES <const> = 8

local fail <const>, raise <const> = schema.fail, schema.raise

local FILES <const> = { "computation", "memory", "allreduce", "p2p", "messages", "overlap" }

local paths_of <const> = {}
for _, name in ipairs(FILES) do paths_of[name] = { type = "string", required = true, doc = "path" } end

--- What `read` takes.
galvatron.fields = {
  folder = { type = "string", doc = "of the model's two files; the names follow from model, precision, nodes, gpus_per_node" },
  hardware_folder = { type = "string", doc = "of the machine's four files; default: folder" },
  model = { type = "string", doc = "as in the files' names" },
  precision = { type = "enum", values = { "bf16", "fp16" }, default = "bf16", doc = "as in the files' names" },
  nodes = { type = "integer", min = 1, default = 1, doc = "that the machine's files are of" },
  gpus_per_node = { type = "integer", min = 1, default = 8, doc = "that the machine's files are of" },
  files = { type = "table", fields = paths_of, doc = "paths, in place of folder and model" },
  time_mode = { type = "enum", values = { "static", "batch", "sequence" }, default = "static",
    doc = "forward times: those of the first batch size, a line over batch sizes, a curve over sequence lengths" },
  memory_mode = { type = "enum", values = { "static", "sequence" }, default = "static",
    doc = "sizes: as profiled at the sequence length, or scaled to it" },
  sequence_parallel = { type = "boolean", default = true, doc = "take what was profiled with sequence parallelism" },
  seq_len = { type = "integer", min = 1, doc = "of files whose keys and name state none" },
}

local function is_there(path)
  local file <close> = io.open(path, "rb")
  return file ~= nil
end

local function decode(path) return files.table(path, "a table of numbers by key") end

local function integer(text) return math.tointeger(tonumber(text)) end

--- A number of at least `least`.
local function number(where, value, least, what)
  if type(value) ~= "number" or not (value >= least and value < math.huge) then
    fail(where, value, ("%s of at least %d"):format(what, least))
  end
  return value
end

local function sorted_keys(t)
  local keys <const> = {}
  for key in pairs(t) do keys[#keys + 1] = tostring(key) end
  table.sort(keys)
  return keys
end

--- Calls visit(key, value, …captures) for the keys that match, by letters.
local function each(table_, pattern, visit)
  for _, key in ipairs(sorted_keys(table_)) do
    if key:match(pattern) then visit(key, table_[key], key:match(pattern)) end
  end
end

local function has(table_, pattern)
  local found
  each(table_, pattern, function(key) found = found or key end)
  return found
end

--- The model's files hold whole layers of one kind, in 16 bits.
local function check_name(path)
  local base <const> = path:match "[^/]*$"
  local half <const> = base:match "_(attention)%.json$" or base:match "_(mlp)%.json$"
  if half then raise("%s: is of half layers (%s), expected a profile of whole ones, …_all.json", path, half) end
  if base:find("_fp32_", 1, true) then raise("%s: is of fp32, expected a profile in bf16 or fp16", path) end
end

--- The sequence length of what names none.
local function own_length(path, given) return integer(path:match "_seqlen(%d+)[^/]*$") or given end

local function refuse_length(where)
  raise("%s: states no sequence length, expected it in the key, in the file's name (…_seqlen2048.json), or as seq_len", where)
end

--- Why a file of times has none of a kind.
local function refuse_times(path, file, key, what)
  local half <const> = has(file, "^layertype_%d+_bsz%d+_seq%d+_%l+$")
  if half then raise("%s: %s is of half layers, expected times of whole ones, %s_bszB_seqS", path, half, key) end
  local why = has(file, "^" .. key .. "$") and key .. " states no batch size"
    or has(file, "^layernum") and "only raw times of whole runs (layernum…), as before Galvatron's profiler has worked them out"
  raise("%s: no key %s_bszB_seqS, expected %s%s", path, key, what, why and ": " .. why or "")
end

--- Rows { samples, seq_len, forward_s }: forward seconds of one sample, when so many go through at once. `part` is of keys.
local function times_of(path, file, part, length)
  local rows <const> = {}
  local function add(key, value, samples, seq_len)
    if not seq_len then refuse_length(path .. ": " .. key) end
    if samples < 1 or seq_len < 1 then raise("%s: %s: expected a batch size and a length of at least 1", path, key) end
    rows[#rows + 1] =
      { samples = samples, seq_len = seq_len, forward_s = number(path .. ": " .. key, value, 0, "milliseconds") * MS }
  end
  each(file, "^layertype_" .. part .. "_bsz(%d+)_seq(%d+)$", function(key, value, samples, seq_len)
    add(key, value, integer(samples), integer(seq_len))
  end)
  each(file, "^layertype_" .. part .. "_bsz(%d+)$", function(key, value, samples)
    add(key, value, integer(samples), length)
  end)
  table.sort(rows, function(a, b)
    if a.seq_len ~= b.seq_len then return a.seq_len < b.seq_len end
    return a.samples < b.samples
  end)
  return rows
end

--- Forward times of a layer, and of embedding and head together: { samples, seq_len, forward_s of one sample } ….
---@param path string computation_profiling_….json
---@param seq_len integer? of a file that states none
---@return table[] layer, table[] ends
function galvatron.times(path, seq_len)
  check_name(path)
  local file <const>, length <const> = decode(path), own_length(path, seq_len)
  local other <const> = has(file, "^layertype_[1-9]")
  if other then raise("%s: %s: several types of layers, expected one: this reads profiles of decoders", path, other) end
  local layer <const> = times_of(path, file, "0", length)
  if #layer == 0 then refuse_times(path, file, "layertype_0", "the forward times of a layer") end
  local ends <const> = times_of(path, file, "other", length)
  table.move(times_of(path, file, "other_0", length), 1, 1e6, #ends + 1, ends)
  if #ends == 0 then refuse_times(path, file, "layertype_other", "the forward times of embedding and head") end
  return layer, ends
end

--- { { degree, bytes } … } of a table by degree; `beside`, a key that is no degree.
local function by_degree(where, values, beside)
  if type(values) ~= "table" then
    fail(where, values, 'a table of MB by tensor-parallel degree, { "1": …, "2": … }')
  end
  local rows <const> = {}
  for _, key in ipairs(sorted_keys(values)) do
    local degree <const> = integer(key)
    if degree and degree >= 1 then
      rows[#rows + 1] = { degree = degree, bytes = number(where .. "." .. key, values[key], 0, "MB") * MiB }
    elseif key ~= beside then
      raise("%s.%s: expected a tensor-parallel degree as key", where, key)
    end
  end
  if #rows == 0 then raise("%s: no degrees, expected MB by tensor-parallel degree", where) end
  table.sort(rows, function(a, b) return a.degree < b.degree end)
  return rows
end

local function layer_record(value, where)
  local activation <const> = value.tp_activation_per_bsz_dict
  where = where .. "."
  local by <const> = by_degree(where .. "tp_activation_per_bsz_dict", activation, "checkpoint")
  return {
    parameter_bytes = number(where .. "parameter_size", value.parameter_size, 0, "MB") * MiB, activation_bytes = by,
    checkpoint_bytes = number(where .. "tp_activation_per_bsz_dict.checkpoint", activation.checkpoint, 0, "MB") * MiB,
  }
end

local function ends_record(value, where)
  return { states_bytes = by_degree(where .. ".model_states", value.model_states),
    activation_bytes = by_degree(where .. ".activation", value.activation) }
end

local function no_memory(path, file, key, suffix)
  local plain <const> = key .. (suffix == "" and "_sp" or "")
  local why <const> = file[plain] ~= nil and ("%s is there: sequence_parallel = %s takes it"):format(plain, suffix == "")
    or has(file, "^%d+_%d+_%d+") and not has(file, "^layertype_")
      and "only raw sizes of whole runs (1_1_8…), as before Galvatron's profiler has worked them out"
  raise("%s: no key %s%s, expected what was profiled %s sequence parallelism%s", path, key, suffix,
    suffix == "" and "without" or "with", why and ": " .. why or "")
end

--- What a key says at each sequence length; or, as 2.x wrote it, at the one of the file.
local function each_length(path, file, name, suffix, length, record_of)
  local key <const> = name .. suffix
  local value <const>, where <const>, rows <const> = file[key], path .. ": " .. key, {}
  if value == nil then no_memory(path, file, name, suffix) end
  if type(value) ~= "table" then fail(where, value, "a table of sizes") end
  if value.parameter_size ~= nil or value.model_states ~= nil then
    rows[1] = record_of(value, where)
    rows[1].seq_len = length or refuse_length(where)
    return rows
  end
  for _, text in ipairs(sorted_keys(value)) do
    local at <const> = where .. "." .. text
    if not integer(text) or integer(text) < 1 then raise("%s: expected a sequence length as key", at) end
    if type(value[text]) ~= "table" then fail(at, value[text], "a table of sizes") end
    local record <const> = record_of(value[text], at)
    record.seq_len = integer(text)
    rows[#rows + 1] = record
  end
  if #rows == 0 then raise("%s: empty, expected a table of sizes for each sequence length", where) end
  table.sort(rows, function(a, b) return a.seq_len < b.seq_len end)
  return rows
end

local function read_memory(path, suffix, seq_len)
  check_name(path)
  local file <const>, length <const>, ends <const> = decode(path), own_length(path, seq_len), {}
  local other <const> = has(file, "^layertype_[1-9]")
  if other then raise("%s: %s: several types of layers, expected one: this reads profiles of decoders", path, other) end
  local layer <const> = each_length(path, file, "layertype_0", suffix, length, layer_record)
  for _, place in ipairs { { "whole", "off" }, { "first", "on_first" }, { "last", "on_last" } } do
    ends[place[1]] = each_length(path, file, "other_memory_pp_" .. place[2], suffix, length, ends_record)
  end
  return layer, ends
end

--- GB/s that are MiB a millisecond.
local function rate(path, key, value)
  if number(path .. ": " .. key, value, 0, "GB/s") == 0 then raise("%s: %s: got 0, expected GB/s above 0", path, key) end
  return value * MiB / MS
end

--- A machine's file is of groups of 2, 4, … up to the largest; so are its keys.
local function check_groups(path, file, format, largest)
  local gpus = 2
  while gpus <= math.max(2, largest) do
    local key <const> = format:format(gpus)
    if file[key] == nil then
      raise("%s: no key %s, expected one for each power of two up to %d", path, key, math.max(2, largest))
    end
    gpus = gpus * 2
  end
end

local function read_allreduce(path)
  local file <const>, rows <const>, largest = decode(path), {}, 0
  each(file, "^allreduce_size_(%d+)_consec_([01])$", function(key, value, gpus, consecutive)
    local row <const> = { gpus = integer(gpus), consecutive = consecutive == "1", bytes_per_s = rate(path, key, value) }
    rows[#rows + 1] = row
    if row.consecutive then largest = math.max(largest, row.gpus) end
  end)
  check_groups(path, file, "allreduce_size_%d_consec_1", largest)
  if largest > 2 then check_groups(path, file, "allreduce_size_%d_consec_0", largest // 2) end
  return rows
end

local function read_p2p(path)
  local file <const>, rows <const>, largest = decode(path), {}, 0
  each(file, "^pp_size_(%d+)$", function(key, value, stages)
    rows[#rows + 1] = { stages = integer(stages), bytes_per_s = rate(path, key, value) }
    largest = math.max(largest, integer(stages))
  end)
  check_groups(path, file, "pp_size_%d", largest)
  return rows
end

local function read_messages(path)
  local file <const>, rows <const> = decode(path), {}
  for _, kind in ipairs { "all2all", "allreduce" } do
    local counts <const> = {}
    each(file, "^" .. kind .. "_size_(%d+)_(%d+)MB_time$", function(key, value, gpus, mib)
      counts[gpus] = (counts[gpus] or 0) + 1
      rows[#rows + 1] = {
        kind = kind == "all2all" and "all_to_all" or kind, gpus = integer(gpus), bytes = integer(mib) * MiB,
        seconds = number(path .. ": " .. key, value, 0, "milliseconds") * MS,
      }
    end)
    if next(counts) == nil then raise("%s: no key %s_size_G_kMB_time, expected the times of messages by size", path, kind) end
    each(counts, "", function(gpus, count)
      if count < ENOUGH_SIZES then
        raise("%s: %s_size_%s_…: times of %d sizes, expected at least %d", path, kind, gpus, count, ENOUGH_SIZES)
      end
    end)
  end
  table.sort(rows, function(a, b)
    if a.kind ~= b.kind then return a.kind < b.kind end
    if a.gpus ~= b.gpus then return a.gpus < b.gpus end
    return a.bytes < b.bytes
  end)
  return rows
end

local function read_hardware(paths)
  local overlap <const> = number(paths.overlap .. ": overlap_coe", decode(paths.overlap).overlap_coe, 1, "how many times slower, a number")
  return { allreduce = read_allreduce(paths.allreduce), p2p = read_p2p(paths.p2p), messages = read_messages(paths.messages),
    overlap = overlap }
end

--- The names that Galvatron gives the files of a model and of nodes.
local function named(spec)
  for _, name in ipairs { "folder", "model" } do
    if not spec[name] then fail("Galvatron's profile: " .. name, nil, galvatron.fields[name].doc .. "; or files") end
  end
  local hardware <const> = spec.hardware_folder or spec.folder
  local of_nodes <const> = ("%s/%%s_%dnodes_%dgpus_per_node.json"):format(hardware, spec.nodes, spec.gpus_per_node)
  local function of_model(what)
    local stem <const> = ("%s/%s_profiling_%s_%s"):format(spec.folder, what, spec.precision, spec.model)
    return not is_there(stem .. "_all.json") and is_there(stem .. ".json") and stem .. ".json" or stem .. "_all.json" -- 3, 2.x
  end
  return {
    computation = of_model "computation", memory = of_model "memory", allreduce = of_nodes:format "allreduce_bandwidth",
    p2p = of_nodes:format "p2p_bandwidth", messages = of_nodes:format "sp_time", overlap = hardware .. "/overlap_coefficient.json",
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
---@param spec table galvatron.fields
---@return tangram.GalvatronProfile
function galvatron.read(spec)
  spec = schema.check(spec, galvatron.fields, "Galvatron's profile")
  local paths <const> = spec.files or named(spec)
  local times <const>, end_times <const> = galvatron.times(paths.computation, spec.seq_len)
  local memory <const>, end_memory <const> = read_memory(paths.memory, spec.sequence_parallel and "_sp" or "", spec.seq_len)
  return {
    time_mode = spec.time_mode, memory_mode = spec.memory_mode, layer = { times = times, memory = memory },
    ends = { times = end_times, memory = end_memory }, hardware = read_hardware(paths),
  }
end

return galvatron
