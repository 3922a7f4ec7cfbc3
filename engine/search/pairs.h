/* Pairs of a slice and an island, classes of pairs that share their answers, and what has been asked of each class. */
#ifndef TG_SEARCH_PAIRS_H
#define TG_SEARCH_PAIRS_H

#include "search/enumerate.h"
#include "search/pool.h"

/* Link classes of a problem: the end-stage classes of each island, islands in order (COMPOSITION.md, section 1). */
typedef struct {
    int island;
    tg_end_class end;
} tg_link_class;

/* A candidate made ready for composition. */
typedef struct {
    const tg_candidate *candidate;
    tg_partial partial; /* but for atoms and successors, which differ from pair to pair */
    int max_successors;
} tg_compiled;

typedef struct {
    int successors; /* asked for */
    int count;
    const tg_compiled *compiled;
} tg_asked;

TG_VEC(tg_asked_vec, tg_asked);
TG_VEC(tg_complaint_vec, tg_complaint);

/* A class to ask for, with that many stages behind. */
typedef struct {
    int class, successors;
} tg_ask;
TG_VEC(tg_ask_vec, tg_ask);

/* An answer to compare with another to the same query. */
typedef struct {
    tg_query query;
    uint64_t hash;
} tg_sample;
TG_VEC(tg_sample_vec, tg_sample);

typedef struct {
    int island, first, last;
    int class;              /* 0 where the run dropped it, at any number of microbatches */
    const char *dropped_by; /* the policy that did so at the level's microbatches, or "unplaceable"; NULL: kept */
} tg_pair;

typedef struct {
    tg_query representative; /* the first pair of the class */
    double bound_s;          /* least of its kept pairs' */
    bool kept;               /* some pair of it is */
    tg_asked_vec asked;      /* by rising successors */
} tg_pair_class;

/* The search at one number of microbatches. */
typedef struct {
    tg_arena arena;
    tg_arena *answers; /* what answers hold, an arena for each worker */
    int microbatches;
    double *boundary_bytes; /* atoms - 1, of the whole microbatch */
    tg_pair *pairs;         /* as the run's, policies applied */
    tg_pair_class *classes; /* the run's class_count */
} tg_level;

/* What a whole run shares. */
typedef struct {
    const tg_problem *problem;
    const tg_provider *provider;
    const tg_enumerate_options *options;
    tg_pool *pool;
    int pair_count, class_count;
    const tg_pair *pairs; /* every slice on every island, with its class, in the order of first, last, island */
    double deadline_s;    /* on tg_clock_s */
    tg_link_class *link_classes;
    int link_class_count;
    const int *class_island; /* link classes */
    int *first_class;        /* islands: the first of each island's link classes */
    const tg_link *links;    /* link classes squared, [rear of the plan in front][front of the plan behind] */
    const char **names;      /* islands */
    tg_arena *arena;         /* the result's */
    long queried;
    tg_sample_vec samples;
    tg_complaint_vec failed;
    tg_complaint *refused; /* islands: the largest slice without a plan; why is NULL where there is none */
} tg_run;

/* Finds the link classes and prices every link between two of different islands. */
tg_status tg_run_link(tg_run *run, tg_error *err);

/* Lists the run's pairs and groups them into classes by the provider's key. */
tg_status tg_run_list_pairs(tg_run *run, tg_error *err);

/* The pairs and classes at one number of microbatches, policies applied. */
tg_status tg_level_open(tg_run *run, int microbatches, tg_level *level, tg_error *err);
void tg_level_close(const tg_run *run, tg_level *level);

/* Asks for all that was not asked before, in parallel. The outcome does not depend on the number of workers. */
tg_status tg_level_ask(tg_run *run, tg_level *level, const tg_ask *wanted, size_t count, tg_error *err);

/* Round 0: asks for each island alone and for slices by the islands' shares of the speed. */
tg_status tg_level_guess(tg_run *run, tg_level *level, tg_error *err);

/* Asks a few of the queries twice again, of a new provider; complaints about those that got another answer go to out.
 */
tg_status tg_run_ask_again(tg_run *run, const tg_workers *workers, tg_enumeration *out, tg_error *err);

/* How many stages behind a class is first asked for: none for slices that hold the last atom, else one. */
int tg_first_successors(const tg_problem *problem, const tg_pair_class *class);

bool tg_run_stopped(const tg_run *run);

#endif
