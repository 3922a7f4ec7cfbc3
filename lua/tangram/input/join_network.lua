--- The rates between nodes, from what the user says, what nccl-tests measured, NVLink domains and network cards.
local cards <const> = require "tangram.input.join_cards"
local rates <const> = require "tangram.rates"
local sorted_keys <const> = require "tangram.sorted_keys"
local units <const> = require "tangram.units"

local network <const> = {}

local NOMINAL <const> = "network cards, nominal"

--- What so many of the fastest cards carry.
local function sum_of(rates_of_cards, count)
  local sum = 0
  for i = 1, math.min(count, #rates_of_cards) do sum = sum + rates_of_cards[i] end
  return sum
end

--- Steps between two nodes by their cards: k flows use the k fastest cards, the slower end counts. Nil: no transport in common.
local function steps_of_cards(a, b)
  for _, transport in ipairs { "infiniband", "ethernet", "unknown" } do
    local mine <const>, yours <const> = a.cards[transport], b.cards[transport]
    if mine and yours then
      local steps <const> = {}
      -- cards of two makers are unproven together: no more is counted than one card carries
      local unlike <const> = a.card_maker and b.card_maker and a.card_maker ~= b.card_maker
      local flows <const> = unlike and 1 or math.min(a.gpu_count, b.gpu_count)
      local k = 1
      while k <= flows do
        local rate <const> = math.min(sum_of(mine, k), sum_of(yours, k))
        if #steps == 0 or rate > steps[#steps][2] then steps[#steps + 1] = { k, rate } end
        k = k < flows and math.min(2 * k, flows) or k + 1
      end
      return steps
    end
  end
end

--- The switch that a node hangs on, and the one above.
local function switches_of(sources, one_name)
  local leaf_of <const>, above <const> = {}, {}
  local kind
  for _, source in ipairs(sources) do
    local switches <const> = source.facts.switches
    if switches then
      kind = switches.kind
      for _, leaf in ipairs(switches.leaves) do
        for _, name in ipairs(leaf.nodes) do leaf_of[one_name[name] or name] = leaf.switch end
      end
      for switch, parent in pairs(switches.parents or {}) do above[switch] = parent end
    end
  end
  return { kind = kind, leaf_of = leaf_of, above = above }
end

--- What --bytes-per-s says: RATE for all, leaf=RATE, spine=RATE, block=RATE, NODE,NODE=RATE; NODE=RATE and inside=RATE are
--- rates within a node and not looked at here.
---@param words string[]
---@return table? told { all, leaf, spine, block, pairs = { { a, b, steps } }, inside = steps, within = { [node] = steps },
---  places = names of nodes in them }
---@return string? why
function network.read_options(words)
  local told <const> = { pairs = {}, within = {}, places = {} }
  for _, word in ipairs(words) do
    local where <const>, value <const> = word:match "^([^=]+)=(.+)$"
    local steps, expected
    if (value or word):find "^%s*{" then
      local table_of <const> = require("tangram.core").json_decode(value or word)
      steps, expected = rates.to_steps(table_of or "?")
    else
      steps, expected = rates.to_steps(tonumber(value or word) or value or word)
    end
    if not steps then return nil, ("--bytes-per-s: got '%s', expected %s"):format(word, expected) end
    local a <const>, b <const> = (where or ""):match "^([^,]+),([^,]+)$"
    if not where then told.all = steps
    elseif a then
      table.insert(told.pairs, { a, b, steps })
      table.move({ a, b }, 1, 2, #told.places + 1, told.places)
    elseif where == "leaf" or where == "spine" or where == "block" or where == "inside" then told[where] = steps
    else
      told.within[where] = steps
      told.places[#told.places + 1] = where
    end
  end
  return told
end

--- The nodes in groups of equals: rates between two groups are the same for all their members. Returns the groups in order.
local function groups_of(nodes, switches, named)
  local groups <const>, by_key <const> = {}, {}
  for _, node in ipairs(nodes) do
    local words <const> = { tostring(node.gpu_count), tostring(switches.leaf_of[node.name]), tostring(node.nvlink_domain),
      tostring(node.domain_bytes_per_s),
      named[node.name] and node.name or "", node.card_maker or "" }
    for _, transport in ipairs { "infiniband", "ethernet", "unknown" } do
      for _, rate in ipairs(node.cards[transport] or {}) do words[#words + 1] = transport .. rate end
    end
    local key <const> = table.concat(words, "|")
    if not by_key[key] then
      by_key[key] = { first = node, members = {} }
      groups[#groups + 1] = by_key[key]
    end
    table.insert(by_key[key].members, node.name)
  end
  return groups
end

--- NVLink past the node, GPU to GPU at the link's full rate: k flows carry k times as much.
local function steps_of_domain(a, b)
  local steps <const>, flows <const> = {}, math.min(a.gpu_count, b.gpu_count)
  local k = 1
  while k <= flows do
    steps[#steps + 1] = { k, k * a.domain_bytes_per_s }
    k = k < flows and math.min(2 * k, flows) or k + 1
  end
  return steps
end

--- Steps that runs between the two nodes gave, or, where nothing else is known, runs between others. A tree or a switch that adds
--- up may show more than the cards carry: they bound it. Fewer flows than measured: as the cards have it, at most as measured.
local function steps_measured(a, b, measured, by_cards)
  local at <const>, sizes <const> = {}, {}
  local path, elsewhere
  for _, run in ipairs(measured.between) do
    local here <const> = not run.hosts or run.hosts[a.name] and run.hosts[b.name]
    if here or not by_cards then
      if not at[run.flows] then sizes[#sizes + 1] = run.flows end
      at[run.flows], path = run.bytes_per_s, run.path
      elsewhere = elsewhere or not here
    end
  end
  if #sizes == 0 then return nil end
  table.sort(sizes)
  local steps <const> = {}
  for _, step in ipairs(by_cards or {}) do
    if step[1] < sizes[1] then steps[#steps + 1] = { step[1], math.min(step[2], at[sizes[1]]) } end
  end
  for _, size in ipairs(sizes) do
    local most = by_cards and by_cards[1][2] or math.huge
    for _, step in ipairs(by_cards or {}) do
      if step[1] <= size then most = step[2] end
    end
    steps[#steps + 1] = { size, math.min(at[size], most) }
  end
  return steps, elsewhere and path .. ", measured between other nodes" or path
end

--- Steps between two nodes and where they come from; nil if nothing tells.
local function steps_between(a, b, told, switches, measured)
  for _, pair in ipairs(told.pairs) do
    if pair[1] == a.name and pair[2] == b.name or pair[1] == b.name and pair[2] == a.name then return pair[3], "--bytes-per-s" end
  end
  local mine <const>, yours <const> = switches.leaf_of[a.name], switches.leaf_of[b.name]
  if mine and yours then
    if mine == yours and switches.kind == "block" and told.block then return told.block, "--bytes-per-s block" end
    if mine == yours and switches.kind ~= "block" and told.leaf then return told.leaf, "--bytes-per-s leaf" end
    if mine ~= yours and told.spine and switches.above[mine] and switches.above[mine] == switches.above[yours] then
      return told.spine, "--bytes-per-s spine"
    end
  end
  local one_domain <const> = a.nvlink_domain and a.nvlink_domain == b.nvlink_domain or switches.kind == "block" and mine and mine == yours
  if one_domain and a.domain_bytes_per_s and a.domain_bytes_per_s == b.domain_bytes_per_s then
    return steps_of_domain(a, b), "NVLink past the node"
  end
  if told.all then return told.all, "--bytes-per-s" end
  local by_cards <const> = steps_of_cards(a, b)
  local by_run <const>, path <const> = steps_measured(a, b, measured, by_cards)
  if by_run then return by_run, path end
  return by_cards, NOMINAL
end

local function key_of(steps)
  local words <const> = {}
  for i, step in ipairs(steps) do words[i] = ("%d:%.17g"):format(step[1], step[2]) end
  return table.concat(words, " ")
end

--- One line for each source of rates that is not the user's own word.
local function say_sources(found, warnings)
  local said <const> = {}
  for _, one in ipairs(found) do
    if not said[one.from] and not one.from:find "^%-%-" then
      said[one.from] = true
      warnings[#warnings + 1] = ("rate between nodes %s: by %s%s"):format(units.format_rate(one.steps[#one.steps][2]), one.from,
        one.from == NOMINAL and "; training reaches less: give nccl-tests, or plan with --set cost.options.network=nominal" or "")
    end
  end
end

--- A link as a cluster file has it, its source without folders.
local function wire_of(one, between)
  return { between = between, bytes_per_s = rates.from_steps(one.steps), source = one.from:match "[^/]+$" }
end

local function transports(node)
  local names <const> = sorted_keys(node.cards)
  return names[1] and " (" .. table.concat(names, ", ") .. ")" or ""
end

--- The network of a cluster: the rate that most pairs have as the default, the others as links.
---@param nodes table[] planned ones: name, gpu_count, cards, card_names, nvlink_domain, domain_bytes_per_s
---@param sources table[] with facts.switches
---@param one_name table<string, string>
---@param told table of `network.read_options`
---@param measured table of `join_measured`
---@param warnings string[] added to
---@return table? network of tangram.cluster/1; nil for one node
---@return string? why
function network.of(nodes, sources, one_name, told, measured, warnings)
  if #nodes < 2 then return nil end
  local switches <const> = switches_of(sources, one_name)
  local named <const> = {}
  for _, run in ipairs(measured.between) do
    for name in pairs(run.hosts or {}) do named[name] = true end
  end
  for _, pair in ipairs(told.pairs) do
    pair[1], pair[2] = one_name[pair[1]] or pair[1], one_name[pair[2]] or pair[2]
    named[pair[1]], named[pair[2]] = true, true
  end
  if switches.kind and switches.kind ~= "flat" and not (told.leaf or told.spine or told.block) then
    warnings[#warnings + 1] = ("the topology tells no rates, and changes none without --bytes-per-s %s=RATE"):format(
      switches.kind == "block" and "block" or "leaf")
  end
  cards.compare(nodes, warnings)
  local groups <const> = groups_of(nodes, switches, named)
  local found <const>, count_of <const>, common = {}, {}, nil
  for i, a in ipairs(groups) do
    for j = i, #groups do
      local b <const> = groups[j]
      local count <const> = i == j and #a.members * (#a.members - 1) // 2 or #a.members * #b.members
      if count > 0 then
        local steps <const>, from <const> = steps_between(a.first, b.first, told, switches, measured)
        if not steps then
          return nil, ("no rate between %s%s and %s%s, expected --bytes-per-s '25 GB/s' (or a link's name, ib-hdr), %s"):format(
            a.members[1], transports(a.first), i == j and b.members[2] or b.members[1], transports(b.first),
            "ibstat of both nodes, or nccl-tests between them" .. (measured.unused and "; " .. measured.unused or ""))
        end
        local key <const> = key_of(steps)
        found[#found + 1] = { a = a, b = b, steps = steps, key = key, from = from }
        count_of[key] = (count_of[key] or 0) + count
        if not common or count_of[key] > count_of[common.key] then common = found[#found] end
      end
    end
  end
  local links <const> = {}
  for _, one in ipairs(found) do
    for x, a in ipairs(one.key ~= common.key and one.a.members or {}) do
      for y, b in ipairs(one.b.members) do
        if one.a ~= one.b or x < y then links[#links + 1] = wire_of(one, { a, b }) end
      end
    end
  end
  say_sources(found, warnings)
  return { default = wire_of(common), links = links[1] and links or nil }
end

return network
