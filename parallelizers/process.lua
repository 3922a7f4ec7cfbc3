--- Any program, in any language, as a parallelizer: it reads a JSON object a line and answers each with one
--- (docs/process-adapter.md). The program is the one that the recipe or the command line names.
local program <const> = require "tangram.program"

return {
  api = 1, kind = "parallelizer", name = "process", own_times = true,
  description = "a program of yours that answers JSON lines",
  options = {
    command = {
      any_of = { { type = "string" }, { type = "list", item = { type = "string" }, min = 1 } }, required = true,
      doc = "the program and its arguments, with blanks between or as a list; no shell reads it",
    },
    seconds = { type = "number", above = 0, doc = "within which it answers a question; default: the query's" },
    options = { type = "table", default = {}, doc = "passed on to the program" },
  },
  plan = function(slice, island, ctx) return program.ask(slice, island, ctx) end,
}
