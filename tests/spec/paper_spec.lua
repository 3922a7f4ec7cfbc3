--- The figures of the Tangram paper (arXiv 2606.16907) that an analytic model can be held to, with the bars of a study of the same
--- figures (tangram.measured.paper). The figures stand here as published.
local loader <const> = require "tangram.loader"
local paper <const> = require "tangram.measured.paper"
local validate <const> = require "tangram.validate"

local GPT_7B <const>, GPT_13B <const> = "GPT-6.7B", "GPT-13B L40"

--- Seconds that are predicted for a figure, which must hold its bar; and the plan in words.
local function predicted(experiment, system, model, published_s)
  local row <const> = paper.rows({ { experiment = experiment, system = system, model = model, iter_time_s = tostring(published_s),
    cluster = "C" } })[1]
  local result <const> = validate.row(row, loader.load("cost", "analytic"))
  assert.is_nil(result.reason)
  assert.is_true(result.held, ("%s: %.1f s against %s s, bar %s"):format(row.id, result.predicted_s, published_s, row.bar))
  return result.predicted_s, result.shape
end

local function between(low, x, high) assert.is_true(low <= x and x <= high, ("%.3f, expected %g to %g"):format(x, low, high)) end

describe("the paper's figures", function()
  it("C3, 13B: each step within its bar, and the steps' ratios", function()
    local one <const> = predicted("full_het_1", "Tangram-Aceso", GPT_13B, 32)
    local two <const>, shape <const> = predicted("full_het_2", "Tangram-Aceso", GPT_13B, 20)
    between(0.53, two / one, 0.69)
    between(0.91 * 0.85, one / predicted("full_het_1", "Sailor", GPT_13B, 35), 0.91 * 1.15)
    between(0.77 * 0.85, two / predicted("full_het_2", "Sailor", GPT_13B, 26), 0.77 * 1.15)
    predicted("full_het_1", "Metis", GPT_13B, 71)
    predicted("full_het_3", "Tangram-Aceso", GPT_13B, 20)
    assert.matches("^E%+%d+ .*%+H .*; %d+ microbatches$", shape)
  end)

  it("T4 and V100, 6.7B: plans that are stated or likely, and the best ones found", function()
    local t4 <const>, v100 <const> = predicted("homog_T4", "Sailor", GPT_7B, 70), predicted("homog_V100", "Sailor", GPT_7B, 32)
    between(1.8, t4 / v100, 2.6)
    between(0.55, predicted("homog_T4", "Tangram-Aceso", GPT_7B, 47) / t4, 0.77)
    predicted("homog_T4", "Aceso", GPT_7B, 47)
    predicted("homog_T4", "Alpa", GPT_7B, 54)
    predicted("homog_V100", "Tangram-Aceso", GPT_7B, 26)
  end)

  it("says why a figure is not priced", function()
    local function reason(experiment, system, model)
      local row <const> = { experiment = experiment, system = system, model = model, iter_time_s = "1", cluster = "C" }
      return validate.row(paper.rows({ row })[1], loader.load("cost", "analytic")).reason
    end
    assert.equal("the plan is not stated", reason("homog_T4", "Metis", GPT_7B))
    assert.equal("planning time, not an iteration's", reason("planning", "Tangram-Aceso planning", GPT_13B))
    -- 16 bytes a parameter; 8 GPUs of 16 GiB hold 137 GB
    assert.equal("batch and GPUs are not stated; its 16 bytes a parameter, 114 GB, fit 8 V100-16",
      reason("gshard", "Alpa", "GShard-MoE 7.1B"))
    assert.equal("batch and GPUs are not stated; its 16 bytes a parameter, 160 GB, don't fit 8 V100-16",
      reason("gshard", "Alpa", "GShard-MoE 10B"))
  end)
end)
