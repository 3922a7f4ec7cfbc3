local catalog <const> = require "tangram.catalog"
local support <const> = require "tests.spec.support"

local function key_of(name, memory_bytes)
  local found <const>, why <const> = catalog.find_gpu(name, memory_bytes)
  return found and found.key or why
end

describe("names of GPUs", function()
  it("mean their own type in every form that tools print them", function()
    local path <const> = support.shared "data/gpus.csv"
    if not path then return pending "shared data is absent" end
    local names = 0
    for line in io.lines(path) do
      local key <const>, patterns <const> = line:match "^([^,]+),([^,]+),"
      if key ~= "key" then
        for name in patterns:gmatch "[^|]+" do
          names = names + 1
          local forms <const> = {
            name, name:gsub("^NVIDIA ", "") .. "", name:gsub(" ", "-") .. "", name:lower():gsub("[ -]", "_") .. "",
            "NVIDIA " .. name:gsub("^NVIDIA ", ""):gsub("^Tesla ", ""),
          }
          for i, form in ipairs(name:find "^AMD" and { name, forms[3], forms[4] } or forms) do
            if i < 5 or not name:find "^HL" and not name:find "Gaudi" and not name:find "TPU" then assert.equal(key, key_of(form), form) end
          end
        end
      end
    end
    assert.is_true(names > 48)
  end)

  for _, case in ipairs { -- runtimes.md, B3
    { "NVIDIA GB200", "gb200" }, { "NVIDIA B200", "b200-sxm" }, { "NVIDIA H200", "h200-sxm" }, { "NVIDIA H200 NVL", "h200-nvl" },
    { "NVIDIA H20", "h20" }, { "NVIDIA H100 NVL", "h100-nvl" }, { "NVIDIA H100 PCIe", "h100-pcie" },
    { "NVIDIA H100 80GB HBM3", "h100-sxm" }, { "NVIDIA A10", "a10" }, { "NVIDIA A10G", "a10g" }, { "NVIDIA L40S", "l40s" },
    { "NVIDIA L40", "l40" }, { "NVIDIA L4", "l4" }, { "NVIDIA H800", "h800-sxm" }, { "NVIDIA H800 PCIe", "h800-pcie" },
    { "NVIDIA RTX A6000", "rtxa6000" }, { "NVIDIA RTX 6000 Ada Generation", "rtx6000ada" }, { "Tesla T4", "t4" }, { "NVIDIA T4", "t4" },
    { "NVIDIA GH200 480GB", "gh200-96" }, { "NVIDIA A100-SXM4-40GB", "a100-sxm4-40" }, { "NVIDIA A100-SXM4-80GB", "a100-sxm4-80" },
    { "NVIDIA GeForce RTX 2080 Ti", "rtx2080ti" }, { "NVIDIA GeForce RTX 2080", "rtx2080" },
  } do
    it(("'%s' is %s"):format(case[1], case[2]), function() assert.equal(case[2], key_of(case[1])) end)
  end

  for _, name in ipairs {
    "NVIDIA Graphics Device", "NVIDIA L20Y", "NVIDIA A100X", "NVIDIA GeForce RTX 2080 SUPER", "NVIDIA GeForce RTX 4090 Laptop GPU",
    "NVIDIA GeForce RTX 4090 D", "NVIDIA GeForce RTX 3090 Ti", "NVIDIA H20-3e", "a100", "v100", "h100",
    "NVIDIA A100-SXM4-40GB MIG 1g.5gb", "nvidia_a100_80gb_pcie_1g.10gb", "NVIDIA-A100-SXM4-40GB-MIG-3g.20gb",
  } do
    it(("'%s' is not guessed"):format(name), function() assert.is_nil((catalog.find_gpu(name))) end)
  end
end)
