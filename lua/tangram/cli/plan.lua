--- `tangram plan`: from a recipe, or from a model, a cluster and a batch, to a checked plan.
local core <const> = require "tangram.core"
local options <const> = require "tangram.cli.options"

local function number(name, text)
  local value <const> = tonumber(text)
  if not value then error(("--%s: got '%s', expected a number"):format(name, text), 0) end
  return math.tointeger(value) or value
end

local function bytes(text)
  local value <const>, expected <const> = require("tangram.units").bytes(text)
  if not value then error(("--query-memory: got '%s', expected %s"):format(text, expected), 0) end
  return value
end

local function list(text)
  local items <const> = {}
  for item in text:gmatch "[^,]+" do items[#items + 1] = item end
  return items
end

local function range(text)
  local lo <const>, hi <const> = text:match "^(%d*)%.%.(%d*)$"
  if not lo then
    local one <const> = math.tointeger(tonumber(text))
    if not one then error(("--microbatches: got '%s', expected LO..HI, e.g. 8..64"):format(text), 0) end
    return { min = one, max = one }
  end
  return { min = tonumber(lo), max = tonumber(hi) }
end

local function numbers(text)
  local values <const> = {}
  for i, item in ipairs(list(text)) do values[i] = number("tolerance", item) end
  return values
end

--- Options that set a field of the spec: name, field, reader, help.
local setters <const> = {
  { "parallelizer", "parallelizer", nil, "adapter: a name or the path of a .lua file" },
  { "cost", "cost", nil, "cost model: a name or a path" },
  { "prune", "prune", list, "pruning policies, with commas; '' for none" },
  { "objective", "objective", nil, "simulated or paper" },
  { "p2p", "p2p", nil, "overlapped or blocking" },
  { "warmup", "warmup", nil, "1f1b or auto" },
  { "target", "target", nil, "a runtime that must be able to run the plan: " .. table.concat(require("tangram.targets").names(), ", ") },
  { "gap", "gap", function(text) return number("gap", text) end, "fraction from the optimum at which to stop" },
  { "time-limit", "time_limit_s", function(text) return number("time-limit", text) end, "seconds; then the best so far" },
  { "top", "top", function(text) return number("top", text) end, "list the N best plans" },
  { "workers", "workers", function(text) return number("workers", text) end, "threads that ask; default: the cores" },
  { "query-seconds", "query_seconds", function(text) return number("query-seconds", text) end, "limit of one query" },
  { "query-memory", "query_memory_bytes", bytes, "limit of one query, e.g. '2 GiB'" },
  { "microbatches", "training.microbatches", range, "LO..HI, microbatches an iteration" },
  { "precision", "training.precision", nil, "auto, bf16, fp16, fp8 or fp32" },
  { "memory-margin", "training.memory_margin", function(text) return number("memory-margin", text) end,
    "share of a GPU's memory left free" },
  { "global-batch", "training.global_batch", function(text) return number("global-batch", text) end, "sequences an iteration" },
  { "seq-len", "training.seq_len", function(text) return number("seq-len", text) end, "tokens a sequence" },
  { "tolerance", "tolerance", numbers, "EC,EM,EI: how unlike an island's nodes may be" },
  { "store", "store", nil, "keep answers in this file, and look there first" },
  { "granularity", "granularity", nil, "layer or half (for study)" },
}

local function make_parser()
  local parser <const> = options.parser("tangram plan", "Plan the training of a model over a cluster of unlike GPUs.",
    "tangram plan recipes/quickstart.lua --gap 0 --json plan.json")
  parser:argument("recipe", "a recipe, a Lua script that returns tangram.plan { … }"):args "?"
  parser:option("--model", "a Hugging Face config.json or Megatron's arguments, in place of a recipe")
  parser:option("--family", "read the config as this family")
  parser:option("--vocab", "vocabulary, where the model's file leaves it to the tokenizer"):convert(options.whole "--vocab")
  parser:option("--cluster", "a tangram.cluster/1 file, in place of a recipe")
  parser:option("--training", "a JSON file with the training table")
  for _, setter in ipairs(setters) do parser:option("--" .. setter[1], setter[4]) end
  parser:option("--gpus", "constants of GPUs, a file of tangram calibrate")
  parser:option("--exclude", "leave this node out (may be repeated)"):count "*"
  parser:option("--set", "key=value in the recipe's table, e.g. parallelizer.options.max_tp=4"):count "*"
  parser:option("--lua-dir", "look for adapters, cost models and policies here first")
  parser:option("--recipe-seconds", "limit on the recipe's own time"):default "60"
  parser:option("--json", "write the plan, tangram.plan/1 (- for standard output)")
  parser:option("--html", "write the report as one self-contained page")
  parser:option("--trace", "write a simulated iteration for Perfetto or chrome://tracing")
  parser:flag("--quiet", "no report, no memory lines, no progress bar")
  return parser
end

--- Sets a dotted field of a spec; a field of training may stand in a spec without that table.
local function set(spec, path, value)
  local table_name <const>, field <const> = path:match "^(%w+)%.([%w_]+)$"
  if table_name then
    if type(spec[table_name]) ~= "table" then spec[table_name] = {} end
    spec[table_name][field] = value
  else
    spec[path] = value
  end
end

local function decode(path)
  local value <const>, why <const> = core.json_decode(options.read(path))
  if why then error(path .. ":" .. why, 0) end
  return value
end

local function overrides_of(args)
  local list_of <const> = {}
  if args.training then
    local training <const> = decode(args.training)
    list_of[#list_of + 1] = function(spec) spec.training = training end
  end
  for _, setter in ipairs(setters) do
    local text <const> = args[setter[1]:gsub("-", "_")]
    if text then
      local value <const> = setter[3] and setter[3](text) or not setter[3] and text
      list_of[#list_of + 1] = function(spec) set(spec, setter[2], value) end
    end
  end
  if #args.exclude > 0 then
    list_of[#list_of + 1] = function(spec) spec.exclude = args.exclude end
  end
  if args.gpus then
    local gpus <const> = require("tangram.measured.own").read(args.gpus)
    list_of[#list_of + 1] = function(spec)
      if type(spec.cost) ~= "table" then spec.cost = { name = spec.cost or "analytic" } end
      spec.cost.options = spec.cost.options or {}
      spec.cost.options.gpus = gpus
    end
  end
  for _, word in ipairs(args.set) do list_of[#list_of + 1] = options.setter(word) end
  return list_of
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

--- The vocabulary by option or --set: needed before the model's file can be read.
local function vocab_of(args)
  for _, word in ipairs(args.set) do
    local count <const> = word:match "^model%.vocab=(%d+)$"
    if count then return math.tointeger(tonumber(count)) end
  end
  return args.vocab
end

local function plan_of(args, ranks)
  local recipe <const> = require "tangram.recipe"
  local hooks <const>, clear <const> = hooks_of(args.quiet)
  hooks.ranks = ranks
  recipe.configure(overrides_of(args), hooks)
  local plan, failure
  if args.recipe then
    plan, failure = recipe.run(args.recipe, number("recipe-seconds", args.recipe_seconds))
  else
    local ok <const>, result <const> = pcall(recipe.plan, {
      model = args.model and require("tangram").model(args.model, { family = args.family, vocab = vocab_of(args) }),
      cluster = args.cluster, training = {},
    })
    if ok then plan = result else failure = result end
  end
  clear()
  if plan then return plan end
  return nil, recipe.explain(failure)
end

local function plan_and_write(args, ranks)
  if args.lua_dir then require("tangram.loader").add_place(args.lua_dir) end
  local plan <const>, why <const>, status <const> = plan_of(args, ranks)
  if not plan then
    io.stderr:write("tangram plan: ", why, "\n")
    return why:match "^internal" and 1 or status
  end
  if args.json then options.write(args.json, require("tangram.plan").encode(plan)) end
  if args.html then options.write(args.html, require("tangram.report.html").plan(plan)) end
  if args.trace then options.write(args.trace, require("tangram.report.trace").plan(plan)) end
  local piped <const> = args.json == "-" or args.html == "-" or args.trace == "-"
  if not args.quiet and not piped then io.stdout:write(require("tangram").report(plan)) end
  return 0
end

local function run(words)
  local args <const> = options.parse(make_parser(), words)
  if not args.recipe and not (args.model and args.cluster) then
    error("expected a recipe, or --model and --cluster (see 'tangram plan --help')", 0)
  end
  local ranks <const> = core.ranks and core.ranks()
  if ranks and ranks:rank() > 0 then -- rank 0 alone reads, searches and writes
    local served <const>, why <const> = ranks:serve()
    if not served then error(why, 0) end
    ranks:leave(0)
    return 0
  end
  local status <const> = options.guard("tangram plan", function() return plan_and_write(args, ranks) end)
  if ranks then ranks:leave(status) end
  return status
end

return {
  summary = "plan the training of a model over a cluster",
  run = function(words) return options.guard("tangram plan", function() return run(words) end) end,
}
