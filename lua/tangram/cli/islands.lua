--- `tangram islands`: the fewest islands of a cluster, and why nodes are apart.
local cluster_json <const> = require "tangram.input.cluster_json"
local core <const> = require "tangram.core"
local files <const> = require "tangram.files"
local islands <const> = require "tangram.islands"
local options <const> = require "tangram.cli.options"
local units <const> = require "tangram.units"

local KEYS <const> = { "islands", "name", "nodes", "gpus", "gpu", "proved_fewest", "apart", "constraint", "why" }
local SHOWN <const> = 40 -- pairs; a cluster of 40 unlike nodes has 780

local function tolerance(text)
  local list <const>, read <const> = {}, options.number("--tolerance", 0)
  for word in (text .. ","):gmatch "([^,]*)," do list[#list + 1] = read(word) end
  if #list == 3 then return list end
  return nil, ("--tolerance: got '%s', expected three numbers of at least 0, EC,EM,EI"):format(text)
end

local function make_parser()
  local parser <const> = options.parser("tangram islands", "Group a cluster's nodes into the fewest islands of alike GPUs.",
    "tangram islands --cluster cluster.json --tolerance 0.1,0.1,0.2 --json -")
  parser:option("--cluster", "a tangram.cluster/1 file, or a Lua file that returns such a table"):argname "FILE":count(1)
  parser:option("--tolerance", "how far compute, memory and intra-node rate may differ in an island"):argname "EC,EM,EI"
    :convert(tolerance):default "0.1,0.1,0.2"
  parser:option("--pin", "set an island: names of nodes"):argname "A,B,…":convert(options.list):count "*"
  parser:option("--cut-nodes", "cut nodes of more than N GPUs, a multiple of N, into parts of N"):argname "N"
    :convert(options.whole("--cut-nodes", 1))
  parser:option("--split-islands", "split islands of more than N nodes, a multiple of N, into parts of N"):argname "N"
    :convert(options.whole("--split-islands", 1))
  parser:flag("--merged", "the merged partition: as if the tolerances were infinite")
  parser:option("--json", "write the result as JSON to FILE, - for standard output"):argname "FILE"
  return parser
end

local function rate_text(steps)
  local words <const> = {}
  for i, step in ipairs(steps) do
    words[i] = units.format_rate(step[2]) .. (#steps > 1 and (" (%d)"):format(step[1]) or "")
  end
  return table.concat(words, ", ")
end

local function print_islands(found)
  print(("%d island%s%s"):format(#found.islands, #found.islands == 1 and "" or "s",
    found.proved_fewest and "" or " (not proved fewest: too many unlike nodes)"))
  for _, one in ipairs(found.islands) do
    print(("  %s: %d GPUs, %d node%s of %d%s%s"):format(one.name, one.gpus, one.node_count, one.node_count == 1 and "" or "s",
      one.gpus_per_node, one.merged and ", merged" or "", one.pinned and ", pinned" or ""))
    print(("    each GPU %s, %s; in a node %s%s"):format(units.format_flops(one.compute_flops),
      units.format_bytes(one.memory_bytes), rate_text(one.intra),
      one.inter and "; between nodes " .. rate_text(one.inter.rates) or ""))
    print("    " .. table.concat(one.nodes, " "))
  end
end

--- One line for each pair of islands and each different reason, with the first pair of nodes that it holds for.
local function print_apart(found)
  local island_of <const>, seen <const>, shown = {}, {}, 0
  for _, one in ipairs(found.islands) do
    for _, node in ipairs(one.nodes) do island_of[node] = one.name end
  end
  if found.apart[1] then print "apart, by constraint (1: node size, compute, memory; 2: intra-node rate; 3: links)" end
  for _, pair in ipairs(found.apart) do
    local a <const>, b <const> = pair.nodes[1], pair.nodes[2]
    local constraint <const> = pair.constraint == core.null and "-" or pair.constraint
    local key <const> = ("%s\0%s\0%s"):format(island_of[a], island_of[b], constraint)
    if not seen[key] and shown == SHOWN then
      print "  … (all pairs: --json -)"
      return
    elseif not seen[key] then
      seen[key], shown = true, shown + 1
      print(("  %s  %s | %s: %s"):format(constraint, a, b, pair.why))
    end
  end
end

local function to_file(found)
  local list <const> = core.array {}
  for i, one in ipairs(found.islands) do
    list[i] = { name = one.name, nodes = core.array(one.nodes), gpus = one.gpus, gpu = one.gpu }
  end
  return core.json_encode({ islands = list, proved_fewest = found.proved_fewest, apart = found.apart }, KEYS)
end

return options.entry("tangram islands", "group a cluster into the fewest islands of alike GPUs", function(words)
  local args <const> = options.parse(make_parser(), words)
  local piped <const> = options.outputs(args, "json")
  local found <const> = islands.group(cluster_json.read(args.cluster), { tolerance = args.tolerance, islands = args.pin,
    cut_nodes = args.cut_nodes, split_islands = args.split_islands, merged = args.merged or nil, apart = true }, args.cluster)
  for _, warning in ipairs(found.warnings) do io.stderr:write("tangram islands: warning: ", warning, "\n") end
  if args.json then files.write(args.json, to_file(found)) end
  if not piped then
    print_islands(found)
    print_apart(found)
  end
end)
