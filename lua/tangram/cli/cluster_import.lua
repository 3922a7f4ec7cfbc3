--- `tangram cluster import`: what tools, schedulers and launchers say about a cluster, as one tangram.cluster/1.
local cluster <const> = require "tangram.cluster"
local files <const> = require "tangram.files"
local hostlist <const> = require "tangram.input.hostlist"
local join <const> = require "tangram.input.join"
local kinds <const> = require "tangram.input.kinds"
local options <const> = require "tangram.cli.options"

local LARGEST <const> = 32 << 20 -- bytes of a file
local PRINTED <const> = "what a tool prints about one cluster"

--- The kinds of files, a line each, for the help.
local function kinds_text()
  local lines <const> = {}
  for _, module in ipairs(kinds) do
    local reader <const> = kinds.reader(module)
    lines[#lines + 1] = ("  %-17s %s: %s"):format(reader.kind, reader.summary, reader.command)
  end
  return "Kinds of files, and what makes them:\n" .. table.concat(lines, "\n")
end

local import <const> = {}

--- Adds the command to the parser of `tangram cluster`.
---@param parser table of argparse
function import.define(parser)
  local command <const> = options.command(parser, "import", "make a cluster file from what tools and schedulers print",
    "tangram cluster import --node a1 topo.txt gpus.csv --node 'v[1-2]' v.txt --bytes-per-s '12 GB/s' -o cluster.json\n"
    .. "tangram cluster import nodes.txt --gpu-type a100=a100-sxm4-80 --bytes-per-s ib-hdr -o cluster.json", kinds_text())
  command:argument("files", "files that name their nodes, or of the one node"):args "*"
  command:option("--node", "the files that follow NAME are of this node; NAME may be a list of alike ones, 'a[1-4]'"):args "2+"
    :count "*":argname { "NAME", "FILE", "FILE" }
  command:option("--from", "kind of all files; guessed for each when left out"):argname "KIND"
  command:option("--gpu-type", "GPUs that files call LABEL (or those of node LABEL; * without a label) are of the catalogue's type KEY")
    :count "*":argname "LABEL=KEY"
  command:option("--gpus", "a cluster file whose 'gpus' describes types that the catalogue lacks"):argname "FILE"
  command:option("--bytes-per-s", "rate between nodes: '25 GB/s', ib-hdr, '{\"1\":2e9,\"4\":8e9}' by flows; leaf=RATE, spine=RATE, "
    .. "block=RATE by the topology; A,B=RATE between two; inside=RATE or NODE=RATE within nodes"):count "*":argname "[WHERE=]RATE"
  command:option("--include", "plan with these nodes whatever their state, e.g. 'cn[8-9]'"):count "*":argname "NODES"
  command:option("--only", "plan with these nodes alone, e.g. 'gpu[001-064]'"):count "*":argname "NODES"
  command:option("-o", "where the cluster goes, - for standard output"):hidden_name "--output":target "output":default "-"
    :argname "FILE"
  command:flag("--quiet", "no notes on standard error")
end

local function read_source(path, node, from)
  local facts <const>, why <const> = kinds.read(files.read(path, LARGEST, PRINTED), from)
  if not facts then error(("%s: %s"):format(path, why), 0) end
  return { path = path, facts = facts, node = node }
end

--- LABEL=KEY words as a table; the keys must be known.
local function gpu_types(words, own)
  local types <const> = {}
  for _, word in ipairs(words) do
    local label <const>, key <const> = word:match "^(.+)=([^=]+)$"
    if not label then error(("--gpu-type: got '%s', expected LABEL=KEY, e.g. a100=a100-sxm4-80"):format(word), 0) end
    if not own[key] then
      local entry <const>, why <const> = require("tangram.catalog").find_gpu(key)
      if not entry then error(("--gpu-type %s: %s"):format(word, why), 0) end
      types[label:lower()] = entry.key
    else
      types[label:lower()] = key
    end
  end
  return types
end

--- The GPU types of a cluster file, or of a table that has them alone.
local function own_types(path)
  if not path then return {} end
  local value <const> = files.table(path, "a cluster file")
  if type(value.gpus) ~= "table" then error(path .. ": gpus: missing, expected GPU types by name", 0) end
  return value.gpus
end

--- The nodes of an option's lists.
local function named_nodes(option, words)
  local names <const> = {}
  for _, word in ipairs(words) do
    local list <const>, why <const> = hostlist.expand(word)
    if not list then error(option .. " " .. why, 0) end
    table.move(list, 1, #list, #names + 1, names)
  end
  return names
end

--- Counts by type: "12 nodes, 60 GPUs: 32 x h100-sxm, 28 x t4".
local function summary(description)
  local order <const>, count_of <const> = {}, {}
  local sum = 0
  for _, node in ipairs(description.nodes) do
    for _, kind in ipairs(cluster.kinds_of(node)) do
      if not count_of[kind.gpu] then order[#order + 1] = kind.gpu end
      count_of[kind.gpu] = (count_of[kind.gpu] or 0) + kind.count
      sum = sum + kind.count
    end
  end
  local words <const> = {}
  for i, gpu in ipairs(order) do words[i] = ("%d x %s"):format(count_of[gpu], gpu) end
  return ("%d node%s, %d GPUs: %s"):format(#description.nodes, #description.nodes == 1 and "" or "s", sum, table.concat(words, ", "))
end

--- Runs the command; raises one line for bad input.
---@param args table of argparse
function import.run(args)
  options.outputs(args, "output")
  local sources <const> = {}
  for _, path in ipairs(args.files) do sources[#sources + 1] = read_source(path, nil, args.from) end
  for _, words in ipairs(args.node) do
    for i = 2, #words do sources[#sources + 1] = read_source(words[i], words[1], args.from) end
  end
  if #sources == 0 then error("no file, expected some, e.g. of 'nvidia-smi topo -m'; see --help", 0) end
  local own <const> = own_types(args.gpus)
  local description <const>, notes <const> = join.cluster(sources, { gpu_types = gpu_types(args.gpu_type, own), own = own,
    bytes_per_s = args.bytes_per_s, keep = named_nodes("--include", args.include),
    only = #args.only > 0 and named_nodes("--only", args.only) or nil })
  if not description then error(notes, 0) end
  local built <const>, why <const> = cluster.build(description)
  if not built then error(why, 0) end
  if not args.quiet then
    for _, note in ipairs(notes) do io.stderr:write("note: ", note, "\n") end
    io.stderr:write(summary(description), "\n")
  end
  files.write(args.output, cluster.to_json(description))
end

return import
