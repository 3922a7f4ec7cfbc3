#include "pipeline/partition_table.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A state is a suffix's content and how many GPUs, counted from the island's rear, it may lie on; its labels are the
 * suffix's Pareto set. A stage put in front of two suffixes, one no worse than the other in every figure, keeps that
 * order, so a dominated label can be dropped at once. Labels are made by rising number of stages, and for each number
 * by rising bound of the bottleneck; a group of them (front stage's atoms and GPUs, stages behind) whose best figures
 * taken together are dominated is never looked into. */

/* Sums in another order differ in the last bits only. */
static const double SLACK = 1 + 1e-12;
enum { MOST_LABELS = 1 << 21, MOST_DEVICES = 4096 };

typedef struct {
    double bottleneck_s, latency_s, sync_s;
    int bears; /* successors, no more than count */
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

typedef struct {
    double bottleneck_s;
    int atoms, size;
    const menu *menu;
    const state *behind;
} group;
TG_VEC(groups, group);

struct tg_partition_table {
    tg_partition_table_spec spec;
    int *earliest;          /* atoms * (atoms + 1): of a start and a length, the first start of that content */
    run *runs;              /* by start and length, used at the first start */
    int *sizes, size_count; /* that a stage can have */
    ways ways;
    size_t label_count;
};

static size_t at(const tg_partition_table *t, int start, int length)
{
    return (size_t)start * (size_t)(t->spec.atoms + 1) + (size_t)length;
}

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
                t->earliest[at(t, start, known[start] + 1)] = start - distance;
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
    if (!t || !t->earliest || !t->runs || !t->sizes || !find_equal_runs(t)) {
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
    free(t->earliest);
    free(t->runs);
    free(t->sizes);
    free(t);
}

static int size_index(const tg_partition_table *t, int devices)
{
    for (int s = 0; s < t->size_count; s++)
        if (t->sizes[s] == devices)
            return s;
    return -1;
}

tg_status tg_partition_table_add(tg_partition_table *t, int devices, int strategy, const tg_terms *terms,
                                 bool allow_recompute, tg_error *err)
{
    if (size_index(t, devices) < 0)
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
    m->best = (figures){INFINITY, INFINITY, INFINITY, -1};
    for (size_t i = 0; i < m->all.count; i++) {
        const tg_stage_option one = m->all.at[i];
        bool dominated = false;
        for (size_t k = 0; k < kept && !dominated; k++) {
            const tg_stage_option *other = &m->all.at[k];
            dominated = other->time_s <= one.time_s * SLACK && other->sync_s <= one.sync_s * SLACK &&
                        other->max_successors >= one.max_successors;
        }
        if (dominated)
            continue;
        m->all.at[kept++] = one;
        m->best.bottleneck_s = fmin(m->best.bottleneck_s, one.time_s);
        m->best.sync_s = fmin(m->best.sync_s, one.sync_s);
        if (one.max_successors > m->best.bears)
            m->best.bears = one.max_successors;
    }
    m->best.latency_s = m->best.bottleneck_s;
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
            tg_stage_option option = {stage.time_s, stage.sync_s, stage.max_successors, one->strategy,
                                      stage.recomputed};
            if (!options_push(out, option))
                return false;
            if (stage.max_successors >= most_borne(t))
                break;
        }
    }
    return true;
}

static run *run_of(tg_partition_table *t, int start, int length)
{
    run *r = &t->runs[at(t, t->earliest[at(t, start, length)], length)];
    if (!r->menus)
        r->menus = calloc((size_t)t->size_count, sizeof *r->menus);
    return r->menus ? r : NULL;
}

static const menu *menu_of(tg_partition_table *t, int start, int length, int size)
{
    run *r = run_of(t, start, length);
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

static tg_status check_run(const tg_partition_table *t, int first, int last, tg_error *err)
{
    if (first < 0 || first >= last || last > t->spec.atoms)
        return tg_fail(err, TG_EINPUT, "atoms [%d, %d): not a run of the %d atoms", first, last, t->spec.atoms);
    return TG_OK;
}

tg_status tg_partition_table_set(tg_partition_table *t, int first, int last, int devices, const tg_stage_option *given,
                                 int count, tg_error *err)
{
    tg_status status = check_run(t, first, last, err);
    if (status != TG_OK)
        return status;
    int size = size_index(t, devices);
    if (size < 0)
        return tg_fail(err, TG_EINPUT, "devices: %d lie neither in one node nor in whole nodes", devices);
    run *r = run_of(t, first, last - first);
    if (!r)
        return tg_fail(err, TG_EMEMORY, "out of memory");
    menu *m = &r->menus[size];
    m->all.count = 0;
    for (int i = 0; i < count; i++) {
        if (!isfinite(given[i].time_s) || given[i].time_s < 0 || !isfinite(given[i].sync_s) || given[i].sync_s < 0)
            return tg_fail(err, TG_EINPUT, "time_s, sync_s: must be finite and at least 0");
        if (given[i].max_successors >= 0 && !options_push(&m->all, given[i]))
            return tg_fail(err, TG_EMEMORY, "out of memory");
    }
    finish_menu(t, m);
    return TG_OK;
}

bool tg_partition_table_has(const tg_partition_table *t, int first, int last, int devices)
{
    int length = last - first, size = size_index(t, devices);
    if (size < 0 || check_run(t, first, last, NULL) != TG_OK)
        return false;
    const run *r = &t->runs[at(t, t->earliest[at(t, first, length)], length)];
    return r->menus && r->menus[size].made;
}

static bool dominates(const label *x, const figures *y)
{
    return x->bottleneck_s <= y->bottleneck_s * SLACK && x->latency_s <= y->latency_s * SLACK &&
           x->sync_s <= y->sync_s * SLACK && x->bears >= y->bears;
}

/* Is any label of the state (all have no more stages) as good? The one found is moved to the front, since the next
 * question is most often about something alike; among labels of fewer stages order is kept. */
static bool dominated(labels *all, size_t start, const figures *y)
{
    for (size_t k = all->count; k-- > start;)
        if (dominates(&all->at[k], y)) {
            label last = all->at[all->count - 1];
            all->at[all->count - 1] = all->at[k];
            all->at[k] = last;
            return true;
        }
    for (size_t k = 0; k < start; k++)
        if (dominates(&all->at[k], y))
            return true;
    return false;
}

/* Appends unless dominated; takes out what it dominates among those of as many stages, which begin at start. */
static bool offer(labels *all, size_t start, const label *one)
{
    const figures y = {one->bottleneck_s, one->latency_s, one->sync_s, one->bears};
    if (dominated(all, start, &y))
        return true;
    for (size_t k = all->count; k-- > start;) {
        const label *other = &all->at[k];
        const figures z = {other->bottleneck_s, other->latency_s, other->sync_s, other->bears};
        if (dominates(one, &z))
            all->at[k] = all->at[--all->count];
    }
    return labels_push(all, *one);
}

/* Do the GPUs [from, from + devices), counted from the rear of whole nodes, lie in one node or in whole nodes? */
static bool lies_well(const tg_partition_table *t, int from, int devices)
{
    int node = t->spec.node;
    return devices < node ? from / node == (from + devices - 1) / node : from % node == 0;
}

static int useful(const tg_partition_table *t, int successors)
{
    return t->spec.spread ? t->spec.most_successors : successors;
}

/* The options of a menu alone, as rows of one stage in front of idle GPUs. */
static bool add_last_stages(const tg_partition_table *t, labels *all, const menu *m, int atoms, int size, int idle,
                            int successors)
{
    for (size_t o = 0; o < m->all.count; o++) {
        const tg_stage_option *option = &m->all.at[o];
        if (option->max_successors < successors)
            continue;
        int bears = option->max_successors, most = useful(t, successors);
        label one = {.bottleneck_s = option->time_s,
                     .latency_s = option->time_s,
                     .sync_s = option->sync_s,
                     .bears = bears < most ? bears : most,
                     .stages = 1,
                     .idle = idle,
                     .atoms = atoms,
                     .devices = t->sizes[size],
                     .option = (int)o,
                     .behind = -1};
        if (!offer(all, 0, &one))
            return false;
    }
    return true;
}

static figures joined(const figures *front, const figures *behind, int stages, int most)
{
    int bears = front->bears - stages + 1;
    bears = bears < behind->bears ? bears : behind->bears;
    return (figures){fmax(front->bottleneck_s, behind->bottleneck_s), front->latency_s + behind->latency_s,
                     fmax(front->sync_s, behind->sync_s), bears < most ? bears : most};
}

/* All rows of a group with so many stages. */
static bool add_group(const tg_partition_table *t, labels *all, size_t start, const group *g, int stages,
                      int successors)
{
    for (size_t o = 0; o < g->menu->all.count; o++) {
        const tg_stage_option *option = &g->menu->all.at[o];
        if (option->max_successors < successors + stages - 1)
            continue;
        const figures front = {option->time_s, option->time_s, option->sync_s, option->max_successors};
        const figures hope = joined(&front, &g->behind->best[stages - 1], stages, useful(t, successors));
        if (dominated(all, start, &hope))
            continue;
        for (int l = g->behind->from[stages - 1]; l < g->behind->from[stages]; l++) {
            const label *behind = &g->behind->all.at[l];
            const figures its = {behind->bottleneck_s, behind->latency_s, behind->sync_s, behind->bears};
            const figures sum = joined(&front, &its, stages, useful(t, successors));
            label one = {.bottleneck_s = sum.bottleneck_s,
                         .latency_s = sum.latency_s,
                         .sync_s = sum.sync_s,
                         .bears = sum.bears,
                         .stages = stages,
                         .idle = behind->idle,
                         .atoms = g->atoms,
                         .devices = t->sizes[g->size],
                         .option = (int)o,
                         .behind = l};
            if (!offer(all, start, &one))
                return false;
        }
    }
    return true;
}

static int compare_groups(const void *a, const void *b)
{
    const group *x = a, *y = b;
    if (x->bottleneck_s != y->bottleneck_s)
        return x->bottleneck_s < y->bottleneck_s ? -1 : 1;
    if (x->size != y->size)
        return x->size < y->size ? -1 : 1;
    return x->atoms - y->atoms;
}

static int compare_labels(const void *a, const void *b)
{
    const label *x = a, *y = b;
    if (x->bottleneck_s != y->bottleneck_s)
        return x->bottleneck_s < y->bottleneck_s ? -1 : 1;
    if (x->latency_s != y->latency_s)
        return x->latency_s < y->latency_s ? -1 : 1;
    if (x->sync_s != y->sync_s)
        return x->sync_s < y->sync_s ? -1 : 1;
    if (x->bears != y->bears)
        return x->bears > y->bears ? -1 : 1;
    if (x->devices != y->devices)
        return x->devices < y->devices ? -1 : 1;
    if (x->atoms != y->atoms)
        return x->atoms < y->atoms ? -1 : 1;
    if (x->option != y->option)
        return x->option < y->option ? -1 : 1;
    return (x->behind > y->behind) - (x->behind < y->behind);
}

/* Rows of so many stages from the groups, which are those of all numbers. */
static bool add_rows(const tg_partition_table *t, state *s, groups *all, int stages, int successors)
{
    size_t used = 0;
    for (size_t g = 0; g < all->count; g++) {
        group *one = &all->at[g];
        if (one->behind->from[stages - 1] == one->behind->from[stages] ||
            one->menu->best.bears < successors + stages - 1)
            continue;
        const group wanted = *one;
        *one = all->at[used];
        all->at[used++] = wanted;
    }
    for (size_t g = 0; g < used; g++)
        all->at[g].bottleneck_s =
            fmax(all->at[g].menu->best.bottleneck_s, all->at[g].behind->best[stages - 1].bottleneck_s);
    if (used > 1)
        qsort(all->at, used, sizeof *all->at, compare_groups);
    size_t start = (size_t)s->from[stages];
    for (size_t g = 0; g < used; g++) {
        const group *one = &all->at[g];
        const figures hope = joined(&one->menu->best, &one->behind->best[stages - 1], stages, useful(t, successors));
        if (!dominated(&s->all, start, &hope) && !add_group(t, &s->all, start, one, stages, successors))
            return false;
    }
    return true;
}

/* Orders the labels of so many stages, which are the last ones, and tells their best figures. */
static void close_stages(state *s, int stages)
{
    size_t start = (size_t)s->from[stages], count = s->all.count - start;
    figures best = {INFINITY, INFINITY, INFINITY, -1};
    for (size_t k = start; k < s->all.count; k++) {
        const label *one = &s->all.at[k];
        best = (figures){fmin(best.bottleneck_s, one->bottleneck_s), fmin(best.latency_s, one->latency_s),
                         fmin(best.sync_s, one->sync_s), one->bears > best.bears ? one->bears : best.bears};
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
        const menu *whole = menu_of(t, start, length, size);
        if (!whole ||
            ((rest == 0 || t->spec.idle) && !add_last_stages(t, &s->all, whole, length, size, rest, successors)))
            return false;
        for (int atoms = 1; rest > 0 && atoms < length && t->spec.most_stages > 1; atoms++) {
            const menu *front = menu_of(t, start, atoms, size);
            if (!front)
                return false;
            if (front->all.count == 0)
                continue;
            const state *behind = state_of(t, start + atoms, length - atoms, rest, successors);
            if (!behind || (behind->all.count && !groups_push(out, (group){0, atoms, size, front, behind})))
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
    start = t->earliest[at(t, start, length)];
    run *r = run_of(t, start, length);
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

static bool trace(tg_partition_table *t, tg_arena *arena, int first, int last, int successors, const label *l,
                  tg_table_plan *out)
{
    tg_table_stage *stages = tg_arena_alloc(arena, (size_t)l->stages, sizeof *stages);
    if (!stages)
        return false;
    *out = (tg_table_plan){l->stages, l->idle, stages};
    for (int k = 0, start = first, devices = t->spec.devices; k < out->stages; k++) {
        const menu *m = menu_of(t, start, l->atoms, size_index(t, l->devices));
        stages[k] = (tg_table_stage){t->earliest[at(t, start, l->atoms)], l->atoms, l->devices, m->all.at[l->option]};
        start += l->atoms;
        devices -= l->devices;
        if (l->behind >= 0)
            l = &state_of(t, start, last - start, devices, successors)->all.at[l->behind];
    }
    return true;
}

tg_status tg_partition_table_plans(tg_partition_table *t, tg_arena *arena, int first, int last, int successors,
                                   const tg_table_plan **out, int *count, tg_error *err)
{
    tg_status status = check_run(t, first, last, err);
    if (status != TG_OK)
        return status;
    if (successors < 0 || successors > t->spec.most_successors)
        return tg_fail(err, TG_EINPUT, "successors: must be 0 to %d, not %d", t->spec.most_successors, successors);
    const state *s = state_of(t, first, last - first, t->spec.devices, successors);
    if (!s && t->label_count >= MOST_LABELS)
        return tg_fail(err, TG_EINPUT, "more than %d rows of stages that none dominates", MOST_LABELS);
    tg_table_plan *plans = s ? tg_arena_alloc(arena, s->all.count, sizeof *plans) : NULL;
    for (size_t n = 0; plans && n < s->all.count; n++)
        if (!trace(t, arena, first, last, successors, &s->all.at[n], &plans[n]))
            plans = NULL;
    if (!plans)
        return tg_fail(err, TG_EMEMORY, "out of memory");
    *out = plans;
    *count = (int)s->all.count;
    return TG_OK;
}
