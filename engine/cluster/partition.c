/* The fewest islands of units: exact for each group of up to EXACT units that may share islands, by a table over its
 * subsets; a heuristic past that. */
#include <stdlib.h>
#include <string.h>

#include "cluster/units.h"

enum { EXACT = 16 };

/* Units of one component by rising name: nobody outside shares an island with one of them. */
typedef struct {
    const tg_units *units;
    const size_t *unit;
    size_t count;
    const bool *share; /* units->count squared: some island may hold both */
} component;

typedef struct {
    uint8_t islands;
    uint16_t first; /* the island that holds the lowest unit; 0: not reached */
    int64_t spread;
} answer;

/* Whether island a makes a smaller list of names than b. last: the largest place of a member, by mask. */
static bool smaller_names(const component *part, const uint32_t *last, unsigned a, unsigned b)
{
    unsigned differ = a ^ b, low = differ & -differ, other = a & low ? b : a;
    size_t u = 0;
    while (!(low >> u & 1))
        u++;
    size_t first = part->units->member[part->units->start[part->unit[u]]];
    bool other_goes_on = last[other] > first; /* else it is a prefix, hence smaller */
    return (a & low) != 0 ? other_goes_on : !other_goes_on;
}

/* For each mask of the component's units: which others have to be in it by constraint 3, whether all may share, last.
 */
static void tabulate(const component *part, uint16_t *need, bool *meets, uint32_t *last)
{
    const tg_units *units = part->units;
    uint16_t share[EXACT] = {0}, faster[EXACT][EXACT] = {{0}};
    for (size_t i = 0; i < part->count; i++)
        for (size_t j = 0; j < part->count; j++) {
            size_t u = part->unit[i], v = part->unit[j];
            if (i == j)
                continue;
            if (part->share[u * units->count + v])
                share[i] |= (uint16_t)(1u << j);
            for (size_t k = 0; k < part->count; k++) {
                size_t x = part->unit[k];
                if (k != i && k != j && !units->same[u * units->count + x] &&
                    units->rate[u * units->count + x] > units->rate[u * units->count + v] * (1 + TG_RELATIVE_SLACK)) {
                    faster[i][j] |= (uint16_t)(1u << k);
                    faster[j][i] |= (uint16_t)(1u << k);
                }
            }
        }
    meets[0] = true;
    for (unsigned mask = 1; mask < 1u << part->count; mask++) {
        size_t low = 0;
        while (!(mask >> low & 1))
            low++;
        unsigned rest = mask & (mask - 1);
        meets[mask] = meets[rest] && (rest & ~(unsigned)share[low]) == 0;
        need[mask] = need[rest];
        for (size_t j = low + 1; j < part->count; j++)
            if (rest >> j & 1)
                need[mask] |= faster[low][j];
        size_t end = units->start[part->unit[low] + 1];
        uint32_t own = (uint32_t)units->member[end - 1];
        last[mask] = own > last[rest] ? own : last[rest];
    }
}

static int64_t spread_of(const component *part, unsigned mask)
{
    size_t list[EXACT], count = 0;
    for (size_t i = 0; i < part->count; i++)
        if (mask >> i & 1)
            list[count++] = part->unit[i];
    return tg_units_spread(part->units, list, count);
}

/* best[mask] is the best partition of mask's units: some island with its lowest unit, then the best of the rest. */
static bool partition_exactly(const component *part, size_t *island_of, size_t *islands)
{
    size_t masks = (size_t)1 << part->count;
    uint16_t *need = calloc(masks, sizeof *need);
    bool *island = calloc(masks, sizeof *island);
    uint32_t *last = calloc(masks, sizeof *last);
    int64_t *spread = calloc(masks, sizeof *spread);
    answer *best = calloc(masks, sizeof *best);
    bool ok = need && island && last && spread && best;
    if (ok) {
        tabulate(part, need, island, last);
        for (unsigned mask = 1; mask < masks; mask++) {
            island[mask] = island[mask] && (need[mask] & ~mask) == 0;
            if (island[mask])
                spread[mask] = spread_of(part, mask);
        }
        for (unsigned mask = 1; mask < masks; mask++) {
            unsigned low = mask & -mask, others = mask ^ low;
            for (unsigned sub = others;; sub = (sub - 1) & others) {
                unsigned first = sub | low;
                if (island[first]) {
                    answer now = {(uint8_t)(best[mask ^ first].islands + 1), (uint16_t)first,
                                  best[mask ^ first].spread + spread[first]};
                    answer *old = &best[mask];
                    if (!old->first || now.islands < old->islands ||
                        (now.islands == old->islands &&
                         (now.spread < old->spread ||
                          (now.spread == old->spread && smaller_names(part, last, first, old->first)))))
                        *old = now;
                }
                if (sub == 0)
                    break;
            }
        }
        for (unsigned mask = (unsigned)masks - 1; mask; mask ^= best[mask].first, ++*islands)
            for (size_t i = 0; i < part->count; i++)
                if (best[mask].first >> i & 1)
                    island_of[part->unit[i]] = *islands;
    }
    free(need);
    free(island);
    free(last);
    free(spread);
    free(best);
    return ok;
}

/* Merging of parts, where part[u] is the lowest unit of u's part. */
typedef struct {
    const component *component;
    size_t *part;  /* units->count */
    bool *in;      /* units->count: the set tried last */
    size_t *list;  /* units->count */
    int64_t *cost; /* units->count squared: spread of the union of two parts, by their lowest units; -1: none */
} merger;

/* The smallest union of whole parts that is an island and holds parts a and b: its spread, or -1. Sets in. */
static int64_t try_union(const merger *m, size_t a, size_t b)
{
    const component *c = m->component;
    tg_obstacle why;
    for (size_t u = 0; u < c->units->count; u++)
        m->in[u] = m->part[u] == a || m->part[u] == b;
    for (bool grown = true; grown;) {
        if (!tg_units_close(c->units, m->in, &why))
            return -1;
        grown = false;
        for (size_t i = 0; i < c->count; i++)
            for (size_t j = 0; j < c->count && !m->in[c->unit[i]]; j++)
                if (m->in[c->unit[j]] && m->part[c->unit[i]] == m->part[c->unit[j]])
                    grown = m->in[c->unit[i]] = true;
    }
    size_t count = 0;
    for (size_t i = 0; i < c->count; i++)
        if (m->in[c->unit[i]])
            m->list[count++] = c->unit[i];
    return tg_units_spread(c->units, m->list, count);
}

/* Makes the set tried last one part and gives its lowest unit. */
static size_t join(const merger *m)
{
    const component *c = m->component;
    for (size_t i = 0; i < c->count; i++)
        if (m->in[c->unit[i]])
            m->part[c->unit[i]] = m->list[0];
    return m->list[0];
}

static bool figures_below(const tg_units *units, size_t u, size_t v)
{
    const double *a = units->figure + u * units->figures, *b = units->figure + v * units->figures;
    size_t f = 0;
    while (f + 1 < units->figures && a[f] >= b[f] && a[f] <= b[f])
        f++;
    return a[f] < b[f];
}

/* From the smallest figures to the largest, puts each unit into the first part that takes it: fewest where one figure
 * alone decides, and quick. order: scratch, units->count. */
static void fit_units(const merger *m, size_t *order)
{
    const component *c = m->component;
    for (size_t i = 0; i < c->count; i++) {
        size_t at = i;
        for (; at > 0 && figures_below(c->units, c->unit[i], order[at - 1]); at--)
            order[at] = order[at - 1];
        order[at] = c->unit[i];
    }
    size_t heads = 0; /* order[0] … order[heads - 1]: one unit of each part made so far */
    for (size_t i = 0; i < c->count; i++) {
        size_t u = order[i], h = 0;
        while (h < heads && m->part[order[h]] != m->part[u] && try_union(m, m->part[order[h]], m->part[u]) < 0)
            h++;
        if (h == heads)
            order[heads++] = u;
        else if (m->part[order[h]] != m->part[u])
            join(m);
    }
}

/* Merges, again and again, the two parts whose union spreads least; each part stays an island all the time. */
static void merge_parts(const merger *m)
{
    const component *c = m->component;
    size_t n = c->units->count;
    for (size_t i = 0; i < c->count; i++)
        for (size_t j = i + 1; j < c->count; j++) {
            size_t u = c->unit[i], v = c->unit[j];
            if (m->part[u] == u && m->part[v] == v)
                m->cost[u * n + v] = try_union(m, u, v);
        }
    for (;;) {
        size_t a = n, b = n;
        for (size_t i = 0; i < c->count; i++)
            for (size_t j = i + 1; j < c->count; j++) {
                size_t u = c->unit[i], v = c->unit[j];
                if (m->part[u] == u && m->part[v] == v && m->cost[u * n + v] >= 0 &&
                    (a == n || m->cost[u * n + v] < m->cost[a * n + b])) {
                    a = u;
                    b = v;
                }
            }
        if (a == n)
            return;
        m->cost[a * n + b] = try_union(m, a, b); /* other merges may have changed it */
        if (m->cost[a * n + b] < 0)
            continue;
        a = join(m);
        for (size_t i = 0; i < c->count; i++) {
            size_t v = c->unit[i];
            if (m->part[v] == v && v != a)
                m->cost[(v < a ? v : a) * n + (v < a ? a : v)] = try_union(m, a, v);
        }
    }
}

static bool partition_roughly(const component *part, size_t *island_of, size_t *islands)
{
    size_t n = part->units->count;
    merger m = {part, malloc(n * sizeof *m.part), malloc(n * sizeof *m.in), malloc(n * sizeof *m.list),
                malloc(n * n * sizeof *m.cost)};
    size_t *order = malloc(n * sizeof *order);
    bool ok = m.part && m.in && m.list && m.cost && order;
    if (ok) {
        for (size_t u = 0; u < n; u++)
            m.part[u] = u;
        fit_units(&m, order);
        merge_parts(&m);
        for (size_t i = 0; i < part->count; i++) {
            size_t u = part->unit[i];
            island_of[u] = m.part[u] == u ? (*islands)++ : island_of[m.part[u]]; /* the lowest comes first */
        }
    }
    free(m.part);
    free(m.in);
    free(m.list);
    free(m.cost);
    free(order);
    return ok;
}

/* share[u * count + v]: some island may hold both. */
static void find_shares(const tg_units *units, bool *in, bool *share)
{
    size_t n = units->count;
    tg_obstacle why;
    for (size_t u = 0; u < n; u++)
        for (size_t v = u + 1; v < n; v++) {
            memset(in, 0, n * sizeof *in);
            in[u] = in[v] = true;
            share[u * n + v] = share[v * n + u] = tg_units_close(units, in, &why);
        }
}

/* Collects the units that chains of shares join to start. */
static size_t collect(const tg_units *units, const bool *share, size_t start, bool *seen, size_t *list)
{
    size_t n = units->count, count = 0;
    bool *in = seen + n;
    memset(in, 0, n * sizeof *in);
    list[count++] = start;
    in[start] = true;
    for (size_t i = 0; i < count; i++)
        for (size_t v = 0; v < n; v++)
            if (share[list[i] * n + v] && !in[v]) {
                in[v] = true;
                list[count++] = v;
            }
    count = 0;
    for (size_t v = 0; v < n; v++)
        if (in[v]) {
            seen[v] = true;
            list[count++] = v;
        }
    return count;
}

tg_status tg_units_partition(const tg_units *units, size_t *island_of, size_t *islands, bool *proved, tg_error *err)
{
    size_t n = units->count;
    bool *share = calloc(n * n, sizeof *share), *seen = calloc(2 * n, sizeof *seen);
    size_t *list = calloc(n, sizeof *list);
    bool ok = share && seen && list;
    *islands = 0;
    *proved = true;
    if (ok)
        find_shares(units, seen + n, share);
    for (size_t u = 0; ok && u < n; u++) {
        if (seen[u] || units->blocked[u])
            continue;
        component part = {units, list, collect(units, share, u, seen, list), share};
        bool exact = part.count <= EXACT;
        ok = exact ? partition_exactly(&part, island_of, islands) : partition_roughly(&part, island_of, islands);
        *proved = *proved && exact;
    }
    free(share);
    free(seen);
    free(list);
    return ok ? TG_OK : tg_fail(err, TG_EMEMORY, "out of memory");
}
