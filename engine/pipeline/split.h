/* Cuts a run of atoms into stages whose strategies are given: the bottleneck is least, then the sum. Made for adapters
 * that ask it for every slice, island, position and strategy: a call takes microseconds and, up to 127 atoms, allocates
 * nothing. */
#ifndef TG_PIPELINE_SPLIT_H
#define TG_PIPELINE_SPLIT_H

#include "pipeline/memory.h"

enum { TG_SPLIT_ATOMS = 1024 }; /* a terms object holds at most so many */

/* What one strategy on one island costs, per atom of the whole model; all numbers finite and at least 0. */
typedef struct {
    int atoms, microbatches;
    const double *time_s; /* forward + backward of one microbatch, nothing recomputed */
    const double *static_bytes;
    const double *inflight_bytes;            /* each microbatch in flight */
    const double *transient_bytes;           /* a stage bears the largest of its atoms' */
    const bool *recomputable;                /* layers are, embedding and head are not */
    const double *recompute_s;               /* more time if recomputed in full */
    const double *recomputed_inflight_bytes; /* in place of inflight_bytes, which is no smaller */
    const double *recompute_peak_bytes;      /* on top of transient: the largest of the stage's recomputed atoms' */
    double stage_s, stage_static_bytes;      /* added to each stage */
    double capacity_bytes;
    /* What a step adds at its end; only tg_terms_stage reads it. Either list may be NULL: zeros. */
    const double *step_s, *reduce_s;
    double whole_static_bytes, whole_step_s, whole_reduce_s; /* what a stage of all atoms has less: a tied vocabulary */
    double stage_step_s, stage_reduce_s;                     /* the latter where a stage has anything to reduce */
    double reduce_share; /* of the reduction stands at least at the end, the rest beside one microbatch's work */
} tg_split_terms;

/* The terms, worked up: one block of memory, which the caller provides (tg_terms_bytes large, aligned for double) and
 * releases. It may be read by several threads. Bytes are rounded up to whole ones (capacity down), which makes their
 * sums exact. */
typedef struct tg_terms tg_terms;
size_t tg_terms_bytes(int atoms);
tg_status tg_terms_init(tg_terms *terms, const tg_split_terms *from, tg_error *err);
int tg_terms_atoms(const tg_terms *terms);

/* A way to run a stage: a strategy's terms, and whether some of its atoms may be recomputed on top. */
typedef struct {
    const tg_terms *terms;
    bool may_recompute;
} tg_split_way;

typedef struct {
    int count; /* at least 1 */
    const tg_split_way *list;
} tg_split_ways;

typedef struct {
    int first, last; /* atoms [first, last) */
    int stages;      /* exactly so many, none empty */
    int successors;  /* stages of the pipeline behind the last of these */
    /* What each stage may choose from, all of one model and one number of microbatches; `alike`: one for all stages. */
    const tg_split_ways *ways;
    bool alike;
} tg_split_query;

typedef struct {
    bool fits;
    double bottleneck_s, latency_s; /* the largest and the sum of the stages' times */
} tg_split;

typedef struct {
    int last;       /* where the stage ends, exclusive */
    int way;        /* the quickest there; the first among equals */
    int recomputed; /* of its first recomputable atoms, the least that fits */
} tg_split_part;

/* Stage k has successors + stages - 1 - k stages behind it, so min(that + 1, microbatches) microbatches in flight.
 * Among all splits the one of least bottleneck, among those of least sum, among those the same one in every run. parts
 * (one per stage, may be NULL) gets it. TG_EINPUT if the range is not within the model; fits is false if no split fits.
 */
tg_status tg_split_run(const tg_split_query *query, tg_split *out, tg_split_part *parts, tg_error *err);

typedef struct {
    double time_s, sync_s;
    int recomputed;     /* of its first recomputable atoms, the least that fits */
    int max_successors; /* stages that may then stand behind it; TG_NO_LIMIT */
} tg_split_stage;

/* One stage of atoms [first, last), of the model's, that holds inflight microbatches at once, or all if these are
 * fewer. False if it does not fit. sync_s = steps + max(reduce_share * R, R - time_s), R what it has to reduce. */
bool tg_terms_stage(const tg_terms *terms, int first, int last, int inflight, bool allow_recompute,
                    tg_split_stage *out);

/* How far a query is from fitting: the least, over all splits, of the bytes short at the worst stage, and that stage
 * (whatever it recomputes). 0 bytes if it fits, infinite if there are more stages than atoms. */
tg_status tg_split_shortage(const tg_split_query *query, double *short_bytes, int *stage, tg_error *err);

typedef struct {
    bool fits;
    double time_s; /* recompute included */
    double recompute_s;
    double bytes;   /* in that place */
    int recomputed; /* the least that fits; if nothing does: nothing or all, whichever needs less */
} tg_split_price;

/* Atoms [first, last), not empty, as one stage with so many stages of the pipeline behind it. TG_EINPUT if the range is
 * not within the model. */
tg_status tg_terms_price(const tg_terms *terms, int first, int last, int behind, bool allow_recompute,
                         tg_split_price *out, tg_error *err);

#endif
