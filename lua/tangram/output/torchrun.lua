--- Scripts that start torchrun on each node with the static rendezvous: node ranks in the order of the pipeline, so that
--- ranks run on from node to node whatever number of processes each has. (The c10d rendezvous would number nodes anyhow.)
local launches <const> = require "tangram.output.launch"

local torchrun <const> = {}

--- A word as the shell takes it.
---@param word string|number
---@return string
function torchrun.quote(word)
  word = tostring(word)
  if word:find "^[%w_./:=,@%%+-]+$" then return word end
  return "'" .. word:gsub("'", "'\\''") .. "'"
end
local quote <const> = torchrun.quote

--- Words as lines of a shell array's body, an option and its values on one line.
---@param words (string|number)[][] each { "--option", value … }
---@return string
function torchrun.array(words)
  local lines <const> = {}
  for i, group in ipairs(words) do
    local quoted <const> = {}
    for k, word in ipairs(group) do quoted[k] = quote(word) end
    lines[i] = "  " .. table.concat(quoted, " ")
  end
  return table.concat(lines, "\n")
end

local function stages_text(host)
  local first <const>, last <const> = host.stages[1], host.stages[#host.stages]
  return first == last and ("stage %d"):format(first) or ("stages %d to %d"):format(first, last)
end
torchrun.stages_text = stages_text

--- Which GPUs the host's processes see, in order: nil for all of them as they are. Inside a Slurm allocation of some of a
--- node's GPUs Slurm decides.
---@param host table of launch.hosts
---@return string? devices
---@return boolean? partly are they only some of the machine's?
function torchrun.devices(host)
  if launches.whole(host) then return nil end
  return table.concat(host.gpus, ","), #host.gpus < host.machine_gpus
end

--- The variable that says which GPUs a process sees.
---@param host table
function torchrun.visible(host) return host.vendor == "AMD" and "HIP_VISIBLE_DEVICES" or "CUDA_VISIBLE_DEVICES" end

--- The network cards that NCCL may use on the host, exactly these; nil where the cluster does not name them.
---@param host table
---@return string?
function torchrun.nics(host) return host.nics and "=" .. table.concat(host.nics, ",") end

local function case_line(host, rank)
  local devices <const>, partly <const> = torchrun.devices(host)
  local export <const> = devices and ("export %s=%s; "):format(torchrun.visible(host), devices) or ""
  local nics <const> = host.nics and ("export NCCL_IB_HCA=%s; "):format(quote(torchrun.nics(host))) or ""
  return ("  %d) processes=%d; %s%s;; # %s: %s, ranks %d to %d\n"):format(rank, #host.gpus,
    partly and ('[ -n "${SLURM_JOB_ID:-}" ] || %s'):format(export) or export, nics, host.name, stages_text(host), host.first_rank,
    host.first_rank + #host.gpus - 1):gsub("; ;;", " ;;")
end

--- node.sh: starts one node's processes, by its rank among the nodes.
---@param launch table
---@param spec { setup: string, command: string, port: integer } setup: lines that define what command, the program and its
--- arguments, uses
---@return table file
function torchrun.node(launch, spec)
  local cases <const> = {}
  for h, host in ipairs(launch.hosts) do cases[h] = case_line(host, h - 1) end
  return { name = "node.sh", executable = true, text = ([[
#!/bin/bash
# Starts the processes of one node: node.sh NODE_RANK [ARGUMENT ...]. Arguments are passed on.
set -euo pipefail
cd "$(dirname "$0")"
node_rank=${1:?the rank of this node, 0 to %d}
shift
case $node_rank in
%s  *) echo "node.sh: node rank $node_rank, expected 0 to %d" >&2; exit 2 ;;
esac
%s
exec torchrun --rdzv-backend static --nnodes %d --node-rank "$node_rank" --nproc-per-node "$processes" \
  --master-addr "${MASTER_ADDR:-%s}" --master-port "${MASTER_PORT:-%d}" \
  %s "$@"
]]):format(#launch.hosts - 1, table.concat(cases), #launch.hosts - 1, spec.setup, #launch.hosts, launch.hosts[1].name, spec.port,
    spec.command) }
end

--- launch.sh: starts node.sh on every node over ssh; the folder must be at the same path on all.
---@param launch table
---@param variables string[] of the environment that the nodes need
---@return table file
function torchrun.ssh(launch, variables)
  local names <const> = {}
  for h, host in ipairs(launch.hosts) do names[h] = quote(host.name) end
  return { name = "launch.sh", executable = true, text = ([[
#!/bin/bash
# Starts node.sh on every node over ssh, in the order of ranks; this folder must be at the same path on all of them.
set -euo pipefail
cd "$(dirname "$0")"
hosts=(%s)
environment=$(for name in MASTER_ADDR MASTER_PORT%s; do
  [ -z "${!name+set}" ] || printf '%%s=%%q ' "$name" "${!name}"
done)
arguments=$([ $# -eq 0 ] || printf '%%q ' "$@")
pids=()
for rank in "${!hosts[@]}"; do
  ssh "${hosts[rank]}" "cd $(printf '%%q' "$PWD") && ${environment}./node.sh $rank $arguments" &
  pids+=($!)
done
status=0
for pid in "${pids[@]}"; do wait "$pid" || status=$?; done
exit $status
]]):format(table.concat(names, " "), #variables > 0 and " " .. table.concat(variables, " ") or "") }
end

--- How to launch these scripts, for the README.
---@param launch table
---@param variables string a line on the environment's variables
---@return string markdown
function torchrun.start(launch, variables)
  local lines <const> = { variables, "\n\n```sh\n./launch.sh            # from any machine that reaches the nodes by ssh\n```\n\n",
    "or, on each node by hand:\n\n```sh\n" }
  for h, host in ipairs(launch.hosts) do
    lines[#lines + 1] = ("./node.sh %d            # on %s: %d process%s, %s\n"):format(h - 1, host.name, #host.gpus,
      #host.gpus == 1 and "" or "es", stages_text(host))
  end
  lines[#lines + 1] = "```\n"
  return table.concat(lines)
end

return torchrun
