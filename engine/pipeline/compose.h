/* Composes partial plans into the best pipeline, with a certificate (COMPOSITION.md, sections 3 to 6 and 9). */
#ifndef TG_PIPELINE_COMPOSE_H
#define TG_PIPELINE_COMPOSE_H

#include <signal.h>

#include "pipeline/instance.h"
#include "pipeline/simulate.h"

typedef enum { TG_SIMULATED, TG_PAPER } tg_objective;
typedef enum { TG_PLAIN, TG_AUTO } tg_warmup;
typedef enum { TG_NOT_STOPPED, TG_STOPPED_TIME, TG_STOPPED_SIGNAL, TG_STOPPED_EFFORT } tg_stop;

typedef struct {
    tg_objective objective;
    tg_p2p p2p;
    tg_warmup warmup;
    double gap;          /* fraction; 0 is exact */
    double time_limit_s; /* infinite: none */
    long effort;         /* limit on work that, unlike time, is the same in every run; LONG_MAX: none */
    long many_effort;    /* the same, beyond first sequences (beam.h), where islands are too many to count */
    const volatile sig_atomic_t *stop; /* set to non-zero by a signal; may be NULL */
    int top;                           /* the N best distinct sequences; at least 1 */
    double cutoff;                     /* only sequences below it (objective's unit) are wanted; infinite: all */
    int required_island;               /* the sequence must use it; -1: none */
} tg_compose_options;

typedef struct {
    const int *plans; /* indices, front first */
    int count;
    double time_s; /* simulated */
} tg_sequence;

typedef struct {
    bool found;       /* false: no sequence, or none below cutoff */
    tg_sequence best; /* = top[0] */
    double bound_s; /* no sequence takes less (paper: X of best); with a cutoff and nothing found: at least cutoff * (1
                       - gap) or infinite */
    double gap;     /* 1 - bound_s / time_s; for the paper's objective by T: 1 - (least T not excluded) / paper_s */
    bool proved;    /* gap is at most the one asked for */
    double paper_s; /* T of best */
    int stage_count;
    const int *warmup; /* min(w, microbatches) of each stage */
    int top_count;
    const tg_sequence *top;
    tg_stop stopped;
    long labels, simulated; /* search effort */
} tg_composition;

void tg_compose_defaults(tg_compose_options *options); /* simulated, overlapped, plain, gap 0.005, top 1, no limits */
/* TG_EINPUT for an option out of range, and for the paper's objective with TG_AUTO. */
tg_status tg_compose(tg_arena *arena, const tg_instance *instance, const tg_compose_options *options,
                     tg_composition *out, tg_error *err);

/* T of a sequence, the paper's estimate (COMPOSITION.md, section 3). */
double tg_paper_s(const tg_instance *instance, const int *plans, int count);

#endif
