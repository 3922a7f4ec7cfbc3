--- What specs of readers of tools' output share.
local assert <const> = require "luassert"
local kinds <const> = require "tangram.input.kinds"
local support <const> = require "tests.spec.support"

local readings <const> = {}

--- The text of a file of fixtures.
function readings.fixture(name) return support.read("tests/spec/fixtures/inputs/" .. name) end

--- The text is refused in one line that has all the words.
function readings.refused(kind, text, ...)
  local facts <const>, why <const> = kinds.find(kind).read(text)
  assert.is_nil(facts)
  for _, words in ipairs { ... } do assert.matches(words, why, 1, true) end
  assert.is_nil(why:find "\n")
end

return readings
