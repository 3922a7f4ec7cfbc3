--- What Galvatron makes of its profiles at one sequence length: forward times and messages by fitted lines, sizes by degree
--- (reference: Hetu-Galvatron, branch main, cea12ff). Seconds and bytes.
local profile <const> = {}

--- The line through points { x, y } by least squares.
---@return number slope, number intercept
local function line(points)
  local mean_x, mean_y = 0, 0
  for _, p in ipairs(points) do mean_x, mean_y = mean_x + p[1] / #points, mean_y + p[2] / #points end
  local xx, xy = 0, 0
  for _, p in ipairs(points) do
    xx, xy = xx + (p[1] - mean_x) ^ 2, xy + (p[1] - mean_x) * (p[2] - mean_y)
  end
  local slope <const> = xx > 0 and xy / xx or 0
  return slope, mean_y - slope * mean_x
end
profile.line = line

--- The value at x of the parabola through points { x, y } by least squares, in orthogonal polynomials.
local function parabola_at(points, x)
  local slope <const>, intercept <const> = line(points)
  local mean, mean_2 = 0, 0
  for _, p in ipairs(points) do mean, mean_2 = mean + p[1] / #points, mean_2 + p[1] ^ 2 / #points end
  local squares <const> = {}
  for i, p in ipairs(points) do squares[i] = { p[1], (p[1] - mean) ^ 2 } end
  local a <const>, b <const> = line(squares)
  local function curve(at) return (at - mean) ^ 2 - a * at - b end
  local cc, cy = 0, 0
  for _, p in ipairs(points) do
    local c <const> = curve(p[1])
    cc, cy = cc + c * c, cy + c * (p[2] - slope * p[1] - intercept)
  end
  return slope * x + intercept + (cc > 0 and cy / cc or 0) * curve(x)
end

--- Fewest points that Galvatron fits a line to by batch sizes; a line and a parabola over lengths need as many as they have
--- coefficients.
local ENOUGH <const> = 8
local ENOUGH_FOR_LINE <const>, ENOUGH_FOR_PARABOLA <const> = 2, 3

local function at_length(rows, seq_len)
  local points <const> = {}
  for _, row in ipairs(rows) do
    if row.seq_len == seq_len then points[#points + 1] = row end
  end
  return points
end

local function lengths(rows)
  local words <const>, seen <const> = {}, {}
  for _, row in ipairs(rows) do
    if not seen[row.seq_len] then words[#words + 1] = row.seq_len end
    seen[row.seq_len] = true
  end
  return table.concat(words, ", ")
end

--- Forward seconds as a function of samples (over the degree): a line by samples, one figure for each, or a curve by length.
---@param curve boolean fit a parabola over the lengths, not a line
local function forward_of(rows, mode, seq_len, curve, what)
  if mode == "sequence" then
    local points <const> = {}
    for _, row in ipairs(rows) do
      if row.samples == 1 then points[#points + 1] = { row.seq_len, row.forward_s } end
    end
    local enough <const> = curve and ENOUGH_FOR_PARABOLA or ENOUGH_FOR_LINE
    if #points < enough then
      error(("profile: %s: times of one sample at %d sequence lengths, expected at least %d"):format(what, #points, enough), 0)
    end
    local slope <const>, intercept <const> = line(points)
    local each_s <const> = curve and parabola_at(points, seq_len) or slope * seq_len + intercept
    return function(samples) return each_s * samples end
  end
  local own <const> = at_length(rows, seq_len)
  if #own == 0 then
    error(("profile: %s: no times at sequence length %d, expected one of %s"):format(what, seq_len, lengths(rows)), 0)
  end
  if mode == "static" then
    local each_s <const> = own[1].forward_s
    return function(samples) return each_s * samples end
  end
  if #own < ENOUGH then
    error(("profile: %s: times of %d batch sizes at sequence length %d, expected at least %d"):format(what, #own, seq_len, ENOUGH), 0)
  end
  local points <const> = {}
  for i, row in ipairs(own) do points[i] = { row.samples, row.forward_s * row.samples } end
  local slope <const>, intercept <const> = line(points)
  return function(samples) return slope * samples + intercept end
end

--- The value of the size, else of the next larger one, else of the largest; and that size.
local function at_least(by, size)
  if by[size] then return by[size], size end
  local found
  for other in pairs(by) do
    local nearer <const> = not found or (other > size and (other < found or found < size)) or (found < size and other > found)
    if nearer then found = other end
  end
  return by[found], found
end

--- The same of a machine's figure, which no smaller group tells.
local function of_group(by, size, what)
  local value <const>, found <const> = at_least(by, size)
  if found < size then
    error(("profile: %s are of up to %d, %d are asked for; expected the files of more nodes, or less parallelism"):format(
      what, found, size), 0)
  end
  return value
end

--- Bytes by degree, times a factor, as a function; of a degree without a row they shrink with the degree.
local function degrees(rows, factor)
  local by <const> = {}
  for _, row in ipairs(rows) do by[row.degree] = row.bytes * factor end
  return function(degree)
    local bytes <const>, other <const> = at_least(by, degree)
    return other == degree and bytes or bytes * other / degree
  end
end

--- The record at the sequence length; or, by sequence, a layer's states of the shortest and all else of the longest, scaled.
local function memory_at(rows, mode, seq_len, what)
  if mode == "sequence" then return rows[1], rows[#rows], seq_len / rows[#rows].seq_len end
  local own <const> = at_length(rows, seq_len)[1]
  if not own then
    error(("profile: %s: no memory at sequence length %d, expected one of %s"):format(what, seq_len, lengths(rows)), 0)
  end
  return own, own, 1
end

--- Seconds of a message of so many bytes: as profiled at just that size, else on the fitted line.
local function message_times(messages)
  local tables <const> = {}
  for _, row in ipairs(messages) do
    local sizes <const> = tables[row.kind] or {}
    tables[row.kind] = sizes
    sizes[row.gpus] = sizes[row.gpus] or { exact = {}, points = {} }
    local one <const> = sizes[row.gpus]
    one.exact[row.bytes], one.points[#one.points + 1] = row.seconds, { row.bytes, row.seconds }
  end
  for _, sizes in pairs(tables) do
    for _, one in pairs(sizes) do one.slope, one.intercept = line(one.points) end
  end
  return function(kind, gpus, bytes)
    local one <const> = of_group(tables[kind], gpus, "messages by GPUs")
    return one.exact[bytes] or one.slope * bytes + one.intercept
  end
end

---@class tangram.GalvatronFits
---@field forward_s fun(samples: number): number a layer's forward
---@field ends_forward_s fun(samples: number): number embedding's and head's
---@field parameter_bytes number of a layer at 4 bytes a parameter
---@field activation_bytes fun(degree: integer): number of a layer and sample
---@field checkpoint_bytes number
---@field ends table whole, first, last: { states_bytes, activation_bytes } as functions of the degree
---@field reduce_s_per_byte fun(gpus: integer, consecutive: boolean): number
---@field p2p_s_per_byte fun(stages: integer): number
---@field message_s fun(kind: string, gpus: integer, bytes: number): number
---@field overlap number how many times slower what runs side by side is

--- What a profile says of a sequence length.
---@param from tangram.GalvatronProfile
---@param seq_len integer
---@return tangram.GalvatronFits
function profile.at(from, seq_len)
  local states <const>, kept <const>, factor <const> = memory_at(from.layer.memory, from.memory_mode, seq_len, "layer")
  local ends <const> = {}
  for _, place in ipairs { "whole", "first", "last" } do
    local _, at <const>, scale <const> = memory_at(from.ends.memory[place], from.memory_mode, seq_len, place)
    ends[place] = { states_bytes = degrees(at.states_bytes, 1), activation_bytes = degrees(at.activation_bytes, scale) }
  end
  local beside <const>, apart <const>, p2p <const> = {}, {}, {}
  for _, row in ipairs(from.hardware.allreduce) do (row.consecutive and beside or apart)[row.gpus] = row.bytes_per_s end
  for _, row in ipairs(from.hardware.p2p) do p2p[row.stages] = row.bytes_per_s end
  return {
    forward_s = forward_of(from.layer.times, from.time_mode, seq_len, true, "layer"),
    ends_forward_s = forward_of(from.ends.times, from.time_mode, seq_len, false, "embedding and head"),
    parameter_bytes = states.parameter_bytes, activation_bytes = degrees(kept.activation_bytes, factor),
    checkpoint_bytes = kept.checkpoint_bytes * factor, ends = ends, overlap = from.hardware.overlap,
    reduce_s_per_byte = function(gpus, consecutive)
      -- a group of all GPUs is profiled side by side alone
      local largest_apart <const> = select(2, at_least(apart, gpus)) or 0
      return 1 / of_group(not consecutive and largest_apart >= gpus and apart or beside, gpus, "all-reduce rates by GPUs")
    end,
    p2p_s_per_byte = function(stages) return 1 / of_group(p2p, stages, "rates by stages") end,
    message_s = message_times(from.hardware.messages),
  }
end

return profile
