/* What the engine asks of parallelizers, cost models and pruning policies: callbacks, so that it knows none of them.
 * Lua is one provider (bind/), the C tests' stubs are another (DESIGN.md, sections 2 and 6). */
#ifndef TG_SEARCH_PROVIDER_H
#define TG_SEARCH_PROVIDER_H

#include "pipeline/instance.h"
#include "pipeline/strategy.h"

/* A named share of a figure, for reports. */
typedef struct {
    const char *name;
    double value;
} tg_part;

typedef struct {
    int atoms, gpus;
    tg_strategy strategy;
    double forward_s, backward_s, sync_s;
    double transfer_s; /* to the next stage of the same plan; negative: the engine works it out */
    double static_bytes, inflight_bytes, transient_bytes; /* of the stage's fullest GPU */
    const tg_part *memory_parts, *time_parts;
    int memory_part_count, time_part_count;
} tg_planned_stage;

typedef struct {
    int stage_count;
    const tg_planned_stage *stages; /* front first */
    int idle;                       /* GPUs of the island left unused */
} tg_candidate;

/* One pair at one number of microbatches, for a position with that many stages behind it. */
typedef struct {
    int island, first, last; /* atoms [first, last) */
    int microbatches, successors;
    bool again; /* asked to see whether the answer is the same as before: to be worked out, not looked up */
} tg_query;

typedef enum { TG_UNASKED, TG_ANSWERED, TG_NO_PLAN, TG_FAILED } tg_outcome;

typedef struct {
    tg_outcome outcome;
    int count;
    const tg_candidate *candidates;
    const char *why;   /* with TG_NO_PLAN and TG_FAILED */
    bool transient;    /* with TG_FAILED: a limit on time or memory ended it, so it must not be stored */
    const char *notes; /* what the adapter logged, a line each; NULL: nothing */
    bool stored;       /* given by a store */
    bool own_times;    /* its times don't come from the cost model that bounds are made of */
} tg_answer;

/* What an answer depends on, for a store: equal texts, equal answers. The scope is what the pairs of an island have in
 * common at one number of microbatches; description says what it is, for people. */
typedef struct {
    const char *scope, *description, *rest;
} tg_identity;

/* Every callback gets self; what it puts into an answer lives in the arena given. A status other than TG_OK ends the
 * run. TG_UNASKED as an answer: the run is being stopped. */
typedef struct {
    void *self;
    tg_status (*plan)(void *self, const tg_query *query, tg_arena *arena, tg_answer *out, tg_error *err);
    /* Told of every answer that the run takes, in the run's order, whoever gave it; may be NULL. */
    void (*answered)(void *self, const tg_query *query, const tg_answer *answer);
    /* What the answer will depend on, in arena; NULL: not known, so nothing can be stored. */
    tg_status (*identity)(void *self, const tg_query *query, tg_arena *arena, tg_identity *out, tg_error *err);
    /* *policy: the name of the policy that drops the pair, NULL if all keep it. successors is not set. */
    tg_status (*keep)(void *self, const tg_query *query, const char **policy, tg_error *err);
    /* Pairs of equal key share their answers at every number of microbatches. */
    tg_status (*key)(void *self, const tg_query *query, uint64_t *key, tg_error *err);
    /* *bound_s: no sequence with a plan of this pair has a stage faster than this a microbatch; 0: nothing is known. */
    tg_status (*bound)(void *self, const tg_query *query, double *bound_s, tg_error *err);
    /* Prices a link between two islands: given what the cluster says, in and out. NULL: that stands. */
    tg_status (*link)(void *self, int from_island, int to_island, tg_link *link, tg_error *err);
    /* Told after every round; may be NULL. best_s is infinite while there is no plan. */
    void (*progress)(void *self, int microbatches, double share, double best_s);
} tg_provider;

/* Makes a provider for each worker, of which only plan is called. open (before its first query), plan and close of one
 * worker run in one thread, those of different workers at the same time. */
typedef struct {
    void *self;
    int count;
    tg_status (*open)(void *self, int worker, tg_provider *out, tg_error *err);
    void (*close)(void *self, int worker, tg_provider *provider);
} tg_workers;

#endif
