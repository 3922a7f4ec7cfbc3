local core <const> = require "tangram.core"
local support <const> = require "tests.spec.support"

describe("tangram model show", function()
  local folder <const> = support.folder()
  teardown(function() support.remove(folder) end)

  it("prints dimensions, parameters, memory and one line for each kind of atom", function()
    local status <const>, out <const>, err <const> = support.run "tangram model show recipes/models/qwen3-30b-a3b.json"
    assert.same({ 0, "" }, { status, err })
    assert.matches("48 layers", out)
    assert.matches("30.53 B %(30532110336%), a token meets 3.35 B", out)
    assert.matches("56.87 GiB.+454.96 GiB.+511.83 GiB", out) -- 2, 16, 18 bytes * 30532110336 / 2^30
    assert.matches("\n +48 +layer, full, moe", out)
  end)

  it("writes JSON alone to standard output, and to a file", function()
    local status <const>, out <const> = support.run "tangram model show recipes/models/llama-3.1-8b.json --seq-len 128 --json -"
    assert.equal(0, status)
    local shown <const> = core.json_decode(out)
    assert.same({ 8030261248, 8030261248, 34, 0, 2 * 128 * 4096 }, { shown.parameters, shown.active_parameters, #shown.atoms,
      shown.atoms[1].index, shown.atoms[1].boundary_bytes })
    assert.equal("llama-3.1-8b", shown.model.name)
    local path <const> = folder .. "/model.json"
    assert.equal(0, (support.run("tangram model show recipes/models/llama-3.1-8b.json --seq-len 128 --json " .. path)))
    assert.equal(out, support.read(path))
  end)

  it("takes the learned positions for the sequence if they are fewer, and sends warnings to standard error", function()
    local path <const> = support.write(folder .. "/config.json",
      [[{"n_embd": 768, "n_layer": 12, "n_head": 12, "n_positions": 1024, "vocab_size": 50257, "vision_config": {}}]])
    local status <const>, out <const>, err <const> = support.run("tangram model show --family gpt2 " .. path)
    assert.equal(0, status)
    assert.matches("sample of 1024 tokens", out)
    assert.matches("124439808", out)
    assert.matches("left out: vision_config\n$", err)
  end)

  it("refuses with status 2 and one line", function()
    local cases <const> = {
      { "show " .. folder .. "/absent.json", "absent.json: No such file" },
      { "show recipes/models/llama-3.1-8b.json --seq-len 0", "%-%-seq%-len: got 0, expected a whole number" },
      { "show recipes/models/llama-3.1-8b.json --seq-len 1.5", "%-%-seq%-len: got '1.5', expected a whole number" },
      { "show recipes/models/llama-3.1-8b.json --family lama", "did you mean 'llama'" },
      { "show recipes/models/llama-3.1-8b.json --json /nonexistent/x", "No such file" },
      { "show", "missing argument 'file'" },
      { "shwo x", "unknown command 'shwo'" },
      { "", "a command is required" },
    }
    for _, case in ipairs(cases) do
      local status <const>, _, err <const> = support.run("tangram model " .. case[1])
      assert.equal(2, status)
      assert.matches("^tangram model: [^\n]*" .. case[2] .. "[^\n]*\n$", err)
    end
  end)

  it("helps with an example", function()
    local status <const>, out <const> = support.run "tangram model show --help"
    assert.equal(0, status)
    assert.matches("Example: tangram model show", out)
  end)
end)
