--- tangram: plans the training of one large language model over a cluster of unlike GPUs. `require "tangram"` in recipes,
--- in the REPL, and from stock lua5.4.
local core <const> = require "tangram.core"

local tangram <const> = { version = core.version, units = require "tangram.units" }

--- A model's description from a table, or from the path of a Hugging Face config.json or of Megatron's arguments.
---@param source table|string
---@param options { family: string?, name: string?, vocab: integer? }? vocab: where the file leaves it to a tokenizer
---@return table
function tangram.model(source, options)
  return (require("tangram.model").read(source, options))
end

--- A cluster's description, the catalogue's values filled in, from a table or the path of a tangram.cluster/1 file.
---@param source table|string
---@return table
function tangram.cluster(source)
  if type(source) == "string" then return require("tangram.input.cluster_json").read(source) end
  return require("tangram.cluster").describe(source)
end

--- Plans at once. Options of the command line override the table. Raises one line where there is no plan.
---@param spec table see planner.fields
---@return table plan tangram.plan/1
function tangram.plan(spec)
  return require("tangram.recipe").plan(spec)
end

--- The terminal report of a plan.
---@param plan table
---@return string
function tangram.report(plan)
  return require("tangram.report.text").plan(plan)
end

return tangram
