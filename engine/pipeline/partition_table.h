/* Alpa's inter-operator problem (pipeline/partition.h) for all runs of atoms at once: the Pareto sets of an adapter
 * that is asked about every slice of a model on one island. Suffixes of equal content are solved once, wherever they
 * stand, and stages are priced from terms (pipeline/split.h) or by the caller. */
#ifndef TG_PIPELINE_PARTITION_TABLE_H
#define TG_PIPELINE_PARTITION_TABLE_H

#include "pipeline/split.h"

typedef struct tg_partition_table tg_partition_table;

typedef struct {
    int atoms;
    const int *content; /* of each atom; equal numbers, equal atoms */
    int devices, node;  /* GPUs of the island and of each of its nodes */
    int microbatches;
    int most_successors; /* more never stand behind a plan */
    bool spread;         /* plans that bear more successors than asked for count as better */
    bool idle;           /* GPUs may stay unused, the last ones; else all are used */
    bool simulated;      /* rows are compared by how they run, with their stages' order; else by the paper's estimate */
    int most_stages;
    /* What transfers between a row's stages take, if simulated; boundary_bytes NULL: nothing. */
    const double *boundary_bytes; /* behind each atom but the last, of a microbatch */
    const double *intra_bytes_per_s,
        *inter_bytes_per_s; /* node: by GPUs of a group in a node; by flows between nodes */
    double intra_latency_s, inter_latency_s;
} tg_partition_table_spec;

/* One way to run a stage. */
typedef struct {
    double time_s, forward_s; /* forward + backward of one microbatch; forward alone */
    double sync_s;            /* at the end of a step */
    int max_successors;       /* TG_NO_LIMIT; at least 0 */
    int strategy;             /* the caller's number */
    int recomputed;           /* layers */
} tg_stage_option;

typedef struct {
    int first; /* of the model's runs of this content, where the first one starts */
    int atoms, devices;
    tg_stage_option option;
} tg_table_stage;

typedef struct {
    int stages, idle;
    const tg_table_stage *stage; /* front first */
} tg_table_plan;

/* NULL when memory is out or a number of spec is out of its range. Terms that are added must outlive the table, which
 * copies what spec points to. */
tg_partition_table *tg_partition_table_new(const tg_partition_table_spec *spec, tg_error *err);
void tg_partition_table_free(tg_partition_table *table);

/* Stages of so many devices may use these terms, as strategy number `strategy`; of equal ways the one added first is
 * taken. */
tg_status tg_partition_table_add(tg_partition_table *table, int devices, int strategy, const tg_terms *terms,
                                 bool allow_recompute, tg_error *err);

/* All ways of a stage of atoms [first, last) on so many devices, where the caller prices them; holds for every run of
 * equal content. */
tg_status tg_partition_table_set(tg_partition_table *table, int first, int last, int devices,
                                 const tg_stage_option *options, int count, tg_error *err);

/* Have the ways of such a stage been set? */
bool tg_partition_table_has(const tg_partition_table *table, int first, int last, int devices);

/* The rows of stages over [first, last), each stage in one node or in whole nodes, with successors stages behind, that
 * no other is as good as in all of stages, bottleneck, latency, largest sync and (spread) successors borne; by stages,
 * then bottleneck. Simulated: that no other of as many stages (on more than 8 devices: or fewer) is as good as in
 * latency, how long its syncs reach, and, with nothing behind, the time of its front stage from the first forward to
 * the last backward and that of the iteration; by stages, then the former. What *out holds lives in arena. TG_EINPUT
 * also if there are too many to hold.
 */
tg_status tg_partition_table_plans(tg_partition_table *table, tg_arena *arena, int first, int last, int successors,
                                   const tg_table_plan **out, int *count, tg_error *err);

#endif
