--- Runs exported scripts with stand-ins for torchrun, ssh, srun, scontrol and python that write down how they were called,
--- and says what each process would be: nothing of the exporters is used.
local scripts <const> = {}

local STANDINS <const> = {
  torchrun = [[
printf -v line '\t%s' "${CUDA_VISIBLE_DEVICES-${HIP_VISIBLE_DEVICES-all}}" "${CUDA_DEVICE_MAX_CONNECTIONS-}" "$PWD" "$@"
printf '%s\n' "${HOST:-}$line" >>"$RECORD"
]],
  ssh = [[
host=$1; shift
HOST=$host bash -c "$*"
]],
  scontrol = [[
tr , '\n' <<<"$3"
]],
  srun = [[
group=
case $1 in --het-group=*) group=${1#*=}; shift ;; esac
list=SLURM_JOB_NODELIST${group:+_HET_GROUP_$group}
id=0
for host in $(tr , ' ' <<<"${!list}"); do
  HOST=$host SLURM_NODEID=$id "$@"
  id=$((id + 1))
done
]],
  python = [[
printf -v line '\t%s' python "$@"
printf '%s\n' "$PWD$line" >>"$RECORD"
]],
}

--- A folder of stand-ins below `folder`; the prefix that puts them in a command's way, and takes away what the environment
--- says of GPUs, ranks and nodes, as it does on some machines.
---@param folder string
---@return string prefix of a shell command
function scripts.stage(folder)
  assert(os.execute(("mkdir -p '%s/bin'"):format(folder)))
  for name, body in pairs(STANDINS) do
    local path <const> = ("%s/bin/%s"):format(folder, name)
    local file <close> = assert(io.open(path, "w"))
    file:write("#!/bin/bash\n", body)
  end
  assert(os.execute(("chmod +x '%s'/bin/*"):format(folder)))
  return ([[unset $(env | sed -n '/^PATH=/!s/^\([A-Za-z_][A-Za-z_0-9]*\)=.*/\1/p')
    export LC_ALL=C PATH='%s/bin':$PATH RECORD='%s/record' MEGATRON=/megatron FLAGSCALE=/; ]]):format(folder, folder)
end

--- The calls written down since the last time: lists of words.
---@param folder string
---@return string[][]
function scripts.calls(folder)
  local calls <const>, path <const> = {}, folder .. "/record"
  local file <const> = io.open(path, "r")
  if not file then return calls end
  for line in file:lines() do
    local words <const> = {}
    for word in (line .. "\t"):gmatch "(.-)\t" do words[#words + 1] = word end
    calls[#calls + 1] = words
  end
  file:close()
  os.remove(path)
  return calls
end

--- Arguments as a table: --name value …, --name as true; what stands without a name is in order under numbers.
---@param words string[] of a call
---@param from integer the first of them
function scripts.arguments(words, from)
  local map = {}
  local at = from
  while at <= #words do
    local name <const> = words[at]:match "^%-%-(.*)$"
    if not name then
      map[#map + 1], at = words[at], at + 1
    elseif words[at + 1] and not words[at + 1]:find "^%-%-" then
      assert(map[name] == nil, name .. " is given twice")
      map[name], at = tonumber(words[at + 1]) or words[at + 1], at + 2
    else
      map[name], at = true, at + 1
    end
  end
  return map
end

--- The processes that torchrun calls stand for, by rank from 0: { host, device }, and the arguments, which must be the same
--- on all nodes.
---@param calls string[][]
---@return table processes
---@return table arguments
function scripts.processes(calls)
  local by_rank <const>, common = {}, nil
  for _, call in ipairs(calls) do
    local args <const> = scripts.arguments(call, 5)
    local rank <const> = args["node-rank"]
    assert(not by_rank[rank], "two nodes of one rank")
    by_rank[rank] = { host = call[1], devices = call[2], count = args["nproc-per-node"], connections = call[3] }
    args["node-rank"], args["nproc-per-node"] = nil, nil
    assert(args["rdzv-backend"] == "static" and args.nnodes == #calls)
    for name, value in pairs(common or args) do assert(args[name] == value, name) end
    common = args
  end
  local processes <const>, rank = {}, 0
  for n = 0, #calls - 1 do
    local node <const> = assert(by_rank[n], "a node rank is missing")
    local devices <const> = {}
    for device in node.devices:gmatch "%d+" do devices[#devices + 1] = tonumber(device) end
    assert(node.devices == "all" or #devices == node.count, "as many GPUs as processes")
    for i = 1, node.count do
      processes[rank] = { host = node.host, device = devices[i] or i - 1 }
      rank = rank + 1
    end
  end
  processes.count, processes.connections = rank, by_rank[0].connections
  return processes, common
end

--- The words of a shell array's body.
local function words_of(body)
  local words <const> = {}
  for quoted, plain in body:gmatch "%f[^%s]'([^'\n]*)'%f[%s]()" do words[#words + 1] = { plain, quoted } end
  for at, plain in body:gmatch "()%f[^%s]([^%s']+)%f[%s]" do words[#words + 1] = { at, plain } end
  table.sort(words, function(a, b) return a[1] < b[1] end)
  for i, word in ipairs(words) do words[i] = word[2] end
  return words
end

--- What scripts.processes gives, read from the text of node.sh and launch.sh without running them: quick, for many plans.
---@param node string
---@param launch string
function scripts.read(node, launch)
  local hosts <const>, processes <const>, rank = {}, {}, 0
  for host in launch:match "\nhosts=%(([^)]*)%)":gmatch "%S+" do hosts[#hosts + 1] = host end
  for n, host in ipairs(hosts) do
    local line <const> = assert(node:match(("\n  %d%%) ([^\n]*)"):format(n - 1)))
    local devices <const> = {}
    for device in (line:match "VISIBLE_DEVICES=(%S+);" or line:match "VISIBLE_DEVICES=(%S+) ;;" or ""):gmatch "%d+" do
      devices[#devices + 1] = tonumber(device)
    end
    for i = 1, tonumber(line:match "processes=(%d+)") do
      processes[rank] = { host = host, device = devices[i] or i - 1 }
      rank = rank + 1
    end
  end
  processes.count = rank
  return processes, scripts.arguments(words_of(assert(node:match "\nPLAN=%((.-)\n%)") .. " "), 1)
end

return scripts
