--- How well constants hold for runs that they were not fitted on: each group of the public runs (GPU and software) is fitted anew
--- from the values that GPUs without a set have, once on each random half to predict the other (two-fold), then without each
--- source and without each model in turn. Names of groups as arguments; all by default. Minutes of CPU time.
local constants <const> = require "tangram.catalog.constants"
local fit <const> = require "tangram.measured.fit"
local loader <const> = require "tangram.loader"
local predict <const> = require "tangram.measured.predict"
local rows <const> = require "tangram.measured.rows"
local setup <const> = require "tangram.measured.setup"
local summary <const> = require "tangram.measured.summary"
local support <const> = require "tests.spec.support"
local validate <const> = require "tangram.validate"

--- Spread of a constant's logarithm around its start, and its largest value.
local SPREADS <const> = {
  gemm_efficiency = { 0.25, 0.95 }, memory_efficiency = { 0.25, 0.95 }, flash_efficiency = { 0.35, 0.9 },
  flash_backward_factor = { 0.2, 2 }, launch_s = { 0.7 }, launch_rank_s = { 0.7 }, kernel_s = { 1 }, tp_link_share = { 0.3, 1 },
  pcie_link_share = { 0.7, 1 }, tp_latency_s = { 0.7 }, dp_link_share = { 0.4, 1 }, tp_network_share = { 0.4, 1 },
  network_share = { 0.4, 1 }, dp_network_share = { 0.5, 1 }, step_s = { 0.7 }, fp8_gain = { 0.15, 2 }, fsdp_exposed = { 0.7, 1 },
  cp_exposed = { 0.7, 1 }, ep_network_share = { 0.5 }, ep_latency_s = { 0.7 }, recompute_share = { 0.1, 1 },
}

--- Name, GPUs' pattern, kind, sources, constants (NAME@GPU for one type), kinds of link whose shares are fitted too.
local GROUPS <const> = {
  { "A100", "^A100", nil, "vtrain_multi bigscience_a100 megatron_sc21 korthikanti22 llmfoundry", "gemm_efficiency flash_efficiency "
    .. "memory_efficiency launch_s launch_rank_s tp_link_share tp_latency_s dp_link_share", "ethernet-100 omni-path ib-hdr roce" },
  { "A100, experts", "^A100", "moe", "galvatron_laer", "gemm_efficiency", "" },
  { "H100, FSDP", "^H100", nil, "llmfoundry", "gemm_efficiency flash_efficiency flash_backward_factor memory_efficiency dp_link_share "
    .. "recompute_share fsdp_exposed fp8_gain step_s", "" },
  { "H100, Megatron-Core", "^H100", "dense", "mbridge_h100 mcore_h100 nemo_longseq", "gemm_efficiency flash_efficiency "
    .. "flash_backward_factor memory_efficiency tp_link_share dp_link_share step_s fp8_gain cp_exposed network_share", "" },
  { "H100, experts", "^H100", "moe", "mbridge_h100", "gemm_efficiency memory_efficiency kernel_s ep_network_share ep_latency_s", "" },
  { "B200", "^B200", nil, "simumax_b200", "gemm_efficiency flash_efficiency flash_backward_factor memory_efficiency kernel_s "
    .. "tp_link_share dp_link_share step_s cp_exposed ep_latency_s", "" },
  { "V100, Megatron-LM", "^V100", nil, "dlperf_megatron_v100 megatron_2020", "gemm_efficiency memory_efficiency tp_link_share "
    .. "tp_network_share dp_link_share", "ib-edr" },
  { "V100, OneFlow", "^V100", nil, "dlperf_oneflow_v100", "gemm_efficiency memory_efficiency tp_link_share tp_network_share dp_link_share",
    "" },
  { "V100, Alpa", "^V100", nil, "alpa", "gemm_efficiency memory_efficiency launch_s tp_link_share dp_link_share", "ethernet-25" },
  { "T4", "^T4", nil, "amp_t4", "memory_efficiency launch_s launch_rank_s pcie_link_share step_s", "ethernet-50" },
  { "V100 and T4", "^12xV100", nil, "amp_het", "gemm_efficiency@v100-sxm2-16 memory_efficiency@v100-sxm2-16 launch_s@v100-sxm2-16 "
    .. "tp_link_share@v100-sxm2-16 step_s@v100-sxm2-16", "ethernet-10" },
  { "GH200", "^GH200", nil, "sailor_gh200", "gemm_efficiency memory_efficiency launch_s tp_link_share tp_latency_s step_s",
    "slingshot-11" },
}

local plugin <const> = loader.load("cost", "analytic")
local starts <const> = {}
for _, one in ipairs(constants.list({ arch = "without a set" }, { moe = false, stack = "megatron" })) do starts[one.name] = one.value end

local function runs_of(list, group)
  local _, gpus <const>, kind <const>, names <const> = table.unpack(group, 1, 4)
  local of_group <const>, found <const> = {}, {}
  for name in names:gmatch "%S+" do of_group[name] = true end
  for _, row in ipairs(list) do
    if of_group[row.source_key] and row.gpu:find(gpus) and (not kind or row.kind == kind) then
      local result <const> = validate.row(row, plugin)
      if not result.reason and not result.suspect and result.measured_s then
        found[#found + 1] = { id = row.id, source = row.source_key, model = row.model or "", setup = setup.of(row, {}),
          measured = result.measured_s, predicted = result.predicted_s }
      end
    end
  end
  return found
end

local function unknowns_of(group)
  local list <const> = {}
  local function add(name, fields)
    local spread <const> = SPREADS[name]
    fields.name, fields.spread, fields.max, fields.start = name, spread[1], spread[2], math.min(starts[name], spread[2] or math.huge)
    list[#list + 1] = fields
  end
  for word in group[5]:gmatch "%S+" do
    local name <const>, gpu <const> = word:match "^([^@]+)@?(.*)$"
    add(name, { gpu = gpu ~= "" and gpu or nil })
  end
  for link in group[6]:gmatch "%S+" do
    add("network_share", { link = link })
    add("dp_network_share", { link = link })
  end
  return list
end

--- Errors of `held` under constants fitted on `train`.
local function predicted(group, train, held)
  local setups <const>, measured <const>, unknowns <const>, result <const> = {}, {}, unknowns_of(group), {}
  for i, one in ipairs(train) do setups[i], measured[i] = one.setup, one.measured end
  local found <const> = fit.run { setups = setups, measured = measured, unknowns = unknowns, plugin = plugin, p2p = "overlapped" }
  local values <const>, others <const> = {}, {}
  for i, one in ipairs(found) do values[i] = one.value end
  for i, one in ipairs(held) do others[i] = one.setup end
  fit.apply(unknowns, values, others)
  for i, one in ipairs(held) do
    result[i] = { id = one.id, predicted = predict.of(one.setup, plugin, "overlapped").seconds, measured = one.measured }
  end
  return result
end

--- Errors of all runs, each predicted without those of its part.
local function by_parts(group, runs, part_of)
  local parts <const>, all <const> = {}, {}
  for _, one in ipairs(runs) do parts[part_of(one)] = true end
  local names <const> = {}
  for name in pairs(parts) do names[#names + 1] = name end
  if #names < 2 or #names > 30 then return nil end
  table.sort(names)
  for _, name in ipairs(names) do
    local train <const>, held <const> = {}, {}
    for _, one in ipairs(runs) do table.insert(part_of(one) == name and held or train, one) end
    table.move(predicted(group, train, held), 1, #held, #all + 1, all)
  end
  return all
end

local function cell(errors)
  local e <const> = errors and summary.of(errors)
  return e and ("%.1f / %.1f / %.1f"):format(100 * e.mape, 100 * e.median, 100 * e.p90) or ""
end

local list <const> = {}
for _, file in ipairs { "measured/runs.csv", "alpa/measured.json", "galvatron/measured.json" } do
  local path <const> = assert(support.shared("data/" .. file), "data/" .. file .. " is not there")
  local more <const> = rows.read(support.read(path), path)
  table.move(more, 1, #more, #list + 1, list)
end
local asked <const> = {}
for _, name in ipairs(arg) do asked[name] = true end
print "| runs | | fitted on all | the catalogue | two-fold | without the source | without the model |"
print "| --- | ---: | ---: | ---: | ---: | ---: | ---: |"
for _, group in ipairs(GROUPS) do
  if #arg == 0 or asked[group[1]] then
    local runs <const>, now <const>, half <const>, random = runs_of(list, group), {}, {}, 7919
    for i, one in ipairs(runs) do
      now[i] = { id = one.id, predicted = one.predicted, measured = one.measured }
      random = (random * 1103515245 + 12345) % 2 ^ 31
      half[one] = random // 65536 % 2
    end
    print(("| %s | %d | %s | %s | %s | %s | %s |"):format(group[1], #runs, cell(predicted(group, runs, runs)), cell(now),
      cell(by_parts(group, runs, function(one) return half[one] end)), cell(by_parts(group, runs, function(one) return one.source end)),
      cell(by_parts(group, runs, function(one) return one.model end))))
  end
end
