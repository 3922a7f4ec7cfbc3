/* What the terms hold, and what a run of atoms needs by them. Private to split.c and split_terms.c. */
#ifndef TG_PIPELINE_SPLIT_TERMS_H
#define TG_PIPELINE_SPLIT_TERMS_H

#include "pipeline/split.h"

struct tg_terms {
    int atoms, microbatches, levels;
    double stage_s, stage_static_bytes, capacity_bytes;
    double whole_static_bytes, whole_step_s, whole_reduce_s;
    double stage_step_s, stage_reduce_s, reduce_share;
    /* Sums over the atoms before the index (atoms + 1 each). */
    double *time_s, *static_bytes, *inflight_bytes;
    double *least_inflight_bytes; /* everything recomputable recomputed */
    /* Recomputable atoms: how many before the index; the index behind each; the sum over those before it. */
    int *recomputable, *behind;
    double *recompute_s;
    double *step_s, *reduce_s;
    /* Level l holds the largest of 2^l atoms from the index on (levels * atoms). */
    double *transient_bytes, *peak_bytes;
};

/* The largest of [i, j), not empty. */
static inline double tg_terms_largest(const tg_terms *t, const double *table, int i, int j)
{
    int level = 31 - __builtin_clz((unsigned)(j - i));
    const double *row = table + level * t->atoms;
    double a = row[i], b = row[j - (1 << level)];
    return a > b ? a : b;
}

/* Bytes of [i, j) that do not depend on what is recomputed, the microbatches in flight apart. */
static inline double tg_terms_fixed_bytes(const tg_terms *t, int i, int j)
{
    double whole = i == 0 && j == t->atoms ? t->whole_static_bytes : 0;
    return t->static_bytes[j] - t->static_bytes[i] - whole + t->stage_static_bytes +
           tg_terms_largest(t, t->transient_bytes, i, j);
}

/* Bytes of one microbatch in flight with the first r recomputable atoms of [i, j) recomputed. */
static inline double tg_terms_kept_bytes(const tg_terms *t, int i, int j, int r)
{
    int cut = r ? t->behind[t->recomputable[i] + r - 1] : i;
    return t->least_inflight_bytes[cut] - t->least_inflight_bytes[i] + t->inflight_bytes[j] - t->inflight_bytes[cut];
}

/* The least r that fits room bytes (transient peak included) beside the fixed ones, or -1. */
int tg_terms_least_recomputed(const tg_terms *t, int i, int j, int inflight, double room);

/* The least r that fits, or -1. */
static inline int tg_terms_recomputed(const tg_terms *t, int i, int j, int inflight, bool allow_recompute)
{
    double room = t->capacity_bytes - tg_terms_fixed_bytes(t, i, j);
    if (inflight * (t->inflight_bytes[j] - t->inflight_bytes[i]) <= room)
        return 0;
    return allow_recompute ? tg_terms_least_recomputed(t, i, j, inflight, room) : -1;
}

/* TG_EINPUT unless the range lies within the model. */
tg_status tg_split_check_run(const tg_terms *t, int first, int last, tg_error *err);

#endif
