/* Inside of the partition table: its stages' menus (partition_table.c) and its rows of stages (partition_rows.c). */
#ifndef TG_PIPELINE_PARTITION_TABLE_PARTS_H
#define TG_PIPELINE_PARTITION_TABLE_PARTS_H

#include "pipeline/partition_table.h"

/* Sums in another order differ in the last bits only. */
#define TG_TABLE_SLACK (1 + 1e-12)

typedef struct {
    double bottleneck_s, latency_s, sync_s;
    int bears; /* successors, as far as more is better */
    int stages, idle;
    int atoms, devices, option; /* the front stage */
    int behind;                 /* label of the state behind it */
} label;
TG_VEC(labels, label);
TG_VEC(options, tg_stage_option);

/* The best figures among some labels or options. */
typedef struct {
    double bottleneck_s, latency_s, sync_s;
    int bears;
} figures;

typedef struct {
    bool filled;
    labels all;    /* by stages */
    int *from;     /* most_stages + 2: where those of so many stages begin */
    figures *best; /* most_stages + 1 */
} state;

typedef struct {
    bool made;
    options all;
    figures best;
} menu;

/* What is known of the runs of one content. */
typedef struct {
    menu *menus;    /* by index of size */
    state **states; /* by successors: arrays by devices, made when first asked for */
} run;

typedef struct {
    const tg_terms *terms;
    int devices, strategy;
    bool allow_recompute;
} way;
TG_VEC(ways, way);

struct tg_partition_table {
    tg_partition_table_spec spec;
    int *earliest;          /* atoms * (atoms + 1): of a start and a length, the first start of that content */
    run *runs;              /* by start and length, used at the first start */
    int *sizes, size_count; /* that a stage can have */
    ways ways;
    size_t label_count;
};

static inline size_t tg_table_at(const tg_partition_table *t, int start, int length)
{
    return (size_t)start * (size_t)(t->spec.atoms + 1) + (size_t)length;
}

/* What is known of the runs of that content, and the ways of a stage of it; NULL when memory is out. */
run *tg_table_run(tg_partition_table *t, int start, int length);
const menu *tg_table_menu(tg_partition_table *t, int start, int length, int size);

/* The index of a size among those that a stage can have, or -1. */
int tg_table_size(const tg_partition_table *t, int devices);

tg_status tg_table_check_run(const tg_partition_table *t, int first, int last, tg_error *err);

#endif
