--- Rates of PCIe by generation.
local links <const> = require "tangram.catalog.links"

local pcie <const> = {}

--- Bytes per second and lane, one direction. Generations 1 and 2 send 8 bits in 10; 6 sends 242 bytes in flits of 256.
local LANE <const> = { 0.25e9, 0.5e9, links.rates["pcie-3"].bytes_per_s / 16, links.rates["pcie-4"].bytes_per_s / 16,
  links.rates["pcie-5"].bytes_per_s / 16, 64e9 / 8 * 242 / 256 }
local GENERATION <const> = { ["2.5"] = 1, ["5"] = 2, ["8"] = 3, ["16"] = 4, ["32"] = 5, ["64"] = 6 }

--- Nil if one of the two is no number that PCIe has.
---@param generation number? from 1
---@param lanes number?
---@return number? bytes_per_s
function pcie.rate(generation, lanes)
  local lane <const> = LANE[generation]
  return lane and lanes and lanes >= 1 and lanes <= 32 and lane * lanes or nil
end

--- The generation of a speed as kernels print it: "16 GT/s", "16.0 GT/s PCIe".
---@param speed string
---@return integer?
function pcie.generation(speed)
  local number <const> = tonumber(speed:match "^%s*(%d+%.?%d*) GT/s")
  return number and GENERATION[("%g"):format(number)]
end

return pcie
