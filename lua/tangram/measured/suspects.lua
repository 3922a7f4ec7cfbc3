--- Rows of the public runs that can't be right, by id with the evidence. They are predicted and shown, and no figure of a
--- group counts them. A row stands here for what is printed of it or beside it, never for its error.
return {
  ["sailor_gh200-003"] = "a global batch of 1: fixed times alone",
  ["sailor_gh200-008"] = "its time is the gradient-reduction field of another run; 26 layers of a model of 34",
  ["sailor_mit-007"] = "time and memory of sailor_mit-003 to the last digit, at twice the batch and GPUs",
  ["mbridge_h100-015"] = "settings of mbridge_h100-011 at 1.77 times its time (another container)",
  ["mbridge_h100-020"] = "twice the time of mbridge_h100-025, which differs only in dropping tokens",
}
