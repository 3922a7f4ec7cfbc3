/* Why two nodes are not in one island, and what pins break. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cluster/units.h"

static tg_contrast contrast(const tg_units *units, size_t u, size_t v, size_t figure)
{
    tg_contrast out = {
        .trait = figure == TG_FIGURE_GPUS      ? TG_GPUS
                 : figure == TG_FIGURE_COMPUTE ? TG_COMPUTE
                 : figure == TG_FIGURE_MEMORY  ? TG_MEMORY
                                               : TG_INTRA,
        .figures = {units->figure[u * units->figures + figure], units->figure[v * units->figures + figure]}};
    if (figure >= TG_FIGURE_INTRA) {
        size_t gpus = (size_t)units->figure[u * units->figures + TG_FIGURE_GPUS];
        out.size = units->figure_size[figure] < gpus ? units->figure_size[figure] : gpus;
    }
    return out;
}

static int constraint_of(size_t figure)
{
    return figure < TG_FIGURE_INTRA ? 1 : 2;
}

static void set_links(const tg_units *units, size_t from, size_t to, size_t faster, tg_apart *out)
{
    out->constraint = 3;
    out->from = units->order[from];
    out->to = units->order[to];
    out->faster = units->order[faster];
    out->link_bytes_per_s[0] = units->rate[from * units->count + to];
    out->link_bytes_per_s[1] = units->rate[from * units->count + faster];
}

/* The first node, by name, of the islands of first and second that can't join the two and those before it; else the
 * first one of another island that would have to join all of them; else node_count. */
static size_t find_third(const tg_units *units, const tg_islands *islands, const tg_apart *pair, bool *in)
{
    size_t n = units->count;
    tg_obstacle why;
    size_t a = islands->island_of[pair->first], b = islands->island_of[pair->second];
    for (size_t u = 0; u < n; u++)
        in[u] = units->order[u] == pair->first || units->order[u] == pair->second;
    for (size_t u = 0; u < n; u++) {
        size_t island = islands->island_of[units->order[u]];
        if (in[u] || (island != a && island != b))
            continue;
        in[u] = true;
        if (!tg_units_close(units, in, &why))
            return units->order[u];
    }
    for (size_t u = 0; u < n; u++)
        if (in[u] && islands->island_of[units->order[u]] != a && islands->island_of[units->order[u]] != b)
            return units->order[u];
    return n;
}

/* units: one a node; place: of each node among them. */
static void explain(const tg_units *units, const tg_islands *islands, bool *in, const size_t *place, tg_apart *pair)
{
    size_t n = units->count, u = place[pair->first], v = place[pair->second];
    size_t figure = tg_units_differ(units, u, v);
    pair->from = pair->to = pair->faster = pair->partner = pair->third = n;
    if (figure < units->figures) {
        pair->constraint = constraint_of(figure);
        pair->contrast = contrast(units, u, v, figure);
        return;
    }
    tg_obstacle why;
    memset(in, 0, n * sizeof *in);
    in[u] = in[v] = true;
    if (units->blocked[u] || units->blocked[v]) {
        pair->constraint = 0;
        pair->contrast.trait = TG_PINNED;
    } else if (tg_units_close(units, in, &why)) {
        pair->constraint = 0;
        pair->third = find_third(units, islands, pair, in);
    } else {
        set_links(units, why.from, why.inside, why.outside, pair);
        if (why.partner == n) {
            pair->contrast.trait = TG_PINNED;
        } else {
            pair->partner = units->order[why.partner];
            pair->contrast = contrast(units, why.outside, why.partner, why.figure);
        }
    }
}

tg_status tg_islands_why(const tg_cluster *cluster, const tg_islands_options *options, const tg_islands *islands,
                         tg_apart *pairs, size_t count, tg_error *err)
{
    const tg_tolerance any = {INFINITY, INFINITY, INFINITY};
    size_t n = cluster->node_count;
    tg_arena arena = {0};
    tg_units units;
    tg_status status = tg_units_build(&arena, cluster, options->merged ? &any : &options->tolerance, options->pins,
                                      options->pin_count, false, &units, err);
    if (status == TG_OK) {
        bool *in = tg_arena_alloc(&arena, n, sizeof *in);
        size_t *place = tg_arena_alloc(&arena, n, sizeof *place);
        if (in && place) {
            for (size_t u = 0; u < n; u++)
                place[units.order[u]] = u;
            for (size_t p = 0; p < count; p++)
                explain(&units, islands, in, place, &pairs[p]);
        } else {
            status = tg_fail(err, TG_EMEMORY, "out of memory");
        }
    }
    tg_arena_free(&arena);
    return status;
}

TG_VEC(apart_list, tg_apart);

/* The two members of list that differ most in each trait, if that is more than the tolerance. */
static bool check_figures(const tg_units *units, const size_t *list, size_t count, apart_list *found)
{
    tg_apart worst[TG_FIGURE_INTRA + 1];
    double ratio[TG_FIGURE_INTRA + 1] = {0};
    for (size_t f = 0; f < units->figures; f++) {
        size_t low = list[0], high = list[0], trait = f < TG_FIGURE_INTRA ? f : TG_FIGURE_INTRA;
        for (size_t i = 1; i < count; i++) {
            double x = units->figure[list[i] * units->figures + f];
            if (x < units->figure[low * units->figures + f])
                low = list[i];
            if (x > units->figure[high * units->figures + f])
                high = list[i];
        }
        double now = units->figure[high * units->figures + f] / units->figure[low * units->figures + f];
        if (now <= units->limit[f] || now <= ratio[trait])
            continue;
        ratio[trait] = now;
        worst[trait] = (tg_apart){.first = units->order[high],
                                  .second = units->order[low],
                                  .constraint = constraint_of(f),
                                  .contrast = contrast(units, high, low, f)};
    }
    for (size_t t = 0; t <= TG_FIGURE_INTRA; t++)
        if (ratio[t] > 0 && !apart_list_push(found, worst[t]))
            return false;
    return true;
}

/* The member, another one and the outsider that break constraint 3 most. */
static bool check_links(const tg_units *units, const bool *in, const size_t *list, size_t count, apart_list *found)
{
    size_t n = units->count;
    double worst = 1 + TG_RELATIVE_SLACK;
    tg_apart apart = {.constraint = 0};
    for (size_t i = 0; i < count; i++)
        for (size_t j = 0; j < count; j++)
            for (size_t x = 0; x < n && i != j; x++) {
                size_t u = list[i], v = list[j];
                double ratio = units->rate[u * n + x] / units->rate[u * n + v];
                if (in[x] || units->same[u * n + x] || ratio <= worst)
                    continue;
                worst = ratio;
                set_links(units, u, v, x, &apart);
                apart.first = apart.from;
                apart.second = apart.to;
            }
    return apart.constraint == 0 || apart_list_push(found, apart);
}

tg_status tg_islands_check_pins(tg_arena *arena, const tg_cluster *cluster, const tg_islands_options *options,
                                tg_islands *out, tg_error *err)
{
    size_t n = cluster->node_count;
    tg_units units;
    tg_status status = tg_units_build(arena, cluster, &options->tolerance, NULL, 0, false, &units, err);
    if (status != TG_OK)
        return status;
    bool *in = tg_arena_alloc(arena, n, sizeof *in);
    size_t *list = tg_arena_alloc(arena, n, sizeof *list);
    apart_list found = {0};
    bool ok = in && list;
    for (size_t p = 0; ok && p < options->pin_count; p++) {
        size_t count = 0;
        for (size_t u = 0; u < n; u++) {
            in[u] = false;
            for (size_t i = 0; i < options->pins[p].count; i++)
                in[u] = in[u] || options->pins[p].nodes[i] == units.order[u];
            if (in[u])
                list[count++] = u;
        }
        if (count > 1)
            ok = check_figures(&units, list, count, &found) && check_links(&units, in, list, count, &found);
    }
    if (ok && found.count > 0) {
        tg_apart *copy = tg_arena_alloc(arena, found.count, sizeof *copy);
        ok = copy != NULL;
        if (ok)
            memcpy(copy, found.at, found.count * sizeof *copy);
        out->pin_warnings = copy;
        out->pin_warning_count = found.count;
    }
    apart_list_free(&found);
    return ok ? TG_OK : tg_fail(err, TG_EMEMORY, "out of memory");
}
