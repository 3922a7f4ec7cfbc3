--- `tangram validate`: predictions of measured runs, and how far they are off.
local files <const> = require "tangram.files"
local options <const> = require "tangram.cli.options"

local function make_parser()
  local validate <const> = require "tangram.validate"
  local parser <const> = options.parser("tangram validate",
    "Predict measured runs with a cost model and say how far off it is.", "tangram validate runs.csv --by gpu --html runs.html")
  parser:argument("runs", "measured runs: CSV files, one run a line (- for standard input), or JSON of Alpa, Aceso, Galvatron or Sailor")
    :args "+"
  parser:option("--cost", "cost model: a name or a path"):default "analytic":argname "NAME"
  parser:option("--by", "what to group by"):choices(validate.groupings):default "source"
  parser:option("--gpus", "constants of GPUs, a file of tangram calibrate"):argname "FILE"
  parser:option("--profiles", "measured times of layers, CSV, for --cost profiled"):argname "FILE"
  parser:option("--p2p", "transfers of pipelines: overlapped or blocking"):choices { "overlapped", "blocking" }:default "overlapped"
  parser:option("--set", "one of the cost model's options"):argname "KEY=VALUE":count "*"
  parser:option("--lua-dir", "look for cost models here first"):argname "DIR"
  parser:option("--json", "write rows and groups (- for standard output)"):argname "FILE"
  parser:option("--html", "write a page with a chart of predicted over measured"):argname "FILE"
  parser:flag("--rows", "print each row as well")
  parser:flag("--markdown", "print the groups as one table in Markdown, and nothing else")
  return parser
end

local function percent(x) return x and ("%.1f"):format(100 * x) or "-" end

local function print_table(lines)
  local widths <const> = {}
  for _, line in ipairs(lines) do
    for c, cell in ipairs(line) do widths[c] = math.max(widths[c] or 0, utf8.len(cell) or #cell) end
  end
  for _, line in ipairs(lines) do
    local cells <const> = {}
    for c, cell in ipairs(line) do
      local space <const> = (" "):rep(widths[c] - (utf8.len(cell) or #cell))
      cells[c] = c == 1 and cell .. space or space .. cell
    end
    print((table.concat(cells, "  "):gsub("%s+$", "")))
  end
end

local function print_groups(groups, field, title)
  local lines <const> = { { title, "rows", "MAPE %", "median", "p90", "bias", "Spearman", "worst", "of row", "lowest" } }
  for _, group in ipairs(groups) do
    local e <const> = group[field]
    if e then
      lines[#lines + 1] = { group.name, tostring(e.count), percent(e.mape), percent(e.median), percent(e.p90), percent(e.bias),
        e.spearman and ("%.3f"):format(e.spearman) or "-", percent(e.worst.error), e.worst.id, percent(e.low.error) }
    end
  end
  if #lines > 1 then print_table(lines) end
  return #lines > 1
end

local function print_rows(result)
  local lines <const> = { { "row", "measured s", "predicted s", "%", "measured GiB", "predicted GiB", "%", "bar", "plan" } }
  local function figures(measured, predicted, unit)
    local function text(x) return x and ("%.4g"):format(x / unit) or "-" end
    return text(measured), text(predicted), measured and predicted and ("%+.1f"):format(100 * (predicted / measured - 1)) or "-"
  end
  for _, row in ipairs(result.rows) do
    if not row.reason then
      local a <const>, b <const>, c <const> = figures(row.measured_s, row.predicted_s, 1)
      local x <const>, y <const>, z <const> = figures(row.measured_bytes, row.predicted_bytes, 2 ^ 30)
      local bar <const> = row.row.bar and ("%s %s"):format(row.row.bar, row.held and "held" or "MISSED") or ""
      lines[#lines + 1] = { row.id, a, b, c, x, y, z, bar, row.shape or "" }
    end
  end
  print_table(lines)
  print ""
end

--- Rows that no figure counts, each with its reason; what was assumed, by how many rows.
local function print_notes(result)
  local counts <const>, names <const> = {}, {}
  for _, row in ipairs(result.rows) do
    if row.reason then print(("not expressed: %s: %s"):format(row.id, row.reason)) end
    if row.suspect and not row.reason then print(("suspect, not counted: %s: %s"):format(row.id, row.suspect)) end
    if row.suspect_memory and not row.suspect and not row.reason then
      print(("suspect memory, not counted: %s: %s"):format(row.id, row.suspect_memory))
    end
    for _, what in ipairs(row.reason and {} or row.assumed) do
      if not counts[what] then names[#names + 1] = what end
      counts[what] = (counts[what] or 0) + 1
    end
  end
  table.sort(names)
  for i, what in ipairs(names) do names[i] = ("%s (%d)"):format(what, counts[what]) end
  if names[1] then print("assumed where rows say nothing: " .. table.concat(names, ", ")) end
end

local function run(words)
  local args <const> = options.parse(make_parser(), words)
  local validate <const> = require "tangram.validate"
  local piped <const> = options.outputs(args, "json", "html")
  options.use_lua_dir(args)
  local cost <const> = { name = args.cost, options = {} }
  for _, word in ipairs(args.set) do options.setter(word)(cost.options) end
  if args.profiles then cost.options.profiles = require("tangram.input.profiles").csv(args.profiles) end
  local runs <const> = {}
  for i, path in ipairs(args.runs) do runs[i] = { text = files.read(path), where = path } end
  local result <const> = validate.files(runs, {
    cost = cost, by = args.by, p2p = args.p2p, gpus = args.gpus and require("tangram.measured.own").read(args.gpus),
  })
  for _, warning in ipairs(result.warnings) do io.stderr:write("tangram validate: ", warning, "\n") end
  if args.json then files.write(args.json, validate.encode(result)) end
  if args.html then files.write(args.html, require("tangram.report.scatter").page(result, args.by)) end
  if piped then return 0 end
  if args.markdown then
    io.stdout:write(validate.markdown(result, args.by))
    return 0
  end
  if args.rows then print_rows(result) end
  local groups <const> = { table.unpack(result.groups) }
  groups[#groups + 1] = #groups > 1 and result.all or nil
  if not print_groups(groups, "time", "time by " .. args.by) then print "no row with a measured time is predicted" end
  print ""
  if print_groups(groups, "memory", "memory by " .. args.by) then print "" end
  print_notes(result)
  return 0
end

return options.entry("tangram validate", "predict measured runs and say how far off", run)
