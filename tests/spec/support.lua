--- What specs share: data beside the checkout, running the program, temporary files.
local support <const> = {}

--- The program under test: the one that runs the specs.
support.program = os.getenv "TANGRAM_PROGRAM" or "build/tangram"
if support.program:find "^[^/]" then -- wherever a spec goes
  local here <close> = assert(io.popen "pwd -P")
  support.program = here:read "l" .. "/" .. support.program
end

--- A text as one word of a shell's command line.
function support.quoted(text) return "'" .. text:gsub("'", "'\\''") .. "'" end

--- The program as a word of a shell's command line.
support.tangram = support.quoted(support.program)

--- The folder that the program was built in.
support.build = support.program:match "^(.*)/"

--- Whether sanitizers watch it: they take time and address space, and no other program can load what they built.
support.sanitized = false
for line in io.lines(support.build .. "/CMakeCache.txt") do
  if line:find "^TANGRAM_SANITIZE:STRING=." then support.sanitized = true end
end

--- A build whose tangram.core other programs can load.
support.loadable = support.sanitized and "build" or support.build

--- A command line that runs a script of stock Lua with our library from the checkout.
---@param script string
function support.stock(script)
  return ("LUA_PATH_5_4='./lua/?.lua;./lua/?/init.lua;./?.lua;;' LUA_CPATH_5_4=%s lua5.4 -e %s"):format(
    support.quoted(support.loadable .. "/lib/lua/5.4/?.so;;"), support.quoted(script))
end

--- How often to repeat what is repeated n times in a plain run: less often under sanitizers (TANGRAM_TEST_SCALE).
---@param n integer
---@return integer at least 1
function support.scale(n)
  return math.max(1, math.floor(n * (tonumber(os.getenv "TANGRAM_TEST_SCALE") or 1)))
end

--- A copy of a table with changed fields.
function support.with(given, changes)
  local copy <const> = {}
  for key, value in pairs(given) do copy[key] = value end
  for key, value in pairs(changes) do copy[key] = value end
  return copy
end

--- Counts runs: { "dense", "dense", "moe" } gives "2 dense 1 moe".
function support.runs(list)
  local words <const>, count = {}, 0
  for i, kind in ipairs(list) do
    count = count + 1
    if list[i + 1] ~= kind then
      words[#words + 1] = count .. " " .. kind
      count = 0
    end
  end
  return table.concat(words, " ")
end

--- A path of the shared data, or nil where it is absent (then: `return pending "…"`).
---@param path string e.g. "data/alpa/golden_interop_dp.json"
function support.shared(path)
  local full <const> = (os.getenv "TANGRAM_SHARED" or "../shared") .. "/" .. path
  local file <const> = io.open(full, "r")
  if not file then return nil end
  file:close()
  return full
end

function support.read(path)
  local file <close> = assert(io.open(path, "rb"))
  return file:read "a"
end

function support.write(path, text)
  local file <close> = assert(io.open(path, "wb"))
  file:write(text)
  return path
end

--- A new temporary folder; removed by `support.remove`.
function support.folder()
  local path <const> = os.tmpname()
  os.remove(path)
  assert(os.execute("mkdir " .. path))
  return path
end

function support.remove(folder) os.execute("rm -rf " .. folder) end

--- Runs a shell command line in which `tangram` stands for the program. One that hangs is ended, with status 124. The locale is
--- C's: bash warns of one that is not installed.
---@return integer status, string stdout, string stderr
function support.run(line)
  local out <const>, err <const> = os.tmpname(), os.tmpname()
  local script <const> = ("tangram() { %s \"$@\"; }; { %s; } >%s 2>%s </dev/null"):format(support.tangram, line, out, err)
  local _, how <const>, number <const> = os.execute("LC_ALL=C CDPATH= timeout --kill-after=5 300 sh -c " .. support.quoted(script))
  local stdout <const>, stderr <const> = support.read(out), support.read(err)
  os.remove(out)
  os.remove(err)
  return how == "signal" and 128 + number or number, stdout, stderr
end

--- A command line that runs the program, and another once the program would heed Ctrl-C and has then been busy for a while.
---@param busy_s number seconds of the processor, in the plain build
---@param words string the program's arguments
---@param next string the other command line; $$ is the program
function support.when_busy(busy_s, words, next)
  return ("sh tests/spec/busy.sh %d %s %s %s"):format(100 * busy_s * (support.sanitized and 5 or 1), support.quoted(next),
    support.tangram, words)
end

--- The least bottleneck of some plans, lists of stages; infinite for none.
---@param plans table[][]?
---@return number seconds of a microbatch
function support.least_bottleneck(plans)
  local least_s = math.huge
  for _, plan in ipairs(plans or {}) do
    local most_s = 0
    for _, stage in ipairs(plan) do most_s = math.max(most_s, stage.forward_s + stage.backward_s) end
    least_s = math.min(least_s, most_s)
  end
  return least_s
end

return support
