/* Depth-first search for all sequences whose bound is below a limit, from the back. Private to the composer. */
#ifndef TG_PIPELINE_SEARCH_H
#define TG_PIPELINE_SEARCH_H

#include "pipeline/depths.h"
#include "pipeline/failed.h"
#include "pipeline/incumbent.h"
#include "pipeline/tables.h"

typedef struct {
    int edge;
    double bound;
} tg_candidate;
TG_VEC(tg_candidates, tg_candidate);

typedef enum {
    TG_EXHAUSTED, /* every sequence whose bound is below search.target is in the incumbent */
    TG_REBUILD,   /* the target has fallen and the search costs more than new tables */
    TG_SPENT,     /* the budget is used up, or a dive has its sequence */
    TG_HALTED
} tg_outcome;

typedef struct {
    tg_problem *problem;
    tg_tables *tables;
    tg_halt *halt;
    tg_incumbent incumbent;
    tg_chain chain;
    const tg_piece **pieces, **front_first; /* of the suffix, rear first; of a whole sequence */
    int piece_count;
    int *used; /* islands by kind */
    tg_candidates candidates;
    tg_failed failed;
    bool diving;
    tg_depths depths; /* also holds the sequence at hand front first */
    double target;
    double open_bound; /* least bound of a sequence whose depths were not all searched in this run */
    long labels, simulated;
    long work, budget; /* edges looked at in this run */
    tg_outcome outcome;
} tg_search;

tg_status tg_search_make(tg_arena *arena, tg_problem *problem, tg_tables *tables, tg_halt *halt, tg_search *out,
                         tg_error *err);
void tg_search_free(tg_search *search);

/* Runs over the tables; sequences are simulated and offered to the incumbent, whose limit lowers the target. */
tg_status tg_search_run(tg_search *search, long budget, tg_error *err);

/* Of a piece in front of the suffix at hand: 0 if there is none. */
double tg_search_transfer_s(const tg_search *search, const tg_piece *piece);

/* Simulates the chain of the pieces, a whole sequence whose bound is below the target, and offers it. */
tg_status tg_search_complete(tg_search *search, double bound, tg_error *err);

/* Follows the best bounds to one whole sequence, be it below the limit or not: a first incumbent. */
tg_status tg_search_dive(tg_search *search, long budget, tg_error *err);

#endif
