--- `nvidia-smi --query-gpu=FIELDS --format=csv[,noheader][,nounits]`: the GPUs of one node, their memory and PCIe.
local lpeg <const> = require "lpeg"
local grammar <const> = require "tangram.input.grammar"
local pcie <const> = require "tangram.input.pcie"

local P <const>, R <const>, S <const>, C <const>, Ct <const> = lpeg.P, lpeg.R, lpeg.S, lpeg.C, lpeg.Ct
local spaces <const>, number <const>, refuse <const> = grammar.spaces, grammar.number, grammar.refuse

local COMMAND <const> = "nvidia-smi --query-gpu=index,name,memory.total,pcie.link.gen.max,pcie.link.width.max,mig.mode.current"
  .. " --format=csv"
--- Fields that are read, or that show a line to be a header. There are some hundred others.
local KNOWN <const> = { "index", "name", "gpu_name", "memory.total", "compute_cap", "pcie.link.gen.max", "pcie.link.gen.current",
  "pcie.link.width.max", "pcie.link.width.current", "mig.mode.current", "pci.bus_id", "gpu_bus_id", "uuid", "gpu_uuid",
  "driver_version", "memory.used", "memory.free" }
local ALIAS <const> = { gpu_name = "name", gpu_bus_id = "pci.bus_id", gpu_uuid = "uuid" }
local known <const> = {}
for _, field in ipairs(KNOWN) do known[field] = true end

local field_name <const> = C(R "az" * (R("az", "09") + S "_.") ^ 0)
local header_field <const> = spaces * field_name * (spaces * "[" * (1 - S "],") ^ 0 * "]") ^ -1 * spaces
local header <const> = Ct(header_field * ("," * header_field) ^ 0) * -1
local query <const> = (1 - P "--query-gpu=") ^ 0 * "--query-gpu=" * Ct(field_name * ("," * field_name) ^ 0)
local value <const> = spaces * C((1 - P ",") ^ 0)
local values <const> = Ct(value * ("," * value) ^ 0)

local mebibytes <const> = number * (spaces * "MiB") ^ -1 * spaces * -1
local with_unit <const> = number * spaces * "MiB" * spaces * -1
local whole <const> = C(R "09" * R "09" ^ -8) / math.tointeger * spaces * -1
local bus_id <const> = R("09", "AF", "af") ^ 4 * ":" * R("09", "AF", "af") ^ 2 * ":" * R("09", "AF", "af") ^ 2 * "."
local missing <const> = spaces * (P "[N/A]" + "N/A" + "[Not Supported]" + "[Not Found]" + "") * spaces * -1
local broken <const> = spaces * (P "[Unknown Error]" + "[GPU requires reset]" + "[GPU is lost]" + "[Insufficient Permissions]")

local function canonical(fields)
  for i, field in ipairs(fields) do fields[i] = ALIAS[field] or field end
  return fields
end

--- The names of a header's fields, or nil: a line of which at least one is a field known here, and not mere words.
local function header_of(line)
  local fields <const> = header:match(line)
  if not fields then return nil end
  for _, field in ipairs(fields) do
    if known[field] then return canonical(fields) end
  end
end

--- The fields of a line without a header, typed by their values: nil, why if that leaves doubt.
local function typed(row)
  local fields <const>, used <const> = {}, {}
  for i, one in ipairs(row) do
    local field
    if with_unit:match(one) then field = "memory.total"
    elseif bus_id:match(one) then field = "pci.bus_id"
    elseif i == 1 and whole:match(one) then field = "index"
    elseif one:find "^NVIDIA " or one:find "^Tesla " or one:find "^GeForce " or one:find "^Quadro " then field = "name"
    end
    if field and used[field] then return nil, field end
    if field then used[field] = true end
    fields[i] = field or "?"
  end
  return used.name and fields
end

--- What a row says, by field.
local function record(fields, row, line)
  if #row ~= #fields then refuse(line, "%d values, expected %d as the header names them", #row, #fields) end
  local of <const> = { line = line }
  for i, field in ipairs(fields) do
    local text <const> = grammar.trim(row[i])
    if broken:match(text) then of.broken = text end
    of[field] = not missing:match(text) and not broken:match(text) and text or nil
  end
  return of
end

local function quantity(of, field, pattern, expected)
  if not of[field] then return nil end
  local read <const> = pattern:match(of[field])
  if not read or read <= 0 and field ~= "index" then
    refuse(of.line, "%s is '%s', expected %s", field, grammar.quote(of[field]), expected)
  end
  return read
end

local function pcie_rate(of, warnings)
  local generation <const> = quantity(of, "pcie.link.gen.max", whole, "a number")
  local widest <const> = quantity(of, "pcie.link.width.max", whole, "a number of lanes")
  local width <const> = quantity(of, "pcie.link.width.current", whole, "a number of lanes") or widest
  if widest and width < widest then
    warnings[#warnings + 1] = ("line %d: PCIe runs %d of %d lanes"):format(of.line, width, widest)
  end
  if of["pcie.link.gen.current"] and not generation then
    warnings[#warnings + 1] = ("line %d: pcie.link.gen.current falls when a GPU idles and is not used, query pcie.link.gen.max")
      :format(of.line)
  end
  return pcie.rate(generation, width)
end

local function gpu_of(of, warnings)
  local name <const> = of.name
  if name and name:find "Graphics Device" then
    warnings[#warnings + 1] = ("line %d: '%s' is the driver's name for a GPU that it doesn't know: say which one it is")
      :format(of.line, grammar.quote(name))
  end
  local memory <const> = quantity(of, "memory.total", mebibytes, "MiB such as '24576 MiB'")
  return { name = name, memory_bytes = memory and math.tointeger(memory * grammar.MIB),
    pcie_bytes_per_s = pcie_rate(of, warnings), compute_capability = of.compute_cap,
    index = quantity(of, "index", whole, "a whole number") }
end

--- The records that follow a header.
local function rows_after(lines, fields)
  local records <const> = {}
  for line, text in lines do
    local row <const> = values:match(text)
    local is_row <const> = text:find "%S" and (#row == #fields or #row > 1) and not text:find "^%s*[$#>%%]"
    if not is_row or header_of(text) then break end
    records[#records + 1] = record(fields, row, line)
  end
  return records
end

--- The records of a text whose header is missing: by the fields that were asked for, or typed by their values.
local function rows_without_header(text, asked, warnings)
  local records <const> = {}
  local fields = asked
  for line, one in grammar.lines(text) do
    local row <const> = values:match(one)
    if not fields and #row > 1 then
      local twice
      fields, twice = typed(row)
      if twice then refuse(line, "no header, and which column is %s is not clear: leave out 'noheader'", twice) end
      if fields then
        warnings[#warnings + 1] = ("line %d: no header, columns are taken for %s"):format(line, table.concat(fields, ", "))
      end
    end
    if fields and #row == #fields and one:find "%S" and not query:match(one) then
      records[#records + 1] = record(fields, row, line)
    elseif records[1] then
      break
    end
  end
  return records
end

local function records_of(text, asked, with_header, warnings)
  local lines <const> = grammar.lines(text)
  local by_prompt
  for line, one in lines do
    local fields <const> = header_of(one)
    if fields then return rows_after(lines, fields), line end
    by_prompt = by_prompt or query:match(one)
  end
  local told <const> = asked or by_prompt
  if with_header and not told then return {} end
  return rows_without_header(text, told and canonical(told), warnings), nil
end

--- The list of GPUs in a text that may hold other things as well.
---@param text string cleaned
---@param options table fields: names of the columns, "index,name", where the text has no header; with_header: whether to look
---  for a list that names its columns alone
---@param warnings string[] added to
---@return table? found line, all (one entry a GPU), gpus (runs), left_out
local function find(text, options, warnings)
  local asked <const> = options.fields and Ct(field_name * (spaces * "," * spaces * field_name) ^ 0):match(options.fields)
  local records <const>, line <const> = records_of(text, asked, options.with_header, warnings)
  if not records[1] then return nil end
  local all <const>, seen <const> = {}, {}
  local sliced, lost = 0, 0
  for _, of in ipairs(records) do
    local one <const> = gpu_of(of, warnings)
    if one.index and seen[one.index] then
      refuse(of.line, "index %d stands twice, expected one node a file", one.index)
    end
    if one.index then seen[one.index] = true end
    if of["mig.mode.current"] == "Enabled" then
      sliced = sliced + 1
    elseif of.broken then
      lost = lost + 1
      warnings[#warnings + 1] = ("line %d: left out, the driver says %s"):format(of.line, of.broken)
    else
      all[#all + 1] = one
    end
  end
  if sliced > 0 then
    warnings[#warnings + 1] = ("line %d: %d of %d GPUs left out, they are cut by MIG: slices can't form one job"):format(
      records[1].line, sliced, #records)
  end
  table.sort(all, function(a, b) return (a.index or 0) < (b.index or 0) end)
  return { line = line or records[1].line, all = all, gpus = grammar.runs(all),
    left_out = not all[1] and (lost > 0 and "no GPU works" or "MIG only: no whole GPU") or nil }
end

local function warn_of_mixture(gpus, warnings)
  local first <const> = gpus[1]
  for _, one in ipairs(gpus) do
    if one.name ~= first.name then
      warnings[#warnings + 1] = ("'%s' and '%s' in one node are not one island"):format(first.name or "?", one.name or "?")
      return
    end
  end
end

return grammar.reader {
  kind = "nvidia-smi-csv",
  summary = "GPUs of a node: names, memory, PCIe",
  command = COMMAND,
  find = find,

  sniff = function(text)
    for _, line in grammar.lines(text) do
      local fields <const> = header_of(line)
      if fields then return #fields > 1 and 0.8 or 0.6 end
    end
    local ok <const>, records <const> = pcall(records_of, text, nil, false, {})
    return ok and records[1] and 0.6 or 0
  end,

  read = function(text, options)
    local warnings <const> = {}
    local found <const> = find(text, options, warnings)
    if not found then
      refuse(nil, "no line names fields such as 'index, name, memory.total [MiB]', expected the output of '%s'", COMMAND)
    end
    warn_of_mixture(found.gpus, warnings)
    return { nodes = { { gpus = found.gpus, left_out = found.left_out } }, warnings = warnings }
  end,
}
