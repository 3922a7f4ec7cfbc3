-- GPT-3 13B on four kinds of GPU: the cluster C3 of the Tangram paper (arXiv 2606.16907), its links as measured on Azure.
local tangram <const> = require "tangram"

return tangram.plan {
  model = tangram.model {
    name = "gpt3-13b", family = "gpt2", layers = 40, hidden = 5120, heads = 40, vocab = 50272, positions = 2048,
  },
  cluster = tangram.cluster {
    nodes = {
      -- NVLink bridges pair the A100s: fast for two, slow for four
      { name = "a1", gpu = "a100-pcie-80", gpus = 4, intra_bytes_per_s = { [2] = "253 GB/s", [4] = "44 GB/s" } },
      { name = "v1", gpu = "v100-sxm2-32", gpus = 8, intra_bytes_per_s = { [4] = "45.8 GB/s", [8] = "21.9 GB/s" } },
      { name = "w1", gpu = "v100-pcie-16", gpus = 4, intra_bytes_per_s = "11.4 GB/s" },
      { name = "t1", gpu = "t4", gpus = 4, intra_bytes_per_s = "5.9 GB/s" },
    },
    network = {
      -- bytes a second in all, with 1, 2 and 4 flows at once
      links = {
        { between = { "a1", "v1" }, bytes_per_s = { "2.45 GB/s", "4.36 GB/s", [4] = "4.48 GB/s" } },
        { between = { "a1", "w1" }, bytes_per_s = { "2.67 GB/s", "2.85 GB/s", [4] = "2.71 GB/s" } },
        { between = { "a1", "t1" }, bytes_per_s = { "2.99 GB/s", "3.71 GB/s", [4] = "3.15 GB/s" } },
        { between = { "v1", "w1" }, bytes_per_s = { "2.55 GB/s", "2.75 GB/s", [4] = "2.70 GB/s" } },
        { between = { "v1", "t1" }, bytes_per_s = { "2.61 GB/s", "3.72 GB/s", [4] = "3.22 GB/s" } },
        { between = { "w1", "t1" }, bytes_per_s = { "0.68 GB/s", "1.15 GB/s", [4] = "1.15 GB/s" } },
      },
    },
  },
  training = { global_batch = 128, seq_len = 2048 },
}
