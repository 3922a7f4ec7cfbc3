/* A finished plan as its file says it (FORMATS.md, tangram.plan/1), and what must hold of it, whoever made it. */
#ifndef TG_PIPELINE_PLAN_H
#define TG_PIPELINE_PLAN_H

#include "pipeline/simulate.h"
#include "pipeline/strategy.h"

typedef struct {
    const char *name;
    int gpus;
    const double *memory_bytes; /* of each GPU */
} tg_plan_node;

typedef struct {
    int node; /* in the plan's nodes */
    int count;
    const int *indices; /* in the node, from 0 */
} tg_plan_gpus;

/* Bytes of the stage's fullest GPU, by use. */
typedef enum {
    TG_BYTES_WEIGHTS,
    TG_BYTES_GRADIENTS,
    TG_BYTES_OPTIMIZER,
    TG_BYTES_ACTIVATIONS,
    TG_BYTES_TRANSIENT,
    TG_BYTES_BUFFERS,
    TG_BYTES_CONTEXT,
    TG_BYTES_USES
} tg_bytes_use;

typedef struct {
    const char *island;
    int gpus_count; /* entries of gpus, one a node */
    const tg_plan_gpus *gpus;
    int first, last; /* atoms [first, last) */
    double layers;   /* whole or, if atoms are halves of layers, a multiple of a half */
    bool has_embedding, has_head;
    int dp, tp, cp, ep, etp;
    tg_recompute recompute;
    double recompute_layers; /* of TG_RECOMPUTE_FULL; negative: all */
    tg_stage_time time;
    double transfer_s; /* to the next stage; 0 of the last */
    int successors, inflight;
    double bytes[TG_BYTES_USES], total_bytes, capacity_bytes;
} tg_plan_stage;

typedef struct {
    const char *name;
    bool used;
} tg_plan_island;

typedef struct {
    int layers, atoms;
    bool half;          /* atoms are halves of layers */
    bool adapter_atoms; /* atoms are the adapter's own: what they hold is not known here */
    int nodes, stages, islands;
    const tg_plan_node *node;
    const tg_plan_stage *stage; /* front first */
    const tg_plan_island *island;
    int microbatches, global_batch;
    double memory_margin;
    bool paper; /* the objective: gap is of the paper's estimate */
    tg_p2p p2p;
    const int *warmup; /* stages: forwards before the first backward, at most microbatches */
    double time_s, bound_s, gap;
} tg_plan;

/* Reads the file's text; everything lives in arena. TG_EINPUT, with the path of the field, if it is not of the format:
 * fields that are unknown, missing, twice there, of a wrong type or out of range; names that stand for nothing. What
 * only reports need is not read. */
tg_status tg_plan_read(tg_arena *arena, const char *text, size_t size, tg_plan *out, tg_error *err);

/* Simulates the plan's own times; operations as in tg_simulate, may be NULL. */
tg_status tg_plan_simulate(const tg_plan *plan, double *time_s, tg_operation *operations, tg_error *err);

/* TG_EINPUT, with the path of the field and one sentence, for the first of these that the plan breaks: all atoms once
 * and in order; each GPU at most once; a stage in one node or in equal aligned parts of several; degrees that multiply
 * to its GPUs and divide the batch; depths that 1F1B allows; memory that adds up and fits; times that the simulation
 * gives. Knows nothing of how plans are made. */
tg_status tg_plan_check(const tg_plan *plan, tg_error *err);

#endif
