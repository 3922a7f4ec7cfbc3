--- Look-ups in the catalogue of GPUs and links.
local core <const> = require "tangram.core"
local gpus <const> = require "tangram.catalog.gpus"
local links <const> = require "tangram.catalog.links"

local catalog <const> = { gpus = gpus, links = links }

--- Generations without fused attention kernels (FlashAttention-2 needs Ampere).
catalog.unfused = { Volta = true, Turing = true }

--- Words that vendors put before the type and that sites leave out as they like.
local BRANDS <const> = { nvidia = true, tesla = true, geforce = true, amd = true, instinct = true, intel = true }

--- Lower-case words of a name, brands left out; "80GB" and "80G" count as "80", "SXM4" as itself.
local function words(name)
  local found <const> = {}
  for word in name:lower():gmatch "%w+" do
    word = word:match "^(%d+)gb?$" or word
    if not BRANDS[word] then found[#found + 1] = word end
  end
  return found
end

--- Words that make another part of the one before them: an RTX 4090 D or a laptop's is no RTX 4090.
local VARIANTS <const> = { ti = true, super = true, laptop = true, mobile = true, d = true, max = true, ["3e"] = true, x = true }

local function has_other_variant(list, run)
  local own <const> = {}
  for _, word in ipairs(run) do own[word] = true end
  for _, word in ipairs(list) do
    if VARIANTS[word] and not own[word] then return true end
  end
  return false
end

local function contains_run(list, run)
  for start = 0, #list - #run do
    local same = #run > 0
    for i = 1, #run do same = same and list[start + i] == run[i] end
    if same then return true end
  end
  return false
end

--- The entries whose printed name (or key) stands in the name as whole words, the longest such name alone: "H200 NVL" before
--- "H200", and "A10G" never for "A10".
local function by_printed_name(name)
  local list <const> = words(name)
  local longest, found = 0, {}
  for _, gpu in ipairs(gpus) do
    for _, printed in ipairs { gpu.key, table.unpack(gpu.names) } do
      local run <const> = words(printed)
      if #run >= math.max(longest, 1) and contains_run(list, run) and not has_other_variant(list, run) then
        if #run > longest then longest, found = #run, {} end
        if found[#found] ~= gpu then found[#found + 1] = gpu end
      end
    end
  end
  return found
end

--- The entries that have each word of the name somewhere in their key, names or memory size: all that a short label may mean.
local function by_words(name)
  local found <const>, list <const> = {}, words(name)
  for _, gpu in ipairs(#list > 0 and gpus or {}) do
    local known <const> = { [("%d"):format((gpu.memory_bytes + (1 << 29)) >> 30)] = true }
    for _, printed in ipairs { gpu.key, table.unpack(gpu.names) } do
      for _, word in ipairs(words(printed)) do
        known[word] = true
        known[word:match "^(sxm)%d$" or word] = true
      end
    end
    local all = true
    for _, word in ipairs(list) do all = all and known[word] end
    if all then found[#found + 1] = gpu end
  end
  return found
end

local function keys(list)
  local names <const> = {}
  for i, gpu in ipairs(list) do names[i] = gpu.key end
  return names
end

--- Up to three keys near a name that nothing matches, best first.
local function nearest_keys(name)
  local left <const>, near <const> = keys(gpus), {}
  while #near < 3 do
    local key <const> = core.nearest(table.concat(words(name), "-"), left)
    if not key then break end
    near[#near + 1] = key
    for i, other in ipairs(left) do
      if other == key then table.remove(left, i) break end
    end
  end
  return near
end

local function is_slice(name)
  return name:lower():match "%f[%w]mig%f[%W]" ~= nil or name:lower():match "%d+g%.%d+gb" ~= nil
end

--- All GPU types that a key, a name as drivers, Slurm or Kubernetes print it, or a label may mean; none for a MIG slice.
---@param name string
---@param memory_bytes number? memory that the driver reports: chooses among types that the name does not tell apart
---@return table[] entries of the catalogue
function catalog.candidates(name, memory_bytes)
  if is_slice(name) then return {} end
  for _, gpu in ipairs(gpus) do
    if gpu.key == name:lower() then return { gpu } end
  end
  local found = by_printed_name(name)
  if #found == 0 then found = by_words(name) end
  if not memory_bytes or #found < 2 then return found end
  local fitting <const> = {}
  for _, gpu in ipairs(found) do
    if math.abs(gpu.memory_bytes / memory_bytes - 1) < 0.05 then fitting[#fitting + 1] = gpu end
  end
  return fitting[1] and fitting or found
end

--- The one GPU type that a name means.
---@param name string see `catalog.candidates`
---@param memory_bytes number?
---@return table? gpu the entry of the catalogue
---@return string? why the types that it may be, or the nearest ones
function catalog.find_gpu(name, memory_bytes)
  if is_slice(name) then
    return nil, ("GPU '%s' is a MIG slice, expected whole GPUs: slices can't form one job"):format(name)
  end
  local found <const> = catalog.candidates(name, memory_bytes)
  if #found == 1 then return found[1] end
  if #found > 1 then
    return nil, ("GPU '%s' is not clear, expected one of %s"):format(name, table.concat(keys(found), ", "))
  end
  local near <const> = nearest_keys(name)
  return nil, ("unknown GPU '%s'%s"):format(name, near[1] and (" (did you mean %s?)"):format(table.concat(near, " or "))
    or "; describe it in the cluster's 'gpus'")
end

--- Rate between the GPUs of one node. Bridges are not taken for granted.
---@param gpu table entry of the catalogue, or a user's own
---@return number|table? bytes_per_s or a table of them by size of group; nil if neither a link nor PCIe is known
function catalog.intra(gpu)
  return not gpu.bridge and gpu.link_bytes_per_s or gpu.pcie_bytes_per_s or gpu.link_bytes_per_s
end

--- Bytes per second of a link named in the catalogue, "ib-hdr" or "4x ib-hdr".
---@param name string
---@return number? bytes_per_s
function catalog.link_rate(name)
  local ports <const>, kind <const> = name:match "^(%d+)%s*x%s+(.+)$"
  local link <const> = links.rates[(kind or name):lower()]
  return link and link.bytes_per_s * (tonumber(ports) or 1)
end

return catalog
