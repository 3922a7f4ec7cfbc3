--- What the shipped process adapter may do and no other plugin: ask the one program that the user's own recipe or command
--- line names. The program is started when first asked, kept, and started anew after it failed.
local core <const> = require "tangram.core"
local protocol <const> = require "tangram.protocol"

local program <const> = {}

--- The share of a query's seconds after which a silent program is ended: early enough to say so before the query is.
local SHARE <const> = 0.95

--- A command as a list of words: no shell looks at it.
---@param command any a string, cut at blanks, or a list of strings
---@return string[]? words nil if it is neither
function program.words(command)
  local words <const> = {}
  if type(command) == "string" then
    for word in command:gmatch "%S+" do words[#words + 1] = word end
  elseif type(command) == "table" then
    for i, word in ipairs(command) do
      if type(word) ~= "string" then return nil end
      words[i] = word
    end
  end
  return #words > 0 and words or nil
end

--- The module that the adapter's file gets: ask(slice, island, ctx) -> plans | nil, why. Raises one line where the program
--- fails or its reply is wrong.
---@param words string[]
---@return { ask: fun(slice: tangram.Slice, island: tangram.Island, ctx: table): table[]?, string? }
function program.bind(words)
  local running, id = nil, 0
  local function fail(text)
    if running then running:close() end
    running = nil
    error(text, 0)
  end
  local function ask(slice, island, ctx)
    if not running then
      local why
      running, why = core.process(words)
      if not running then fail(why) end
    end
    id = id + 1
    local reply <const>, why <const> = running:ask(protocol.ask(id, slice, island, ctx),
      SHARE * math.min(ctx.options.seconds or math.huge, ctx.budget.seconds))
    if not reply then fail(why) end
    local ok <const>, plans <const>, reason <const> = pcall(protocol.read, reply, id)
    if not ok then fail(("%s: %s"):format(words[1], plans)) end
    return plans, reason
  end
  return { ask = ask }
end

local function contents(path)
  local file <const> = io.open(path, "rb")
  if not file then return nil end
  local text <const> = file:read "a" -- nil for a folder
  file:close()
  return text and core.sha256(text)
end

--- Hashes of the files that a command names, the program's own among them: what its answers depend on, as far as can be seen.
---@param words string[]
---@return table<string, string>
function program.files(words)
  local hashes <const> = {}
  for i, word in ipairs(words) do
    local hash = contents(word)
    if i == 1 and not word:find("/", 1, true) then
      hash = nil
      for folder in (os.getenv "PATH" or ""):gmatch "[^:]+" do hash = hash or contents(folder .. "/" .. word) end
    end
    hashes[word] = hash
  end
  return hashes
end

return program
