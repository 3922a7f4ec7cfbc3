#include "pipeline/partition_table.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "pipeline/partition_table_parts.h"

enum { MOST_DEVICES = 4096 };

/* For each start, the lengths that it shares with each earlier one. */
static bool find_equal_runs(tg_partition_table *t)
{
    int n = t->spec.atoms;
    int *shared = malloc(((size_t)n + 1) * sizeof *shared);
    if (!shared)
        return false;
    int *known = calloc((size_t)n, sizeof *known); /* lengths of each start that have their first one */
    for (int distance = n - 1; known && distance >= 0; distance--) {
        /* The largest distance gives the earliest start. */
        shared[n] = 0;
        for (int start = n - 1; start >= distance; start--) {
            bool equal = t->spec.content[start] == t->spec.content[start - distance];
            shared[start] = equal ? (start + 1 < n ? shared[start + 1] : 0) + 1 : 0;
            for (; known[start] < shared[start]; known[start]++)
                t->earliest[tg_table_at(t, start, known[start] + 1)] = start - distance;
        }
    }
    bool done = known != NULL;
    free(shared);
    free(known);
    return done;
}

static tg_status check_spec(const tg_partition_table_spec *spec, tg_error *err)
{
    if (spec->atoms < 1 || spec->atoms > TG_SPLIT_ATOMS)
        return tg_fail(err, TG_EINPUT, "atoms: must be 1 to %d, not %d", TG_SPLIT_ATOMS, spec->atoms);
    if (spec->devices < 1 || spec->devices > MOST_DEVICES)
        return tg_fail(err, TG_EINPUT, "devices: must be 1 to %d, not %d", MOST_DEVICES, spec->devices);
    if (spec->node < 1 || spec->devices % spec->node)
        return tg_fail(err, TG_EINPUT, "node: %d devices are not whole nodes of %d", spec->devices, spec->node);
    if (spec->microbatches < 1 || spec->most_successors < 0 || spec->most_stages < 1)
        return tg_fail(err, TG_EINPUT, "microbatches, most_stages: must be at least 1, and most_successors at least 0");
    return TG_OK;
}

/* The caller's numbers, copied into the table's arena; nothing where there are none, or where transfers don't count. */
static bool copy_numbers(tg_partition_table *t, const double **numbers, size_t count)
{
    const double *from = t->spec.simulated ? *numbers : NULL;
    double *copy = from ? tg_arena_alloc(&t->arena, count + 1, sizeof *copy) : NULL;
    if (copy)
        memcpy(copy, from, count * sizeof *copy);
    *numbers = copy;
    return copy || !from;
}

tg_partition_table *tg_partition_table_new(const tg_partition_table_spec *spec, tg_error *err)
{
    if (check_spec(spec, err) != TG_OK)
        return NULL;
    tg_partition_table *t = calloc(1, sizeof *t);
    size_t runs = (size_t)spec->atoms * ((size_t)spec->atoms + 1);
    if (t) {
        t->spec = *spec;
        int most = spec->atoms < spec->devices ? spec->atoms : spec->devices;
        t->spec.most_stages = spec->most_stages < most ? spec->most_stages : most;
        t->earliest = calloc(runs, sizeof *t->earliest);
        t->runs = calloc(runs, sizeof *t->runs);
        t->sizes = calloc((size_t)spec->devices, sizeof *t->sizes);
    }
    if (!t || !t->earliest || !t->runs || !t->sizes || !find_equal_runs(t) ||
        !copy_numbers(t, &t->spec.boundary_bytes, (size_t)spec->atoms - 1) ||
        !copy_numbers(t, &t->spec.intra_bytes_per_s, (size_t)spec->node) ||
        !copy_numbers(t, &t->spec.inter_bytes_per_s, (size_t)spec->node) ||
        !tg_chain_make(&t->arena, t->spec.most_stages, spec->microbatches, TG_OVERLAPPED, &t->chain)) {
        tg_fail(err, TG_EMEMORY, "out of memory");
        tg_partition_table_free(t);
        return NULL;
    }
    t->spec.content = NULL; /* the caller's, and no longer needed */
    for (int d = 1; d <= spec->devices; d++)
        if (d < spec->node || d % spec->node == 0)
            t->sizes[t->size_count++] = d;
    return t;
}

static void free_states(const tg_partition_table *t, state **states)
{
    for (int n = 0; states && n <= t->spec.most_successors; n++) {
        for (int d = 0; states[n] && d <= t->spec.devices; d++) {
            labels_free(&states[n][d].all);
            free(states[n][d].from);
            free(states[n][d].best);
        }
        free(states[n]);
    }
    free(states);
}

void tg_partition_table_free(tg_partition_table *t)
{
    if (!t)
        return;
    size_t count = t->runs ? (size_t)t->spec.atoms * ((size_t)t->spec.atoms + 1) : 0;
    for (size_t r = 0; r < count; r++) {
        for (int s = 0; t->runs[r].menus && s < t->size_count; s++)
            options_free(&t->runs[r].menus[s].all);
        free(t->runs[r].menus);
        free_states(t, t->runs[r].states);
    }
    ways_free(&t->ways);
    tg_arena_free(&t->arena);
    free(t->earliest);
    free(t->runs);
    free(t->sizes);
    free(t);
}

int tg_table_size(const tg_partition_table *t, int devices)
{
    for (int s = 0; s < t->size_count; s++)
        if (t->sizes[s] == devices)
            return s;
    return -1;
}

tg_status tg_partition_table_add(tg_partition_table *t, int devices, int strategy, const tg_terms *terms,
                                 bool allow_recompute, tg_error *err)
{
    if (tg_table_size(t, devices) < 0)
        return tg_fail(err, TG_EINPUT, "devices: %d lie neither in one node nor in whole nodes", devices);
    if (tg_terms_atoms(terms) != t->spec.atoms)
        return tg_fail(err, TG_EINPUT, "terms: of %d atoms, the table's are %d", tg_terms_atoms(terms), t->spec.atoms);
    if (!ways_push(&t->ways, (way){terms, devices, strategy, allow_recompute}))
        return tg_fail(err, TG_EMEMORY, "out of memory");
    return TG_OK;
}

/* Successors that a stage's own figure is told up to: no row asks for more. */
static int most_borne(const tg_partition_table *t)
{
    return t->spec.most_successors + t->spec.most_stages - 1;
}

static int compare_options(const void *a, const void *b)
{
    const tg_stage_option *x = a, *y = b;
    if (x->time_s != y->time_s)
        return x->time_s < y->time_s ? -1 : 1;
    if (x->sync_s != y->sync_s)
        return x->sync_s < y->sync_s ? -1 : 1;
    if (x->max_successors != y->max_successors)
        return x->max_successors > y->max_successors ? -1 : 1;
    if (x->strategy != y->strategy)
        return x->strategy < y->strategy ? -1 : 1;
    return (x->recomputed > y->recomputed) - (x->recomputed < y->recomputed);
}

/* Keeps the options that none is as good as, and tells their best figures. */
static void finish_menu(const tg_partition_table *t, menu *m)
{
    for (size_t i = 0; i < m->all.count; i++)
        if (m->all.at[i].max_successors > most_borne(t))
            m->all.at[i].max_successors = most_borne(t);
    if (m->all.count)
        qsort(m->all.at, m->all.count, sizeof *m->all.at, compare_options);
    size_t kept = 0;
    m->best = (tg_stage_option){.time_s = INFINITY, .forward_s = INFINITY, .sync_s = INFINITY, .max_successors = -1};
    for (size_t i = 0; i < m->all.count; i++) {
        const tg_stage_option one = m->all.at[i];
        bool dominated = false;
        for (size_t k = 0; k < kept && !dominated; k++) {
            const tg_stage_option *other = &m->all.at[k];
            dominated = other->time_s <= one.time_s * TG_TABLE_SLACK && other->sync_s <= one.sync_s * TG_TABLE_SLACK &&
                        other->max_successors >= one.max_successors;
        }
        if (dominated)
            continue;
        m->all.at[kept++] = one;
        m->best.time_s = fmin(m->best.time_s, one.time_s);
        m->best.forward_s = fmin(m->best.forward_s, one.forward_s);
        m->best.sync_s = fmin(m->best.sync_s, one.sync_s);
        if (one.max_successors > m->best.max_successors)
            m->best.max_successors = one.max_successors;
    }
    m->all.count = kept;
    m->made = true;
}

/* Each way with as little recomputed as each number of microbatches in flight asks for. */
static bool add_ways(const tg_partition_table *t, int first, int last, int devices, options *out)
{
    for (size_t w = 0; w < t->ways.count; w++) {
        const way *one = &t->ways.at[w];
        if (one->devices != devices)
            continue;
        tg_split_stage stage;
        for (int inflight = 1; tg_terms_stage(one->terms, first, last, inflight, one->allow_recompute, &stage);
             inflight = stage.max_successors + 2) {
            tg_stage_option option = {stage.time_s,         stage.forward_s, stage.sync_s,
                                      stage.max_successors, one->strategy,   stage.recomputed};
            if (!options_push(out, option))
                return false;
            if (stage.max_successors >= most_borne(t))
                break;
        }
    }
    return true;
}

run *tg_table_run(tg_partition_table *t, int start, int length)
{
    run *r = &t->runs[tg_table_at(t, t->earliest[tg_table_at(t, start, length)], length)];
    if (!r->menus)
        r->menus = calloc((size_t)t->size_count, sizeof *r->menus);
    return r->menus ? r : NULL;
}

const menu *tg_table_menu(tg_partition_table *t, int start, int length, int size)
{
    run *r = tg_table_run(t, start, length);
    if (!r)
        return NULL;
    menu *m = &r->menus[size];
    if (!m->made) {
        if (!add_ways(t, start, start + length, t->sizes[size], &m->all))
            return NULL;
        finish_menu(t, m);
    }
    return m;
}

tg_status tg_table_check_run(const tg_partition_table *t, int first, int last, tg_error *err)
{
    if (first < 0 || first >= last || last > t->spec.atoms)
        return tg_fail(err, TG_EINPUT, "atoms [%d, %d): not a run of the %d atoms", first, last, t->spec.atoms);
    return TG_OK;
}

tg_status tg_partition_table_set(tg_partition_table *t, int first, int last, int devices, const tg_stage_option *given,
                                 int count, tg_error *err)
{
    tg_status status = tg_table_check_run(t, first, last, err);
    if (status != TG_OK)
        return status;
    int size = tg_table_size(t, devices);
    if (size < 0)
        return tg_fail(err, TG_EINPUT, "devices: %d lie neither in one node nor in whole nodes", devices);
    run *r = tg_table_run(t, first, last - first);
    if (!r)
        return tg_fail(err, TG_EMEMORY, "out of memory");
    menu *m = &r->menus[size];
    m->all.count = 0;
    for (int i = 0; i < count; i++) {
        if (!isfinite(given[i].time_s) || given[i].time_s < 0 || !isfinite(given[i].sync_s) || given[i].sync_s < 0)
            return tg_fail(err, TG_EINPUT, "time_s, sync_s: must be finite and at least 0");
        if (!(given[i].forward_s >= 0 && given[i].forward_s <= given[i].time_s))
            return tg_fail(err, TG_EINPUT, "forward_s: must be at least 0 and at most time_s");
        if (given[i].max_successors >= 0 && !options_push(&m->all, given[i]))
            return tg_fail(err, TG_EMEMORY, "out of memory");
    }
    finish_menu(t, m);
    return TG_OK;
}

bool tg_partition_table_has(const tg_partition_table *t, int first, int last, int devices)
{
    int length = last - first, size = tg_table_size(t, devices);
    if (size < 0 || tg_table_check_run(t, first, last, NULL) != TG_OK)
        return false;
    const run *r = &t->runs[tg_table_at(t, t->earliest[tg_table_at(t, first, length)], length)];
    return r->menus && r->menus[size].made;
}
