--- Reads Aceso's profiled database (microsoft/SuperScaler, branch Aceso): times and sizes of a GPT model's operators by samples on
--- one GPU and tensor-parallel degree, and the rates between stages. Reads files, so recipes call it, not plugins; they get the
--- table as their option `database`.
---
--- Files: gpt_SIZE_mbsM_tpT_algoA.csv, 16 rows: embedding, the 13 operators of one layer, final layernorm, LM head; microseconds
--- and MiB. prim_gpt_SIZE_COLLECTIVE_Ngpus.csv: whole MiB, milliseconds. p2p_intra_node.csv, p2p_inter_node.csv: a line of MiB, a
--- line of GiB/s.
local core <const> = require "tangram.core"
local files <const> = require "tangram.files"

local aceso <const> = {}

local MiB <const> = 2.0 ^ 20

local header <const> = "op_name,forward-compute,backward-compute,input_size,output_size,weights,activations,fwd_reserved,bwd_reserved"

--- The columns behind the name, and what a number in the file is worth.
local columns <const> = {
  { "forward_s", 1e-6 }, { "backward_s", 1e-6 }, { "input_bytes", MiB }, { "output_bytes", MiB }, { "weight_bytes", MiB },
  { "activation_bytes", MiB }, { "forward_reserved_bytes", MiB }, { "backward_reserved_bytes", MiB },
}

--- Rows of a file, in order.
aceso.names = {
  "encoder-embedding",
  "enc-1st-layernorm", "enc-attention-qkv", "enc-attention-score", "enc-attention-softmax", "enc-attention-dropout",
  "enc-attention-context", "enc-attention-dense", "enc-post-attention-dropout",
  "enc-2nd-layernorm", "enc-MLP-GEMM-1", "enc-MLP-gelu", "enc-MLP-GEMM-2", "enc-post-MLP-dropout",
  "final-layernorm", "gpt-post-process",
}

local FAILED_RUN <const> = 1e6 -- this or more stands in files for a run that failed

local function fail(path, line, what) error(("%s:%d: %s"):format(path, line, what), 0) end

local function lines_of(path)
  local list <const> = {}
  for line in files.read(path):gmatch "[^\n]*" do
    line = line:gsub("%s+$", "")
    if line ~= "" then list[#list + 1] = line end
  end
  return list
end

local function cells_of(line)
  local cells <const> = {}
  for cell in (line .. ","):gmatch "%s*([^,]-)%s*," do cells[#cells + 1] = cell end
  return cells
end

local function number_at(cells, i, path, line, what)
  local value <const> = tonumber(cells[i])
  if not value or value < 0 or value == math.huge then
    fail(path, line, ("%s: got '%s', expected a number of at least 0"):format(what, cells[i] or ""))
  end
  return value
end

--- One file as columns of 16 numbers; nil for a profile whose runs failed (out of memory), so that the degree is not tried.
local function read_operators(path)
  local lines <const>, profile <const> = lines_of(path), {}
  if lines[1] ~= header then fail(path, 1, "expected the header " .. header) end
  if #lines ~= 1 + #aceso.names then fail(path, #lines, ("%d rows, expected %d"):format(#lines - 1, #aceso.names)) end
  for _, column in ipairs(columns) do profile[column[1]] = {} end
  for i, name in ipairs(aceso.names) do
    local cells <const> = cells_of(lines[i + 1])
    if cells[1] ~= name then fail(path, i + 1, ("operator '%s', expected '%s'"):format(cells[1], name)) end
    for c, column in ipairs(columns) do
      local value <const> = number_at(cells, c + 1, path, i + 1, column[1])
      if value >= FAILED_RUN then return nil end
      profile[column[1]][i] = value * column[2]
    end
  end
  if profile.forward_s[1] <= 0 then fail(path, 2, "forward-compute: must be above 0") end
  return profile
end

local function read_collective(path)
  local lines <const>, rows <const> = lines_of(path), {}
  for i = 2, #lines do
    local cells <const> = cells_of(lines[i])
    local bytes <const>, ms <const> = number_at(cells, 1, path, i, "data_size"), number_at(cells, 2, path, i, "time")
    if ms < FAILED_RUN then rows[#rows + 1] = { bytes * MiB, ms * 1e-3 } end
  end
  table.sort(rows, function(a, b) return a[1] < b[1] end)
  return rows
end

--- Bytes a second at messages of 1, 2, 4, … MiB. Aceso takes a GiB for 1000 MiB.
local function read_rates(path)
  local lines <const>, rates <const> = lines_of(path), {}
  if #lines ~= 2 then fail(path, #lines, "expected a line of sizes and a line of rates") end
  local sizes <const>, values <const> = cells_of(lines[1]), cells_of(lines[2])
  for i in ipairs(sizes) do
    if number_at(sizes, i, path, 1, "size") ~= 2 ^ (i - 1) then fail(path, 1, "expected sizes 1, 2, 4, …") end
    rates[i] = number_at(values, i, path, 2, "rate") * 1000 * MiB
    if rates[i] <= 0 then fail(path, 2, "rate: must be above 0") end
  end
  return rates
end

local function integer(text) return math.tointeger(tonumber(text)) end

--- Sizes of models that a folder has profiles of.
local function sizes_in(names)
  local seen <const>, list <const> = {}, {}
  for _, file in ipairs(names) do
    local size <const> = file:match "^gpt_(.+)_mbs%d+_tp%d+_algo%d+%.csv$"
    if size and not seen[size] then
      seen[size], list[#list + 1] = true, size
    end
  end
  return list
end

---@class tangram.AcesoDatabase
---@field size string the model's size, as in the files' names
---@field samples integer[] samples on one GPU that were profiled, ascending
---@field tp integer[] degrees that were profiled, ascending
---@field profiles table[] { samples, tp, cut, columns of 16 numbers: forward_s, backward_s, input_bytes, output_bytes, weight_bytes,
---  activation_bytes, forward_reserved_bytes, backward_reserved_bytes }; cut 0 as Megatron cuts the four products, 1 the other way
---@field names string[] the 16 operators' names
---@field intra_bytes_per_s number[] between stages of one node, at messages of 1, 2, 4, … MiB
---@field inter_bytes_per_s number[] between nodes
---@field collectives table[] { name, gpus, rows = { { bytes, seconds } … } }, bytes ascending

--- Reads the profiles of one model in a folder. Raises one line, with the file and its line, for what is not as expected.
---@param folder string
---@param size string "350M", "1_3B", …
---@return tangram.AcesoDatabase
function aceso.read(folder, size)
  local names <const> = core.list_folder(folder)
  local database <const> = { size = size, samples = {}, tp = {}, profiles = {}, collectives = {}, names = aceso.names }
  local has <const>, seen <const>, known = {}, { samples = {}, tp = {} }, false
  for _, file in ipairs(names) do
    has[file] = true
    local of <const>, samples <const>, tp <const>, cut <const> = file:match "^gpt_(.+)_mbs(%d+)_tp(%d+)_algo(%d+)%.csv$"
    local collective <const>, gpus <const> = file:match("^prim_gpt_" .. size .. "_([%a_]+)_(%d+)gpus%.csv$")
    if of == size then
      local profile <const> = read_operators(folder .. "/" .. file)
      if profile then
        profile.samples, profile.tp, profile.cut = integer(samples), integer(tp), integer(cut)
        database.profiles[#database.profiles + 1] = profile
        for _, name in ipairs { "samples", "tp" } do
          local value <const> = profile[name]
          if not seen[name][value] then seen[name][value], database[name][#database[name] + 1] = true, value end
        end
      end
      known = true
    elseif collective then
      database.collectives[#database.collectives + 1] =
        { name = collective, gpus = integer(gpus), rows = read_collective(folder .. "/" .. file) }
    end
  end
  if not known then
    local sizes <const> = sizes_in(names)
    local near <const> = core.nearest(size, sizes)
    error(("%s: no profiles of '%s', expected one of %s%s"):format(folder, size, table.concat(sizes, ", "),
      near and (" (did you mean '%s'?)"):format(near) or ""), 0)
  end
  table.sort(database.samples)
  table.sort(database.tp)
  if not has["p2p_intra_node.csv"] then error(folder .. "/p2p_intra_node.csv: no such file", 0) end
  database.intra_bytes_per_s = read_rates(folder .. "/p2p_intra_node.csv")
  database.inter_bytes_per_s = has["p2p_inter_node.csv"] and read_rates(folder .. "/p2p_inter_node.csv")
    or database.intra_bytes_per_s
  return database
end

return aceso
