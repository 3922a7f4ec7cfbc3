-- Writes Lua sources as C arrays: lua5.4 embed.lua ROOT OUT FILE... ; FILE below ROOT becomes the module of its path.
local root <const>, out <const> = arg[1], arg[2]
local modules <const> = {}
for i = 3, #arg do
  local file <close> = assert(io.open(arg[i], "rb"))
  local name = arg[i]:sub(#root + 2):gsub("%.lua$", ""):gsub("/init$", ""):gsub("/", ".")
  modules[#modules + 1] = { name = name, source = file:read "a" }
end
table.sort(modules, function(a, b) return a.name < b.name end)

local text <const> = { '#include "bind/embedded.h"\n' }
for i, module in ipairs(modules) do
  local bytes <const> = { string.byte(module.source, 1, 0) }
  for at = 1, #module.source, 16 do
    bytes[#bytes + 1] = (module.source:sub(at, at + 15):gsub(".", function(c) return c:byte() .. "," end))
  end
  text[#text + 1] = ("static const unsigned char module_%d[] = {\n%s\n0};\n"):format(i, table.concat(bytes, "\n"))
end
text[#text + 1] = "const tg_embedded tg_embedded_modules[] = {\n"
for i, module in ipairs(modules) do
  text[#text + 1] = ('    {"%s", module_%d, %d},\n'):format(module.name, i, #module.source)
end
text[#text + 1] = "    {0, 0, 0}};\n"
local file <close> = assert(io.open(out, "wb"))
file:write(table.concat(text))
