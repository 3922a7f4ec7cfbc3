--- The paper's redundant policy: slices of equal content on equal islands are asked for once. Their answers are equal, moved by
--- the slice's offset: neither cost models nor adapters see where in the model a slice stands, but for its ends.
return {
  api = 1, kind = "prune", name = "redundant", safe = true,
  description = "asks once for slices of equal content on equal islands",
  options = {},
  key = function(pair, ctx)
    local slice <const>, link <const> = pair.slice, ctx.tied_link
    -- One end of a tied model pays for an all-reduce over a link that equal islands need not share.
    local tied <const> = ctx.model.tied and slice.has_embedding ~= slice.has_head and link
      and ("|%.17g,%.17g"):format(link.latency_s, link.bytes_per_s) or ""
    return slice.signature .. "|" .. pair.island.signature .. tied
  end,
}
