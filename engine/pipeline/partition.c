#include "pipeline/partition.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/bits.h"

/* For a limit t let f(t) be the least latency with no cost or transfer above t; f never rises with t, and the optimum
 * is the least f(t) + (microbatches - 1) * t over the entries' costs t. The least t with any partition is found by
 * bisection on reachable states alone, as sets of bits. From the largest t down, each lower bound of f(t) then excludes
 * all smaller t' with f(t) + (microbatches - 1) * t' no better than the best partition known, so few are looked at.
 *
 * f(t) is a dynamic program over the states on a complete path, (first atom, layer, devices) of a suffix. How many
 * stages a suffix has matters only as far as some entry can't bear them: suffixes of `most_layers` stages or more are
 * one layer. With a single layer all limits are ignored, which is fast and a lower bound; it is f(t) itself if what it
 * finds bears all. */

enum { MOST_STATES = 1 << 27 };

typedef struct {
    double added_s, weight_s; /* to the latency; what t limits */
    int limit;                /* the highest layer of a suffix that it may stand in front of */
    int entry;
} option;

/* The options of equal atoms and devices, by rising weight and limit. */
typedef struct {
    int first, last, devices, options;
    const option *option;
} arc;

typedef struct {
    const tg_partition *problem;
    int most_layers, layers; /* needed; in use now: all of them or none but layer 0 */
    int words;
    const arc *arcs;
    const int *arcs_from;  /* atoms + 2: where the arcs of a first atom begin */
    uint64_t *rear, *live; /* bits by devices, per (atom, layer) */
    int *low, *high;       /* the span of live, per (atom, layer) */
    double *sum;           /* per (atom, layer, devices), set within the span */
    int *trail;            /* entries of the partition evaluated last */
    int trail_count;
    double total_s; /* the best so far, and its partition */
    int *best;
    int best_count;
} solver;

static size_t row(const solver *s, int atom, int layer)
{
    return (size_t)atom * (size_t)(s->layers + 1) + (size_t)layer;
}

static int layer_in_front(const solver *s, int layer)
{
    return layer < s->layers ? layer + 1 : layer;
}

/* The option of an arc to put in front of a suffix of this layer: the cheapest that bears it. NULL if none within t.
 * from is where to start looking, which only rises with the layer. */
static const option *usable(const arc *a, int layer, double t, int *from)
{
    while (*from < a->options && a->option[*from].limit < layer)
        ++*from;
    return *from < a->options && a->option[*from].weight_s <= t ? &a->option[*from] : NULL;
}

/* Whether a whole partition may use so many devices. */
static bool is_target(const solver *s, int devices)
{
    return devices == s->problem->devices || s->problem->at_most;
}

/* Which suffixes exist within t, with so many layers; whether one is a whole partition. */
static bool reach_from_rear(solver *s, int layers, double t)
{
    s->layers = layers;
    const int atoms = s->problem->atoms, words = s->words;
    memset(s->rear, 0, row(s, atoms + 1, 0) * (size_t)words * sizeof *s->rear);
    s->rear[row(s, atoms, 0) * (size_t)words] = 1;
    for (int i = atoms - 1; i >= 0; i--)
        for (int a = s->arcs_from[i]; a < s->arcs_from[i + 1]; a++) {
            const arc *c = &s->arcs[a];
            int from = 0;
            for (int layer = 0; layer <= s->layers && usable(c, layer, t, &from); layer++) {
                const uint64_t *behind = s->rear + row(s, c->last, layer) * (size_t)words;
                if (tg_bits_any(behind, words))
                    tg_bits_join_shifted(s->rear + row(s, i, layer_in_front(s, layer)) * (size_t)words, behind,
                                         c->devices, words);
            }
        }
    for (int layer = 0; layer <= s->layers; layer++)
        for (int d = 1; d <= s->problem->devices; d++)
            if (is_target(s, d) && s->rear[row(s, 0, layer) * (size_t)words + (size_t)d / 64] >> d % 64 & 1)
                return true;
    return false;
}

/* Which of them a front within t completes; and their span per (atom, layer). */
static void reach_from_front(solver *s, double t)
{
    const int atoms = s->problem->atoms, words = s->words;
    memset(s->live, 0, row(s, atoms + 1, 0) * (size_t)words * sizeof *s->live);
    for (int layer = 0; layer <= s->layers; layer++)
        for (int d = 1; d <= s->problem->devices; d++)
            if (is_target(s, d))
                s->live[row(s, 0, layer) * (size_t)words + (size_t)d / 64] |= (uint64_t)1 << d % 64;
    for (int i = 0; i <= atoms; i++) {
        for (int layer = 0; layer <= s->layers; layer++) {
            size_t r = row(s, i, layer);
            s->low[r] = s->problem->devices + 1;
            s->high[r] = -1;
            for (int w = 0; w < words; w++) {
                uint64_t bits = s->live[r * (size_t)words + (size_t)w] &= s->rear[r * (size_t)words + (size_t)w];
                if (!bits)
                    continue;
                if (s->high[r] < 0)
                    s->low[r] = w * 64 + __builtin_ctzll(bits);
                s->high[r] = w * 64 + 63 - __builtin_clzll(bits);
            }
        }
        for (int a = s->arcs_from[i]; a < s->arcs_from[i + 1]; a++) {
            const arc *c = &s->arcs[a];
            int from = 0;
            for (int layer = 0; layer <= s->layers && usable(c, layer, t, &from); layer++) {
                size_t front = row(s, i, layer_in_front(s, layer));
                if (s->high[front] >= 0)
                    tg_bits_join_shifted(s->live + row(s, c->last, layer) * (size_t)words,
                                         s->live + front * (size_t)words, -c->devices, words);
            }
        }
    }
}

static void fill_sums(solver *s, double t)
{
    const int atoms = s->problem->atoms;
    const size_t width = (size_t)s->problem->devices + 1;
    for (int i = atoms; i >= 0; i--) {
        for (int layer = 0; layer <= s->layers; layer++)
            for (int d = s->low[row(s, i, layer)]; d <= s->high[row(s, i, layer)]; d++)
                s->sum[row(s, i, layer) * width + (size_t)d] = i == atoms && d == 0 ? 0 : INFINITY;
        for (int a = s->arcs_from[i]; a < s->arcs_from[i + 1]; a++) {
            const arc *c = &s->arcs[a];
            const option *o;
            int from = 0;
            for (int layer = 0; layer <= s->layers && (o = usable(c, layer, t, &from)); layer++) {
                size_t to = row(s, i, layer_in_front(s, layer)), behind = row(s, c->last, layer);
                int low = s->low[behind] > s->low[to] - c->devices ? s->low[behind] : s->low[to] - c->devices;
                int high = s->high[behind] < s->high[to] - c->devices ? s->high[behind] : s->high[to] - c->devices;
                double *restrict sum = s->sum + to * width + c->devices;
                const double *restrict known = s->sum + behind * width;
                const double added_s = o->added_s;
                for (int d = low; d <= high; d++) {
                    double whole = known[d] + added_s;
                    sum[d] = whole < sum[d] ? whole : sum[d];
                }
            }
        }
    }
}

/* Follows the sums from a finished state to the end; fills trail. */
static void follow(solver *s, double t, int layer, int devices)
{
    const size_t width = (size_t)s->problem->devices + 1;
    int i = 0;
    s->trail_count = 0;
    while (i < s->problem->atoms) {
        double value = s->sum[row(s, i, layer) * width + (size_t)devices];
        bool found = false;
        for (int a = s->arcs_from[i]; a < s->arcs_from[i + 1] && !found; a++) {
            const arc *c = &s->arcs[a];
            const option *o;
            int from = 0, d = devices - c->devices;
            for (int l = 0; l <= s->layers && !found && (o = usable(c, l, t, &from)); l++) {
                size_t behind = row(s, c->last, l);
                if (layer_in_front(s, l) != layer || d < s->low[behind] || d > s->high[behind] ||
                    s->sum[behind * width + (size_t)d] + o->added_s != value)
                    continue;
                found = true;
                s->trail[s->trail_count++] = o->entry;
                i = c->last;
                layer = l;
                devices = d;
            }
        }
    }
}

/* f(t) over so many layers, infinite if there is none; the partition goes to trail. */
static double least_sum(solver *s, int layers, double t)
{
    if (!reach_from_rear(s, layers, t))
        return INFINITY;
    reach_from_front(s, t);
    fill_sums(s, t);
    const size_t width = (size_t)s->problem->devices + 1;
    double least = INFINITY;
    int best_layer = 0, best_devices = 0;
    for (int d = 1; d <= s->problem->devices; d++)
        for (int layer = 0; layer <= s->layers; layer++) {
            size_t r = row(s, 0, layer);
            if (d < s->low[r] || d > s->high[r] || !is_target(s, d) || !(s->sum[r * width + (size_t)d] < least))
                continue;
            least = s->sum[r * width + (size_t)d];
            best_layer = layer;
            best_devices = d;
        }
    follow(s, t, best_layer, best_devices);
    return least;
}

/* Whether the trail bears its successors; keeps it if it is the best so far. */
static bool keep(solver *s)
{
    tg_partition_plan plan = {.stages = s->trail_count, .entries = s->trail};
    tg_partition_measure(s->problem, &plan);
    if (plan.max_successors < s->problem->successors)
        return false;
    double total_s = tg_partition_total_s(s->problem, &plan);
    if (total_s < s->total_s) {
        s->total_s = total_s;
        s->best_count = s->trail_count;
        memcpy(s->best, s->trail, (size_t)s->trail_count * sizeof *s->best);
    }
    return true;
}

static double total_at(const solver *s, double sum_s, double t)
{
    return sum_s + (s->problem->microbatches - 1) * t;
}

/* A lower bound of f(t): f(t) itself, its partition kept, unless a smaller one excludes t already. */
static double bound(solver *s, double t)
{
    double sum_s = least_sum(s, 0, t);
    if (isinf(sum_s) || keep(s) || total_at(s, sum_s, t) >= s->total_s)
        return sum_s;
    sum_s = least_sum(s, s->most_layers, t);
    if (!isinf(sum_s))
        keep(s);
    return sum_s;
}

/* Index of the least limit that allows a partition, count if none does. */
static int least_feasible(solver *s, const double *limits, int count)
{
    int low = -1, high = count, step = 1;
    while (high - low > 1) {
        int middle = low + (high - low) / 2;
        if (reach_from_rear(s, 0, limits[middle]))
            high = middle;
        else
            low = middle;
    }
    if (s->most_layers == 0 || high == count)
        return high;
    /* Most often little above the least limit without max_successors. */
    for (low = high - 1; high < count && !reach_from_rear(s, s->most_layers, limits[high]); step *= 2) {
        low = high;
        high = high + step < count ? high + step : high + 1 < count ? count - 1 : count;
    }
    while (high - low > 1 && high < count) {
        int middle = low + (high - low) / 2;
        if (reach_from_rear(s, s->most_layers, limits[middle]))
            high = middle;
        else
            low = middle;
    }
    return high;
}

/* Index of the largest limit below end that the bound does not exclude, or -1. */
static int largest_open(const solver *s, const double *limits, int end, double sum_s)
{
    while (end > 0 && total_at(s, sum_s, limits[end - 1]) >= s->total_s)
        end--;
    return end - 1;
}

enum { SAMPLES = 8 };

static void search(solver *s, const double *limits, int count)
{
    int least = least_feasible(s, limits, count);
    if (least == count)
        return;
    bound(s, limits[least]);
    double sum_s = least_sum(s, 0, limits[count - 1]);
    keep(s);
    int top = largest_open(s, limits, count, sum_s);
    /* A good partition to compare with, before the descent. */
    for (int n = 1, k = least; n < SAMPLES; n++) {
        double t = limits[least] + n * (limits[top < least ? least : top] - limits[least]) / SAMPLES;
        int before = k;
        while (k + 1 < count && limits[k + 1] <= t)
            k++;
        if (k > before)
            bound(s, limits[k]);
    }
    for (top = largest_open(s, limits, top + 1, sum_s); top > least; top = largest_open(s, limits, top, sum_s))
        sum_s = bound(s, limits[top]);
}

static int compare_limits(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Arcs and options from the sorted entries; limits, the different weights in order. */
static tg_status build(tg_arena *arena, solver *s, double **limits, int *limit_count, tg_error *err)
{
    const tg_partition *p = s->problem;
    int count, most_behind = (p->atoms < p->devices ? p->atoms : p->devices) - 1;
    int *order = tg_partition_sort(arena, p, false, &count);
    size_t n = (size_t)count;
    arc *arcs = tg_arena_alloc(arena, n, sizeof *arcs);
    option *options = tg_arena_alloc(arena, n, sizeof *options);
    int *arcs_from = tg_arena_alloc(arena, (size_t)p->atoms + 2, sizeof *arcs_from), arc_count = 0;
    *limits = tg_arena_alloc(arena, n, sizeof **limits);
    if (!order || !arcs || !options || !arcs_from || !*limits)
        return tg_fail(err, TG_EMEMORY, "out of memory");
    for (int k = 0; k < count; k++) {
        int behind = p->entry[order[k]].max_successors - p->successors;
        if (behind < most_behind && behind + 1 > s->most_layers)
            s->most_layers = behind + 1;
    }
    for (int k = 0; k < count; k++) {
        const tg_partition_entry *e = &p->entry[order[k]];
        double transfer_s = p->transfer_s && e->last < p->atoms ? p->transfer_s[e->last - 1] : 0;
        int behind = e->max_successors - p->successors;
        options[k] = (option){e->cost_s + 2 * transfer_s, fmax(e->cost_s, transfer_s),
                              behind < most_behind ? behind : s->most_layers, order[k]};
        (*limits)[k] = options[k].weight_s;
        arc *a = arc_count ? &arcs[arc_count - 1] : NULL;
        if (!a || a->first != e->first || a->last != e->last || a->devices != e->devices) {
            a = &arcs[arc_count++];
            *a = (arc){e->first, e->last, e->devices, 0, &options[k]};
        }
        a->options++;
    }
    for (int i = 0, a = 0; i <= p->atoms + 1; i++) {
        while (a < arc_count && arcs[a].first < i)
            a++;
        arcs_from[i] = a;
    }
    s->arcs = arcs;
    s->arcs_from = arcs_from;
    qsort(*limits, n, sizeof **limits, compare_limits);
    *limit_count = 0;
    for (int k = 0; k < count; k++)
        if (k == 0 || (*limits)[k] != (*limits)[k - 1])
            (*limits)[(*limit_count)++] = (*limits)[k];
    return TG_OK;
}

static tg_status solve(tg_arena *arena, solver *s, tg_error *err)
{
    const tg_partition *problem = s->problem;
    double *limits;
    int count = 0;
    tg_status status = build(arena, s, &limits, &count, err);
    if (status != TG_OK)
        return status;
    s->layers = s->most_layers; /* rows for all of them */
    size_t rows = row(s, problem->atoms + 1, 0), atoms = (size_t)problem->atoms;
    if (rows * ((size_t)problem->devices + 1) > MOST_STATES)
        return tg_fail(err, TG_EINPUT, "%d atoms on %d devices in up to %d stages are too many to search",
                       problem->atoms, problem->devices, s->layers + 1);
    s->rear = tg_arena_alloc(arena, rows * (size_t)s->words, sizeof *s->rear);
    s->live = tg_arena_alloc(arena, rows * (size_t)s->words, sizeof *s->live);
    s->low = tg_arena_alloc(arena, rows, sizeof *s->low);
    s->high = tg_arena_alloc(arena, rows, sizeof *s->high);
    s->sum = tg_arena_alloc(arena, rows * ((size_t)problem->devices + 1), sizeof *s->sum);
    s->trail = tg_arena_alloc(arena, atoms, sizeof *s->trail);
    if (!s->rear || !s->live || !s->low || !s->high || !s->sum || !s->trail)
        return tg_fail(err, TG_EMEMORY, "out of memory");
    search(s, limits, count);
    return TG_OK;
}

tg_status tg_partition_best(tg_arena *arena, const tg_partition *problem, tg_partition_plan *out, tg_error *err)
{
    *out = (tg_partition_plan){0};
    tg_status status = tg_partition_check(problem, err);
    if (status != TG_OK)
        return status;
    tg_arena scratch = {0};
    solver s = {.problem = problem, .words = problem->devices / 64 + 1, .total_s = INFINITY};
    s.best = tg_arena_alloc(arena, (size_t)problem->atoms, sizeof *s.best);
    status = s.best ? solve(&scratch, &s, err) : tg_fail(err, TG_EMEMORY, "out of memory");
    tg_arena_free(&scratch);
    if (status == TG_OK && s.best_count > 0) {
        out->stages = s.best_count;
        out->entries = s.best;
        tg_partition_measure(problem, out);
    }
    return status;
}
