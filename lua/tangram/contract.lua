--- The contracts of plugins (DESIGN.md, section 5): their fields, from which both checks and documentation come.
local schema <const> = require "tangram.schema"

local contract <const> = {}

--- The contract's version; a plugin says which it was written for.
contract.api = 1

--- What loading a plugin may take, and a query unless the planning says otherwise.
contract.limits = { seconds = 60, memory_bytes = 1 << 30 }

contract.nouns = { parallelizer = "parallelizer", cost = "cost model", prune = "pruning policy" }

local function fields_of(kind, own)
  local fields <const> = {
    api = { type = "integer", required = true, min = 1, max = contract.api, doc = "version of the contract" },
    kind = { type = "enum", values = { kind }, required = true, doc = "what the plugin is" },
    name = { type = "string", required = true, doc = "as in reports" },
    description = { type = "string", default = "", doc = "one line for people" },
    options = { type = "map", item = { type = "table" }, default = {}, doc = "a field each: { type =, default =, doc = }" },
  }
  for name, field in pairs(own) do fields[name] = field end
  return fields
end

contract.plugins = {
  parallelizer = fields_of("parallelizer", {
    plan = { type = "function", required = true, doc = "plan(slice, island, ctx): list of partial plans, or nil, why" },
    atoms = { type = "function", doc = "atoms(model, ctx): the adapter's own atoms" },
    supports = { type = "function", doc = "supports(slice, island, ctx): true, or false, why" },
    own_times = { type = "boolean", default = false, doc = "its times don't come from ctx.cost: no pruning by bounds" },
  }),
  cost = fields_of("cost", {
    stage = { type = "function", doc = "stage(run, island, strategy, ctx): a complete stage" },
    atom = { type = "function", doc = "atom(atom, island, strategy, ctx): terms that add up over a stage" },
    close = { type = "function", doc = "close(sum, run, island, strategy, ctx): a complete stage from summed terms" },
    constants = { type = "function", doc = "constants(island, strategy, ctx): { stage_s, static_bytes } of every stage" },
    link = { type = "function", doc = "link(link, ctx): latency_s, bytes_per_s" },
    constants_used = { type = "function", doc = "constants_used(island, ctx): list of { name, value, unit, from, source }" },
  }),
  prune = fields_of("prune", {
    key = { type = "function", doc = "key(pair, ctx): pairs of equal key share one query" },
    keep = { type = "function", doc = "keep(pair, ctx): true, or false, why" },
    bound = { type = "function", doc = "bound(pair, ctx): least seconds a microbatch of any sequence with it" },
    by_cost = { type = "boolean", default = false, doc = "it reads ctx.cost: off for adapters with times of their own" },
    safe = { type = "boolean", default = false, doc = "it can't lose the optimum" },
  }),
}

--- A checked copy of what a plugin's file returned; raises one line.
---@param kind "parallelizer"|"cost"|"prune"
---@param plugin any
---@param where string the file
function contract.check_plugin(kind, plugin, where)
  if type(plugin) ~= "table" then
    error(("%s: returns %s, expected the table of a %s"):format(where, plugin == nil and "nothing" or "a " .. type(plugin),
      contract.nouns[kind]), 0)
  end
  local checked <const> = schema.check(plugin, contract.plugins[kind], where)
  schema.check_schema(checked.options, where .. ": options")
  if kind == "cost" and not checked.stage and not (checked.atom and checked.close and checked.constants) then
    error(where .. ": missing stage, or atom with close and constants, expected a way to price a stage", 0)
  end
  return checked
end

--- Values for a plugin's options.
---@param plugin table checked
---@param values table
---@param where string
function contract.check_options(plugin, values, where)
  return schema.check(values, plugin.options, where .. ": options")
end

return contract
