package.path = "tests/spec/?.lua;" .. package.path
local catalog <const> = require "tangram.catalog"
local cluster <const> = require "tangram.cluster"
local core <const> = require "tangram.core"
local islands <const> = require "tangram.islands"
local support <const> = require "support"

local function refusal(...)
  local ok <const>, why <const> = pcall(...)
  assert.is_false(ok)
  return why
end

--- A cluster of one default link, and its nodes.
local function of(nodes, more)
  local input <const> = { nodes = nodes, network = { default = { bytes_per_s = "10 GB/s" } } }
  for name, value in pairs(more or {}) do input[name] = value end
  return input
end

describe("the catalogue", function()
  it("finds GPUs by the names that tools print", function()
    for name, key in pairs {
      ["A100-SXM4-80GB"] = "a100-sxm4-80", ["NVIDIA A100-SXM4-40GB"] = "a100-sxm4-40", ["NVIDIA A100 80GB PCIe"] = "a100-pcie-80",
      ["NVIDIA A10G"] = "a10g", ["NVIDIA A10"] = "a10", ["NVIDIA H200 NVL"] = "h200-nvl", ["NVIDIA H200"] = "h200-sxm",
      ["NVIDIA H20"] = "h20", ["nvidia_h200_nvl"] = "h200-nvl", ["NVIDIA-H100-80GB-HBM3"] = "h100-sxm", ["NVIDIA GB200"] = "gb200",
      ["NVIDIA L40S"] = "l40s", ["NVIDIA L4"] = "l4", ["NVIDIA RTX 6000 Ada Generation"] = "rtx6000ada",
      ["NVIDIA RTX A6000"] = "rtxa6000", ["nvidia_geforce_rtx_3090"] = "rtx3090", ["Tesla V100-SXM3-32GB"] = "v100-sxm2-32",
      ["NVIDIA H800 PCIe"] = "h800-pcie", ["NVIDIA GH200 480GB"] = "gh200-96", ["T4"] = "t4", ["a100-sxm-80"] = "a100-sxm4-80",
      ["AMD Instinct MI300X"] = "mi300x", ["H100-SXM"] = "h100-sxm",
    } do
      local found <const>, why <const> = catalog.find_gpu(name)
      assert.equal(key, found and found.key or why, name)
    end
  end)

  it("asks when a label may mean several, unless the memory tells", function()
    assert.same({ nil, "GPU 'a100' is not clear, expected one of a100-sxm4-40, a100-sxm4-80, a100-pcie-40, a100-pcie-80" },
      { catalog.find_gpu "a100" })
    assert.same({ nil, "GPU 'tesla_v100' is not clear, expected one of v100-sxm2-16, v100-sxm2-32, v100-pcie-16, v100-pcie-32" },
      { catalog.find_gpu "tesla_v100" })
    assert.equal("a100-sxm4-40", catalog.find_gpu("A100-SXM4", 40536 << 20).key)
    assert.is_nil(catalog.find_gpu("a100", 81920 << 20))
  end)

  it("names the nearest of what it lacks, and refuses slices", function()
    assert.same({ nil, "unknown GPU 'l4o' (did you mean l4 or l40 or a40?)" }, { catalog.find_gpu "l4o" })
    assert.matches("^GPU 'NVIDIA A100%-SXM4%-40GB MIG 1g.5gb' is a MIG slice",
      select(2, catalog.find_gpu "NVIDIA A100-SXM4-40GB MIG 1g.5gb"))
  end)

  it("has all figures of the data", function()
    local path <const> = support.shared "data/gpus.csv"
    if not path then return pending "shared data is absent" end
    local rows, header = 0, nil
    for line in io.lines(path) do
      local cells <const> = {}
      for quoted, cell in (line .. ","):gmatch '("?)(.-)%1,' do
        cells[#cells + 1] = cell
        assert(quoted)
      end
      if not header then
        header = {}
        for i, name in ipairs(cells) do header[name] = i end
      else
        rows = rows + 1
        local gpu <const> = assert(catalog.find_gpu(cells[header.key]))
        local function number(name, factor) local x <const> = tonumber(cells[header[name]]) return x and x * factor end
        local function same(expected, got) if expected then assert.near(expected, got, 1e-9 * expected) else assert.is_nil(got) end end
        assert.equal(cells[header.key], gpu.key)
        same(number("bf16_dense_tflops", 1e12), gpu.bf16_flops)
        same(number("fp16_dense_tflops", 1e12), gpu.fp16_flops)
        same(number("fp8_dense_tflops", 1e12), gpu.fp8_flops)
        same(number("mem_mib_reported", 1 << 20) or number("mem_gb_nominal", 1 << 30), gpu.memory_bytes)
        same(number("mem_bw_GBps", 1e9), gpu.memory_bytes_per_s)
        same(number("pcie_GBps_per_dir", 1e9), gpu.pcie_bytes_per_s)
        if type(gpu.link_bytes_per_s) ~= "table" then same(number("scaleup_GBps_per_dir", 1e9), gpu.link_bytes_per_s) end
        assert.truthy(gpu.source)
      end
    end
    assert.equal(rows + 2, #catalog.gpus) -- RTX 2080 and Titan RTX, of measured runs, are beyond the data
    assert.equal(48, rows)
  end)

  it("knows links by name", function()
    assert.equal(25e9, catalog.link_rate "ib-hdr")
    assert.equal(100e9, catalog.link_rate "4x IB-HDR")
    assert.is_nil(catalog.link_rate "ib-hrd")
  end)
end)

describe("a cluster's description", function()
  it("fills in what the catalogue knows, and describes itself", function()
    local full <const> = cluster.describe(of({ { name = "a", gpu = "NVIDIA A100-SXM4-80GB", gpus = 8, count = 2 },
      { name = "t", gpu = "t4", gpus = 4, intra_bytes_per_s = { [2] = "6 GB/s", [4] = 5.9e9 }, intra_latency_s = "30 us" } }))
    assert.equal(3, #full.nodes)
    assert.same({ "a-1", "a-2", "t" }, { full.nodes[1].name, full.nodes[2].name, full.nodes[3].name })
    assert.same({ "a100-sxm4-80", 8, 300e9, 2e-5 },
      { full.nodes[2].gpu, full.nodes[2].gpus, full.nodes[2].intra_bytes_per_s, full.nodes[2].intra_latency_s })
    assert.same({ ["2"] = 6000000000, ["4"] = 5900000000 }, full.nodes[3].intra_bytes_per_s)
    assert.equal(3e-5, full.nodes[3].intra_latency_s)
    assert.same({ bytes_per_s = 10000000000, latency_s = 5e-5 }, full.network.default)
    assert.equal(15360 << 20, full.gpus.t4.memory_bytes)
    local again <const> = cluster.describe(core.json_decode(cluster.to_json(full)))
    assert.equal(cluster.to_json(full), cluster.to_json(again))
  end)

  it("takes the cluster's own GPUs and figures over the catalogue's", function()
    local full <const> = cluster.describe(of({ { name = "a", gpu = "mine", gpus = 2 }, { name = "t", gpu = "t4", gpus = 2,
      memory_bytes = "16 GiB" } }, { gpus = { mine = { fp16_flops = "100 TFLOP/s", memory_bytes = "32 GiB", pcie_bytes_per_s = "8 GB/s" },
      t4 = { fp16_flops = 60e12 } } }))
    assert.equal(8000000000, full.nodes[1].intra_bytes_per_s)
    local nodes <const> = cluster.build(full):nodes()
    assert.same({ 1e14, 32 << 30 }, { nodes[1].compute_flops, math.tointeger(nodes[1].memory_bytes) })
    assert.same({ 6e13, 16 << 30 }, { nodes[2].compute_flops, math.tointeger(nodes[2].memory_bytes) })
  end)

  it("does not take bridges for granted, and knows meshes", function()
    local full <const> = cluster.describe(of { { name = "p", gpu = "a100-pcie-80", gpus = 4 }, { name = "m", gpu = "mi300x", gpus = 8 } })
    assert.equal(31.5e9, full.nodes[1].intra_bytes_per_s)
    assert.same({ ["2"] = 64000000000, ["4"] = 192000000000, ["8"] = 448000000000 }, full.nodes[2].intra_bytes_per_s)
  end)

  it("cuts a node of several kinds", function()
    local full <const> = cluster.describe(of { { name = "m", gpus = { { gpu = "a40", count = 2 }, { gpu = "t4", count = 2 } } } })
    local found <const> = islands.group(full)
    assert.equal(2, #found.islands)
    assert.same({ "m:0-1", "m:2-3" }, { found.islands[1].nodes[1], found.islands[2].nodes[1] })
    assert.equal(15.75e9, full.nodes[1].intra_bytes_per_s)
    assert.same({ "Ampere", "Turing" }, { found.islands[1].device.arch, found.islands[2].device.arch })
  end)

  it("links all copies that a name stands for", function()
    local full <const> = cluster.describe {
      nodes = { { name = "a", gpu = "t4", gpus = 1, count = 3 }, { name = "b", gpu = "t4", gpus = 1 } },
      network = { links = { { between = { "a", "a" }, bytes_per_s = "4x ib-hdr" }, { between = { "b", "a" }, bytes_per_s = "1 GB/s" } } } }
    assert.equal(3 + 3, #full.network.links)
    assert.same({ { { 1, 1e11 } }, { { 1, 1e9 } } }, { (cluster.build(full):link("a-1", "a-3")), (cluster.build(full):link("b", "a-2")) })
  end)

  it("is refused in one line with place, field and what was expected", function()
    local t4 <const> = { name = "t", gpu = "t4", gpus = 4 }
    assert.equal("c.json: nodes[1]: gpuss: unknown field (did you mean 'gpus'?)",
      refusal(cluster.describe, of { { name = "t", gpu = "t4", gpuss = 4 } }, "c.json"))
    assert.matches("c.json: nodes%[1%] 't': gpu: unknown GPU 't5' %(did you mean t4", refusal(cluster.describe,
      of { { name = "t", gpu = "t5", gpus = 4 } }, "c.json"))
    assert.matches("nodes%[1%] 't': gpu: GPU 'a100' is not clear", refusal(cluster.describe, of { { name = "t", gpu = "a100", gpus = 4 } }))
    assert.matches("nodes%[2%] 't': name: two nodes have this name", refusal(cluster.describe, of { t4, t4 }))
    assert.matches("bytes_per_s: got 0, expected bytes per second above 0", refusal(cluster.describe,
      { nodes = { t4 }, network = { default = { bytes_per_s = 0 } } }))
    assert.matches("intra_bytes_per_s: got '6 GB', expected bytes per second: .* '46 GB/s'", refusal(cluster.describe,
      of { { name = "t", gpu = "t4", gpus = 4, intra_bytes_per_s = "6 GB" } }))
    assert.matches("links%[1%]: between: got 'u', expected the name of a node", refusal(cluster.describe,
      { nodes = { t4 }, network = { links = { { between = { "t", "u" }, bytes_per_s = 1 } } } }))
    assert.matches("bf16_flops, fp16_flops or fp8_flops: missing, expected at least one", refusal(cluster.describe,
      of({ { name = "t", gpu = "x", gpus = 1, intra_bytes_per_s = 1 } }, { gpus = { x = { memory_bytes = 1 } } })))
    assert.matches("memory_bytes: missing", refusal(cluster.describe,
      of({ { name = "t", gpu = "x", gpus = 1, intra_bytes_per_s = 1 } }, { gpus = { x = { fp16_flops = 1 } } })))
    assert.matches("islands%[1%]: got 'gpu10', expected the name of a node %(did you mean 'gpu01'%?%)$", refusal(islands.group,
      cluster.describe(of { { name = "gpu01", gpu = "t4", gpus = 4 } }), { islands = { { "gpu10" } } }))
  end)
end)

describe("tangram islands", function()
  local folder <const> = support.folder()
  local file <const> = folder .. "/c.json"
  support.write(file, cluster.to_json(cluster.describe(of { { name = "a", gpu = "a100-sxm4-80", gpus = 8, count = 2 },
    { name = "t", gpu = "t4", gpus = 8 } })))
  teardown(function() support.remove(folder) end)

  it("prints JSON alone on standard output", function()
    local status <const>, out <const>, err <const> = support.run("tangram islands --cluster " .. file .. " --json -")
    assert.same({ 0, "" }, { status, err })
    assert.same({ proved_fewest = true, islands = {
      { name = "a100-sxm4-80", nodes = { "a-1", "a-2" }, gpus = 16, gpu = "a100-sxm4-80" },
      { name = "t4", nodes = { "t" }, gpus = 8, gpu = "t4" } }, apart = {
      { nodes = { "a-1", "t" }, constraint = 1, why = "compute 312 TFLOP/s against 65.0 TFLOP/s" },
      { nodes = { "a-2", "t" }, constraint = 1, why = "compute 312 TFLOP/s against 65.0 TFLOP/s" } } }, core.json_decode(out))
  end)

  it("takes tolerances and pins, and warns", function()
    local _, out <const> = support.run("tangram islands --tolerance 9,9,99 --cluster " .. file)
    assert.matches("^1 island\n", out)
    local status <const>, _, err <const> = support.run("tangram islands --pin a-1,t --cluster " .. file)
    assert.equal(0, status)
    assert.matches("warning: pinned island: a%-1 and t break constraint 1: compute 312 TFLOP/s against 65.0 TFLOP/s", err)
  end)

  it("ends with 2 and one line on wrong input", function()
    for line, message in pairs {
      ["tangram islands"] = "missing option '%-%-cluster'",
      ["tangram islands --cluster nowhere.json"] = "nowhere.json: No such file",
      ["tangram islands --tolerance 1,x,2 --cluster " .. file] = "got '1,x,2', expected three numbers of at least 0, EC,EM,EI",
      ["echo '{' | tangram cluster show /dev/stdin"] = "stdin:1:2: not JSON",
      ["tangram cluster"] = "tangram cluster: ",
    } do
      local status <const>, out <const>, err <const> = support.run(line)
      assert.same({ 2, "" }, { status, out }, line)
      assert.matches(message, err)
      assert.equal(1, select(2, err:gsub("\n", "")), line)
    end
  end)

  it("has a companion that shows the cluster in full", function()
    local status <const>, out <const> = support.run("tangram cluster show " .. file)
    assert.equal(0, status)
    assert.matches("a%-2: 8 x a100%-sxm4%-80, each 312 TFLOP/s, 80.0 GiB; in the node 300 GB/s, 20.0 us", out)
    local _, json <const> = support.run("tangram cluster show --json - " .. file)
    assert.equal(support.read(file), json)
  end)
end)
