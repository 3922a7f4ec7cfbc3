--- `tangram cluster show`: a cluster's description with the catalogue's figures filled in; `import`: made from what tools print.
local cluster <const> = require "tangram.cluster"
local cluster_json <const> = require "tangram.input.cluster_json"
local files <const> = require "tangram.files"
local import <const> = require "tangram.cli.cluster_import"
local options <const> = require "tangram.cli.options"
local sorted_keys <const> = require "tangram.sorted_keys"
local units <const> = require "tangram.units"

local function make_parser()
  local parser <const> = options.parser("tangram cluster", "Make a cluster file, or show a cluster as the planner sees it.",
    "tangram cluster show cluster.json")
  local show <const> = options.command(parser, "show", "print nodes, links and where the figures come from",
    "tangram cluster show cluster.json\n"
    .. "tangram cluster show cluster.json --json -     (a full tangram.cluster/1, every figure written out)")
  show:argument("file", "a tangram.cluster/1 file, or a Lua file that returns such a table")
  show:option("--json", "write the full description as JSON to FILE, - for standard output"):argname "FILE"
  import.define(parser)
  return parser
end

local function rate_text(rate)
  if type(rate) ~= "table" then return units.format_rate(rate) end
  local sizes <const>, words <const> = {}, {}
  for size in pairs(rate) do sizes[#sizes + 1] = math.tointeger(tonumber(size)) end
  table.sort(sizes)
  for i, size in ipairs(sizes) do words[i] = ("%s (%d)"):format(units.format_rate(rate[tostring(size)]), size) end
  return table.concat(words, ", ")
end

local function by_source(part) return part.source and (" (by %s)"):format(part.source) or "" end

local function print_node(description, node)
  for _, kind in ipairs(cluster.kinds_of(node)) do
    local record <const> = cluster.record_of(description, node, kind)
    print(("  %s: %d x %s, each %s, %s; in the node %s, %s%s"):format(node.name, kind.count, kind.gpu,
      units.format_flops(cluster.compute_flops(record)), units.format_bytes(record.memory_bytes),
      rate_text(node.intra_bytes_per_s), units.format_time(node.intra_latency_s), by_source(node)))
  end
end

local function print_description(description)
  print(("%d node%s"):format(#description.nodes, #description.nodes == 1 and "" or "s"))
  for _, node in ipairs(description.nodes) do print_node(description, node) end
  local network <const> = description.network
  if network.default or network.links then print "links (rates by concurrent flows)" end
  for _, link in ipairs(network.links or {}) do
    print(("  %s - %s: %s, %s%s"):format(link.between[1], link.between[2], rate_text(link.bytes_per_s),
      units.format_time(link.latency_s), by_source(link)))
  end
  if network.default then
    print(("  all %s: %s, %s%s"):format(network.links and "others" or "pairs", rate_text(network.default.bytes_per_s),
      units.format_time(network.default.latency_s), by_source(network.default)))
  end
  print "GPU types"
  for _, name in ipairs(sorted_keys(description.gpus)) do
    local record <const> = description.gpus[name]
    local formats <const> = {}
    for _, precision in ipairs { "bf16", "fp16", "fp8" } do
      local flops <const> = record[precision .. "_flops"]
      formats[#formats + 1] = flops and ("%s %s"):format(precision, units.format_flops(flops))
    end
    print(("  %s (%s): %s; %s"):format(name, record.arch or "?", table.concat(formats, ", "), record.source or "figures given"))
  end
end

local function show(args)
  local piped <const> = options.outputs(args, "json")
  local description <const> = cluster_json.read(args.file)
  local built <const>, why <const> = cluster.build(description) -- the engine's checks: links missing or given twice
  if not built then error(args.file .. ": " .. why, 0) end
  if args.json then files.write(args.json, cluster.to_json(description)) end
  if not piped then print_description(description) end
end

local commands <const> = { show = show, import = import.run }

return options.entry("tangram cluster",
  "make a cluster file from what tools print (import), or show one with the catalogue's figures filled in",
  function(words)
    local args <const> = options.parse(make_parser(), words)
    commands[args.command](args)
  end)
