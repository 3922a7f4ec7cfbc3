/* Inside of the partition table: its stages' menus (partition_table.c), what rows of stages are compared by
 * (partition_figures.c), and the rows (partition_rows.c). */
#ifndef TG_PIPELINE_PARTITION_TABLE_PARTS_H
#define TG_PIPELINE_PARTITION_TABLE_PARTS_H

#include "pipeline/label.h"
#include "pipeline/partition_table.h"

/* Sums in another order differ in the last bits only. */
#define TG_TABLE_SLACK (1 + 1e-12)

enum { TG_FIGURES = 4 };

/* What rows are compared by; of some rows together, the best of each. */
typedef struct {
    double at[TG_FIGURES]; /* seconds, see partition_figures.c */
    int bears;             /* successors, as far as more is better */
} figures;

typedef struct label {
    figures figures;
    tg_stage_time time; /* of the front stage */
    double transfer_s;  /* behind it */
    int stages, idle;
    int atoms, devices, option; /* the front stage */
    const struct label *behind; /* of the state behind it, which is full; NULL: it is the last stage */
} label;
TG_VEC(labels, label);
TG_VEC(options, tg_stage_option);

typedef struct {
    bool filled;
    labels all;    /* by stages */
    int *from;     /* most_stages + 2: where those of so many stages begin */
    figures *best; /* most_stages + 1 */
} state;

typedef struct {
    bool made;
    options all;
    tg_stage_option best; /* the best of each number */
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
    tg_arena arena;
    tg_chain chain; /* room to measure a row in */
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

/* Seconds from a stage of so many GPUs to the next, of `next` GPUs, which begins `rest` GPUs from the island's rear. */
double tg_table_transfer(const tg_partition_table *t, double bytes, int gpus, int next, int rest);

/* What a row takes at least: front, over a transfer, before one of these figures (all 0 for none), stages in all. */
figures tg_table_least(const tg_partition_table *t, const tg_stage_option *front, double transfer_s,
                       const figures *behind, int stages, int successors);

/* What it takes: front, over a transfer, before that row, or NULL. */
figures tg_table_measure(tg_partition_table *t, const tg_stage_option *front, double transfer_s, const label *behind,
                         int successors);

tg_status tg_table_check_run(const tg_partition_table *t, int first, int last, tg_error *err);

#endif
