--- Labels of Kubernetes nodes: `kubectl get nodes -o json|yaml`, `--show-labels`, or the bare list of a node's labels.
local core <const> = require "tangram.core"
local grammar <const> = require "tangram.input.grammar"
local yaml <const> = require "tangram.input.yaml"

local refuse <const> = grammar.refuse
local COMMAND <const> = "kubectl get nodes -o json"
local MOST <const> = 1024 -- GPUs of a node; more is a slip

local function text_of(value) return (type(value) == "string" or type(value) == "number") and tostring(value) or nil end
local function table_of(value) return type(value) == "table" and value or {} end

--- A whole number of a label or a resource, nil where there is none.
local function whole(value, where, most)
  if value == nil or value == core.null then return nil end
  local count <const> = math.tointeger(tonumber(value))
  if not count or count < 0 or count > most then
    refuse(nil, "%s: got '%s', expected a whole number up to %d", where, grammar.quote(tostring(value)), most)
  end
  return count
end

--- The first of some labels that is there.
local function first_of(labels, names)
  for _, name in ipairs(names) do
    local value <const> = text_of(labels[name])
    if value and value ~= "" then return value end
  end
end

--- Labels that name the GPU, the surest first; the last is a machine's type, which only --gpu-type turns into a GPU.
local PRODUCT <const> = { "nvidia.com/gpu.product", "gpu.nvidia.com/model", "cloud.google.com/gke-accelerator",
  "amd.com/gpu.product-name", "beta.amd.com/gpu.product-name", "node.kubernetes.io/instance-type", "beta.kubernetes.io/instance-type" }
local COUNT <const> = { "nvidia.com/gpu.count", "gpu.nvidia.com/count", "cloud.google.com/gke-accelerator-count" }
local ZONE <const> = { "topology.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/zone" }

--- Number of MIG slices by their own labels, where the strategy is "mixed".
local function slices_of(labels, where)
  local sum = 0
  for name, value in pairs(labels) do
    local is_slice <const> = type(name) == "string" and name:find "^nvidia%.com/mig%-[%w.+]+%.count$"
    if is_slice then sum = sum + (whole(value, where .. name, MOST) or 0) end
  end
  return sum
end

--- Number of whole GPUs: the label counts them even where they are shared; what the node offers is count times replicas then.
local function count_of(labels, offered, where)
  local labelled <const> = whole(first_of(labels, COUNT), where .. "gpu.count", MOST)
  if labelled then return labelled end
  local replicas <const> = math.max(1, whole(labels["nvidia.com/gpu.replicas"], where .. "gpu.replicas", MOST) or 1)
  local by_resource <const> = whole(offered["nvidia.com/gpu"] or offered["amd.com/gpu"], where .. "allocatable", MOST * MOST)
  return by_resource and by_resource // replicas
end

local function memory_of(labels, where)
  local mib <const> = whole(labels["nvidia.com/gpu.memory"], where .. "gpu.memory", 1 << 24)
  if mib and mib > 0 then return mib * grammar.MIB end
  local vram <const> = text_of(labels["amd.com/gpu.vram"])
  local amount <const> = vram and vram:match "^(%d+)Gi?$"
  return nil, amount and #amount < 6 and math.tointeger(tonumber(amount)) << 30 or nil
end

--- One node from its labels; offered: its allocatable resources; blocked: why nothing is scheduled on it.
local function node_of(name, labels, offered, blocked, warnings)
  local where <const> = name and ("node '%s': "):format(grammar.quote(name)) or ""
  local product = first_of(labels, PRODUCT)
  local count = count_of(labels, offered, where)
  local slices <const> = slices_of(labels, where)
  local left_out
  if product and (product:find "%-MIG%-" or product:lower():find "%d+g%.%d+gb") then
    left_out = "MIG slices only, which can't form one job"
  elseif slices > 0 then
    count = whole(offered["nvidia.com/gpu"], where .. "allocatable", MOST) or 0
    left_out = count == 0 and (next(offered) and "MIG slices, and no whole GPU that the node offers"
      or "MIG slices, and its labels do not count whole GPUs: 'kubectl get nodes -o json' does") or nil
    if not left_out then warnings[#warnings + 1] = ("%s%d MIG slices beside its whole GPUs are left out"):format(where, slices) end
  elseif not count or count == 0 then
    left_out = "no GPU"
  end
  product = product and product:gsub("%-SHARED$", "") or nil
  local memory_bytes <const>, nominal_bytes <const> = memory_of(labels, where)
  local run <const> = { name = product, count = count, memory_bytes = memory_bytes, nominal_bytes = nominal_bytes }
  return { name = name, gpus = left_out and {} or { run }, left_out = left_out or blocked,
    nvlink_domain = text_of(labels["nvidia.com/gpu.clique"]), groups = { first_of(labels, ZONE) } }
end

--- Why nothing runs on a node, by its spec and conditions.
local function blocked_by(item)
  if table_of(item.spec).unschedulable == true then return "cordoned (unschedulable)" end
  for _, condition in ipairs(table_of(table_of(item.status).conditions)) do
    local ready <const> = type(condition) == "table" and condition.type == "Ready"
    if ready and tostring(condition.status):lower() ~= "true" then return "not ready" end
  end
end

--- Facts of what -o json or yaml gives: a list of nodes, or one, or the bare labels of one.
local function read_value(value)
  if type(value) ~= "table" then refuse(nil, "no nodes, expected the output of '%s'", COMMAND) end
  local facts <const> = { nodes = {}, warnings = {} }
  local items = table_of(value.items)
  if value.items == nil then items = value[1] ~= nil and value or { value } end
  for i, item in ipairs(items) do
    if type(item) ~= "table" then refuse(nil, "item %d is no node, expected the output of '%s'", i, COMMAND) end
    if type(item.kind) == "string" and item.kind ~= "Node" and item.kind ~= "List" then
      refuse(nil, "item %d is a %s, expected nodes: '%s'", i, grammar.quote(item.kind), COMMAND)
    end
    local metadata <const> = table_of(item.metadata)
    local labels <const> = item.metadata ~= nil and table_of(metadata.labels) or item
    local offered <const> = table_of(table_of(item.status).allocatable)
    facts.nodes[i] = node_of(text_of(metadata.name), labels, offered, blocked_by(item), facts.warnings)
  end
  if #facts.nodes == 0 then refuse(nil, "no node in it, expected the output of '%s'", COMMAND) end
  return facts
end

--- The table of --show-labels: NAME STATUS ROLES AGE VERSION LABELS, the labels as key=value with commas.
local function read_table(text)
  local facts <const> = { nodes = {}, warnings = {} }
  local columns
  for number, line in grammar.lines(text) do
    local cells <const> = {}
    for cell in line:gmatch "%S+" do cells[#cells + 1] = cell end
    if not columns and cells[1] == "NAME" and cells[#cells] == "LABELS" then
      columns = #cells
    elseif columns and #cells > 0 then
      if #cells ~= columns then refuse(number, "%d columns, the heading has %d", #cells, columns) end
      local labels <const> = {}
      for label in cells[columns]:gmatch "[^,]+" do
        local name <const>, value <const> = label:match "^([^=]+)=(.*)$"
        if name then labels[name] = value
        elseif label ~= "<none>" then refuse(number, "label '%s', expected NAME=VALUE", grammar.quote(label)) end
      end
      local status <const> = cells[2] or ""
      local blocked <const> = status:find "SchedulingDisabled" and "cordoned (SchedulingDisabled)"
        or status:find "NotReady" and "not ready" or nil
      facts.nodes[#facts.nodes + 1] = node_of(cells[1], labels, {}, blocked, facts.warnings)
    end
  end
  if #facts.nodes == 0 then refuse(nil, "no node below the heading, expected 'kubectl get nodes --show-labels'") end
  return facts
end

local function is_table(text) return ("\n" .. text):find "\nNAME%s[^\n]*%sLABELS%s*\n" ~= nil end

local function check_names(facts)
  local seen <const> = {}
  for _, node in ipairs(facts.nodes) do
    if #facts.nodes > 1 and not node.name then refuse(nil, "a node without metadata.name, expected the output of '%s'", COMMAND) end
    if node.name and seen[node.name] then refuse(nil, "node '%s' stands twice, expected each node once", grammar.quote(node.name)) end
    if node.name then seen[node.name] = true end
  end
  return facts
end

local function read(text)
  if is_table(text) then return check_names(read_table(text)) end
  if text:find "^%s*[{%[]" then
    local value <const>, why <const> = core.json_decode(text)
    if value == nil then refuse(nil, "not JSON: %s", why) end
    return check_names(read_value(value))
  end
  local documents <const>, why <const> = yaml.read(text)
  if not documents then refuse(nil, "%s", why) end
  if #documents == 1 then return check_names(read_value(documents[1])) end
  return check_names(read_value(documents))
end

return grammar.reader {
  kind = "kubernetes", summary = "labels of Kubernetes nodes (JSON, YAML, --show-labels)", command = COMMAND, limit_bytes = 16 << 20,
  sniff = function(text)
    if is_table(text) then return 0.9 end
    local labels <const> = text:find("nvidia.com/gpu", 1, true) or text:find("amd.com/gpu", 1, true)
    if text:find "apiVersion" then return 0.8 end
    return labels and text:find "[\"%w]:%s" and 0.8 or 0
  end,
  read = read,
}
