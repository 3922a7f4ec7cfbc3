--- Which of a node's network cards carry a job's traffic, how fast, and where nodes' cards are unlike.
local units <const> = require "tangram.units"

local cards <const> = {}

--- Who makes a card, by what the driver calls it.
local MAKERS <const> = { { "^mlx", "NVIDIA" }, { "^bnxt_re", "Broadcom" }, { "^irdma", "Intel" }, { "^hfi1", "Cornelis" },
  { "^efa", "AWS" }, { "^rdmap", "AWS" }, { "^ionic", "AMD" } }

local function maker_of(name)
  for _, one in ipairs(MAKERS) do
    if name:find(one[1]) then return one[2] end
  end
end

local function is_near(nic)
  if not nic.affinity then return true end
  for _, class in pairs(nic.affinity) do
    if class ~= "SYS" then return true end
  end
  return false
end

local function total(rates)
  local sum = 0
  for _, rate in ipairs(rates) do sum = sum + rate end
  return sum
end

--- Sets a node's `cards` (rates by transport, fastest first), `card_names` (devices for launch scripts: not names of interfaces,
--- nor the numbers of a matrix without its legend) and `card_maker`. Cards that are down or near no GPU don't count.
---@param node table with nics
---@param notes table[] added to: { name of the node, text }
function cards.choose(node, notes)
  node.cards, node.card_names = {}, {}
  local used <const>, far <const>, down <const> = {}, {}, {}
  for _, nic in ipairs(node.nics or {}) do
    local list <const> = not is_near(nic) and far or nic.active == false and down or used
    list[#list + 1] = nic
  end
  for _, nic in ipairs(used) do
    local transport <const> = nic.transport or "unknown"
    if nic.bytes_per_s and nic.bytes_per_s > 0 then
      node.cards[transport] = node.cards[transport] or {}
      table.insert(node.cards[transport], nic.bytes_per_s)
    end
  end
  for _, rates in pairs(node.cards) do table.sort(rates, function(a, b) return a > b end) end
  for _, nic in ipairs(used) do
    local is_device <const> = not nic.name:find "^NIC%d+$" and not nic.name:find "^e[tn]"
    if is_device and not (node.cards.infiniband and nic.transport == "ethernet") then
      table.insert(node.card_names, nic.name)
      node.card_maker = node.card_maker or maker_of(nic.name)
    end
  end
  for _, one in ipairs { { far, "near no GPU" }, { down, "not active" } } do
    local names <const> = {}
    for i, nic in ipairs(one[1]) do names[i] = nic.name end
    if names[1] then notes[#notes + 1] = { node.name, ("%s not counted, %s"):format(table.concat(names, ", "), one[2]) } end
  end
  if node.cards.infiniband and node.cards.ethernet then
    notes[#notes + 1] = { node.name, ("InfiniBand (%s) and Ethernet (%s) are other transports; %s"):format(
      units.format_rate(total(node.cards.infiniband)), units.format_rate(total(node.cards.ethernet)),
      "InfiniBand counts, Ethernet only toward nodes without it") }
  end
end

--- Warns where nodes differ in their cards: NCCL may hang on another layout, and makers together are unproven.
---@param nodes table[] after `cards.choose`
---@param warnings string[] added to
function cards.compare(nodes, warnings)
  local first
  local said_layout, said_maker = false, false
  for _, node in ipairs(nodes) do
    if #node.card_names > 0 then
      first = first or node
      if not said_layout and table.concat(node.card_names, ",") ~= table.concat(first.card_names, ",") then
        said_layout = true
        warnings[#warnings + 1] = ("other network cards in %s (%s) and %s (%s): NCCL may hang unless NCCL_IB_HCA names them on each node")
          :format(first.name, table.concat(first.card_names, ", "), node.name, table.concat(node.card_names, ", "))
      end
      if not said_maker and node.card_maker and first.card_maker and node.card_maker ~= first.card_maker then
        said_maker = true
        warnings[#warnings + 1] = ("network cards of %s in %s and of %s in %s are unproven together: one card's rate is counted")
          :format(first.card_maker, first.name, node.card_maker, node.name)
      end
    end
  end
end

return cards
