--- `tangram explain`: where a plan's seconds and bytes go.
local options <const> = require "tangram.cli.options"

local function make_parser()
  local parser <const> = options.parser("tangram explain",
    "Show where the seconds and bytes of a plan's stages go, by term, with the formula and the constants behind it.",
    "tangram explain plan.json --stage 2")
  parser:argument("plan", "a tangram.plan/1 file (- for standard input)")
  parser:option("--stage", "one stage alone, counted from 1"):argname "N":convert(options.whole "--stage")
  return parser
end

local function run(words)
  local args <const> = options.parse(make_parser(), words)
  local plan <const> = options.plan(args.plan)
  if args.stage and (args.stage < 1 or args.stage > #plan.stages) then
    error(("--stage: got %d, expected 1 to %d"):format(args.stage, #plan.stages), 0)
  end
  io.stdout:write(require("tangram.report.explained").plan(plan, args.stage))
  return 0
end

return options.entry("tangram explain", "show where a plan's seconds and bytes go", run)
