/* The best plans so far, over all numbers of microbatches. They outlive the level they were found at. */
#ifndef TG_SEARCH_BEST_H
#define TG_SEARCH_BEST_H

#include "search/assemble.h"

typedef struct {
    tg_choice choice;
    double value; /* what the objective goes by */
    double paper_s;
    int stage_count;
    const int *warmup;        /* of the best of a composition only */
    const double *transfer_s; /* stage_count - 1 */
} tg_best_row;

typedef struct {
    int room, count; /* by rising value, then falling number of microbatches */
    tg_best_row *at;
    double cutoff;
    long improved; /* how often the first row changed */
} tg_best;

tg_status tg_best_open(tg_best *best, const tg_run *run, int room, double cutoff, tg_error *err);

/* What a further plan of so many microbatches must be faster than to get in: of equal times the larger number stays. */
double tg_best_cutoff(const tg_best *best, int microbatches);

/* Time of the best plan; infinite without one. */
double tg_best_time(const tg_best *best);

/* Takes over what a composition found, without what is there already. */
tg_status tg_best_take(tg_best *best, const tg_run *run, const tg_level *level, const tg_instance *instance,
                       const tg_origin *origins, const tg_composition *found, tg_error *err);

/* What takes longest in a plan: a stage or a transfer. */
tg_left_out tg_best_limit(const tg_best_row *row);

/* Fills the result's best, top and certificate. */
void tg_best_report(const tg_best *best, const tg_run *run, double bound_s, tg_enumeration *out);

#endif
