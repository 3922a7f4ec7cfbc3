--- What is known about links. `rates`: payload bytes per second in one direction of one port (or one GPU's link of a kind),
--- usable by name wherever a rate is asked: `bytes_per_s = "ib-hdr"`, `"4x ib-hdr"` for four ports.
local GBIT <const> = 1e9 / 8

return {
  --- Seconds of one transfer, where a cluster gives none: inside a node, and between two nodes. These are the figures that the
  --- calibration of the analytic cost model was made with.
  intra_latency_s = 2e-5,
  inter_latency_s = 5e-5,
  rates = {
    ["pcie-3"] = { bytes_per_s = 15.75e9, source = "PCI Express Base Specification 3.0: 16 lanes of 8 GT/s, 128b/130b" },
    ["pcie-4"] = { bytes_per_s = 31.5e9, source = "PCI Express Base Specification 4.0: 16 lanes of 16 GT/s, 128b/130b" },
    ["pcie-5"] = { bytes_per_s = 63e9, source = "PCI Express Base Specification 5.0: 16 lanes of 32 GT/s, 128b/130b" },
    ["nvlink-2"] = { bytes_per_s = 25e9, source = "NVIDIA V100 whitepaper: 25 GB/s a link and direction, 6 links a GPU" },
    ["nvlink-3"] = { bytes_per_s = 25e9, source = "NVIDIA A100 whitepaper: 25 GB/s a link and direction, 12 links a GPU" },
    ["nvlink-4"] = { bytes_per_s = 25e9, source = "NVIDIA H100 whitepaper: 25 GB/s a link and direction, 18 links a GPU" },
    ["nvlink-5"] = { bytes_per_s = 50e9, source = "NVIDIA Blackwell brief: 50 GB/s a link and direction, 18 links a GPU" },
    ["ethernet-1"] = { bytes_per_s = 1 * GBIT, source = "IEEE 802.3: 1 Gb/s" },
    ["ethernet-10"] = { bytes_per_s = 10 * GBIT, source = "IEEE 802.3: 10 Gb/s" },
    ["ethernet-25"] = { bytes_per_s = 25 * GBIT, source = "IEEE 802.3: 25 Gb/s" },
    ["ethernet-40"] = { bytes_per_s = 40 * GBIT, source = "IEEE 802.3: 40 Gb/s" },
    ["ethernet-50"] = { bytes_per_s = 50 * GBIT, source = "IEEE 802.3: 50 Gb/s" },
    ["ethernet-100"] = { bytes_per_s = 100 * GBIT, source = "IEEE 802.3: 100 Gb/s" },
    ["ethernet-200"] = { bytes_per_s = 200 * GBIT, source = "IEEE 802.3: 200 Gb/s" },
    ["ethernet-400"] = { bytes_per_s = 400 * GBIT, source = "IEEE 802.3: 400 Gb/s" },
    ["ethernet-800"] = { bytes_per_s = 800 * GBIT, source = "IEEE 802.3: 800 Gb/s" },
    ["ib-qdr"] = { bytes_per_s = 32 * GBIT, source = "InfiniBand QDR 4X: 40 Gb/s with 8b/10b carries 32" },
    ["ib-fdr"] = { bytes_per_s = 54.5 * GBIT, source = "InfiniBand FDR 4X: 56 Gb/s with 64b/66b carries 54.5" },
    ["ib-edr"] = { bytes_per_s = 100 * GBIT, source = "InfiniBand EDR 4X: 103.1 Gb/s with 64b/66b carries 100" },
    ["ib-hdr"] = { bytes_per_s = 200 * GBIT, source = "InfiniBand HDR 4X: 200 Gb/s" },
    ["ib-ndr"] = { bytes_per_s = 400 * GBIT, source = "InfiniBand NDR 4X: 400 Gb/s" },
    ["ib-xdr"] = { bytes_per_s = 800 * GBIT, source = "InfiniBand XDR 4X: 800 Gb/s" },
    ["roce"] = { bytes_per_s = 200 * GBIT, source = "Ethernet of 200 Gb/s a port" },
    ["omni-path"] = { bytes_per_s = 100 * GBIT, source = "Intel Omni-Path 100 series: 100 Gb/s" },
    ["slingshot-11"] = { bytes_per_s = 200 * GBIT, source = "HPE Slingshot 11: 200 Gb/s" },
  },
  --- Shares of a node's nominal rate that training reaches: `network_share` tensor parallelism, pipelines and sharded weights,
  --- `dp_network_share` the gradients' reduction at the end of a step. Fitted together with a GPU's constants on measured runs;
  --- with no entry, those of the GPU's set hold.
  reached = {
    ["ethernet-100"] = { network_share = 0.96, dp_network_share = 0.42, source = "79 runs of vTrain on 64 to 512 A100" },
    ["omni-path"] = { network_share = 0.41, dp_network_share = 0.111, source = "72 runs of BigScience on 320 and 384 A100" },
    ["ib-hdr"] = { network_share = 0.76, dp_network_share = 0.308,
      source = "11 runs of Narayanan et al. 2021 and Korthikanti et al. 2022" },
    ["roce"] = { network_share = 0.945, source = "100 runs of llm-foundry on A100" },
    ["ib-edr"] = { network_share = 0.68, dp_network_share = 0.579, source = "14 runs of DLPerf on V100" },
    ["ethernet-50"] = { network_share = 0.336, dp_network_share = 0.284, source = "37 runs of AMP on T4" },
    ["ethernet-25"] = { network_share = 0.95, dp_network_share = 0.55, source = "24 runs of Alpa on V100" },
    ["ethernet-10"] = { network_share = 0.665, dp_network_share = 0.397, source = "34 runs of AMP on V100 and T4" },
    ["slingshot-11"] = { network_share = 0.243, dp_network_share = 0.56, source = "25 runs of Sailor on GH200" },
  },
}
