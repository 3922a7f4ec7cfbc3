--- `tangram model show`: a model's dimensions, parameters and atoms.
local core <const> = require "tangram.core"
local files <const> = require "tangram.files"
local model <const> = require "tangram.model"
local options <const> = require "tangram.cli.options"

local function make_parser()
  local parser <const> = options.parser("tangram model", "Read a model's configuration.", "tangram model show config.json")
  local show <const> = options.command(parser, "show", "print dimensions, parameters, memory of the states and atoms",
    "tangram model show config.json --seq-len 4096\ntangram model show config.json --family gpt2 --seq-len 1024 --json -")
  show:argument("file", "a Hugging Face config.json, or Megatron's arguments: YAML, a shell script, a model block of FlagScale")
  show:option("--family", "read it as this family, e.g. llama, gpt2"):argname "NAME"
  show:option("--vocab", "vocabulary, where the file leaves it to the tokenizer"):argname "N":convert(options.whole "--vocab")
  show:option("--seq-len", "tokens a sequence, for FLOPs and boundaries (default 4096, or the learned positions if fewer)")
    :argname "N":convert(options.whole "--seq-len")
  show:option("--json", "write the result as JSON to FILE, - for standard output"):argname "FILE"
  return parser
end

local function billions(count)
  return count >= 1e8 and ("%.2f B"):format(count / 1e9) or ("%.2f M"):format(count / 1e6)
end

local function gib(bytes) return ("%.2f GiB"):format(bytes / 2 ^ 30) end

--- Atoms of equal content, in order of their first: { atom, count }.
local function kinds_of(atoms)
  local kinds <const>, by_hash <const> = {}, {}
  for _, atom in ipairs(atoms) do
    local kind <const> = by_hash[atom.hash] or { atom = atom, count = 0 }
    if kind.count == 0 then
      by_hash[atom.hash] = kind
      kinds[#kinds + 1] = kind
    end
    kind.count = kind.count + 1
  end
  return kinds
end

local function print_dimensions(m)
  print(("%s (family %s)"):format(m.name, m.family))
  print(("  hidden %d, %d layers, vocabulary %d (%s)%s"):format(m.hidden, m.layers, m.vocab, m.tied and "tied" or "untied",
    m.positions > 0 and (", %d learned positions"):format(m.positions) or ""))
  print(("  attention: %d heads of %d, %d of keys and values%s%s"):format(m.heads, m.head_dim, m.kv_heads,
    m.mla and (", latent of rank %d"):format(m.mla.kv_lora_rank) or "", m.window > 0 and (", window %d"):format(m.window) or ""))
  print(("  MLP: width %d, %s matrices"):format(m.ffn, m.gated and "three" or "two"))
  if m.experts > 0 then
    print(("  experts: %d of width %d, %d a token%s"):format(m.experts, m.expert_ffn, m.experts_per_token,
      m.shared_expert_ffn > 0 and (", shared ones of width %d"):format(m.shared_expert_ffn) or ""))
  end
end

local function print_atoms(atoms, seq_len)
  print(("\n  atoms, for one sample of %d tokens:"):format(seq_len))
  print(("  %5s  %-22s %12s %18s %14s"):format("count", "kind", "parameters", "forward TFLOP", "boundary MiB"))
  for _, kind in ipairs(kinds_of(atoms)) do
    local atom <const> = kind.atom
    local words <const> = atom.mlp and ("%s, %s, %s"):format(atom.kind, atom.attention, atom.mlp) or atom.kind
    print(("  %5d  %-22s %12s %18.4f %14.2f"):format(kind.count, words, billions(atom.parameters), atom.flops / 1e12,
      atom.boundary_bytes / 2 ^ 20))
  end
end

local function print_model(m, total, active, atoms, seq_len)
  print_dimensions(m)
  print(("  parameters: %s (%d)%s"):format(billions(total), total, active < total and ", a token meets " .. billions(active) or ""))
  print(("  weights at 2 bytes: %s; training states at 16 bytes a parameter: %s, at 18: %s"):format(gib(2 * total),
    gib(16 * total), gib(18 * total)))
  print_atoms(atoms, seq_len)
end

local key_order <const> = { "model", "name", "family", "kind", "index", "layer", "parameters", "active_parameters", "seq_len",
  "warnings", "atoms" }

--- Indices count from 0 in files.
local function to_file(m, total, active, atoms, seq_len, warnings)
  for _, atom in ipairs(atoms) do atom.index = atom.index - 1 end
  return core.json_encode({ model = m, parameters = total, active_parameters = active, seq_len = seq_len, atoms = atoms,
    warnings = core.array(warnings) }, key_order)
end

local function show(args)
  local piped <const> = options.outputs(args, "json")
  local m <const>, warnings <const> = model.read(args.file, { family = args.family, vocab = args.vocab })
  local seq_len <const> = args.seq_len or math.min(4096, m.positions > 0 and m.positions or 4096)
  local atoms <const>, why <const> = core.atoms(m, { seq_len = seq_len })
  if not atoms then error("--" .. why:gsub("_", "-", 1), 0) end
  local total <const>, active <const> = core.model_parameters(m)
  for _, warning in ipairs(warnings) do io.stderr:write("tangram model: ", args.file, ": ", warning, "\n") end
  if not piped then print_model(m, total, active, atoms, seq_len) end
  if args.json then files.write(args.json, to_file(m, total, active, atoms, seq_len, warnings)) end
end

return options.entry("tangram model", "show a model's dimensions, parameters and atoms", function(words)
  show(options.parse(make_parser(), words))
end)
