--- Reads measured times of layers: a user's own CSV, the profiles of Sailor, Metis and Galvatron, Aceso's operators. Reads files, so
--- recipes call it, not plugins; the cost model `profiled` takes the list as its option `profiles`.
local core <const> = require "tangram.core"
local files <const> = require "tangram.files"
local galvatron <const> = require "tangram.input.galvatron"
local profile <const> = require "tangram.profile"

local profiles <const> = {}

--- Keys that are whole numbers, ascending, with their values.
local function by_number(t, path)
  local list <const> = {}
  if type(t) ~= "table" then error(path .. ": expected times by number", 0) end
  for key, value in pairs(t) do
    local number <const> = math.tointeger(tonumber(key))
    if not number then error(("%s: key '%s': expected a whole number"):format(path, tostring(key)), 0) end
    list[#list + 1] = { number, value }
  end
  table.sort(list, function(a, b) return a[1] < b[1] end)
  return list
end

local COLUMNS <const> = { "gpu", "kind", "tp", "mbs", "seq", "forward_s", "backward_s" }

--- A CSV of one's own: a line of names (gpu, kind, tp, mbs, seq, forward_s, backward_s; hidden if wanted), then a line a time.
---@param path string
---@return table[] profiles one a GPU type
function profiles.csv(path)
  local names, list, by_gpu, number <const> = nil, {}, {}, { tp = true, mbs = true, seq = true, forward_s = true, backward_s = true,
    hidden = true }
  local line_number = 0
  for line in (files.read(path) .. "\n"):gmatch "([^\n]*)\n" do
    line_number = line_number + 1
    local cells <const> = {}
    for cell in (line:gsub("%s+$", "") .. ","):gmatch "%s*([^,]-)%s*," do cells[#cells + 1] = cell end
    if not names then
      names = cells
      local has <const> = {}
      for _, name in ipairs(names) do has[name] = true end
      for _, name in ipairs(COLUMNS) do
        if not has[name] then error(("%s:1: no column '%s', expected %s"):format(path, name, table.concat(COLUMNS, ", ")), 0) end
      end
    elseif #cells > 1 then
      local entry <const> = {}
      for i, name in ipairs(names) do
        if cells[i] and cells[i] ~= "" then entry[name] = number[name] and tonumber(cells[i]) or cells[i] end
        if number[name] and cells[i] and cells[i] ~= "" and not tonumber(cells[i]) then
          error(("%s:%d: %s: got '%s', expected a number"):format(path, line_number, name, cells[i]), 0)
        end
      end
      local gpu <const> = entry.gpu or error(("%s:%d: gpu: missing"):format(path, line_number), 0)
      if not by_gpu[gpu] then
        by_gpu[gpu] = { gpu = gpu, hidden = math.tointeger(entry.hidden), source = "measured", entries = {} }
        list[#list + 1] = by_gpu[gpu]
      end
      entry.gpu, entry.hidden = nil, nil
      table.insert(by_gpu[gpu].entries, entry)
    end
  end
  for i, one in ipairs(list) do list[i] = profile.check(one, path .. ": " .. one.gpu) end
  if not list[1] then error(path .. ": no times, expected a line each behind the names", 0) end
  return list
end

local function checked_gpu(options, path)
  if type(options) ~= "table" or type(options.gpu) ~= "string" or math.type(options.seq) ~= "integer" then
    error(path .. ": expected { gpu = the islands' GPU type, seq = tokens a sample }", 0)
  end
  return options.gpu, options.seq
end

--- Sailor's profile.json: { mbs: { tp: { layer: [forward, backward, update] } } } in seconds; layer 0 is the embedding, the
--- last one the head, those between are the same but the first, which was timed cold.
---@param path string
---@param options { gpu: string, seq: integer, hidden: integer? }
---@return table[] profiles
function profiles.sailor(path, options)
  local gpu <const>, seq <const> = checked_gpu(options, path)
  local entries <const> = {}
  for _, m in ipairs(by_number(files.table(path), path)) do
    for _, t in ipairs(by_number(m[2], path)) do
      local layers <const> = by_number(t[2], path)
      if #layers < 3 then error(("%s: %d.%d: expected an embedding, layers and a head"):format(path, m[1], t[1]), 0) end
      for i, kind in pairs { [1] = "embedding", [#layers - 1] = "layer", [#layers] = "head" } do
        local times <const> = layers[i][2]
        if type(times) ~= "table" or type(times[1]) ~= "number" or type(times[2]) ~= "number" then
          error(("%s: %d.%d.%d: expected [forward, backward, update]"):format(path, m[1], t[1], layers[i][1]), 0)
        end
        entries[#entries + 1] = { kind = kind, mbs = m[1], tp = t[1], seq = seq, forward_s = times[1], backward_s = times[2] }
      end
    end
  end
  table.sort(entries, function(a, b)
    if a.kind ~= b.kind then return a.kind < b.kind end
    if a.tp ~= b.tp then return a.tp < b.tp end
    return a.mbs < b.mbs
  end)
  return { profile.check({ gpu = gpu, hidden = options.hidden, source = "Sailor's profile", entries = entries }, path) }
end

--- Metis' profiles of one GPU type in a folder, DeviceType.TYPE_tpT_bsB.json: layer_compute_total_ms, forward and backward
--- together, cut 1 : 2 here; first the embedding, last the head.
---@param folder string
---@param options { type: string, gpu: string, seq: integer, hidden: integer? } type as in the files' names
---@return table[] profiles
function profiles.metis(folder, options)
  local gpu <const>, seq <const> = checked_gpu(options, folder)
  local entries <const> = {}
  for _, file in ipairs(core.list_folder(folder)) do
    local of <const>, tp <const>, bs <const> = file:match "^DeviceType%.(%w+)_tp(%d+)_bs(%d+)%.json$"
    if of and of == (options.type or of) then
      local path <const> = folder .. "/" .. file
      local times <const> = (files.table(path).execution_time or {}).layer_compute_total_ms
      if type(times) ~= "table" or #times < 3 then
        error(path .. ": execution_time.layer_compute_total_ms: expected milliseconds of embedding, layers and head", 0)
      end
      for i, kind in pairs { [1] = "embedding", [2] = "layer", [#times] = "head" } do
        local total_s <const> = (tonumber(times[i]) or error(path .. ": layer_compute_total_ms: expected numbers", 0)) * 1e-3
        entries[#entries + 1] = { kind = kind, tp = math.tointeger(tonumber(tp)), mbs = math.tointeger(tonumber(bs)), seq = seq,
          forward_s = total_s / 3, backward_s = total_s * 2 / 3 }
      end
    end
  end
  if not entries[1] then error(folder .. ": no DeviceType.TYPE_tpT_bsB.json, expected Metis' profiles", 0) end
  table.sort(entries, function(a, b)
    if a.kind ~= b.kind then return a.kind < b.kind end
    if a.tp ~= b.tp then return a.tp < b.tp end
    return a.mbs < b.mbs
  end)
  return { profile.check({ gpu = gpu, hidden = options.hidden, source = "Metis' profile", entries = entries }, folder) }
end

--- Galvatron's computation_profiling_….json: forward milliseconds of one sample when B go through at once, of a layer
--- (layertype_0_bszB_seqS) and of embedding, head and loss together (layertype_other_…), the head here. Backward is twice forward,
--- as its own cost model has it.
---@param path string
---@param options { gpu: string, seq: integer?, hidden: integer? } seq of a file that states none
---@return table[] profiles
function profiles.galvatron(path, options)
  if type(options) ~= "table" or type(options.gpu) ~= "string" then error(path .. ": expected { gpu = the islands' GPU type }", 0) end
  local entries <const> = {}
  local layer <const>, ends <const> = galvatron.times(path, options.seq)
  for kind, rows in pairs { layer = layer, head = ends } do
    for _, row in ipairs(rows) do
      local forward_s <const> = row.forward_s * row.samples
      entries[#entries + 1] = { kind = kind, tp = 1, mbs = row.samples, seq = row.seq_len, forward_s = forward_s,
        backward_s = 2 * forward_s }
    end
  end
  table.sort(entries, function(a, b)
    if a.kind ~= b.kind then return a.kind < b.kind end
    if a.seq ~= b.seq then return a.seq < b.seq end
    return a.mbs < b.mbs
  end)
  return { profile.check({ gpu = options.gpu, hidden = options.hidden, source = "Galvatron's profile", entries = entries }, path) }
end

--- Aceso's operators, as tangram.input.aceso reads them, by layers: the 13 operators of a layer, the head with its norm.
---@param database table profiles[samples][tp] = { forward_s, backward_s } of 16 operators; samples, tp: lists
---@param options { gpu: string, seq: integer, hidden: integer? }
---@return table[] profiles
function profiles.aceso(database, options)
  local gpu <const>, seq <const> = checked_gpu(options, "Aceso's profile")
  local entries <const> = {}
  for _, kind in ipairs { { "embedding", 1, 1 }, { "head", 15, 16 }, { "layer", 2, 14 } } do
    for _, tp in ipairs(database.tp) do
      for _, samples in ipairs(database.samples) do
        local times <const> = database.profiles[samples][tp]
        if times then
          local forward_s, backward_s = 0, 0
          for i = kind[2], kind[3] do forward_s, backward_s = forward_s + times.forward_s[i], backward_s + times.backward_s[i] end
          entries[#entries + 1] = { kind = kind[1], tp = tp, mbs = samples, seq = seq, forward_s = forward_s, backward_s = backward_s }
        end
      end
    end
  end
  return { profile.check({ gpu = gpu, hidden = options.hidden, source = "Aceso's profile", entries = entries }, "Aceso's profile") }
end

return profiles
