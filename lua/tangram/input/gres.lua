--- Slurm's generic resources, `gpu:a100:8(S:0-1),VramPerGpu:no_consume:80G`, and what they say about a node's GPUs.
local lpeg <const> = require "lpeg"
local grammar <const> = require "tangram.input.grammar"

local gres <const> = {}

local P <const>, R <const>, S <const>, C <const>, Cc <const>, Cg <const>, Ct <const>, Cp <const> =
  lpeg.P, lpeg.R, lpeg.S, lpeg.C, lpeg.Cc, lpeg.Cg, lpeg.Ct, lpeg.Cp

local function suffix(letter, factor) return S(letter .. letter:lower()) * Cc(factor) end

local last <const> = #S ",(" + P(-1)
local number <const> = R "09" ^ 1 / tonumber
  * (suffix("K", 1 << 10) + suffix("M", 1 << 20) + suffix("G", 1 << 30) + suffix("T", 1 << 40) + Cc(1)) * last
  / function(count, factor) return count * factor end
local word <const> = C((R("az", "AZ", "09") + S "._-/+") ^ 1)
local places <const> = P "(" * (1 - S "()") ^ 0 * P ")" -- sockets or indices, with commas: (S:0,2), (IDX:0-3)
local item <const> = Ct(Cg(word, "name")
  * (P ":no_consume" + P ":" * Cg(number, "count") + P ":" * Cg(word, "type")) ^ 0 * places ^ 0)
local LIST <const> = Ct(item * (P "," * item) ^ 0) * Cp()

local NONE <const> = { ["(null)"] = true, ["N/A"] = true, ["n/a"] = true, ["none"] = true, [""] = true }

local LONGEST <const> = 65536 -- characters

--- The items of a Gres field, each with name, type and count.
---@param text string
---@return table[]? items
---@return string? why
function gres.parse(text)
  if NONE[text] then return {} end
  local items, stop
  if #text < LONGEST then items, stop = LIST:match(text) end
  if not items or stop <= #text then
    return nil, ("Gres '%s': not understood from character %d on, expected e.g. gpu:a100:4(S:0-1)"):format(
      grammar.quote(text), stop or 1)
  end
  return items
end

--- Is a type the name of a MIG slice, as AutoDetect writes it: nvidia_a100_80gb_pcie_1g.10gb?
---@param name string?
function gres.is_slice(name) return name ~= nil and name:lower():find "%d+g%.%d+gb" ~= nil end

local MOST <const> = 1024 -- GPUs of a node; more is a slip

--- A node's GPUs by its Gres: whole ones of each type in order, the memory that a VRAM entry gives, and why none counts.
---@param text string
---@return table? result { gpus = { { name?, count, nominal_bytes? }… }, slices = n, left_out = nil | "why" }
---@return string? why
function gres.gpus(text)
  local items <const>, why <const> = gres.parse(text)
  if not items then return nil, why end
  local result <const>, vram_bytes = { gpus = {}, slices = 0 }, nil
  for _, one in ipairs(items) do
    if one.name == "gpu" then
      local count <const> = one.count or 1
      if count > MOST then return nil, ("Gres '%s': %.0f GPUs in a node, expected at most %d"):format(grammar.quote(text), count, MOST) end
      if gres.is_slice(one.type) then
        result.slices = result.slices + count
      elseif count > 0 then
        result.gpus[#result.gpus + 1] = { name = one.type, count = math.tointeger(count) }
      end
    elseif one.name:lower():find "^vram" and one.count and one.count > 1 << 30 then
      vram_bytes = one.count
    end
  end
  for _, one in ipairs(result.gpus) do one.nominal_bytes = vram_bytes end
  if #result.gpus == 0 then
    result.left_out = result.slices > 0 and "MIG slices only, which can't form one job" or "no GPU"
  end
  return result
end

return gres
