local conformance <const> = require "tangram.conformance"
local loader <const> = require "tangram.loader"
local support <const> = require "tests.spec.support"

--- An adapter that is right, if poor (one GPU, one stage, all recomputed), with a line of our own before it answers.
local function adapter(line)
  return ([[
    local core <const> = require "tangram.core"
    local calls = 0
    return { api = 1, kind = "parallelizer", name = "faulty", plan = function(slice, island, ctx)
      calls = calls + 1
      local stage <const> = ctx.cost.stage(slice, island, { dp = 1, tp = 1, recompute = "full" }, ctx)
      if core.bears(stage.static_bytes, stage.transient_bytes, stage.inflight_bytes, ctx.capacity_bytes, ctx.microbatches)
          < ctx.successors then
        return nil, "too large for one GPU"
      end
      local plan <const> = { stage, idle = island.gpus > 1 and island.gpus - 1 or nil }
      %s
      return { plan }
    end }
  ]]):format(line)
end

local function names_of_failures(report)
  local names <const> = {}
  for _, result in ipairs(report.results) do
    if result.why then names[#names + 1] = result.name end
  end
  return names
end

describe("adapter check", function()
  local folder
  before_each(function() folder = support.folder() end)
  after_each(function() support.remove(folder) end)

  it("passes what is right, and names what is wrong with an example", function()
    local faults <const> = {
      { "", {} },
      { "stage.flops = 1", { "contract" }, "stage 1: flops: unknown field" },
      { "plan.idle = nil", { "contract" }, "on an island of 2 GPUs, atoms 1..6, 8 microbatches, 0 stages behind: its stages and idle make "
        .. "1 GPUs, expected the island's 2" },
      { "stage.forward_s = 0 / 0", { "contract" }, "stage 1: forward_s: got NaN, expected a finite number of at least 0" },
      { "stage.backward_s = -1", { "contract" }, "stage 1: backward_s: got -1, expected a finite number of at least 0" },
      { "stage.transient_bytes = nil", { "contract" }, "transient_bytes: missing, expected a finite number of at least 0" },
      { "local many = {} for i = 1, 10001 do many[i] = plan end if true then return many end", { "contract" },
        "plan() returned 10001 plans, expected 1 to 10000" },
      { "local function never() while true do end end if true then return setmetatable({ plan }, { __len = never, __index = never }) end",
        {} },
      { "if true then return nil, setmetatable({}, { __tostring = function() while true do end end }) end", { "plans", "reasons" },
        "plans nothing on one GPU" },
      { "if true then return nil, 'not\\27[31m' .. ('!'):rep(1e6) end", { "plans" }, "plans nothing on one GPU: not [31m!!!" },
      { "for name in pairs(ctx) do ctx[name] = nil end", { "contract" }, "attempt to index a nil value (field 'cost')" },
      { "if #slice == 1 then error 'one atom' end", { "contract" }, "one atom; expected: the engine takes every answer" },
      { "while true do end", { "contract" }, "no answer within 0.2 s (--query-seconds)" },
      { "while true do pcall(function() while true do end end) end", { "contract" }, "no answer within 0.2 s" },
      { "ctx.cost.stage(slice, island, { dp = 1, tp = 1, zeros = 3 }, ctx)", { "contract" },
        "strategy: zeros: unknown field (did you mean 'zero'?)" },
      { "if slice.has_head then return nil end", { "reasons" }, "no plan and no reason" },
      { "stage.forward_s = stage.forward_s * (1 + calls % 2 * 1e-10)", { "determinism" }, "asked twice" },
      { "ctx.memo.n = (ctx.memo.n or 0) + 1; stage.forward_s = stage.forward_s * ctx.memo.n", { "determinism" }, "after other slices" },
      { "stage.inflight_bytes = stage.inflight_bytes / 2", { "memory" }, "inflight_bytes" },
      { "if ctx.capacity_bytes > 20e9 then stage.forward_s = stage.forward_s * 2 end", { "monotonicity" },
        "worse than with 20 % of memory" },
      { "if ctx.successors == 1 then stage.forward_s = stage.forward_s * 2 end", { "monotonicity" }, "one stage more behind it" },
      { "if true then return nil, 'not today' end", { "plans" }, "not today" },
    }
    for i = 1, support.scale(#faults) do
      local fault <const> = faults[i]
      local path <const> = support.write(("%s/faulty%d.lua"):format(folder, i), adapter(fault[1]))
      local failing <const>, limit_s = table.concat(fault[2], " "), fault[1]:find "while" and 0.2 or 50
      local report = conformance.check(path, nil, limit_s)
      while limit_s < 50 and table.concat(names_of_failures(report), " ") ~= failing do -- a busy machine was slow in what is honest
        limit_s = 5 * limit_s
        report = conformance.check(path, nil, limit_s)
      end
      assert.equal(failing, table.concat(names_of_failures(report), " "), fault[1])
      assert.equal(#fault[2], report.failed)
      for _, result in ipairs(report.results) do
        local line <const> = result.name == fault[2][1] and conformance.line(result)
        if line then assert.truthy(line:find((fault[3]:gsub("0%.2 s", ("%g s"):format(limit_s))), 1, true), line) end
        assert.equal(fault[2][1] == "contract" and result.name ~= "contract", result.unjudged or false)
      end
    end
  end)

  it("is passed by all that are shipped", function()
    for _, name in ipairs(loader.list "parallelizer") do
      if name ~= "process" and (support.scale(10) == 10 or name == "exact") then -- process is what its program is
        assert.same({}, names_of_failures(conformance.check(name, nil, 60)), name)
      end
    end
    assert.same({}, names_of_failures(conformance.check({ name = "alpa", options = { repair = true } }, nil, 60)))
  end)

  it("is passed by what `new` writes, which plans the quickstart as it stands", function()
    local function run(words) return support.run(("cd %s && tangram %s"):format(folder, words)) end
    assert.equal(0, (run "adapter new mine"))
    local status, out, err = run "adapter check mine.lua"
    assert.equal(0, status, out .. err)
    assert.matches("\n6 passed, 0 failed; %d+ questions asked\n$", out)
    status, out, err = support.run(("tangram plan recipes/quickstart.lua --parallelizer %s/mine.lua"):format(folder))
    assert.equal(0, status, err)
    assert.matches("parallelizer mine", out)
    assert.same({ 2, "", "tangram adapter: mine.lua: is there already, expected a new name\n" }, { run "adapter new mine" })
    assert.same({ 2, "", "tangram adapter: name: got 'a/b', expected letters, digits, _ and -\n" }, { run "adapter new a/b" })
  end)

  it("ends with status 1 where something fails; takes options", function()
    local path <const> = support.write(folder .. "/faulty.lua", adapter "plan.idle = nil")
    local status <const>, out <const> = support.run("tangram adapter check " .. path)
    assert.equal(1, status)
    assert.matches("^" .. path:gsub("%p", "%%%0") .. "\nFAILED  contract", out)
    assert.matches("\n0 passed, 1 failed, 5 not judged until the first holds; ", out)
    local refused <const>, _, why <const> = support.run "tangram adapter check uniform --option max_tpp=2"
    assert.equal(2, refused)
    assert.matches("max_tpp: unknown field %(did you mean 'max_tp'%?%)", why)
  end)
end)

describe("a planning by an adapter that is wrong", function()
  it("ends with its file, the field and what was expected, each reason once", function()
    local folder <const> = support.folder()
    local source <const> = [[return { api = 1, kind = "parallelizer", name = "faulty", plan = function(slice, island, ctx)
      local stage <const> = ctx.cost.stage(slice, island, { dp = 1, tp = 1 }, ctx)
      %s
      return { { stage } }
    end }]]
    local path <const> = support.write(folder .. "/faulty.lua", source:format "stage.forwards_s = stage.forward_s")
    local words <const> = "tangram plan recipes/quickstart.lua --quiet --microbatches 32 --parallelizer " .. path
    local status <const>, _, err <const> = support.run(words)
    assert.equal(3, status)
    assert.matches("^tangram plan: no plan: all %d+ queries of the parallelizer " .. path:gsub("%p", "%%%0")
      .. " failed: on island [%w-]+, atoms 1..%d+ at 32 microbatches: plan 1: stage 1: forwards_s: unknown field "
      .. "%(did you mean 'forward_s'%?%)\n$", err)
    support.write(path, source:format "while true do end")
    local stopped, out, why
    for _, limit_s in ipairs { 1, 5, 25 } do -- a busy machine may begin to ask later
      stopped, out, why = support.run(("%s --query-seconds 0.1 --time-limit %d"):format(words, limit_s))
      if why:find "queries" then break end
    end
    assert.same({ 4, "" }, { stopped, out })
    assert.matches("stopped before any plan was found; all %d+ queries of the parallelizer %S+ failed: on island .*: time limit of 0.1 s "
      .. "reached\n$", why)
    support.remove(folder)
  end)
end)

describe("adapter list and show", function()
  it("tell names, descriptions and options from the files themselves", function()
    local status <const>, out <const> = support.run "tangram adapter list"
    assert.equal(0, status)
    for _, name in ipairs(loader.list "parallelizer") do
      local described <const> = loader.describe("parallelizer", name)
      assert.truthy(out:find(described.description, 1, true))
      local shown <const>, text <const> = support.run("tangram adapter show " .. name)
      assert.equal(0, shown)
      for option, field in pairs(described.options) do
        assert.truthy(text:find("\n  " .. option .. " ", 1, true), option)
        assert.truthy(text:find(field.doc, 1, true), option)
      end
    end
  end)
end)
