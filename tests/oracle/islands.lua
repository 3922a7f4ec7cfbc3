--- The fewest islands by brute force over all set partitions, straight from the definition (DESIGN.md, section 3).
---
--- A problem: `{ nodes = { { name, machine, gpus, compute, memory, intra = { { size, rate } … } } … }, rate = matrix of
--- single-flow rates, tolerance = { compute, memory, intra } }`.
local oracle <const> = {}

local SLACK <const> = 1 + 1e-12

local function intra_at(node, size)
  local best = node.intra[1]
  for _, step in ipairs(node.intra) do
    if step[1] <= size and step[1] >= best[1] then best = step end
  end
  return best[2]
end

local function alike(a, b, tolerance)
  local function near(x, y, more) return x / y <= (1 + more) * SLACK and y / x <= (1 + more) * SLACK end
  if a.gpus ~= b.gpus or not near(a.compute, b.compute, tolerance[1]) or not near(a.memory, b.memory, tolerance[2]) then
    return false
  end
  for size = 1, a.gpus do
    if not near(intra_at(a, size), intra_at(b, size), tolerance[3]) then return false end
  end
  return true
end

--- Constraints 1 to 3 for the nodes whose bit is set.
function oracle.is_island(problem, mask)
  local nodes <const>, rate <const> = problem.nodes, problem.rate
  for i = 1, #nodes do
    for j = 1, #nodes do
      if i ~= j and mask >> (i - 1) & 1 == 1 and mask >> (j - 1) & 1 == 1 then
        if not alike(nodes[i], nodes[j], problem.tolerance) then return false end
        for k = 1, #nodes do
          if mask >> (k - 1) & 1 == 0 and nodes[k].machine ~= nodes[i].machine and rate[i][j] * SLACK < rate[i][k] then
            return false
          end
        end
      end
    end
  end
  return true
end

local function spread(problem, mask)
  local function ratio(figure)
    local low, high = math.huge, 0
    for i, node in ipairs(problem.nodes) do
      if mask >> (i - 1) & 1 == 1 then
        low, high = math.min(low, figure(node)), math.max(high, figure(node))
      end
    end
    return high / low - 1
  end
  local intra, gpus = 0, 0
  for i, node in ipairs(problem.nodes) do
    if mask >> (i - 1) & 1 == 1 then gpus = math.max(gpus, node.gpus) end
  end
  for size = 1, gpus do
    intra = math.max(intra, ratio(function(node) return intra_at(node, math.min(size, node.gpus)) end))
  end
  return ratio(function(node) return node.compute end) + ratio(function(node) return node.memory end) + intra
end

--- The partition as text that sorts as lists of sorted names do (names hold no control characters).
local function as_text(problem, masks)
  local islands <const> = {}
  for i, mask in ipairs(masks) do
    local names <const> = {}
    for j, node in ipairs(problem.nodes) do
      if mask >> (j - 1) & 1 == 1 then names[#names + 1] = node.name end
    end
    table.sort(names)
    islands[i] = table.concat(names, "\2") .. "\1"
  end
  table.sort(islands)
  return table.concat(islands)
end

--- How many islands, and all of them as sorted lists of names, sorted.
---@return integer count, string[][] islands
function oracle.fewest(problem)
  local count <const>, valid <const>, cost <const> = #problem.nodes, {}, {}
  for mask = 1, (1 << count) - 1 do
    valid[mask] = oracle.is_island(problem, mask)
    cost[mask] = valid[mask] and spread(problem, mask)
  end
  local best, best_cost, best_text
  local masks <const> = {}
  local function try()
    local total = 0
    for _, mask in ipairs(masks) do
      if not valid[mask] then return end
      total = total + cost[mask]
    end
    if best and (#masks > best or #masks == best and total > best_cost + 1e-9) then return end
    local text <const> = as_text(problem, masks)
    if not best or #masks < best or total < best_cost - 1e-9 or text < best_text then
      best, best_cost, best_text = #masks, total, text
    end
  end
  local function put(i)
    if i > count then return try() end
    for j = 1, #masks do
      masks[j] = masks[j] | 1 << (i - 1)
      put(i + 1)
      masks[j] = masks[j] & ~(1 << (i - 1))
    end
    masks[#masks + 1] = 1 << (i - 1)
    put(i + 1)
    masks[#masks] = nil
  end
  put(1)
  local islands <const> = {}
  for text in best_text:gmatch "([^\1]+)\1" do
    local names <const> = {}
    for name in text:gmatch "[^\2]+" do names[#names + 1] = name end
    islands[#islands + 1] = names
  end
  return best, islands
end

return oracle
