--- Plans as runtimes take them: a folder of configuration, launch scripts and a README.
---
--- An exporter is a file of this folder that returns
---   { name, summary, versions = { first is the default, … }, options = fields (schema.lua) of what --set may give,
---     rules = { what its runtime asks of plans, see output.rules },
---     prepare = function(plan, options, where) -> plan, notes        -- optional: a plan that it can run in its place
---     check = function(launch, options) -> findings { code, text, fatal },
---     files = function(launch, options) -> { { name, text, executable }, … },
---     start = function(launch, options) -> markdown: how to launch it,
---     vocab_multiple = function(launch) -> integer,                  -- optional: what it pads the vocabulary to, over tp
---     slurm = "nodes" | "head" }                                     -- optional: a Slurm job may run it: node.sh RANK on
---                                                                    -- each node, or launch.sh with HOSTFILE on the first
--- where launch is that of output/launch.lua, and options.version is one of versions.
local core <const> = require "tangram.core"
local files <const> = require "tangram.files"
local launches <const> = require "tangram.output.launch"
local readme <const> = require "tangram.output.readme"
local schema <const> = require "tangram.schema"

local output <const> = {}

--- The exporters, in the order of lists. An exporter's name is its module's, with - for _.
output.names = { "deepspeed", "flagscale", "galvatron", "megatron", "primus", "sailor-json", "slurm", "torchtitan" }

local function flag(doc) return { type = "boolean", doc = doc } end

--- What a runtime may ask of plans. A search with --target keeps to them, and a runtime's check refuses what breaks them.
output.rules = {
  equal_gpus = flag "the same number of GPUs in every stage (G1)",
  one_tp = flag "one tp, and one use of sequence parallelism (G2)", one_dp = flag "one dp (G2)", one_cp = flag "one cp (G2)",
  cp_one = flag "cp is 1 (C1)",
  one_ep = flag "one ep and one etp, which divide every stage's GPUs; stages without experts suit any (E3)",
  ep_all_or_none = flag "ep is 1 in all stages or in none (E1)",
  one_zero = flag "one ZeRO level; stages with dp * cp = 1 suit any (Z2)",
  max_zero = { type = "integer", min = 0, max = 3, doc = "the largest ZeRO level (Z1)" },
  one_recompute = flag "one recompute setting: the first n layers of each stage, all, none, or the attention core (R1)",
  selective_all_or_none = flag "the attention core alone is recomputed in all stages or in none (R2)",
  selective_never = flag "the attention core alone is never recomputed (R3)",
  whole_recompute = flag "all layers are recomputed, or none is, in every stage alike (R3)",
  no_zero_one = flag "no ZeRO level 1 (Z3)", one_low_zero = flag "stages below ZeRO 3 share one level (Z2)",
  sp_with_tp = flag "sequence parallelism wherever tp is above 1 (S3)", ep_one = flag "ep and etp are 1 (E5)",
  kv_divide = flag "tp divides the key-value heads (H2)",
  min_layers = { type = "integer", min = 0, doc = "transformer layers of every stage (L2)" },
  whole_layers = flag "no cuts inside a layer",
  tied_tp_equal = flag "tied embeddings: tp of the first and the last stage are equal (T1)",
  tied_dp_divides = flag "tied embeddings with ZeRO: dp of the first or of the last stage divides the other's (T2)",
  tied_one_stage = flag "tied embeddings: one stage for the whole model (T4)",
  no_fp16 = flag "16-bit training is bf16 (D3)", no_fp8 = flag "no training in fp8 (D3)",
  one_attention = flag "one attention implementation, which every GPU has (D2)",
  waits_for_transfers = flag "stages wait for the transfers between them: p2p is blocking unless asked otherwise (P2)",
  one_vendor = flag "GPUs of one vendor (V1)",
  equal_hosts = flag "the same number of processes on every node (N1)",
  no_split_hosts = flag "a node's stages are neighbours in the pipeline (P1)",
  no_fsep = flag "experts are not fully sharded (E4)", no_offload = flag "nothing is kept in the host's memory (O1)",
}

local function load(name)
  local exporter <const> = require("tangram.output." .. name:gsub("%-", "_"))
  schema.check(exporter.rules, output.rules, name .. ": rules")
  return exporter
end

--- The exporters.
---@return table[]
function output.list()
  local list <const> = {}
  for i, name in ipairs(output.names) do list[i] = load(name) end
  return list
end

--- The exporter of a name; raises one line if there is none.
---@param name string
---@return table
function output.find(name)
  for _, known in ipairs(output.names) do
    if known == name then return load(name) end
  end
  schema.fail("runtime", name, "one of " .. table.concat(output.names, ", "), core.nearest(name, output.names))
end

--- Options checked against an exporter's, defaults filled in, and `version`. Raises one line.
---@param exporter table
---@param options table?
---@param version string? default: the exporter's first
---@return table
function output.options(exporter, options, version)
  local checked <const> = schema.check(options or {}, exporter.options, exporter.name .. ": --set")
  checked.version = version or exporter.versions[1]
  for _, known in ipairs(exporter.versions) do
    if known == checked.version then return checked end
  end
  schema.fail(exporter.name .. ": --runtime-version", checked.version, "one of " .. table.concat(exporter.versions, ", "),
    core.nearest(checked.version, exporter.versions))
end

--- What an exporter makes of a plan. Raises one line for wrong options and plans that are no plan.
---@param plan table tangram.plan/1 that core.plan_check accepts
---@param name string of the exporter
---@param options { version: string?, set: table?, where: string? }?
---@return table result { files = { { name, text, executable } } or nil if it can't run there, findings = { { code, text,
--- fatal } }, notes, launch }
function output.render(plan, name, options)
  options = options or {}
  local where <const> = options.where or "plan"
  local exporter <const> = output.find(name)
  local set <const> = output.options(exporter, options.set, options.version)
  local notes = {}
  if exporter.prepare then plan, notes = exporter.prepare(plan, set, where) end
  local launch <const> = launches.of(plan, where)
  local result <const> = { findings = exporter.check(launch, set), notes = notes, launch = launch }
  for _, finding in ipairs(result.findings) do
    if finding.fatal then return result end
  end
  result.files = exporter.files(launch, set)
  table.insert(result.files, { name = "README.md", text = readme.of(exporter, launch, set, result) })
  return result
end

local function quoted(path) return "'" .. path:gsub("'", "'\\''") .. "'" end

local function shell(command, ...)
  local words <const> = { command, "--" }
  for _, path in ipairs { ... } do words[#words + 1] = quoted(path) end
  return os.execute(table.concat(words, " ") .. " 2>/dev/null")
end

local function write_all(folder, made)
  local executable <const> = {}
  for _, file in ipairs(made) do
    local path <const> = folder .. "/" .. file.name
    local inner <const> = file.name:match "^(.*)/"
    if inner then shell("mkdir -p", folder .. "/" .. inner) end
    files.write(path, file.text)
    if file.executable then executable[#executable + 1] = path end
  end
  if #executable > 0 then shell("chmod +x", table.unpack(executable)) end
end

--- Writes the files into a new folder: a temporary one beside it, renamed when complete. Raises one line.
---@param folder string
---@param made table[] files of output.render
function output.write_folder(folder, made)
  folder = folder:gsub("(.)/+$", "%1")
  shell("mkdir -p", folder:match "^(.+)/" or ".")
  local pipe <close> = io.popen(("mktemp -d -- %s 2>/dev/null"):format(quoted(folder .. ".XXXXXX")))
  local temporary <const> = pipe:read "l"
  if not temporary then error(folder .. ": can't make it, expected a place for a new folder", 0) end
  shell("chmod +rwx", temporary) -- as mkdir would
  local ok <const>, why <const> = pcall(write_all, temporary, made)
  if ok and os.rename(temporary, folder) then return end
  shell("rm -rf", temporary)
  error(ok and folder .. ": is there already, expected a new or an empty folder" or why, 0)
end

--- Writes a plan's export into a new folder. Raises one line for what is wrong with input or folder.
---@param plan table tangram.plan/1 that core.plan_check accepts
---@param name string of the exporter
---@param folder string
---@param options { version: string?, set: table?, where: string? }?
---@return table result of output.render; nothing is written where its files are nil
function output.write(plan, name, folder, options)
  local result <const> = output.render(plan, name, options)
  if result.files then output.write_folder(folder, result.files) end
  return result
end

return output
