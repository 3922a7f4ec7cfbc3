--- What the analytic cost model's terms are, for people: a title, the function that prices the term with its formula in short, the
--- section of the formulas' reference, the constants that it takes. Terms of time are seconds of one microbatch, forward and
--- backward together; those of a step come once an iteration.
local compute <const> = { "gemm_efficiency", "gemm_backward_factor", "gemm_byte_weight", "fp8_gain", "compute_flops", "fp8_flops" }
local memory <const> = { "memory_efficiency", "memory_bytes_per_s", "kernel_s" }
local inside <const> = { "tp_link_share", "pcie_link_share", "intra_bytes_per_s" }
local between <const> = { "network_share", "inter_bytes_per_s" }

local function all(...)
  local list <const> = {}
  for _, one in ipairs { ... } do table.move(one, 1, #one, #list + 1, list) end
  return list
end

return {
  microbatch = {
    compute_s = { "matrix products", "gemm.product_s: 2 m n k / peak reached + bytes not hidden", "2, 11", all(compute, memory) },
    attention_s = { "attention core", "attention.core: fused, or scores passed over in memory", "2, 5",
      all({ "flash_efficiency", "flash_backward_factor", "unfused_share" }, compute, memory) },
    memory_bound_s = { "norms, activations, residuals, loss", "gemm.elementwise: bytes / memory rate reached", "11", memory },
    launch_s = { "waiting for launches", "analytic.at_least: (F^6 + c^6)^(1/6) - F", "11", { "launch_s", "launch_rank_s" } },
    tp_s = { "tensor parallelism", "collectives.ring_s_per_byte: 2 (t-1)/t bytes / link", "7",
      all({ "tp_latency_s", "tp_backward_exposed", "tp_network_share" }, inside, between) },
    cp_s = { "context parallelism", "attention.ring: keys and values beyond what attention hides", "7",
      all({ "cp_exposed" }, inside, between) },
    ep_s = { "expert parallelism", "mlp.all_to_all_s: dispatch and combine", "7, 8",
      all({ "ep_latency_s", "ep_network_share" }, inside, between) },
    fsep_s = { "rebuilding experts (FSEP)", "states.rebuilding_s beyond what compute hides", "8", all(inside, between) },
    fsdp_s = { "gathering weights, ZeRO 2 and 3", "states.sharded_traffic_s beyond what compute hides", "7",
      all({ "fsdp_exposed", "dp_link_share" }, between) },
    offload_s = { "offloaded activations", "bytes over PCIe beyond what compute hides", "5", {} },
    recompute_s = { "recomputation", "one more forward of what is recomputed", "2", { "recompute_share" } },
  },
  step = {
    reduce_s = { "gradients' reduction", "states.reduce_s: inside nodes, then between them", "7",
      { "dp_link_share", "network_share", "dp_network_share", "dp_latency_s", "reduce_overlaps", "intra_bytes_per_s",
        "inter_bytes_per_s" } },
    optimizer_s = { "optimizer", "states.optimizer_s: bytes / memory rate + step_s", "9",
      all({ "optimizer_traffic", "step_s", "host_bytes_per_s" }, memory) },
    tied_s = { "tied embedding", "analytic.tied_s: an all-reduce over the slowest link", "7", { "inter_bytes_per_s" } },
  },
  memory = {
    weights_bytes = { "weights", "states.bytes", "4", {} },
    gradients_bytes = { "gradients", "states.bytes", "4", {} },
    optimizer_bytes = { "optimizer", "states.bytes: master copy and two moments", "4", { "copy_bytes" } },
    activations_bytes = { "activations in flight", "attention.kept_bytes, mlp.kept_bytes, times the microbatches held", "5", {} },
    transient_bytes = { "transient", "working_bytes, logits, states.gathered_bytes", "5", { "logit_bytes" } },
    buffers_bytes = { "buffers", "analytic.buffers_bytes", "5", {} },
    context_bytes = { "context", "context_bytes", "10", { "context_bytes" } },
  },
}
