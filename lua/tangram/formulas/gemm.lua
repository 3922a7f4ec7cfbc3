--- Matrix products and element-wise operators: arithmetic at a share of the peak plus the bytes that it does not hide
--- (this byte term is what makes efficiency depend on shape), and a fixed time per kernel.
local gemm <const> = {}

--- One product of an (m x k) and a (k x n) matrix, forward, without its kernel's fixed time. A backward pass does two
--- products of the same arithmetic and bytes.
---@param s table setting
---@param s_per_flop number
---@param m number
---@param n number
---@param k number
---@return number seconds
function gemm.product_s(s, s_per_flop, m, n, k)
  return 2 * m * n * k * s_per_flop + s.k.gemm_byte_weight * s.y * (m * k + k * n + m * n) * s.s_per_byte
end

--- Forward and backward of products that take `product_s` together and are `count` kernels.
---@param s table setting
---@param product_s number
---@param count number
---@return number forward_s, number backward_s
function gemm.passes(s, product_s, count)
  local kernels_s <const> = count * s.k.kernel_s
  return product_s + kernels_s, 2 * s.k.gemm_backward_factor * product_s + 2 * kernels_s
end

--- Norms, activations, residuals, rotary embeddings: `values` 16-bit numbers read or written for each token.
---@param s table setting
---@param values number bytes a token at two bytes a value
---@param kernels number
---@return number forward_s, number backward_s
function gemm.elementwise(s, values, kernels)
  local forward_s <const> = s.y / 2 * s.tokens * values * s.s_per_byte + kernels * s.k.kernel_s
  return forward_s, 1.5 * forward_s
end

return gemm
