--- Ray's nodes: `ray.nodes()` as Python prints it, one list or a dict a line, or `ray list nodes --detail --format json`.
local grammar <const> = require "tangram.input.grammar"
local loose_json <const> = require "tangram.input.loose_json"

local refuse <const> = grammar.refuse
local COMMAND <const> = [[python3 -c 'import ray; ray.init(address="auto"); print(ray.nodes())']]
local MOST <const> = 1024 -- GPUs of a node; more is a slip

--- The records of the text, each with its line where it is known.
local function records_of(text)
  local whole <const> = loose_json(text)
  if type(whole) == "table" then
    local list <const> = whole.result or whole.data or whole
    return list[1] ~= nil and list or { list }
  end
  local records <const> = {}
  for number, line in grammar.lines(text) do
    if line:find "^%s*[%[{]" then
      local one <const>, why <const> = loose_json(line)
      if type(one) ~= "table" then refuse(number, "not a Python dict or JSON: %s", (tostring(why):gsub("%c", " "))) end
      if one[1] ~= nil then table.move(one, 1, #one, #records + 1, records) else records[#records + 1] = one end
    elseif line:find "%S" and not line:find "^%s*[>#]" then
      refuse(number, "got '%s', expected %s", grammar.quote(line), COMMAND)
    end
  end
  return records
end

local function node_of(record, i)
  local resources <const> = record.Resources or record.resources_total or {}
  local name <const> = record.NodeManagerHostname or record.node_name or record.NodeName or record.node_ip
  if type(record) ~= "table" or type(resources) ~= "table" or type(name) ~= "string" or name == "" then
    refuse(nil, "node %d: no NodeManagerHostname or Resources, expected %s", i, COMMAND)
  end
  local gpus <const> = resources.GPU or 0
  local count <const> = type(gpus) == "number" and math.tointeger(gpus)
  if not count or count < 0 or count > MOST then
    refuse(nil, "node %d '%s': GPU is %s, expected a whole number up to %d", i, grammar.quote(name), grammar.quote(tostring(gpus)), MOST)
  end
  local types <const> = {}
  for key in pairs(resources) do -- "accelerator_type:A100": 1.0 is one a node, not a GPU
    types[#types + 1] = type(key) == "string" and key:match "^accelerator_type:(.+)$" or nil
  end
  table.sort(types)
  if #types > 1 then refuse(nil, "node %d '%s': two accelerator types, expected one", i, grammar.quote(name)) end
  local dead <const> = record.Alive == false or record.alive == false or record.state == "DEAD"
  return { name = name, gpus = count > 0 and { { name = types[1], count = count } } or {},
    left_out = dead and "not alive" or count == 0 and "no GPU" or nil }
end

local function read(text)
  if text:find "Autoscaler status" or text:find "\n[ \t]*[%d.]+/[%d.]+ GPU" then
    refuse(nil, "'ray status' tells sums, not nodes; expected %s", COMMAND)
  end
  local facts <const>, seen <const> = { nodes = {}, warnings = {} }, {}
  for i, record in ipairs(records_of(text)) do
    if type(record) ~= "table" then refuse(nil, "node %d: not a dict, expected %s", i, COMMAND) end
    local node <const> = node_of(record, i)
    -- a node that came back stands in the list twice, once dead
    local before <const> = seen[node.name]
    if not before then
      seen[node.name] = #facts.nodes + 1
      facts.nodes[#facts.nodes + 1] = node
    elseif facts.nodes[before].left_out == "not alive" then
      facts.nodes[before] = node
    elseif node.left_out ~= "not alive" then
      refuse(nil, "node '%s' stands twice, expected each node once", grammar.quote(node.name))
    end
  end
  if #facts.nodes == 0 then refuse(nil, "no node, expected %s", COMMAND) end
  return facts
end

return grammar.reader {
  kind = "ray", summary = "Ray's nodes and resources", command = COMMAND, limit_bytes = 2 << 20,
  sniff = function(text)
    if text:find "Autoscaler status" then return 0.8 end
    return (text:find "[\"']NodeManagerHostname[\"']" or text:find '"resources_total"') and 0.9 or 0
  end,
  read = read,
}
