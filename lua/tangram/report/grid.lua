--- Tables for the terminal: columns as wide as their longest cell.
local grid <const> = {}

local function width_of(cell) return utf8.len(cell) or #cell end

--- Rows of strings, the first the heading, as lines.
---@param rows string[][]
---@param options { right: integer[]?, indent: string? }? columns to align to the right
---@return string
function grid.render(rows, options)
  options = options or {}
  local right <const>, widths <const> = {}, {}
  for _, column in ipairs(options.right or {}) do right[column] = true end
  for _, row in ipairs(rows) do
    for c, cell in ipairs(row) do widths[c] = math.max(widths[c] or 0, width_of(cell)) end
  end
  local lines <const> = {}
  for i, row in ipairs(rows) do
    local cells <const> = {}
    for c, cell in ipairs(row) do
      local pad <const> = (" "):rep(widths[c] - width_of(cell))
      cells[c] = right[c] and pad .. cell or cell .. pad
    end
    lines[i] = (options.indent or "  ") .. table.concat(cells, "  "):gsub("%s+$", "") .. "\n"
  end
  return table.concat(lines)
end

return grid
