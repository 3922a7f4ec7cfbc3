/* Enumeration: which slices to plan on which islands, asked of a provider, composed with a shared incumbent over every
 * number of microbatches (DESIGN.md, section 6; COMPOSITION.md, section 7). */
#ifndef TG_SEARCH_ENUMERATE_H
#define TG_SEARCH_ENUMERATE_H

#include "cluster/place.h"
#include "pipeline/compose.h"
#include "search/provider.h"

typedef struct {
    const tg_cluster *cluster;
    const tg_island *islands;
    int island_count;
    const double *capacity_bytes; /* islands: what one GPU may hold, margin taken off */
    int atom_count;
    const double *boundary_bytes; /* atoms - 1: behind atom i, of one sample */
    const double *flops;          /* atoms: forward, of one sample; for the first guesses only */
    const double *recomputable;   /* atoms: 1 or 0; NULL: all are */
    int global_batch;
    const int *microbatches; /* every number to try, falling */
    int microbatch_count;
} tg_problem;

typedef struct {
    tg_compose_options compose; /* cutoff: only plans faster than this are wanted */
    bool any;                   /* any plan will do: stop at the first */
    bool left_out;              /* also work out the best time with each island that the best plan leaves out */
} tg_enumerate_options;

/* One plan of the result: a candidate of a pair. */
typedef struct {
    tg_query query; /* successors: the stages behind it where it stands */
    const tg_candidate *candidate;
    int max_successors;
    const double *inner_transfer_s;
} tg_chosen;

typedef struct {
    int microbatches, count;
    const tg_chosen *plans; /* front first */
    double time_s;
} tg_choice;

typedef struct {
    bool found;
    double best_with_s; /* the best plan that uses it */
    bool by_link;       /* what takes longest then: a transfer from island to to_island, or a stage on it */
    int bound_island, bound_to_island;
    double bound_each_s;
} tg_left_out;

typedef struct {
    tg_query query;
    const char *why;
} tg_complaint;

typedef struct {
    const char *policy;
    long count;
} tg_pruned;

typedef struct {
    bool found;
    tg_choice best;               /* = top[0] */
    double bound_s, gap, paper_s; /* as tg_composition, over all numbers of microbatches */
    bool proved;
    int stage_count;
    const int *warmup;
    const double *transfer_s; /* stage_count - 1: inner and between plans */
    int top_count;
    const tg_choice *top;
    tg_stop stopped;
    const tg_left_out *left_out;      /* islands; only with options.left_out, and only of unused islands */
    long all, asked, queried, reused; /* pairs; pairs asked for; queries in all; pairs that took another's answer */
    long saved;                       /* queries that asking for each position would have taken beyond those */
    tg_pruned *pruned;
    int pruned_count;
    tg_complaint *failed; /* adapters that failed, by pair */
    int failed_count;
    tg_complaint *refused; /* pairs without a plan: for each island, the largest slice */
    int refused_count;
    tg_complaint *unsteady; /* of the queries asked twice, those that got another answer */
    int unsteady_count;
} tg_enumeration;

/* Everything in out lives in arena. workers answer the queries, NULL: provider does, in the calling thread; all else is
 * asked of provider. A provider's status other than TG_OK ends the run with it. */
tg_status tg_enumerate(tg_arena *arena, const tg_problem *problem, const tg_provider *provider,
                       const tg_workers *workers, const tg_enumerate_options *options, tg_enumeration *out,
                       tg_error *err);

#endif
