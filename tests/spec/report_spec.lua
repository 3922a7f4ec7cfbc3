local clusters <const> = require "tangram.cluster"
local core <const> = require "tangram.core"
local html <const> = require "tangram.report.html"
local support <const> = require "tests.spec.support"
local trace <const> = require "tangram.report.trace"

local FILE <const> = "tests/golden/plan.json"

--- The golden plan, the catalogue's figures filled in as planning does.
local function golden()
  local plan <const> = core.json_decode(support.read(FILE))
  plan.cluster = clusters.describe(plan.cluster)
  return plan
end

--- The golden plan with a row of stages of one node each, uneven and with transfers.
local function long_plan(stages, microbatches)
  local plan <const> = golden()
  local stage_text <const> = core.json_encode(plan.stages[2])
  plan.stages, plan.islands, plan.cluster.nodes, plan.warmup = core.array {}, core.array {}, core.array {}, core.array {}
  plan.model.layers, plan.microbatches, plan.training.global_batch = stages - 2, microbatches, microbatches
  for s = 1, stages do
    local stage <const> = core.json_decode(stage_text)
    local node <const> = ("n%d"):format(s)
    stage.island, stage.gpus = node, core.array { { node = node, indices = core.array { 0, 1 } } }
    stage.first, stage.last, stage.layers = s - 1, s, 1
    stage.has_embedding, stage.has_head = s == 1, s == stages
    stage.forward_s, stage.backward_s, stage.sync_s = 0.010 + s % 3 * 1e-3, 0.021 + s % 5 * 1e-3, 0.3
    stage.transfer_s = s < stages and 1e-3 or core.null
    stage.successors, stage.inflight = stages - s, math.min(stages - s + 1, microbatches)
    plan.stages[s], plan.warmup[s] = stage, math.min(stages - s, microbatches)
    plan.islands[s] = { name = node, nodes = core.array { node }, merged = false, used = true, idle = 0 }
    plan.cluster.nodes[s] = { name = node, gpu = "t4", gpus = 2, memory_bytes = 2 ^ 40 }
  end
  plan.cluster = clusters.describe(plan.cluster)
  plan.time_s = core.plan_simulate(core.json_encode(plan))
  return plan
end

--- Fails unless every element is closed in order and every `<` and `&` is markup.
local function assert_well_formed(page)
  local open <const> = {}
  local body <const> = page:gsub("^<!DOCTYPE html>\n", "")
  for text, close, name, attributes in body:gmatch "([^<]*)<(/?)(%l[%w]*)([^<>]*)>" do
    assert.is_nil(text:find(">", 1, true) and name ~= "style" and close == "" and text)
    if close == "/" then
      assert.equal(name, table.remove(open))
    else
      if attributes:sub(-1) ~= "/" then open[#open + 1] = name end
      assert.equal("", (attributes:gsub('%s[%l%u-]+="[^"<>]*"', ""):gsub("^/$", "")))
    end
  end
  assert.same({}, open)
  local _, tags <const> = body:gsub("<", "")
  local _, read <const> = body:gsub("<(/?)(%l[%w]*)([^<>]*)>", "")
  assert.equal(tags, read)
  for entity in body:gmatch "&[^;]*;?" do assert.matches("^&[%l]+;$", (entity:gsub("#39", "apos"))) end
  assert.is_truthy(utf8.len(page))
end

local function unescaped(text)
  return (text:gsub("&#39;", "'"):gsub("&quot;", '"'):gsub("&lt;", "<"):gsub("&gt;", ">"):gsub("&amp;", "&"))
end

--- Boxes of the timeline: { stage, what, from_s, to_s, x, width } each.
local function boxes_of(page)
  local list <const> = {}
  local pattern <const> = '<rect x="([%d.]+)" y="[%d.]+" width="([%d.]+)" height="%d+">'
    .. "<title>stage (%d+), ([^:<]+): (%S+) to (%S+) s</title>"
  for x, width, stage, what, from_s, to_s in page:gmatch(pattern) do
    list[#list + 1] = { x = tonumber(x), width = tonumber(width), stage = tonumber(stage), what = what, from_s = tonumber(from_s),
      to_s = tonumber(to_s) }
  end
  return list
end

--- "stage what" to box, each once.
local function by_name(boxes)
  local map <const> = {}
  for _, box in ipairs(boxes) do
    local name <const> = ("%d %s"):format(box.stage, box.what)
    assert.is_nil(map[name], name)
    map[name] = box
  end
  return map
end

describe("html", function()
  it("is well-formed, needs no other file and no script, and is the same for equal plans", function()
    local page <const> = html.plan(golden())
    assert_well_formed(page)
    for _, word in ipairs { "http", "src=", "href", "url(", "@import", "<script", "onload" } do
      assert.is_nil(page:find(word, 1, true), word)
    end
    assert.equal(page, html.plan(golden()))
    assert.equal(page, html.plan(core.json_decode(core.json_encode(golden()))))
  end)

  it("names every stage, island, node and figure", function()
    local page <const> = html.plan(golden())
    for _, text in ipairs { "<h1>toy</h1>", "30.5 s", "2,148", "40.0 %", "8 of 8", "<b>8 × 4</b>", "a1:0-1", "a1:2-3",
      "v1:0-1 v2:0-1", "full on 2 of 5", "<h3>a100</h3>", "<h3>v100</h3>", "Proved the best" } do
      assert.is_truthy(page:find(text, 1, true), text)
    end
    local places <const> = {}
    for index, node, stage in page:gmatch '"GPU (%d) of (%w+): stage (%d)"' do places[#places + 1] = node .. index .. "=" .. stage end
    assert.equal("a10=1 a11=1 a12=2 a13=2 v10=3 v11=3 v20=3 v21=3", table.concat(places, " "))
  end)

  it("lets no name break out", function()
    local evil <const> = [[</title></style><script>alert("1")</script>&amp;' $x @y %1 ]]
    local plan <const> = golden()
    plan.model.name = evil .. "model"
    plan.islands[1].name, plan.stages[1].island, plan.stages[2].island = evil .. "island", evil .. "island", evil .. "island"
    plan.islands[1].nodes[1], plan.cluster.nodes[1].name = evil .. "node", evil .. "node"
    plan.stages[1].gpus[1].node, plan.stages[2].gpus[1].node = evil .. "node", evil .. "node"
    plan.cluster.nodes[1].gpu = evil .. "gpu"
    plan.cluster.gpus[evil .. "gpu"] = plan.cluster.gpus["a100-pcie-80"]
    plan.islands[3] = { name = "t", nodes = { "v2" }, used = false, reason = evil .. "reason" }
    plan.parallelizer.name, plan.cost.name, plan.training.precision = evil .. "adapter", evil .. "cost", evil .. "precision"
    plan.stopped, plan.warnings[1] = evil .. "stopped", evil .. "warning"
    plan.pairs.pruned[evil .. "policy"] = 3
    plan.pairs.failed[1] = { slice = { 0, 3 }, island = evil .. "where", reason = evil .. "failed" }
    plan.constants[1] = { name = evil .. "constant", value = 1, unit = evil .. "unit", from = evil .. "from", source = evil .. "source" }
    plan.stages[1].time_parts[evil .. "part"] = 1.0
    plan.version = evil .. "version"
    local page <const> = html.plan(plan)
    assert_well_formed(page)
    assert.is_nil(page:find("<script", 1, true))
    local text <const> = unescaped(page)
    for word in ("model island node gpu reason adapter cost precision stopped warning policy where failed constant unit from source part "
      .. "version"):gmatch "%l+" do
      assert.is_truthy(text:find(evil .. word, 1, true), word)
    end
  end)

  it("replaces what is not UTF-8, and control characters", function()
    local plan <const> = golden()
    plan.model.name, plan.warnings[1] = "a\xff\xc3b", "c\1\27d"
    local page <const> = html.plan(plan)
    assert_well_formed(page)
    assert.is_truthy(page:find("<h1>a\u{FFFD}b</h1>", 1, true))
    assert.is_truthy(page:find("c\u{FFFD}\u{FFFD}d", 1, true))
  end)

  -- Three stages of 1 + 2 s without transfers: the last works without a pause from second 2, and the others' backwards
  -- follow it at once.
  it("draws every operation at its time", function()
    local page <const> = html.plan(golden())
    local boxes <const> = by_name(boxes_of(page))
    for m = 1, 8 do
      local forward <const>, backward <const> = "forward of microbatch " .. m, "backward of microbatch " .. m
      assert.same({ 3 * m - 1, 3 * m }, { boxes["3 " .. forward].from_s, boxes["3 " .. forward].to_s })
      assert.same({ 3 * m, 3 * m + 2 }, { boxes["3 " .. backward].from_s, boxes["3 " .. backward].to_s })
      assert.same({ 3 * m + 2, 3 * m + 4 }, { boxes["2 " .. backward].from_s, boxes["2 " .. backward].to_s })
      assert.same({ 3 * m + 4, 3 * m + 6 }, { boxes["1 " .. backward].from_s, boxes["1 " .. backward].to_s })
    end
    assert.same({ 0, 1, 1, 2, 2, 3 }, { boxes["1 forward of microbatch 1"].from_s, boxes["1 forward of microbatch 1"].to_s,
      boxes["1 forward of microbatch 2"].from_s, boxes["1 forward of microbatch 2"].to_s,
      boxes["1 forward of microbatch 3"].from_s, boxes["1 forward of microbatch 3"].to_s })
    for s, figures in ipairs { { 30, 30.5 }, { 28, 28.5 }, { 26, 26.25 } } do
      local sync <const> = boxes[s .. " gradient reduction and optimizer"]
      assert.same(figures, { sync.from_s, sync.to_s })
    end
    assert.equal(3 * 17, #boxes_of(page))
  end)

  it("puts boxes where the axis says", function()
    local page <const> = html.plan(golden())
    local timeline <const> = page:match 'aria%-label="Timeline of the pipeline">(.-)</svg>'
    local ticks <const> = {}
    for x, value in timeline:gmatch '<text class="tick" x="([%d.]+)" y="[%d.]+">([%d.]+)</text>' do
      ticks[#ticks + 1] = { x = tonumber(x), s = tonumber(value) }
    end
    assert.equal(0, ticks[1].s)
    local last <const> = ticks[#ticks]
    local per_s <const> = (last.x - ticks[1].x) / last.s
    for _, box in ipairs(boxes_of(timeline)) do
      assert.near(ticks[1].x + box.from_s * per_s, box.x, 0.03)
      assert.near((box.to_s - box.from_s) * per_s, box.width, 0.03)
    end
  end)

  it("tells how long each stage waits", function()
    local page <const> = html.plan(golden())
    local shares <const> = {}
    for share in page:gmatch ">([%d.]+) %% idle<" do shares[#shares + 1] = tonumber(share) end
    assert.near(100 * (1 - 24.5 / 30.5), shares[1], 0.051)
    assert.near(100 * (1 - 24.5 / 30.5), shares[2], 0.051)
    assert.near(100 * (1 - 24.25 / 30.5), shares[3], 0.051)
    assert.equal(3, #shares)
  end)

  it("stacks memory to the total, against the capacity", function()
    local page <const> = html.plan(golden())
    local chart <const> = page:match "aria%-label=\"Memory of each stage's fullest GPU\">(.-)</svg>"
      or page:match 'aria%-label="Memory of each stage&#39;s fullest GPU">(.-)</svg>'
    local sums <const>, widths <const> = { 0, 0, 0 }, { 0, 0, 0 }
    local zero <const> = tonumber(chart:match 'class="tick" x="([%d.]+)" y="[%d.]+">0<')
    for x, width, stage, gib in
      chart:gmatch 'x="([%d.]+)" y="[%d.]+" width="([%d.]+)" height="%d+"><title>stage (%d)[^:]*: (%S+) GiB<' do
      assert.near(zero + widths[tonumber(stage)], tonumber(x), 0.05) -- where the part before ends
      sums[tonumber(stage)] = sums[tonumber(stage)] + tonumber(gib)
      widths[tonumber(stage)] = widths[tonumber(stage)] + tonumber(width)
    end
    assert.same({ 34, 32, 22 }, sums)
    local limits <const> = {}
    for x in chart:gmatch 'class="limit" d="M([%d.]+) ' do limits[#limits + 1] = tonumber(x) end
    local ten <const> = tonumber(chart:match 'class="tick" x="([%d.]+)" y="[%d.]+">10<')
    assert.near(7 * (ten - zero), limits[1] - zero, 0.05)
    for s, capacity in ipairs { 70, 70, 28 } do
      assert.near(sums[s] / capacity, widths[s] / (limits[s] - zero), 1e-3)
    end
  end)

  it("shows what the time parts leave open", function()
    local plan <const> = golden()
    plan.stages[1].time_parts = { compute_s = 2.0, tp_s = 0.25, reduce_s = 0.5 }
    local page <const> = html.plan(plan)
    for _, text in ipairs { "matrix products: 2 s", "tensor parallelism: 0.25 s", "not broken down: 0.75 s", "gradient reduction: 500 ms",
      "not broken down: 250 ms" } do
      assert.is_truthy(page:find(text, 1, true), text)
    end
    assert.is_nil(page:find("stage 1 · a100, not broken down: 500 ms", 1, true))
  end)

  it("says why islands were left out, how pairs fell, what the constants are", function()
    local plan <const> = golden()
    plan.islands[3] = { name = "t4", nodes = { "t1", "t2" }, merged = false, used = false, reason = "the link is slow",
      best_with_s = 31.25 }
    plan.pairs = { all = 12345, queried = 7, reused = 2, pruned = { unbalanced = 20, bounded = 9 },
      failed = core.array { { slice = { 2, 5 }, island = "t4", reason = "too little memory" } } }
    plan.constants = { { name = "launch_s", value = 1.12e-3, unit = "s", from = "fitted", source = "422 runs" } }
    plan.warnings = { "fp16 for all" }
    plan.top[2] = { microbatches = 4, stages = 2, time_s = 33 }
    local page <const> = html.plan(plan)
    assert_well_formed(page)
    for _, row in ipairs {
      '<td>t4</td><td>t1 t2</td><td class="right">31.2 s</td><td>the link is slow</td>', '<td>all</td><td class="right">12,345</td>',
      '<td>dropped: bounded</td><td class="right">9</td></tr>\n<tr><td>dropped: unbalanced</td><td class="right">20</td>',
      "<td>2..4</td><td>t4</td><td>too little memory</td>",
      '<td>launch_s</td><td class="right">0.00112</td><td>s</td><td>fitted</td><td>422 runs</td>', "<li>fp16 for all</li>",
      '<td class="right">2</td><td class="right">33.0 s</td><td class="right">4</td><td class="right">2</td>',
    } do
      assert.is_truthy(page:find(row, 1, true), row)
    end
  end)

  it("cuts a long iteration, on one scale, and stays small", function()
    local plan <const> = long_plan(16, 1024)
    local page <const> = html.plan(plan)
    assert_well_formed(page)
    assert.is_true(#page < 2e6)
    local boxes <const> = boxes_of(page)
    local names <const> = by_name(boxes)
    local _, operations <const> = core.plan_simulate(core.json_encode(plan))
    local simulated <const> = {}
    for _, one in ipairs(operations) do
      simulated[("%d %s of microbatch %d"):format(one.stage, one.backward and "backward" or "forward", one.microbatch)] = one
    end
    local seen = 0
    for name, box in pairs(names) do
      local one <const> = simulated[name]
      if one then
        assert.near(one.start_s, box.from_s, 1e-7)
        assert.near(one.end_s, box.to_s, 1e-7)
        seen = seen + 1
      end
    end
    assert.is_true(seen > 16 * 6 and seen < 4000)
    for s = 1, 16 do
      assert.is_truthy(names[s .. " forward of microbatch 1"] and names[s .. " backward of microbatch 1"])
      assert.is_truthy(names[s .. " backward of microbatch 1024"] and names[s .. " gradient reduction and optimizer"])
    end
    assert.is_nil(names["1 forward of microbatch 512"])
    -- one scale on both sides: width over time is the same for all boxes that no edge cuts
    local first <const>, last <const> = names["1 forward of microbatch 1"], names["1 backward of microbatch 1024"]
    assert.near(first.width / (first.to_s - first.from_s), last.width / (last.to_s - last.from_s), 1)
  end)

  it("draws plain outlines where there are too many boxes for titles", function()
    local page <const> = html.plan(long_plan(64, 128))
    assert_well_formed(page)
    assert.is_true(#page < 2e6)
  end)

  it("refuses a plan that can't be simulated or lacks what it shows", function()
    local plan = golden()
    plan.warmup = { 0, 1, 2 }
    assert.has_error(function() html.plan(plan) end)
    plan = golden()
    plan.pairs = nil
    local ok <const>, why <const> = pcall(html.plan, plan)
    assert.is_false(ok)
    assert.matches("^plan: pairs: missing, expected a table$", why)
  end)
end)

describe("trace", function()
  local function events_of(plan)
    local by_phase <const> = { X = {}, M = {}, s = {}, f = {} }
    local decoded <const> = assert(core.json_decode(trace.plan(plan)))
    for _, event in ipairs(decoded.traceEvents) do table.insert(by_phase[event.ph], event) end
    return by_phase
  end

  it("ends with the iteration, and is the same for equal plans", function()
    for _, plan in ipairs { golden(), long_plan(5, 20) } do
      local last_us = 0
      for _, event in ipairs(events_of(plan).X) do last_us = math.max(last_us, event.ts + event.dur) end
      assert.near(1e6 * plan.time_s, last_us, 1e-3)
      assert.equal(trace.plan(plan), trace.plan(core.json_decode(core.json_encode(plan))))
    end
  end)

  it("has each operation on its stage and island at the simulated time", function()
    local plan <const> = golden()
    local events <const> = events_of(plan)
    local _, operations <const> = core.plan_simulate(core.json_encode(plan))
    local found <const> = {}
    for _, event in ipairs(events.X) do found[event.tid .. event.name] = event end
    for _, one in ipairs(operations) do
      local event <const> = found[("%d%s %d"):format(one.stage, one.backward and "backward" or "forward", one.microbatch)]
      assert.near(1e6 * one.start_s, event.ts, 1e-3)
      assert.near(1e6 * (one.end_s - one.start_s), event.dur, 1e-3)
      assert.equal(one.stage <= 2 and 1 or 2, event.pid)
    end
    assert.equal(#operations + 3, #events.X)
    local names <const> = {}
    for _, event in ipairs(events.M) do
      if event.args.name then names[#names + 1] = ("%d/%d %s"):format(event.pid, event.tid, event.args.name) end
    end
    assert.same({ "1/0 island a100", "2/0 island v100", "1/1 stage 1", "1/2 stage 2", "2/3 stage 3" }, names)
  end)

  it("draws an arrow for each transfer, inside the operations it joins", function()
    local plan <const> = long_plan(4, 6)
    local events <const> = events_of(plan)
    assert.equal(2 * 3 * 6, #events.s)
    assert.equal(#events.s, #events.f)
    for i, start in ipairs(events.s) do
      local finish <const> = events.f[i]
      assert.equal(start.id, finish.id)
      assert.equal(start.name == "activations" and 1 or -1, finish.tid - start.tid)
      local inside = 0
      for _, event in ipairs(events.X) do
        for _, arrow in ipairs { start, finish } do
          if event.tid == arrow.tid and event.ts < arrow.ts and arrow.ts < event.ts + event.dur then inside = inside + 1 end
        end
      end
      assert.equal(2, inside)
    end
  end)
end)

describe("tangram report", function()
  local folder
  setup(function() folder = support.folder() end)
  teardown(function() support.remove(folder) end)

  it("prints the report, or writes the page and the trace", function()
    local status, out, err = support.run("tangram report " .. FILE)
    assert.same({ 0, "" }, { status, err })
    assert.equal(require("tangram.report.text").plan(golden()), out)
    status, out, err = support.run(("tangram report %s --html %s/p.html --trace %s/t.json"):format(FILE, folder, folder))
    assert.same({ 0, "", "" }, { status, out, err })
    assert.equal(html.plan(golden()), support.read(folder .. "/p.html"))
    assert.equal(trace.plan(golden()), support.read(folder .. "/t.json"))
    status, out = support.run("tangram report - --html - <" .. FILE)
    assert.equal(0, status)
    assert.equal(html.plan(golden()), out)
  end)

  it("gives from a plan's file what planning gives at once", function()
    support.write(folder .. "/tiny.lua", [[
      local tangram <const> = require "tangram"
      return tangram.plan {
        model = tangram.model { name = "tiny", family = "gpt2", layers = 4, hidden = 512, heads = 8, vocab = 1024, positions = 512 },
        cluster = tangram.cluster {
          nodes = { { name = "a", gpu = "a100-pcie-80", gpus = 2 }, { name = "t", gpu = "t4", gpus = 1 } },
          network = { default = { bytes_per_s = "10 GB/s" } },
        },
        training = { global_batch = 8, seq_len = 512, microbatches = { min = 8, max = 8 } },
      }]])
    local planned <const>, report <const>, err <const> = support.run(
      ("tangram plan DIR/tiny.lua --json DIR/plan.json --html DIR/a.html --trace DIR/a.json"):gsub("DIR", folder))
    assert.equal(0, planned, err)
    local status <const>, out <const> = support.run(
      ("tangram report DIR/plan.json --html DIR/b.html --trace DIR/b.json && tangram report DIR/plan.json"):gsub("DIR", folder))
    assert.equal(0, status)
    assert.equal(report, out)
    for _, names in ipairs { { "a.html", "b.html" }, { "a.json", "b.json" } } do
      assert.equal(support.read(folder .. "/" .. names[1]), support.read(folder .. "/" .. names[2]))
    end
    assert_well_formed(support.read(folder .. "/a.html"))
  end)

  it("says why islands are apart only of as many pairs as five islands have", function()
    local shown <const> = { [3] = 3, [5] = 10, [8] = 10 }
    for count, lines in pairs(shown) do
      local plan <const> = long_plan(count, 8)
      for i, node in ipairs(plan.cluster.nodes) do node.memory_bytes = 2 ^ (30 + i) end
      local out <const> = require("tangram.report.text").plan(plan)
      assert.equal(lines, select(2, out:gsub("are apart: memory", "")))
      local more <const> = out:match "… and (%d+) more pairs apart"
      assert.equal(count * (count - 1) // 2 - lines, tonumber(more or 0))
    end
  end)

  it("refuses with status 2 and one line", function()
    local short <const>, lacking <const> = golden(), golden()
    short.stages[3].memory.total_bytes = 1
    lacking.constants = { { name = "x", value = "1" } }
    support.write(folder .. "/short.json", core.json_encode(short))
    support.write(folder .. "/lacking.json", core.json_encode(lacking))
    support.write(folder .. "/broken.json", '{"format": ')
    local cases <const> = {
      { folder .. "/absent.json", "absent.json: No such file" },
      { folder .. "/broken.json", "broken.json:1:%d+: not JSON" },
      { folder .. "/short.json", "short.json: stages%[2%]" },
      { folder .. "/lacking.json", "lacking.json: constants%[1%]: " },
      { FILE .. " --html /nonexistent/p.html", "No such file" },
      { FILE .. " --htlm x", "%-%-htlm" },
      { "", "missing argument 'plan'" },
    }
    for _, case in ipairs(cases) do
      local status <const>, _, err <const> = support.run("tangram report " .. case[1])
      assert.equal(2, status, case[1])
      assert.matches("^tangram report: [^\n]*" .. case[2] .. "[^\n]*\n$", err)
    end
  end)

  it("helps with an example", function()
    local status <const>, out <const> = support.run "tangram report --help"
    assert.equal(0, status)
    assert.matches("Example: tangram report plan.json %-%-html", out)
  end)
end)
