--- Sentences about why nodes are apart, with the figures that the engine found.
local units <const> = require "tangram.units"

local apart <const> = {}

local function plain(x) return ("%d"):format(x) end

local TRAITS <const> = {
  gpus = { words = "GPUs a node", format = plain },
  compute_flops = { words = "compute", format = units.format_flops },
  memory_bytes = { words = "memory", format = units.format_bytes },
  intra_bytes_per_s = { words = "intra-node rate", format = units.format_rate },
}

--- "compute 312 TFLOP/s against 65.0 TFLOP/s"
local function contrast(pair)
  local trait <const> = TRAITS[pair.trait]
  return ("%s %s against %s%s"):format(trait.words, trait.format(pair.figures[1]), trait.format(pair.figures[2]),
    pair.size and pair.size > 1 and (" in groups of %d"):format(pair.size) or "")
end

local function links(pair)
  return ("%s has %s to %s, but %s to %s"):format(pair.from, units.format_rate(pair.link_bytes_per_s[1]), pair.to,
    units.format_rate(pair.link_bytes_per_s[2]), pair.faster)
end

--- Why two nodes are in different islands.
---@param pair table as Cluster:why gives it
---@return string
function apart.pair(pair)
  if pair.constraint == 3 then
    return ("%s, which would have to join and can't: %s"):format(links(pair), pair.trait == "pinned"
      and "it is in a pinned island" or ("%s against %s, %s"):format(pair.faster, pair.partner, contrast(pair)))
  elseif pair.constraint then
    return contrast(pair)
  elseif pair.trait == "pinned" then
    return "could share an island, but one of them is pinned"
  elseif pair.third then
    return ("could share an island, but not in this partition: %s can't join them"):format(pair.third)
  end
  return "could share an island; the search for larger islands was not complete"
end

--- What a pinned island breaks.
---@param broken table an item of pin_warnings
---@return string
function apart.pin(broken)
  return ("%s and %s break constraint %d: %s"):format(broken.nodes[1], broken.nodes[2], broken.constraint,
    broken.constraint == 3 and links(broken) .. " outside" or contrast(broken))
end

return apart
