/* One island's stages: Alpa's inter-operator problem (COMPOSITION.md, section 8; arXiv 2201.12023, section 5), exactly.
 */
#ifndef TG_PIPELINE_PARTITION_H
#define TG_PIPELINE_PARTITION_H

#include "pipeline/instance.h"

/* Atoms [first, last) on so many devices, configured one way: one candidate of a stage. */
typedef struct {
    int first, last, devices;
    double cost_s; /* forward + backward of one microbatch */
    double sync_s;
    int max_successors; /* stages that may stand behind it; TG_NO_LIMIT or at least -1 (fits nowhere) */
} tg_partition_entry;

typedef struct {
    int atoms, devices, microbatches;
    int successors; /* stages behind the last of these */
    bool at_most;   /* devices may stay unused; else all are used */
    int entries;
    const tg_partition_entry *entry;
    const double *transfer_s; /* atoms - 1: one way, if a stage ends behind atom i; NULL: nothing */
} tg_partition;

typedef struct {
    int stages;          /* 0: there is no partition */
    const int *entries;  /* front first */
    double bottleneck_s; /* the largest cost and transfer */
    double latency_s;    /* costs and, both ways, transfers */
    double sync_s;       /* the largest */
    int max_successors;  /* of the whole row */
    int devices;
} tg_partition_plan;

/* The partition of least latency_s + (microbatches - 1) * bottleneck_s, the same one of equals in every run. TG_EINPUT,
 * with the field, if an entry is not one. What out holds lives in arena. */
tg_status tg_partition_best(tg_arena *arena, const tg_partition *problem, tg_partition_plan *out, tg_error *err);

double tg_partition_total_s(const tg_partition *problem, const tg_partition_plan *plan);

/* Why there is no partition, as a sentence: whether it is the entries' max_successors or the entries themselves. */
void tg_partition_explain(const tg_partition *problem, tg_error *err);

/* All partitions that no other is as good as in all of stages, bottleneck_s, latency_s, sync_s and max_successors (of
 * equals one), by stages, then bottleneck_s. TG_EINPUT also if there are too many to hold. */
tg_status tg_partition_pareto(tg_arena *arena, const tg_partition *problem, const tg_partition_plan **out, int *count,
                              tg_error *err);

/* What both share. TG_EINPUT with the field if an entry, a transfer or a count is out of its range. */
tg_status tg_partition_check(const tg_partition *problem, tg_error *err);

/* Orders entries as indices into problem->entry: by first, last, devices, cost. Drops those that nothing can use and
 * those that another of equal atoms and devices is no worse than in cost and max_successors (with_sync: and in sync).
 * *count is how many are left. NULL when memory is out. */
int *tg_partition_sort(tg_arena *arena, const tg_partition *problem, bool with_sync, int *count);

/* Fills in all of out but entries from its entries. */
void tg_partition_measure(const tg_partition *problem, tg_partition_plan *out);

#endif
