std = "lua54"
max_line_length = 140
files["tests/spec"] = { std = "lua54+busted" }
files["tests/fault"] = { std = "lua54+busted" }
exclude_files = { "build*" }
