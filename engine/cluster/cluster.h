/* Nodes, their GPUs and the links between them (DESIGN.md, section 3), as numbers: names of GPU types stand for nothing
 * here, what a catalogue knows about them is filled in before. */
#ifndef TG_CLUSTER_CLUSTER_H
#define TG_CLUSTER_CLUSTER_H

#include "base/base.h"

/* Two figures are tied if they differ by no more than this part. */
#define TG_RELATIVE_SLACK 1e-12

typedef struct {
    size_t size; /* GPUs of a group inside a node, or concurrent flows between two nodes; at least 1 */
    double bytes_per_s;
} tg_rate_step;

/* A rate by size: at each size the nearest smaller step holds, below the smallest step that one. */
typedef struct {
    size_t count;
    const tg_rate_step *steps; /* by rising size, no size twice */
} tg_rate;

typedef struct {
    tg_rate rate; /* bytes per second by concurrent flows, the total over them */
    double latency_s;
} tg_wire;

/* GPUs of one kind in one node. */
typedef struct {
    const char *gpu;   /* name of the type */
    const char *facts; /* all else that times and memory depend on, as text in one fixed form; may be NULL */
    size_t count;
    double compute_flops, memory_bytes; /* of one GPU */
} tg_gpu_kind;

typedef struct {
    const char *name;
    const tg_gpu_kind
        *kinds; /* in the order of the GPUs' indices; several: the node is cut into one virtual node a kind */
    size_t kind_count;
    tg_rate intra; /* bytes per second by the size of a group of GPUs */
    double intra_latency_s;
} tg_node_input;

typedef struct {
    const char *between[2]; /* names of nodes as given, not of their parts */
    tg_wire wire;
} tg_link_input;

typedef struct {
    const tg_node_input *nodes;
    size_t node_count;
    const tg_wire *default_wire; /* between nodes that no link names; NULL: every two need one */
    const tg_link_input *links;
    size_t link_count;
} tg_cluster_input;

/* A node as planned with: a whole machine, or the GPUs of one kind in it, or a part that tg_cluster_cut made. */
typedef struct {
    const char *name;          /* the machine's; "a1:4-7" for a part, by the indices of its GPUs */
    size_t physical;           /* equal for parts of one machine */
    const char *physical_name; /* the machine's name */
    size_t physical_gpus;      /* of the whole machine */
    size_t first_gpu;          /* index of the node's first GPU in the machine */
    size_t gpus;
    const char *gpu, *facts; /* facts is never NULL */
    double compute_flops, memory_bytes;
    tg_rate intra;
    double intra_latency_s;
} tg_node;

typedef struct {
    tg_node *nodes;
    size_t node_count;
    tg_wire *wires;
    size_t wire_count;
    uint32_t *wire_of; /* node_count * node_count */
} tg_cluster;

/* Checks and copies the input; what out holds lives in arena. TG_EINPUT with the field: a name twice, no GPU, a rate
 * that is not positive and finite, a link of a node that is not there, two nodes without a link. */
tg_status tg_cluster_build(tg_arena *arena, const tg_cluster_input *input, tg_cluster *out, tg_error *err);

/* The same cluster with each node of more than gpus GPUs, a multiple of it, cut into parts of gpus, so that 8-GPU
 * machines may join 4-GPU ones. out lives in arena and needs cluster no longer. TG_EINPUT if gpus is 0. */
tg_status tg_cluster_cut(tg_arena *arena, const tg_cluster *cluster, size_t gpus, tg_cluster *out, tg_error *err);

double tg_rate_at(const tg_rate *rate, size_t size);

/* The link between two nodes. Parts of one machine are linked at its intra-node rate for the group that holds both. n
 * == m: NULL. */
const tg_wire *tg_cluster_link(const tg_cluster *cluster, size_t n, size_t m);

/* Rate inside a machine at the smallest aligned group (GPUs 2i and 2i+1, then four, …) that holds the GPUs [first,
 * last). */
double tg_node_intra_at(const tg_node *node, size_t first, size_t last);

/* Index of the node of this name; node_count if there is none. */
size_t tg_cluster_find(const tg_cluster *cluster, const char *name);

/* The point by point smaller of two rates, over the sizes of both. Its steps live in arena; false when memory is out.
 */
bool tg_rate_slower(tg_arena *arena, const tg_rate *a, const tg_rate *b, tg_rate *out);

#endif
