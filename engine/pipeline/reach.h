/* Which atoms can be covered by which islands, as bit sets. Private to the composer. */
#ifndef TG_PIPELINE_REACH_H
#define TG_PIPELINE_REACH_H

#include "pipeline/halt.h"
#include "pipeline/problem.h"

/* A set is a count of used islands for each kind, as one number: Σ count * stride. */
typedef struct {
    const tg_problem *problem;
    tg_halt *halt;
    int sets, *stride; /* stride 0: the kind is not counted, but taken to be always available */
    bool *available;   /* [set * kinds + kind] */
    size_t words;      /* 64 sets each */
    uint64_t *free_of; /* [kind * words]: sets to which an island of the kind can be added */
    uint64_t *back;    /* [boundary * words]: sets of which some cover of [boundary, L) uses just these */
    uint64_t *front;   /* [boundary * words]: sets besides which the other islands can cover [0, boundary) */
    bool counts_all;   /* whether no stride is 0 */
    int *longest;      /* unless counts_all: of tg_reach_find_longest */
    int *used;         /* scratch, by kind */
} tg_reach;

/* Kinds are counted as long as the tables stay small; leaving one out only loosens the bounds. */
tg_status tg_reach_make(tg_arena *arena, const tg_problem *problem, tg_halt *halt, tg_reach *out, tg_error *err);

/* Fills back, and front if wanted, for these groups (start[i] … start[i + 1] are those of last = i), of which only
 * pieces whose bottleneck_s is at most `most` count. Whether all atoms can be covered; false and of
 * no use after a halt. */
bool tg_reach_find(tg_reach *reach, const tg_group *groups, const int *start, double most, bool fronts);

/* A lower bound, to 1 %, on the least bottleneck_s of any cover of the atoms; infinite if there is no cover. Neither
 * memory nor links count. */
double tg_reach_least_bottleneck(tg_reach *reach);

/* longest[boundary * kinds + kind]: atoms of the longest slice in [0, boundary) for an island of the kind, by the same
 * pieces. The row of boundary 0 must be zero. */
void tg_reach_find_longest(const tg_problem *problem, const tg_group *groups, const int *start, double most,
                           int *longest);

/* The atoms by which the longest slices of the islands not used, one each, exceed [0, boundary): no cover if negative.
 * used: islands by kind. */
int tg_reach_spare(const tg_problem *problem, const int *longest, int boundary, const int *used);

static inline bool tg_reach_alive(const tg_reach *reach, int boundary, int set)
{
    size_t at = (size_t)boundary * reach->words + (size_t)set / 64;
    return reach->back[at] & reach->front[at] & (uint64_t)1 << (set % 64);
}

#endif
