/* Tables of what can still come in below a limit (COMPOSITION.md, section 9). Private to the composer.
 *
 * A row stands for all suffixes of the atoms [boundary, L) that use the islands counted by `set` (and, by class, whose
 * front stage is of class `front_class`), n stages each. It holds by n the least head, tail, E, X and front-stage time
 * of those suffixes, component by component, and the least that any front adds: X of the whole is at least E + pre_e, X
 * + pre_x, head + pre_head, tail + pre_tail and head + tail + pre_both. Maps are monotone, so these are bounds; rows
 * and edges drop out whose two sides together don't stay under the limit. */
#ifndef TG_PIPELINE_TABLES_H
#define TG_PIPELINE_TABLES_H

#include "pipeline/fronts.h"
#include "pipeline/halt.h"
#include "pipeline/reach.h"

typedef struct {
    int boundary, set, front_class;
    int next;                   /* row of the same boundary, -1: none */
    int low, high;              /* n; high < low: the row is dead */
    int front_low, front_high;  /* n from which a front can complete it; used while the tables are built */
    double r, e, x;             /* least round trip, E and X over all n; likewise */
    double pre_r, pre_e, pre_x; /* likewise */
    size_t at;                  /* of n = low in the values */
    size_t first_edge, edges;
} tg_row;

/* A piece that may stand in front of a row's suffixes, and the row it leads to. */
typedef struct {
    int piece, target;
    double least; /* no sequence with it takes less */
} tg_edge;

TG_VEC(tg_rows, tg_row);
TG_VEC(tg_edges, tg_edge);
TG_VEC(tg_doubles, double);

/* Columns of the values behind those of a label. */
enum { TG_PRE_HEAD = TG_LABEL_COLUMNS, TG_PRE_TAIL, TG_PRE_BOTH, TG_PRE_E, TG_PRE_X, TG_COLUMNS };

/* How far a build got before nothing was left under the limit. */
typedef enum { TG_NO_COVER, TG_NO_ROW, TG_NO_LABEL, TG_ALIVE } tg_death;

typedef struct tg_tables {
    tg_arena *arena;
    tg_problem *problem;
    tg_halt *halt;
    tg_reach reach;
    int classes;               /* 1, or those of the problem where rows differ by class */
    int *index;                /* row of (boundary, set, class), -1: none */
    int *head;                 /* first row of a boundary */
    tg_group *usable;          /* groups, without the pieces not under the limit */
    int *usable_start;         /* atoms + 2: by last */
    double *least_e, *least_x; /* what any cover of [0, i) adds, whatever its islands */
    tg_rows rows;
    tg_edges edges;
    tg_doubles transfers; /* [row * problem->classes + rear class of the plan in front] */
    double *values;       /* TG_COLUMNS columns, values_room apart */
    size_t values_count, values_room;
    double *scratch; /* (TG_LABEL_COLUMNS + 1) * most_stages */
    tg_fronts fronts;
    double built;    /* limit that the rows and edges are made for; 0: of no use */
    double limit;    /* at most that: the one of the values and fronts */
    long work;       /* steps spent by the last build or tightening */
    long build_work; /* by the last build */
    tg_death death;  /* of the last build or tightening */
} tg_tables;

tg_status tg_tables_make(tg_arena *arena, tg_problem *problem, tg_halt *halt, tg_tables *out, tg_error *err);
void tg_tables_free(tg_tables *tables);

/* Builds the tables for a limit, with rows that differ by class or not. Unless death is TG_ALIVE, no sequence has X
 * below the limit. After a halt the tables are of no use. */
tg_status tg_tables_build(tg_tables *tables, double limit, bool by_class, tg_error *err);

/* The same for a limit of at most `built`, over the rows and edges there are. */
tg_status tg_tables_tighten(tg_tables *tables, double limit, tg_error *err);

/* A lower bound on all sequences, by living tables. */
double tg_tables_least(const tg_tables *tables);

/* Whether rows by class are any finer, and not too many. */
bool tg_tables_fit_by_class(const tg_tables *tables);

static inline const tg_row *tg_tables_root(const tg_tables *tables)
{
    return &tables->rows.at[tables->head[tables->problem->atoms]];
}

static inline double *tg_tables_column(const tg_tables *tables, int column)
{
    return tables->values + (size_t)column * tables->values_room;
}

/* For passes.c: the row that a piece leads to, -1 if there is none; and whether the row may have a piece of the group
 * in front. */
static inline int tg_tables_target(const tg_tables *tables, const tg_row *row, const tg_piece *piece)
{
    size_t set = (size_t)(row->set + tables->reach.stride[piece->kind]);
    size_t at = ((size_t)piece->first * (size_t)tables->reach.sets + set) * (size_t)tables->classes;
    return tables->index[at + (tables->classes > 1 ? (size_t)piece->front_class : 0)];
}

static inline bool tg_tables_may_stand(const tg_tables *tables, const tg_row *row, const tg_group *group)
{
    const tg_reach *islands = &tables->reach;
    return islands->available[(size_t)row->set * (size_t)tables->problem->kinds + (size_t)group->kind] &&
           tg_reach_alive(islands, group->first, row->set + islands->stride[group->kind]);
}

/* Whether a piece in front of the row may stay under the limit, by the least values over all n. */
bool tg_tables_may_pass(const tg_tables *tables, const tg_row *row, const tg_content *content, double transfer_s,
                        const tg_row *target);

/* The passes by n (passes.c), once the rows are known: from the back, making the edges; from the front; from the back.
 */
tg_status tg_tables_make_edges(tg_tables *tables, tg_error *err);
void tg_tables_front_pass(tg_tables *tables);
void tg_tables_suffix_pass(tg_tables *tables);

#endif
