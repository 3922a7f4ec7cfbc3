--- A slice of the model's atoms, as adapters and cost models see it. Indices count from 1, both ends inclusive.
local slice <const> = {}

---@class tangram.Slice
---@field first integer first atom of the model in the slice
---@field last integer last one
---@field layers integer transformer layers in it (a layer cut in halves counts with its attention)
---@field has_embedding boolean
---@field has_head boolean
---@field signature string equal for slices of equal content
---@field model table the model's description
local methods <const> = {}

local function atoms_of(self) return rawget(self, "atoms") end

local computed <const> = {
  layers = function(self)
    local count = 0
    for i = self.first, self.last do
      local kind <const> = atoms_of(self)[i].kind
      if kind == "layer" or kind == "attention" then count = count + 1 end
    end
    return count
  end,
  has_embedding = function(self) return atoms_of(self)[self.first].kind == "embedding" end,
  has_head = function(self) return atoms_of(self)[self.last].kind == "head" end,
  signature = function(self)
    local hashes <const> = {}
    for i = self.first, self.last do hashes[#hashes + 1] = atoms_of(self)[i].hash end
    return table.concat(hashes, ",")
  end,
}

local class <const> = {
  __index = function(self, key)
    if math.type(key) == "integer" then
      local index <const> = self.first + key - 1
      if key < 1 or index > self.last then return nil end
      return atoms_of(self)[index]
    end
    if methods[key] then return methods[key] end
    if computed[key] then
      local value <const> = computed[key](self)
      rawset(self, key, value)
      return value
    end
  end,
  __len = function(self) return self.last - self.first + 1 end,
  __tostring = function(self) return ("atoms %d..%d"):format(self.first, self.last) end,
  __name = "Slice", __metatable = "Slice", -- one for all slices: not for plugins to change
}

--- The run of atoms i..j of this slice.
---@param i integer from 1
---@param j integer inclusive
---@return tangram.Slice
function methods:run(i, j)
  if i < 1 or j > #self or i > j then
    error(("slice:run(%s, %s): expected 1 <= i <= j <= %d"):format(i, j, #self), 2)
  end
  return slice.new(self.model, atoms_of(self), self.first + i - 1, self.first + j - 1)
end

--- The slice of all the model's atoms.
---@return tangram.Slice
function methods:of_model() return slice.new(self.model, atoms_of(self), 1, #atoms_of(self)) end

---@param model table the model's description
---@param atoms table[] all the model's atoms
---@param first integer
---@param last integer
---@return tangram.Slice
function slice.new(model, atoms, first, last)
  return setmetatable({ model = model, atoms = atoms, first = first, last = last }, class)
end

return slice
