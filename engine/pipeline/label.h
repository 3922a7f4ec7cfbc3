/* The lower bound of COMPOSITION.md, section 4, built stage by stage from the back. Private to the composer and
 * to the partition table. */
#ifndef TG_PIPELINE_LABEL_H
#define TG_PIPELINE_LABEL_H

#include "pipeline/problem.h"

/* Least times at the front stage of a suffix. With one microbatch head and tail are R, its round trip. */
typedef struct {
    double head; /* from its first forward to its first backward's end */
    double tail; /* from its last forward to its last backward's end */
    double e;    /* from its first forward to its last backward's end */
    double x;    /* from its first forward to the end of the iteration */
} tg_label;

/* The stages of a suffix, rear first: stage k has k stages behind it. transfer_s[k] is behind stage k. The forwards
 * before its first backward, at most the microbatches, are known to be from least to most. */
typedef struct {
    int count, room, microbatches;
    tg_p2p p2p;
    bool paced; /* whether the pace bounds too (label.c); the search does without, for the sake of failed.h */
    const tg_stage_time **stage;
    double *time_s; /* f + b */
    double *transfer_s;
    int *least, *most;
} tg_chain;

bool tg_chain_make(tg_arena *arena, int room, int microbatches, tg_p2p p2p, tg_chain *out);

/* Forwards before the first backward of a stage with n stages behind it: plain 1F1B, and the most that `warmup` allows.
 */
static inline int tg_least_depth(int n, int microbatches)
{
    return n < microbatches ? n : microbatches;
}

static inline int tg_most_depth(const tg_stage_time *stage, int n, int microbatches, tg_warmup warmup)
{
    const int held = warmup == TG_PLAIN || stage->max_inflight == 0 ? 0 : stage->max_inflight - 1;
    return tg_least_depth(held > n ? held : n, microbatches);
}

/* Puts a stage in front of the chain, over a transfer, and returns the label with it. */
tg_label tg_chain_push(tg_chain *chain, const tg_stage_time *stage, double transfer_s, int least, int most,
                       tg_label behind);

/* Puts a plan's stages in front. */
tg_label tg_chain_push_stages(tg_chain *chain, const tg_stage_time *stages, int count, const double *inner_transfer_s,
                              double transfer_s, tg_warmup warmup, tg_label behind);

/* The same by the problem's objective; for the paper's, head = tail = latency of the suffix and e = x = its T. */
tg_label tg_chain_push_content(tg_chain *chain, const tg_content *content, double transfer_s, const tg_problem *problem,
                               tg_label behind);

#endif
