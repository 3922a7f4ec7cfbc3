--- JSON as people paste it: a Python dict (single quotes, True, False, None, a comma at the end), NaN and Infinity.
local core <const> = require "tangram.core"
local lpeg <const> = require "lpeg"

local P <const>, S <const>, R <const>, C <const>, Cc <const>, Cs <const> =
  lpeg.P, lpeg.S, lpeg.R, lpeg.C, lpeg.Cc, lpeg.Cs

local function word(from, to) return P(from) * -R("az", "AZ", "09", "__") * Cc(to) end

local in_single <const> = P "\\'" / "'" + P '"' / '\\"' + P "\\" * 1 + (1 - P "'")
-- Left open, a string takes the rest, so that no text is scanned twice.
local text <const> = P '"' * (P "\\" * 1 + (1 - P '"')) ^ 0 * (P '"' + -P(1))
  + P "'" / '"' * in_single ^ 0 * (P "'" / '"' + -P(1))
local python_word <const> = word("True", "true") + word("False", "false") + word("None", "null")
  + C(P "torch." * R("az", "09") ^ 1) / '"%1"'
-- Not finite is kept as text, so that a key that must be a number is refused and any other does no harm.
local not_finite <const> = word("NaN", '"NaN"') + word("Infinity", '"Infinity"') + word("-Infinity", '"-Infinity"')
local trailing_comma <const> = P "," * #(S " \t\r\n" ^ 0 * S "}]") / ""
local name <const> = R("az", "AZ", "__") * R("az", "AZ", "09", "__") ^ 0

local function rewrite(word_pattern)
  return Cs((text + word_pattern / 1 + trailing_comma + name + 1) ^ 0)
end
local finite <const>, python <const> = rewrite(not_finite), rewrite(not_finite + python_word)

--- Reads JSON, or what comes near it: then the second result says how it was read.
---@param source string
---@return any value nil if it is not JSON either way
---@return string? note, or why: "line:column: …"
return function(source)
  source = source:gsub("^\xEF\xBB\xBF", "")
  local value <const>, why <const> = core.json_decode(source)
  if value ~= nil then return value end
  local loose = core.json_decode(finite:match(source))
  if loose ~= nil then return loose, "NaN or Infinity stands in it, which is not JSON; read as text" end
  loose = core.json_decode(python:match(source))
  if loose ~= nil then return loose, "it is a Python dict (True, None or single quotes), not JSON; read as that" end
  return nil, why
end
