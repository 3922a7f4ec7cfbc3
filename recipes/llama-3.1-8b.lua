-- Two nodes of 8 A100-40 and one of 4 L40S without NVLink, behind slow Ethernet.
local tangram <const> = require "tangram"
local here <const> = (...):match "^(.*)/" or "."

return tangram.plan {
  model = tangram.model(here .. "/models/llama-3.1-8b.json"),
  cluster = tangram.cluster {
    nodes = {
      { name = "a", count = 2, gpu = "a100-sxm4-40", gpus = 8, intra_bytes_per_s = "300 GB/s" },
      { name = "l1", gpu = "l40s", gpus = 4, intra_bytes_per_s = "25 GB/s" },
    },
    network = {
      default = { bytes_per_s = "11 GB/s" },
      links = { { between = { "a-1", "a-2" }, bytes_per_s = { "20 GB/s", "40 GB/s", [4] = "80 GB/s" } } },
    },
  },
  training = { global_batch = 128, seq_len = 8192 },
}
