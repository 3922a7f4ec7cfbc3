/* Interleaved 1F1B (Narayanan et al. 2021, section 2.2), to predict measured runs: plans never use it. */
#ifndef TG_PIPELINE_INTERLEAVE_H
#define TG_PIPELINE_INTERLEAVE_H

#include "pipeline/instance.h"

/* Seconds of one iteration of count = ranks * chunks stages (front first); stage i stands on rank i modulo ranks, in
 * Megatron's order: microbatches in groups of one a rank, 2 (ranks behind) + ranks (chunks - 1) forwards before a
 * rank's first backward. transfer_s[i] between stages i and i + 1; transfers overlap with computation, and those of all
 * chunks from one rank to the next queue for the same link. A rank's sync_s is the sum of its stages'. TG_EINPUT if
 * chunks does not divide count, or if ranks wait for each other (microbatches no multiple of the ranks). */
tg_status tg_simulate_interleaved(const tg_stage_time *stages, int count, const double *transfer_s, int chunks,
                                  int microbatches, double *time_s, tg_error *err);

#endif
