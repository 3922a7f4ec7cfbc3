local core <const> = require "tangram.core"
local support <const> = require "tests.spec.support"

describe("tangram cluster import", function()
  local folder
  setup(function() folder = support.folder() end)
  teardown(function() support.remove(folder) end)

  local function file(name, text) return support.write(folder .. "/" .. name, text) end
  local function import(words) return support.run("tangram cluster import " .. words) end
  local function refused(words, pattern)
    local status <const>, out <const>, err <const> = import(words)
    assert.equal(2, status, err)
    assert.equal("", out)
    assert.equal(1, select(2, err:gsub("\n", "")), err)
    assert.matches(pattern, err, 1, true)
  end

  local topo <const> = "\tGPU0\tGPU1\tGPU2\tGPU3\tCPU Affinity\n" .. "GPU0\t X \tNV12\tSYS\tSYS\t0\nGPU1\tNV12\t X \tSYS\tSYS\t0\n"
    .. "GPU2\tSYS\tSYS\t X \tNV12\t1\nGPU3\tSYS\tSYS\tNV12\t X \t1\n"
  local function csv(name, mib)
    local lines <const> = { "index, name, memory.total [MiB]" }
    for i = 0, 3 do lines[#lines + 1] = ("%d, %s, %d MiB"):format(i, name, mib) end
    return table.concat(lines, "\n") .. "\n"
  end

  it("makes a cluster that can be planned with, from what two nodes print and a rate", function()
    file("topo.txt", topo)
    file("a100.csv", csv("NVIDIA A100 80GB PCIe", 81920))
    file("t4.csv", csv("Tesla T4", 15360))
    local status <const>, _, err <const> = import(("--node a1 %s/topo.txt %s/a100.csv --node t1 %s/t4.csv --bytes-per-s '3 GB/s' "
      .. "-o %s/cluster.json"):format(folder, folder, folder, folder))
    assert.equal(0, status, err)
    assert.matches("2 nodes, 8 GPUs: 4 x a100-pcie-80, 4 x t4\n", err, 1, true)
    local made <const> = core.json_decode(support.read(folder .. "/cluster.json"))
    assert.same({ ["2"] = 300e9, ["3"] = 18.9e9 }, made.nodes[1].intra_bytes_per_s)
    file("model.json", core.json_encode { model_type = "llama", num_hidden_layers = 4, hidden_size = 512, num_attention_heads = 8,
      num_key_value_heads = 8, intermediate_size = 1536, vocab_size = 32000, tie_word_embeddings = false })
    local planned <const>, out <const>, why <const> = support.run(("tangram plan --model %s/model.json --cluster %s/cluster.json "
      .. "--global-batch 8 --seq-len 512 --parallelizer uniform --quiet --json -"):format(folder, folder))
    assert.equal(0, planned, why)
    local used <const> = {}
    for _, stage in ipairs(core.json_decode(out).stages) do used[stage.gpus[1].node] = true end
    assert.is_true(used.a1)
  end)

  it("writes the JSON alone to standard output, and nothing else with --quiet", function()
    local words <const> = "tests/spec/fixtures/inputs/sinfo.rows.txt --bytes-per-s ib-hdr --bytes-per-s 'h1,h2=4x ib-ndr'"
    local status <const>, out <const>, err <const> = import(words)
    assert.equal(0, status, err)
    assert.equal(25e9, core.json_decode(out).network.default.bytes_per_s)
    assert.same(200e9, core.json_decode(out).network.links[1].bytes_per_s)
    assert.matches("note: node g04: left out: state drain", err, 1, true)
    local _, same <const>, nothing <const> = import(words .. " --quiet")
    assert.equal(out, same)
    assert.equal("", nothing)
  end)

  it("reads a file from standard input, and takes the kind that --from names", function()
    local status <const>, out <const>, err <const> = support.run(
      "printf 'n1\\nn2\\n' | tangram cluster import --from hostfile - --gpu-type '*=t4' --bytes-per-s 1e9")
    assert.equal(0, status, err)
    assert.equal(2, #core.json_decode(out).nodes)
  end)

  it("takes GPU types that the catalogue lacks from a cluster file", function()
    file("own.json", '{"gpus":{"BI-V150":{"bf16_flops":1.9e14,"memory_bytes":34359738368,"memory_bytes_per_s":1e12,'
      .. '"pcie_bytes_per_s":3e10}}}')
    local status <const>, out <const>, err <const> = import(("tests/spec/fixtures/inputs/hostfile.flagscale.txt --gpus %s/own.json "
      .. "--gpu-type A800=a800-sxm4-80 --bytes-per-s 2e9 --bytes-per-s '10.1.1.9={\"2\":3e10,\"16\":1e10}'"):format(folder))
    assert.equal(0, status, err)
    local last <const> = core.json_decode(out).nodes[3]
    assert.equal("BI-V150", last.gpu)
    assert.same({ ["2"] = 3e10, ["16"] = 1e10 }, last.intra_bytes_per_s)
  end)

  it("refuses what it can't use in one line, with status 2", function()
    file("empty", "")
    file("prose", "Dear all,\nthe cluster is down.\n")
    refused("", "no file, expected some")
    refused(folder .. "/absent", "absent: No such file")
    refused(folder, "Is a directory, expected a readable file")
    refused(folder .. "/empty", "expected one of")
    refused(folder .. "/prose", "looks like nothing known")
    refused("tests/golden/plan.json", "looks like a plan, expected it as --cluster")
    file("quoting", '{ "format": "tangram.plan/1", \n"source": "17 V100 runs of Megatron-LM: DLPerf, NVIDIA 2020"\n}')
    refused(folder .. "/quoting", "looks like a plan, expected it as --cluster")
    refused(folder .. "/prose --from sinfo", "no heading with NODELIST and GRES")
    refused(folder .. "/prose --from sinf", "did you mean 'sinfo'?")
    refused("tests/spec/fixtures/inputs/hostfile.mpich.txt", "--gpu-type '*=KEY'")
    refused("tests/spec/fixtures/inputs/hostfile.mpich.txt --gpu-type t4", "--gpu-type: got 't4', expected LABEL=KEY")
    refused("tests/spec/fixtures/inputs/hostfile.mpich.txt --gpu-type '*=t44'", "did you mean")
    refused("tests/spec/fixtures/inputs/hostfile.mpich.txt --gpu-type '*=t4'", "no rate between n1 and n2")
    refused("tests/spec/fixtures/inputs/hostfile.mpich.txt --bytes-per-s fast", "--bytes-per-s: got 'fast'")
    refused("tests/spec/fixtures/inputs/hostfile.mpich.txt --bytes-per-s '{\"1\":0}'", "--bytes-per-s: got")
    refused("tests/spec/fixtures/inputs/sinfo.rows.txt --include 'a[' ", "--include 'a['")
    refused("--node 'a[' tests/spec/fixtures/inputs/gres-conf.here.txt", "--node 'a['")
  end)

  it("refuses a file of 100 MB without reading it whole", function()
    assert(os.execute(("truncate -s 100M %s/large"):format(folder)))
    local limit <const> = support.sanitized and "" or "ulimit -v 400000; " -- KiB
    local status <const>, _, err <const> = support.run(("%stangram cluster import --from sinfo %s/large"):format(limit, folder))
    assert.equal(2, status, err)
    assert.matches("large: over 32768 KiB", err)
  end)
end)
