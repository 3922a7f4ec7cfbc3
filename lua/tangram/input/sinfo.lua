--- `sinfo -N -o "%N %G %T"`: rows of nodes, their generic resources and, if printed, their states.
local grammar <const> = require "tangram.input.grammar"
local gres <const> = require "tangram.input.gres"
local hostlist <const> = require "tangram.input.hostlist"
local unusable <const> = require "tangram.input.slurm_state"

local refuse <const> = grammar.refuse
local HINT <const> = "sinfo -N -o '%N %G %T'"

local MOST_ROWS <const> = 4 * hostlist.most

--- Headings that sinfo prints for the columns that count, and for others that tell that it is sinfo's output.
local COLUMNS <const> = { NODELIST = "nodes", HOSTNAMES = "nodes", GRES = "gres", STATE = "state", STATECOMPACT = "state" }
local OTHERS <const> = { NODES = true, PARTITION = true, AVAIL = true, TIMELIMIT = true, CPUS = true, MEMORY = true,
  AVAIL_FEATURES = true, ACTIVE_FEATURES = true, FEATURES = true, WEIGHT = true, REASON = true, TMP_DISK = true, CPU_LOAD = true,
  FREE_MEM = true, ["S:C:T"] = true, GRES_USED = true }

local function cells_of(line)
  local cells <const> = {}
  for cell in line:gmatch(line:find("|", 1, true) and "[^|]+" or "%S+") do
    cell = grammar.trim(cell)
    if cell ~= "" then cells[#cells + 1] = cell end
  end
  return cells
end

--- The columns of a heading by meaning, or nil if the line is none.
local function heading(line)
  local cells <const>, at <const>, known = cells_of(line), {}, 0
  for i, cell in ipairs(cells) do
    local name <const> = COLUMNS[cell]
    if name then at[name] = at[name] or i end
    if name or OTHERS[cell] then known = known + 1 end
  end
  at.count = #cells
  return at.nodes and known == #cells and at or nil
end

--- Adds a row's nodes; a node of several partitions stands in several rows, each alike. Returns their number.
local function add_row(facts, by_name, row)
  local names <const>, wrong <const> = hostlist.expand(row.nodes)
  if not names then refuse(row.line, "%s", wrong) end
  local found <const>, why <const> = gres.gpus(row.gres)
  if not found then refuse(row.line, "%s; columns of fixed width cut it off, %s has none", why, HINT) end
  local left_out <const> = found.left_out or row.state and unusable(row.state)
  for _, name in ipairs(names) do
    local before <const> = by_name[name]
    if not before then
      local node <const> = { name = name, gpus = found.gpus, left_out = left_out }
      by_name[name] = { node = node, gres = row.gres, line = row.line }
      facts.nodes[#facts.nodes + 1] = node
    elseif before.gres ~= row.gres then
      refuse(row.line, "node '%s' has %s here and %s on line %d, expected one of them", name, grammar.quote(row.gres),
        grammar.quote(before.gres), before.line)
    else
      before.node.left_out = before.node.left_out or left_out
    end
  end
  if found.slices > 0 and #found.gpus > 0 then
    facts.warnings[#facts.warnings + 1] = ("line %d: %s: MIG slices beside whole GPUs are left out"):format(row.line, row.nodes)
  end
  return #names
end

local function read(text)
  local facts <const>, by_name <const> = { nodes = {}, warnings = {} }, {}
  local at, rows = nil, 0
  for number, line in grammar.lines(text) do
    if not at then
      at = heading(line)
      if at and not at.gres then refuse(number, "no column GRES, which holds the GPUs; print it by %s", HINT) end
    elseif line:find "%S" and not heading(line) then
      local cells <const> = cells_of(line)
      if #cells ~= at.count then
        refuse(number, "%d columns, but the heading has %d; print them by %s", #cells, at.count, HINT)
      end
      rows = rows + add_row(facts, by_name,
        { nodes = cells[at.nodes], gres = cells[at.gres], state = at.state and cells[at.state], line = number })
      if rows > MOST_ROWS then refuse(number, "more nodes than a cluster has") end
    end
  end
  if not at then refuse(nil, "no heading with NODELIST and GRES, expected the output of %s", HINT) end
  if #facts.nodes == 0 then refuse(nil, "no node below the heading, expected rows as by %s", HINT) end
  if not at.state then
    facts.warnings[#facts.warnings + 1] = ("no STATE column: nodes that are down or drained are not known; print it by %s"):format(HINT)
  end
  return facts
end

return grammar.reader {
  kind = "sinfo", summary = "Slurm's nodes with their GPUs, by rows", command = HINT, limit_bytes = 512 << 10,
  sniff = function(text)
    for _, line in grammar.lines(text) do
      if heading(line) then return 0.9 end
    end
    return 0
  end,
  read = read,
}
