local core <const> = require "tangram.core"
local support <const> = require "tests.spec.support"

describe("an installed tree", function()
  local prefix

  setup(function()
    prefix = support.folder()
    if support.sanitized then return end
    assert.equal(0, (support.run(("cmake --install %s --prefix %s"):format(support.quoted(support.build), prefix))))
  end)
  teardown(function() support.remove(prefix) end)

  local function test(name, check)
    it(name, function()
      if support.sanitized then return pending "installed trees are tested in the plain build" end
      check()
    end)
  end

  --- Runs a shell line outside the checkout.
  local function run(line)
    local status <const>, out <const>, err <const> = support.run("cd / && " .. line)
    assert.equal("", err)
    assert.equal(0, status)
    return out
  end

  local list_plugins <const> = "for _, kind in ipairs { 'parallelizer', 'cost', 'prune' } do "
    .. "print(kind, table.concat(require('tangram.loader').list(kind), ' ')) end"

  --- What stands in the checkout.
  local function plugins_here()
    local out <const> = {}
    for i, place in ipairs { "parallelizers", "lua/cost", "lua/prune" } do
      local names <const> = {}
      for name in select(2, support.run("ls " .. place)):gmatch "([^\n]+)%.lua\n" do names[#names + 1] = name end
      table.sort(names)
      out[i] = ({ "parallelizer", "cost", "prune" })[i] .. "\t" .. table.concat(names, " ") .. "\n"
    end
    return table.concat(out)
  end

  test("has a program that finds its plugins from anywhere, also after a move", function()
    local script <const> = support.write(prefix .. "/list.lua", list_plugins)
    assert.equal("tangram " .. core.version .. "\n", run(prefix .. "/bin/tangram version"))
    assert.equal(plugins_here(), run(("%s/bin/tangram %s"):format(prefix, script)))
    local moved <const> = prefix .. "/moved"
    run(("mkdir %s && cp -r %s/bin %s/share %s"):format(moved, prefix, prefix, moved))
    os.rename(prefix .. "/share", prefix .. "/hidden")
    local found <const> = run(("%s/bin/tangram %s"):format(moved, script))
    os.rename(prefix .. "/hidden", prefix .. "/share")
    assert.equal(plugins_here(), found)
  end)

  test("gives stock Lua the library, without a second Lua or libedit inside", function()
    local environment <const> = ("LUA_PATH_5_4='%s/share/lua/5.4/?.lua;%s/share/lua/5.4/?/init.lua;;' "):format(prefix, prefix)
      .. ("LUA_CPATH_5_4='%s/lib/lua/5.4/?.so;;' "):format(prefix)
    assert.equal(core.version .. "\n", run(environment .. "lua5.4 -e 'print(require(\"tangram\").version)'"))
    assert.equal(plugins_here(), run(('%s lua5.4 -e "%s"'):format(environment, list_plugins)))
    local needed <const> = run(("ldd %s/lib/lua/5.4/tangram/core.so"):format(prefix))
    assert.matches("libcjson", needed)
    assert.not_matches("liblua", needed)
    assert.not_matches("libedit", needed)
  end)

  test("gives C the library by pkg-config", function()
    local source <const> = support.write(prefix .. "/compose.c", [[
#include <stdio.h>
#include <tangram.h>
int main(void)
{
    static char text[1 << 16];
    size_t size = fread(text, 1, sizeof text, stdin);
    tg_pipeline *pipeline;
    tg_error err;
    if (tg_pipeline_compose(text, size, NULL, &pipeline, &err) != TG_OK)
        return fputs(err.message, stderr), 1;
    printf("%zu %.17g\n", tg_pipeline_plan_count(pipeline), tg_pipeline_time_s(pipeline));
    tg_pipeline_free(pipeline);
    return 0;
}
]])
    local environment <const> = ("PKG_CONFIG_PATH=%s/lib/pkgconfig; export PKG_CONFIG_PATH; "):format(prefix)
    run(("%s gcc -std=c11 -Wall -Werror %s -o %s/compose $(pkg-config --cflags --libs --static libtangram)"):format(environment, source,
      prefix))
    local instance <const> = "tests/fuzz/seeds/instance/two.json"
    local status <const>, out <const> = support.run(("%s/compose <%s"):format(prefix, instance))
    local composed <const> = core.compose(support.read(instance))
    assert.same({ 0, ("%d %.17g\n"):format(#composed.sequence, composed.time_s) }, { status, out })
    assert.equal(core.version .. "\n", run(environment .. "pkg-config --modversion libtangram"))
  end)

  test("has a manual page with each command", function()
    local page <const> = support.read(prefix .. "/share/man/man1/tangram.1"):gsub("\\", "")
    local count = 0
    for command, summary in run(prefix .. "/bin/tangram --help"):gmatch "\n  (%S+) +([^\n]+)" do
      assert(page:find((".B %s\n%s\n"):format(command, summary), 1, true), command)
      count = count + 1
    end
    assert.is_true(count >= 9)
  end)

  test("can be staged below DESTDIR", function()
    local stage <const> = support.folder()
    assert.equal(0, (support.run(("DESTDIR=%s cmake --install %s"):format(stage, support.quoted(support.build)))))
    local program <const> = run(("find %s -name tangram -type f -perm -u+x"):format(stage)):gsub("\n", "")
    local script <const> = support.write(prefix .. "/list.lua", list_plugins)
    assert.equal(plugins_here(), run(program .. " " .. script))
    support.remove(stage)
  end)
end)
