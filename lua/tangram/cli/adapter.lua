--- `tangram adapter`: lists parallelizers and their options, starts a new one, checks one.
local files <const> = require "tangram.files"
local loader <const> = require "tangram.loader"
local options <const> = require "tangram.cli.options"
local schema <const> = require "tangram.schema"

local function make_parser()
  local parser <const> = options.parser("tangram adapter", "List, describe, start and check parallelizers.",
    "tangram adapter new mine && tangram adapter check mine.lua")
  options.command(parser, "list", "names and descriptions of the parallelizers that are found", "tangram adapter list")
  options.command(parser, "show", "one parallelizer's options", "tangram adapter show exact")
    :argument("adapter", "a name or the path of a .lua file")
  options.command(parser, "new", "write NAME.lua here, a commented adapter that works as it stands", "tangram adapter new mine")
    :argument("name", "letters, digits, _ and -")
  local check <const> = options.command(parser, "check", "run the conformance suite",
    "tangram adapter check mine.lua --option max_tp=4")
  check:argument("adapter", "a name or the path of a .lua file")
  check:option("--option", "one of the adapter's options (may be repeated)"):argname "NAME=VALUE":count "*"
  check:option("--cost", "cost model: a name or a path"):argname "NAME":default "analytic"
  check:option("--query-seconds", "limit of one question"):argname "SECONDS":default "10":convert(options.number("--query-seconds", 0.001))
  parser:option("--lua-dir", "look for adapters and cost models here first"):argname "DIR"
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
  files.write(path, (require("tangram.cli.adapter_template"):gsub("@NAME@", name)))
  print(("%s is written; next: tangram adapter check %s"):format(path, path))
  return 0
end

local function check(args)
  local values <const> = {}
  for _, word in ipairs(args.option) do
    local name <const>, value <const> = options.assignment("--option", word)
    values[name] = value
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

return options.entry("tangram adapter", "list and describe parallelizers, start a new one, check one", function(words)
  local args <const> = options.parse(make_parser(), words)
  options.use_lua_dir(args)
  return commands[args.command](args)
end)
