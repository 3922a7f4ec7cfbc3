local contract <const> = require "tangram.contract"
local help <const> = require "tangram.help"
local loader <const> = require "tangram.loader"
local pretty <const> = require "tangram.pretty"
local repl <const> = require "tangram.repl"
local support <const> = require "tests.spec.support"
local terminal <const> = require "tests.spec.terminal"

describe("values for people", function()
  it("are sorted, on one line where they fit", function()
    assert.equal('{ 1, "a\\n", { x = true }, b = 0.333333, c = 2, ["d e"] = null }',
      pretty.show { 1, "a\n", { x = true }, c = 2, b = 1 / 3, ["d e"] = require("tangram.core").null })
    assert.equal("text as it is", pretty.show "text as it is")
    assert.equal("{}", pretty.show {})
  end)

  it("are cut below a depth, at long lists and where they hold themselves", function()
    assert.equal("{ a = { b = { … 1 } } }", pretty.show({ a = { b = { c = 1 } } }, 2))
    local long <const> = {}
    for i = 1, 30 do long[i] = i end
    assert.matches("19, 20, … 10 more }$", pretty.show(long))
    local ring <const> = { name = "ring" }
    ring.self = ring
    assert.equal('{ name = "ring", self = { … itself } }', pretty.show(ring))
  end)

  it("stand one field a line where they are wide", function()
    local wide <const> = { first = ("x"):rep(60), second = ("y"):rep(60) }
    assert.equal(('{\n  first = "%s",\n  second = "%s"\n}'):format(wide.first, wide.second), pretty.show(wide))
  end)
end)

describe("completion", function()
  local inner <const> = setmetatable({ beta = 1, better = 2 }, { __index = { best = print } })
  local globals <const> = { alpha = { inner, name = "x" }, alphabet = 1, text = "s",
    closed = setmetatable({}, { __index = function() error "called" end }) }

  it("gives what surely comes next, else the choices", function()
    assert.equal("ha", repl.complete("x = alp", globals))
    assert.same({ n = 2, nil, "alpha     alphabet" }, table.pack(repl.complete("alpha", globals)))
    assert.is_nil(repl.complete("zzz", globals))
  end)

  it("knows fields, elements, metatables and methods", function()
    assert.equal("me", repl.complete("alpha.na", globals))
    assert.same({ n = 2, nil, "best    beta    better" }, table.pack(repl.complete("alpha[1].be", globals)))
    assert.equal("st", repl.complete("alpha[1]:be", globals)) -- the only function
    assert.equal("per", repl.complete("text:up", globals))
    assert.is_nil(repl.complete("closed.x", globals))
    assert.is_nil(repl.complete("f().x", globals))
    assert.is_nil(repl.complete("alpha[9].x", globals))
  end)
end)

describe("help", function()
  it("shows the comment and parameters of a function, from the source", function()
    local text <const> = help.text(repl.complete)
    assert.matches("^repl.complete%(text, globals%)\n  Completes the name in front of the cursor.\n", text)
    assert.matches("\n    text: string the line up to the cursor\n", text)
  end)

  it("shows fields from the schema that checks them", function()
    local text <const> = help.text "training"
    for name in pairs(require("tangram.training").fields) do assert.matches("\n  " .. name .. " ", text) end
    assert.matches("a whole number from 1 to 16777216; required", text)
  end)

  it("shows plugins and their options", function()
    assert.matches("uniform, a parallelizer: .*\n  max_tp ", help.text "uniform")
    assert.matches("\n  supports ", help.text "parallelizer")
    assert.matches("did you mean 'training'", help.text "trainig")
    -- two plugins of one name, of which one can't be loaded without its options
    assert.matches("^galvatron, a cost model: .*\n  profiles .*\ngalvatron, a parallelizer: .*\n  max_sp ", help.text "galvatron")
    for _, kind in ipairs { "parallelizer", "cost", "prune" } do
      for _, name in ipairs(loader.list(kind)) do
        assert.truthy(help.text(name):find(name .. ", a " .. contract.nouns[kind] .. ": ", 1, true), name)
      end
    end
  end)
end)

describe("tangram repl", function()
  local home, session

  local function open(arguments)
    session = terminal.open(("XDG_STATE_HOME=%s %s repl %s"):format(home, support.tangram, arguments or ""))
    session:expect "> "
  end

  local function exchange(input, output)
    session:send(input)
    session:expect(output)
    session:expect "> "
  end

  setup(function() home = support.folder() end)
  teardown(function() support.remove(home) end)

  it("prints expressions, runs statements, goes on while a chunk is incomplete", function()
    open()
    exchange("6 * 7\n", "\n42\r\n")
    exchange("n = 3\n", "\n")
    session:send "for i = 1, n do\n"
    session:expect ">> "
    session:send "  print(i * 111)\n"
    session:expect ">> "
    exchange("end\n", "111\r\n222\r\n333\r\n")
    exchange("{ b = 1, a = { 'x' } }\n", '{ a = { "x" }, b = 1 }\r\n')
    exchange("nil + 1\n", "stdin:1: attempt to perform arithmetic on a nil value\r\n")
    exchange("x = = 2\n", "stdin:1: unexpected symbol near '='\r\n")
    session:send "\4"
    assert.equal(0, session:close())
  end)

  it("completes with the Tab key", function()
    open()
    exchange("tangram.vers\t == '" .. require("tangram.core").version .. "'\n", "\ntrue\r\n")
    session:send "io.stdout:se\t"
    session:expect "seek     setvbuf"
    session:send "ek\t()\n"
    session:expect "Illegal seek"
    session:close()
  end)

  it("drops the line, and stops what runs, at Ctrl-C", function()
    open()
    session:send "kept = 5; dropped ="
    session:expect "dropped ="
    exchange("\3", "")
    exchange("kept == nil\n", "\ntrue\r\n")
    session:send "print('run' .. 'ning') while true do pcall(error) end\n"
    session:expect "running\r\n"
    exchange("\3", "interrupted\r\n")
    session:send "local function f()\n"
    session:expect ">> "
    exchange("\3", "")
    exchange("1 + 2\n", "\n3\r\n")
    session:close()
  end)

  it("remembers lines from one session to the next", function()
    open()
    exchange("'first' .. '-' .. 'line'\n", "first-line\r\n")
    session:close()
    open()
    exchange("\27[A\n", "first-line\r\n")
    session:close()
  end)

  it("has a recipe's plan, cluster and model, and stops after planning too", function()
    open "tests/spec/fixtures/small_recipe.lua"
    exchange("#cluster.nodes, model.name, cluster == plan.cluster\n", "\n2\r\nsmall\r\ntrue\r\n")
    exchange("plan\n", "tokens/s")
    session:send "again = tangram.plan { model = model, cluster = cluster, training = plan.training }\n"
    session:expect "> "
    session:send "print(again.format) while true do end\n"
    session:expect "tangram.plan/1\r\n"
    exchange("\3", "interrupted\r\n")
    session:close()
    local status <const>, _, err <const> = support.run "tangram repl missing.lua </dev/null"
    assert.equal(2, status)
    assert.matches("^tangram repl: .*missing.lua", err)
  end)

  it("runs piped input as a script, with status 2 at the first error", function()
    local status, out, err = support.run "echo 'x = 2 print(x * 21)' | tangram repl"
    assert.same({ 0, "42\n", "" }, { status, out, err })
    status, out, err = support.run "printf 'print(1)\\nerror(\"wrong\")\\nprint(2)' | tangram repl"
    assert.same({ 2, "1\n" }, { status, out })
    assert.matches("^tangram repl: stdin:2: wrong\n", err)
    status, out, err = support.run "printf 'print(1)\\nprint(' | tangram repl"
    assert.same({ 2, "" }, { status, out })
    assert.matches("^tangram repl: stdin:2: unexpected symbol near <eof>\n$", err)
  end)
end)
