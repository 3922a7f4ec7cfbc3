--- `scontrol show node`, with records over several lines or one line each (-o).
local grammar <const> = require "tangram.input.grammar"
local gres <const> = require "tangram.input.gres"
local unusable <const> = require "tangram.input.slurm_state"

local refuse <const> = grammar.refuse
local COMMAND <const> = "scontrol show node"

--- Keys that scontrol prints. A value runs to the next of them: OS, Reason, Comment and Extra hold spaces and "=".
local KEYS <const> = {}
for key in ([[NodeName Arch CoresPerSocket CPUAlloc CPUEfctv CPUTot CPULoad AvailableFeatures ActiveFeatures Gres GresDrain
  GresUsed NodeAddr NodeHostName Port Version OS RealMemory AllocMem FreeMem Sockets Boards CoreSpecCount CPUSpecList MemSpecLimit
  SocketsPerBoard State ThreadsPerCore TmpDisk Weight Owner MCS_label Partitions BootTime SlurmdStartTime LastBusyTime ResumeAfterTime
  CfgTRES AllocTRES CapWatts CurrentWatts AveWatts LowestJoules ConsumedJoules ExtSensorsJoules ExtSensorsWatts ExtSensorsTemp
  ExtSensorsWatts Reason Comment Extra InstanceId InstanceType NextState Features CertFlags Topology GresLayout]]):gmatch "%S+" do
  KEYS[key] = true
end

--- Values of any words. Where a record has several lines, they end one.
local FREE <const> = { OS = true, Reason = true, Comment = true, Extra = true }

--- Adds the fields of one line to a record; what stands first holds, so that a comment's "State=" changes nothing.
local function read_fields(line, record)
  local key, value_from
  local is_part <const> = line:find "^%s" ~= nil
  line = " " .. line -- a key stands behind a blank, the first one too
  for at, word, stop in line:gmatch "()%s([%w_]+)=()" do
    if KEYS[word] and not (is_part and FREE[key]) then
      if key and not record[key] then record[key] = grammar.trim(line:sub(value_from, at - 1)) end
      key, value_from = word, stop
    end
  end
  if key and not record[key] then record[key] = grammar.trim(line:sub(value_from)) end
end

--- GPUs by type from CfgTRES, where Gres has only their number: gres/gpu is the sum of the typed entries.
local function typed_by_tres(tres, total)
  local gpus <const>, sum = {}, 0
  for name, count in tres:gmatch "gres/gpu:([^=,]+)=(%d+)" do
    gpus[#gpus + 1] = { name = name, count = math.tointeger(tonumber(count)) or 0 }
    sum = sum + gpus[#gpus].count
    if gpus[#gpus].count < 1 or gres.is_slice(name) then return nil end
  end
  return sum == total and gpus or nil
end

local function node_of(record, warnings)
  local found <const>, why <const> = gres.gpus(record.Gres or "")
  if not found then refuse(record.line, "%s: %s", record.NodeName, why) end
  local gpus = found.gpus
  if #gpus == 1 and not gpus[1].name and record.CfgTRES then gpus = typed_by_tres(record.CfgTRES, gpus[1].count) or gpus end
  if found.slices > 0 and #gpus > 0 then
    warnings[#warnings + 1] = ("line %d: %s: %d MIG slices beside its whole GPUs are left out"):format(
      record.line, record.NodeName, found.slices)
  end
  if not record.State then
    warnings[#warnings + 1] = ("line %d: %s: no State given, taken as usable"):format(record.line, record.NodeName)
  end
  return { name = record.NodeName, gpus = gpus, left_out = found.left_out or record.State and unusable(record.State) }
end

--- The records of the text, each with its line.
local function records_of(text)
  local records <const> = {}
  for number, line in grammar.lines(text) do
    local record = records[#records]
    if line:find "^%s*NodeName=%S" then
      record = { line = number }
      records[#records + 1] = record
      read_fields(line, record)
      record.NodeName = line:match "NodeName=(%S+)"
    elseif record and line:find "%S" then
      if not KEYS[line:match "^%s*([%w_]+)="] then
        refuse(number, "got '%s', expected a field such as State= or the next NodeName=, as '%s' prints them", grammar.quote(line), COMMAND)
      end
      read_fields(line, record)
    end
  end
  return records
end

local function read(text)
  local records <const> = records_of(text)
  if #records == 0 then refuse(nil, "no NodeName= at the start of a line, expected the output of '%s'", COMMAND) end
  local facts <const>, line_of <const> = { nodes = {}, warnings = {} }, {}
  for i, record in ipairs(records) do
    if record.NodeName:find "[%[,]" then
      refuse(record.line, "'%s' is a list of nodes, as in slurm.conf, expected the output of '%s'", grammar.quote(record.NodeName), COMMAND)
    end
    local before <const> = line_of[record.NodeName]
    if before then refuse(record.line, "node '%s' stands on line %d too, expected each node once", record.NodeName, before) end
    line_of[record.NodeName] = record.line
    facts.nodes[i] = node_of(record, facts.warnings)
  end
  return facts
end

return grammar.reader {
  kind = "slurm-nodes", summary = "Slurm's nodes with their GPUs and states", command = COMMAND, limit_bytes = 4 << 20,
  sniff = function(text)
    local head <const> = "\n" .. text
    if not head:find "\n[ \t]*NodeName=%S" then return 0 end
    return (head:find "%sState=" or head:find "%sCPUTot=" or head:find "%sCfgTRES=") and 0.95 or 0.3
  end,
  read = read,
}
