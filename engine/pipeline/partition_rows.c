#include <math.h>
#include <stdlib.h>

#include "pipeline/partition_table_parts.h"

/* A state is a suffix's content and how many GPUs, counted from the island's rear, it may lie on; its labels are the
 * suffix's Pareto set. A stage put in front of two suffixes, one no worse than the other in every figure, keeps that
 * order (but see partition_figures.c), so a dominated label can be dropped at once. Labels are made by rising number of
 * stages, and for each number by rising bound of the first figure; a group of them (front stage's atoms and GPUs,
 * stages behind) whose best figures taken together are dominated is never looked into. */

enum {
    MOST_LABELS = 1 << 21,
    FEW_DEVICES = 8 /* of an island on which rows are compared only with those of as many stages */
};

/* Rows of one front stage's atoms and size before those of the state behind. */
typedef struct {
    double least_s;        /* of the first figure */
    double bytes;          /* sent to the state behind */
    double transfer_s;     /* at least */
    int atoms, size, rest; /* GPUs of the state behind */
    const menu *menu;
    const state *behind;
} group;
TG_VEC(groups, group);

static bool dominates(const figures *x, const figures *y)
{
    for (int i = 0; i < TG_FIGURES; i++)
        if (x->at[i] > y->at[i] * TG_TABLE_SLACK)
            return false;
    return x->bears >= y->bears;
}

/* Are rows of fewer stages rivals? Where rows are told apart by how they run, they may leave the stages in front too
 * few microbatches in flight; on islands of more GPUs that is risked, or there would be too many rows. */
static bool rivals_with_fewer(const tg_partition_table *t)
{
    return !t->spec.simulated || t->spec.devices > FEW_DEVICES;
}

/* Is any label as good? The labels of as many stages begin at start. The one found is moved to the front, since the
 * next question is most often about something alike; among labels of fewer stages order is kept. */
static bool dominated(const tg_partition_table *t, labels *all, size_t start, const figures *y)
{
    for (size_t k = all->count; k-- > start;)
        if (dominates(&all->at[k].figures, y)) {
            label last = all->at[all->count - 1];
            all->at[all->count - 1] = all->at[k];
            all->at[k] = last;
            return true;
        }
    for (size_t k = 0; k < start && rivals_with_fewer(t); k++)
        if (dominates(&all->at[k].figures, y))
            return true;
    return false;
}

/* Appends unless dominated; takes out what it dominates among those of as many stages, which begin at start. */
static bool offer(const tg_partition_table *t, labels *all, size_t start, const label *one)
{
    if (dominated(t, all, start, &one->figures))
        return true;
    for (size_t k = all->count; k-- > start;)
        if (dominates(&one->figures, &all->at[k].figures))
            all->at[k] = all->at[--all->count];
    return labels_push(all, *one);
}

/* Do the GPUs [from, from + devices), counted from the rear of whole nodes, lie in one node or in whole nodes? */
static bool lies_well(const tg_partition_table *t, int from, int devices)
{
    int node = t->spec.node;
    return devices < node ? from / node == (from + devices - 1) / node : from % node == 0;
}

/* Option number o of a menu, alone or before a row. */
static bool add_row(tg_partition_table *t, labels *all, size_t start, label one, const menu *m, size_t o,
                    int successors)
{
    const tg_stage_option *option = &m->all.at[o];
    one.option = (int)o;
    one.time = (tg_stage_time){option->forward_s, option->time_s - option->forward_s, option->sync_s, 0};
    one.figures = tg_table_measure(t, option, one.transfer_s, one.behind, successors);
    return offer(t, all, start, &one);
}

/* The options of a menu alone, as rows of one stage in front of idle GPUs. */
static bool add_last_stages(tg_partition_table *t, labels *all, const menu *m, int atoms, int size, int idle,
                            int successors)
{
    const label one = {.stages = 1, .idle = idle, .atoms = atoms, .devices = t->sizes[size]};
    for (size_t o = 0; o < m->all.count; o++)
        if (m->all.at[o].max_successors >= successors && !add_row(t, all, 0, one, m, o, successors))
            return false;
    return true;
}

/* Seconds from a group's front stage to one of `next` GPUs behind it. */
static double transfer_to(const tg_partition_table *t, const group *g, int next)
{
    return t->spec.boundary_bytes ? tg_table_transfer(t, g->bytes, t->sizes[g->size], next, g->rest) : 0;
}

/* The least of these. */
static double least_transfer(const tg_partition_table *t, const group *g)
{
    double least_s = INFINITY;
    for (int size = 0; size < t->size_count && t->sizes[size] <= g->rest; size++)
        if (lies_well(t, g->rest - t->sizes[size], t->sizes[size]))
            least_s = fmin(least_s, transfer_to(t, g, t->sizes[size]));
    return least_s;
}

/* All rows of a group with so many stages. */
static bool add_group(tg_partition_table *t, labels *all, size_t start, const group *g, int stages, int successors)
{
    const state *behind = g->behind;
    for (size_t o = 0; o < g->menu->all.count; o++) {
        const tg_stage_option *option = &g->menu->all.at[o];
        if (option->max_successors < successors + stages - 1)
            continue;
        figures hope = tg_table_least(t, option, g->transfer_s, &behind->best[stages - 1], stages, successors);
        if (dominated(t, all, start, &hope))
            continue;
        for (int l = behind->from[stages - 1]; l < behind->from[stages]; l++) {
            const label *row = &behind->all.at[l];
            const label one = {.stages = stages,
                               .idle = row->idle,
                               .atoms = g->atoms,
                               .devices = t->sizes[g->size],
                               .behind = row,
                               .transfer_s = transfer_to(t, g, row->devices)};
            hope = tg_table_least(t, option, one.transfer_s, &row->figures, stages, successors);
            if (!dominated(t, all, start, &hope) && !add_row(t, all, start, one, g->menu, o, successors))
                return false;
        }
    }
    return true;
}

static int compare_groups(const void *a, const void *b)
{
    const group *x = a, *y = b;
    if (x->least_s != y->least_s)
        return x->least_s < y->least_s ? -1 : 1;
    if (x->size != y->size)
        return x->size < y->size ? -1 : 1;
    return x->atoms - y->atoms;
}

static int compare_labels(const void *a, const void *b)
{
    const label *x = a, *y = b;
    for (int i = 0; i < TG_FIGURES; i++)
        if (x->figures.at[i] != y->figures.at[i])
            return x->figures.at[i] < y->figures.at[i] ? -1 : 1;
    if (x->figures.bears != y->figures.bears)
        return x->figures.bears > y->figures.bears ? -1 : 1;
    if (x->devices != y->devices)
        return x->devices < y->devices ? -1 : 1;
    if (x->atoms != y->atoms)
        return x->atoms < y->atoms ? -1 : 1;
    if (x->option != y->option)
        return x->option < y->option ? -1 : 1;
    return (x->behind > y->behind) - (x->behind < y->behind);
}

/* Rows of so many stages from the groups, which are those of all numbers. */
static bool add_rows(tg_partition_table *t, state *s, groups *all, int stages, int successors)
{
    size_t used = 0;
    for (size_t g = 0; g < all->count; g++) {
        group *one = &all->at[g];
        if (one->behind->from[stages - 1] == one->behind->from[stages] ||
            one->menu->best.max_successors < successors + stages - 1)
            continue;
        const group wanted = *one;
        *one = all->at[used];
        all->at[used++] = wanted;
    }
    for (size_t g = 0; g < used; g++)
        all->at[g].least_s = tg_table_least(t, &all->at[g].menu->best, all->at[g].transfer_s,
                                            &all->at[g].behind->best[stages - 1], stages, successors)
                                 .at[0];
    if (used > 1)
        qsort(all->at, used, sizeof *all->at, compare_groups);
    size_t start = (size_t)s->from[stages];
    for (size_t g = 0; g < used; g++) {
        const group *one = &all->at[g];
        const figures hope =
            tg_table_least(t, &one->menu->best, one->transfer_s, &one->behind->best[stages - 1], stages, successors);
        if (!dominated(t, &s->all, start, &hope) && !add_group(t, &s->all, start, one, stages, successors))
            return false;
    }
    return true;
}

/* Orders the labels of so many stages, which are the last ones, and tells their best figures. */
static void close_stages(state *s, int stages)
{
    size_t start = (size_t)s->from[stages], count = s->all.count - start;
    figures best = {{INFINITY, INFINITY, INFINITY, INFINITY}, -1};
    for (size_t k = start; k < s->all.count; k++) {
        const figures *one = &s->all.at[k].figures;
        for (int i = 0; i < TG_FIGURES; i++)
            best.at[i] = fmin(best.at[i], one->at[i]);
        best.bears = one->bears > best.bears ? one->bears : best.bears;
    }
    if (count > 1)
        qsort(s->all.at + start, count, sizeof *s->all.at, compare_labels);
    s->best[stages] = best;
    s->from[stages + 1] = (int)s->all.count;
}

static state *state_of(tg_partition_table *t, int start, int length, int devices, int successors);

static bool gather(tg_partition_table *t, state *s, groups *out, int start, int length, int devices, int successors)
{
    for (int size = 0; size < t->size_count && t->sizes[size] <= devices; size++) {
        int rest = devices - t->sizes[size];
        if (!lies_well(t, rest, t->sizes[size]))
            continue;
        const menu *whole = tg_table_menu(t, start, length, size);
        if (!whole ||
            ((rest == 0 || t->spec.idle) && !add_last_stages(t, &s->all, whole, length, size, rest, successors)))
            return false;
        for (int atoms = 1; rest > 0 && atoms < length && t->spec.most_stages > 1; atoms++) {
            const menu *front = tg_table_menu(t, start, atoms, size);
            if (!front)
                return false;
            if (front->all.count == 0)
                continue;
            const state *behind = state_of(t, start + atoms, length - atoms, rest, successors);
            group one = {.atoms = atoms, .size = size, .rest = rest, .menu = front, .behind = behind};
            one.bytes = t->spec.boundary_bytes ? t->spec.boundary_bytes[start + atoms - 1] : 0;
            one.transfer_s = least_transfer(t, &one);
            if (!behind || (behind->all.count && !groups_push(out, one)))
                return false;
        }
    }
    return true;
}

static bool fill(tg_partition_table *t, state *s, int start, int length, int devices, int successors)
{
    int most = t->spec.most_stages;
    s->from = calloc((size_t)most + 2, sizeof *s->from);
    s->best = calloc((size_t)most + 1, sizeof *s->best);
    groups all = {0};
    bool done = s->from && s->best && gather(t, s, &all, start, length, devices, successors);
    if (done)
        close_stages(s, 1);
    for (int stages = 2; done && stages <= most; stages++) {
        done = add_rows(t, s, &all, stages, successors);
        close_stages(s, stages);
    }
    groups_free(&all);
    t->label_count += s->all.count;
    s->filled = done;
    return done;
}

static state *state_of(tg_partition_table *t, int start, int length, int devices, int successors)
{
    start = t->earliest[tg_table_at(t, start, length)];
    run *r = tg_table_run(t, start, length);
    if (r && !r->states)
        r->states = calloc((size_t)t->spec.most_successors + 1, sizeof *r->states);
    if (!r || !r->states)
        return NULL;
    state **row = &r->states[successors];
    if (!*row && !(*row = calloc((size_t)t->spec.devices + 1, sizeof **row)))
        return NULL;
    state *s = &(*row)[devices];
    if (s->filled)
        return s;
    return t->label_count < MOST_LABELS && fill(t, s, start, length, devices, successors) ? s : NULL;
}

static bool trace(tg_partition_table *t, tg_arena *arena, int first, const label *l, tg_table_plan *out)
{
    tg_table_stage *stages = tg_arena_alloc(arena, (size_t)l->stages, sizeof *stages);
    if (!stages)
        return false;
    *out = (tg_table_plan){l->stages, l->idle, stages};
    for (int start = first; l; start += l->atoms, l = l->behind) {
        const menu *m = tg_table_menu(t, start, l->atoms, tg_table_size(t, l->devices));
        *stages++ =
            (tg_table_stage){t->earliest[tg_table_at(t, start, l->atoms)], l->atoms, l->devices, m->all.at[l->option]};
    }
    return true;
}

tg_status tg_partition_table_plans(tg_partition_table *t, tg_arena *arena, int first, int last, int successors,
                                   const tg_table_plan **out, int *count, tg_error *err)
{
    tg_status status = tg_table_check_run(t, first, last, err);
    if (status != TG_OK)
        return status;
    if (successors < 0 || successors > t->spec.most_successors)
        return tg_fail(err, TG_EINPUT, "successors: must be 0 to %d, not %d", t->spec.most_successors, successors);
    const state *s = state_of(t, first, last - first, t->spec.devices, successors);
    if (!s && t->label_count >= MOST_LABELS)
        return tg_fail(err, TG_EINPUT, "more than %d rows of stages that none dominates", MOST_LABELS);
    tg_table_plan *plans = s ? tg_arena_alloc(arena, s->all.count, sizeof *plans) : NULL;
    for (size_t n = 0; plans && n < s->all.count; n++)
        if (!trace(t, arena, first, &s->all.at[n], &plans[n]))
            plans = NULL;
    if (!plans)
        return tg_fail(err, TG_EMEMORY, "out of memory");
    *out = plans;
    *count = (int)s->all.count;
    return TG_OK;
}
