local core <const> = require "tangram.core"
local model <const> = require "tangram.model"

local function gpt(changes)
  local t <const> = { layers = 12, hidden = 768, heads = 12, vocab = 50257, positions = 1024 }
  for name, value in pairs(changes or {}) do t[name] = value end
  return model.new(t)
end

local function sum(atoms, field)
  local total = 0
  for _, atom in ipairs(atoms) do total = total + atom[field] end
  return total
end

describe("model", function()
  it("fills in a GPT's defaults and counts its published 124 439 808 parameters", function()
    local m <const> = gpt()
    assert.same({ 12, 64, 3072, false, true, true, 2 },
      { m.kv_heads, m.head_dim, m.ffn, m.gated, m.tied, m.bias, m.norm_parameters })
    assert.equal(124439808, (core.model_parameters(m)))
    local L <const>, h <const>, V <const>, s <const> = 12, 768, 50257, 1024
    assert.equal(L * (12 * h * h + 13 * h) + V * h + s * h + 2 * h, (core.model_parameters(m))) -- Narayanan et al.
  end)

  it("passes a description unchanged, also through JSON", function()
    local m <const> = model.new { layers = 3, hidden = 64, heads = 4, kv_heads = 2, vocab = 100, family = "llama", ffn = 96,
      experts = 4, experts_per_token = 2, expert_ffn = 32, layer_mlp = { "dense", "moe", "moe" },
      layer_attention = { "full", "sliding", "full" }, window = 16 }
    assert.same(m, model.new(m))
    assert.same(m, model.new(core.json_decode(core.json_encode(m))))
  end)

  it("counts FLOPs as the closed form does: 6 [L (2had + 2hkd + n f h) + Vh] + 6Lsad a token", function()
    local L <const>, h <const>, a <const>, k <const>, d <const>, f <const>, V <const>, s <const> = 7, 96, 6, 2, 32, 200, 1000, 128
    local m <const> = model.new { layers = L, hidden = h, heads = a, kv_heads = k, head_dim = d, ffn = f, vocab = V, family = "llama" }
    local want <const> = s * (6 * (L * (2 * h * a * d + 2 * h * k * d + 3 * f * h) + V * h) + 6 * L * s * a * d)
    assert.equal(want, core.model_flops(m, s))
    assert.equal(want, 3 * sum(core.atoms(m, { seq_len = s }), "flops"))
  end)

  it("agrees with Korthikanti's 72 B s L h^2 (1 + s/6h + V/12Lh), whose attention is a full square", function()
    local L <const>, h <const>, V <const>, s <const>, B <const> = 40, 5120, 50257, 2048, 128
    local m <const> = gpt { layers = L, hidden = h, heads = 40, vocab = V, positions = s }
    local causal_half <const> = 6 * B * L * s * s * h
    local want <const> = 72 * B * s * L * h * h * (1 + s / (6 * h) + V / (12 * L * h))
    assert.near(1, (B * core.model_flops(m, s) + causal_half) / want, 1e-12)
    assert.near(2.15e16, want, 0.005e16)
  end)

  it("lets a window limit the pairs of tokens: a brute-force count, up to half a diagonal", function()
    local h <const>, s <const>, w <const> = 64, 256, 48
    local base <const> = { layers = 1, hidden = h, heads = 4, vocab = 10, layer_attention = { "full" }, window = w }
    local full <const> = core.atoms(model.new(base), { seq_len = s })[2]
    base.layer_attention = { "sliding" }
    local sliding <const> = core.atoms(model.new(base), { seq_len = s })[2]
    local function pairs_seen(window)
      local count = 0
      for i = 1, s do count = count + math.min(i, window) - (i <= window and 0.5 or 0) end
      return count
    end
    assert.equal(4 * h * (pairs_seen(s) - pairs_seen(w)), full.flops - sliding.flops)
    base.window = s
    assert.equal(full.flops, core.atoms(model.new(base), { seq_len = s })[2].flops)
  end)

  it("counts routed and shared experts and the router", function()
    local h <const>, E <const>, K <const>, f <const>, g <const>, s <const> = 32, 8, 2, 24, 40, 16
    local m <const> = model.new { layers = 2, hidden = h, heads = 4, vocab = 50, family = "qwen2_moe", ffn = 100, experts = E,
      experts_per_token = K, expert_ffn = f, shared_expert_ffn = g, layer_mlp = { "dense", "moe" } }
    local atoms <const> = core.atoms(m, { seq_len = s, granularity = "half" })
    local dense <const>, moe <const> = atoms[3], atoms[5]
    assert.same({ "dense", "moe", 0, E * 3 * h * f }, { dense.mlp, moe.mlp, dense.expert_parameters, moe.expert_parameters })
    assert.equal(3 * h * 100 + h, dense.parameters)
    assert.equal(E * 3 * h * f + 3 * h * g + h * E + h, moe.parameters)
    assert.equal(2 * s * (K * 3 * h * f + 3 * h * g + h * E), moe.flops)
    local total <const>, active <const> = core.model_parameters(m)
    assert.equal((E - K) * 3 * h * f, total - active)
  end)

  it("counts latent attention matrix by matrix", function()
    local h <const>, a <const>, q <const>, c <const>, n <const>, r <const>, v <const>, s <const> = 64, 4, 24, 20, 12, 6, 10, 32
    local function attention(rank, bias)
      local m <const> = model.new { layers = 1, hidden = h, heads = a, vocab = 9, ffn = 8, family = "llama", bias = bias,
        mla = { q_lora_rank = rank, kv_lora_rank = c, qk_nope_head_dim = n, qk_rope_head_dim = r, v_head_dim = v } }
      return core.atoms(m, { seq_len = s, granularity = "half" })[2]
    end
    local rest <const> = h * (c + r) + c * a * n + c * a * v + a * v * h
    local core_flops <const> = 2 * a * (n + r + v) * s * s / 2
    assert.equal(h * q + q * a * (n + r) + rest + h + q + c, attention(q).parameters)
    assert.equal(2 * s * (h * q + q * a * (n + r) + rest) + core_flops, attention(q).flops)
    assert.equal(h * a * (n + r) + rest + h + c, attention(0).parameters)
    assert.equal(q + (c + r) + h, attention(q, true).parameters - attention(q).parameters) -- q_a, kv_a and output projections
  end)

  it("counts a bias for each output of each linear layer", function()
    local h <const>, a <const>, k <const>, d <const>, E <const>, f <const>, g <const> = 32, 4, 2, 16, 3, 24, 40
    local function halves(bias)
      return core.atoms(model.new { layers = 2, hidden = h, heads = a, kv_heads = k, head_dim = d, vocab = 9, ffn = 50, family = "llama",
        experts = E, experts_per_token = 1, expert_ffn = f, shared_expert_ffn = g, layer_mlp = { "dense", "moe" }, bias = bias },
        { seq_len = 8, granularity = "half" })
    end
    local with <const>, without <const> = halves(true), halves(false)
    local added <const> = {}
    for i, atom in ipairs(with) do added[i] = atom.parameters - without[i].parameters end
    local attention <const>, moe <const> = a * d + 2 * k * d + h, E * (2 * f + h) + (2 * g + h) + E
    assert.same({ 0, attention, 2 * 50 + h, attention, moe, 0 }, added)
    assert.equal(E * (2 * f + h), with[5].expert_parameters - without[5].expert_parameters)
  end)

  it("cuts layers into halves that add up to them", function()
    local m <const> = gpt { experts = 4, experts_per_token = 1, expert_ffn = 100, family = "llama" }
    local layers <const> = core.atoms(m, { seq_len = 777 })
    local halves <const> = core.atoms(m, { seq_len = 777, granularity = "half" })
    assert.same({ 14, 26 }, { #layers, #halves })
    for i = 2, 13 do
      local a <const>, b <const>, whole <const> = halves[2 * i - 2], halves[2 * i - 1], layers[i]
      assert.same({ "attention", "mlp", i - 1, i - 1, i - 1 }, { a.kind, b.kind, a.layer, b.layer, whole.layer })
      for _, field in ipairs { "parameters", "expert_parameters", "parameter_bytes", "flops" } do
        assert.equal(whole[field], a[field] + b[field])
      end
      assert.equal(2 * 777 * 768, a.boundary_bytes)
      assert.equal(2 * 777 * 768, b.boundary_bytes)
      assert.same({ nil, "full", "moe", nil }, { a.mlp, a.attention, b.mlp, b.attention })
    end
  end)

  it("gives both ends the vocabulary of a tied model, and counts it once", function()
    local tied <const>, untied <const> = gpt(), gpt { tied = false }
    local word <const> = 50257 * 768
    assert.equal(word, sum(core.atoms(tied, { seq_len = 8 }), "parameters") - core.model_parameters(tied))
    assert.equal(0, sum(core.atoms(untied, { seq_len = 8 }), "parameters") - core.model_parameters(untied))
    local a <const>, b <const> = core.atoms(tied, { seq_len = 8 }), core.atoms(untied, { seq_len = 8 })
    assert.not_equal(a[1].hash, b[1].hash)
    assert.not_equal(a[14].hash, b[14].hash)
    assert.equal(a[2].hash, b[2].hash)
    assert.same({ 8 * 768 * 2, 0 }, { a[1].boundary_bytes, a[14].boundary_bytes })
  end)

  it("hashes content, not place", function()
    local m <const> = gpt { layers = 6, window = 64, layer_attention = { "full", "sliding", "full", "sliding", "full", "full" },
      experts = 2, experts_per_token = 1, expert_ffn = 9, layer_mlp = { "dense", "dense", "moe", "dense", "dense", "moe" } }
    local atoms <const> = core.atoms(m, { seq_len = 128 })
    local hash <const> = {}
    for i, atom in ipairs(atoms) do hash[i] = atom.hash end
    assert.matches("^%x+$", hash[1])
    assert.equal(16, #hash[1])
    assert.same({ hash[3], hash[2], hash[4] }, { hash[5], hash[6], hash[7] })
    local distinct <const>, count = {}, 0
    for _, one in ipairs(hash) do
      count = count + (distinct[one] and 0 or 1)
      distinct[one] = true
    end
    assert.equal(5, count) -- embedding, full dense, sliding dense, full moe, head
    assert.equal(hash[2], core.atoms(gpt(), { seq_len = 128 })[2].hash)
  end)

  it("changes a layer's hash with each dimension that matters to it", function()
    local base <const> = { layers = 1, hidden = 64, heads = 4, vocab = 9, experts = 4, experts_per_token = 2, expert_ffn = 8,
      shared_expert_ffn = 8, ffn = 7, window = 5 }
    local seen <const>, count = {}, 0
    local function add(changes, seq_len)
      local t <const> = {}
      for name, value in pairs(base) do t[name] = value end
      for name, value in pairs(changes) do t[name] = value end
      local hash <const> = core.atoms(model.new(t), { seq_len = seq_len or 32 })[2].hash
      count = count + (seen[hash] and 0 or 1)
      seen[hash] = true
    end
    local mla <const> = { kv_lora_rank = 8, qk_nope_head_dim = 8, qk_rope_head_dim = 8, v_head_dim = 16 }
    for _, changes in ipairs { {}, { hidden = 128 }, { heads = 8 }, { kv_heads = 2 }, { head_dim = 32 }, { gated = true },
      { norm_parameters = 1 }, { bias = false }, { experts = 8 }, { experts_per_token = 1 }, { expert_ffn = 16 },
      { shared_expert_ffn = 0 }, { window = 6 }, { layer_attention = { "full" } }, { layer_mlp = { "dense" } }, { mla = mla } } do
      add(changes)
    end
    add({}, 33)
    assert.equal(17, count)
    for _, changes in ipairs { { ffn = 8 }, { vocab = 10 }, { positions = 64 }, { tied = false }, { layers = 3 } } do add(changes) end
    assert.equal(17, count)
  end)

  it("signs slices by their content and length", function()
    local m <const> = gpt { layers = 6, layer_attention = { "full", "sliding", "full", "sliding", "full", "sliding" }, window = 8 }
    local atoms <const> = core.atoms(m, { seq_len = 64 })
    assert.equal(core.signature(atoms, 2, 3), core.signature(atoms, 4, 5))
    assert.equal(core.signature(atoms, 2, 5), core.signature(atoms, 4, 7))
    assert.not_equal(core.signature(atoms, 2, 3), core.signature(atoms, 3, 4))
    assert.not_equal(core.signature(atoms, 2, 3), core.signature(atoms, 2, 5))
    assert.not_equal(core.signature(atoms, 1, 3), core.signature(atoms, 4, 6))
    assert.error_matches(function() core.signature(atoms, 0, 3) end, "first <= last")
    assert.error_matches(function() core.signature(atoms, 3, 9) end, "first <= last")
  end)

  it("refuses 0, negative, fractional and huge values of every whole-number field that needs one", function()
    for _, field in ipairs { "layers", "hidden", "heads", "kv_heads", "head_dim", "ffn", "vocab" } do
      for _, value in ipairs { 0, -1, 1.5, 1e30, "x" } do
        local ok <const>, why <const> = pcall(gpt, { [field] = value })
        assert.is_false(ok)
        assert.matches("^model: " .. field .. ": got .+, expected a whole number from 1 to %d+$", why)
      end
    end
    for _, field in ipairs { "positions", "window", "experts", "mtp_layers" } do
      for _, value in ipairs { -1, 0.5, 1e30 } do
        assert.error_matches(function() gpt { [field] = value } end, "^model: " .. field .. ": got .+ from 0 to %d+$")
      end
    end
  end)

  it("says what does not fit together", function()
    local cases <const> = {
      { { layrs = 3 }, "model: layrs: unknown field %(did you mean 'layers'%?%)" },
      { { family = "lama" }, "family: got 'lama', .+did you mean 'llama'" },
      { { heads = 7 }, "head_dim: missing, and hidden = 768 is not a multiple of heads = 7" },
      { { kv_heads = 5 }, "kv_heads: got 5, expected a divisor of heads = 12" },
      { { family = "llama" }, "ffn: missing" },
      { { experts = 4 }, "experts_per_token: got 0, expected 1 to experts = 4" },
      { { experts = 4, experts_per_token = 5, expert_ffn = 8 }, "experts_per_token: got 5, expected 1 to experts = 4" },
      { { experts = 4, experts_per_token = 1 }, "expert_ffn: got 0" },
      { { layer_mlp = { "dense" } }, "layer_mlp: got 1 items, expected one a layer, 12" },
      { { layers = 1, layer_mlp = { "moe" } }, "layer_mlp: layer 1 is 'moe', but experts is 0" },
      { { layers = 1, layer_attention = { "sliding" } }, "window: got 0" },
      { { layers = 1, layer_attention = { "sliding" }, window = 8, mla = { kv_lora_rank = 0 } }, "mla: kv_lora_rank: got 0" },
      { { layers = 1, layer_mlp = { "sparse" } }, "layer_mlp%[1%]: got 'sparse', expected one of 'dense', 'moe'" },
    }
    for _, case in ipairs(cases) do assert.error_matches(function() gpt(case[1]) end, case[2]) end
    assert.error_matches(function() model.new { layers = 3 } end, "model: heads: missing, expected a whole number")
  end)

  it("documents its fields", function()
    local text <const> = require("tangram.schema").document(model.fields)
    for name in pairs(model.fields) do assert.matches("  " .. name .. " +%a", text) end
  end)

  it("refuses sequences that are out of range or beyond the learned positions", function()
    local _, why <const> = core.atoms(gpt(), { seq_len = 1025 })
    assert.equal("seq_len: got 1025, expected at most the model's 1024 learned positions", why)
    for _, seq_len in ipairs { 0, -5, 1 << 40 } do
      assert.matches("seq_len: got .+, expected a whole number from 1 to", (select(2, core.atoms(gpt(), { seq_len = seq_len }))))
    end
    assert.error_matches(function() core.atoms(gpt(), { seq_len = 8, granularity = "third" }) end, "third")
  end)

  it("keeps the largest model it accepts within 64 bits", function()
    local max <const> = {}
    for _, field in ipairs { "hidden", "layers", "heads", "kv_heads", "head_dim", "ffn", "vocab", "positions", "experts",
      "expert_ffn", "shared_expert_ffn" } do
      max[field] = core.model_ranges[field].max
    end
    max.experts_per_token, max.family, max.gated = 1, "llama", true
    local m <const> = model.new(max)
    local total <const>, active <const> = core.model_parameters(m)
    local atoms <const> = core.atoms(m, { seq_len = core.model_ranges.seq_len.max })
    assert.near(1, total / (3.0 * (1 << 17) * (1 << 20) * 4096 * 1000), 1e-2)
    assert.is_true(active > 0 and active < total)
    assert.is_true(atoms[2].parameter_bytes > 0)
  end)

  it("refuses what is no description where it is handed to the engine", function()
    assert.error_matches(function() core.atoms({ layers = "x" }, { seq_len = 1 }) end, "layers: expected a whole number")
    assert.error_matches(function() core.atoms({ layers = 2, layer_mlp = { "dense" } }, { seq_len = 1 }) end, "layer_mlp")
    local m <const> = gpt()
    m.layers = 1000000000
    assert.error_matches(function() core.model_parameters(m) end, "layer_mlp: expected a list")
    m.layers, m.hidden = 12, 0
    assert.equal("hidden: got 0, expected a whole number from 1 to 131072", (select(2, core.model_parameters(m))))
  end)

  it("starts from a file and sets what else the table holds", function()
    local d <const>, warnings <const> = model.read { file = "recipes/models/llama-3.1-8b.json", vocab = 1000, tied = true, name = "mine" }
    assert.same({ "mine", 1000, true, 32, 4096 }, { d.name, d.vocab, d.tied, d.layers, d.hidden })
    assert.same({}, warnings)
    assert.error_matches(function() model.read { file = 5 } end, "^model: file: got 5, expected the path of a model's file")
    assert.error_matches(function() model.read { file = "recipes/models/llama-3.1-8b.json", vocab = 0 } end, "^model: vocab: got 0")
    assert.error_matches(function() model.read { file = "recipes/models/llama-3.1-8b.json", layrs = 3 } end,
      "layrs: unknown field %(did you mean 'layers'%?%)")
  end)
end)
