--- Quantities as people write them, "80 GiB", "25 Gb/s", "312 TFLOP/s", "20 us", and as people read them.
local lpeg <const> = require "lpeg"

local units <const> = {}

local P <const>, R <const>, S <const>, C <const>, Cc <const> = lpeg.P, lpeg.R, lpeg.S, lpeg.C, lpeg.Cc

local digits <const> = R "09" ^ 1
local number <const> = C((digits * (P "." * R "09" ^ 0) ^ -1 + P "." * digits) * (S "eE" * S "+-" ^ -1 * digits) ^ -1) / tonumber
local space <const> = S " \t" ^ 0

--- "Ki" is 1024 and "K" 1000: a GB and a GiB differ by 7 %.
local function prefixes(letters, base, suffix)
  local pattern, factor = P(false), 1
  for letter in letters:gmatch "." do
    factor = factor * base
    local head <const> = letter == "K" and S "kK" or P(letter)
    pattern = pattern + head * suffix * Cc(factor)
  end
  return pattern
end
local binary <const> = prefixes("KMGTP", 1024, P "i")
local decimal <const> = prefixes("KMGTPE", 1000, P(true))
local prefix <const> = binary + decimal + Cc(1)

local byte <const> = (P "bytes" + "byte" + "B") * Cc(1)
local bit <const> = (P "bits" + "bit" + "b") * Cc(1 / 8)
local amount <const> = prefix * (byte + bit)
local flop <const> = (decimal + Cc(1)) * (P "FLOP" + "flop" + "Flop")

local function product(a, b, c) return a * b * (c or 1) end
local function quantity(unit) return space * number * space * unit * space * -1 / product end

local BYTES <const> = quantity(amount)
local RATE <const> = quantity(amount * (P "/s" + "ps"))
local FLOPS <const> = quantity(flop * (P "/s" + S "sS"))
-- Divided by, then multiplied with: 30 / 1e6 is 3e-5 to the last bit, 30 * 1e-6 is not.
local function second(divisor, factor) return Cc(divisor) * Cc(factor) end
local SECONDS <const> = space * number * space * (P "ms" * second(1e3, 1) + (P "us" + "µs" + "μs") * second(1e6, 1)
  + P "ns" * second(1e9, 1) + P "min" * second(1, 60) + P "h" * second(1, 3600) + P "s" * second(1, 1)) * space * -1
  / function(x, divisor, factor) return x / divisor * factor end

local function reader(pattern, expected)
  return function(value)
    if type(value) == "string" then value = pattern:match(value) end
    if type(value) ~= "number" or value ~= value or value == math.huge or value < 0 then return nil, expected end
    return math.tointeger(value) or value
  end
end

--- Each takes a number in base units or text, and gives the number, or nil and what was expected.
---@type fun(value: number|string): number?, string?
units.bytes = reader(BYTES, "bytes: a number of at least 0, or text such as '80 GiB'")
---@type fun(value: number|string): number?, string?
units.bytes_per_s = reader(RATE, "bytes per second: a number of at least 0, or text such as '46 GB/s' or '25 Gb/s'")
---@type fun(value: number|string): number?, string?
units.flops = reader(FLOPS, "FLOP/s: a number of at least 0, or text such as '312 TFLOP/s'")
---@type fun(value: number|string): number?, string?
units.seconds = reader(SECONDS, "seconds: a number of at least 0, or text such as '20 us'")

--- Three digits that count: 1.23, 12.3, 123, 1234.
local function three(x)
  local magnitude <const> = x > 0 and math.floor(math.log(x, 10) + 1e-12) or 0
  return ("%." .. math.max(0, math.min(2, 2 - magnitude)) .. "f"):format(x)
end

local function scaled(x, base, names)
  local i = 1
  -- 0.9995: what would round to 1000 of one unit is shown as 1 of the next
  while i < #names and math.abs(x) >= base * 0.9995 do x, i = x / base, i + 1 end
  return three(x) .. " " .. names[i]
end

---@param x number
---@return string "80.0 GiB"
function units.format_bytes(x) return scaled(x, 1024, { "B", "KiB", "MiB", "GiB", "TiB", "PiB" }) end

---@param x number bytes per second
---@return string "46.0 GB/s"
function units.format_rate(x) return scaled(x, 1000, { "B/s", "KB/s", "MB/s", "GB/s", "TB/s", "PB/s" }) end

---@param x number FLOP/s
---@return string "312 TFLOP/s"
function units.format_flops(x) return scaled(x, 1000, { "FLOP/s", "KFLOP/s", "MFLOP/s", "GFLOP/s", "TFLOP/s", "PFLOP/s" }) end

---@param x number seconds
---@return string "12.3 ms"
function units.format_time(x)
  if x >= 1 or x == 0 then return three(x) .. " s" end
  return scaled(x * 1e9, 1000, { "ns", "us", "ms", "s" })
end

return units
