local core <const> = require "tangram.core"
local protocol <const> = require "tangram.protocol"
local support <const> = require "tests.spec.support"

local command <const> = { "python3", "recipes/process_adapter.py" }

local function has_python() return (os.execute "python3 -c '' 2>/dev/null") end

local function island(index, gpus)
  return {
    index = index, name = "i" .. index, gpu = "g", nodes = { "n" }, node_count = 1, gpus = gpus, gpus_per_node = gpus, compute_flops = 1e14,
    memory_bytes = 2 ^ 35, intra = { { 2, 1e11 }, { 4, 5e10 } }, intra_latency_s = 1e-5, signature = "s", merged = false, device = {},
  }
end

local function question(first, last, on, successors)
  local model <const> = { hidden = 1024, layers = 4, heads = 16, vocab = 32000 }
  local atoms <const> = {}
  for i = 1, 6 do
    atoms[i] = { kind = i == 1 and "embedding" or i == 6 and "head" or "layer", index = i, flops = 1e12, parameters = 2e7, hash = "h" .. i }
  end
  local slice <const> = require("tangram.slice").new(model, atoms, first, last)
  local ctx <const> = {
    training = { global_batch = 8, seq_len = 1024, dropout = false }, model = model, microbatches = 4, samples = 8, successors = successors,
    capacity_bytes = 2 ^ 34, budget = { share = 0.5, seconds = 10 }, options = { options = {} },
  }
  return slice, on, ctx
end

describe("process adapter", function()
  it("is described by its schemas", function()
    assert.is_truthy(support.read "docs/process-adapter.md":find(protocol.document(), 1, true),
      "docs/process-adapter.md: expected what tangram.protocol's document() gives")
  end)

  it("asks one line, indices from 0", function()
    local line <const> = protocol.ask(7, question(2, 4, island(1, 4), 2))
    assert.is_nil(line:find("\n", 1, true))
    local read <const> = core.json_decode(line)
    assert.same({ 7, "plan", 1, 4, 3, 3, false }, { read.id, read.op, read.slice.first, read.slice.last, #read.slice.atoms,
      read.slice.layers, read.training.dropout })
    for name in pairs(read) do assert.is_truthy(protocol.question[name], name) end
  end)

  it("has an example in Python that conforms: every pair answered to the schema, the same when asked twice", function()
    if not has_python() then return pending "python3 is not installed" end
    local program <const> = assert(core.process(command))
    local planned, refused = 0, 0
    local id = 0
    for _, gpus in ipairs { 1, 2, 4 } do
      for first = 1, 6 do
        for last = first, 6 do
          for _, successors in ipairs { 0, 1, 40 } do
            local slice <const>, on <const>, ctx <const> = question(first, last, island(1, gpus), successors)
            id = id + 2
            local once <const> = assert(program:ask(protocol.ask(id, slice, on, ctx), 10))
            local again <const> = assert(program:ask(protocol.ask(id, slice, on, ctx), 10))
            assert.equal(once, again)
            local plans <const>, why <const> = protocol.read(once, id)
            planned, refused = planned + (plans and 1 or 0), refused + (why and 1 or 0)
            for _, plan in ipairs(plans or {}) do
              local atoms, used = 0, plan.idle or 0
              for _, stage in ipairs(plan) do atoms, used = atoms + stage.atoms, used + stage.gpus end
              assert.same({ #slice, gpus }, { atoms, used })
            end
          end
        end
      end
    end
    program:close()
    assert.equal(3 * 21 * 3, planned + refused)
    assert.is_true(planned > 100)
  end)

  it("plans with the example", function()
    if not has_python() then return pending "python3 is not installed" end
    local json <const> = os.tmpname()
    local status <const>, _, err <const> = support.run(("tangram plan --model recipes/models/llama-3.1-8b.json --cluster %s "
      .. "--global-batch 8 --seq-len 1024 --microbatches 4 --parallelizer process --quiet --json %s "
      .. "--set 'parallelizer.options.command=%s'"):format(support.write(os.tmpname(), [[{ "format": "tangram.cluster/1",
        "nodes": [ { "name": "a", "gpu": "a100-pcie-80", "gpus": 4 }, { "name": "b", "gpu": "v100-sxm2-32", "gpus": 4 } ],
        "network": { "default": { "bytes_per_s": 1e10, "latency_s": 1e-5 } } }]]), json, table.concat(command, " ")))
    assert.equal(0, status, err)
    local plan <const> = core.json_decode(support.read(json))
    os.remove(json)
    assert.equal(0, #plan.pairs.failed)
    assert.is_nil(plan.pairs.pruned.bounded)
    assert.matches("process brings its own times", table.concat(plan.warnings, "\n"))
  end)
end)
