--- `tangram plan`: from a recipe, or from a model, a cluster and a batch, to a checked plan.
local core <const> = require "tangram.core"
local files <const> = require "tangram.files"
local options <const> = require "tangram.cli.options"
local recipes <const> = require "tangram.cli.recipes"

local function make_parser()
  local parser <const> = options.parser("tangram plan", "Plan the training of a model over a cluster of unlike GPUs.",
    "tangram plan recipes/quickstart.lua --gap 0 --json plan.json")
  recipes.add(parser)
  parser:flag("--ablate", "plan again without each feature: what each is worth")
  parser:option("--json", "write the plan, tangram.plan/1 (- for standard output)"):argname "FILE"
  parser:option("--html", "write the report as one self-contained page"):argname "FILE"
  parser:option("--trace", "write a simulated iteration for Perfetto or chrome://tracing"):argname "FILE"
  parser:flag("--quiet", "no report, no memory lines, no progress bar")
  return parser
end

--- Memory of every island before the search: a wrong GPU size is seen at once.
local function print_memory(islands, margin)
  local units <const> = require "tangram.units"
  for _, island in ipairs(islands) do
    io.stderr:write(("island %s: %d × %s in %d node%s, %s each, %s of it used at most\n"):format(island.name, island.gpus,
      island.gpu, island.node_count, island.node_count == 1 and "" or "s", units.format_bytes(island.memory_bytes),
      units.format_bytes((1 - margin) * island.memory_bytes)))
  end
end

local function hooks_of(quiet)
  if quiet then return {}, function() end end
  local update, clear
  local hooks <const> = {
    before = function(islands, training)
      print_memory(islands, training.memory_margin)
      if core.is_terminal(2) then
        update, clear = require("tangram.progress").bar(#require("tangram.training").microbatch_counts(training))
      end
    end,
    progress = function(...)
      if update then update(...) end
    end,
    stored = function(counts)
      if clear then clear() end
      io.stderr:write(("store: %d answers found, %d kept\n"):format(counts.found, counts.kept))
    end,
  }
  return hooks, function()
    if clear then clear() end
  end
end

local function plan_of(args, ranks)
  local hooks <const>, clear <const> = hooks_of(args.quiet)
  hooks.ranks = ranks
  local plan <const>, failure <const> = recipes.run(args, recipes.overrides(args), hooks)
  clear()
  if plan then return plan end
  return nil, require("tangram.recipe").explain(failure)
end

local function plan_and_write(args, ranks)
  local piped <const> = options.outputs(args, "json", "html", "trace")
  local plan <const>, why <const>, status <const> = plan_of(args, ranks)
  if not plan then
    io.stderr:write("tangram plan: ", why, "\n")
    return why:match "^internal" and 1 or status
  end
  if args.json then files.write(args.json, require("tangram.plan").encode(plan)) end
  if args.html then files.write(args.html, require("tangram.report.html").plan(plan)) end
  if args.trace then files.write(args.trace, require("tangram.report.trace").plan(plan)) end
  if not args.quiet and not piped then io.stdout:write(require("tangram").report(plan)) end
  if args.ablate then
    local out <const> = piped and io.stderr or io.stdout
    out:write(piped and "" or "\n", require("tangram.ablate").table(plan, recipes.spec(args)))
  end
  return 0
end

local function run(words)
  local args <const> = recipes.parse(make_parser(), words)
  local ranks <const> = core.ranks and core.ranks()
  if ranks and ranks:rank() > 0 then -- rank 0 alone reads, searches and writes
    local served <const>, why <const> = ranks:serve()
    if not served then error(why, 0) end
    ranks:leave(0)
    return 0
  end
  local status <const> = options.guard("tangram plan", plan_and_write, args, ranks)
  if ranks then ranks:leave(status) end
  return status
end

return options.entry("tangram plan", "plan the training of a model over a cluster", run)
