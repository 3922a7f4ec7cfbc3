/* What a stage's memory bears (COMPOSITION.md, sections 1 and 6). Bytes are of the stage's fullest GPU. */
#ifndef TG_PIPELINE_MEMORY_H
#define TG_PIPELINE_MEMORY_H

#include "pipeline/instance.h"

typedef struct {
    double static_bytes, transient_bytes;
    double inflight_bytes; /* each microbatch in flight */
    double capacity_bytes;
} tg_stage_memory;

/* The most microbatches that the stage holds at once: the largest k with static + transient + k * inflight <= capacity,
 * 0 if not even one fits, TG_NO_LIMIT if all microbatches of the iteration do. */
int tg_memory_max_inflight(const tg_stage_memory *stage, int microbatches);

/* The most stages that may stand behind it in plain 1F1B, where n of them need min(n + 1, microbatches) in flight; -1
 * if it does not even fit as the last, TG_NO_LIMIT if it always fits. */
int tg_memory_bears(const tg_stage_memory *stage, int microbatches);

/* max_successors of a row of count stages, front first: the least of what each bears beyond the stages of the row
 * behind it; -1 if the row does not fit at all. */
int tg_plan_max_successors(const tg_stage_memory *stages, int count, int microbatches);

#endif
