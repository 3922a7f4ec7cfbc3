local support <const> = require "tests.spec.support"

--- Runs bootstrap with stand-ins for the system's package tools in front of the path.
local function bootstrap(arguments, tools)
  local folder <const> = support.folder()
  for name, script in pairs(tools) do
    os.execute("chmod +x " .. support.write(folder .. "/" .. name, "#!/bin/sh\n" .. script))
  end
  local status <const>, out <const>, err <const> = support.run(("PATH=%s:$PATH ./bootstrap %s"):format(folder, arguments))
  support.remove(folder)
  return status, out, err
end

-- All is installed, lua-lpeg aside (a package that was removed leaves its configuration behind).
local no_lpeg <const> = [[
shift 2
for name in "$@"; do
  case $name in
  lua-lpeg) echo "$name config-files" ;;
  *) echo "$name installed" ;;
  esac
done]]

describe("bootstrap", function()
  it("names what is missing and why, and stops with status 2", function()
    local status <const>, out <const>, err <const> = bootstrap("--no-install version", { ["dpkg-query"] = no_lpeg })
    assert.equal(2, status)
    assert.equal("", out)
    assert.equal("bootstrap: packages are not installed; missing:\n  lua-lpeg        grammars of input files\n", err)
  end)

  it("says so where packages can't be fetched", function()
    local status <const>, _, err <const> = bootstrap("version",
      { ["dpkg-query"] = no_lpeg, ["apt-get"] = "echo 'E: no route' >&2; exit 100", sudo = 'exec "$@"' })
    assert.equal(2, status)
    assert.matches("E: no route\nbootstrap: apt%-get could not install everything.*missing:\n  lua%-lpeg", err)
  end)

  it("asks apt-get to update first, then for the missing packages alone", function()
    local log <const> = os.tmpname()
    local tools <const> = {
      ["dpkg-query"] = ("[ -s %s ] && { shift 2; for name; do echo $name installed; done; exit; }\n%s"):format(log, no_lpeg),
      ["apt-get"] = "echo \"$@\" >>" .. log, sudo = 'exec "$@"',
    }
    assert.equal(0, (bootstrap("packages", tools)))
    local lines <const> = support.read(log)
    os.remove(log)
    assert.matches("^update %-qq\ninstall [^\n]* lua%-lpeg\n$", lines)
    assert.not_matches("gcc", lines)
  end)

  it("says what a system without dpkg lacks", function()
    local status <const>, _, err <const> = bootstrap("version", { ["dpkg-query"] = "exit 127", ["apt-get"] = "exit 1", sudo = "exit 1" })
    assert.equal(2, status)
    assert.matches("\n  gcc  .*\n  lua%-argparse  ", err)
  end)
end)
