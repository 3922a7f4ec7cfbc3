/* Where an island's stages lie and what a transfer between two of them costs (DESIGN.md, sections 3 and 4). */
#ifndef TG_CLUSTER_PLACE_H
#define TG_CLUSTER_PLACE_H

#include "cluster/islands.h"

/* GPUs [first, first + count) of a node, counted inside the node (its machine's index is first_gpu more). */
typedef struct {
    size_t node, first, count;
} tg_gpu_range;

/* A stage: a part of one node, or whole nodes. */
typedef struct {
    const tg_gpu_range *ranges;
    size_t range_count;
} tg_stage_place;

/* What the transfer to another island depends on, beside the island: how many nodes a stage spans, and its GPUs in
 * each. */
typedef struct {
    size_t nodes, gpus_per_node;
} tg_end_class;

typedef struct {
    double latency_s, bytes_per_s;
} tg_transfer;

/* Gives the stages, front to back, consecutive GPUs by node (in the cluster's order) and index; idle GPUs are the last
 * ones. places (count of them) live in arena. TG_EINPUT, with a sentence, if a stage would lie across nodes that it
 * does not fill, or if the counts and idle don't add up to the island's GPUs. */
tg_status tg_place(tg_arena *arena, const tg_island *island, const size_t *gpus, size_t count, size_t idle,
                   tg_stage_place *places, tg_error *err);

/* The classes that an end stage of the island can have, by rising GPUs; *out holds as many as the return value (NULL:
 * memory is out). */
size_t tg_end_classes(tg_arena *arena, const tg_island *island, const tg_end_class **out);

/* Between end stages of two islands: rate at min(GPUs per node) flows, times min(nodes); the slowest pair of the
 * islands' nodes counts, since a class does not say which nodes. Links are symmetric. */
tg_transfer tg_transfer_between(const tg_cluster *cluster, const tg_island *a, tg_end_class class_a, const tg_island *b,
                                tg_end_class class_b);

/* Between two stages of one island: on different nodes as above, over the pairs in use; inside one node the intra-node
 * rate of the smallest aligned group that holds both. */
tg_transfer tg_transfer_inside(const tg_cluster *cluster, const tg_stage_place *a, const tg_stage_place *b);

#endif
