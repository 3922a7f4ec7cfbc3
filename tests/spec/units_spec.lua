local units <const> = require "tangram.units"

describe("quantities", function()
  it("keep bits and bytes, thousands and 1024s apart", function()
    for text, bytes in pairs {
      ["80 GiB"] = 80 * 1024 ^ 3, ["80GB"] = 80e9, ["46068 MiB"] = 46068 * 1024 ^ 2, ["1.5 TiB"] = 1.5 * 1024 ^ 4, ["25 Gb"] = 25e9 / 8,
      ["8 bits"] = 1, ["512"] = false, ["7 B"] = 7, [" 2 kB "] = 2000, ["2 KiB"] = 2048, ["1e3 MB"] = 1e9, [".5 GB"] = 5e8,
    } do
      assert.equal(bytes or nil, (units.bytes(text)), text)
    end
    for text, rate in pairs {
      ["46 GB/s"] = 46e9, ["25 Gb/s"] = 25e9 / 8, ["100Gbps"] = 12.5e9, ["200 Gbit/s"] = 25e9, ["253.5 GB/s"] = 253.5e9,
      ["1 GiB/s"] = 1024 ^ 3,
    } do
      assert.equal(rate, (units.bytes_per_s(text)), text)
    end
  end)

  it("are FLOP/s and seconds too", function()
    for text, flops in pairs { ["312 TFLOP/s"] = 312e12, ["1.979 PFLOPS"] = 1.979e15, ["65 TFLOPs"] = 65e12, ["5 Gflop/s"] = 5e9 } do
      assert.near(flops, units.flops(text), 1e-9 * flops)
    end
    for text, seconds in pairs { ["20 us"] = 2e-5, ["20µs"] = 2e-5, ["1.5 ms"] = 1.5e-3, ["2 min"] = 120, ["3s"] = 3, ["5 ns"] = 5e-9,
      ["1 h"] = 3600 } do
      assert.near(seconds, units.seconds(text), 1e-12 * seconds)
    end
  end)

  it("pass numbers in base units through", function()
    assert.equal(17, (units.bytes(17)))
    assert.equal("integer", math.type((units.bytes "80 GiB")))
    assert.equal(0.25, (units.seconds(0.25)))
  end)

  it("say what was expected, with an example", function()
    for _, wrong in ipairs { "46 GB/s", "80 gb", "GiB", "", "80 GiB extra", "-1 GB", "1..2 GB", {}, true, -1, 0 / 0, math.huge } do
      assert.same({ nil, "bytes: a number of at least 0, or text such as '80 GiB'" }, { units.bytes(wrong) })
    end
    assert.same({ nil, "bytes per second: a number of at least 0, or text such as '46 GB/s' or '25 Gb/s'" },
      { units.bytes_per_s "46 GB" })
    assert.same({ nil, "FLOP/s: a number of at least 0, or text such as '312 TFLOP/s'" }, { units.flops "312 TB/s" })
    assert.same({ nil, "seconds: a number of at least 0, or text such as '20 us'" }, { units.seconds "20" })
  end)

  it("are shown with three digits that count", function()
    assert.equal("80.0 GiB", units.format_bytes(80 << 30))
    assert.equal("1.00 KiB", units.format_bytes(1024))
    assert.equal("0.00 B", units.format_bytes(0))
    assert.equal("1.00 GiB", units.format_bytes((1 << 30) - 1))
    assert.equal("2.45 GB/s", units.format_rate(2.45e9))
    assert.equal("253 GB/s", units.format_rate(253.4e9))
    assert.equal("312 TFLOP/s", units.format_flops(312e12))
    assert.equal("20.0 us", units.format_time(2e-5))
    assert.equal("12.3 ms", units.format_time(0.0123))
    assert.equal("47.0 s", units.format_time(47))
    assert.equal("1.00 ms", units.format_time(0.99996e-3))
  end)
end)
