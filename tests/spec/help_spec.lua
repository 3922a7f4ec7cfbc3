local support <const> = require "tests.spec.support"

describe("help", function()
  local _, listing <const> = support.run "tangram --help"
  local commands <const> = {}
  for name in listing:gmatch "\n  (%S+) +%S" do commands[#commands + 1] = name end

  it("lists the commands", function() assert.is_true(#commands >= 9) end)

  it("of cluster import lists what it reads", function()
    local status <const>, out <const> = support.run "tangram cluster import --help"
    assert.equal(0, status)
    assert.matches("Example: tangram cluster import", out, 1, true)
    for _, module in ipairs(require "tangram.input.kinds") do
      assert.matches("\n  " .. require "tangram.input.kinds".reader(module).kind .. " ", out, 1, true)
    end
  end)

  for _, name in ipairs(commands) do
    it("of " .. name .. ", and of the commands in it, has an example, and tells what stands behind each option", function()
      local function check(words)
        local status <const>, out <const>, err <const> = support.run("tangram " .. words .. " --help")
        assert.same({ 0, "" }, { status, err })
        assert.matches("\nExample: [^\n]*tangram " .. name, out)
        assert.not_matches("%-%-[%w-]+ <", out)
        assert.equal(out, select(2, support.run("tangram help " .. words)))
        return (out .. "\n"):match "\nCommands:\n(.-)\n\n" or ""
      end
      for inner in ("\n" .. check(name)):gmatch "\n   (%l+)" do check(name .. " " .. inner) end
    end)
  end
end)
