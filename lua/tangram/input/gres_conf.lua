--- Slurm's gres.conf: which device files of which nodes are GPUs, and their NVLink counts (Links=).
local grammar <const> = require "tangram.input.grammar"
local gres <const> = require "tangram.input.gres"
local hostlist <const> = require "tangram.input.hostlist"

local KEYS <const> = { nodename = true, name = true, type = true, file = true, count = true, cores = true, cpus = true, links = true,
  autodetect = true, flags = true, multiplefiles = true, uniqueid = true, ignore = true }
local MOST <const> = 1024 -- GPUs of a node; more is a slip
local MOST_ENTRIES <const> = 4 * hostlist.most -- of all lists of nodes together

local function fields_of(line)
  local fields <const> = {}
  for word in line:gmatch "%S+" do
    local key <const>, value <const> = word:match "^([%a_]+)=(.*)$"
    if not key or not KEYS[key:lower()] then
      return nil, ("got '%s', expected fields such as NodeName=, Name=gpu, Type=, File="):format(word:sub(1, 60))
    end
    fields[key:lower()] = value:match '^"(.*)"$' or value
  end
  return fields
end

--- Device files, as a list of nodes is written: /dev/nvidia[0-3],/dev/nvidia5.
local function file_count(text)
  local names <const>, why <const> = hostlist.expand((text:gsub("/", "_")), MOST)
  return names and #names, why
end

--- The number of GPUs of one line; nil, why.
local function count_of(fields)
  local count = fields.count and math.tointeger(tonumber(fields.count))
  if fields.count and (not count or count < 0 or count > MOST) then
    return nil, ("Count=%s, expected a whole number up to %d"):format(fields.count:sub(1, 20), MOST)
  end
  if not count and fields.file then
    local why
    count, why = file_count(fields.file)
    if not count then return nil, "File: " .. why end
  end
  return count or fields.autodetect and 0 or 1
end

--- One row of Links=: -1 for the GPU itself, else the number of NVLinks to each other one.
local function row_of(links)
  local row <const> = {}
  for word in links:gmatch "[^,]+" do
    local count <const> = math.tointeger(tonumber(word))
    if not count or count < -1 or count > 64 or #row >= MOST then
      return nil, ("Links=%s, expected numbers such as -1,2,2,4"):format(links:sub(1, 40))
    end
    row[#row + 1] = count
  end
  return row
end

--- The matrix of link classes if every GPU has its row and the rows agree. Pairs without NVLink: their class is not told.
local function matrix_of(node)
  local n <const> = #node.rows
  if n < 2 or n ~= node.total then return nil end
  local matrix <const> = {}
  for i, row in ipairs(node.rows) do
    matrix[i] = {}
    if #row ~= n or row[i] ~= -1 then return nil, "Links= has no -1 for the GPU itself, or another number of GPUs" end
    for j, count in ipairs(row) do
      if i ~= j and (count == -1 or count ~= node.rows[j][i]) then return nil, "Links= of two GPUs differ" end
      matrix[i][j] = i == j and "X" or count > 0 and "NV" .. count or "SYS"
    end
  end
  return matrix
end

local function add_line(node, fields, count)
  node.autodetect = node.autodetect or (fields.autodetect and count == 0)
  if count == 0 then return end
  if gres.is_slice(fields.type) or fields.multiplefiles then
    node.slices = node.slices + count
    return
  end
  local last <const> = node.gpus[#node.gpus]
  if last and last.name == fields.type then
    last.count = last.count + count
  else
    node.gpus[#node.gpus + 1] = { name = fields.type, count = count }
  end
  node.total = node.total + count
  if fields.links and count == 1 then
    local row <const>, why <const> = row_of(fields.links)
    if not row then return why end
    node.rows[#node.rows + 1] = row
  end
end

--- Reads one line into the nodes that it names; "" stands for the node the file lies on.
local function read_line(line, all)
  local fields <const>, wrong <const> = fields_of(line)
  if not fields then return wrong end
  local for_all_nodes <const> = not fields.name and not fields.nodename -- AutoDetect
  if for_all_nodes or fields.name and fields.name:lower() ~= "gpu" then return end
  local count <const>, why <const> = count_of(fields)
  if not count then return why end
  local names, bad = { "" }, nil
  if fields.nodename then names, bad = hostlist.expand(fields.nodename) end
  if not names then return "NodeName: " .. bad end
  all.entries = all.entries + #names
  if all.entries > MOST_ENTRIES then return "more nodes than a cluster has" end
  for _, name in ipairs(names) do
    local node <const> = all.nodes[name] or { gpus = {}, rows = {}, total = 0, slices = 0 }
    if not all.nodes[name] then
      all.nodes[name] = node
      all.order[#all.order + 1] = name
    end
    bad = add_line(node, fields, count)
    if bad then return bad end
    if node.total + node.slices > MOST then return ("more than %d GPUs of a node"):format(MOST) end
  end
end

local function node_of(name, one, warnings)
  local shown <const> = name == "" and "this node" or name
  local matrix <const>, why <const> = matrix_of(one)
  if why then warnings[#warnings + 1] = ("%s: %s; the links are not taken"):format(shown, why) end
  if matrix then
    for _, row in ipairs(matrix) do
      if table.concat(row, " "):find "SYS" then
        warnings[#warnings + 1] = ("%s: pairs without NVLink are taken as the slowest kind, SYS; nvidia-smi topo -m tells it"):format(shown)
        break
      end
    end
  end
  if one.autodetect and one.total == 0 then
    warnings[#warnings + 1] = ("%s: AutoDetect finds its GPUs, the file does not list them: scontrol show node does"):format(shown)
  end
  return { name = name ~= "" and name or nil, gpus = one.gpus, matrix = matrix,
    left_out = one.total == 0 and (one.slices > 0 and "MIG slices only, which can't form one job"
      or not one.autodetect and "no GPU") or nil }
end

local function read(text)
  local all <const> = { nodes = {}, order = {}, entries = 0 }
  for number, line in grammar.lines(text) do
    local why <const> = read_line(line:gsub("#.*", "") .. "", all)
    if why then grammar.refuse(number, "%s", why) end
  end
  if #all.order == 0 then
    grammar.refuse(nil, "no line lists GPUs as Name=gpu File=/dev/nvidia[0-3] does; 'scontrol show node' has what AutoDetect finds")
  end
  local facts <const> = { nodes = {}, warnings = {} }
  for i, name in ipairs(all.order) do facts.nodes[i] = node_of(name, all.nodes[name], facts.warnings) end
  return facts
end

return grammar.reader {
  kind = "gres-conf", summary = "Slurm's gres.conf", command = "cat /etc/slurm/gres.conf", limit_bytes = 1 << 20,
  sniff = function(text)
    local head <const> = ("\n" .. text):lower()
    if head:find "%f[%w]state=" or head:find "%f[%w]cputot=" then return 0 end
    if head:find "\n[^\n#]*%f[%w]name=gpu%f[^%w]" then return 0.9 end
    return head:find "\n[ \t]*autodetect=%a+" and 0.8 or 0
  end,
  read = read,
}
