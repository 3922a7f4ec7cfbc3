--- Output of nccl-tests (all_reduce_perf, sendrecv_perf, ...): what bandwidth and latency a collective reached.
local lpeg <const> = require "lpeg"
local core <const> = require "tangram.core"
local grammar <const> = require "tangram.input.grammar"

local P <const>, R <const>, C <const>, Ct <const>, Cg <const> = lpeg.P, lpeg.R, lpeg.C, lpeg.Ct, lpeg.Cg
local spaces <const>, digits <const> = grammar.spaces, grammar.digits

local COMMAND <const> = "all_reduce_perf -b 8 -e 1G -f 2 -g 1"
local COLLECTIVES <const> = { "all_reduce", "all_gather", "reduce_scatter", "alltoall", "sendrecv", "broadcast", "reduce", "gather",
  "scatter", "hypercube" }
--- busbw / algbw of n ranks is share (n - 1) / n, as nccl-tests' PERFORMANCE.md derives it.
local SHARE <const> = { all_reduce = 2, all_gather = 1, reduce_scatter = 1, alltoall = 1, gather = 1, scatter = 1 }
--- Times of messages up to the first are latency; rates of messages from the second on are bandwidth.
local SMALL_BYTES <const>, LARGE_BYTES <const> = 32 << 10, 1 << 20

--- `srun -l` puts the task's number in front.
local task <const> = (spaces * digits * ": ") ^ -1
local whole <const> = C(digits) / tonumber
local row <const> = task * spaces * whole * grammar.blank ^ 1 * whole * grammar.blank ^ 1 * C(R "az" * R("az", "09", "__") ^ 0)
  * #grammar.blank * grammar.tokens
local rank <const> = Ct(task * spaces * "#" * spaces * "Rank" * spaces * Cg(whole, "rank") * spaces * "Group" * spaces * digits * spaces
  * "Pid" * spaces * digits * spaces * "on" * spaces * Cg(grammar.token, "host") * spaces * "device" * spaces * digits * spaces
  * "[" * (1 - P "]") ^ 1 * "]" * spaces * Cg(C(P(1) ^ 1), "name"))
local test_start <const> = task * spaces * "#" * spaces * "nThread"
local columns <const> = task * spaces * "#" * spaces * "size" * spaces * "count" * spaces * "type"
local failed <const> = task * spaces * "#" * spaces * "Out of bounds values" * spaces * ":" * spaces * whole * spaces * "FAILED"

--- "all_reduce" of a line that names all_reduce_perf; the longest name first, as reduce_perf ends all_reduce_perf.
local function collective_of(line)
  if not line:find("_perf", 1, true) then return nil end
  for _, name in ipairs(COLLECTIVES) do
    if line:find("%f[%w_]" .. name .. "_perf") then return name end
  end
end

--- A row's first four figures, out of place: 7 to 9 columns, and 4 more in place.
local function figures_of(line_number, size, rest)
  local at <const> = #rest - (#rest >= 8 and 7 or 3)
  local time <const>, algbw <const>, busbw <const> = tonumber(rest[at]), tonumber(rest[at + 1]), tonumber(rest[at + 2])
  if not (time and algbw and busbw) or time <= 0 or busbw ~= busbw or math.max(time, busbw) == math.huge then return nil end
  local wrong = tonumber(rest[at + 3]) or 0
  if #rest >= 8 then wrong = math.max(wrong, tonumber(rest[at + 7]) or 0) end
  return { line = line_number, size = size, time = time, algbw = algbw, busbw = busbw, wrong = wrong }
end

--- Rows, ranks and what else the lines say.
local function scan(text)
  local found <const> = { rows = {}, ranks = {}, warnings = {} }
  for number, line in grammar.lines(text) do
    local first <const> = line:byte()
    if first and #line < 1 << 12 then
      local size <const>, _, _, rest <const> = row:match(line)
      local figures <const> = size and figures_of(number, size, rest)
      if figures then
        found.rows[#found.rows + 1] = figures
      elseif found.rows[1] and test_start:match(line) then
        found.warnings[#found.warnings + 1] = ("line %d: a second test is not read, expected one a file"):format(number)
        break
      else
        found.collective = found.collective or collective_of(line)
        found.header = found.header or columns:match(line)
        local one <const> = rank:match(line)
        if one then found.ranks[#found.ranks + 1] = one end
        local count <const> = failed:match(line)
        if count then found.failed = { line = number, count = count } end
      end
    end
  end
  return found
end

--- The number of ranks that gives a ratio of busbw to algbw of two rounded figures, nil if that leaves several.
local function ranks_by_ratio(one, share)
  local low <const>, high <const> = (one.busbw - 0.005) / (one.algbw + 0.005), (one.busbw + 0.005) / (one.algbw - 0.005)
  if one.algbw <= 0.005 or low >= share then return nil end
  local least <const> = math.ceil(1 / (1 - low / share))
  local most <const> = high < share and 1 / (1 - high / share) or math.huge
  return least <= most and least + 1 > most and least or nil
end

--- The collective where nothing names it: of the ratios only that of all_reduce exceeds 1.
local function guess_collective(one, warnings)
  if one.algbw > 1 and one.busbw > one.algbw * 1.02 then return "all_reduce" end
  warnings[#warnings + 1] = ("line %d: which collective this is stands nowhere, expected the command's line, '... all_gather_perf ...'")
    :format(one.line)
end

local function warn_of_wrong(found)
  for _, one in ipairs(found.rows) do
    if one.wrong > 0 then
      found.warnings[#found.warnings + 1] = ("line %d: %.0f wrong values, the network or a GPU is broken"):format(one.line, one.wrong)
      return
    end
  end
  if found.failed then
    found.warnings[#found.warnings + 1] = ("line %d: %.0f wrong values, the network or a GPU is broken"):format(found.failed.line,
      found.failed.count)
  end
end

--- Hosts in the order of their first ranks, with their GPUs.
local function nodes_of(ranks)
  table.sort(ranks, function(a, b) return a.rank < b.rank end)
  local nodes <const>, by_name <const> = {}, {}
  for _, one in ipairs(ranks) do
    local node = by_name[one.host]
    if not node then
      node = { name = one.host, gpus = {} }
      by_name[one.host], nodes[#nodes + 1] = node, node
    end
    node.gpus[#node.gpus + 1] = { name = grammar.trim(one.name) }
  end
  for _, node in ipairs(nodes) do node.gpus = grammar.runs(node.gpus) end
  return nodes
end

local function measured_of(found)
  local largest, small = nil, nil
  for _, one in ipairs(found.rows) do
    if not largest or one.size > largest.size then largest = one end
    if one.size <= SMALL_BYTES then small = math.min(small or math.huge, one.time) end
  end
  local warnings <const> = found.warnings
  if largest.size < LARGE_BYTES then
    warnings[#warnings + 1] = ("line %d: messages end at %.0f bytes, no bandwidth can be taken; run '%s'"):format(largest.line,
      largest.size, COMMAND)
    return nil
  end
  local collective <const> = found.collective or guess_collective(largest, warnings)
  local ranks = #found.ranks > 0 and #found.ranks or nil
  if not ranks and SHARE[collective] then ranks = ranks_by_ratio(largest, SHARE[collective]) end
  return { collective = collective, ranks = ranks, busbw_bytes_per_s = largest.busbw * 1e9, latency_s = small and small / 1e6 }
end

return grammar.reader {
  kind = "nccl-tests",
  summary = "measured bandwidth and latency of a collective",
  command = COMMAND,
  limit_bytes = grammar.MIB,

  sniff = function(text)
    local found <const> = scan(text)
    return found.header and 0.95 or (found.ranks[1] or found.rows[1]) and 0.7 or 0
  end,

  --- `measured`: busbw of the largest message (the printed average takes in small ones); latency of the whole collective.
  read = function(text)
    local found <const> = scan(text)
    if not found.rows[1] and not found.ranks[1] then
      grammar.refuse(nil, "no rows of size, count, type, time, algbw, busbw, expected the output of nccl-tests such as '%s'", COMMAND)
    end
    warn_of_wrong(found)
    local nodes <const>, measured = nodes_of(found.ranks), nil
    if found.rows[1] then
      measured = measured_of(found)
    else
      found.warnings[#found.warnings + 1] = "no rows of figures (was the log cut?): no bandwidth can be taken"
    end
    if measured and nodes[1] then measured.nodes = #nodes end
    if measured and (measured.nodes or 1) > 1 and measured.collective == "all_reduce" then
      found.warnings[#found.warnings + 1] = "busbw of all_reduce over several nodes may exceed their cards' rate where switches add up"
        .. " (NVLS, SHARP); sendrecv_perf between two nodes measures a link"
    end
    return { nodes = core.array(nodes), measured = measured, warnings = found.warnings }
  end,
}
