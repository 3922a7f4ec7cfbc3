--- `tangram calibrate`: constants of one's own GPUs from measured runs.
local files <const> = require "tangram.files"
local options <const> = require "tangram.cli.options"

local function make_parser()
  local parser <const> = options.parser("tangram calibrate",
    "Fit the analytic cost model's constants to measured runs (three are enough to begin with) of one's own GPUs.",
    "tangram calibrate runs.csv -o mygpu.lua && tangram plan recipe.lua --gpus mygpu.lua")
  parser:argument("runs", "a CSV file of measured runs, columns as for tangram validate (- for standard input)")
  parser:option("-o", "the file to write (- for standard output)"):hidden_name "--output":target "output":default "-":argname "FILE"
  return parser
end

local function run(words)
  local args <const> = options.parse(make_parser(), words)
  options.outputs(args, "output")
  local calibrate <const> = require "tangram.calibrate"
  local types <const>, notes <const> = calibrate.run(files.read(args.runs), args.runs)
  for _, note in ipairs(notes) do io.stderr:write("left out: ", note, "\n") end
  for _, one in ipairs(types) do
    io.stderr:write(("%s: %d runs, %.1f %% off on average, worst %s %+.1f %%; with the catalogue's constants %.1f %%\n"):format(one.gpu,
      one.runs, 100 * one.after.mape, one.after.worst.id, 100 * one.after.worst.error, 100 * one.before.mape))
  end
  files.write(args.output, calibrate.encode(types, args.runs))
  return 0
end

return options.entry("tangram calibrate", "fit a GPU's constants to measured runs", run)
