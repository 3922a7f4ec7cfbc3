--- Speed of the exact partition and of the split: `build/tangram tests/bench/partition.lua`. CPU seconds of one core: of
--- partitions the median of five seeds, of the rest that of five runs. Instructions are those of tg_partition_best alone, by
--- callgrind, which runs `partition.lua ATOMS DEVICES CAPACITY`: one partition, seed 1.
local core <const> = require "tangram.core"

local function median(run)
  local times <const> = {}
  for i = 1, 5 do
    local start <const> = os.clock()
    run()
    times[i] = os.clock() - start
  end
  table.sort(times)
  return times[3]
end

--- Instances of the kind of Alpa's own study: submeshes of powers of two, several configurations a submesh, 2 % noise;
--- memory so that a part of them bears few successors.
local function problem(atoms, devices, capacity)
  local entries <const> = { first = {}, last = {}, devices = {}, cost_s = {}, max_successors = {} }
  local n = 0
  for first = 1, atoms do
    for last = first, atoms do
      local used = 1
      while used <= devices do
        for c = 0, 3 do
          local tp <const> = 1 << c
          local layers <const> = last - first + 1
          local static <const>, inflight <const> = layers / tp + 0.2, 0.2 * layers / used
          local bears <const> = (capacity - static) // inflight - 1
          if tp <= used and bears >= 0 then
            n = n + 1
            entries.first[n], entries.last[n], entries.devices[n] = first, last, used
            entries.cost_s[n] = 0.05 * layers / used * (1 + 0.06 * c + 0.03 * math.log(used, 2)) * (1 + 0.02 * math.random())
            entries.max_successors[n] = bears | 0
          end
        end
        used = used * 2
      end
    end
  end
  return { atoms = atoms, devices = devices, microbatches = 64, entries = entries }, n
end

local function instructions(atoms, devices, capacity)
  local line <const> = "valgrind --tool=callgrind --toggle-collect=tg_partition_best --callgrind-out-file=/dev/null %s %s %d %d %g 2>&1"
  local pipe <close> = assert(io.popen(line:format(arg[-1] or "build/tangram", arg[0], atoms, devices, capacity)))
  local count <const> = tonumber(pipe:read "a":match "Collected : (%d+)")
  return count and ("%.1f M"):format(count / 1e6) or "no valgrind"
end

local function report_partition(atoms, devices, capacity)
  local times <const>, count, stages = {}, 0, 0
  for seed = 1, 5 do
    math.randomseed(seed)
    local given, result
    given, count = problem(atoms, devices, capacity)
    times[seed] = median(function() result = core.partition(given) end)
    stages = result and result.stages or 0
  end
  table.sort(times)
  print(("partition %3d atoms %3d devices memory %-5g %6d entries: %7.2f ms with reading them; %s instructions; %d stages"):format(
    atoms, devices, capacity, count, 1e3 * times[3], instructions(atoms, devices, capacity), stages))
end

local function report_pareto(atoms, devices, capacity)
  math.randomseed(1)
  local given <const>, n <const> = problem(atoms, devices, capacity)
  given.pareto = true
  local set <const> = core.partition(given)
  print(("Pareto    %3d atoms %3d devices memory %-5g %6d entries: %7.2f ms; %d partitions"):format(
    atoms, devices, capacity, n, 1e3 * median(function() core.partition(given) end), set and #set or 0))
end

--- A decoder of equal layers, or with 10 % noise, on GPUs of such a capacity.
local function terms(layers, capacity_bytes, noise)
  local lists <const> = { capacity_bytes = capacity_bytes, microbatches = 64, stage_s = 0.001 }
  for _, name in ipairs { "time_s", "static_bytes", "inflight_bytes", "transient_bytes", "recomputable", "recompute_s",
                          "recomputed_inflight_bytes", "recompute_peak_bytes" } do lists[name] = {} end
  for i = 1, layers + 2 do
    local layer <const> = i > 1 and i < layers + 2
    lists.time_s[i] = (layer and 0.03 or 0.01) * (1 + noise * math.random())
    lists.static_bytes[i], lists.inflight_bytes[i], lists.transient_bytes[i] = 1e9, layer and 1e8 or 1e7, 1e8
    lists.recomputable[i], lists.recompute_s[i] = layer, layer and 0.01 or 0
    lists.recomputed_inflight_bytes[i], lists.recompute_peak_bytes[i] = 1e7, layer and 1e8 or 0
  end
  return core.terms(lists)
end

local function report_split(layers, capacity_bytes, noise, stages)
  math.randomseed(1)
  local compiled <const>, calls = terms(layers, capacity_bytes, noise), 0
  local function run()
    calls = 0
    for _ = 1, 200 do
      for first = 1, layers - stages, 3 do
        compiled:probe(first, layers + 2, stages, 1, true)
        calls = calls + 1
      end
    end
  end
  local time_s <const> = median(run)
  print(("split     %3d layers, noise %3.0f %%, %2d stages on %3.0f GB: %6.2f us a call"):format(
    layers, 100 * noise, stages, capacity_bytes / 1e9, 1e6 * time_s / calls))
end

if arg[1] then
  math.randomseed(1)
  core.partition((problem(math.tointeger(arg[1]), math.tointeger(arg[2]), tonumber(arg[3]))))
  return
end

for _, size in ipairs { { 24, 16 }, { 48, 16 }, { 48, 32 }, { 96, 64 } } do
  for _, capacity in ipairs { 3, 8, 1000 } do report_partition(size[1], size[2], capacity) end
end
for _, capacity in ipairs { 3, 8, 1000 } do report_pareto(24, 8, capacity) end
for _, capacity in ipairs { 3, 8, 1000 } do report_pareto(24, 16, capacity) end
for _, layers in ipairs { 40, 124 } do
  for _, noise in ipairs { 0, 0.1 } do
    for _, stages in ipairs { 2, 4, 8, 16 } do report_split(layers, layers * 3e8, noise, stages) end
  end
end
