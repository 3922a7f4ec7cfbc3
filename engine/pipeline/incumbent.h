/* The best sequences so far. Private to the composer. */
#ifndef TG_PIPELINE_INCUMBENT_H
#define TG_PIPELINE_INCUMBENT_H

#include "pipeline/label.h"

typedef struct {
    double value;  /* by the objective, seconds */
    double time_s; /* simulated */
    int *plans;    /* instance's indices, front first */
    int count, gpus, stage_count;
    int *warmup; /* stage_count */
} tg_found;

typedef struct {
    const tg_problem *problem;
    tg_found *found; /* best first; room for one more than top */
    int count;
    int *island_of, *next; /* scratch: members given out */
    tg_stage_time *stages;
    double *transfer_s;
} tg_incumbent;

tg_status tg_incumbent_make(tg_arena *arena, const tg_problem *problem, tg_incumbent *out, tg_error *err);

/* Only sequences of a lower value matter still: the N-th best, or the cutoff. */
double tg_incumbent_limit(const tg_incumbent *incumbent);

/* Enters the sequence of these pieces (front first) with its value, time and depths: every way to name its equal
 * islands is a sequence of its own, of which the lexicographically first come first. */
void tg_incumbent_offer(tg_incumbent *incumbent, const tg_piece *const *pieces, int count, double value, double time_s,
                        const int *warmup);

#endif
