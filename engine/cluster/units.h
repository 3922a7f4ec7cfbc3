/* What the grouping into islands works on: units (nodes, or groups of alike nodes) with figures to compare and the
 * single-flow rates between them. Units are sorted by their smallest node name, so that nothing depends on the order of
 * input. */
#ifndef TG_CLUSTER_UNITS_H
#define TG_CLUSTER_UNITS_H

#include "cluster/islands.h"

enum { TG_FIGURE_GPUS, TG_FIGURE_COMPUTE, TG_FIGURE_MEMORY, TG_FIGURE_INTRA }; /* then one more each further size */

typedef struct {
    const tg_cluster *cluster;
    const size_t *order; /* nodes by name */
    size_t count;
    const size_t *start;  /* count + 1: unit u holds member[start[u]] … member[start[u + 1] - 1] */
    const size_t *member; /* places in order, rising in each unit */
    size_t figures;
    const size_t *figure_size; /* figures: size of group, from TG_FIGURE_INTRA on */
    const double *figure;      /* count * figures */
    const double *limit;       /* figures: the largest ratio, slack included */
    const double *rate;        /* count * count, bytes per second of one flow */
    const bool *same;          /* count * count: parts of one machine */
    const bool *blocked;       /* pinned: joins nobody */
    size_t *list;              /* scratch of tg_units_close */
} tg_units;

/* Why a set can't grow to one that meets the constraints. outside == count: two of its own units, inside and partner.
 */
typedef struct {
    size_t from, inside, outside; /* rate from-outside is above from-inside */
    size_t partner;               /* of outside; count if outside is blocked */
    size_t figure;                /* in which outside and partner differ */
} tg_obstacle;

/* join_twins: nodes alike in all, and tied among themselves at least as fast as to anyone else, become one unit. Some
 * fewest partition of least spread never parts them: if u and v are twins in islands A and B, moving u to B keeps 1–3
 * and spreads nothing wider. */
tg_status tg_units_build(tg_arena *arena, const tg_cluster *cluster, const tg_tolerance *tolerance, const tg_pin *pins,
                         size_t pin_count, bool join_twins, tg_units *out, tg_error *err);

/* The first figure in which two units differ by more than the tolerance; figures if none. */
size_t tg_units_differ(const tg_units *units, size_t u, size_t v);

/* Grows in (count flags) to the smallest set that meets constraint 3: whoever is linked faster to a member than that
 * member to another one is in each larger set that meets it. False if that set breaks 1 or 2 or holds a blocked unit:
 * then no island holds the set given. */
bool tg_units_close(const tg_units *units, bool *in, tg_obstacle *why);

/* Sum of max/min - 1 of compute, memory and intra-node rate, in steps of 2^-40 so that sums don't depend on their
 * order. */
int64_t tg_units_spread(const tg_units *units, const size_t *list, size_t count);

/* island_of (count): for each unit that is not blocked the number of its island, from 0, in a partition into the
 * fewest. */
tg_status tg_units_partition(const tg_units *units, size_t *island_of, size_t *islands, bool *proved, tg_error *err);

/* Lists into out->pin_warnings what the pins break (why.c): of each figure and of constraint 3 the worst case. */
tg_status tg_islands_check_pins(tg_arena *arena, const tg_cluster *cluster, const tg_islands_options *options,
                                tg_islands *out, tg_error *err);

#endif
