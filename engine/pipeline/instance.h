/* A bare composition problem (COMPOSITION.md, section 1): islands, links between them, and partial plans. */
#ifndef TG_PIPELINE_INSTANCE_H
#define TG_PIPELINE_INSTANCE_H

#include <limits.h>

#include "base/base.h"

enum { TG_NO_LIMIT = INT_MAX }; /* max_successors, max_inflight: no limit */

typedef struct {
    double forward_s, backward_s; /* one microbatch */
    double sync_s;                /* once, after the stage's last backward */
    int max_inflight; /* microbatches that its memory holds at most, TG_NO_LIMIT or at least 1; 0: successors + 1 */
} tg_stage_time;

typedef struct {
    int island;                         /* used at most once a sequence */
    int front_class, rear_class;        /* link classes of the first and the last stage */
    int first, last;                    /* atoms [first, last) */
    int min_successors, max_successors; /* stages behind the plan's last stage, both inclusive */
    int gpus;                           /* for ties: fewest first */
    int stage_count;                    /* at least 1 */
    const tg_stage_time *stages;        /* front first */
    const double *inner_transfer_s;     /* stage_count - 1, one way */
} tg_partial;

typedef struct {
    double latency_s, bytes_per_s; /* bytes_per_s 0: no link, the two may not stand behind each other */
} tg_link;

/* A class is what the time of a transfer depends on: in a bare instance the island itself, in a plan (island, nodes,
 * GPUs per node) of the end stage (DESIGN.md, section 4). links[r * classes + f] holds when a plan whose rear stage is
 * of class r stands directly in front of one whose front stage is of class f; links are directed. */
typedef struct {
    int atoms, microbatches;
    const double *boundary_bytes; /* atoms - 1: behind atom i, the whole microbatch once */
    int islands;
    const char *const *names; /* islands */
    int classes;
    const int *class_island; /* classes */
    const tg_link *links;    /* classes * classes */
    int plans;
    const tg_partial *plan;
} tg_instance;

/* Seconds that a transfer between plan p and the plan q behind it takes; infinite without a link. */
double tg_instance_transfer_s(const tg_instance *instance, const tg_partial *p, const tg_partial *q);

/* Reads tangram.instance/1 (FORMATS.md); everything lives in arena. TG_EINPUT: "plans[3].stages[0].forward_s: …".
 * Beyond the format, problems with several classes an island may give "class_island" (links are then between classes)
 * and, in a plan, "front_class", "rear_class" and "min_successors". */
tg_status tg_instance_read(tg_arena *arena, const char *json, size_t size, tg_instance *out, tg_error *err);

/* A random instance, the same for equal arguments on every machine. variants: plans a (slice, island); island i is of
 * kind i modulo kinds, and islands of one kind are equal. */
tg_status tg_instance_generate(tg_arena *arena, uint64_t seed, int atoms, int islands, int variants, int kinds,
                               tg_instance *out, tg_error *err);

/* tangram.instance/1 text, %.17g; malloc'ed, the caller frees it; NULL when memory is out. */
char *tg_instance_write(const tg_instance *instance);

#endif
