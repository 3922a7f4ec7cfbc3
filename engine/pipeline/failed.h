/* Suffixes that were searched in vain, so that no worse ones are searched again. Private to the composer.
 *
 * Whatever stands in front, the bound of the whole (label.c) grows with: e and x of the suffix, and for each of its
 * stages u the path Σ (t + 2c) from its front to u, the largest f and b on that path, and for the pace the way to u and
 * back + (B-w) t_u and the largest of f and c, of b and c. (With the depths given by n, head, tail, loop and pace of
 * every stage in front are maxima of sums of these with weights >= 0, and its own t counts B - (left/k)(k-1) > 0 times
 * against the loop.) So if every sequence that ends in suffix P has a bound of at least the target, so has every
 * sequence that ends in a suffix Q of the same row, n and front class that is no less than P in all of these. Nothing
 * is concluded about simulated times: a P of which some sequence was simulated is not entered. */
#ifndef TG_PIPELINE_FAILED_H
#define TG_PIPELINE_FAILED_H

#include "pipeline/tables.h"

typedef struct {
    int next, n, front_class;
    size_t at; /* in the numbers */
} tg_failed_entry;
TG_VEC(tg_failed_entries, tg_failed_entry);
TG_VEC(tg_ints, int);

typedef struct {
    tg_ints first; /* by row */
    tg_failed_entries entries;
    tg_doubles numbers;
    double *wanted; /* of the suffix at hand */
} tg_failed;

bool tg_failed_make(tg_arena *arena, const tg_problem *problem, tg_failed *out);
void tg_failed_free(tg_failed *failed);
bool tg_failed_clear(tg_failed *failed, size_t rows);

/* Whether a suffix in vain is known that is no worse than the chain with this label. */
bool tg_failed_covers(tg_failed *failed, const tg_problem *problem, int row, int front_class, const tg_chain *chain,
                      const tg_label *label);
/* Enters the chain; does nothing once the memory for this is used up. False when memory is out. */
bool tg_failed_add(tg_failed *failed, const tg_problem *problem, int row, int front_class, const tg_chain *chain,
                   const tg_label *label);

#endif
