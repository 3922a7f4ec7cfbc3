--- `tangram compose`: solves a bare composition problem (tangram.instance/1).
local core <const> = require "tangram.core"
local files <const> = require "tangram.files"
local options <const> = require "tangram.cli.options"

local function make_parser()
  local parser <const> = options.parser("tangram compose", "Compose partial plans into the best pipeline.",
    "tangram compose problem.json --gap 0 --top 3 --json -\n"
    .. "tangram compose --generate 1,42,4,4     (seed, atoms, islands, plans a pair[, kinds of islands])\n"
    .. "tangram compose --generate 1,42,4,4 --write problem.json")
  parser:argument("file", "a tangram.instance/1 file, - for standard input"):args "?"
  parser:option("--generate", "compose a random instance"):argname "SEED,ATOMS,ISLANDS,VARIANTS[,KINDS]"
  parser:option("--write", "write the generated instance to FILE, - for standard output, and don't compose it"):argname "FILE"
  parser:option("--objective"):choices { "simulated", "paper" }:default "simulated"
  parser:option("--p2p"):choices { "overlapped", "blocking" }:default "overlapped"
  parser:option("--warmup"):choices { "1f1b", "auto" }:default "1f1b"
  parser:option("--gap", "fraction by which the answer may miss the optimum; 0 is exact"):argname "G"
    :convert(options.number "--gap"):default "0.005"
  parser:option("--time-limit", "seconds"):argname "S":convert(options.number "--time-limit")
  parser:option("--top", "how many sequences to list"):argname "N":convert(options.whole "--top"):default "1"
  parser:option("--json", "write the result as JSON to FILE, - for standard output"):argname "FILE"
  parser:flag("--stats", "with effort and time of the search")
  return parser
end

local key_order <const> = {
  "sequence", "time_s", "bound_s", "gap", "proved", "paper_s", "warmup", "top", "stopped", "stats", "labels", "simulated", "compose_s",
}

--- Plan indices count from 0 in files.
local function from_zero(sequence)
  local out <const> = {}
  for i, plan in ipairs(sequence) do out[i] = plan - 1 end
  return out
end

local function to_file(result, with_stats)
  local top <const> = {}
  for i, entry in ipairs(result.top) do top[i] = { sequence = from_zero(entry.sequence), time_s = entry.time_s } end
  local stats <const> = { labels = result.labels, simulated = result.simulated, compose_s = result.compose_s }
  return {
    sequence = from_zero(result.sequence), time_s = result.time_s, bound_s = result.bound_s, gap = result.gap,
    proved = result.proved, paper_s = result.paper_s, warmup = result.warmup, top = top,
    stopped = result.stopped or core.null, stats = with_stats and stats or nil,
  }
end

--- The numbers of --generate.
local function numbers_of(text)
  local numbers <const>, read <const> = {}, options.whole "--generate"
  for field in (text .. ","):gmatch "([^,]*)," do numbers[#numbers + 1] = read(field) end
  local _, commas <const> = text:gsub(",", "")
  if #numbers ~= commas + 1 or #numbers < 4 or #numbers > 5 then
    error(("--generate: got '%s', expected whole numbers SEED,ATOMS,ISLANDS,VARIANTS[,KINDS]"):format(text), 0)
  end
  return numbers
end

--- Writes the generated instance.
local function write(args)
  local text <const>, why <const> = core.generate(table.unpack(numbers_of(args.generate)))
  if not text then error("--generate: " .. why, 0) end
  files.write(args.write, text .. "\n")
end

--- The instance as core.compose takes it, and where it comes from.
local function instance_of(args)
  if not args.generate then return files.read(args.file), args.file end
  local numbers <const> = numbers_of(args.generate)
  return { seed = numbers[1], atoms = numbers[2], islands = numbers[3], variants = numbers[4], kinds = numbers[5] }, "--generate"
end

local function print_summary(result)
  print(("%.6g s an iteration, at most %.3g %% above the optimum%s"):format(
    result.time_s, 100 * math.max(0, result.gap), result.proved and "" or " (not proved to the gap asked for)"))
  for i, entry in ipairs(result.top) do
    print(("%3d. %.6g s: plans %s"):format(i, entry.time_s, table.concat(from_zero(entry.sequence), " ")))
  end
end

local function run(words)
  local args <const> = options.parse(make_parser(), words)
  if (args.file == nil) == (args.generate == nil) then error("expected either a file or --generate (see --help)", 0) end
  if args.write and not args.generate then error("--write goes with --generate (see --help)", 0) end
  local piped <const> = options.outputs(args, "json", "write")
  if args.write then return write(args) end
  local instance <const>, where <const> = instance_of(args)
  local result <const>, why <const> = core.compose(instance, {
    objective = args.objective, p2p = args.p2p, warmup = args.warmup, gap = args.gap, time_limit_s = args.time_limit, top = args.top,
  })
  if not result then error(files.at(where, why), 0) end
  if not result.found then
    io.stderr:write("tangram compose: ", result.stopped and "stopped before any sequence was found"
      or "no feasible sequence covers the atoms", "\n")
    return result.stopped and 4 or 3
  end
  if result.stopped then io.stderr:write("tangram compose: stopped early (", result.stopped, ")\n") end
  if args.json then files.write(args.json, core.json_encode(to_file(result, args.stats), key_order)) end
  if piped then return end
  print_summary(result)
  if args.stats then
    print(("%d labels, %d simulated, %.6g s"):format(result.labels, result.simulated, result.compose_s))
  end
end

return options.entry("tangram compose", "compose partial plans (tangram.instance/1) into the best pipeline", run)
