--- `tangram report`: a plan for people, in the terminal, as a page, as a trace.
local core <const> = require "tangram.core"
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
  local text <const> = options.read(args.plan)
  local foreign <const> = require "tangram.input.foreign_plan"
  if foreign.kind(text) then
    if args.html or args.trace then error(args.plan .. ": a plan of another system, which states no times to draw", 0) end
    io.stdout:write(foreign.text(foreign.read(text, args.plan)))
    return 0
  end
  local plan <const>, why <const> = core.json_decode(text)
  if why then error(args.plan .. ":" .. why, 0) end
  local right <const>, wrong <const> = core.plan_check(text)
  if not right then error(("%s: %s"):format(args.plan, wrong), 0) end
  plan.cluster = require("tangram.cluster").describe(plan.cluster, args.plan .. ": cluster")
  require("tangram.report.fields").check(plan, args.plan)
  if args.html then options.write(args.html, require("tangram.report.html").plan(plan)) end
  if args.trace then options.write(args.trace, require("tangram.report.trace").plan(plan)) end
  if not args.html and not args.trace then io.stdout:write(require("tangram.report.text").plan(plan)) end
  return 0
end

return {
  summary = "show a plan: in the terminal, as a page, as a trace",
  run = function(words) return options.guard("tangram report", function() return run(words) end) end,
}
