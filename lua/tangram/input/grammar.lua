--- What the readers of tools' output share: the frame that makes a reader total, lines, numbers, refusals.
local lpeg <const> = require "lpeg"

local P <const>, R <const>, S <const>, C <const> = lpeg.P, lpeg.R, lpeg.S, lpeg.C

local grammar <const> = {}

grammar.KIB, grammar.MIB = 1 << 10, 1 << 20
--- So much of a text is looked at to guess its kind.
grammar.SNIFF_BYTES = 64 << 10

grammar.blank = S " \t"
grammar.spaces = grammar.blank ^ 0
grammar.digits = R "09" ^ 1
--- A decimal number as the tools print it. At most 17 digits before the point: more is no quantity of theirs.
grammar.number = C(R "09" ^ -17 * (P "." * R "09" ^ 0) ^ -1 * #(1 - R "09" + -1)) / tonumber
--- What stands between blanks.
grammar.token = C((1 - S " \t") ^ 1)
--- All tokens of a line.
grammar.tokens = lpeg.Ct((grammar.spaces * grammar.token) ^ 0)

--- A piece of the input, fit to stand in a message of one line.
---@param text string
---@return string
function grammar.quote(text)
  local short <const> = text:gsub("[%c\x7f-\xff]", "?")
  return #short > 40 and short:sub(1, 37) .. "..." or short
end

local Refusal <const> = {}

--- Refuses the text: ends the reader that is at work, which returns nil and this sentence.
---@param line integer? where it goes wrong
---@param format string what is wrong, what is expected or what to run instead
function grammar.refuse(line, format, ...)
  error(setmetatable({ (line and ("line %d: "):format(line) or "") .. format:format(...) }, Refusal), 0)
end

--- The lines of a text with their numbers. Linear in time; nothing is copied but the line at hand.
---@param text string
---@return fun(): integer?, string?
function grammar.lines(text)
  local number, from = 0, 1
  return function()
    if from > #text then return nil end
    local newline <const> = text:find("\n", from, true) or #text + 1
    local line <const> = text:sub(from, newline - 1)
    number, from = number + 1, newline + 1
    return number, line
  end
end

--- A text without what terminals and shells add: colours, carriage returns, byte order marks, the second bytes of UTF-16.
function grammar.clean(text)
  text = text:gsub("^\xEF\xBB\xBF", ""):gsub("^\xFF\xFE", "")
  if text:find("[\27\r%z]") then text = text:gsub("\27%[[%d;]*%a", ""):gsub("[\r%z]", "") end
  return text
end

--- A reader of one format.
---@class Reader
---@field kind string as `--from` names it
---@field summary string one line for help
---@field command string what makes such a text
---@field limit_bytes integer? longer texts are refused; 256 KiB unless given: tens of times what the commands print
---@field sniff fun(text: string): number from 0 to 1: how surely a text is of this kind; looks at its first 64 KiB
---@field read fun(text: string, options: table?): table?, string? facts, or nil and a refusal of one line

--- A message without what a damaged text may have put in it.
local function one_line(message) return (message:gsub("%c", "?")) end

--- A text without blanks around it. In linear time, as "^%s*(.-)%s*$" is not.
---@param text string
---@return string
function grammar.trim(text) return text:find "%S" and text:match "^%s*(.*%S)" or "" end

--- Makes a total reader of one whose `read` gets a cleaned text and may call `grammar.refuse`.
---@param definition Reader
---@return Reader
function grammar.reader(definition)
  local read <const>, sniff <const> = definition.read, definition.sniff
  local limit <const> = definition.limit_bytes or 256 * grammar.KIB
  function definition.sniff(text)
    local ok <const>, sure <const> = pcall(sniff, grammar.clean(text:sub(1, grammar.SNIFF_BYTES)))
    if not ok and getmetatable(sure) ~= Refusal then error(sure, 0) end
    return ok and sure or 0.6 -- of this kind, but refused
  end
  function definition.read(text, options)
    if #text > limit then
      return nil, ("%d KiB of text, expected at most %d KiB: far more than '%s' prints"):format(#text // grammar.KIB,
        limit // grammar.KIB, definition.command)
    end
    local ok <const>, facts <const> = pcall(read, grammar.clean(text), options or {})
    if ok then
      facts.kind = definition.kind
      for i, warning in ipairs(facts.warnings) do facts.warnings[i] = one_line(warning) end
      return facts
    end
    if getmetatable(facts) ~= Refusal then error(facts, 0) end
    return nil, one_line(facts[1])
  end
  return definition
end

--- Neighbours that are alike in all but count become one entry.
---@param gpus table[] one a GPU, in index order
---@return table[] each with count
function grammar.runs(gpus)
  local merged <const> = {}
  for _, gpu in ipairs(gpus) do
    local last <const> = merged[#merged]
    local same = last ~= nil
    for _, field in ipairs { "name", "memory_bytes", "pcie_bytes_per_s", "compute_capability" } do
      same = same and last[field] == gpu[field]
    end
    if same then
      last.count = last.count + 1
    else
      merged[#merged + 1] = { name = gpu.name, count = 1, memory_bytes = gpu.memory_bytes, pcie_bytes_per_s = gpu.pcie_bytes_per_s,
        compute_capability = gpu.compute_capability }
    end
  end
  return merged
end

return grammar
