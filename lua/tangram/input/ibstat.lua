--- `ibstat`, `ibstatus` and `ibdev2netdev`: network cards of a node, their rate, transport and state.
local lpeg <const> = require "lpeg"
local grammar <const> = require "tangram.input.grammar"

local P <const>, C <const>, Cc <const>, Cg <const>, Ct <const> = lpeg.P, lpeg.C, lpeg.Cc, lpeg.Cg, lpeg.Ct
local spaces <const> = grammar.spaces

local COMMAND <const> = "ibstat"
local GBIT <const> = 1e9 / 8
--- Gb/s of data where the tools print the line's: 8 bits in 10 up to QDR, 64 in 66 for FDR. From EDR on they print the data's.
local PAYLOAD <const> = { [2.5] = 2, [5] = 4, [10] = 8, [20] = 16, [40] = 32, [56] = 54.5 }

local function rest(name) return spaces * name * spaces * ":" * spaces * C(P(1) ^ 0) end
local quoted <const> = P "'" * C((1 - P "'") ^ 1) * "'"
local ca <const> = spaces * "CA " * quoted * spaces * -1
local port <const> = spaces * "Port " * (C(grammar.digits) / tonumber) * ":" * spaces * -1
local device <const> = Ct(spaces * "Infiniband device " * Cg(quoted, "device") * " port " * Cg(C(grammar.digits) / tonumber, "port")
  * " status:") * spaces * -1
local netdev <const> = Ct(spaces * Cg(grammar.token, "device") * " port " * Cg(C(grammar.digits) / tonumber, "port") * spaces * "==>"
  * spaces * grammar.token * spaces * "(" * Cg(P "Up" * Cc(true) + P "Down" * Cc(false), "up") * ")")
local rate <const> = grammar.number * spaces * (P "Gb/sec" * spaces * P "(" * C((1 - P ")") ^ 1) * ")" + -1 + "Gb/sec")

local FIELDS <const> = { state = rest "State" + rest "state", physical = rest "Physical state" + rest "phys state",
  rate = rest "Rate" + rest "rate", layer = rest "Link layer" + rest "link_layer" }

--- All ports in the text's order.
local function ports_of(text)
  local ports <const> = {}
  local name
  for number, line in grammar.lines(text) do
    local one = device:match(line) or netdev:match(line)
    local of_ca <const> = port:match(line)
    name = ca:match(line) or name
    if of_ca and name then one = { device = name, port = of_ca } end
    if one then
      one.line = number
      ports[#ports + 1] = one
    end
    local now <const> = ports[#ports]
    for field, pattern in pairs(now and FIELDS or {}) do
      local said <const> = pattern:match(line)
      if said then now[field] = now[field] or said end
    end
  end
  return ports
end

local function is_active(one)
  if one.up ~= nil then return one.up end
  local state <const>, physical <const> = (one.state or ""):upper(), one.physical
  return state:find("ACTIVE", 1, true) ~= nil and (not physical or physical:find("LinkUp", 1, true) ~= nil)
end

local function bytes_per_s(one, transport)
  local gigabits <const>, words <const> = rate:match(one.rate or "")
  if not gigabits or gigabits <= 0 then return nil end
  local coded <const> = transport == "infiniband" and not (type(words) == "string" and words:find "FDR10")
  return (coded and PAYLOAD[gigabits] or gigabits) * GBIT
end

return grammar.reader {
  kind = "ibstat",
  summary = "network cards of a node: rate, InfiniBand or Ethernet, state",
  command = COMMAND,

  sniff = function(text) return ports_of(text)[1] and 0.95 or text:find "^hca_id:" and 0.6 or 0 end,

  read = function(text)
    local ports <const> = ports_of(text)
    if not ports[1] then
      grammar.refuse(nil, text:find "hca_id:" and "the output of 'ibv_devinfo', which is not read; run '%s'"
        or "no line \"CA 'mlx5_0'\", expected the output of '%s', 'ibstatus' or 'ibdev2netdev'", COMMAND)
    end
    local count <const>, nics <const>, warnings <const> = {}, {}, {}
    for _, one in ipairs(ports) do count[one.device] = (count[one.device] or 0) + 1 end
    for i, one in ipairs(ports) do
      local layer <const> = (one.layer or ""):lower():match "^%a+"
      local transport <const> = (layer == "infiniband" or layer == "ethernet") and layer or nil
      local nic <const> = { name = count[one.device] > 1 and ("%s:%d"):format(one.device, one.port) or one.device,
        active = is_active(one), transport = transport, bytes_per_s = bytes_per_s(one, transport) }
      nics[i] = nic
      if nic.active and not nic.bytes_per_s then
        warnings[#warnings + 1] = ("line %d: %s has no rate, 'ibstat' prints it"):format(one.line, grammar.quote(nic.name))
      end
    end
    return { nodes = { { gpus = {}, nics = nics } }, warnings = warnings }
  end,
}
