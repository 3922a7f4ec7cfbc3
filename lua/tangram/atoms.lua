--- An adapter's own atoms (DESIGN.md, section 4): checked, and with what the rest of the planner reads of any atom.
local core <const> = require "tangram.core"
local schema <const> = require "tangram.schema"

local atoms <const> = {}

--- The fields of an atom.
atoms.fields = {
  kind = { type = "string", required = true, doc = "what it is; 'embedding', 'layer' and 'head' are counted in reports" },
  flops = { type = "number", min = 0, required = true, doc = "forward FLOPs of one sample" },
  parameter_bytes = { type = "number", min = 0, required = true, doc = "its parameters at 2 bytes each" },
  boundary_bytes = { type = "number", min = 0, required = true, doc = "what goes to the next atom, of one sample" },
  hash = { type = "string", required = true, doc = "equal for atoms that answers may be shared between" },
}

--- Checks what an adapter's `atoms` returned; raises one line. Fields beyond atoms.fields are the adapter's own and stay.
---@param plugin table the adapter
---@param list any
---@return table[] atoms
function atoms.check(plugin, list)
  local where <const> = plugin.path .. ": atoms()"
  if type(list) ~= "table" or #list == 0 then schema.fail(where, list, "a list of at least one atom") end
  local checked <const> = {}
  for i, atom in ipairs(list) do
    if type(atom) ~= "table" then schema.fail(("%s: atom %d"):format(where, i), atom, "a table") end
    local own <const> = {}
    for name, field in pairs(atoms.fields) do own[name] = field end
    for name in pairs(atom) do own[name] = own[name] or { type = "any" } end
    local one <const> = schema.check(atom, own, ("%s: atom %d"):format(where, i))
    one.index, one.parameters = i, one.parameters or one.parameter_bytes / 2
    one.expert_parameters = one.expert_parameters or 0
    -- slices share answers only if what leaves them is equal as well
    one.hash = ("%s %.17g"):format(one.hash, one.boundary_bytes)
    checked[i] = one
  end
  return core.array(checked)
end

return atoms
