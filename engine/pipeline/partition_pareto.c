#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "pipeline/partition.h"

/* Labels of suffixes in states (first atom, devices), each with the suffix's own figures. An entry put in front of two
 * suffixes, one no worse than the other in every figure, keeps that order, so a dominated label can be dropped at once.
 */
typedef struct {
    double bottleneck_s, latency_s, sync_s;
    int stages, max_successors;
    int entry, behind; /* the front entry; the label behind it, -1 for none */
} label;
TG_VEC(labels, label);

enum { MOST_LABELS = 1 << 22 };

static int compare(const void *a, const void *b)
{
    const label *x = a, *y = b;
    if (x->stages != y->stages)
        return x->stages < y->stages ? -1 : 1;
    if (x->bottleneck_s != y->bottleneck_s)
        return x->bottleneck_s < y->bottleneck_s ? -1 : 1;
    if (x->latency_s != y->latency_s)
        return x->latency_s < y->latency_s ? -1 : 1;
    if (x->sync_s != y->sync_s)
        return x->sync_s < y->sync_s ? -1 : 1;
    if (x->max_successors != y->max_successors)
        return x->max_successors > y->max_successors ? -1 : 1;
    if (x->entry != y->entry)
        return x->entry < y->entry ? -1 : 1;
    return (x->behind > y->behind) - (x->behind < y->behind);
}

static bool no_worse(const label *x, const label *y)
{
    return x->stages <= y->stages && x->bottleneck_s <= y->bottleneck_s && x->latency_s <= y->latency_s &&
           x->sync_s <= y->sync_s && x->max_successors >= y->max_successors;
}

/* Keeps of all labels from start on those that no other is as good as; sorted, none behind dominates one before it. */
static void filter(labels *all, size_t start)
{
    if (all->count == start)
        return;
    qsort(all->at + start, all->count - start, sizeof(label), compare);
    size_t kept = start;
    for (size_t i = start; i < all->count; i++) {
        bool dominated = false;
        for (size_t k = start; k < kept && !dominated; k++)
            dominated = no_worse(&all->at[k], &all->at[i]);
        if (!dominated)
            all->at[kept++] = all->at[i];
    }
    all->count = kept;
}

typedef struct {
    const tg_partition *problem;
    const int *order; /* sorted entries */
    int count;
    size_t *from, *to; /* labels of state atom * (devices + 1) + devices */
    labels all;
} solver;

static size_t state(const solver *s, int atom, int devices)
{
    return (size_t)atom * ((size_t)s->problem->devices + 1) + (size_t)devices;
}

/* The entry in front of each label of the state behind it. */
static bool extend(solver *s, int index, int devices_behind)
{
    const tg_partition *p = s->problem;
    const tg_partition_entry *e = &p->entry[index];
    double transfer_s = p->transfer_s && e->last < p->atoms ? p->transfer_s[e->last - 1] : 0;
    size_t behind = state(s, e->last, devices_behind);
    for (size_t l = s->from[behind]; l < s->to[behind]; l++) {
        const label b = s->all.at[l];
        int bears = e->max_successors == TG_NO_LIMIT ? TG_NO_LIMIT : e->max_successors - b.stages;
        if (bears < p->successors)
            continue;
        label front = {.bottleneck_s = fmax(b.bottleneck_s, fmax(e->cost_s, transfer_s)),
                       .latency_s = b.latency_s + (e->cost_s + 2 * transfer_s),
                       .sync_s = fmax(b.sync_s, e->sync_s),
                       .stages = b.stages + 1,
                       .max_successors = bears < b.max_successors ? bears : b.max_successors,
                       .entry = index,
                       .behind = (int)l};
        if (s->all.count >= MOST_LABELS || !labels_push(&s->all, front))
            return false;
    }
    return true;
}

static bool fill(solver *s)
{
    const tg_partition *p = s->problem;
    if (!labels_push(&s->all, (label){.max_successors = TG_NO_LIMIT, .entry = -1, .behind = -1}))
        return false;
    s->to[state(s, p->atoms, 0)] = 1;
    for (int end = s->count, begin; end > 0; end = begin) {
        int first = p->entry[s->order[end - 1]].first;
        for (begin = end; begin > 0 && p->entry[s->order[begin - 1]].first == first;)
            begin--;
        for (int d = 1; d <= p->devices; d++) {
            size_t start = s->all.count;
            for (int k = begin; k < end; k++)
                if (p->entry[s->order[k]].devices <= d && !extend(s, s->order[k], d - p->entry[s->order[k]].devices))
                    return false;
            filter(&s->all, start);
            s->from[state(s, first, d)] = start;
            s->to[state(s, first, d)] = s->all.count;
        }
    }
    return true;
}

static tg_status give(tg_arena *arena, solver *s, const tg_partition_plan **out, int *count, tg_error *err)
{
    const tg_partition *p = s->problem;
    size_t start = s->all.count;
    for (int d = p->at_most ? 1 : p->devices; d <= p->devices; d++)
        for (size_t l = s->from[state(s, 0, d)]; l < s->to[state(s, 0, d)]; l++)
            if (!labels_push(&s->all, s->all.at[l]))
                return tg_fail(err, TG_EMEMORY, "out of memory");
    filter(&s->all, start);
    *count = (int)(s->all.count - start);
    tg_partition_plan *plans = tg_arena_alloc(arena, (size_t)*count, sizeof *plans);
    if (!plans)
        return tg_fail(err, TG_EMEMORY, "out of memory");
    for (int n = 0; n < *count; n++) {
        const label *l = &s->all.at[start + (size_t)n];
        int *entries = tg_arena_alloc(arena, (size_t)l->stages, sizeof *entries);
        if (!entries)
            return tg_fail(err, TG_EMEMORY, "out of memory");
        plans[n].stages = l->stages;
        plans[n].entries = entries;
        for (int k = 0; l->behind >= 0; l = &s->all.at[l->behind])
            entries[k++] = l->entry;
        tg_partition_measure(p, &plans[n]);
    }
    *out = plans;
    return TG_OK;
}

tg_status tg_partition_pareto(tg_arena *arena, const tg_partition *problem, const tg_partition_plan **out, int *count,
                              tg_error *err)
{
    tg_status status = tg_partition_check(problem, err);
    if (status != TG_OK)
        return status;
    tg_arena scratch = {0};
    solver s = {.problem = problem};
    size_t states = ((size_t)problem->atoms + 1) * ((size_t)problem->devices + 1);
    s.order = tg_partition_sort(&scratch, problem, true, &s.count);
    s.from = tg_arena_alloc(&scratch, states, sizeof *s.from);
    s.to = tg_arena_alloc(&scratch, states, sizeof *s.to);
    if (!s.order || !s.from || !s.to)
        status = tg_fail(err, TG_EMEMORY, "out of memory");
    else if (!fill(&s))
        status = s.all.count >= MOST_LABELS
                     ? tg_fail(err, TG_EINPUT, "entries: more than %d partitions that none dominates", MOST_LABELS)
                     : tg_fail(err, TG_EMEMORY, "out of memory");
    else
        status = give(arena, &s, out, count, err);
    labels_free(&s.all);
    tg_arena_free(&scratch);
    return status;
}
