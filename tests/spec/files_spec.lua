local core <const> = require "tangram.core"
local plans <const> = require "tests.spec.fixtures.plans"
local support <const> = require "tests.spec.support"

--- Every command with a file that it reads or writes, X in its place.
describe("files that commands", function()
  local folder
  local function at(name) return folder .. "/" .. name end

  setup(function()
    folder = support.folder()
    support.write(at "plan.json", core.json_encode(plans.three_stages()))
    support.write(at "runs.csv", "id,gpu,n_gpus,layers,hidden,heads,vocab,seq,tp,pp,dp,mbs,gbs,precision,recompute,iter_time_s\n"
      .. ("r%d,A100-SXM4-80GB,8,24,%d,16,51200,1024,1,1,8,1,64,bf16,full,%d\n"):rep(3):format(1, 1024, 2, 2, 2048, 4, 3, 4096, 9))
    support.write(at "hosts", "node1 slots=8\n")
  end)
  teardown(function() support.remove(folder) end)

  local function run(words)
    return support.run(("cd %s && { %s; }"):format(folder, (words:gsub("RECIPES", '"$OLDPWD"/recipes'))))
  end

  local function refused(status, err, pattern)
    assert.equal(2, status, err)
    assert.equal(1, select(2, err:gsub("\n", "")), err)
    assert.matches(pattern, err)
  end

  local reading <const> = {
    "plan X", "plan --model X --cluster plan.json", "plan --model RECIPES/models/llama-3.1-8b.json --cluster X",
    "plan --gpus X RECIPES/quickstart.lua",
    "plan --training X RECIPES/quickstart.lua", "islands --cluster X", "compose X", "simulate X", "explain X", "report X", "validate X",
    "validate --profiles X --cost profiled runs.csv", "calibrate X", "export X --to megatron -o new", "cluster show X", "cluster import X",
    "cluster import --gpus X hosts", "model show X", "adapter check ./X", "adapter show ./X", "store list X", "run X", "repl X",
  }
  for _, words in ipairs(reading) do
    it("read are named where they can't be: " .. words, function()
      os.execute(("cd %s; mkdir -p folder; ln -sf loop loop; printf '\\377\\000x' >bytes"):format(folder))
      for name, why in pairs { folder = "Is a directory", loop = "Too many levels of symbolic links" } do
        local status <const>, _, err <const> = run("tangram " .. words:gsub("X", name))
        refused(status, err, "^tangram[ %l]*: .*%f[%w]" .. name .. "[:,].*")
        assert.matches(words:find "^store" and "expected" or why, err)
      end
      local status <const>, _, err <const> = run("tangram " .. words:gsub("X", "bytes"))
      refused(status, err, "%f[%w]bytes:")
    end)
  end

  local writing <const> = {
    "plan --model RECIPES/models/llama-3.1-8b.json --cluster plan.json --global-batch 8 --seq-len 512 --quiet --json X",
    "islands --cluster plan.json --json X", "compose --generate 1,4,2,1 --json X", "compose --generate 1,4,2,1 --write X",
    "simulate plan.json --json X", "report plan.json --html X", "report plan.json --trace X", "validate runs.csv --json X",
    "validate runs.csv --html X", "calibrate runs.csv -o X", "cluster show plan.json --json X",
    "cluster import hosts --gpu-type '*=t4' --bytes-per-s '1 GB/s' --bytes-per-s 'inside=9 GB/s' -o X",
    "model show RECIPES/models/llama-3.1-8b.json --json X",
  }
  for _, words in ipairs(writing) do
    it("write say where they can't: " .. words, function()
      local function write_to(name) return run("tangram " .. words:gsub("X", name)) end
      os.execute(("cd %s; ln -sf /dev/full full; mkdir -p folder"):format(folder))
      local full <const>, _, full_why <const> = write_to "full"
      assert.equal(2, full)
      assert.matches("full: No space left on device, expected a place to write to\n$", full_why)
      local status <const>, out <const>, err <const> = write_to "folder"
      refused(status, err, "folder: Is a directory, expected a place to write to\n$")
      assert.equal("", out) -- it is said before the work is done
      local printed <const>, _, print_why <const> = write_to "- >/dev/full"
      assert.equal(2, printed)
      assert.matches("tangram: standard output: can't write all of it", print_why)
    end)
  end

  it("write are whole or as they were, and what is no file stays what it is", function()
    -- in a process of its own, whose umask is known
    local write <const> = support.write(folder .. "/write.lua", [[
      for _, name in ipairs { "file", "link", "pipe", "new" } do assert(require "tangram.core".write_file(name, "text")) end]])
    local status <const>, listing <const>, told <const> = run(("umask 022; mkdir out; cd out; ln -s target link; echo mine >file.tmp; "
      .. "echo old >file; chmod 660 file; mkfifo pipe; timeout 60 cat pipe >read & tangram %s && wait && stat -c '%%A %%n' *; "
      .. "cat file target read new file.tmp"):format(write))
    assert.equal(0, status, told)
    assert.equal("-rw-rw---- file\n-rw-r--r-- file.tmp\nlrwxrwxrwx link\n-rw-r--r-- new\nprw-r--r-- pipe\n-rw-r--r-- read\n"
      .. "-rw-r--r-- target\ntexttexttexttextmine\n", listing) -- and nothing is left beside them
    for path, why in pairs { ["absent/x"] = "No such file or directory", out = "Is a directory", ["hosts/x"] = "Not a directory",
      [("x"):rep(300)] = "File name too long" } do
      local sentence <const> = at(path) .. ": " .. why .. ", expected a place to write to"
      assert.same({ nil, sentence }, { core.write_file(at(path), "text") })
      assert.same({ nil, sentence }, { core.may_write(at(path)) })
    end
  end)

  for _, words in ipairs { "version", "--help", "plan --help", "export --list", "report plan.json" } do
    it("print say that standard output is full: " .. words, function()
      local status <const>, _, err <const> = run("tangram " .. words .. " >/dev/full")
      refused(status, err, "^tangram: standard output: can't write all of it")
    end)
  end

  for _, words in ipairs { "plan --json - --html - RECIPES/quickstart.lua", "report plan.json --html - --trace -",
    "validate runs.csv --json - --html -" } do
    it("would write share no standard output: " .. words, function()
      local status <const>, out <const>, err <const> = run("tangram " .. words)
      refused(status, err, "both got '%-', expected standard output for one of them")
      assert.equal("", out)
    end)
  end
end)
