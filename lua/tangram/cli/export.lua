--- `tangram export`: a plan as a runtime's configuration and launch scripts, or why the runtime can't run it.
local options <const> = require "tangram.cli.options"

local function make_parser()
  local parser <const> = options.parser("tangram export",
    "Write what a runtime needs to run a plan into a new folder, or say why it can't run it (status 2).",
    "tangram export plan.json --to megatron -o run")
  parser:argument("plan", "a tangram.plan/1 file (- for standard input)"):args "?"
  parser:option("--to", "the runtime (--list names them)"):argname "RUNTIME"
  parser:option("-o", "the folder to make"):hidden_name "--output":target "output":argname "DIR"
  parser:option("--runtime-version", "the runtime's version, where they differ"):argname "V"
  parser:option("--set", "an option of the exporter, as JSON or text"):argname "KEY=VALUE":count "*"
  parser:flag("--list", "list the runtimes with their versions and options")
  return parser
end

local function list()
  local schema <const> = require "tangram.schema"
  for _, exporter in ipairs(require("tangram.output").list()) do
    print(("%s: %s (versions %s)"):format(exporter.name, exporter.summary, table.concat(exporter.versions, ", ")))
    if next(exporter.options) then print(schema.document(exporter.options)) end
  end
  return 0
end

local function read_plan(path)
  local plan <const> = options.plan(path)
  require("tangram.report.fields").check(plan, path)
  return plan
end

local function run(words)
  local args <const> = options.parse(make_parser(), words)
  if args.list then return list() end
  if not (args.plan and args.to and args.output) then
    error("expected PLAN --to RUNTIME -o DIR, or --list (see 'tangram export --help')", 0)
  end
  local set <const> = {}
  for _, word in ipairs(args.set) do options.setter(word)(set) end
  local result <const> = require("tangram.output").write(read_plan(args.plan), args.to, args.output,
    { version = args.runtime_version, set = set, where = args.plan })
  for _, finding in ipairs(result.findings) do
    if finding.fatal or result.files then
      io.stderr:write(("tangram export: %s: %s: %s\n"):format(finding.fatal and args.plan or "note", finding.code, finding.text))
    end
  end
  if not result.files then return 2 end
  for _, note in ipairs(result.notes) do io.stderr:write("tangram export: note: ", note, "\n") end
  local names <const> = {}
  for i, file in ipairs(result.files) do names[i] = file.name end
  print(("%s: %s, for %d processes on %d nodes; README.md says how to launch it"):format(args.output, table.concat(names, ", "),
    result.launch.world, #result.launch.hosts))
  return 0
end

return options.entry("tangram export", "write a plan as a runtime's configuration and launch scripts", run)
