-- A mixture of experts on one node of 8 H100 and one of 8 A100.
local tangram <const> = require "tangram"
local here <const> = (...):match "^(.*)/" or "."

return tangram.plan {
  model = tangram.model(here .. "/models/qwen3-30b-a3b.json"),
  cluster = tangram.cluster {
    nodes = {
      { name = "h1", gpu = "h100-sxm", gpus = 8, intra_bytes_per_s = "450 GB/s" },
      { name = "a1", gpu = "a100-sxm4-80", gpus = 8, intra_bytes_per_s = "300 GB/s" },
    },
    network = {
      -- 8 x 400 Gb/s on one side, 8 x 200 Gb/s on the other: the slower NICs count
      links = { { between = { "h1", "a1" }, bytes_per_s = { "24 GB/s", [8] = "180 GB/s" } } },
    },
  },
  training = { global_batch = 256, seq_len = 4096 },
}
