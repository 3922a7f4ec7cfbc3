/* Time limit, limit on effort and signal, polled by long work. Private to the composer. */
#ifndef TG_PIPELINE_HALT_H
#define TG_PIPELINE_HALT_H

#include "pipeline/compose.h"

typedef struct {
    double deadline_s;
    const volatile sig_atomic_t *stop;
    tg_stop stopped;
    unsigned calls;
    long effort_left; /* polls: the same in every run of the same problem */
} tg_halt;

/* Whether to stop, now or since an earlier call. Looks at the clock on every `every`th call. */
static inline bool tg_halted(tg_halt *halt, unsigned every)
{
    if (halt->stop && *halt->stop)
        halt->stopped = TG_STOPPED_SIGNAL;
    else if (halt->stopped == TG_NOT_STOPPED && halt->effort_left-- <= 0)
        halt->stopped = TG_STOPPED_EFFORT;
    else if (halt->stopped == TG_NOT_STOPPED && halt->calls++ % every == 0 && tg_clock_s() > halt->deadline_s)
        halt->stopped = TG_STOPPED_TIME;
    return halt->stopped != TG_NOT_STOPPED;
}

#endif
