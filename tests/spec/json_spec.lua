local core <const> = require "tangram.core"

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
