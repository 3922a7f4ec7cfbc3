#include "search/pairs.h"

#include <stdlib.h>
#include <string.h>

bool tg_run_stopped(const tg_run *run)
{
    const volatile sig_atomic_t *stop = run->options->compose.stop;
    return (stop && *stop) || tg_clock_s() > run->deadline_s;
}

int tg_first_successors(const tg_problem *problem, const tg_pair_class *class)
{
    return class->representative.last == problem->atom_count ? 0 : 1;
}

static tg_query query_of(const tg_pair *pair, int microbatches)
{
    return (tg_query){.island = pair->island,
                      .first = pair->first,
                      .last = pair->last,
                      .microbatches = microbatches,
                      .successors = 0};
}

typedef struct {
    uint64_t key;
    int pair;
} keyed;

static int compare_keyed(const void *a, const void *b)
{
    const keyed *x = a, *y = b;
    if (x->key != y->key)
        return x->key < y->key ? -1 : 1;
    return x->pair - y->pair;
}

/* Classes are numbered in the order of their first pairs. */
static tg_status number_classes(tg_run *run, tg_pair *pairs, tg_error *err)
{
    keyed *sorted = calloc((size_t)run->pair_count, sizeof *sorted);
    if (!sorted)
        return tg_fail(err, TG_EMEMORY, "out of memory");
    size_t n = 0;
    tg_status status = TG_OK;
    for (int i = 0; i < run->pair_count && status == TG_OK; i++) {
        if (pairs[i].dropped_by)
            continue;
        keyed *one = &sorted[n++];
        *one = (keyed){.key = (uint64_t)i, .pair = i};
        tg_query query = query_of(&pairs[i], 0);
        if (run->provider->key)
            status = run->provider->key(run->provider->self, &query, &one->key, err);
    }
    if (status == TG_OK) {
        qsort(sorted, n, sizeof *sorted, compare_keyed);
        for (size_t i = 0, start = 0; i < n; i++) {
            if (sorted[i].key != sorted[start].key)
                start = i;
            pairs[sorted[i].pair].class = sorted[start].pair; /* for now: the class's first pair */
        }
        for (int i = 0; i < run->pair_count; i++)
            if (!pairs[i].dropped_by)
                pairs[i].class = pairs[i].class == i ? run->class_count++ : pairs[pairs[i].class].class;
    }
    free(sorted);
    return status;
}

enum { MANY_PAIRS = 20000 };

/* Why a slice is not asked for, wherever it lies: no sequence holds it, as at each end that it leaves open another
 * island must stand. Only where pairs are many, as with atoms below layers: where they are few, such slices' answers
 * tell what is short of memory, and serve a larger cluster out of a store. */
static const char *why_nowhere(const tg_problem *problem, size_t count, int first, int last)
{
    bool stands = (first > 0) + (last < problem->atom_count) < problem->island_count;
    return stands || count <= MANY_PAIRS ? NULL : "unplaceable";
}

tg_status tg_run_list_pairs(tg_run *run, tg_error *err)
{
    const tg_problem *problem = run->problem;
    size_t atoms = (size_t)problem->atom_count, count = atoms * (atoms + 1) / 2 * (size_t)problem->island_count;
    if (count > 20000000)
        return tg_fail(err, TG_EINPUT, "%zu atoms on %d islands make %zu pairs, expected at most 20000000", atoms,
                       problem->island_count, count);
    tg_pair *pairs = tg_arena_alloc(run->arena, count, sizeof *pairs);
    if (!pairs)
        return tg_fail(err, TG_EMEMORY, "out of memory");
    for (int first = 0; first < problem->atom_count; first++)
        for (int last = first + 1; last <= problem->atom_count; last++)
            for (int island = 0; island < problem->island_count; island++)
                pairs[run->pair_count++] = (tg_pair){.island = island,
                                                     .first = first,
                                                     .last = last,
                                                     .dropped_by = why_nowhere(problem, count, first, last)};
    run->pairs = pairs;
    return number_classes(run, pairs, err);
}

static tg_status apply_policies(tg_run *run, tg_level *level, tg_error *err)
{
    const tg_provider *provider = run->provider;
    for (int i = 0; i < run->pair_count; i++) {
        tg_pair *pair = &level->pairs[i];
        if (pair->dropped_by)
            continue;
        tg_pair_class *class = &level->classes[pair->class];
        tg_query query = query_of(pair, level->microbatches);
        if (class->representative.last == 0)
            class->representative = query;
        tg_status status = TG_OK;
        double bound_s = 0;
        if (provider->keep)
            status = provider->keep(provider->self, &query, &pair->dropped_by, err);
        if (status == TG_OK && !pair->dropped_by && provider->bound)
            status = provider->bound(provider->self, &query, &bound_s, err);
        if (status != TG_OK)
            return status;
        if (!pair->dropped_by && (!class->kept || bound_s < class->bound_s))
            class->bound_s = bound_s;
        class->kept = class->kept || !pair->dropped_by;
    }
    return TG_OK;
}

tg_status tg_level_open(tg_run *run, int microbatches, tg_level *level, tg_error *err)
{
    const tg_problem *problem = run->problem;
    *level = (tg_level){.microbatches = microbatches};
    size_t atoms = (size_t)problem->atom_count, pairs = (size_t)run->pair_count;
    level->pairs = tg_arena_alloc(&level->arena, pairs, sizeof *level->pairs);
    level->classes = tg_arena_alloc(&level->arena, (size_t)run->class_count, sizeof *level->classes);
    level->boundary_bytes = tg_arena_alloc(&level->arena, atoms, sizeof *level->boundary_bytes);
    level->answers = tg_arena_alloc(&level->arena, (size_t)tg_pool_size(run->pool), sizeof *level->answers);
    if (!level->answers || !level->pairs || !level->classes || !level->boundary_bytes)
        return tg_fail(err, TG_EMEMORY, "out of memory");
    memcpy(level->pairs, run->pairs, pairs * sizeof *level->pairs);
    double samples = (double)problem->global_batch / microbatches;
    for (size_t i = 0; i + 1 < atoms; i++)
        level->boundary_bytes[i] = samples * problem->boundary_bytes[i];
    return apply_policies(run, level, err);
}

void tg_level_close(const tg_run *run, tg_level *level)
{
    for (int i = 0; level->classes && i < run->class_count; i++)
        tg_asked_vec_free(&level->classes[i].asked);
    for (int i = 0; level->answers && i < tg_pool_size(run->pool); i++)
        tg_arena_free(&level->answers[i]);
    tg_arena_free(&level->arena);
    *level = (tg_level){0};
}
