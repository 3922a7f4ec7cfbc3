--- `tangram compose`: solves a bare composition problem (tangram.instance/1).
local core <const> = require "tangram.core"

local function parser()
  local p <const> = require "argparse" ("tangram compose", "Compose partial plans into the best pipeline.",
    "Example: tangram compose problem.json --gap 0 --top 3 --json -\n" ..
    "         tangram compose --generate 1,42,4,4     (seed, atoms, islands, plans a pair[, kinds of islands])\n" ..
    "         tangram compose --generate 1,42,4,4 --write problem.json")
  p:argument("file", "a tangram.instance/1 file, - for standard input"):args "?"
  p:option("--generate", "compose a random instance: SEED,ATOMS,ISLANDS,VARIANTS[,KINDS]")
  p:option("--write", "write the generated instance to FILE, - for standard output, and don't compose it"):argname "FILE"
  p:option("--objective"):choices { "simulated", "paper" }:default "simulated"
  p:option("--p2p"):choices { "overlapped", "blocking" }:default "overlapped"
  p:option("--warmup"):choices { "1f1b", "auto" }:default "1f1b"
  p:option("--gap", "fraction by which the answer may miss the optimum; 0 is exact"):convert(tonumber):default "0.005"
  p:option("--time-limit", "seconds"):convert(tonumber)
  p:option("--top", "how many sequences to list"):convert(math.tointeger):default "1"
  p:option("--json", "write the result as JSON to FILE, - for standard output"):argname "FILE"
  p:flag("--stats", "with effort and time of the search")
  return p
end

local key_order <const> = {
  "sequence", "time_s", "bound_s", "gap", "proved", "paper_s", "warmup", "top", "stopped", "stats", "labels", "simulated", "compose_s",
}

local function fail(status, message)
  io.stderr:write("tangram compose: ", message, "\n")
  return status
end

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

--- The numbers of --generate, or nil, why.
local function numbers_of(args)
  local numbers <const> = {}
  for field in (args.generate .. ","):gmatch "([^,]*)," do
    numbers[#numbers + 1] = math.tointeger(field) or -1
  end
  if #numbers < 4 or #numbers > 5 then
    return nil, "--generate: expected SEED,ATOMS,ISLANDS,VARIANTS[,KINDS], got '" .. args.generate .. "'"
  end
  return numbers
end

--- Writes the generated instance; the exit status.
local function write(args)
  local numbers <const>, refused <const> = numbers_of(args)
  if not numbers then return fail(2, refused) end
  local text <const>, why <const> = core.generate(table.unpack(numbers))
  if not text then return fail(2, why) end
  if args.write == "-" then
    print(text)
    return 0
  end
  local file <close>, unwritable <const> = io.open(args.write, "wb")
  if not file then return fail(2, unwritable) end
  file:write(text, "\n")
  return 0
end

--- The instance as core.compose takes it, or nil, why.
local function instance_of(args)
  if args.generate then
    local numbers <const>, refused <const> = numbers_of(args)
    if not numbers then return nil, refused end
    return { seed = numbers[1], atoms = numbers[2], islands = numbers[3], variants = numbers[4], kinds = numbers[5] }
  end
  if args.file == "-" then return io.read "a" end
  local file <close>, why <const> = io.open(args.file, "rb")
  if not file then return nil, why end
  return file:read "a" or nil, args.file .. ": not a readable file"
end

local function print_summary(result)
  print(("%.6g s an iteration, at most %.3g %% above the optimum%s"):format(
    result.time_s, 100 * math.max(0, result.gap), result.proved and "" or " (not proved to the gap asked for)"))
  for i, entry in ipairs(result.top) do
    print(("%3d. %.6g s: plans %s"):format(i, entry.time_s, table.concat(from_zero(entry.sequence), " ")))
  end
end

return {
  summary = "compose partial plans (tangram.instance/1) into the best pipeline",
  run = function(arguments)
    local ok <const>, args = parser():pparse(arguments)
    if not ok then return fail(2, tostring(args)) end
    if (args.file == nil) == (args.generate == nil) then return fail(2, "expected either a file or --generate (see --help)") end
    if args.write and not args.generate then return fail(2, "--write goes with --generate (see --help)") end
    if args.write then return write(args) end
    local instance <const>, unreadable <const> = instance_of(args)
    if not instance then return fail(2, unreadable) end
    local result <const>, why <const> = core.compose(instance, {
      objective = args.objective, p2p = args.p2p, warmup = args.warmup, gap = args.gap, time_limit_s = args.time_limit, top = args.top,
    })
    if not result then return fail(2, (args.file and args.file .. ": " or "") .. why) end
    if not result.found then
      if result.stopped then return fail(4, "stopped before any sequence was found") end
      return fail(3, "no feasible sequence covers the atoms")
    end
    if result.stopped then io.stderr:write("tangram compose: stopped early (", result.stopped, ")\n") end
    if args.json == "-" then
      print((core.json_encode(to_file(result, args.stats), key_order)))
    else
      print_summary(result)
      if args.stats then
        print(("%d labels, %d simulated, %.6g s"):format(result.labels, result.simulated, result.compose_s))
      end
    end
    if args.json and args.json ~= "-" then
      local file <close>, refused <const> = io.open(args.json, "wb")
      if not file then return fail(2, refused) end
      file:write((core.json_encode(to_file(result, args.stats), key_order)), "\n")
    end
    return 0
  end,
}
