/* How the GPUs of one stage share the work. */
#ifndef TG_PIPELINE_STRATEGY_H
#define TG_PIPELINE_STRATEGY_H

#include <stdbool.h>

typedef enum { TG_RECOMPUTE_NONE, TG_RECOMPUTE_SELECTIVE, TG_RECOMPUTE_FULL } tg_recompute;

typedef struct {
    int dp, tp, cp, ep, etp, zero;
    bool sp, fsep;
    tg_recompute recompute;
    int recompute_layers; /* with TG_RECOMPUTE_FULL; -1: all */
    bool offload_optimizer, offload_activations;
} tg_strategy;

#endif
