--- What commands that plan share: a recipe, or a model, a cluster and a batch, and the options set over it.
local files <const> = require "tangram.files"
local options <const> = require "tangram.cli.options"

local recipes <const> = {}

local function number(text, option)
  local value <const> = tonumber(text)
  if not value then error(("%s: got '%s', expected a number"):format(option, text), 0) end
  return math.tointeger(value) or value
end

local function bytes(text, option)
  local value <const>, expected <const> = require("tangram.units").bytes(tonumber(text) or text)
  if not value then error(("%s: got '%s', expected %s"):format(option, text, expected), 0) end
  return value
end

local function list(text) return options.list(text) end

local function range(text, option)
  local lo <const>, hi <const> = text:match "^(%d*)%.%.(%d*)$"
  if lo and lo .. hi ~= "" then return { min = tonumber(lo), max = tonumber(hi) } end
  local one <const> = math.tointeger(tonumber(text))
  if not one then error(("%s: got '%s', expected LO..HI, e.g. 8..64"):format(option, text), 0) end
  return { min = one, max = one }
end

local function numbers(text, option)
  local values <const> = {}
  for i, item in ipairs(list(text)) do values[i] = number(item, option) end
  return values
end

local function text_as_it_is(text) return text end

--- Options that set a field of the spec: name, what stands behind it, field, reader, help.
local setters <const> = {
  { "parallelizer", "NAME", "parallelizer", text_as_it_is, "adapter: a name or the path of a .lua file" },
  { "cost", "NAME", "cost", text_as_it_is, "cost model: a name or a path" },
  { "prune", "A,B,…", "prune", list, "pruning policies; '' for none" },
  { "objective", "WHICH", "objective", text_as_it_is, "simulated or paper" },
  { "p2p", "WHICH", "p2p", text_as_it_is, "overlapped or blocking" },
  { "warmup", "WHICH", "warmup", text_as_it_is, "1f1b or auto" },
  { "target", "RUNTIME", "target", text_as_it_is,
    "a runtime that must be able to run the plan: " .. table.concat(require("tangram.target.branch").names(), ", ") },
  { "gap", "G", "gap", number, "fraction from the optimum at which to stop" },
  { "time-limit", "S", "time_limit_s", number, "seconds; then the best so far" },
  { "top", "N", "top", number, "list the N best plans" },
  { "workers", "N", "workers", number, "threads that ask; default: the cores" },
  { "query-seconds", "S", "query_seconds", number, "limit of one query" },
  { "query-memory", "BYTES", "query_memory_bytes", bytes, "limit of one query, e.g. '2 GiB'" },
  { "microbatches", "LO..HI", "training.microbatches", range, "microbatches an iteration" },
  { "precision", "P", "training.precision", text_as_it_is, "auto, bf16, fp16, fp8 or fp32" },
  { "memory-margin", "F", "training.memory_margin", number, "share of a GPU's memory left free" },
  { "global-batch", "N", "training.global_batch", number, "sequences an iteration" },
  { "seq-len", "N", "training.seq_len", number, "tokens a sequence" },
  { "tolerance", "EC,EM,EI", "tolerance", numbers, "how unlike an island's nodes may be" },
  { "store", "FILE", "store", text_as_it_is, "keep answers in this file, and look there first" },
  { "granularity", "WHICH", "granularity", text_as_it_is, "layer or half (for study)" },
}

--- What stands in place of a recipe.
local replacing <const> = {
  { "model", "FILE", "a Hugging Face config.json or Megatron's arguments, in place of a recipe" },
  { "family", "NAME", "read the config as this family" },
  { "vocab", "N", "vocabulary, where the model's file leaves it to the tokenizer" },
  { "cluster", "FILE", "a tangram.cluster/1 file, in place of a recipe" },
}

--- Adds the options to a command's parser.
---@param parser table
function recipes.add(parser)
  parser:argument("recipe", "a recipe, a Lua script that returns tangram.plan { … }"):args "?"
  for _, one in ipairs(replacing) do
    local option <const> = parser:option("--" .. one[1], one[3]):argname(one[2])
    if one[1] == "vocab" then option:convert(options.whole "--vocab") end
  end
  parser:option("--training", "a JSON file with the training table"):argname "FILE"
  for _, setter in ipairs(setters) do parser:option("--" .. setter[1], setter[5]):argname(setter[2]) end
  parser:option("--gpus", "constants of GPUs, a file of tangram calibrate"):argname "FILE"
  parser:option("--exclude", "leave this node out (may be repeated)"):argname "NODE":count "*"
  parser:option("--set", "a field of the recipe's table, e.g. parallelizer.options.max_tp=4"):argname "KEY=VALUE":count "*"
  parser:option("--lua-dir", "look for adapters, cost models and policies here first"):argname "DIR"
  recipes.add_seconds(parser)
end

--- Adds the limit on a recipe's own time.
---@param parser table
function recipes.add_seconds(parser)
  parser:option("--recipe-seconds", "limit on the recipe's own time"):argname "S":convert(options.number "--recipe-seconds"):default "60"
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

--- What the options change in a spec.
---@param args table parsed
---@return fun(spec: table)[]
function recipes.overrides(args)
  local list_of <const> = {}
  if args.training then
    local training <const> = files.table(args.training, "the training table")
    list_of[#list_of + 1] = function(spec) spec.training = training end
  end
  for _, setter in ipairs(setters) do
    local text <const> = args[setter[1]:gsub("-", "_")]
    if text then
      local value <const> = setter[4](text, "--" .. setter[1])
      list_of[#list_of + 1] = function(spec) set(spec, setter[3], value) end
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

--- Parsed arguments; raises where there is nothing to plan. Plugins of --lua-dir come first from then on.
---@param parser table
---@param words string[]
---@return table
function recipes.parse(parser, words)
  local args <const> = options.parse(parser, words)
  if not args.recipe and not (args.model and args.cluster) then
    error(("expected a recipe, or --model and --cluster (see '%s --help')"):format(parser._name), 0)
  end
  for _, one in ipairs(replacing) do
    if args.recipe and args[one[1]] then error(("--%s: got one beside a recipe, which says that itself"):format(one[1]), 0) end
  end
  options.use_lua_dir(args)
  return args
end

--- Runs the recipe, or plans what the options name.
---@param args table parsed
---@param overrides fun(spec: table)[]
---@param hooks table planner.search's
---@return table? plan
---@return any failure what recipe.explain takes
function recipes.run(args, overrides, hooks)
  local recipe <const> = require "tangram.recipe"
  recipe.configure(overrides, hooks)
  if args.recipe then return recipe.run(args.recipe, args.recipe_seconds) end
  local ok <const>, result <const> = pcall(recipe.plan, {
    model = args.model and { file = args.model, family = args.family, vocab = args.vocab },
    cluster = args.cluster, training = {},
  })
  if ok then return result end
  return nil, result
end

--- The table that would be planned; raises one line if there is none.
---@param args table parsed
---@return table spec
function recipes.spec(args)
  local overrides <const>, caught = recipes.overrides(args), nil
  local stop <const> = setmetatable({}, { __tostring = function() return "stopped before planning" end })
  overrides[#overrides + 1] = function(spec)
    caught = spec
    error(stop, 0)
  end
  local _, failure <const> = recipes.run(args, overrides, {})
  if not caught then error((require("tangram.recipe").explain(failure)), 0) end
  return caught
end

return recipes
