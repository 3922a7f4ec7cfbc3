--- Rates within a node from the matrix of its link classes (`nvidia-smi topo -m`), not from its GPUs' name: an SXM part may have
--- NVLink in pairs alone.
---
--- The rate of a group is what each of its GPUs sends at once in the best rings that pass all of them, as the collectives lay
--- them. Groups are neighbours by index, as ranks are: 0-1, 2-3, … for two; of all groups of a size the slowest counts.
local units <const> = require "tangram.units"

local matrix <const> = {}

--- Bytes per second of one NVLink and direction, where the GPU's type is not known: V100 to H100.
local LINK_BYTES_PER_S <const> = 25e9
--- No GPU has more NVLinks (H100, B200): who shows more to its peers in all has them once, through a switch.
local MOST_LINKS <const> = 18
--- Share of its PCIe rate that a GPU reaches past the switches. NCCL (src/graph/topo.h) reckons 6/5 of the traffic where it
--- passes an Intel host bridge, and links between sockets at 0.46 to 0.83 of its PCIe rate by processor, which the matrix does
--- not name.
local PCIE_SHARE <const> = { PIX = 1, PXB = 1, PCIE = 5 / 6, PHB = 5 / 6, NODE = 5 / 6, SYS = 0.6 }
--- Rings of unlike links are searched in full up to this size; in larger groups the ring is that of the indices.
local MOST_SEARCHED <const> = 8

--- NVLinks of a class, 0 for others.
local function links_of(class) return tonumber(class:match "^NV(%d+)$") or 0 end

--- A figure of a type, which a user's own may give in words: "50 GB/s".
local function figure(value)
  if type(value) == "number" or type(value) == "string" then return (units.bytes_per_s(value)) end
end

--- Rate of one of a type's NVLinks, and how many it has.
local function link_rate(device)
  local links <const> = device and tonumber(tostring(device.link):match "x(%d+)")
  local rate <const> = links and figure(device.link_bytes_per_s)
  return rate and rate / links or LINK_BYTES_PER_S, links
end

--- Whether NVLinks lead to a switch: some GPU shows its peers more links in all than it has.
local function is_switched(classes, device)
  local _, own <const> = link_rate(device)
  for _, row in ipairs(classes) do
    local sum = 0
    for _, class in ipairs(row) do sum = sum + links_of(class) end
    if sum > (own or MOST_LINKS) then return true end
  end
  return false
end

--- The widest ring through members 1 … n: the least of width(i, j) along it, at its best, and the ring; of equally wide ones that
--- of the largest sum, then by index. Dynamic programming over sets of members.
local function widest_ring(n, width)
  if n > MOST_SEARCHED then
    local ring <const>, least = {}, math.huge
    for i = 1, n do
      ring[i] = i
      least = math.min(least, width(i, i % n + 1))
    end
    return least, ring
  end
  local all <const> = (1 << n) - 1
  local paths <const> = { [1] = { { least = math.huge, sum = 0, at = 1 } } } -- by set of members, then by the last of them
  local function longer(path, to)
    local wide <const> = width(path.at, to)
    return { least = math.min(path.least, wide), sum = path.sum + wide, at = to, before = path }
  end
  local function better(a, b) return not b or a.least > b.least or a.least == b.least and a.sum > b.sum end
  for set = 1, all - 1, 2 do
    for last = 1, n do
      local path <const> = paths[set] and paths[set][last]
      for to = 2, path and n or 1 do
        local grown <const> = set | 1 << (to - 1)
        local one <const> = grown ~= set and longer(path, to)
        if one and one.least > 0 then
          paths[grown] = paths[grown] or {}
          if better(one, paths[grown][to]) then paths[grown][to] = one end
        end
      end
    end
  end
  local best
  for last = 2, n do
    local path <const> = paths[all] and paths[all][last]
    local closed <const> = path and longer(path, 1)
    if closed and closed.least > 0 and better(closed, best) then best = closed end
  end
  local ring <const> = {}
  local path = best and best.before
  while path do
    ring[#ring + 1] = path.at
    path = path.before
  end
  return best and best.least or 0, ring
end

--- Links per direction that rings keep busy at each GPU of a group, each ring both ways round, if they are taken off one by one,
--- the widest first and at most so many links wide.
local function packed(n, count, most)
  local left <const> = {}
  for i = 1, n do
    left[i] = {}
    for j = 1, n do left[i][j] = i ~= j and count(i, j) or 0 end
  end
  local total = 0
  while true do
    local widest <const>, ring <const> = widest_ring(n, function(i, j) return left[i][j] end)
    if widest == 0 then return total end
    local width <const> = math.min(most, widest)
    total = total + 2 * width
    for k, i in ipairs(ring) do
      local j <const> = ring[k % n + 1]
      left[i][j], left[j][i] = left[i][j] - width, left[j][i] - width
    end
  end
end

--- The same of links between the GPUs (no switch) at their best. Wide rings suit a cube mesh, thin ones a board where all pairs
--- have links.
local function packed_links(n, count)
  if n == 2 then return count(1, 2) end
  return math.max(packed(n, count, math.huge), packed(n, count, 1))
end

--- A rate of the catalogue for a group of a size: one number, or that of the nearest smaller size.
local function by_size(rate, size)
  if type(rate) ~= "table" then return figure(rate) end
  local found, at
  for key, one in pairs(rate) do
    local here <const> = tonumber(key)
    if here and here <= size and (not at or here > at) then found, at = figure(one), here end
  end
  return found
end

--- Bytes per second of one link class as an edge of a ring.
local function edge_rate(class, device, pcie_bytes_per_s)
  local links <const> = links_of(class)
  if links > 0 then return links * (link_rate(device)) end
  if class == "XGMI" then
    return by_size(device and device.link_bytes_per_s, 2) or pcie_bytes_per_s or 0
  end
  return (pcie_bytes_per_s or 0) * (PCIE_SHARE[class] or PCIE_SHARE.SYS)
end

--- The class that all pairs of a group have, or nil.
local function common_class(classes, first, last)
  local common
  for i = first, last do
    for j = i + 1, last do
      common = common or classes[i][j]
      if classes[i][j] ~= common then return nil end
    end
  end
  return common
end

--- What the driver measures at the GPUs of a group: links may be down.
local function active_rate(nvlink, first, size)
  if type(nvlink) ~= "table" then return nvlink or math.huge end
  local least = math.huge
  for i = first, first + size - 1 do least = math.min(least, nvlink[i] or math.huge) end
  return least
end

local function group_rate(classes, first, size, facts)
  local device <const>, pcie <const> = facts.device, facts.pcie_bytes_per_s
  local common <const> = common_class(classes, first, first + size - 1)
  local hive <const> = common == "XGMI" and by_size(device and device.link_bytes_per_s, size)
  if hive then return hive end
  local function class(i, j) return classes[first + i - 1][first + j - 1] end
  local function rate(i, j) return edge_rate(class(i, j), device, pcie) end
  local function count(i, j) return links_of(class(i, j)) end
  local bare <const> = common and links_of(common) or (widest_ring(size, count))
  if bare == 0 then return common and rate(1, 2) or (widest_ring(size, rate)) end
  local busy <const> = facts.switched and bare or packed_links(size, count)
  return math.min(busy * (link_rate(device)), active_rate(facts.nvlink_bytes_per_s, first, size))
end

--- Rates within a node by the size of the group, one direction, each GPU. Sizes at which the rate stays are left out, as a
--- cluster's `intra_bytes_per_s` has it.
---@param classes string[][] "X", "NV12", "PIX", "PXB", "PHB", "NODE", "SYS", "XGMI", "PCIE"
---@param device table? entry of the catalogue
---@param nvlink_bytes_per_s number|number[]|nil sum over a GPU's active links and one direction, of all or of each
---@param pcie_bytes_per_s number? of one GPU; else the device's
---@return table<integer, number>? bytes_per_s by size from 2 on; nil for one GPU, or if a rate it takes is not known
function matrix.rates(classes, device, nvlink_bytes_per_s, pcie_bytes_per_s)
  local facts <const> = { device = device, switched = is_switched(classes, device), nvlink_bytes_per_s = nvlink_bytes_per_s,
    pcie_bytes_per_s = pcie_bytes_per_s or device and figure(device.pcie_bytes_per_s) }
  local rates <const> = {}
  local before
  for size = 2, #classes do
    local least = math.huge
    for first = 1, #classes - size + 1, size do
      least = math.min(least, group_rate(classes, first, size, facts))
    end
    if least <= 0 then return nil end
    if least ~= before then rates[size] = least end
    before = least
  end
  return before and rates
end

--- Whether the matrix can't be all: it shows no NVLink between parts whose board always has it.
---@param classes string[][]
---@param device table? entry of the catalogue
---@return string? why
function matrix.doubt(classes, device)
  if not (device and tostring(device.link):find "NVLink" and not device.bridge) or #classes < 2 then return nil end
  for _, row in ipairs(classes) do
    for _, class in ipairs(row) do
      if links_of(class) > 0 then return nil end
    end
  end
  return ("no NVLink between GPUs of type %s, whose board has it: is this 'topo -mp', which hides it? run 'nvidia-smi topo -m'")
    :format(device.key or "?")
end

return matrix
