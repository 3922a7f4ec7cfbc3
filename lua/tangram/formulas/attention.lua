--- The attention half of a layer: projections, core, exchange of keys and values (calibrated forms; activations after
--- Korthikanti et al. 2022, section 4).
local gemm <const> = require "tangram.formulas.gemm"

local attention <const> = {}

--- Seconds of the projections' products, and how many there are.
function attention.projections_s(s)
  local m <const>, x <const>, t <const>, h <const> = s.model, s.s_per_gemm_flop, s.t, s.model.hidden
  local tokens <const>, a <const>, d <const>, product <const> = s.tokens, m.heads, m.head_dim, gemm.product_s
  local mla <const> = m.mla
  if not mla then
    return product(s, x, tokens, (a + 2 * m.kv_heads) * d / t, h) + product(s, x, tokens, h, a * d / t), 2
  end
  local qk <const>, rank <const> = mla.qk_nope_head_dim + mla.qk_rope_head_dim, mla.q_lora_rank
  local query <const> = rank > 0 and product(s, x, tokens, rank, h) + product(s, x, tokens, a * qk / t, rank)
    or product(s, x, tokens, a * qk / t, h)
  return query + product(s, x, tokens, mla.kv_lora_rank + mla.qk_rope_head_dim, h)
    + product(s, x, tokens, (mla.qk_nope_head_dim + mla.v_head_dim) * a / t, mla.kv_lora_rank)
    + product(s, x, tokens, h, a * mla.v_head_dim / t), rank > 0 and 5 or 4
end

--- Widths a token of what the core reads and writes: queries, keys, values, output.
local function core_widths(m)
  local mla <const> = m.mla
  if not mla then return m.heads * m.head_dim, m.kv_heads * m.head_dim, m.kv_heads * m.head_dim, m.heads * m.head_dim end
  local qk <const> = m.heads * (mla.qk_nope_head_dim + mla.qk_rope_head_dim)
  return qk, qk, m.heads * mla.v_head_dim, m.heads * mla.v_head_dim
end

--- Queries, keys and values together, a token of the whole model.
function attention.qkv_width(s)
  local q <const>, k <const>, v <const> = core_widths(s.model)
  return q + k + v
end

--- Bytes read and written a score forward and backward, at two bytes a number. Scale, mask and softmax are one kernel in 16 bits
--- (Megatron's fused softmax); in FP32 there is none: each of the three reads and writes all scores.
local function score_passes(s)
  if s.y == 4 then return 8, 28 end
  return 13, 11
end

--- Scores, then values: the core's forward and backward.
---@param s table setting
---@param kind string "full" or "sliding"
---@return number forward_s, number backward_s
function attention.core(s, kind)
  local m <const>, k <const> = s.model, s.k
  local q <const>, _, _, v <const> = core_widths(m)
  local seq <const>, window <const> = s.seq, m.window
  local ranks <const> = s.t * s.c
  local square <const> = 2 * s.b * (q + v) * seq * seq / ranks
  if s.flash then
    local pairs_share <const> = kind == "sliding" and window < seq and window / seq * (1 - window / seq / 2) or 0.5
    local forward_s <const> = pairs_share * square * s.s_per_flash_flop
    return forward_s + k.kernel_s, 2.5 * k.flash_backward_factor * forward_s + 2 * k.kernel_s
  end
  local products_s <const> = square * s.s_per_flop / k.unfused_share
  local scores_s <const> = s.b * m.heads * seq * seq / ranks * s.y / 2 * s.s_per_byte
  local forward <const>, backward <const> = score_passes(s)
  return products_s + forward * scores_s + 4 * k.kernel_s, 2 * products_s + backward * scores_s + 6 * k.kernel_s
end

--- Ring exchange of keys and values under context parallelism: what the core's blocks do not hide, and at least a share. Only
--- fused kernels exist in blocks that hide it.
---@param s table setting
---@param core_forward_s number
---@param core_backward_s number
---@return number forward_s, number backward_s
function attention.ring(s, core_forward_s, core_backward_s)
  if s.c == 1 then return 0, 0 end
  local _, k <const>, v <const> = core_widths(s.model)
  local forward_s <const> = (s.c - 1) * s.y * s.tokens * (k + v) / s.t * s.cp_s_per_byte
  local backward_s <const>, least <const> = 2 * forward_s, s.flash and s.k.cp_exposed or 1 -- gradients go round as well
  return math.max(least * forward_s, forward_s - core_forward_s), math.max(least * backward_s, backward_s - core_backward_s)
end

--- Bytes of the scores that unfused attention keeps for backward: softmax output, and with dropout its mask and output.
function attention.score_bytes(s)
  if s.flash then return 0 end
  return s.b * s.model.heads * s.seq * s.seq / (s.t * s.c) * (s.y + s.dropout * (s.y + 1))
end

--- Bytes that this half keeps of a microbatch for backward, apart from the scores: norm and QKV inputs, dropout mask,
--- queries, keys, values, output.
function attention.kept_bytes(s)
  local m <const>, h <const>, y <const>, mla <const> = s.model, s.model.hidden, s.y, s.model.mla
  local q <const>, k <const>, v <const>, out <const> = core_widths(m)
  local a_token = (2 * y + s.dropout) * h / s.u + y * (q + k + v + out) / s.t
  if s.flash then a_token = a_token + 4 * m.heads / s.t end
  if mla then a_token = a_token + y * (mla.q_lora_rank + mla.kv_lora_rank + mla.qk_rope_head_dim) end
  return s.tokens * a_token
end

--- Bytes alive only while the half's backward runs: gradients of its widest values, two blocks of keys and values of the ring.
function attention.working_bytes(s)
  local _, k <const>, v <const> = core_widths(s.model)
  local scores <const> = s.flash and 0 or s.b * s.model.heads * s.seq * s.seq / (s.t * s.c)
  local ring <const> = s.c > 1 and 2 * s.tokens * (k + v) / s.t or 0
  return s.y * (2 * math.max(scores, s.tokens * attention.qkv_width(s) / s.t) + ring)
end

return attention
