/* What both solvers of pipeline/partition.h share. */
#include <math.h>
#include <stdlib.h>

#include "pipeline/partition.h"

enum { MOST_ATOMS = 1024, MOST_DEVICES = 4096 };

tg_status tg_partition_check(const tg_partition *p, tg_error *err)
{
    if (p->atoms < 1 || p->atoms > MOST_ATOMS)
        return tg_fail(err, TG_EINPUT, "atoms: must be 1 to %d, not %d", MOST_ATOMS, p->atoms);
    if (p->devices < 1 || p->devices > MOST_DEVICES)
        return tg_fail(err, TG_EINPUT, "devices: must be 1 to %d, not %d", MOST_DEVICES, p->devices);
    if (p->microbatches < 1 || p->successors < 0)
        return tg_fail(err, TG_EINPUT, "microbatches must be at least 1 and successors at least 0, not %d and %d",
                       p->microbatches, p->successors);
    for (int i = 0; p->transfer_s && i + 1 < p->atoms; i++)
        if (!isfinite(p->transfer_s[i]) || p->transfer_s[i] < 0)
            return tg_fail(err, TG_EINPUT, "transfer_s: must be finite and at least 0, not %g", p->transfer_s[i]);
    for (int e = 0; e < p->entries; e++) {
        const tg_partition_entry *entry = &p->entry[e];
        if (entry->first < 0 || entry->last <= entry->first || entry->last > p->atoms)
            return tg_fail(err, TG_EINPUT, "first, last: [%d, %d) is not a run of the %d atoms", entry->first,
                           entry->last, p->atoms);
        if (entry->devices < 1)
            return tg_fail(err, TG_EINPUT, "devices: an entry has %d, expected at least 1", entry->devices);
        if (!isfinite(entry->cost_s) || entry->cost_s < 0)
            return tg_fail(err, TG_EINPUT, "cost_s: must be finite and at least 0, not %g", entry->cost_s);
        if (!isfinite(entry->sync_s) || entry->sync_s < 0)
            return tg_fail(err, TG_EINPUT, "sync_s: must be finite and at least 0, not %g", entry->sync_s);
        if (entry->max_successors < -1)
            return tg_fail(err, TG_EINPUT, "max_successors: must be at least -1, not %d", entry->max_successors);
    }
    return TG_OK;
}

typedef struct {
    const tg_partition_entry *entry;
    int index;
} candidate;

static int compare(const void *a, const void *b)
{
    const candidate *x = a, *y = b;
    const tg_partition_entry *e = x->entry, *f = y->entry;
    if (e->first != f->first)
        return e->first < f->first ? -1 : 1;
    if (e->last != f->last)
        return e->last < f->last ? -1 : 1;
    if (e->devices != f->devices)
        return e->devices < f->devices ? -1 : 1;
    if (e->cost_s != f->cost_s)
        return e->cost_s < f->cost_s ? -1 : 1;
    if (e->max_successors != f->max_successors)
        return e->max_successors > f->max_successors ? -1 : 1;
    if (e->sync_s != f->sync_s)
        return e->sync_s < f->sync_s ? -1 : 1;
    return x->index < y->index ? -1 : 1;
}

int *tg_partition_sort(tg_arena *arena, const tg_partition *p, bool with_sync, int *count)
{
    candidate *all = tg_arena_alloc(arena, (size_t)p->entries, sizeof *all);
    int *kept = tg_arena_alloc(arena, (size_t)p->entries, sizeof *kept), n = 0, usable = 0;
    if (!all || !kept)
        return NULL;
    for (int e = 0; e < p->entries; e++)
        if (p->entry[e].devices <= p->devices && p->entry[e].max_successors >= p->successors)
            all[usable++] = (candidate){&p->entry[e], e};
    qsort(all, (size_t)usable, sizeof *all, compare);
    for (int a = 0; a < usable; a++) {
        const tg_partition_entry *e = all[a].entry;
        bool dominated = false;
        for (int k = n - 1; k >= 0 && !dominated; k--) {
            const tg_partition_entry *f = &p->entry[kept[k]];
            if (f->first != e->first || f->last != e->last || f->devices != e->devices)
                break;
            dominated = f->max_successors >= e->max_successors && (!with_sync || f->sync_s <= e->sync_s);
        }
        if (!dominated)
            kept[n++] = all[a].index;
    }
    *count = n;
    return kept;
}

void tg_partition_measure(const tg_partition *p, tg_partition_plan *out)
{
    out->bottleneck_s = out->latency_s = out->sync_s = 0;
    out->max_successors = TG_NO_LIMIT;
    out->devices = 0;
    for (int k = out->stages - 1; k >= 0; k--) {
        const tg_partition_entry *e = &p->entry[out->entries[k]];
        double transfer_s = p->transfer_s && e->last < p->atoms ? p->transfer_s[e->last - 1] : 0;
        out->bottleneck_s = fmax(out->bottleneck_s, fmax(e->cost_s, transfer_s));
        out->latency_s += e->cost_s + 2 * transfer_s;
        out->sync_s = fmax(out->sync_s, e->sync_s);
        out->devices += e->devices;
        int beyond = e->max_successors == TG_NO_LIMIT ? TG_NO_LIMIT : e->max_successors - (out->stages - 1 - k);
        out->max_successors = beyond < out->max_successors ? beyond : out->max_successors;
    }
}

double tg_partition_total_s(const tg_partition *problem, const tg_partition_plan *plan)
{
    return plan->latency_s + (problem->microbatches - 1) * plan->bottleneck_s;
}

void tg_partition_explain(const tg_partition *p, tg_error *err)
{
    tg_arena arena = {0};
    tg_partition free = *p;
    tg_partition_plan plan = {0};
    tg_partition_entry *entries = tg_arena_alloc(&arena, (size_t)p->entries, sizeof *entries);
    tg_status status = TG_EMEMORY;
    if (entries) {
        for (int e = 0; e < p->entries; e++) {
            entries[e] = p->entry[e];
            entries[e].max_successors = TG_NO_LIMIT;
        }
        free.entry = entries;
        status = tg_partition_best(&arena, &free, &plan, err);
    }
    if (status == TG_OK)
        tg_fail(err, TG_EINPUT, "no row of entries covers %d atoms with %s %d devices%s", p->atoms,
                p->at_most ? "at most" : "exactly", p->devices,
                plan.stages ? " within max_successors; without that limit one does" : "");
    tg_arena_free(&arena);
}
