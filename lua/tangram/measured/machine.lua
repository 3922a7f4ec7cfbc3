--- GPUs and network of a measured row, from its columns gpu, n_gpus, gpus_per_node and interconnect.
local catalog <const> = require "tangram.catalog"

local machine <const> = {}

--- Types that sources name without their form or memory.
local USUAL <const> = { A100 = "a100-sxm4-80", H100 = "h100-sxm", V100 = "v100-sxm2-16", B200 = "b200-sxm", H200 = "h200-sxm" }

--- The catalogue's type for a name; one that states a memory size, but not the form, is taken for SXM, and one of a size that the
--- catalogue lacks for its kin of another size.
---@return table? gpu
---@return string? why
---@return integer? memory_bytes if it is not the catalogue's
local function type_of(name)
  local known <const>, why <const> = catalog.find_gpu(USUAL[name] or name)
  local base <const>, gigabytes <const> = name:match "^(%w+.-)[%s%-]+(%d+)%s*GB"
  if known or not base then return known, why end
  local form <const> = catalog.find_gpu(("%s-SXM-%s"):format(base, gigabytes))
  if form then return form end
  local kin <const> = catalog.find_gpu(USUAL[base] or base)
  return kin, why, kin and gigabytes * 2 ^ 30
end

local function record_of(name, gpus, nodes)
  local own <const> = gpus[name] or nodes[name]
  local known <const>, why <const>, memory_bytes <const> = type_of(own and own.like or name)
  if not known and not own then error("gpu: " .. why, 0) end
  local record <const> = {}
  for field, value in pairs(known or {}) do record[field] = value end
  record.memory_bytes = memory_bytes or record.memory_bytes
  for field, value in pairs(own or known and gpus[known.key] or {}) do record[field] = value end
  record.key = known and known.key or name
  record.intra = record.intra or record.link_bytes_per_s and not record.bridge and record.link_bytes_per_s or catalog.intra(record)
  return record
end

--- The GPU type of each rank, in the order that the column names them: "4xV100 + 2xT4", "RTX-3090x8 / Titan-RTXx8", "A100".
---@param row table
---@param gpus table<string, table> records that replace or complete the catalogue's, by name or key
---@param source table of measured.sources, which may know the nodes of a type
---@return table[] records by rank, from 1
function machine.ranks(row, gpus, source)
  local parts <const>, total = {}, 0
  for item in row.gpu:gsub("%b()", ""):gmatch "[^+/]+" do
    local word <const> = item:match "^%s*(.-)%s*$"
    local before <const>, named <const> = word:match "^(%d+)x(.+)$"
    local name <const>, behind <const> = word:match "^(.-)x(%d+)$"
    parts[#parts + 1] = { record_of(named or name or word, gpus, source.nodes or {}), tonumber(before or behind) }
    total = total + (parts[#parts][2] or 0)
  end
  if #parts == 1 then parts[1][2], total = row.n_gpus, row.n_gpus end
  if total ~= row.n_gpus then
    error(("gpu: counts add up to %d, expected n_gpus = %d"):format(total, row.n_gpus), 0)
  end
  local ranks <const> = {}
  for _, part in ipairs(parts) do
    for _ = 1, part[2] do ranks[#ranks + 1] = part[1] end
  end
  return ranks
end

--- GPUs of the shortest sequence of ranks with one type.
function machine.shortest_run(ranks)
  local shortest, length = #ranks, 0
  for r, device in ipairs(ranks) do
    length = length + 1
    if not ranks[r + 1] or ranks[r + 1].key ~= device.key then shortest, length = math.min(shortest, length), 0 end
  end
  return shortest
end

--- Words of `interconnect` that name a kind of link.
local KINDS <const> = {
  { "omni%-path", "omni-path" }, { "slingshot", "slingshot-11" }, { "roce", "roce" }, { "xdr", "ib-xdr" }, { "ndr", "ib-ndr" },
  { "hdr", "ib-hdr" }, { "edr", "ib-edr" }, { "fdr", "ib-fdr" },
}

--- What nodes of GPUs that are linked among each other usually have, for rows that don't say.
local BY_ARCH <const> = { Hopper = "ib-ndr", Blackwell = "ib-ndr", Ampere = "ib-hdr" }

local function kind_in(text)
  for _, pair in ipairs(KINDS) do
    if text:find(pair[1]) then return pair[2] end
  end
end

--- The network of one node, all its ports: the slowest figure that the row prints.
---@param row table
---@param source table of measured.sources
---@param gpu table record of the first GPU
---@return { kind: string, bytes_per_s: number, network_share: number?, dp_network_share: number?, source: string? } network
---@return string? assumed what the row does not say
function machine.network(row, source, gpu)
  local text <const> = (row.interconnect or ""):lower()
  local kind = source.link or kind_in(text)
  local per_port
  for figure in text:gmatch "(%d+)%s*gb" do per_port = math.min(per_port or math.huge, tonumber(figure)) end
  local ports = source.ports or tonumber(text:match "(%d+)%s*x%s*%a*%-?%d*%s*%a*")
  local assumed
  if not kind and per_port then
    kind = "ethernet-" .. per_port
  elseif not kind then
    kind = gpu.link_bytes_per_s and not gpu.bridge and BY_ARCH[gpu.arch] or "ethernet-10"
    assumed = "network " .. kind
  end
  local rate <const> = catalog.links.rates[kind]
  local one <const> = source.ports and rate.bytes_per_s or per_port and per_port * 1e9 / 8 or rate and rate.bytes_per_s or 1.25e9
  if not per_port and not ports then ports = kind:find "ethernet" and 1 or row.gpus_per_node end
  local reached <const> = catalog.links.reached[kind] or {}
  return {
    kind = kind, bytes_per_s = one * (ports or 1), network_share = reached.network_share, dp_network_share = reached.dp_network_share,
    source = reached.source,
  }, assumed
end

return machine
