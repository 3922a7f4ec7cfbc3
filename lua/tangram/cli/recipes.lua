--- What commands that plan share: a recipe, or a model, a cluster and a batch, and the options set over it.
local core <const> = require "tangram.core"
local options <const> = require "tangram.cli.options"

local recipes <const> = {}

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

local list <const> = options.list

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
  { "target", "target", nil,
    "a runtime that must be able to run the plan: " .. table.concat(require("tangram.target.branch").names(), ", ") },
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

--- Adds the options to a command's parser.
---@param parser table
function recipes.add(parser)
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

--- What the options change in a spec.
---@param args table parsed
---@return fun(spec: table)[]
function recipes.overrides(args)
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

--- Parsed arguments; raises where there is nothing to plan. Plugins of --lua-dir come first from then on.
---@param parser table
---@param words string[]
---@return table
function recipes.parse(parser, words)
  local args <const> = options.parse(parser, words)
  if not args.recipe and not (args.model and args.cluster) then
    error(("expected a recipe, or --model and --cluster (see '%s --help')"):format(parser._name), 0)
  end
  if args.lua_dir then require("tangram.loader").add_place(args.lua_dir) end
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
  if args.recipe then return recipe.run(args.recipe, number("recipe-seconds", args.recipe_seconds)) end
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
