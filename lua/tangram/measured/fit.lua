--- Constants of the analytic cost model from measured times: the most likely ones, given where they usually lie.
---
--- Each constant is log-normal around a start with a stated spread; the logarithm of predicted over measured time has a spread
--- of NOISE, with heavier tails (Huber) so that a few odd runs don't lead. Gauss-Newton steps with Levenberg's damping. A
--- constant that the runs say nothing about keeps its start: so three runs suffice, and tell what they can.
local predict <const> = require "tangram.measured.predict"

local fit <const> = {}

local NOISE <const>, HUBER <const> = 0.03, 3 -- of repeated runs (public ones show 3 to 6 %); where the tails begin, in NOISE
local STEP <const>, ROUNDS <const> = 0.02, 12
local DETERMINED <const> = 0.7 -- of the prior's spread: above it the runs have told little

---@class tangram.Unknown
---@field name string a constant of the catalogue
---@field gpu string? only of this GPU type, by key; nil: of all
---@field link string? a share of this kind of link, in place of a GPU's
---@field start number
---@field spread number standard deviation of its logarithm
---@field min number?
---@field max number?

--- Puts the unknowns' values where predictions of these setups find them.
---@param unknowns tangram.Unknown[]
---@param values number[]
---@param setups table[] of measured.setup
function fit.apply(unknowns, values, setups)
  for _, s in ipairs(setups) do
    local seen <const> = {}
    for _, device in ipairs(s.ranks) do
      if not seen[device] then
        seen[device] = true
        device.fixed_constants = device.fixed_constants or device.constants or {}
        local own <const> = {}
        for name, value in pairs(device.fixed_constants) do own[name] = value end
        for i, one in ipairs(unknowns) do
          if not one.link and (not one.gpu or one.gpu == device.key) then own[one.name] = values[i] end
        end
        device.constants = own
      end
    end
    for i, one in ipairs(unknowns) do
      if one.link == s.network.kind then s.network[one.name] = values[i] end
    end
  end
end

--- Logarithms of predicted over measured, in units of NOISE.
local function residuals(problem, logs)
  local values <const>, list <const> = {}, {}
  for i, x in ipairs(logs) do values[i] = math.exp(x) end
  fit.apply(problem.unknowns, values, problem.setups)
  for i, s in ipairs(problem.setups) do
    list[i] = math.log(predict.of(s, problem.plugin, problem.p2p).seconds / problem.measured[i]) / NOISE
  end
  return list
end

local function loss(problem, logs, r)
  local total = 0
  for _, x in ipairs(r) do
    local size <const> = math.abs(x)
    total = total + (size <= HUBER and x * x or HUBER * (2 * size - HUBER))
  end
  for i, one in ipairs(problem.unknowns) do total = total + ((logs[i] - math.log(one.start)) / one.spread) ^ 2 end
  return total
end

--- Solves a x = b for a symmetric positive definite a (rows), by elimination; a and b are used up.
local function solve(a, b)
  local n <const> = #b
  for i = 1, n do
    for j = i + 1, n do
      local factor <const> = a[j][i] / a[i][i]
      for k = i, n do a[j][k] = a[j][k] - factor * a[i][k] end
      b[j] = b[j] - factor * b[i]
    end
  end
  for i = n, 1, -1 do
    for k = i + 1, n do b[i] = b[i] - a[i][k] * b[k] end
    b[i] = b[i] / a[i][i]
  end
  return b
end

--- Normal equations at a point: curvature and slope of the loss.
local function equations(problem, logs, r)
  local n <const>, unknowns <const> = #logs, problem.unknowns
  local slopes <const> = {}
  for i = 1, n do
    local moved <const> = table.move(logs, 1, n, 1, {})
    local up <const> = not unknowns[i].max or math.exp(logs[i] + STEP) <= unknowns[i].max
    moved[i] = moved[i] + (up and STEP or -STEP)
    local there <const> = residuals(problem, moved)
    slopes[i] = {}
    for k = 1, #r do slopes[i][k] = (there[k] - r[k]) / (up and STEP or -STEP) end
  end
  local curvature <const>, slope <const> = {}, {}
  for i = 1, n do
    local prior <const> = 1 / unknowns[i].spread ^ 2
    curvature[i], slope[i] = {}, prior * (math.log(unknowns[i].start) - logs[i])
    for j = 1, n do
      local sum = i == j and prior or 0
      for k = 1, #r do sum = sum + slopes[i][k] * slopes[j][k] * math.min(1, HUBER / math.max(1e-12, math.abs(r[k]))) end
      curvature[i][j] = sum
    end
    for k = 1, #r do slope[i] = slope[i] - slopes[i][k] * r[k] * math.min(1, HUBER / math.max(1e-12, math.abs(r[k]))) end
  end
  return curvature, slope
end

local function clamp(one, x)
  local value <const> = math.exp(x)
  if one.max and value > one.max then return math.log(one.max) end
  if one.min and value < one.min then return math.log(one.min) end
  return x
end

local function copy_rows(a)
  local b <const> = {}
  for i = 1, #a do b[i] = table.move(a[i], 1, #a[i], 1, {}) end
  return b
end

--- Spreads left: square roots of the inverse curvature's diagonal.
local function spreads_of(curvature)
  local spreads <const> = {}
  for i = 1, #curvature do
    local unit <const> = {}
    for j = 1, #curvature do unit[j] = j == i and 1 or 0 end
    spreads[i] = solve(copy_rows(curvature), unit)[i] ^ 0.5
  end
  return spreads
end

--- Fits the unknowns; the setups keep the values found.
---@param problem { setups: table[], measured: number[], unknowns: tangram.Unknown[], plugin: table, p2p: string }
---@return { value: number, spread: number, determined: boolean, at_bound: boolean }[] found one for each unknown
---@return { rms: number, start_rms: number } errors root mean square of the logarithms, after and before
function fit.run(problem)
  local unknowns <const> = problem.unknowns
  if #unknowns == 0 then
    fit.apply(unknowns, {}, problem.setups)
    return {}, {}
  end
  local logs = {}
  for i, one in ipairs(unknowns) do logs[i] = clamp(one, math.log(one.start)) end
  local r = residuals(problem, logs)
  local function rms()
    local sum = 0
    for _, x in ipairs(r) do sum = sum + x * x end
    return NOISE * (sum / #r) ^ 0.5
  end
  local start_rms <const>, damping, curvature = rms(), 1e-3, nil
  local best = loss(problem, logs, r)
  for _ = 1, ROUNDS do
    local slope
    curvature, slope = equations(problem, logs, r)
    local gained = 0
    for _ = 1, 6 do
      local damped <const> = copy_rows(curvature)
      for i = 1, #logs do damped[i][i] = damped[i][i] * (1 + damping) end
      local step <const> = solve(damped, table.move(slope, 1, #slope, 1, {}))
      local trial <const> = {}
      for i = 1, #logs do trial[i] = clamp(unknowns[i], logs[i] + math.max(-0.7, math.min(0.7, step[i]))) end
      local there <const> = residuals(problem, trial)
      local value <const> = loss(problem, trial, there)
      if value < best then
        gained, best, logs, r, damping = best - value, value, trial, there, damping / 5
        break
      end
      damping = damping * 8
    end
    if gained < 1e-4 * best then break end
  end
  local spreads <const>, found <const> = spreads_of(curvature), {}
  for i, one in ipairs(unknowns) do
    local value <const> = math.exp(logs[i])
    found[i] = {
      value = value, spread = spreads[i], determined = spreads[i] < DETERMINED * one.spread,
      at_bound = one.max and value >= one.max * (1 - 1e-9) or one.min and value <= one.min * (1 + 1e-9) or false,
    }
  end
  residuals(problem, logs)
  return found, { rms = rms(), start_rms = start_rms }
end

return fit
