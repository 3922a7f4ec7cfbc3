--- How far predictions are from measured figures, over a group of rows.
local summary <const> = {}

local function quantile(sorted, q)
  local at <const> = 1 + q * (#sorted - 1)
  local lower <const> = math.floor(at)
  return sorted[lower] + (at - lower) * ((sorted[lower + 1] or sorted[lower]) - sorted[lower])
end

--- Ranks from 1, equal values sharing their mean.
local function ranks_of(values)
  local order <const>, ranks <const> = {}, {}
  for i = 1, #values do order[i] = i end
  table.sort(order, function(a, b)
    if values[a] ~= values[b] then return values[a] < values[b] end
    return a < b
  end)
  local i = 1
  while i <= #order do
    local j = i
    while j < #order and values[order[j + 1]] == values[order[i]] do j = j + 1 end
    for k = i, j do ranks[order[k]] = (i + j) / 2 end
    i = j + 1
  end
  return ranks
end

--- Spearman's rank correlation; nil for fewer than three pairs or if one side is constant.
---@param xs number[]
---@param ys number[]
---@return number?
function summary.spearman(xs, ys)
  if #xs < 3 then return nil end
  local a <const>, b <const>, mean <const> = ranks_of(xs), ranks_of(ys), (#xs + 1) / 2
  local ab, aa, bb = 0, 0, 0
  for i = 1, #a do
    ab, aa, bb = ab + (a[i] - mean) * (b[i] - mean), aa + (a[i] - mean) ^ 2, bb + (b[i] - mean) ^ 2
  end
  return aa > 0 and bb > 0 and ab / (aa * bb) ^ 0.5 or nil
end

---@class tangram.Errors
---@field count integer
---@field mape number mean of |predicted / measured - 1|
---@field median number
---@field p90 number
---@field bias number geometric mean of predicted / measured, less 1
---@field worst { id: string, error: number } signed
---@field low { id: string, error: number } the largest underestimate (or the smallest overestimate)
---@field spearman number?

--- The errors of pairs { id, predicted, measured }; nil without any.
---@param pairs_of { id: string, predicted: number, measured: number }[]
---@return tangram.Errors?
function summary.of(pairs_of)
  if #pairs_of == 0 then return nil end
  local sizes <const>, xs <const>, ys <const> = {}, {}, {}
  local total, logs, worst, low = 0, 0, nil, nil
  for i, pair in ipairs(pairs_of) do
    local error_of <const> = pair.predicted / pair.measured - 1
    sizes[i], xs[i], ys[i] = math.abs(error_of), pair.predicted, pair.measured
    total, logs = total + sizes[i], logs + math.log(pair.predicted / pair.measured)
    if not worst or sizes[i] > math.abs(worst.error) then worst = { id = pair.id, error = error_of } end
    if not low or error_of < low.error then low = { id = pair.id, error = error_of } end
  end
  table.sort(sizes)
  return {
    count = #pairs_of, mape = total / #pairs_of, median = quantile(sizes, 0.5), p90 = quantile(sizes, 0.9),
    bias = math.exp(logs / #pairs_of) - 1, worst = worst, low = low, spearman = summary.spearman(xs, ys),
  }
end

return summary
