--- `tangram adapter`: lists parallelizers and their options, starts a new one, checks one.
local core <const> = require "tangram.core"
local loader <const> = require "tangram.loader"
local options <const> = require "tangram.cli.options"
local schema <const> = require "tangram.schema"

local function make_parser()
  local parser <const> = options.parser("tangram adapter", "List, describe, start and check parallelizers.",
    "tangram adapter new mine && tangram adapter check mine.lua")
  parser:command_target "command"
  parser:require_command(true)
  parser:command("list", "names and descriptions of the parallelizers that are found")
  parser:command("show", "one parallelizer's options"):argument("adapter", "a name or the path of a .lua file")
  local new <const> = parser:command("new", "write NAME.lua here, a commented adapter that works as it stands")
  new:argument("name", "letters, digits, _ and -")
  local check <const> = parser:command("check", "run the conformance suite")
  check:argument("adapter", "a name or the path of a .lua file")
  check:option("--option", "NAME=VALUE of the adapter's options (may be repeated)"):count "*"
  check:option("--cost", "cost model: a name or a path"):default "analytic"
  check:option("--query-seconds", "limit of one question"):default "10":convert(tonumber)
  parser:option("--lua-dir", "look for adapters and cost models here first")
  return parser
end

local function list()
  local names <const>, width = loader.list "parallelizer", 0
  for _, name in ipairs(names) do width = math.max(width, #name) end
  for _, name in ipairs(names) do
    local ok <const>, plugin <const> = pcall(loader.describe, "parallelizer", name)
    print(("%-" .. width .. "s  %s"):format(name, ok and plugin.description or "can't be loaded: " .. tostring(plugin)))
  end
  return 0
end

local function show(args)
  local plugin <const> = loader.describe("parallelizer", args.adapter)
  print(("%s: %s"):format(plugin.name, plugin.description))
  print(next(plugin.options) and "options:\n" .. schema.document(plugin.options) or "no options")
  return 0
end

local function new(args)
  local name <const> = args.name:gsub("%.lua$", "")
  if not name:match "^[%w_-]+$" then
    error(("name: got '%s', expected letters, digits, _ and -"):format(args.name), 0)
  end
  local path <const> = name .. ".lua"
  local there <const> = io.open(path, "rb")
  if there then
    there:close()
    error(path .. ": is there already, expected a new name", 0)
  end
  options.write(path, (require("tangram.cli.adapter_template"):gsub("@NAME@", name)))
  print(("%s is written; next: tangram adapter check %s"):format(path, path))
  return 0
end

local function check(args)
  local values <const> = {}
  for _, word in ipairs(args.option) do
    local name <const>, text <const> = word:match "^([%w_]+)=(.*)$"
    if not name then error(("--option: got '%s', expected NAME=VALUE"):format(word), 0) end
    local value <const>, why <const> = core.json_decode(text)
    values[name] = why and text or value
  end
  local conformance <const> = require "tangram.conformance"
  local report <const> = conformance.check({ name = args.adapter, options = values }, args.cost, args.query_seconds)
  local unjudged = 0
  print(report.path)
  for _, result in ipairs(report.results) do
    unjudged = unjudged + (result.unjudged and 1 or 0)
    print(conformance.line(result))
  end
  for _, note in ipairs(report.notes) do print("note    " .. note) end
  print(("%d passed, %d failed%s; %d questions asked"):format(#report.results - report.failed - unjudged, report.failed,
    unjudged > 0 and (", %d not judged until the first holds"):format(unjudged) or "", report.answers))
  return report.failed > 0 and 1 or 0
end

local commands <const> = { list = list, show = show, new = new, check = check }

return {
  summary = "list and describe parallelizers, start a new one, check one",
  run = function(words)
    return options.guard("tangram adapter", function()
      local args <const> = options.parse(make_parser(), words)
      if args.lua_dir then loader.add_place(args.lua_dir) end
      return commands[args.command](args)
    end)
  end,
}
