/* The lower bound of COMPOSITION.md, section 4, built stage by stage from the back. Private to the composer. */
#ifndef TG_PIPELINE_LABEL_H
#define TG_PIPELINE_LABEL_H

#include "pipeline/problem.h"

/* R: round trip of one microbatch; E: first forward to last backward of the front stage; X: to the end of the
 * iteration. */
typedef struct {
    double r, e, x;
} tg_label;

/* The stages of a suffix, rear first: stage k has k stages behind it. transfer_s[k] is behind stage k. */
typedef struct {
    int count, room;
    const tg_stage_time **stage;
    double *time_s; /* f + b */
    double *transfer_s;
    int *depth; /* forwards before the first backward, at most the microbatches */
} tg_chain;

bool tg_chain_make(tg_arena *arena, int room, tg_chain *out);

/* Puts a stage of the given depth in front of the chain, over a transfer, and returns the label with it. */
tg_label tg_chain_push(tg_chain *chain, const tg_stage_time *stage, double transfer_s, int depth, int microbatches,
                       tg_label behind);

/* Puts a plan's stages in front, with plain 1F1B depths. */
tg_label tg_chain_push_stages(tg_chain *chain, const tg_stage_time *stages, int count, const double *inner_transfer_s,
                              double transfer_s, int microbatches, tg_label behind);

/* The same by the problem's objective; for the paper's, r is the latency of the suffix and e = x = its T. */
tg_label tg_chain_push_content(tg_chain *chain, const tg_content *content, double transfer_s, const tg_problem *problem,
                               tg_label behind);

#endif
