--- Plugins that try to get out, loaded as all are: an adapter, a cost model and a policy with the same attempt plan beside an
--- honest policy that looks whether anything of its own was changed. An attempt that succeeds returns what it got hold of.
local core <const> = require "tangram.core"
local faulty <const> = require "tests.fault.faulty"
local loader <const> = require "tangram.loader"
local support <const> = require "tests.spec.support"

local attempts <const> = {
  { "io", "return io" }, { "os", "return os" }, { "debug", "return debug" }, { "package", "return package" },
  { "package.loadlib by rawget", "return rawget(_G, 'package')" }, { "load", "return load" },
  { "loadfile", "return loadfile or dofile" },
  { "collectgarbage", "return collectgarbage" }, { "coroutine", "return coroutine" }, { "print", "return print or warn" },
  { "the real _G", "return _G._G ~= _G or _G.io or _ENV.io" },
  { "string.dump", "return string.dump" },
  { "string.dump by a method", "local text = ('').dump(function() end) return load and load(text)" },
  { "require 'io'", "return require 'io'" }, { "require the loader", "return require 'tangram.loader'" },
  { "require the recipes' module", "return require 'tangram'" },
  { "require by a path", "return require 'tangram.formulas.../../../../etc/passwd'" },
  { "require what is no name", "return require(setmetatable({}, { __tostring = function() return 'io' end }))" },
  { "require the program's runner", "return require 'tangram.program'" },
  { "the engine's files", "local core = require 'tangram.core' return core.store or core.process or core.json_decode or core.list_folder" },
  { "the engine's loader", "return require('tangram.core').library_source" },
  { "the metatable of strings", "return getmetatable('')" },
  { "patching methods of strings", "getmetatable('').__index.upper = nil" },
  { "patching a field of a string", "('').upper = function() return 'patched' end" },
  { "patching string", "string.upper = function() return 'patched' end" },
  { "patching table and math", "table.concat, math.max, utf8.char = error, error, error" },
  { "patching base functions", "pairs, ipairs, type, tostring, error = nil, nil, nil, nil, nil" },
  { "patching _G", "for name in pairs(_G) do _G[name] = nil end", own = true },
  { "patching the engine", "local core = require 'tangram.core' for name in pairs(core) do core[name] = error end" },
  { "patching strategies", "local s = require 'tangram.strategies' for _, f in pairs(s.options) do f.default = 7 end s.list = error" },
  { "patching the catalogue", "local c = require 'tangram.catalog' for _, g in ipairs(c.gpus) do g.key, g.names = 'patched', {} end" },
  { "patching floors", [[local floors = require 'tangram.floors'
    local time = floors.time(island, ctx) for i in pairs(time.share_s) do time.share_s[i] = 1e9 end floors.time = error]] },
  { "patching formulas", "local g = require 'tangram.formulas.gemm' for name in pairs(g) do g[name] = error end" },
  { "patching units and schema", "require('tangram.units').format_time = error require('tangram.schema').check = error" },
  { "the metatable of a slice", "local m = getmetatable(slice) m.__index = error" },
  { "the metatable of an island", "local m = getmetatable(island) m.__index.intra_bytes_per_s = error" },
  { "another metatable for a slice", "return setmetatable(slice, {})" },
  { "a slice's fields", "slice.first, slice.last, slice.signature, slice.layers = 1, 1, 'x', 99", own = true },
  { "a slice's atoms", "for _, atom in ipairs(slice.atoms) do atom.flops, atom.hash, atom.kind = 0, 'x', 'x' end" },
  { "an island's fields", "island.gpus, island.name, island.device.arch, island.intra[1][2] = 0, 'x', 'x', 0", own = true },
  { "the model", "ctx.model.layers, ctx.model.hidden, ctx.model.layer_mlp[1] = 99, 1, 'x'" },
  { "the atoms", "ctx.atoms[1].kind, ctx.atoms[2].flops, ctx.atoms[5] = 'x', 0, nil" },
  { "the training", "ctx.training.global_batch, ctx.training.precision = 1, 'x'" },
  { "the islands", "ctx.islands[1], ctx.islands[2].gpus = nil, 0", own = true },
  { "a list's metatable", "getmetatable(ctx.model.layer_mlp).__index = error" },
  { "ctx", "for name in pairs(ctx) do ctx[name] = nil end", own = true },
  { "ctx's metatable", "return getmetatable(ctx)" },
  { "the cost model by ctx.cost", "return ctx.cost.plugin or ctx.cost.made or ctx.cost.constants" },
  { "patching ctx.cost", "ctx.cost.stage, ctx.cost.atom, ctx.cost.terms, ctx.cost.name = error, error, error, 'x'", own = true },
  { "memos of others", "ctx.memo.seen = 'patched' for k, v in pairs(ctx.options) do ctx.options[k] = nil end" },
  { "the class of the engine's terms", [[
    local terms = require('tangram.core').terms { time_s = { 1 }, recompute_s = { 0 }, static_bytes = { 1 }, inflight_bytes = { 1 },
      recomputed_inflight_bytes = { 1 }, transient_bytes = { 0 }, recompute_peak_bytes = { 0 }, recomputable = { false }, stage_s = 0,
      stage_static_bytes = 0, capacity_bytes = 10, microbatches = 1 }
    return getmetatable(terms) or terms.__index or terms.__gc or terms.__metatable]] },
  { "a finalizer", "return setmetatable({}, { __gc = function() while true do end end })" },
  { "a finalizer put in later", [[local m = {} local t = setmetatable({}, m) m.__gc = function() while true do end end t = nil
    local waste = {} for i = 1, 20000 do waste[i % 100 + 1] = {} end]] },
  { "random numbers of others", "return math.random or math.randomseed" },
  { "a text that is none", "ctx.log(setmetatable({}, { __tostring = function() return {} end }))" },
  { "lines of its own in the report", "ctx.log('one line\\nnote: another') return nil" },
  { "a handler of errors with a view of the stack", "return select(2, xpcall(error, function(...) return debug and debug.traceback end))" },
}

local adapter <const> = [[
local function attempt(slice, island, ctx) %s end
local loaded <const>, at_load <const> = pcall(attempt)
return { api = 1, kind = "parallelizer", name = "mine", plan = function(slice, island, ctx)
  local log <const> = ctx.log
  local answer <const> = { { ctx.cost.stage(slice:run(1, #slice), island, { dp = 1, tp = island.gpus }, ctx) } }
  local ok <const>, out <const> = pcall(attempt, slice, island, ctx)
  if ok and out or loaded and at_load then log "ESCAPED as an adapter" end
  return answer
end }]]

local cost <const> = [[
local function attempt(slice, island, ctx) %s end
local loaded <const>, at_load <const> = pcall(attempt)
return { api = 1, kind = "cost", name = "mine", stage = function(run, island, strategy, ctx)
  local log <const>, gpus <const>, atoms <const> = ctx.log, strategy.dp * strategy.tp, #run
  local ok <const>, out <const> = pcall(attempt, run, island, ctx)
  if ok and out or loaded and at_load then log "ESCAPED as a cost model" end
  return { atoms = atoms, gpus = gpus, strategy = strategy, forward_s = atoms * 1e-3 / gpus, backward_s = atoms * 2e-3 / gpus,
    sync_s = 0, static_bytes = 1e9, inflight_bytes = 1e6, transient_bytes = 1e6 }
end }]]

local hostile <const> = [[
local function attempt(slice, island, ctx) %s end
local loaded <const>, at_load <const> = pcall(attempt)
return { api = 1, kind = "prune", name = "hostile", keep = function(pair, ctx)
  local log <const> = ctx.log
  local ok <const>, out <const> = pcall(attempt, pair.slice, pair.island, ctx)
  if ok and out or loaded and at_load then log "ESCAPED as a policy" end
  return true
end }]]

--- Whatever of this is not as it should be, someone else has changed.
local honest <const> = [[
return { api = 1, kind = "prune", name = "honest", options = { list = { type = "list", default = { "a", "b" } } },
keep = function(pair, ctx)
  local slice <const>, island <const> = pair.slice, pair.island
  local core <const>, strategies <const> = require "tangram.core", require "tangram.strategies"
  local catalog <const>, gemm <const> = require "tangram.catalog", require "tangram.formulas.gemm"
  local function right(what, value) if not value then ctx.log("HIT " .. what) end end
  right("string", string.upper "a" == "A" and ("a"):upper() == "A" and string.dump == nil)
  right("table, math, utf8", table.concat { "a" } == "a" and math.max(1, 2) == 2 and utf8.char(65) == "A")
  right("base", type(pairs) == "function" and tostring(1) == "1" and next { 1 } == 1 and rawlen { 1 } == 1)
  right("core", core.nearest("abd", { "abc" }) == "abc" and type(core.terms) == "function")
  right("strategies", strategies.list ~= error and strategies.options.max_tp.default ~= 7)
  right("catalogue", catalog.gpus[1].key ~= "patched" and #catalog.gpus[1].names > 0)
  for _, value in pairs(gemm) do right("formulas", value ~= error) end
  right("units", require("tangram.units").format_time(1) == "1.00 s")
  right("floors", require("tangram.floors").time ~= error)
  right("slice", slice.first >= 1 and #slice == slice.last - slice.first + 1 and slice:run(1, 1).first == slice.first
    and select(2, slice.signature:gsub(",", "")) == #slice - 1 and slice.layers <= 3)
  right("island", island.gpus == 2 and #island.name > 1 and island:intra_bytes_per_s(2) > 1 and #island.device.arch > 1)
  right("model", ctx.model.layers == 3 and ctx.model.hidden == 1024 and ctx.model.layer_mlp[1] == "dense")
  right("atoms", #ctx.atoms == 5 and ctx.atoms[1].kind == "embedding" and ctx.atoms[2].flops > 0 and ctx.atoms[2].kind == "layer")
  right("training", ctx.training.global_batch == 2 and ctx.training.precision == "fp16")
  right("islands", #ctx.islands == 2 and ctx.islands[2].gpus == 2)
  right("memo and options", ctx.memo.seen == nil and #ctx.options.list == 2)
  right("cost", ctx.cost.name == "mine" and ctx.cost.stage(slice, island, { dp = 1, tp = 2 }, ctx).forward_s == #slice * 1e-3 / 2)
  return true
end }]]

describe("a plugin", function()
  local folder, untouched
  before_each(function() folder = support.folder() end)
  after_each(function() support.remove(folder) end)

  --- What would break a plugin's own work (`own`) is done by the policy alone.
  local function plan(attempt, own)
    return assert(faulty.plan {
      parallelizer = faulty.write(folder, "adapter", adapter:format(own and "" or attempt)),
      cost = faulty.write(folder, "cost", cost:format(own and "" or attempt)),
      prune = { faulty.write(folder, "hostile", hostile:format(attempt)), faulty.write(folder, "honest", honest) },
    })
  end

  for _, case in ipairs(attempts) do
    it("does not get at " .. case[1], function()
      local strings <const>, first <const> = string.upper, core.nearest
      untouched = untouched or plan ""
      local made <const> = plan(case[2], case.own)
      for _, line in ipairs(made.warnings) do assert.is_nil(line:match "ESCAPED" or line:match "HIT" or line:match "\n", line) end
      assert.equal(untouched.time_s, made.time_s)
      assert.same(untouched.pairs, made.pairs)
      assert.is_true(string.upper == strings and core.nearest == first and ("a"):upper() == "A")
    end)
  end

  it("is noticed when it does: the honest policy's checks find a change", function()
    -- The same policy, with what it looks at changed by its own hand.
    for what, change in pairs {
      model = "ctx.model.layers = 99", string = "string.upper = error", island = "island.gpus = 3", cost = "ctx.cost.name = 'x'",
      atoms = "ctx.atoms[5] = nil", slice = "slice.layers = 9", core = "core.terms = nil",
    } do
      local source <const> = honest:gsub("local function right", change:gsub("%%", "%%%%") .. " %0", 1)
      local made <const> = assert(faulty.plan {
        parallelizer = faulty.write(folder, "adapter", adapter:format ""), cost = faulty.write(folder, "cost", cost:format ""),
        prune = { faulty.write(folder, "honest", source) },
      })
      local found = false
      for _, line in ipairs(made.warnings) do found = found or line:match("HIT " .. what) or line:match "called no more" end
      assert.is_truthy(found, what)
    end
  end)

  for name, code in pairs {
    ["table.move"] = "table.move({}, 1, math.maxinteger - 1, 2)", ["string.rep"] = "string.rep('', math.maxinteger)",
    ["table.insert"] = "table.insert(setmetatable({}, { __len = function() return math.maxinteger - 1 end }), 1, 0)",
    ["table.concat"] = "table.concat(setmetatable({}, { __index = table.concat }), '', 1, math.maxinteger)",
    ["table.sort"] = "table.sort(setmetatable({}, { __len = function() return 2^31 - 2 end, __index = type }), rawequal)",
    ["table.unpack"] = "return table.unpack({}, 1, 1e7)",
  } do
    it("does not keep the engine busy in C, out of reach of limits: " .. name, function()
      local started_s <const> = core.clock_s()
      plan("pcall(function() " .. code .. " end)")
      assert.is_true(core.clock_s() - started_s < 60)
    end)
  end

  it("is refused as bytecode", function()
    local path <const> = faulty.write(folder, "bytes", string.dump(assert(load "return { api = 1 }")))
    assert.has_error(function() loader.load("prune", path) end)
    local _, why <const> = pcall(loader.load, "prune", path)
    assert.matches("attempt to load a binary chunk", why)
  end)

  it("may not take forever to load, nor raise what is no text", function()
    local path <const> = faulty.write(folder, "raises", "error({})")
    assert.has_error(function() loader.load("prune", path) end, "raised a table, expected a message")
    faulty.write(folder, "raises", "local t = {} t.options = t t.api = t return t")
    local _, why <const> = pcall(loader.load, "prune", path)
    assert.matches("a table nested too deeply, or in itself", why)
  end)
end)

describe("a recipe", function()
  it("is trusted with all of Lua", function()
    local path <const> = os.tmpname()
    support.write(path, "assert(io and os and debug and package.loadlib and load(string.dump(function() end), 'x', 'b')) os.exit(7)")
    local status <const> = support.run("tangram plan " .. path)
    os.remove(path)
    assert.equal(7, status)
  end)
end)
