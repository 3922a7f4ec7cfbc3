--- `tangram simulate`: checks a plan and tells the time of an iteration, by the times in the file or priced anew.
local core <const> = require "tangram.core"
local options <const> = require "tangram.cli.options"

local function make_parser()
  local parser <const> = options.parser("tangram simulate",
    "Check a plan (also one edited by hand) and simulate an iteration of it.", "tangram simulate plan.json --recost")
  parser:argument("plan", "a tangram.plan/1 file (- for standard input)")
  parser:flag("--recost", "price the stages anew with the plan's cost model, in place of the times in the file")
  parser:option("--lua-dir", "look for cost models here first")
  parser:option("--json", "write the plan with the times (- for standard output)")
  return parser
end

local function run(words)
  local args <const> = options.parse(make_parser(), words)
  if args.lua_dir then require("tangram.loader").add_place(args.lua_dir) end
  local text = options.read(args.plan)
  local plan, why = core.json_decode(text)
  if why then error(args.plan .. ":" .. why, 0) end
  if args.recost then
    plan = require("tangram.recost").plan(plan, args.plan)
    text = require("tangram.plan").encode(plan)
  end
  local right <const>, wrong <const> = core.plan_check(text)
  if not right then error(("%s: %s"):format(args.plan, wrong), 0) end
  local time_s
  time_s, why = core.plan_simulate(text)
  if not time_s then error(("%s: %s"):format(args.plan, why), 0) end
  if args.json then options.write(args.json, text) end
  if args.json ~= "-" then
    print(("%s: right; %.6g s an iteration, %d stages, %d microbatches"):format(args.plan, time_s, #plan.stages,
      plan.microbatches))
  end
  return 0
end

return {
  summary = "check a plan and simulate it",
  run = function(words) return options.guard("tangram simulate", function() return run(words) end) end,
}
