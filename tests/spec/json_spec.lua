local core <const> = require "tangram.core"
local support <const> = require "tests.spec.support"

describe("json", function()
  it("keeps whole numbers, fractions, null and empty arrays through a round trip", function()
    local text <const> = '{"b":[1,2.5,null,[],{}],"a":0.1,"c":"x\\"y"}'
    local value <const> = core.json_decode(text)
    assert.equal("integer", math.type(value.b[1]))
    assert.equal(core.null, value.b[3])
    assert.same(value, core.json_decode(core.json_encode(value)))
    assert.equal("[]", (core.json_encode(value.b[4]):gsub("%s", "")))
    assert.equal("{}", (core.json_encode(value.b[5]):gsub("%s", "")))
  end)

  it("writes keys in the order asked for and numbers with 17 digits", function()
    local text <const> = core.json_encode({ z = 1, y = 0.1, x = true }, { "z", "y" })
    assert.equal('{"z":1,"y":0.10000000000000001,"x":true}', (text:gsub("%s", "")))
  end)

  it("names line and column of a syntax error", function()
    local value <const>, why <const> = core.json_decode('{\n  "a": 1,\n  "b": }')
    assert.is_nil(value)
    assert.matches("^3:8: not JSON", why)
  end)

  it("refuses keys that stand twice, NUL bytes, infinity and trailing text", function()
    assert.matches("field 'a' is given twice", select(2, core.json_decode '{"a":1,"a":2}'))
    assert.matches("NUL", select(2, core.json_decode "{}\0"))
    assert.matches("^a: the number is out of range", select(2, core.json_decode '{"a":1e999}'))
    assert.is_nil(core.json_decode "{} x")
    assert.is_nil(core.json_decode '{"a":NaN}')
  end)

  it("writes UTF-8, with U+FFFD for each byte that is none", function()
    local text <const> = "x\xFF\u{E9}\xED\xA0\x80\u{10FFFF}\xF4\x90\x80\x80\xC0\xAF\xE2\x82"
    local right <const> = "x\u{FFFD}\u{E9}" .. ("\u{FFFD}"):rep(3) .. "\u{10FFFF}" .. ("\u{FFFD}"):rep(8)
    assert.same({ [right] = { right } }, core.json_decode(core.json_encode { [text] = { text } }))
    for _ = 1, support.scale(2000) do
      local bytes <const> = {}
      for i = 1, math.random(1, 8) do bytes[i] = string.char(math.random() < 0.3 and math.random(1, 127) or math.random(128, 255)) end
      local given <const>, out <const> = table.concat(bytes), core.json_decode(core.json_encode { table.concat(bytes) })[1]
      assert.is_truthy(utf8.len(out))
      assert.equal(utf8.len(given) ~= nil, given == out)
    end
  end)

  it("refuses what JSON can't hold", function()
    assert.error_matches(function() core.json_encode { a = print } end, "function is not JSON")
    assert.error_matches(function() core.json_encode { a = 0 / 0 } end, "not a finite number")
    local loop <const> = {}
    loop.a = loop
    assert.error_matches(function() core.json_encode(loop) end, "nested too deeply")
  end)
end)

describe("nearest", function()
  it("finds what was meant", function()
    assert.equal("global_batch", core.nearest("globalbatch", { "seq_len", "global_batch" }))
    assert.equal("seq_len", core.nearest("seq_lne", { "seq_len", "global_batch" }))
    assert.is_nil(core.nearest("zebra", { "seq_len", "global_batch" }))
  end)
end)
