--- help(x): from what checks options (schemas, contracts of plugins) and from the comments that stand above functions.
local contract <const> = require "tangram.contract"
local core <const> = require "tangram.core"
local loader <const> = require "tangram.loader"
local schema <const> = require "tangram.schema"
local sorted_keys <const> = require "tangram.sorted_keys"

local help <const> = {}

--- Modules whose `fields` say what a table may hold.
local tables <const> = {
  model = "tangram.model", cluster = "tangram.cluster", training = "tangram.training", plan = "tangram.planner",
}

--- The lines of the file or embedded module that a function comes from.
local function source_lines(source)
  local name <const> = source:match "^@(.*)"
  if not name then return nil end
  local ok <const>, terminal <const> = pcall(require, "tangram.terminal") -- not there in stock Lua
  local text = ok and terminal.source(name)
  if not text then
    local file <const> = io.open(name, "rb")
    text = file and file:read "a"
    if file then file:close() end
  end
  if not text then return nil end
  local lines <const> = {}
  for line in (text .. "\n"):gmatch "(.-)\n" do lines[#lines + 1] = line end
  return lines
end

--- The comment above a function: { signature =, text = { lines }, fields = { "name: type, doc" } }.
local function doc_of(f)
  local info <const> = debug.getinfo(f, "Su")
  local parameters <const> = {}
  for i = 1, info.nparams do parameters[i] = debug.getlocal(f, i) end
  if info.isvararg then parameters[#parameters + 1] = "..." end
  local doc <const> = { text = {}, fields = {}, name = "function" }
  local lines <const> = info.what == "Lua" and source_lines(info.source)
  if lines and lines[info.linedefined] then
    doc.name = lines[info.linedefined]:match "function%s+([%w_.:]+)" or lines[info.linedefined]:match "([%w_.]+)%s*=%s*function"
      or doc.name
    local first = info.linedefined
    while first > 1 and lines[first - 1]:find "^%s*%-%-%-" do first = first - 1 end
    for i = first, info.linedefined - 1 do
      local line <const> = lines[i]:match "^%s*%-%-%-%s?(.*)"
      local parameter <const>, returned <const> = line:match "^@param%s+(.*)", line:match "^@return%s+(.*)"
      if parameter then
        doc.fields[#doc.fields + 1] = (parameter:gsub("^(%S+)%s+", "%1: ", 1))
      elseif returned then
        doc.fields[#doc.fields + 1] = "returns " .. returned
      elseif not line:find "^@" then
        doc.text[#doc.text + 1] = line
      end
    end
  end
  doc.signature = ("%s(%s)"):format(doc.name, info.what == "C" and "..." or table.concat(parameters, ", "))
  return doc
end

local function of_function(f)
  local doc <const> = doc_of(f)
  local lines <const> = { doc.signature }
  for _, line in ipairs(doc.text) do lines[#lines + 1] = "  " .. line end
  for _, line in ipairs(doc.fields) do lines[#lines + 1] = "    " .. line end
  if #lines == 1 then lines[2] = "  (nothing is written about it)" end
  return table.concat(lines, "\n")
end

local function of_fields(title, fields)
  return title .. "\n" .. schema.document(fields)
end

local function of_plugin(plugin)
  local options <const> = plugin.option_fields or plugin.options or {}
  return ("%s, a %s: %s\n%s"):format(plugin.name, contract.nouns[plugin.kind], plugin.description or "",
    next(options) and of_fields("its options:", options) or "it has no options")
end

--- Functions with the first sentence of what is written above them, and the fields.
local function of_module(module)
  local lines <const> = {}
  for _, name in ipairs(sorted_keys(module)) do
    local member <const> = module[name]
    if type(member) == "function" then
      local doc <const> = doc_of(member)
      local sentence <const> = table.concat(doc.text, " "):match "^.-[.:]%f[%s%z]" or doc.text[1] or ""
      lines[#lines + 1] = ("  %s  %s"):format(doc.signature:gsub("^[^(]*", name), sentence):gsub(" +$", "")
    end
  end
  if #lines > 0 then table.insert(lines, 1, "functions:") end
  if type(module.fields) == "table" then lines[#lines + 1] = of_fields("fields:", module.fields) end
  return #lines > 0 and table.concat(lines, "\n") or "a table; its name alone prints it"
end

--- What all plugins of that name say of themselves; nil if there is none.
local function of_plugins_named(name)
  local texts <const> = {}
  for _, kind in ipairs(sorted_keys(contract.plugins)) do
    for _, known in ipairs(loader.list(kind)) do
      if known == name then
        local plugin <const> = loader.describe(kind, name)
        plugin.kind = kind
        texts[#texts + 1] = of_plugin(plugin)
      end
    end
  end
  return texts[1] and table.concat(texts, "\n")
end

--- All words that help("…") knows.
local function topics()
  local words <const>, seen <const> = sorted_keys(tables), {}
  for _, kind in ipairs(sorted_keys(contract.plugins)) do
    words[#words + 1] = kind
    for _, name in ipairs(loader.list(kind)) do
      words[#words + 1] = not seen[name] and name or nil
      seen[name] = true
    end
  end
  return words
end

local function of_word(word)
  if tables[word] then return of_fields(word .. ", a table with these fields:", require(tables[word]).fields) end
  if contract.plugins[word] then
    return ("%s\nknown: %s"):format(of_fields(("a %s is one file that returns a table with these fields:"):format(contract.nouns[word]),
      contract.plugins[word]), table.concat(loader.list(word), ", "))
  end
  local text <const> = of_plugins_named(word)
  if text then return text end
  local near <const> = core.nearest(word, topics())
  return ("nothing is known about '%s'%s"):format(word, near and (" (did you mean '%s'?)"):format(near)
    or ", expected one of " .. table.concat(topics(), ", "))
end

local function overview()
  return [[
help(x)      what x is: a function, a module, a plugin; for example help(tangram.plan)
help "word"  fields and options: ]] .. table.concat(topics(), ", ") .. [[

An expression prints its value; tables are cut three levels down, show(x, 9) opens more. Tab completes names.
Ctrl-C drops the line or stops what runs; Ctrl-D leaves.]]
end

--- What x is and takes, as text. Without x: what the REPL can do.
---@param x any a function, module, plugin or plan, or a word such as "training"
---@return string
function help.text(x)
  if x == nil then return overview() end
  if type(x) == "string" then return of_word(x) end
  if type(x) == "function" then return of_function(x) end
  if type(x) ~= "table" then return "a " .. type(x) end
  if x.api and contract.plugins[x.kind] then return of_plugin(x) end
  if x.format == "tangram.plan/1" then return "a plan; its name alone prints the report, and its fields are:\n  " ..
    table.concat(sorted_keys(x), ", ") end
  return of_module(x)
end

return help
