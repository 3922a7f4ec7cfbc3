local flat <const> = require "tests.spec.fixtures.flat"
local schema <const> = require "tangram.schema"
local strategies <const> = require "tangram.strategies"

local function options(changes) return schema.check(changes or {}, strategies.options, "options") end

--- The lists' (dp, tp, cp, ep), each once, as "dp tp cp ep".
local function degrees(list)
  local seen <const>, found <const> = {}, {}
  for _, s in ipairs(list) do
    local word <const> = ("%d %d %d %d"):format(s.dp, s.tp, s.cp, s.ep)
    if not seen[word] then found[#found + 1] = word end
    seen[word] = true
  end
  table.sort(found)
  return found
end

local function list(fields)
  local isl <const> = flat.island { gpus_per_node = fields.per_node or 8, node_count = fields.nodes or 1 }
  local ctx <const> = flat.context { model = flat.model(fields.model), islands = { isl }, global_batch = fields.samples,
    microbatches = 1, seq_len = fields.seq_len or 1024 }
  return strategies.list(fields.gpus, fields.moe or false, isl, ctx, options(fields.options))
end

describe("strategies", function()
  it("lists the degrees that divide heads, key-value heads, samples and the node", function()
    local gpt <const> = { hidden = 1280, layers = 4, heads = 20 }
    -- 20 heads: tp 1, 2, 4; 4 samples: dp up to 4, and cp takes what samples can't
    assert.same({ "2 4 1 1", "4 1 2 1", "4 2 1 1" }, degrees(list { model = gpt, gpus = 8, samples = 4 }))
    assert.same({ "1 1 8 1", "1 2 4 1", "1 4 2 1" }, degrees(list { model = gpt, gpus = 8, samples = 1 }))
    -- ring attention cuts 2·cp chunks: 12 tokens give 4, not 8; the 6 tokens of a rank are shared by tp 2
    assert.same({ "1 1 2 1", "1 2 1 1" }, degrees(list { model = gpt, gpus = 2, samples = 1, seq_len = 12 }))
    assert.same({ "1 2 2 1", "1 4 1 1" }, degrees(list { model = gpt, gpus = 4, samples = 1, seq_len = 12, options = { max_cp = 4 } }))
    -- 2 nodes of 4: tp stays inside a node
    assert.same({ "2 4 1 1", "4 2 1 1", "8 1 1 1" }, degrees(list { model = gpt, gpus = 8, per_node = 4, nodes = 2, samples = 8 }))
    -- 6 key-value heads: tp 2, 3, 6 divide them, 12 is divided by them, 4 neither
    local grouped <const> = { hidden = 1536, layers = 1, heads = 12, kv_heads = 6 }
    assert.same({ "1 12 1 1", "12 1 1 1", "2 6 1 1", "4 3 1 1", "6 2 1 1" },
      degrees(list { model = grouped, gpus = 12, per_node = 12, samples = 12, seq_len = 1536, options = { max_tp = 12 } }))
  end)

  it("spreads experts where the slice has them, and shards them fully under ZeRO 3", function()
    local moe <const> = { hidden = 1024, layers = 2, heads = 16, experts = 6, moe = function() return true end }
    assert.same({ "1 4 1 1", "2 2 1 1", "2 2 1 2", "4 1 1 1", "4 1 1 2" }, degrees(list { model = moe, moe = true, gpus = 4, samples = 4 }))
    assert.same({ "1 4 1 1", "2 2 1 1", "4 1 1 1" }, degrees(list { model = moe, gpus = 4, samples = 4 }))
    -- folded: experts may also go over the ranks of tp, so that dp 1, tp 4 takes ep 2 as well
    assert.same({ "1 4 1 1", "1 4 1 2", "2 2 1 1", "2 2 1 2", "4 1 1 1", "4 1 1 2" },
      degrees(list { model = moe, moe = true, gpus = 4, samples = 4, options = { folded_experts = true } }))
    for _, s in ipairs(list { model = moe, moe = true, gpus = 4, samples = 4 }) do
      if s.fsep then assert.same({ 3, 1 }, { s.zero, s.ep }) end
    end
  end)

  it("multiplies degrees by ZeRO, recompute and offload, ZeRO 0 alone where nothing is shared", function()
    local gpt <const> = { hidden = 1024, layers = 1, heads = 16 }
    local function variants(one)
      local found <const> = {}
      for i, s in ipairs(list(one)) do found[i] = ("%d%d %s %s"):format(s.tp, s.zero, s.recompute, s.offload) end
      return found
    end
    assert.same({ "10 none none", "10 selective none", "11 none none", "11 selective none", "12 none none", "12 selective none",
      "13 none none", "13 selective none", "20 none none", "20 selective none" },
      variants { model = gpt, gpus = 2, samples = 2 })
    assert.same({ "13 none none", "13 none optimizer", "20 none none", "20 none optimizer" }, variants { model = gpt, gpus = 2,
      samples = 2, options = { zero = { 3 }, selective = false, offload = { "none", "optimizer" } } })
  end)

  it("keeps each stage in one node or in whole nodes", function()
    -- against the definition, GPU by GPU
    for per_node = 1, 6 do
      for gpus = 1, 12 do
        for stages = 1, 12 // gpus do
          local well = true
          for stage = 0, stages - 1 do
            local from <const>, to <const> = stage * gpus, (stage + 1) * gpus
            local one_node <const> = from // per_node == (to - 1) // per_node
            well = well and (one_node or from % per_node == 0 and to % per_node == 0)
          end
          assert.equal(well, strategies.lies_well(gpus, stages, per_node), ("%d %d %d"):format(gpus, stages, per_node))
        end
      end
    end
  end)
end)
