--- `tangram repl`: explore plans line by line.
local options <const> = require "tangram.cli.options"
local recipes <const> = require "tangram.cli.recipes"

local function make_parser()
  local parser <const> = options.parser("tangram repl", "Explore plans in Lua, line by line.",
    "tangram repl recipes/quickstart.lua      (then: plan, plan.stages[1], help(tangram.plan))\n"
    .. "echo 'print(#plan.stages)' | tangram repl recipes/quickstart.lua")
  parser:argument("recipe", "plan it first; its plan, cluster and model are globals then"):args "?"
  recipes.add_seconds(parser)
  return parser
end

--- Plans the recipe at hand; true, or nil, why and an exit status.
local function load_recipe(path, seconds)
  local recipe <const> = require "tangram.recipe"
  local plan <const>, failure <const> = recipe.run(path, seconds)
  if not plan then return nil, recipe.explain(failure) end
  _G.plan, _G.cluster, _G.model = plan, plan.cluster, plan.model
  return true
end

return options.entry("tangram repl", "explore plans in Lua, line by line", function(words)
  local args <const> = options.parse(make_parser(), words)
  local repl <const>, terminal <const> = require "tangram.repl", require "tangram.terminal"
  repl.prepare()
  if args.recipe then
    local loaded <const>, why <const>, status <const> = load_recipe(args.recipe, args.recipe_seconds)
    if not loaded then
      io.stderr:write("tangram repl: ", why, "\n")
      return status
    end
  end
  if terminal.interactive() then
    repl.interact(terminal)
    return 0
  end
  local done <const>, why <const> = repl.run_script(terminal)
  if not done then error(why, 0) end
end)
