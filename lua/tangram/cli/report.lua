--- `tangram report`: a plan for people, in the terminal, as a page, as a trace.
local files <const> = require "tangram.files"
local options <const> = require "tangram.cli.options"

local function make_parser()
  local parser <const> = options.parser("tangram report", "Show a plan: in the terminal, or as an HTML page or a trace.",
    "tangram report plan.json --html plan.html --trace trace.json")
  parser:argument("plan", "a tangram.plan/1 file (- for standard input), or a plan of Galvatron, Sailor or FlagScale")
  parser:option("--html", "write one self-contained page (- for standard output)"):argname "FILE"
  parser:option("--trace", "write a trace for Perfetto or chrome://tracing (- for standard output)"):argname "FILE"
  return parser
end

local function run(words)
  local args <const> = options.parse(make_parser(), words)
  options.outputs(args, "html", "trace")
  local text <const> = files.read(args.plan)
  local foreign <const> = require "tangram.input.foreign_plan"
  if foreign.kind(text) then
    if args.html or args.trace then error(args.plan .. ": a plan of another system, which states no times to draw", 0) end
    io.stdout:write(foreign.text(foreign.read(text, args.plan)))
    return 0
  end
  local plan <const> = options.plan(args.plan, text)
  plan.cluster = require("tangram.cluster").describe(plan.cluster, args.plan .. ": cluster")
  require("tangram.report.fields").check(plan, args.plan)
  if args.html then files.write(args.html, require("tangram.report.html").plan(plan)) end
  if args.trace then files.write(args.trace, require("tangram.report.trace").plan(plan)) end
  if not args.html and not args.trace then io.stdout:write(require("tangram.report.text").plan(plan)) end
  return 0
end

return options.entry("tangram report", "show a plan: in the terminal, as a page, as a trace", run)
