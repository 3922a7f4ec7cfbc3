--- The figures of the Tangram paper (arXiv 2606.16907) as rows: each with the bar that a study of the same figures gives, priced as
--- the plan that is stated or likely, or as the best plan found. Settings and rates from its author's public fork: unfused
--- attention, 16 bytes a parameter, a memory margin of 8 %, transfers that block. Where a setting is not stated the row says so.
local core <const> = require "tangram.core"
local cost_models <const> = require "tangram.cost"
local catalog <const> = require "tangram.catalog"
local island <const> = require "tangram.island"
local models <const> = require "tangram.model"
local planned <const> = require "tangram.measured.planned"
local planner <const> = require "tangram.planner"
local rates <const> = require "tangram.rates"
local slice <const> = require "tangram.slice"
local training_of <const> = require("tangram.training").check

local paper <const> = {}

--- Nodes by a short name: GPUs' type, how many, rates inside by group size.
local NODES <const> = {
  a = { "a100-pcie-80", 4, { [2] = 253.5e9, [4] = 44.2e9 } }, v32 = { "v100-sxm2-32", 8, { [2] = 45.7e9, [4] = 45.8e9, [8] = 21.9e9 } },
  v16 = { "v100-sxm2-16", 4, { [2] = 10.9e9, [4] = 11.4e9 } }, t = { "t4", 4, { [2] = 6.0e9, [4] = 5.9e9 } },
}
--- Bytes a second between two nodes with 1, 2 and 4 flows.
local BETWEEN <const> = {
  ["v16 v16"] = { 0.68e9, 1.13e9, 2.70e9 }, ["a v16"] = { 2.67e9, 2.85e9, 2.85e9 }, ["v16 v32"] = { 2.55e9, 2.75e9, 2.75e9 },
  ["t t"] = { 2.92e9, 3.72e9, 3.72e9 }, ["a v32"] = { 2.45e9, 4.36e9, 4.48e9 },
}
local GPT <const> = {
  ["6.7B"] = { family = "gpt2", layers = 32, hidden = 4096, heads = 32, vocab = 50272 },
  ["13B"] = { family = "gpt2", layers = 40, hidden = 5120, heads = 40, vocab = 50272 },
}
local TRAINING <const> = { global_batch = 128, seq_len = 2048, precision = "fp16", attention = "unfused", dropout = true,
  gradient_bytes = 2, memory_margin = 0.08 }

local function between(x, y)
  local table_of <const> = BETWEEN[x .. " " .. y] or BETWEEN[y .. " " .. x]
  return { [1] = table_of[1], [2] = table_of[2], [4] = table_of[3] }
end

local function cluster_of(names)
  local nodes <const>, links <const> = {}, {}
  for i, name in ipairs(names) do
    local node <const> = NODES[name]
    nodes[i] = { name = name .. "-" .. i, gpu = node[1], gpus = node[2], intra_bytes_per_s = node[3] }
    for j = 1, i - 1 do
      links[#links + 1] = { between = { nodes[j].name, nodes[i].name }, bytes_per_s = between(names[j], name) }
    end
  end
  return { nodes = nodes, network = { links = links } }
end

local function search(spec, cost)
  spec.cost = cost
  local plan <const>, why <const> = planner.plan(spec)
  if not plan then error("plan: " .. why, 0) end
  return { seconds = plan.time_s, shape = planned.shape(plan) }
end

--- The best plan found on these nodes.
local function best(size, names, parallelizer)
  return function(_, cost)
    local training <const> = { microbatches = { min = 16, max = 128 } }
    for name, value in pairs(TRAINING) do training[name] = value end
    return search({ model = GPT[size], cluster = cluster_of(names), training = training, parallelizer = parallelizer }, cost)
  end
end

--- An island of nodes of one kind, as a stated stage sees it.
local function island_of(kind)
  local node <const> = NODES[kind]
  local device <const> = catalog.find_gpu(node[1])
  local links <const> = BETWEEN[kind .. " " .. kind] and rates.to_steps(between(kind, kind))
  return island.new {
    index = 1, name = kind, gpu = node[1], gpus = 4 * node[2], gpus_per_node = node[2], node_count = 4, signature = kind, merged = false,
    compute_flops = device.fp16_flops, memory_bytes = device.memory_bytes, device = device, intra = rates.to_steps(node[3]), nodes = {},
    intra_latency_s = catalog.links.intra_latency_s, inter = links and { rates = links, latency_s = catalog.links.inter_latency_s },
  }
end

--- A pipeline of 128 microbatches of one sample: stages { kind, layers, tp, recompute }, filling nodes one after the other. Each rank
--- sends the whole activation, as Sailor and Aceso do.
local function stated(size, stages)
  return function(plugin)
    local m <const> = models.new(GPT[size])
    local training <const> = training_of(TRAINING)
    local atoms <const> = assert(core.atoms(m, { seq_len = training.seq_len }))
    local priced <const> = cost_models.wrap(plugin, plugin.options)
    local times <const>, transfers <const>, first, used = {}, {}, 1, 0
    for i, stage in ipairs(stages) do
      local on <const> = island_of(stage[1])
      local last <const> = first + stage[2] - 1 + (i == 1 and 1 or 0) + (i == #stages and 1 or 0)
      local ctx <const> = { model = m, atoms = atoms, islands = { on }, training = training, microbatches = 128, samples = 1,
        successors = 0, capacity_bytes = on.memory_bytes, log = function() end }
      local strategy <const> = { dp = 1, tp = stage[3], sp = false, recompute = stage[4] }
      local one <const> = priced.stage(slice.new(m, atoms, first, last), on, strategy, ctx)
      times[i] = { forward_s = one.forward_s, backward_s = one.backward_s, sync_s = one.sync_s }
      first, used = last + 1, used + stage[3]
      local after <const>, bytes <const> = stages[i + 1], 2 * training.seq_len * m.hidden
      if after and after[1] == stage[1] and used % NODES[stage[1]][2] ~= 0 then
        transfers[i] = on.intra_latency_s + bytes / on:intra_bytes_per_s(2)
      elseif after then
        local link <const>, flows <const> = between(stage[1], after[1]), math.min(stage[3], after[3])
        transfers[i], used = catalog.links.inter_latency_s + bytes * flows / link[flows], 0
      end
    end
    local seconds <const>, stuck <const> = core.simulate(times, transfers, { microbatches = 128, p2p = "blocking" })
    if not seconds then error("schedule: " .. stuck, 0) end
    local shape <const> = {}
    for i, stage in ipairs(stages) do shape[i] = ("%d tp%d %s"):format(stage[2], stage[3], stage[4]) end
    return { seconds = seconds, shape = "stated or likely: " .. table.concat(shape, " | ") }
  end
end

--- Stages alike but for their layers.
local function equal(kind, layers, tp, recompute)
  local stages <const> = {}
  for i, count in ipairs(layers) do stages[i] = { kind, count, tp, recompute } end
  return stages
end

--- H100 and A100 with experts: GPUs, batch and network are not stated; this is what fits the figures best.
local function experts(model, gpus, layers)
  return function(_, cost)
    local m <const> = { layers = layers }
    for name, value in pairs(model) do m[name] = value end
    return search({
      model = m,
      cluster = { nodes = { { name = "h", gpu = "h100-sxm", gpus = gpus }, { name = "a", gpu = "a100-sxm4-80", gpus = gpus } },
        network = { default = { bytes_per_s = 12.5e9 } } },
      training = { global_batch = 256, seq_len = 4096, microbatches = { min = 16, max = 64 } },
    }, cost)
  end
end

local MIXTRAL <const> = { family = "mixtral", hidden = 4096, heads = 32, kv_heads = 8, head_dim = 128, ffn = 14336, vocab = 32000,
  experts = 8, experts_per_token = 2, expert_ffn = 14336 }
local QWEN <const> = { family = "qwen3", hidden = 2048, heads = 32, kv_heads = 4, head_dim = 128, ffn = 6144, vocab = 151936,
  experts = 128, experts_per_token = 8, expert_ffn = 768 }
local ASSUMED <const> = "4 or 8 GPUs of a kind, 100 Gb/s, 1.05 M tokens an iteration"

--- Sailor's counts hold the embedding and the head.
local EIGHT <const>, SIXTEEN <const> = { 3, 4, 4, 4, 4, 4, 5, 4 }, { 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2 }
local T4S <const>, V100S <const> = { "t", "t", "t", "t" }, { "v16", "v16", "v16", "v16" }
local TWO_KINDS <const> = { { "a", 10, 2, "none" }, { "a", 10, 2, "none" }, { "v32", 10, 4, "none" }, { "v32", 10, 4, "none" } }

--- By experiment, system and model: how it is priced, and its bar: a share of the figure, `most` or `least` seconds.
local FIGURES <const> = {
  ["homog_T4/Alpa"] = { best("6.7B", T4S, "alpa"), share = 0.2 },
  ["homog_T4/Tangram-Alpa"] = { best("6.7B", T4S, "alpa"), share = 0.2 },
  ["homog_T4/Aceso"] = { stated("6.7B", equal("t", SIXTEEN, 1, "full")), share = 0.25 },
  ["homog_T4/Tangram-Aceso"] = { best("6.7B", T4S), most = 50 },
  ["homog_T4/Sailor"] = { stated("6.7B", equal("t", EIGHT, 2, "full")), share = 0.15 },
  ["homog_V100/Tangram-Alpa"] = { best("6.7B", V100S, "alpa"), most = 27 },
  ["homog_V100/Tangram-Aceso"] = { best("6.7B", V100S), most = 27 },
  ["homog_V100/Sailor"] = { stated("6.7B", equal("v16", EIGHT, 2, "full")), share = 0.2 },
  ["full_het_1/Metis"] = { stated("13B", { { "a", 40, 4, "full" } }), least = 1.4 * 32 },
  ["full_het_1/Sailor"] = { stated("13B", equal("a", { 20, 20 }, 2, "none")), share = 0.15 },
  ["full_het_1/Tangram-Aceso"] = { best("13B", { "a" }), share = 0.1 },
  ["full_het_2/Sailor"] = { stated("13B", TWO_KINDS), share = 0.2 },
  ["full_het_2/Tangram-Aceso"] = { best("13B", { "a", "v32" }), share = 0.15 },
  ["full_het_3/Sailor"] = { stated("13B", TWO_KINDS), share = 0.2 },
  ["full_het_3/Tangram-Aceso"] = { best("13B", { "a", "v32", "v16" }), most = 21 },
  ["moe_modern/Tangram/Mixtral-8x7B 16 layers"] = { experts(MIXTRAL, 4, 16), assumed = ASSUMED },
  ["moe_modern/Tangram/Mixtral-8x7B 32 layers"] = { experts(MIXTRAL, 8, 32), assumed = ASSUMED },
  ["moe_modern/Tangram/Qwen3-30B-A3B half"] = { experts(QWEN, 4, 24), assumed = ASSUMED },
  ["moe_modern/Tangram/Qwen3-30B-A3B full"] = { experts(QWEN, 8, 48), assumed = ASSUMED },
}

--- Why a figure is not priced.
local function unpriced(row)
  if row.experiment == "planning" then return "planning time, not an iteration's" end
  if row.experiment == "gshard" then
    local bytes <const> = 16e9 * tonumber(row.model:match "([%d.]+)B$")
    return ("batch and GPUs are not stated; its 16 bytes a parameter, %.0f GB, %s 8 V100-16"):format(bytes / 1e9,
      bytes <= 8 * 16 * 2 ^ 30 and "fit" or "don't fit")
  end
  return "the plan is not stated"
end

--- "47 +- 25 %", "at most 50".
local function bar_text(figure)
  if figure.share then return ("±%.0f %%"):format(100 * figure.share) end
  return figure.most and ("≤ %g s"):format(figure.most) or figure.least and ("≥ %g s"):format(figure.least) or "no bar"
end

local function holds(figure, predicted, measured)
  if figure.share then return math.abs(predicted / measured - 1) <= figure.share end
  return predicted <= (figure.most or math.huge) and predicted >= (figure.least or 0)
end

--- Rows of a table of the paper's figures.
---@param list table[] rows of text by column: experiment, cluster, gpus, model, system, iter_time_s
---@return table[] rows of measured.rows, each with `predict` or `wrong`, and `bar`
function paper.rows(list)
  local result <const> = {}
  for i, row in ipairs(list) do
    local key <const> = row.experiment .. "/" .. row.system
    local figure <const> = FIGURES[key] or FIGURES[key .. "/" .. row.model]
    result[i] = {
      id = ("paper/%s/%s"):format(key, row.model), source_key = "paper", model = row.model, gpu = row.gpus or row.cluster,
      iter_time_s = row.experiment ~= "planning" and tonumber(row.iter_time_s) or nil, wrong = not figure and unpriced(row) or nil,
      predict = figure and figure[1], bar = figure and bar_text(figure), assumed = { figure and figure.assumed },
      holds = figure and function(predicted_s) return holds(figure, predicted_s, tonumber(row.iter_time_s)) end,
    }
  end
  return result
end

return paper
