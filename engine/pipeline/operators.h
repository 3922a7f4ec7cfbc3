/* A stage of profiled operators under one strategy, priced by Aceso's rules (EuroSys'24; FORMULAS.md, 5.1): its sums,
 * what its recompute flags save, and the greedy choice of these flags. */
#ifndef TG_PIPELINE_OPERATORS_H
#define TG_PIPELINE_OPERATORS_H

#include "base/base.h"

enum { TG_OPERATORS = 16384, TG_OPERATOR_NAMES = 64 }; /* a model has at most so many */

/* Per operator of the whole model; all numbers finite and at least 0. */
typedef struct {
    int count;
    const double *forward_s, *backward_s; /* of one microbatch */
    const double *weight_bytes;           /* of the 16-bit parameters */
    const double *input_bytes;            /* what enters it, of one microbatch */
    const double *activation_bytes;       /* what its forward allocates and keeps: the choice goes by it */
    const double *kept_bytes;             /* the same, buffers shared with others counted once: memory goes by it */
    const double *forward_reserved_bytes; /* what the allocator takes beside */
    const double *backward_reserved_bytes;
    const int *name;        /* [0, TG_OPERATOR_NAMES): equal for what is chosen together */
    const bool *recomputes; /* may be chosen */
    const bool *layer;      /* a layer starts with it: what enters it is kept even if recomputed */
} tg_operators_input;

/* Made once in place, by a memory of tg_operators_bytes(count), then only read. */
typedef struct tg_operators tg_operators;
size_t tg_operators_bytes(int count);
tg_status tg_operators_init(tg_operators *operators, const tg_operators_input *from, tg_error *err);
int tg_operators_count(const tg_operators *operators);

typedef struct {
    double forward_s, backward_s, recompute_s;
    double weight_bytes, live_bytes, peak_bytes, reserved_bytes; /* W, live, peak, reserved of FORMULAS.md, 5.1 */
    int flagged;                                                 /* operators */
} tg_operators_stage;

/* 8 W + live (behind + 1) + peak + reserved: 16 bytes a parameter, and each microbatch in flight. */
double tg_operators_stage_bytes(const tg_operators_stage *stage, int behind);

/* The stage of operators [first, last), not empty, with flags given (last - first of them). */
void tg_operators_price(const tg_operators *operators, int first, int last, const bool *flags, tg_operators_stage *out);

/* The same with flags chosen: names in falling order of their activations, an operator with the one behind it, until
 * the stage fits limit_bytes with behind stages after it, or nothing is left; out tells which. flags may be NULL. */
void tg_operators_fit(const tg_operators *operators, int first, int last, int behind, double limit_bytes, bool *flags,
                      tg_operators_stage *out);

#endif
