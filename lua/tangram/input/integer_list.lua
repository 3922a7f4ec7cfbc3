--- The Python expressions that Megatron takes for one number a layer: "([0]*3+[1]*58)", "[0,1]*12", "[1, 1, 0]".
--- Evaluated by a grammar of its own, never as code.
local lpeg <const> = require "lpeg"

local P <const>, R <const>, S <const>, V <const>, Cf <const>, Ct <const> = lpeg.P, lpeg.R, lpeg.S, lpeg.V, lpeg.Cf, lpeg.Ct

local longest <const> = 4096 -- characters of an expression and items of a list: past any model's layers

local function repeated(list, count)
  local result <const> = {}
  if #list * count > longest then error("too long", 0) end
  for i = 0, count - 1 do table.move(list, 1, #list, i * #list + 1, result) end
  return result
end

local function add(a, b)
  if math.type(a) and math.type(b) then return a + b end
  if math.type(a) or math.type(b) or #a + #b > longest then error("unlike", 0) end
  return table.move(b, 1, #b, #a + 1, table.move(a, 1, #a, 1, {}))
end

local function multiply(a, b)
  if math.type(a) and math.type(b) then return a * b end
  if math.type(a) then a, b = b, a end
  if not math.type(b) then error("unlike", 0) end
  return repeated(a, b)
end

local function token(pattern) return pattern * S " \t" ^ 0 end

local whole <const> = token(R "09" * R "09" ^ -5 * -R "09" / math.tointeger)
local grammar <const> = token(P "") * P {
  "sum",
  sum = Cf(V "product" * (token(P "+") * V "product") ^ 0, add),
  product = Cf(V "atom" * (token(P "*") * V "atom") ^ 0, multiply),
  atom = whole + token(P "[") * Ct((whole * (token(P ",") * whole) ^ 0 * token(P ",") ^ -1) ^ -1) * token(P "]")
    + token(P "(") * V "sum" * token(P ")"),
} * -1

--- The value of an expression, in quotes or not.
---@param text string
---@return integer|integer[]|nil value nil if it is no such expression, or longer than any model
return function(text)
  if #text > longest then return nil end
  local ok <const>, value <const> = pcall(grammar.match, grammar, (text:gsub("[\"']", "")))
  return ok and value or nil
end
