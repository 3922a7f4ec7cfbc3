local hostlist <const> = require "tangram.input.hostlist"
local support <const> = require "tests.spec.support"

--- Expands one bracket after the other by textual replacement: slow, and with no code of the reader.
local function expand_by_hand(text)
  local parts <const>, depth, from = {}, 0, 1
  for i = 1, #text + 1 do
    local c <const> = text:sub(i, i)
    if c == "[" then depth = depth + 1 elseif c == "]" then depth = depth - 1 end
    if i > #text or c == "," and depth == 0 then
      parts[#parts + 1] = text:sub(from, i - 1)
      from = i + 1
    end
  end
  local names <const> = {}
  for _, part in ipairs(parts) do
    local open <const> = { part }
    while #open > 0 do
      local one <const> = table.remove(open, 1)
      local before <const>, inside <const>, after <const> = one:match "^([^%[]*)%[([^%]]*)%](.*)$"
      if not before then
        names[#names + 1] = one
      else
        local more <const> = {}
        for range in inside:gmatch "[^,]+" do
          local low <const>, high <const> = range:match "^(%d+)%-(%d+)$"
          for number = tonumber(low or range), tonumber(high or range) do
            local digits = tostring(number)
            while #digits < #(low or range) do digits = "0" .. digits end
            more[#more + 1] = before .. digits .. after
          end
        end
        table.move(open, 1, #open, #more + 1)
        for i, rest in ipairs(more) do open[i] = rest end
      end
    end
  end
  return names
end

local function random_list()
  local words <const> = {}
  for i = 1, math.random(4) do
    local word = ("gpu r-n x_ node. a"):match(("%S+ "):rep(math.random(0, 4)) .. "(%S+)")
    for _ = 1, math.random(0, 3) do
      local ranges <const> = {}
      for r = 1, math.random(3) do
        local low <const> = math.random(0, 120)
        local width <const> = math.random(1, 4)
        ranges[r] = math.random(2) == 1 and ("%0" .. width .. "d"):format(low)
          or ("%0" .. width .. "d-%d"):format(low, low + math.random(0, 4))
      end
      word = word .. "[" .. table.concat(ranges, ",") .. "]" .. (math.random(2) == 1 and "b" or "")
    end
    words[i] = word
  end
  return table.concat(words, ",")
end

describe("lists of nodes", function()
  it("expand as Slurm expands them", function()
    assert.same({ "gpu001", "gpu002", "gpu003", "gpu7", "x1" }, hostlist.expand "gpu[001-003,7],x1")
    assert.same({ "r1n08", "r1n09", "r1n10", "r2n08", "r2n09", "r2n10" }, hostlist.expand "r[1-2]n[08-10]")
    assert.same({ "n9", "n10", "n11" }, hostlist.expand "n[9-11]")
    assert.same({ "switch.2.1-ib", "switch.2.2-ib" }, hostlist.expand "switch.2.[1-2]-ib")
    assert.same({ "a", "a" }, hostlist.expand "a,a")
  end)

  it("expand as a slow expander does", function()
    math.randomseed(7)
    for _ = 1, support.scale(400) do
      local text <const> = random_list()
      assert.same(expand_by_hand(text), (assert(hostlist.expand(text))), text)
    end
  end)

  for text, why in pairs {
    [""] = "character 1", ["a,"] = "character 2", ["a[1-"] = "character 2", ["a[]"] = "character 2", ["a[1-2[3]]"] = "character 2",
    ["a b"] = "character 2", ["a[3-1]"] = "runs down", ["a[1-99999999]"] = "more than 65536 names",
    ["a[1-999]b[1-999]"] = "more than 65536", ["a[1-1234567890123456]"] = "at most 15 digits", [("n"):rep(300)] = "longer than 255",
  } do
    it(("refuse '%s'"):format(text:sub(1, 30)), function()
      local names <const>, reason <const> = hostlist.expand(text)
      assert.is_nil(names)
      assert.matches(why, reason, 1, true)
    end)
  end
end)
