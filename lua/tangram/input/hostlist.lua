--- Slurm's lists of nodes: `gpu[001-003,7],x1`, also with several brackets in a name, `r[1-2]n[01-16]`.
local lpeg <const> = require "lpeg"
local grammar <const> = require "tangram.input.grammar"

local hostlist <const> = {}

--- Slurm's own limit for one list.
hostlist.most = 65536

local LONGEST <const>, LONGEST_LIST <const> = 255, 1 << 20 -- characters of a host's name, and of a list

local P <const>, R <const>, S <const>, C <const>, Cg <const>, Ct <const>, Cp <const> =
  lpeg.P, lpeg.R, lpeg.S, lpeg.C, lpeg.Cg, lpeg.Ct, lpeg.Cp

local digits <const> = C(R "09" ^ 1)
local range <const> = Ct(Cg(digits, "low") * (P "-" * Cg(digits, "high")) ^ -1)
local bracket <const> = Ct(P "[" * range * (P "," * range) ^ 0 * "]")
local plain <const> = C((R("az", "AZ", "09") + S "._-") ^ 1)
local item <const> = Ct((plain + bracket) ^ 1)
local LIST <const> = Ct(item * (P "," * item) ^ 0) * Cp()

--- The numbers of a bracket as text. Padded to the width of the range's low end, as Slurm does.
local function numbers_of(ranges, room)
  local numbers <const> = {}
  for _, one in ipairs(ranges) do
    local high <const> = one.high or one.low
    if #one.low > 15 or #high > 15 then return nil, ("the number %s is too long, expected at most 15 digits"):format(high) end
    local first <const>, last <const> = math.tointeger(tonumber(one.low)), math.tointeger(tonumber(high))
    if last < first then return nil, ("the range %s-%s runs down, expected the smaller number first"):format(one.low, high) end
    if last - first >= room - #numbers then return nil, ("more than %d names"):format(room) end
    local pattern <const> = "%0" .. #one.low .. "d"
    for i = first, last do numbers[#numbers + 1] = pattern:format(i) end
  end
  return numbers
end

--- All combinations of an item's parts, the last bracket fastest.
local function combinations(parts, room)
  local names = { "" }
  for _, part in ipairs(parts) do
    local endings, why = { part }, nil
    if type(part) == "table" then endings, why = numbers_of(part, room) end
    if not endings then return nil, why end
    if #names[1] + #endings[#endings] > LONGEST then return nil, ("a name longer than %d characters"):format(LONGEST) end
    if #names * #endings > room then return nil, ("more than %d names"):format(room) end
    local longer <const> = {}
    for _, name in ipairs(names) do
      for _, ending in ipairs(endings) do longer[#longer + 1] = name .. ending end
    end
    names = longer
  end
  return names
end

--- The names that a list stands for, in its order; a name that stands in it twice comes twice.
---@param text string
---@param room integer? how many names are taken at most; default and largest `hostlist.most`
---@return string[]? names
---@return string? why "'gpu[1-': …"
function hostlist.expand(text, room)
  room = math.min(room or hostlist.most, hostlist.most)
  if #text > LONGEST_LIST then return nil, ("a list of %d characters, expected at most %d"):format(#text, LONGEST_LIST) end
  local shown <const> = grammar.quote(text)
  local items <const>, stop <const> = LIST:match(text)
  if not items or stop <= #text then
    return nil, ("'%s': not a list of nodes from character %d on, expected e.g. gpu[001-003,7],x1"):format(shown, stop or 1)
  end
  local names <const> = {}
  for _, parts in ipairs(items) do
    local more <const>, why <const> = combinations(parts, room - #names)
    if not more then return nil, ("'%s': %s"):format(shown, why) end
    table.move(more, 1, #more, #names + 1, names)
  end
  return names
end

return hostlist
