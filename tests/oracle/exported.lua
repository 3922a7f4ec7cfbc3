--- Exports to Galvatron, DeepSpeed, torchtitan, Primus and Sailor read back by the rules of those runtimes, into the shape of
--- oracle/placed.lua. Nothing of the exporters is used.
local core <const> = require "tangram.core"
local yaml <const> = require "tests.oracle.yaml"

local exported <const> = {}

--- Stages of `each` ranks in a row, with layers by stage.
local function in_a_row(processes, layers, degrees_of)
  local count <const> = #layers
  assert(processes.count % count == 0, "stages of equal size")
  local each <const>, stages <const>, layer = processes.count // count, {}, 0
  for s = 1, count do
    local gpus <const> = {}
    for r = (s - 1) * each, s * each - 1 do gpus[#gpus + 1] = ("%s:%d"):format(processes[r].host, processes[r].device) end
    local tp <const>, cp <const> = degrees_of(layer)
    assert(each % (tp * cp) == 0)
    stages[s] = { first = layer, last = layer + layers[s], embedding = s == 1, head = s == count, tp = tp, cp = cp, dp = each // tp // cp,
      gpus = gpus }
    layer = layer + layers[s]
  end
  return stages, layer
end
exported.in_a_row = in_a_row

local function numbers(text)
  local list <const> = {}
  for word in text:gmatch "[^,]+" do list[#list + 1] = assert(math.tointeger(tonumber(word))) end
  return list
end

--- Stages, and by layer { zero, recompute, ep, etp }, with the runtime's own checks.
---@param text string galvatron_config.json
---@param processes table of scripts.read or scripts.processes
function exported.galvatron(text, processes)
  local config <const> = core.json_decode(text)
  local division <const>, lists <const> = numbers(config.pp_division), {}
  assert(#division == config.pp_deg)
  for name in text:gmatch '"([%w_]+)"%s*:%s*"[%d,]+"' do lists[name] = numbers(config[name]) end
  local stages <const>, count <const> = in_a_row(processes, division, function(layer)
    return lists.tp_sizes_enc[layer + 1], lists.cp_sizes_enc and lists.cp_sizes_enc[layer + 1] or 1
  end)
  local world <const>, least_tp, least_cp = processes.count, math.huge, math.huge
  for layer = 1, count do
    for name, list in pairs(lists) do assert(name == "pp_division" or #list == count, name) end
    local tp <const> = lists.tp_sizes_enc[layer]
    assert(tp >= 1 and world // config.pp_deg % tp == 0)
    assert(lists.tp_consecutive_flags[layer] == 1 and lists.use_sp[layer] == 0)
    least_tp, least_cp = math.min(least_tp, tp), math.min(least_cp, lists.cp_sizes_enc and lists.cp_sizes_enc[layer] or 1)
  end
  least_tp, least_cp = math.min(least_tp, config.vtp), math.min(least_cp, config.vcp or 1)
  assert(config.global_bsz % (world // config.pp_deg // least_tp // least_cp) == 0)
  assert(config.vocab_sdp == config.embed_sdp and config.pipeline_type == "pipedream_flush")
  local layers <const> = {}
  for layer = 1, count do
    layers[layer] = { lists.dp_types_enc[layer] == 1 and 3 or config.default_dp_type == "zero2" and 2 or 0, lists.checkpoint[layer],
      lists.ep_sizes_enc and lists.ep_sizes_enc[layer] or 1, lists.tp_of_ep_sizes_enc and lists.tp_of_ep_sizes_enc[layer] or 1 }
  end
  return stages, layers, config
end

--- Ranks of DeepSpeed's launchers: hosts as in the hostfile, of each the GPUs that --include keeps, ascending.
---@param hostfile string
---@param include string "a1@v1:0,1"
---@return table processes
function exported.hostfile(hostfile, include)
  local kept <const>, processes <const>, rank = {}, {}, 0
  for word in include:gmatch "[^@]+" do
    local host <const>, list <const> = word:match "^([^:]+):?(.*)$"
    kept[host] = numbers(list)
    table.sort(kept[host])
  end
  local seen <const> = {}
  for line in hostfile:gmatch "[^\n]+" do
    local host <const>, slots <const> = line:match "^(%S+)%s+slots=(%d+)$"
    assert(host and not seen[host], line)
    seen[host] = true
    local list <const> = kept[host] or {}
    for i = 1, kept[host] and (#list > 0 and #list or tonumber(slots)) or 0 do
      assert((list[i] or i - 1) < tonumber(slots))
      processes[rank] = { host = host, device = list[i] or i - 1 }
      rank = rank + 1
    end
  end
  processes.count = rank
  return processes
end

--- Stages of the pipeline as the ranks of oracle/runtimes.py have them.
---@param ranks integer[][]
---@param processes table
---@param layers integer of the model; specs are embedding, layers, norm, head
function exported.deepspeed(ranks, processes, layers)
  assert(#ranks == processes.count)
  local stages <const>, order <const> = {}, {}
  for r, one in ipairs(ranks) do
    local stage = stages[one[1] + 1]
    if not stage then
      stage = { first = math.max(one[2] - 1, 0), last = math.min(one[3] - 1, layers), embedding = one[2] == 0,
        head = one[3] == layers + 3, cp = 1, gpus = {}, tp = 0, dp = 0, from = one[2], to = one[3] }
      stages[one[1] + 1] = stage
      order[#order + 1] = stage
    end
    assert(one[2] == stage.from and one[3] == stage.to)
    stage.tp, stage.dp = math.max(stage.tp, one[5] + 1), math.max(stage.dp, one[4] + 1)
    stage.gpus[#stage.gpus + 1] = ("%s:%d"):format(processes[r - 1].host, processes[r - 1].device)
  end
  local at = 0
  for _, stage in ipairs(order) do
    assert(stage.from == at)
    at, stage.from, stage.to = stage.to, nil, nil
  end
  assert(at == layers + 3)
  return stages
end

--- Stages from lists of module names: each module once.
---@param lists string[][]
---@param layers integer
---@return table[] { first, last, embedding, head }
function exported.modules(lists, layers)
  local stages <const>, seen <const>, next_layer = {}, {}, 0
  for s, list in ipairs(lists) do
    local stage <const> = { first = next_layer, embedding = false, head = false }
    for _, name in ipairs(list) do
      assert(not seen[name], name)
      seen[name] = true
      local layer <const> = tonumber(name:match "^layers%.(%d+)$")
      if layer then
        assert(layer == next_layer)
        next_layer = next_layer + 1
      end
      stage.embedding = stage.embedding or name == "tok_embeddings"
      stage.head = stage.head or name == "lm_head"
    end
    stage.last = next_layer
    stages[s] = stage
  end
  assert(next_layer == layers and seen.tok_embeddings and seen.norm and seen.lm_head)
  return stages
end

--- The dictionary SETTINGS of tangram_plan.py, without the names of sections.
function exported.settings(text)
  local settings <const> = {}
  for line in text:match "\nSETTINGS = {\n(.-)\n}":gmatch "[^\n]+" do
    local name <const>, value <const> = line:match '^    "%a+%.([%w_]+)": (.+),$'
    assert(settings[name] == nil, line)
    settings[name] = value:match '^"(.*)"$' or math.tointeger(assert(tonumber(value), line))
  end
  return settings
end

--- A TOML file of flat tables, as [section] = { key = value }.
function exported.toml(text)
  local sections <const>, section = {}, nil
  for line in text:gmatch "[^\n]+" do
    local name <const>, key <const>, value <const> = line:match "^%[([%w_]+)%]$", line:match "^([%w_]+) = (.*)$"
    if name then
      section = {}
      sections[name] = section
    elseif key then
      local list <const> = value:match "^%[(.*)%]$"
      if list then
        section[key] = {}
        for word in list:gmatch '"([^"]*)"' do table.insert(section[key], word) end
      else
        section[key] = value:match '^"(.*)"$' or assert(tonumber(value), line)
      end
    else
      assert(line:find "^#", line)
    end
  end
  return sections
end

--- The overrides of Primus, and the layers by stage that Megatron in it makes of them.
function exported.primus(text)
  local trainer <const> = yaml(text).modules.pre_trainer
  local o <const> = trainer.overrides
  assert(trainer.framework == "megatron")
  local layers <const>, sum = o.decoder_pipeline_manual_split_list or { o.num_layers }, 0
  assert(#layers == o.pipeline_model_parallel_size)
  for _, count in ipairs(layers) do sum = sum + count end
  assert(sum == o.num_layers)
  return o, layers
end

--- Sailor's plan and ranks: stages with ids of layers, replicas { gpu, count, tp } and ranks.
function exported.sailor(plan_text, ranks_text)
  local plan <const>, ranks <const> = core.json_decode(plan_text), core.json_decode(ranks_text)
  local pipeline <const>, stages <const>, id, rank = plan.pipeline_list[1], {}, 0, 0
  assert(#pipeline.layers_per_stage == pipeline.num_stages and #pipeline.tmp_per_stage == pipeline.num_stages
    and #ranks == pipeline.num_stages)
  for s = 1, pipeline.num_stages do
    local ids <const>, replicas <const> = pipeline.layers_per_stage[s], pipeline.tmp_per_stage[s]
    assert(#replicas == pipeline.dp[s] and #ranks[s] == #replicas)
    for _, one in ipairs(ids) do
      assert(one == id)
      id = id + 1
    end
    local gpus <const> = {}
    for r, replica in ipairs(replicas) do
      assert(replica[1][1][2] == replica[2] and #ranks[s][r] == replica[2])
      for _, one in ipairs(ranks[s][r]) do
        assert(one == rank)
        rank = rank + 1
      end
      gpus[r] = replica[1][1][1]
    end
    stages[s] = { first = ids[1], last = ids[#ids], gpus = gpus, tp = replicas[1][2], dp = #replicas }
  end
  return stages, plan, rank
end

return exported
