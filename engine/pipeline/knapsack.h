/* Chooses one of several ways for each item of a row (a strategy for each layer of a stage) within a memory budget: the
 * multiple-choice knapsack of Galvatron (arXiv 2211.13878, section 4), with a price for changing the choice between
 * neighbours, solved exactly for all budgets at once. */
#ifndef TG_PIPELINE_KNAPSACK_H
#define TG_PIPELINE_KNAPSACK_H

#include "base/base.h"

enum { TG_KNAPSACK_ITEMS = 4096, TG_KNAPSACK_CHOICES = 256 };

typedef struct {
    int items, choices;
    const double *time_s;   /* items * choices, by items; infinite where an item can't be had that way */
    const double *bytes;    /* the same */
    const double *switch_s; /* choices * choices, from the front item's choice to the one behind; NULL: nothing */
    double capacity_bytes;
} tg_knapsack;

/* One best row: no other is as quick with as few bytes. */
typedef struct {
    double bytes, time_s;
} tg_knapsack_point;

/* The best rows by bytes, ascending, so that times descend; lives in no arena. */
typedef struct tg_knapsack_front tg_knapsack_front;

/* An empty front, or NULL when memory is out. */
tg_knapsack_front *tg_knapsack_new(void);
void tg_knapsack_free(tg_knapsack_front *front);

/* Fills the front with all rows within capacity_bytes that no other is as good as (of equal rows the one whose choices
 * come first). Bytes are rounded up to whole ones, which makes their sums exact. TG_EINPUT, with the field, for numbers
 * that are negative or not numbers. */
tg_status tg_knapsack_solve(tg_knapsack_front *front, const tg_knapsack *problem, tg_error *err);

/* The quickest row within so many bytes, or NULL. */
const tg_knapsack_point *tg_knapsack_best(const tg_knapsack_front *front, double capacity_bytes);

/* The choices of a point of the front, one for each item. */
void tg_knapsack_choices(const tg_knapsack_front *front, const tg_knapsack_point *point, int *choices);

size_t tg_knapsack_count(const tg_knapsack_front *front);
int tg_knapsack_items(const tg_knapsack_front *front);

/* The fewest bytes of any row, whatever its time; infinite if an item can't be had at all. */
double tg_knapsack_least_bytes(const tg_knapsack *problem);

#endif
