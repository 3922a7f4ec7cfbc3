--- YAML by libyaml, with bounds: a document of a command's output or of a configuration, never of more than it takes.
local yaml <const> = {}

local LARGEST <const>, DEEPEST <const> = 512 << 10, 64 -- bytes; brackets open at a time, which libyaml takes the square of

--- Lines that are no YAML but stand in pastes: a prompt in front, and "..." where something was left out. Their places stay.
local function without_paste_marks(text)
  text = ("\n" .. text:gsub("\r\n", "\n")):gsub("^(%s*)[$#>][^\n]*", "%1")
  return (text:gsub("\n[ \t]*%.%.%.[ \t]*%f[\n\0]", "\n"):sub(2))
end

local function too_deep(text)
  local depth = 0
  for bracket in text:gmatch "[%[%]{}]" do
    if bracket == "[" or bracket == "{" then depth = depth + 1 else depth = math.max(0, depth - 1) end
    if depth > DEEPEST then return true end
  end
  return false
end

--- The documents of a text.
---@param text string
---@return any[]? documents
---@return string? why "line N: …"
function yaml.read(text)
  local found <const>, lyaml <const> = pcall(require, "lyaml")
  if not found then return nil, "reading YAML takes the package lua-yaml (apt-get install lua-yaml); the JSON form needs none" end
  if #text > LARGEST then
    return nil, ("%d KiB of YAML, expected at most %d; the JSON form may be larger"):format(#text >> 10, LARGEST >> 10)
  end
  if too_deep(text) then return nil, ("more than %d brackets open at a time, expected YAML as people write it"):format(DEEPEST) end
  local ok <const>, documents <const> = pcall(lyaml.load, without_paste_marks(text), { all = true })
  if ok then return documents end
  local line <const>, what <const> = tostring(documents):match "^(%d+):%d+: ([^\n]*)"
  if not line then return nil, "not YAML, or nested too deeply" end
  return nil, ("line %s: not YAML: %s"):format(line, what)
end

return yaml
