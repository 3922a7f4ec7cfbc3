--- Runs the commands of a document in the current folder, the top of a checkout: `build/tangram tests/readme.lua README.md`.
--- In a block fenced ```sh each line that starts with "$ " is a command (a trailing \ goes on), run by itself, with tangram in
--- the path; other lines show its output and are not compared. It must end with status 0, or N if it ends in "# status N".
--- A block fenced ```output is what the first command of the block before prints.
--- A block fenced ```lua must compile; if its first line is "-- NAME.lua" it is saved as that file for later commands.
--- Blocks with another word behind the fence are left alone. The last line is that of the specs.
local passed, failed = 0, 0
local printed -- by the first command of the last sh block

local function count(ok, what, why)
  if ok then passed = passed + 1 else failed = failed + 1 end
  print((ok and "ok     " or "FAILED ") .. what .. (ok and "" or ": " .. why))
end

local function run(command)
  local wanted <const> = math.tointeger(tonumber(command:match "# status (%d+)%s*$")) or 0
  local script <const> = ("PATH=$PWD/build:$PATH; %s"):format(command):gsub("'", "'\\''")
  local path <const> = os.tmpname()
  local _, how <const>, status <const> = os.execute(("timeout 1200 sh -c '%s' </dev/null >%s"):format(script, path))
  local text
  for line in io.lines(path) do
    print(line)
    text = (text or "") .. line .. "\n"
  end
  os.remove(path)
  printed = printed or text or ""
  count(how == "exit" and status == wanted, command, ("%s %d, expected exit %d"):format(how, status, wanted))
end

local blocks <const> = {}

blocks.sh = function(lines)
  local before <const> = passed + failed
  local command
  printed = nil
  for _, line in ipairs(lines) do
    command = command and command .. "\n" .. line or line:match "^%$ (.*)"
    if command and not command:find "\\$" then
      run(command)
      command = nil
    end
  end
  if passed + failed == before then count(false, lines[1] or "(an empty block)", "no line of this sh block starts with '$ '") end
end

blocks.output = function(lines)
  count(printed == table.concat(lines, "\n") .. "\n", "the output shown", "the command prints something else")
end

blocks.lua = function(lines)
  local text <const> = table.concat(lines, "\n") .. "\n"
  local chunk <const>, why <const> = load(text, "@" .. lines[1], "t")
  count(chunk, lines[1], why)
  local name <const> = lines[1]:match "^%-%- ([%w_]+%.lua)$"
  if name then
    local file <close> = assert(io.open(name, "w"))
    file:write(text)
  end
end

local kind, lines
for line in io.lines(arg[1]) do
  local fence <const> = line:match "^```(.*)"
  if fence and not kind then
    kind, lines = fence, {}
  elseif fence then
    if blocks[kind] then blocks[kind](lines) end
    kind = nil
  elseif kind then
    lines[#lines + 1] = line
  end
end
if kind then count(false, arg[1], "the last block has no end") end
print(("%d passed, %d failed, 0 skipped"):format(passed, failed))
os.exit(failed == 0, true)
