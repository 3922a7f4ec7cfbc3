--- An island as adapters and cost models see it: what the engine found, joined with the GPU's record of the catalogue.
local island <const> = {}

---@class tangram.Island
---@field index integer place among the planning's islands
---@field name string
---@field gpu string GPU type
---@field nodes string[]
---@field node_count integer
---@field gpus integer
---@field gpus_per_node integer
---@field compute_flops number 16-bit dense FLOP/s of one GPU
---@field memory_bytes number of one GPU
---@field intra table[] { size, bytes_per_s }, sizes ascending
---@field intra_latency_s number
---@field inter table? { rates = { { flows, bytes_per_s } … }, latency_s } between two of its nodes
---@field device table the GPU's record of the catalogue
---@field signature string equal islands have equal ones
---@field merged boolean
local methods <const> = {}
local class <const> = { __index = methods, __name = "Island", __metatable = "Island" } -- one for all islands

--- The entry of the nearest smaller size; below the smallest, the smallest.
local function rate_at(rates, size)
  local found = rates[1][2]
  for i = 2, #rates do
    if rates[i][1] > size then break end
    found = rates[i][2]
  end
  return found
end

--- Bytes a second that a group of n GPUs of one node reaches.
function methods:intra_bytes_per_s(n) return rate_at(self.intra, n) end

--- Bytes a second in all between two of the island's nodes with that many flows at once.
function methods:inter_bytes_per_s(flows)
  return self.inter and rate_at(self.inter.rates, flows) or self:intra_bytes_per_s(self.gpus_per_node)
end

---@param record table the fields above
---@return tangram.Island
function island.new(record) return setmetatable(record, class) end

return island
