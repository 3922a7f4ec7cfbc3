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
    local full <const> = ({ cluster = "cluster show", model = "model show" })[name] or name
    it("of " .. full .. " has an example", function()
      local status <const>, out <const>, err <const> = support.run("tangram " .. full .. " --help")
      assert.equal(0, status)
      assert.equal("", err)
      assert.matches("[Ee]xample:.*tangram " .. name, out)
    end)
  end
end)
