--- The analytic cost model: no profile needed. Its formulas are a module, as the model of measured profiles builds on them.
return require "tangram.formulas.analytic"
