--- Pairs of equal content on equal islands share one query.
return {
  api = 1, kind = "prune", name = "redundant", safe = true,
  description = "slices of equal signature on islands of equal signature are planned once",
  key = function(pair) return pair.slice.signature .. "@" .. pair.island.signature end,
}
