--- HTML and SVG as text: templates in which values are escaped unless the template says that they are markup.
local markup <const> = {}

local entities <const> = { ["&"] = "&amp;", ["<"] = "&lt;", [">"] = "&gt;", ['"'] = "&quot;", ["'"] = "&#39;" }

--- Any bytes as text that can stand in an element or in a quoted attribute: what is not UTF-8 or not allowed becomes U+FFFD.
---@param text string
---@return string
function markup.escape(text)
  if not utf8.len(text) then text = text:gsub("[\x80-\xff]+", "\u{FFFD}") end
  return (text:gsub("[%z\1-\8\11\12\14-\31\127]", "\u{FFFD}"):gsub("[&<>\"']", entities))
end

--- The first characters of a text that is longer than `most`, and an ellipsis.
---@param text string
---@param most integer
---@return string
function markup.short(text, most)
  if not utf8.len(text) or utf8.len(text) <= most then return text end
  return text:sub(1, utf8.offset(text, most) - 1) .. "…"
end

--- A number with at most `decimals` digits behind the point, for coordinates.
---@param x number
---@param decimals integer? 2
---@return string
function markup.number(x, decimals)
  local digits <const> = ("%." .. (decimals or 2) .. "f"):format(x)
  return (digits:find(".", 1, true) and digits:gsub("%.?0+$", "") or digits)
end

local function value_of(sigil, name, values)
  local value <const> = values[name]
  if value == nil then error(("internal: a template needs '%s'"):format(name)) end
  if sigil == "@" then return value end
  return math.type(value) == "float" and markup.number(value) or markup.escape(tostring(value))
end

--- `$name` stands for the value as text (numbers as coordinates), `@name` for markup as it is.
---@param template string
---@param values table<string, string|number>
---@return string
function markup.fill(template, values)
  return (template:gsub("([$@])(%l[%w_]*)", function(sigil, name) return value_of(sigil, name, values) end))
end

--- Rows of a table; the first is the heading.
---@param rows string[][]
---@param options { right: integer[]?, caption: string?, class: string? }? right: columns of numbers
---@return string
function markup.grid(rows, options)
  options = options or {}
  local right <const>, lines <const> = {}, {}
  for _, column in ipairs(options.right or {}) do right[column] = true end
  for r, row in ipairs(rows) do
    local cells <const> = {}
    for c, cell in ipairs(row) do
      cells[c] = markup.fill("<@name@attributes>@content</@name>", {
        name = r == 1 and "th" or "td",
        attributes = (r == 1 and ' scope="col"' or "") .. (right[c] and ' class="right"' or ""),
        content = markup.escape(cell),
      })
    end
    lines[r] = "<tr>" .. table.concat(cells) .. "</tr>\n"
  end
  local caption <const> = options.caption and markup.fill("<caption>$text</caption>\n", { text = options.caption }) or ""
  return markup.fill('<div class="wide"><table class="$class">\n@caption<thead>\n@head</thead>\n<tbody>\n@body</tbody>\n'
    .. "</table></div>\n", { class = options.class or "plain", caption = caption, head = lines[1], body = table.concat(lines, "", 2) })
end

return markup
