/* What whole fronts add to a suffix (fronts.c). Private to the composer. */
#ifndef TG_PIPELINE_FRONTS_H
#define TG_PIPELINE_FRONTS_H

#include "pipeline/maxplus.h"

struct tg_tables;

/* Fronts whose rear plan is of one class. With a suffix over a transfer c, H = head + 2c and T = tail + 2c, X of the
 * whole is at least max(base, head + H, tail + T, both + H + T, e + max(2c + E, (B-1)c + max(H, T)), x + c + X). */
typedef struct {
    double base, head, tail, both, e, x;
    int rear_class;
} tg_front;
TG_VEC(tg_front_list, tg_front);

/* Those of value i of the tables are list[start[i] … start[i] + count[i]). */
typedef struct {
    tg_front_list list;
    size_t *start, room;
    int *count;
} tg_fronts;

void tg_fronts_free(tg_fronts *fronts);

/* Makes the fronts over the tables' living edges, those that stay under the limit with the suffixes' least values. */
tg_status tg_fronts_make(struct tg_tables *tables, tg_error *err);

/* No sequence takes less that ends in this label, of n stages and with this front class, at a row. Infinite where none
 * under the limit does. */
double tg_fronts_bound(const struct tg_tables *tables, int row, int n, int front_class, const tg_label *label);

#endif
