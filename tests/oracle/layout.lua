--- Megatron's pipeline layout strings, parsed from the grammar alone: `|` between segments, `,` nowhere counts, a segment is
--- of units E, t, m, L, each or a text in parentheses times a number; segment i is chunk i // PP of rank i % PP.
local layout <const> = {}

--- The string without parentheses: each (text)*n written out n times. Nested ones are refused.
local function expanded(text)
  local out, at = {}, 1
  while at <= #text do
    local c <const> = text:sub(at, at)
    if c == "(" then
      local inner <const>, count <const>, behind <const> = text:match("^%(([^()]*)%)%*(%d+)()", at)
      if not inner then return nil, "parentheses need a number behind them and don't nest" end
      out[#out + 1] = inner:rep(tonumber(count))
      at = behind
    elseif c == ")" then
      return nil, "')' without '('"
    else
      out[#out + 1], at = c, at + 1
    end
  end
  return table.concat(out)
end

--- The units of a segment, each counted out.
local function units_of(segment)
  local units, at = {}, 1
  while at <= #segment do
    local unit <const>, star <const>, behind <const> = segment:match("^([EtmL])%*?(%d*)()", at)
    if not unit then return nil, ("'%s' is no unit"):format(segment:sub(at, at)) end
    local has_star <const> = segment:sub(at + 1, at + 1) == "*"
    if has_star ~= (star ~= "") then return nil, "a number needs '*' before it" end
    for _ = 1, has_star and tonumber(star) or 1 do units[#units + 1] = unit end
    at = behind
  end
  return units
end

local function count(units, wanted)
  local n = 0
  for _, unit in ipairs(units) do n = n + (unit == wanted and 1 or 0) end
  return n
end

local function check_order(all, layers, mtp)
  if all[1] ~= "E" or count(all, "E") ~= 1 then return "E must be first, once" end
  if all[#all] ~= "L" or count(all, "L") ~= 1 then return "L must be last, once" end
  if count(all, "t") ~= layers then return ("%d layers, not %d"):format(count(all, "t"), layers) end
  if count(all, "m") ~= mtp then return ("%d multi-token layers, not %d"):format(count(all, "m"), mtp) end
  local seen_m = false
  for _, unit in ipairs(all) do
    seen_m = seen_m or unit == "m"
    if seen_m and unit == "t" then return "t behind m" end
  end
end

local function check_mtp(segments, pp)
  local holder
  for i, units in ipairs(segments) do
    if count(units, "m") > 0 then
      if holder then return "m in two segments" end
      holder = i - 1
    end
  end
  if holder and (holder // pp ~= #segments // pp - 1 or holder % pp == 0) then return "m not in the last chunk behind rank 0" end
end

--- The layout as the runtime takes it: { vpp, ranks = { [rank + 1] = { [chunk + 1] = units } }, empty = a segment holds
--- nothing }, or nil and why it refuses it.
---@param text string
---@param pp integer
---@param layers integer
---@param mtp integer?
function layout.parse(text, pp, layers, mtp)
  if text:find "%s" then return nil, "spaces" end
  local flat <const>, why <const> = expanded((text:gsub(",", "")))
  if not flat then return nil, why end
  local segments <const>, all <const>, result <const> = {}, {}, { ranks = {}, empty = false }
  for segment in (flat .. "|"):gmatch "(.-)|" do
    local units <const>, wrong <const> = units_of(segment)
    if not units then return nil, wrong end
    segments[#segments + 1] = units
    result.empty = result.empty or #units == 0
    table.move(units, 1, #units, #all + 1, all)
  end
  if #segments % pp ~= 0 then return nil, ("%d segments for %d ranks"):format(#segments, pp) end
  local wrong <const> = check_order(all, layers, mtp or 0) or check_mtp(segments, pp)
  if wrong then return nil, wrong end
  result.vpp = #segments // pp
  for i, units in ipairs(segments) do
    local rank <const> = (i - 1) % pp + 1
    result.ranks[rank] = result.ranks[rank] or {}
    result.ranks[rank][(i - 1) // pp + 1] = units
  end
  return result
end

return layout
