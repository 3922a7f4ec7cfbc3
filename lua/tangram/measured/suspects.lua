--- Rows of the public runs that can't be right, by id with the evidence. They are predicted and shown, and no figure of a
--- group counts them. A row stands here for what is printed of it or beside it, never for how far its prediction is off.
local suspects <const> = {}

--- Neither time nor memory is to be trusted.
suspects.runs = {
  ["bigscience_a100-036"] = "bigscience_a100-018 listed again",
  ["bigscience_a100-034"] = "bigscience_a100-021 listed again",
  ["bigscience_a100-031"] = "bigscience_a100-022 listed again",
  ["llmfoundry-179"] = "MFU 45 on 32 GPUs, and 55 on 16 and on 64",
  ["mbridge_h100-015"] = "settings of mbridge_h100-011 at 1.77 times its time (another container)",
  ["mbridge_h100-020"] = "twice the time of mbridge_h100-025, which differs only in dropping tokens",
  ["sailor_gh200-003"] = "a global batch of 1: fixed times alone",
  ["sailor_gh200-008"] = "its time is the gradient-reduction field of another run; 26 layers of a model of 34",
  ["sailor_mit-007"] = "time and memory of sailor_mit-003 to the last digit, at twice the batch and GPUs",
  ["vtrain_multi-016"] = "twice the time of half its microbatch, for the same samples",
}

--- Only the memory is not to be trusted, or not that of the schedule.
suspects.memory = {
  ["bigscience_a100-015"] = "more than bigscience_a100-016, which has twice its microbatch",
  ["bigscience_a100-088"] = "settings of bigscience_a100-085, 21 GB more",
  ["dlperf_oneflow_v100-015"] = "OneFlow buffers more microbatches of a pipeline than 1F1B",
  ["dlperf_oneflow_v100-016"] = "OneFlow buffers more microbatches of a pipeline than 1F1B",
  ["dlperf_oneflow_v100-017"] = "OneFlow buffers more microbatches of a pipeline than 1F1B",
  ["sailor_gh200-011"] = "8 GiB less than sailor_gh200-001, whose stages are the same",
  ["sailor_mit-001"] = "less than the states of its parameters and one sample's activations",
  ["sailor_mit-002"] = "less than the states of its parameters and one sample's activations",
}
for _, id in ipairs { "087", "089", "091", "095", "096", "102", "103" } do
  suspects.memory["bigscience_a100-" .. id] = "of the date and settings of 088, whose figure is 21 GB above an equal run's"
end

return suspects
