--- `tangram compare`: parallelizers side by side, under the same cost model, composition and simulation.
local core <const> = require "tangram.core"
local files <const> = require "tangram.files"
local grid <const> = require "tangram.report.grid"
local loader <const> = require "tangram.loader"
local options <const> = require "tangram.cli.options"
local recipes <const> = require "tangram.cli.recipes"
local variants <const> = require "tangram.variants"

local function make_parser()
  local parser <const> = options.parser("tangram compare",
    "Plan a recipe with one parallelizer after another, all priced, composed and simulated alike.",
    "tangram compare recipes/quickstart.lua --with exact,uniform,alpa --microbatches 32")
  recipes.add(parser)
  parser:option("--with", "parallelizers, with commas: names or paths; 'recipe' is the recipe's own, with its options")
    :argname "A,B,…"
  parser:option("--json", "write the rows (- for standard output)"):argname "FILE"
  return parser
end

--- The names to compare, each once; raises for one that is no parallelizer.
local function names_of(text)
  local names <const>, seen <const> = {}, {}
  for name in (text or ""):gmatch "[^,%s]+" do
    if name ~= "recipe" then loader.describe("parallelizer", name) end
    if not seen[name] then names[#names + 1] = name end
    seen[name] = true
  end
  if #names == 0 then error("--with: got nothing, expected parallelizers with commas between, e.g. exact,uniform", 0) end
  return names
end

local function rows_of(names, spec)
  local rows <const> = {}
  for i, name in ipairs(names) do
    local started_s <const> = core.clock_s()
    rows[i] = variants.try(name, spec, function(own)
      if name ~= "recipe" then own.parallelizer = name end
    end)
    io.stderr:write(("%s: %s in %.1f s\n"):format(name, rows[i].time_s and "planned" or "no plan", core.clock_s() - started_s))
  end
  return rows
end

local function table_of(rows)
  local best_s = math.huge
  for _, row in ipairs(rows) do best_s = math.min(best_s, row.time_s or math.huge) end
  local lines <const>, notes <const> = { { "parallelizer", table.unpack(variants.heading) } }, {}
  for _, row in ipairs(rows) do
    if row.time_s then
      lines[#lines + 1] = { row.name, table.unpack(variants.cells(row, best_s)) }
    else
      lines[#lines + 1] = { row.name, "no plan" }
      notes[#notes + 1] = ("%s: %s\n"):format(row.name, row.reason)
    end
  end
  return grid.render(lines, { right = variants.right }) .. table.concat(notes)
end

local function run(words)
  local args <const> = recipes.parse(make_parser(), words)
  local piped <const> = options.outputs(args, "json")
  local rows <const> = rows_of(names_of(args.with), recipes.spec(args))
  if args.json then files.write(args.json, variants.encode(rows)) end
  if not piped then io.stdout:write(table_of(rows)) end
  for _, row in ipairs(rows) do
    if row.time_s then return 0 end
  end
  return 3
end

return options.entry("tangram compare", "plan with several parallelizers, side by side", run)
