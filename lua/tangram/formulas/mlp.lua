--- The MLP half of a layer, dense or with experts.
local gemm <const> = require "tangram.formulas.gemm"

local mlp <const> = {}

local max <const> = math.max

local function into(m) return m.gated and 2 or 1 end

--- Two products of a dense MLP of that width.
local function dense_s(s, width)
  local m <const>, x <const>, h <const> = s.model, s.s_per_gemm_flop, s.model.hidden
  return gemm.product_s(s, x, s.tokens, into(m) * width / s.t, h) + gemm.product_s(s, x, s.tokens, h, width / s.t)
end

--- Experts on one rank, tokens each of them sees, tensor parallelism of one expert.
local function expert_load(s)
  local m <const> = s.model
  local mine <const> = s.tokens / s.t * s.imbalance
  if s.fsep then return s.slots, max(1, mine * m.experts_per_token / s.slots), 1 end
  return m.experts / s.e, max(1, mine * s.etp * s.e * m.experts_per_token / m.experts), s.etp
end

--- Seconds of the half's products, and how many there are.
---@param s table setting
---@param kind string "dense" or "moe"
---@return number product_s, number kernels
function mlp.products_s(s, kind)
  local m <const> = s.model
  if kind ~= "moe" then return dense_s(s, m.ffn), 2 end
  local experts <const>, tokens <const>, parts <const> = expert_load(s)
  local x <const>, h <const>, f <const> = s.s_per_gemm_flop, m.hidden, m.expert_ffn / parts
  local routed_s <const> = gemm.product_s(s, x, tokens, into(m) * f, h) + gemm.product_s(s, x, tokens, h, f)
  if m.shared_expert_ffn == 0 then return experts * routed_s, 2 * experts end
  return experts * routed_s + dense_s(s, m.shared_expert_ffn), 2 * experts + 2
end

--- Bytes a token, at two bytes a value, of the element-wise operators that only this half has.
function mlp.elementwise_bytes(s, kind)
  local m <const>, t <const> = s.model, s.t
  if kind ~= "moe" then return 4 * into(m) * m.ffn / t end
  local routed <const> = m.experts_per_token * s.imbalance -- tokens times experts of the fullest rank
  return (4 * into(m) * (routed * m.expert_ffn + m.shared_expert_ffn) + 8 * routed * m.hidden) / t
end

--- Dispatch or combine of one pass: two all-to-alls forward, two backward.
---@return number seconds each pass
function mlp.all_to_all_s(s)
  if s.e == 1 and not s.fsep then return 0 end
  local m <const> = s.model
  local sent <const> = s.y * s.tokens / s.t * m.experts_per_token * s.imbalance * m.hidden -- of the fullest rank
  return 2 * (sent * s.ep_s_per_byte + s.k.ep_latency_s)
end

--- Bytes that this half keeps of a microbatch for backward (section 5): norm and MLP inputs, dropout mask, values around the
--- activation function; with experts the dispatched copies, what the experts keep, the router's probabilities.
function mlp.kept_bytes(s, kind)
  local m <const>, h <const>, y <const>, t <const> = s.model, s.model.hidden, s.y, s.t
  local around <const> = y * (into(m) + 1)
  local a_token = (2 * y + s.dropout) * h / s.u
  if kind ~= "moe" then return s.tokens * (a_token + around * m.ffn / t) end
  local _, _, parts <const> = expert_load(s)
  local routed <const> = m.experts_per_token * s.imbalance * (2 * y * h * parts + around * m.expert_ffn)
  return s.tokens * (a_token + (routed + around * m.shared_expert_ffn + 4 * m.experts) / t)
end

--- Bytes alive only while the half's backward runs: gradients of its widest values.
function mlp.working_bytes(s, kind)
  local m <const> = s.model
  local width <const> = kind == "moe" and m.experts_per_token * s.imbalance * m.expert_ffn + m.shared_expert_ffn or m.ffn
  return 2 * s.y * s.tokens * into(m) * width / s.t
end

return mlp
