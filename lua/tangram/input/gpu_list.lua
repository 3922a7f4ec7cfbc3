--- The lines of `nvidia-smi -L`, and what is indented below each: MIG slices there, NVLinks in `nvidia-smi nvlink -s`.
local lpeg <const> = require "lpeg"
local grammar <const> = require "tangram.input.grammar"

local P <const>, C <const>, Ct <const>, Cg <const> = lpeg.P, lpeg.C, lpeg.Ct, lpeg.Cg
local spaces <const>, refuse <const> = grammar.spaces, grammar.refuse

local uuid <const> = P " (UUID: "
local gpu <const> = Ct(spaces * "GPU " * Cg(C(grammar.digits) / tonumber, "index") * ": " * Cg(C((1 - uuid) ^ 1), "name") * uuid
  * (1 - P ")") ^ 1 * ")") * spaces * -1
local mig <const> = spaces * "MIG " * C((1 - lpeg.S " \t") ^ 1) * spaces * "Device" * spaces * grammar.digits * ":"
--- "Link 0: 26.562 GB/s", "Link 3: <inactive>"
local link <const> = spaces * "Link " * grammar.digits * ":" * spaces * (grammar.number * spaces * "GB/s" + P "<inactive>" * lpeg.Cc(0))
  * spaces * -1
local other_link <const> = spaces * "Link " * grammar.digits * (P ":" + ",")

local gpu_list <const> = {}

--- The GPUs of a text in its order.
---@param text string cleaned
---@return { line: integer, index: integer, name: string, slices: string[], links: number[], other: integer? }[] links in GB/s,
---  0 where inactive; other: the line of a link that says something else
function gpu_list.all(text)
  local gpus <const>, seen <const> = {}, {}
  for number, line in grammar.lines(text) do
    local one <const> = gpu:match(line)
    local now <const> = gpus[#gpus]
    if one then
      if seen[one.index] then refuse(number, "GPU %d stands twice, expected one node a file", one.index) end
      if one.index > 255 then refuse(number, "GPU %.0f, expected fewer in one node", one.index) end
      seen[one.index] = true
      one.line, one.slices, one.links = number, {}, {}
      gpus[#gpus + 1] = one
    elseif now then
      local slice <const>, rate <const> = mig:match(line), link:match(line)
      if slice then now.slices[#now.slices + 1] = slice end
      if rate then now.links[#now.links + 1] = rate end
      if not rate and other_link:match(line) then now.other = now.other or number end
    end
  end
  table.sort(gpus, function(a, b) return a.index < b.index end)
  return gpus
end

return gpu_list
