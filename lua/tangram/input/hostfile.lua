--- Hostfiles: `host slots=8` (DeepSpeed, Open MPI), with `type=a100` (FlagScale) or `max_slots=8` (Open MPI), `host:8` (MPICH,
--- Hydra), or a name a line (MPI: one slot each). A slot is taken for a GPU.
local lpeg <const> = require "lpeg"
local grammar <const> = require "tangram.input.grammar"

local P <const>, R <const>, S <const>, Cg <const>, Ct <const> = lpeg.P, lpeg.R, lpeg.S, lpeg.Cg, lpeg.Ct

local space <const> = S " \t\r"
local count <const> = R "09" ^ 1 / tonumber
local assign <const> = space ^ 0 * "=" * space ^ 0
local host <const> = (P "[" * Cg((R("09", "af", "AF") + ":") ^ 1, "name") * "]" + Cg((R("az", "AZ", "09") + S "._-") ^ 1, "name"))
local field <const> = space ^ 1 * (P "slots" * assign * Cg(count, "slots")
  + P "max" * S "_-" * "slots" * assign * Cg(count, "most")
  + P "type" * assign * Cg((1 - space) ^ 1, "type"))
local user <const> = (R("az", "AZ", "09") + S "._-") ^ 1 * "@"
local LINE <const> = Ct(user ^ -1 * host * (P ":" * Cg(count, "processes")) ^ -1 * field ^ 0) * space ^ 0 * -1

local EXPECTED <const> = "expected 'host slots=8', 'host:8' or 'host'"
local MOST <const> = 1024 -- GPUs of a node; more is a slip

--- One line without its comment, as the grammar has it; nil, why.
local function read_line(text)
  if #text > 1024 then return nil, "too long, " .. EXPECTED end
  local one <const> = LINE:match(text)
  if not one then
    return nil, text:find "%[%d+[%d,-]*%]" and "a list of nodes, expected a name a line (scontrol show hostnames writes them out)"
      or ("got '%s', %s"):format(#text > 60 and text:sub(1, 60) .. "…" or text, EXPECTED)
  end
  one.form = one.slots and "slots" or one.processes and "processes" or "plain"
  one.count = one.slots or one.processes or 1
  if one.count > MOST then return nil, ("%.0f slots, expected at most %d"):format(one.count, MOST) end
  if one.most and one.most < one.count then return nil, ("max_slots %d, expected at least the %d slots"):format(one.most, one.count) end
  return one
end

--- MPI adds repeated lines up, but DeepSpeed refuses `slots=` twice for a host, and Open MPI adds: not guessed.
local function add(by_name, order, one, number)
  local node <const> = by_name[one.name]
  if not node then
    by_name[one.name] = { count = one.count, type = one.type, form = one.form, line = number }
    order[#order + 1] = one.name
  elseif node.form ~= one.form or one.form == "slots" then
    return ("host '%s' stands on line %d too, expected it once with all its slots (DeepSpeed refuses it, Open MPI adds them up)")
      :format(one.name, node.line)
  elseif node.count + one.count > MOST then
    return ("more than %d slots of host '%s'"):format(MOST, one.name)
  else
    node.count = node.count + one.count
  end
end

local function body_of(line) return grammar.trim((line:gsub("#.*", ""))) end

local function read(text)
  local by_name <const>, order <const> = {}, {}
  local plain = false
  for number, line in grammar.lines(text) do
    local body <const> = body_of(line)
    if body ~= "" then
      local one <const>, wrong = read_line(body)
      if one then wrong = add(by_name, order, one, number) end
      if wrong then grammar.refuse(number, "%s", wrong) end
      plain = plain or one.form == "plain"
    end
  end
  if #order == 0 then grammar.refuse(nil, "no host, %s", EXPECTED) end
  local facts <const> = { nodes = {}, warnings = {} }
  for i, name in ipairs(order) do
    local one <const> = by_name[name]
    facts.nodes[i] = { name = name, gpus = one.count > 0 and { { name = one.type, count = math.tointeger(one.count) } } or {},
      left_out = one.count == 0 and "no slot" or nil }
  end
  if plain then facts.warnings[1] = "hosts without slots= count one GPU for each line that names them" end
  return facts
end

return grammar.reader {
  kind = "hostfile", summary = "hosts and slots of DeepSpeed, FlagScale, Open MPI, MPICH", command = "cat hostfile",
  limit_bytes = 1 << 20,
  sniff = function(text)
    local lines, right, telling = 0, 0, 0
    for _, line in grammar.lines(text:match "^(.*\n)" or text) do -- the last line may be cut
      local body <const> = body_of(line)
      local one <const> = body ~= "" and read_line(body)
      if body ~= "" then lines = lines + 1 end
      if one then right = right + 1 end
      if one and one.form ~= "plain" then telling = telling + 1 end
    end
    if telling == 0 then return lines > 0 and right == lines and 0.3 or 0 end
    return right == lines and 0.8 or 0.6 * telling / lines
  end,
  read = read,
}
