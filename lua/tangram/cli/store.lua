--- `tangram store`: what lies in a file of answers, dropping what is of no more use, and checking it.
local core <const> = require "tangram.core"
local options <const> = require "tangram.cli.options"
local units <const> = require "tangram.units"

local day_s <const> = 86400

local function make_parser()
  local parser <const> = options.parser("tangram store", "Answers kept by 'tangram plan --store FILE'.",
    "tangram store prune answers.db --unused-days 30")
  options.command(parser, "list", "what is kept, oldest first", "tangram store list answers.db"):argument("file", "the store")
  local prune <const> = options.command(parser, "prune", "drop answers that no run of this program can find, and old ones",
    "tangram store prune answers.db --unused-days 30")
  prune:argument("file", "the store")
  prune:option("--unused-days", "also drop what no run has used for so many days"):argname "N"
    :convert(options.number("--unused-days", 0))
  options.command(parser, "verify", "read every answer; status 2 if one is damaged", "tangram store verify answers.db")
    :argument("file", "the store")
  return parser
end

local function open(path)
  local store <const>, why <const> = core.store(path, "existing")
  if not store then error(why, 0) end
  return store
end

local function must(value, why)
  if not value then error(why, 0) end
  return value
end

--- One line for each adapter, cost model, model, island and number of microbatches (B).
local function list(store)
  local scopes <const> = must(store:list())
  local answers, bytes = 0, 0
  for _, scope in ipairs(scopes) do
    local of <const> = must(core.json_decode(scope.description))
    print(("%s  %6d answers %9s  %s on %s with %s, %s, B %d%s"):format(os.date("!%Y-%m-%d", scope.used // 1 | 0),
      scope.answers, units.format_bytes(scope.bytes), of.model, of.island, of.parallelizer, of.cost, of.microbatches,
      scope.program == core.fingerprint and "" or " (by another build: not found by this one)"))
    answers, bytes = answers + scope.answers, bytes + scope.bytes
  end
  print(("%d answers, %s"):format(answers, units.format_bytes(bytes)))
end

local function prune(store, args)
  print(("%d answers dropped"):format(must(store:prune(true, args.unused_days and args.unused_days * day_s))))
end

local function verify(store)
  print(("%d answers, all intact"):format(must(store:verify())))
end

local commands <const> = { list = list, prune = prune, verify = verify }

return options.entry("tangram store", "list, prune or verify a file of kept answers", function(words)
  local args <const> = options.parse(make_parser(), words)
  local store <close> = open(args.file)
  commands[args.command](store, args)
end)
