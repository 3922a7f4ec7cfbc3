--- `tangram simulate`: checks a plan and tells the time of an iteration, by the times in the file or priced anew.
local core <const> = require "tangram.core"
local files <const> = require "tangram.files"
local options <const> = require "tangram.cli.options"

local function make_parser()
  local parser <const> = options.parser("tangram simulate",
    "Check a plan (also one edited by hand) and simulate an iteration of it.", "tangram simulate plan.json --recost")
  parser:argument("plan", "a tangram.plan/1 file (- for standard input)")
  parser:flag("--recost", "price the stages anew with the plan's cost model, in place of the times in the file")
  parser:option("--lua-dir", "look for cost models here first"):argname "DIR"
  parser:option("--json", "write the plan with the times (- for standard output)"):argname "FILE"
  return parser
end

local function run(words)
  local args <const> = options.parse(make_parser(), words)
  local piped <const> = options.outputs(args, "json")
  options.use_lua_dir(args)
  local text = files.read(args.plan)
  if args.recost then
    text = require("tangram.plan").encode(require("tangram.recost").plan(files.decode(text, args.plan), args.plan))
  end
  local plan <const> = options.plan(args.plan, text)
  local time_s <const>, why <const> = core.plan_simulate(text)
  if not time_s then error(("%s: %s"):format(args.plan, why), 0) end
  if args.json then files.write(args.json, text) end
  if not piped then
    print(("%s: right; %.6g s an iteration, %d stages, %d microbatches"):format(args.plan, time_s, #plan.stages,
      plan.microbatches))
  end
  return 0
end

return options.entry("tangram simulate", "check a plan and simulate it", run)
