--- What the process adapter and a program say to each other: one JSON object a line each way. The schemas here check the
--- replies, and the manual (docs/process-adapter.md) is made from them.
local core <const> = require "tangram.core"
local schema <const> = require "tangram.schema"

local protocol <const> = {}

local function count(doc, more)
  local field <const> = { type = "integer", min = 1, max = 1000000000, doc = doc }
  for name, value in pairs(more or {}) do field[name] = value end
  return field
end

local function seconds(doc) return { type = "number", min = 0, required = true, doc = doc } end
local function bytes(doc) return { type = "number", min = 0, required = true, doc = doc } end

protocol.strategy = {
  dp = count("data parallelism", { required = true }), tp = count("tensor parallelism", { required = true }),
  cp = count "context parallelism", ep = count "expert parallelism", etp = count "tensor parallelism of experts",
  zero = { type = "integer", min = 0, max = 3, doc = "ZeRO stage" },
  sp = { type = "boolean", doc = "sequence parallelism" }, fsep = { type = "boolean", doc = "experts sharded over their replicas" },
  recompute = {
    any_of = {
      { type = "enum", values = { "none", "selective", "full" } },
      { type = "table", fields = {
        kind = { type = "enum", values = { "none", "selective", "full" }, required = true }, layers = { type = "integer", min = 0 },
      } },
    },
    doc = "of activations; a table: { kind, layers }, the latter with full alone",
  },
  offload = { type = "enum", values = { "none", "optimizer", "activations", "both" }, doc = "to the host's memory" },
}

protocol.stage = {
  atoms = count("atoms of the slice in the stage", { required = true }),
  gpus = count("GPUs in the stage: dp * tp * cp", { required = true }),
  strategy = { type = "table", fields = protocol.strategy, required = true, doc = "degrees of parallelism, see below" },
  forward_s = seconds "forward pass of one microbatch, with all traffic inside the stage",
  backward_s = seconds "backward pass",
  sync_s = seconds "what a step adds at its end: gradients reduced, weights updated",
  transfer_s = { type = "number", min = 0, doc = "sending to the next stage of the plan; left out: worked out from the links" },
  static_bytes = bytes "on its fullest GPU: weights, gradients, optimizer, buffers",
  inflight_bytes = bytes "more for each microbatch in flight",
  transient_bytes = bytes "more at the peak of one pass",
  parts = { type = "table", doc = "shares for reports: { memory = { NAME_bytes }, time = { NAME_s } }" },
}

protocol.candidate = {
  stages = { type = "list", min = 1, item = { type = "table", fields = protocol.stage }, required = true, doc = "front first" },
  idle = { type = "integer", min = 0, doc = "GPUs of the island left unused" },
}

--- A reply.
protocol.reply = {
  id = { type = "integer", required = true, doc = "the question's" },
  candidates = {
    type = "list", min = 1, max = 100000, doc = "partial plans, none of them worse than another in everything",
    item = { type = "table", fields = protocol.candidate },
  },
  why = { type = "string", doc = "in place of candidates: why there is no plan" },
}

--- A question, for the manual.
protocol.question = {
  op = { type = "enum", values = { "plan" }, doc = "a program that does not know one answers with why" },
  id = { type = "integer", doc = "to be said back" },
  slice = { type = "table", doc = "{ first, last, layers, has_embedding, has_head, signature, atoms }; atoms [first, last), from 0" },
  island = { type = "table", doc = "{ gpu, gpus, gpus_per_node, node_count, memory_bytes, compute_flops, device, intra, inter, … }" },
  training = { type = "table", doc = "{ global_batch, seq_len, precision, optimizer, … }" },
  model = { type = "table", doc = "{ hidden, layers, heads, ffn, vocab, … }" },
  microbatches = { type = "integer", doc = "of an iteration" },
  samples = { type = "integer", doc = "of a microbatch, over all dp replicas" },
  successors = { type = "integer", doc = "stages behind: stage k of s holds min(successors + s - k + 1, microbatches) in flight" },
  capacity_bytes = { type = "number", doc = "that one GPU may hold" },
  budget = { type = "table", doc = "{ seconds: until an answer is given up, share: the slice's part of the model's work }" },
  tied_link = { type = "table", doc = "{ latency_s, bytes_per_s } for tied embeddings, if the model has them" },
  target = { type = "table", doc = "what the runtime asks of each stage, if the plan has one for its target: { name, gpus, tp, … }; "
    .. "plans that break it are dropped" },
  options = { type = "table", doc = "the option `options` of the recipe, as it is" },
}

--- Plain data of a view: no methods.
local function data(value)
  if type(value) == "function" then return nil end
  if type(value) ~= "table" then return value end
  local copy <const> = {}
  for name, item in pairs(value) do copy[name] = data(item) end
  return #copy > 0 and core.array(copy) or copy
end

local function slice_of(slice)
  local atoms <const> = core.array {}
  for i = 1, #slice do atoms[i] = data(slice[i]) end
  return {
    first = slice.first - 1, last = slice.last, layers = slice.layers, has_embedding = slice.has_embedding,
    has_head = slice.has_head, signature = slice.signature, atoms = atoms,
  }
end

--- The line that asks for the plans of a slice on an island.
---@return string
function protocol.ask(id, slice, island, ctx)
  return (core.json_encode({
    op = "plan", id = id, slice = slice_of(slice), island = data(island), training = data(ctx.training), model = data(ctx.model),
    microbatches = ctx.microbatches, samples = ctx.samples, successors = ctx.successors, capacity_bytes = ctx.capacity_bytes,
    budget = data(ctx.budget), tied_link = data(ctx.tied_link), target = data(ctx.target), options = data(ctx.options.options),
  }):gsub("%s*\n%s*", " "))
end

--- Raises one line for a reply that is not right.
---@param line string
---@param id integer of the question
---@return table[]? plans as adapters return them
---@return string? why
function protocol.read(line, id)
  local reply <const>, wrong <const> = core.json_decode(line)
  if wrong or type(reply) ~= "table" then
    error(("wrote %s, expected a line of JSON%s"):format(schema.show(line), wrong and " (" .. wrong .. ")" or ""), 0)
  end
  local checked <const> = schema.check(reply, protocol.reply, "reply")
  if checked.id ~= id then error(("reply: id: got %d, expected the question's %d"):format(checked.id, id), 0) end
  if not checked.candidates then return nil, checked.why or "no reason given" end
  local plans <const> = {}
  for i, candidate in ipairs(checked.candidates) do
    plans[i] = { idle = candidate.idle }
    for s, stage in ipairs(candidate.stages) do plans[i][s] = stage end
  end
  return plans
end

--- The manual's tables.
---@return string
function protocol.document()
  local parts <const> = {}
  for _, part in ipairs { { "A question", protocol.question }, { "A reply", protocol.reply },
    { "A candidate", protocol.candidate },
    { "A candidate's stage", protocol.stage }, { "A stage's strategy", protocol.strategy } } do
    parts[#parts + 1] = ("## %s\n\n```text\n%s\n```\n"):format(part[1], schema.document(part[2]))
  end
  return table.concat(parts, "\n")
end

return protocol
