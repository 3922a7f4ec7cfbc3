-- Writes the manual page: lua5.4 man.lua PROGRAM OUT. Commands and their lines are those of the program's own help.
local program <const>, out <const> = arg[1], arg[2]

local function output_of(arguments)
  local pipe <close> = assert(io.popen(("'%s' %s"):format(program:gsub("'", "'\\''"), arguments)))
  return pipe:read "a"
end

local function roff(text) return (text:gsub("\\", "\\e"):gsub("%-", "\\-"):gsub("^[.']", "\\&%0")) end

local commands <const> = {}
for name, summary in output_of("--help"):gmatch "\n  (%S+) +([^\n]+)" do
  commands[#commands + 1] = (".TP\n.B %s\n%s\n"):format(roff(name), roff(summary))
end
assert(#commands > 0, "the program names no command")

local page <const> = ([[
.TH TANGRAM 1 "" "%s"
.SH NAME
tangram \- plan the training of one large language model over unlike GPUs
.SH SYNOPSIS
.B tangram
.I command
[\fIoption\fR ...]
.br
.B tangram
.I script.lua
[\fIargument\fR ...]
.SH DESCRIPTION
Groups a cluster into islands of alike GPUs, cuts the model into slices, has a parallelizer plan each slice on each island,
and composes the partial plans into one balanced pipeline.
.B tangram
.I command
.B \-\-help
describes a command's options, with an example.
A script runs as in
.BR lua5.4 (1),
with the library inside.
.SH COMMANDS
%s.SH EXIT STATUS
.TP
.B 0
done, also when stopped early with a plan
.TP
.B 1
a fault of tangram itself
.TP
.B 2
wrong input or words, a script that fails, a refused export
.TP
.B 3
no feasible plan
.TP
.B 4
stopped before any plan
.SH ENVIRONMENT
.TP
.B XDG_STATE_HOME
the history of
.B tangram repl
is kept in tangram/history below it; ~/.local/state where it is not set
.SH EXAMPLE
.EX
tangram plan \-\-model config.json \-\-cluster cluster.json \-\-global\-batch 64 \-\-seq\-len 4096
.EE
]]):format(roff((output_of "version":gsub("%s+$", ""))), table.concat(commands))

local file <close> = assert(io.open(out, "w"))
file:write(page)
