/* The truth: an event simulation of 1F1B (COMPOSITION.md, section 2). */
#ifndef TG_PIPELINE_SIMULATE_H
#define TG_PIPELINE_SIMULATE_H

#include "pipeline/instance.h"

typedef enum { TG_OVERLAPPED, TG_BLOCKING } tg_p2p;

/* Optional record of the operations, for reports: forward and backward of every microbatch at every stage. */
typedef struct {
    int stage, microbatch;
    bool backward;
    double start_s, end_s;
} tg_operation;

/* Seconds of one iteration of a pipeline of count stages (front first), transfer_s[i] between stages i and i + 1,
 * warmup[i] forwards before stage i's first backward (NULL: plain 1F1B, min(stages behind, microbatches)). operations
 * may be NULL, else room for 2 * count * microbatches, filled in order of stage, then of the stage's own execution.
 * TG_EINPUT if the depths deadlock (COMPOSITION.md, section 6). */
tg_status tg_simulate(const tg_stage_time *stages, int count, const double *transfer_s, const int *warmup,
                      int microbatches, tg_p2p p2p, double *time_s, tg_operation *operations, tg_error *err);

#endif
