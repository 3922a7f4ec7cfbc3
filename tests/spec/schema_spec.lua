local core <const> = require "tangram.core"
local schema <const> = require "tangram.schema"

describe("schema", function()
  local fields <const> = {
    batch = { type = "integer", required = true, min = 1, max = 1000000, doc = "sequences an iteration" },
    margin = { type = "number", default = 0.1, min = 0, max = 0.9 },
    rate = { type = "number", above = 0 },
    kind = { type = "enum", values = { "flash", "unfused" }, default = "flash" },
    sp = { type = "boolean", default = false },
    sizes = { type = "list", item = { type = "integer", min = 1 }, min = 1, max = 3 },
    rates = { any_of = { { type = "number", above = 0 }, { type = "map", item = { type = "number", above = 0 } } } },
    range = { type = "table", fields = { lo = { type = "integer" }, hi = { type = "integer" } } },
    even = { type = "integer", check = function(n) return n % 2 ~= 0 and "an even number" or nil end },
    plan = { type = "function" },
  }
  local function message(value)
    local ok <const>, why <const> = pcall(schema.check, value, fields, "r.lua: training")
    assert.is_false(ok)
    assert.equal(1, select(2, (why .. "\n"):gsub("\n", "")))
    return why
  end

  it("fills defaults in, keeps what is given and copies", function()
    local given <const> = { batch = 8.0, sizes = { 1, 2 }, rates = { ["1"] = 2.5 }, sp = true, range = { lo = 1 }, plan = print }
    local got <const> = schema.check(given, fields, "x")
    assert.same({ batch = 8, margin = 0.1, kind = "flash", sp = true, sizes = { 1, 2 }, rates = { ["1"] = 2.5 },
      range = { lo = 1 }, plan = print }, got)
    assert.equal("integer", math.type(got.batch))
    got.sizes[1], got.range.lo = 7, 7
    assert.same({ 1, 2 }, given.sizes)
    assert.equal(1, given.range.lo)
  end)

  it("keeps an empty list a list in JSON", function()
    local got <const> = schema.check({ l = {} }, { l = { type = "list" } }, "x")
    assert.equal('{"l":[]}', (core.json_encode(got):gsub("%s", "")))
  end)

  it("takes null for absent", function()
    assert.equal(0.1, schema.check({ batch = 1, margin = core.null }, fields, "x").margin)
    assert.equal("r.lua: training: batch: missing, expected a whole number from 1 to 1000000", message { batch = core.null })
  end)

  it("refuses 0, negative, fractional, huge and not finite numbers", function()
    assert.equal("r.lua: training: batch: got 0, expected a whole number from 1 to 1000000", message { batch = 0 })
    assert.matches("got %-1, expected a whole number", message { batch = -1 })
    assert.matches("got 1.5, expected a whole number", message { batch = 1.5 })
    assert.matches("got 1e%+30, expected a whole number", message { batch = 1e30 })
    assert.matches("got '8', expected a whole number", message { batch = "8" })
    assert.matches("margin: got NaN, expected a number from 0 to 0.9", message { batch = 1, margin = 0 / 0 })
    assert.matches("margin: got inf", message { batch = 1, margin = math.huge })
    assert.matches("rate: got 0, expected a number above 0", message { batch = 1, rate = 0 })
  end)

  it("names the nearest field and the nearest word", function()
    assert.equal("r.lua: training: batchs: unknown field (did you mean 'batch'?)", message { batchs = 1 })
    assert.matches("zzzzzz: unknown field, expected one of batch, even, kind", message { batch = 1, zzzzzz = 1 })
    assert.equal("r.lua: training: kind: got 'flsh', expected one of 'flash', 'unfused' (did you mean 'flash'?)",
      message { batch = 1, kind = "flsh" })
    assert.matches("range: low: unknown field %(did you mean 'lo'%?%)", message { batch = 1, range = { low = 1 } })
    assert.matches("1: unknown field", message { 5, batch = 1 })
  end)

  it("checks lists, maps, alternatives, functions and own conditions", function()
    assert.matches("sizes%[2%]: got 0, expected a whole number of at least 1", message { batch = 1, sizes = { 1, 0 } })
    assert.matches("sizes: got 4 items, expected a list of 1 to 3 items %(each: a whole number of at least 1%)",
      message { batch = 1, sizes = { 1, 2, 3, 4 } })
    assert.matches("sizes: got a table, expected a list", message { batch = 1, sizes = { a = 1 } })
    assert.matches("sizes: got 3, expected a list", message { batch = 1, sizes = 3 })
    assert.matches("rates%.1: got 0, expected a number above 0", message { batch = 1, rates = { ["1"] = 0 } })
    assert.matches("rates: got 'x', expected a number above 0, or a table", message { batch = 1, rates = "x" })
    assert.matches("even: got 3, expected an even number", message { batch = 1, even = 3 })
    assert.matches("plan: got 1, expected a function", message { batch = 1, plan = 1 })
    assert.equal("r.lua: training: got 3, expected a table", message(3))
  end)

  it("checks schemas themselves, as plugins write them", function()
    local function why(field) return select(2, pcall(schema.check_schema, { size = field }, "p.lua: options")) end
    assert.is_true(pcall(schema.check_schema, fields, "options"))
    assert.equal("p.lua: options: size: defualt: unknown field (did you mean 'default'?)", why { type = "integer", defualt = 1 })
    assert.matches("^p.lua: options: size: type: got 'int', expected one of 'any', 'boolean', .* %(did you mean '%w+'%?%)$",
      why { type = "int" })
    assert.matches("^p.lua: options: size: type: missing, expected one of .*, or any_of in its place$", why { doc = "how large" })
    assert.equal("p.lua: options: size: values: missing, expected the list of what may stand there", why { type = "enum" })
    assert.matches("options: size: item: type: got 'strng'", why { type = "list", item = { type = "strng" } })
    assert.matches("options: size: any_of%[2%]: fields: a: mni: unknown field %(did you mean 'min'%?%)",
      why { any_of = { { type = "number" }, { type = "table", fields = { a = { type = "number", mni = 1 } } } } })
    assert.equal("p.lua: options: size: got 5, expected a table", why(5))
  end)

  it("documents each field once", function()
    local text <const> = schema.document(fields)
    assert.matches("  batch   sequences an iteration %(a whole number from 1 to 1000000; required%)", text)
    assert.matches("kind    %s*%(one of 'flash', 'unfused'; default 'flash'%)", text)
    assert.equal(9, select(2, text:gsub("\n", "")))
  end)
end)
