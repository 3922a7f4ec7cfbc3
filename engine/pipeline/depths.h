/* The best depths of one sequence (COMPOSITION.md, section 6). Private to the composer. */
#ifndef TG_PIPELINE_DEPTHS_H
#define TG_PIPELINE_DEPTHS_H

#include "pipeline/halt.h"
#include "pipeline/label.h"

typedef struct {
    tg_chain chain;
    int *depth;            /* front first */
    tg_stage_time *stages; /* of the sequence, front first */
    double *transfer_s;
    double gap, target, time_s;
    int *best;              /* front first */
    long simulated, budget; /* the search of one sequence is left when it has simulated more */
} tg_depths;

bool tg_depths_make(tg_arena *arena, int room, int microbatches, tg_p2p p2p, double gap, tg_depths *out);

/* Simulates the sequence (rear first, with its range of depths) at plain 1F1B and at every other legal vector of depths
 * whose bound is below the target and, by the gap, below the best so far: time_s and best hold the least time found.
 * After a halt or once the budget is used up it may not be the least. */
tg_status tg_depths_search(tg_depths *depths, const tg_chain *sequence, double target, tg_halt *halt, tg_error *err);

#endif
