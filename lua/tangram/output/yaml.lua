--- Plain tables as YAML: block mappings, lists in one line unless they hold tables, text quoted where YAML would read it as
--- something else.
local yaml <const> = {}

local function quoted(value) return '"' .. value:gsub('[\\"]', "\\%0"):gsub("\n", "\\n") .. '"' end

--- What YAML 1.1 takes for something other than text.
local words <const> = { y = true, n = true, yes = true, no = true, on = true, off = true, ["true"] = true, ["false"] = true, null = true }

local function scalar(value)
  if math.type(value) == "float" then
    return (("%.14g"):format(value):gsub("^(-?%d+)e", "%1.0e")) -- "1e-05" would be text
  elseif type(value) ~= "string" then
    return tostring(value)
  end
  local plain <const> = value:find "^[%a_/$][%w_./${} -]*$" or value:find "^%./[%w_./-]*$"
  return plain and not value:find "%s$" and not words[value:lower()] and value or quoted(value)
end

local function is_list(value) return value[1] ~= nil or next(value) == nil end

local function flow(list)
  local items <const> = {}
  for i, value in ipairs(list) do
    items[i] = type(value) == "table" and flow(value) or type(value) == "string" and quoted(value) or scalar(value)
  end
  return "[" .. table.concat(items, ", ") .. "]"
end

local function flat(list)
  for _, value in ipairs(list) do
    if type(value) == "table" then return false end
  end
  return true
end

--- Keys in the order of rank, others by letters behind them.
local function keys_of(map, rank)
  local keys <const> = {}
  for key in pairs(map) do keys[#keys + 1] = key end
  table.sort(keys, function(a, b)
    local x <const>, y <const> = rank[a] or math.huge, rank[b] or math.huge
    if x ~= y then return x < y end
    return a < b
  end)
  return keys
end

local function block(map, rank, indent, out)
  for _, key in ipairs(keys_of(map, rank)) do
    local value <const> = map[key]
    local lead <const> = ("%s%s:"):format(indent, scalar(key))
    if type(value) ~= "table" then
      out[#out + 1] = ("%s %s\n"):format(lead, scalar(value))
    elseif is_list(value) and flat(value) then
      out[#out + 1] = ("%s %s\n"):format(lead, flow(value))
    elseif is_list(value) then
      out[#out + 1] = lead .. "\n"
      for _, item in ipairs(value) do
        local one <const> = type(item) ~= "table" and scalar(item) or is_list(item) and flow(item)
          or ("%s: %s"):format(scalar(next(item)), scalar(select(2, next(item)))) -- { train = "plan" }
        out[#out + 1] = ("%s  - %s\n"):format(indent, one)
      end
    else
      out[#out + 1] = lead .. "\n"
      block(value, rank, indent .. "  ", out)
    end
  end
end

--- The text of a table of tables, lists and scalars.
---@param map table
---@param order string[] keys that come first, in this order, wherever they stand
---@return string
function yaml.encode(map, order)
  local rank <const>, out <const> = {}, {}
  for i, key in ipairs(order) do rank[key] = i end
  block(map, rank, "", out)
  return table.concat(out)
end

return yaml
