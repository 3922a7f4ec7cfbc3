--- Output that people take for what a reader wants, by how it starts or a line of it, and what to give instead.
local KNOWN <const> = {
  { "\n| NVIDIA%-SMI %d", "nvidia-smi's table", "'nvidia-smi topo -m' and 'nvidia-smi --query-gpu=index,name,memory.total --format=csv'" },
  { "\nPartitionName=", "'scontrol show partition'", "'scontrol show node'" },
  { "\nJobId=%d", "'scontrol show job'", "'scontrol show node'" },
  { "\n[ \t]*JOBID[ \t]+PARTITION", "'squeue'", "sinfo -N -o '%N %G %T'" },
  { "\nClusterName=", "slurm.conf", "'scontrol show node'" },
  { "\nNAME%s+STATUS%s+ROLES", "'kubectl get nodes'", "'kubectl get nodes -o json' or '--show-labels'" },
  { "\nAllocated resources:\n", "'kubectl describe node'", "'kubectl get nodes -o json'" },
  { "\nhca_id:", "'ibv_devinfo'", "'ibstat'" },
  { "\nROCk module", "'rocminfo'", "'rocm-smi --showtopo'" },
  { "\n%x%x:%x%x%.%x [^\n]*:", "'lspci'", "'nvidia-smi topo -m'" },
  { "\nArchitecture:%s+%S", "'lscpu'", "'nvidia-smi topo -m'" },
  { '"tangram%.plan/1"', "a plan", "it as --cluster of 'tangram plan', which takes the plan's cluster" },
  { '"tangram%.cluster/1"', "a cluster file already", "it as --cluster of 'tangram plan'" },
  { '"model_type"', "a model's config.json", "it as --model of 'tangram plan'" },
}

--- What a text seems to be that no reader takes, and what to give instead; nil if it is nothing of the kind.
---@param text string
---@return string? sentence "looks like …, expected …"
return function(text)
  local head <const> = "\n" .. text:sub(1, 65536)
  for _, one in ipairs(KNOWN) do
    if head:find(one[1]) then return ("looks like %s, expected %s"):format(one[2], one[3]) end
  end
end
