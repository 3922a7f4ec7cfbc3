--- `tangram repl`: explore plans line by line.
local function parser()
  local p <const> = require "argparse" ("tangram repl", "Explore plans in Lua, line by line.",
    "Example: tangram repl recipes/quickstart.lua      (then: plan, plan.stages[1], help(tangram.plan))\n" ..
    "         echo 'print(#plan.stages)' | tangram repl recipes/quickstart.lua")
  p:argument("recipe", "plan it first; its plan, cluster and model are globals then"):args "?"
  p:option("--recipe-seconds", "limit on the recipe's own time"):convert(tonumber):default "60"
  return p
end

local function fail(message, status)
  io.stderr:write("tangram repl: ", message, "\n")
  return status
end

--- Plans the recipe at hand; 0, or an exit status and why.
local function load_recipe(path, seconds)
  local recipe <const> = require "tangram.recipe"
  local plan <const>, failure <const> = recipe.run(path, seconds)
  if not plan then
    local why <const>, status <const> = recipe.explain(failure)
    return status, why
  end
  _G.plan, _G.cluster, _G.model = plan, plan.cluster, plan.model
  return 0
end

return {
  summary = "explore plans in Lua, line by line",
  run = function(arguments)
    local ok <const>, args <const> = parser():pparse(arguments)
    if not ok then return fail(args, 2) end
    local repl <const>, terminal <const> = require "tangram.repl", require "tangram.terminal"
    repl.prepare()
    if args.recipe then
      local status <const>, why <const> = load_recipe(args.recipe, args.recipe_seconds)
      if status ~= 0 then return fail(why, status) end
    end
    if terminal.interactive() then
      repl.interact(terminal)
      return 0
    end
    local done <const>, why <const> = repl.run_script(terminal)
    if done then return 0 end
    return fail(why, 2)
  end,
}
