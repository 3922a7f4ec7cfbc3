--- States of Slurm's nodes, as scontrol (long) and sinfo (long or short) print them.
local USABLE <const> = {
  idle = true, mixed = true, mix = true, allocated = true, alloc = true, completing = true, comp = true,
}

--- What a mark behind the state means.
local MARKS <const> = {
  ["*"] = "not responding", ["~"] = "powered down", ["#"] = "powering up or being configured", ["!"] = "to be powered down",
  ["%"] = "powering down", ["$"] = "reserved for maintenance", ["@"] = "to be rebooted", ["^"] = "rebooting",
  ["-"] = "planned for another job",
}

--- Why a node in this state is not planned with; nil if it is: idle, mixed or allocated, without a mark or a further state.
---@param state string e.g. "IDLE", "mix-", "IDLE+DRAIN"
---@return string? why
return function(state)
  local base <const> = state:lower():match "^%a+"
  local mark <const> = state:match "[^%a_+]"
  for part in state:lower():gmatch "[%a_]+" do
    if not USABLE[part] then return "state " .. state end
  end
  if not base then return ("state '%s'"):format(state) end
  if mark then return ("state %s (%s)"):format(state, MARKS[mark] or "unknown mark") end
  return nil
end
