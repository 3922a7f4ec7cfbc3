--- Composition figures: build/tangram tests/bench/compose.lua [--seeds N] [--svg FILE] [--no-callgrind]
--- Times are processor seconds of one thread, median over seeds, best of some repeats each, gap 0.01 %; instructions are
--- those of tg_compose alone, seed 1. How time grows is plotted to build/compose.svg.
local core <const> = require "tangram.core"

local options <const> = { seeds = 5, svg = "build/compose.svg", callgrind = true }
do
  local i = 1
  while arg[i] do
    local name <const> = arg[i]:match "^%-%-(.+)$"
    if name == "no-callgrind" then
      options.callgrind = false
    elseif (name == "seeds" or name == "svg") and arg[i + 1] then
      i = i + 1
      options[name] = name == "seeds" and assert(math.tointeger(arg[i]), "--seeds: expected a number") or arg[i]
    else
      error("unknown option " .. arg[i], 0)
    end
    i = i + 1
  end
end

local function median(list)
  table.sort(list)
  return list[(#list + 1) // 2]
end

local function peak_mib()
  local file <close> = io.open("/proc/self/status")
  return file and (tonumber(file:read "a":match "VmHWM:%s*(%d+)") or 0) / 1024 or 0
end

--- A generated instance, with other than 64 microbatches as text.
local function instance_of(seed, size)
  if not size.microbatches then
    return { seed = seed, atoms = size[1], islands = size[2], variants = size[3], kinds = size[4] }
  end
  local text <const> = core.generate(seed, size[1], size[2], size[3], size[4])
  local changed <const>, count <const> = text:gsub('"microbatches":64', '"microbatches":' .. size.microbatches)
  assert(count == 1)
  return changed
end

--- Median figures over seeds of one size.
local function measure(size)
  local seconds <const>, labels <const>, simulated <const>, proved = {}, {}, {}, 0
  for seed = 1, options.seeds do
    local instance <const> = instance_of(seed, size)
    local best, spent, runs = math.huge, 0, 0
    local result
    while runs < 2 or spent < 0.3 and runs < 20 do
      result = assert(core.compose(instance, { gap = 1e-4, time_limit_s = 30 }))
      best, spent, runs = math.min(best, result.cpu_s), spent + result.cpu_s, runs + 1
    end
    proved = proved + (result.proved and 1 or 0)
    seconds[seed], labels[seed], simulated[seed] = best, result.labels, result.simulated
  end
  return median(seconds), median(labels), median(simulated), proved
end

--- Instructions of one composition, seed 1.
local function instructions(size)
  if not options.callgrind then return "-" end
  local line <const> = "valgrind --tool=callgrind --toggle-collect=tg_compose --callgrind-out-file=/dev/null " ..
    "%s compose --generate 1,%d,%d,%d,%d --gap 1e-4 2>&1"
  local pipe <close> = assert(io.popen(line:format(arg[-1] or "build/tangram", size[1], size[2], size[3], size[4] or size[2])))
  local count <const> = tonumber(pipe:read "a":match "Collected : (%d+)")
  return count and ("%.1f M"):format(count / 1e6) or "no valgrind"
end

local function row(name, ...) print(("| %-43s |" .. (" %12s |"):rep(select("#", ...))):format(name, ...)) end
local function ms(seconds) return ("%.2f ms"):format(1e3 * seconds) end

print "Figures (atoms, islands, plans a pair)"
row("", "wanted", "median", "labels", "simulated", "proved", "peak MiB", "instructions")
for _, size in ipairs {
  { 42, 4, 4, wanted = "1 ms" }, { 128, 6, 5, wanted = "25 ms" }, { 128, 8, 5, wanted = "150 ms" },
  { 128, 10, 5, wanted = "600 ms" }, { 128, 16, 5, 4, wanted = "1500 ms" },
} do
  local seconds <const>, labels <const>, simulated <const>, proved <const> = measure(size)
  row(("%d, %d%s, %d"):format(size[1], size[2], size[4] and " of 4 kinds" or "", size[3]), size.wanted, ms(seconds), labels, simulated,
    proved .. "/" .. options.seeds, ("%.0f"):format(peak_mib()), instructions(size))
end

--- An instance of 42 atoms, 6 islands and 3 plans a pair, changed.
local function hard(name, change, more, kinds)
  local instance <const> = core.json_decode(core.generate(1, 42, 6, 3, kinds))
  change(instance)
  local own <const> = { gap = 1e-4, time_limit_s = 10 }
  for k, v in pairs(more or {}) do own[k] = v end
  local result <const> = assert(core.compose(core.json_encode(instance), own))
  row(name, ms(result.cpu_s), result.proved and "proved" or ("gap %.2f %%"):format(100 * (result.gap or 1)), result.labels,
    result.simulated)
end

local function slower_links(factor)
  return function(instance)
    for _, links in ipairs(instance.links) do
      for _, link in ipairs(links) do
        if link ~= core.null then link.bytes_per_s = link.bytes_per_s / factor end
      end
    end
  end
end

local function each_stage(change)
  return function(instance)
    for _, plan in ipairs(instance.plans) do
      for _, stage in ipairs(plan.stages) do change(stage) end
    end
  end
end

print "\nHard cases (42 atoms, 6 islands, 3 plans a pair; time to proof, or gap after 10 s)"
row("", "time", "", "labels", "simulated")
hard("as generated", function() end)
hard("links about as slow as a stage", slower_links(60))
hard("links twice as slow", slower_links(120))
hard("links five times as slow", slower_links(300))
for _, microbatches in ipairs { 1, 2, 4, 8, 16 } do
  hard(microbatches .. " microbatches", function(instance) instance.microbatches = microbatches end)
end
hard("all islands alike", function() end, nil, 1)
hard("all times equal, gap 0", each_stage(function(s) s.forward_s, s.backward_s, s.sync_s = 1, 2, 0 end), { gap = 0 })
hard("syncs a thousand times as long", each_stage(function(s) s.sync_s = 1000 * s.sync_s end))
hard("blocking", function() end, { p2p = "blocking" })
hard("deeper warm-ups", function() end, { warmup = "auto" })
hard("deeper warm-ups, slow links", slower_links(30), { warmup = "auto" })
hard("paper's objective, gap 0", function() end, { objective = "paper", gap = 0 })
hard("gap 0, the best 20", function() end, { gap = 0, top = 20 })

print "\nMany unlike islands (42 atoms, 4 plans a pair, seed 1): what is there after an effort of 500,000"
row("", "time", "", "s an iteration")
for _, islands in ipairs { 10, 12, 14, 20, 30 } do
  local result <const> = assert(core.compose({ seed = 1, atoms = 42, islands = islands, variants = 4 },
    { gap = 1e-4, effort = 500000 }))
  row(islands .. " islands", ms(result.cpu_s), result.proved and "proved" or ("gap %.1f %%"):format(100 * (result.gap or 1)),
    result.time_s and ("%.2f"):format(result.time_s) or "none")
end

print "\nGrowth (median ms)"
local curves <const> = {}
local function growth(name, values, size_of)
  local cells <const>, points <const> = {}, {}
  for i, value in ipairs(values) do
    points[i] = { value, 1e3 * (measure(size_of(value))) }
    cells[i] = ("%d: %.2f"):format(value, points[i][2])
  end
  curves[#curves + 1] = { name = name, points = points }
  row(name, table.unpack(cells))
end
growth("atoms (6 islands, 5 plans)", { 16, 32, 64, 96, 128 }, function(n) return { n, 6, 5 } end)
growth("islands (64 atoms, 5 plans)", { 2, 4, 6, 8, 10 }, function(n) return { 64, n, 5 } end)
growth("plans a pair (64 atoms, 6 islands)", { 1, 2, 4, 8, 16 }, function(n) return { 64, 6, n } end)
growth("islands of 4 kinds (64 atoms, 5 plans)", { 4, 8, 12, 16 }, function(n) return { 64, n, 5, 4 } end)
growth("microbatches (64 atoms, 6 islands, 5 plans)", { 1, 4, 16, 64, 256 }, function(n) return { 64, 6, 5, microbatches = n } end)

--- Milliseconds over size, both logarithmic.
local function plot(path)
  local width <const>, height <const>, left <const>, bottom <const> = 640, 400, 60, 40
  local out <const> = {
    ('<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="sans-serif" font-size="12">'):format(width, height),
  }
  local function add(...) out[#out + 1] = string.format(...) end
  local function x_of(n) return left + (width - left - 20) * math.log(n, 2) / 8 end
  local function y_of(t) return height - bottom - (height - bottom - 20) * (math.log(math.max(t, 0.01), 10) + 2) / 6 end
  for power = -2, 4 do
    local y <const> = y_of(10.0 ^ power)
    add('<line x1="%d" x2="%d" y1="%.1f" y2="%.1f" stroke="#ddd"/>', left, width - 20, y, y)
    add('<text x="%d" y="%.1f" text-anchor="end">%g ms</text>', left - 6, y + 4, 10.0 ^ power)
  end
  for power = 0, 8 do add('<text x="%.1f" y="%d" text-anchor="middle">%d</text>', x_of(1 << power), height - bottom + 18, 1 << power) end
  local colours <const> = { "#1b6ca8", "#c0392b", "#27864a", "#8e44ad", "#b9770e" }
  for i, curve in ipairs(curves) do
    local points <const> = {}
    for j, p in ipairs(curve.points) do points[j] = ("%.1f,%.1f"):format(x_of(p[1]), y_of(p[2])) end
    add('<polyline points="%s" fill="none" stroke="%s" stroke-width="2"/>', table.concat(points, " "), colours[i])
    add('<text x="%d" y="%d" fill="%s">%s</text>', left + 12, 14 + 16 * i, colours[i], curve.name)
  end
  out[#out + 1] = "</svg>\n"
  local file <close> = assert(io.open(path, "w"))
  file:write(table.concat(out, "\n"))
end
plot(options.svg)
print("\nplotted to " .. options.svg)
