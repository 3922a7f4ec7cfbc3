/* The fewest homogeneous islands of a cluster (DESIGN.md, section 3; arXiv 2606.16907, conditions 1–3). */
#ifndef TG_CLUSTER_ISLANDS_H
#define TG_CLUSTER_ISLANDS_H

#include "cluster/cluster.h"

typedef struct {
    double compute, memory, intra; /* the largest ratio of two members is 1 + tolerance; INFINITY: any */
} tg_tolerance;

typedef struct {
    const size_t *nodes; /* indices into the cluster's nodes */
    size_t count;
} tg_pin;

typedef struct {
    tg_tolerance tolerance;
    bool merged;        /* the merged partition: as if all three tolerances were infinite */
    size_t split_nodes; /* islands of more nodes, a multiple of it, are split into parts of so many; 0: none is */
    const tg_pin *pins;
    size_t pin_count;
} tg_islands_options;

/* What two nodes differ in. */
typedef enum { TG_GPUS, TG_COMPUTE, TG_MEMORY, TG_INTRA, TG_PINNED } tg_trait;
typedef struct {
    tg_trait trait;
    size_t size;       /* TG_INTRA: the size of group that it shows at */
    double figures[2]; /* of the first and of the second node; none for TG_PINNED */
} tg_contrast;

/* Why two nodes are apart. By constraint:
 * 1, 2: contrast between first and second.
 * 3: the link from `from` to `to` is slower than that to `faster` (link_bytes_per_s holds both), so `faster` would have
 * to join, and it can't because of contrast between `faster` and `partner` (TG_PINNED: it is in a pinned island). 0:
 * nothing keeps the two apart, but each other partition of as few islands is worse or breaks a constraint: `third`
 * can't join the two (for 0 only; node_count if one of them is pinned, or if the heuristic missed the larger island).
 */
typedef struct {
    size_t first, second;
    int constraint;
    tg_contrast contrast;
    size_t from, to, faster, partner, third;
    double link_bytes_per_s[2];
} tg_apart;

typedef struct {
    const char *name;    /* the types of its GPUs, numbered if several islands have the same */
    const char *gpu;     /* type of its GPUs; several types: joined by '+' */
    const size_t *nodes; /* in the cluster's order */
    size_t node_count;
    size_t
        gpus_per_node; /* of the smallest node: only a pinned island may have larger ones, whose other GPUs stay idle */
    size_t gpus;
    double compute_flops, memory_bytes; /* here and below: of the slowest member */
    tg_rate intra;
    double intra_latency_s;
    tg_wire inter; /* between two of its nodes; no steps in an island of one node */
    bool merged;   /* its members differ by more than the tolerances */
    bool pinned;
    uint64_t signature; /* equal: all that times and memory inside the island depend on is equal */
} tg_island;

typedef struct {
    tg_island *islands; /* by their smallest node name */
    size_t count;
    const size_t *island_of;      /* by node */
    bool proved_fewest;           /* false past 16 groups of alike nodes that may share islands */
    const tg_apart *pin_warnings; /* constraints that pins break: 1, 2 with contrast; 3 with from, to, faster */
    size_t pin_warning_count;
    const size_t *unsplit; /* islands that split_nodes does not divide */
    size_t unsplit_count;
} tg_islands;

/* Groups whole nodes into the fewest islands that meet constraints 1–3; ties: the least sum over islands of max/min - 1
 * of compute, memory and intra-node rate (there the largest over group sizes), then the smallest list of islands, each
 * a sorted list of names, the islands sorted as well (past 16 nodes, of those that keep alike nodes together). Equal
 * inputs in any order give the same partition. out lives in arena. TG_EINPUT: a tolerance below 0, a node pinned twice.
 */
tg_status tg_islands_build(tg_arena *arena, const tg_cluster *cluster, const tg_islands_options *options,
                           tg_islands *out, tg_error *err);

/* Why each of count pairs of nodes (first and second of each are read) is not in one island of islands, which
 * tg_islands_build made with the same options. */
tg_status tg_islands_why(const tg_cluster *cluster, const tg_islands_options *options, const tg_islands *islands,
                         tg_apart *pairs, size_t count, tg_error *err);

#endif
