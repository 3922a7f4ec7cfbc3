--- Tables by strategy, found by its fields one after the other: a key in text would take longer to make than a stage to price.
local fields <const> = { "dp", "tp", "cp", "ep", "etp", "zero", "fsep", "sp", "offload" }

--- The table of a strategy in a tree, made where it is missing. How many layers are recomputed in full makes no difference, whether
--- attention's core is does.
---@param tree table
---@param strategy table with every field
---@return table
return function(tree, strategy)
  local node = tree
  for i = 1, #fields + 1 do
    local value = strategy.recompute == "selective"
    if fields[i] then value = strategy[fields[i]] end
    local below = node[value]
    if not below then
      below = {}
      node[value] = below
    end
    node = below
  end
  return node
end
