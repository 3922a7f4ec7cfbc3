#include "cluster/units.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

size_t tg_units_differ(const tg_units *units, size_t u, size_t v)
{
    const double *a = units->figure + u * units->figures, *b = units->figure + v * units->figures;
    size_t f = 0;
    while (f < units->figures && fmax(a[f], b[f]) <= fmin(a[f], b[f]) * units->limit[f])
        f++;
    return f;
}

/* Puts x behind the count units of list; false if it differs from one of them or is blocked. */
static bool admit(const tg_units *units, size_t x, size_t count, tg_obstacle *why)
{
    if (units->blocked[x]) {
        why->partner = units->count;
        return false;
    }
    for (size_t i = 0; i < count; i++) {
        why->figure = tg_units_differ(units, x, units->list[i]);
        why->partner = units->list[i];
        if (why->figure < units->figures)
            return false;
    }
    units->list[count] = x;
    return true;
}

bool tg_units_close(const tg_units *units, bool *in, tg_obstacle *why)
{
    size_t n = units->count, count = 0;
    why->outside = n;
    for (size_t u = 0; u < n; u++)
        if (in[u]) {
            why->inside = u;
            if (!admit(units, u, count++, why))
                return false;
        }
    for (size_t before = 0; before != count && count > 1;) {
        before = count;
        for (size_t i = 0; i < count; i++) {
            const double *rate = units->rate + units->list[i] * n;
            why->from = units->list[i];
            why->inside = units->list[i == 0];
            for (size_t j = 0; j < count; j++)
                if (j != i && rate[units->list[j]] < rate[why->inside])
                    why->inside = units->list[j];
            for (size_t x = 0; x < n; x++) {
                if (in[x] || units->same[why->from * n + x] || rate[x] <= rate[why->inside] * (1 + TG_RELATIVE_SLACK))
                    continue;
                why->outside = x;
                if (!admit(units, x, count, why))
                    return false;
                in[x] = true;
                count++;
            }
        }
    }
    return true;
}

static double ratio(const tg_units *units, const size_t *list, size_t count, size_t f)
{
    double low = INFINITY, high = 0;
    for (size_t i = 0; i < count; i++) {
        double x = units->figure[list[i] * units->figures + f];
        low = fmin(low, x);
        high = fmax(high, x);
    }
    return high / low;
}

int64_t tg_units_spread(const tg_units *units, const size_t *list, size_t count)
{
    double intra = 1;
    for (size_t f = TG_FIGURE_INTRA; f < units->figures; f++)
        intra = fmax(intra, ratio(units, list, count, f));
    double spread =
        ratio(units, list, count, TG_FIGURE_COMPUTE) + ratio(units, list, count, TG_FIGURE_MEMORY) + intra - 3;
    return llround(ldexp(fmin(spread, 1 << 16), 40)); /* clipped: some hundred such islands still fit a sum */
}

static int by_size(const void *a, const void *b)
{
    size_t x = *(const size_t *)a, y = *(const size_t *)b;
    return (x > y) - (x < y);
}

/* The sizes at which some node's intra-node rate has a step; two rates differ somewhere only if they do at one of them.
 */
static bool find_sizes(tg_arena *arena, tg_units *units)
{
    const tg_cluster *cluster = units->cluster;
    size_t steps = 0, count = 0;
    for (size_t n = 0; n < cluster->node_count; n++)
        steps += cluster->nodes[n].intra.count;
    size_t *sizes = tg_arena_alloc(arena, TG_FIGURE_INTRA + steps, sizeof *sizes), *intra = sizes;
    if (!sizes)
        return false;
    intra += TG_FIGURE_INTRA;
    for (size_t n = 0; n < cluster->node_count; n++)
        for (size_t i = 0; i < cluster->nodes[n].intra.count; i++) {
            size_t s = 0, size = cluster->nodes[n].intra.steps[i].size;
            while (s < count && intra[s] != size)
                s++;
            intra[s] = size;
            count += s == count;
        }
    qsort(intra, count, sizeof *intra, by_size);
    units->figure_size = sizes;
    units->figures = TG_FIGURE_INTRA + count;
    return true;
}

static void write_figures(const tg_units *units, const tg_node *node, double *figure)
{
    figure[TG_FIGURE_GPUS] = (double)node->gpus;
    figure[TG_FIGURE_COMPUTE] = node->compute_flops;
    figure[TG_FIGURE_MEMORY] = node->memory_bytes;
    for (size_t f = TG_FIGURE_INTRA; f < units->figures; f++) {
        size_t size = units->figure_size[f] < node->gpus ? units->figure_size[f] : node->gpus;
        figure[f] = tg_rate_at(&node->intra, size);
    }
}

static bool equal_rate(const tg_rate *a, const tg_rate *b)
{
    if (a->count != b->count)
        return false;
    for (size_t i = 0; i < a->count; i++)
        if (a->steps[i].size != b->steps[i].size || a->steps[i].bytes_per_s < b->steps[i].bytes_per_s ||
            a->steps[i].bytes_per_s > b->steps[i].bytes_per_s)
            return false;
    return true;
}

static double flow(const tg_cluster *cluster, size_t n, size_t m)
{
    return tg_rate_at(&tg_cluster_link(cluster, n, m)->rate, 1);
}

static bool twins(const tg_cluster *cluster, size_t n, size_t m)
{
    const tg_node *a = &cluster->nodes[n], *b = &cluster->nodes[m];
    if (a->gpus != b->gpus || strcmp(a->gpu, b->gpu) != 0 || strcmp(a->facts, b->facts) != 0 ||
        a->compute_flops < b->compute_flops || a->compute_flops > b->compute_flops ||
        a->memory_bytes < b->memory_bytes || a->memory_bytes > b->memory_bytes || !equal_rate(&a->intra, &b->intra))
        return false;
    double tie = flow(cluster, n, m);
    for (size_t x = 0; x < cluster->node_count; x++) {
        if (x == n || x == m)
            continue;
        double to_a = flow(cluster, n, x), to_b = flow(cluster, m, x);
        size_t physical = cluster->nodes[x].physical;
        if (to_a < to_b || to_a > to_b || to_a > tie || (a->physical == physical) != (b->physical == physical))
            return false;
    }
    return true;
}

/* Being twins is transitive, so that one member speaks for its unit. */
static bool group(tg_arena *arena, tg_units *units, const bool *pinned, bool join_twins)
{
    size_t n = units->cluster->node_count, filled = 0;
    size_t *unit_of = tg_arena_alloc(arena, n, sizeof *unit_of), *first = tg_arena_alloc(arena, n, sizeof *first);
    size_t *start = tg_arena_alloc(arena, n + 1, sizeof *start), *member = tg_arena_alloc(arena, n, sizeof *member);
    bool *blocked = tg_arena_alloc(arena, n, sizeof *blocked);
    if (!unit_of || !first || !start || !member || !blocked)
        return false;
    for (size_t i = 0; i < n; i++) {
        size_t u = units->count, node = units->order[i];
        if (join_twins && !pinned[node])
            for (u = 0; u < units->count; u++)
                if (!pinned[first[u]] && twins(units->cluster, first[u], node))
                    break;
        unit_of[i] = u;
        if (u == units->count) {
            first[units->count++] = node;
            blocked[u] = pinned[node];
        }
    }
    for (size_t u = 0; u < units->count; u++) {
        for (size_t i = 0; i < n; i++)
            if (unit_of[i] == u)
                member[filled++] = i;
        start[u + 1] = filled;
    }
    units->start = start;
    units->member = member;
    units->blocked = blocked;
    return true;
}

static bool compare_units(tg_arena *arena, tg_units *units, const tg_tolerance *tolerance)
{
    size_t n = units->count;
    double *figure = tg_arena_alloc(arena, n * units->figures, sizeof *figure);
    double *limit = tg_arena_alloc(arena, units->figures, sizeof *limit);
    double *rate = tg_arena_alloc(arena, n * n, sizeof *rate);
    bool *same = tg_arena_alloc(arena, n * n, sizeof *same);
    units->list = tg_arena_alloc(arena, n, sizeof *units->list);
    if (!figure || !limit || !rate || !same || !units->list)
        return false;
    for (size_t f = 0; f < units->figures; f++) {
        double more = f == TG_FIGURE_GPUS      ? 0
                      : f == TG_FIGURE_COMPUTE ? tolerance->compute
                      : f == TG_FIGURE_MEMORY  ? tolerance->memory
                                               : tolerance->intra;
        limit[f] = (1 + more) * (1 + TG_RELATIVE_SLACK);
    }
    for (size_t u = 0; u < n; u++) {
        size_t node = units->order[units->member[units->start[u]]];
        write_figures(units, &units->cluster->nodes[node], figure + u * units->figures);
        for (size_t v = 0; v < n; v++) {
            size_t other = units->order[units->member[units->start[v]]];
            rate[u * n + v] = u == v ? 0 : flow(units->cluster, node, other);
            same[u * n + v] = units->cluster->nodes[node].physical == units->cluster->nodes[other].physical;
        }
    }
    units->figure = figure;
    units->limit = limit;
    units->rate = rate;
    units->same = same;
    return true;
}

static bool sort_by_name(tg_arena *arena, const tg_cluster *cluster, tg_units *units)
{
    size_t n = cluster->node_count;
    size_t *order = tg_arena_alloc(arena, n, sizeof *order);
    if (!order)
        return false;
    for (size_t i = 0; i < n; i++) { /* insertion: C11's qsort takes no context */
        size_t at = i;
        for (; at > 0 && strcmp(cluster->nodes[order[at - 1]].name, cluster->nodes[i].name) > 0; at--)
            order[at] = order[at - 1];
        order[at] = i;
    }
    units->order = order;
    return true;
}

tg_status tg_units_build(tg_arena *arena, const tg_cluster *cluster, const tg_tolerance *tolerance, const tg_pin *pins,
                         size_t pin_count, bool join_twins, tg_units *out, tg_error *err)
{
    *out = (tg_units){.cluster = cluster};
    bool *pinned = tg_arena_alloc(arena, cluster->node_count, sizeof *pinned);
    if (!pinned)
        return tg_fail(err, TG_EMEMORY, "out of memory");
    for (size_t p = 0; p < pin_count; p++) {
        if (pins[p].count == 0)
            return tg_fail(err, TG_EINPUT, "islands[%zu]: names no node", p);
        for (size_t i = 0; i < pins[p].count; i++) {
            size_t node = pins[p].nodes[i];
            if (node >= cluster->node_count)
                return tg_fail(err, TG_EINPUT, "islands[%zu]: there is no node %zu", p, node);
            if (pinned[node])
                return tg_fail(err, TG_EINPUT, "islands: node '%.120s' is pinned twice", cluster->nodes[node].name);
            pinned[node] = true;
        }
    }
    if (!sort_by_name(arena, cluster, out) || !find_sizes(arena, out) || !group(arena, out, pinned, join_twins) ||
        !compare_units(arena, out, tolerance))
        return tg_fail(err, TG_EMEMORY, "out of memory");
    return TG_OK;
}
