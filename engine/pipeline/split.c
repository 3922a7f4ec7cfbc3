#include "pipeline/split_terms.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Why greedy is exact. Let c_k(i, j) be the time of stage k over atoms [i, j), infinite if it does not fit. It never
 * falls when the run grows at either end:
 * (A stage of all atoms has whole_static_bytes less than that; but where it stands no other does, so nothing grows.)
 * - at the rear: for each r the longer run needs no less memory (sums and maxima of what is not negative), and
 * recomputing its new atom as well needs no less than the whole shorter run recomputed; so its least r is no smaller,
 * nor its time.
 * - at the front: let the longer run fit with its first r recomputed. What of these lies in the shorter run is a prefix
 * of it too, so the shorter run fits with r' <= r, recomputing a subset of the same atoms. Hence, for a limit T, stages
 * filled from the rear, each as long as T lets it (and leaving one atom for each stage in front), start no later than
 * in any split with all c_k <= T: by induction, the stage behind starts no later, and the same start with an earlier
 * end is a shorter run. If the front stage then exceeds T, no split is within T. When a fill fails, the next T that can
 * change its course is the least cost of any of its stages grown by one atom: the optimum is at least that. When it
 * succeeds, the optimum is at most the split's own bottleneck. Both are values of c, so the two meet in the exact
 * optimum. The same holds for any cost that grows with the run, so also for the shortage; and for the least of
 * several such costs, so also where a stage has ways to choose from.
 * The one atom that a stage must have may exceed T. Where stages are alike, it then does so in any split: it is in this
 * stage or in one in front, which bears more. Where they are not, others may spare the stage this atom. The starts
 * are bounds all the same, from the front as from the rear, and a dynamic program between these decides. */

typedef struct {
    const tg_split_query *query;
    bool out_of_memory;
    double (*cost)(const tg_terms *, int i, int j, int inflight, bool allow_recompute);
} search;

static double cost_time_s(const tg_terms *t, int i, int j, int inflight, bool allow_recompute)
{
    int r = tg_terms_recomputed(t, i, j, inflight, allow_recompute);
    if (r < 0)
        return INFINITY;
    int front = t->recomputable[i];
    return t->time_s[j] - t->time_s[i] + t->stage_s + (t->recompute_s[front + r] - t->recompute_s[front]);
}

static double cost_shortage_bytes(const tg_terms *t, int i, int j, int inflight, bool allow_recompute)
{
    int front = t->recomputable[i], count = allow_recompute ? t->recomputable[j] - front : 0;
    double least = inflight * tg_terms_kept_bytes(t, i, j, 0);
    for (int r = 0; r < count;) {
        /* As many more as share the next one's peak: of these the last keeps least. */
        double peak = tg_terms_largest(t, t->peak_bytes, front, front + r + 1);
        r = count;
        while (tg_terms_largest(t, t->peak_bytes, front, front + r) > peak)
            r--;
        least = fmin(least, peak + inflight * tg_terms_kept_bytes(t, i, j, r));
    }
    return fmax(0, tg_terms_fixed_bytes(t, i, j) + least - t->capacity_bytes);
}

static inline const tg_split_ways *ways_of(const tg_split_query *q, int stage)
{
    return &q->ways[q->alike ? 0 : stage];
}

static inline int inflight_of(const tg_split_query *q, int stage)
{
    int needed = q->successors + q->stages - stage, microbatches = q->ways->list->terms->microbatches;
    return needed < microbatches ? needed : microbatches;
}

static inline double cost_of(const search *s, int stage, int i, int j)
{
    const tg_split_ways *ways = ways_of(s->query, stage);
    int inflight = inflight_of(s->query, stage);
    double least = s->cost(ways->list[0].terms, i, j, inflight, ways->list[0].may_recompute);
    for (int w = 1; w < ways->count; w++)
        least = fmin(least, s->cost(ways->list[w].terms, i, j, inflight, ways->list[w].may_recompute));
    return least;
}

/* Fills stages from the rear within limit: starts (stages + 1 numbers) are the earliest of any split. True: they are
 * one, or with *doubt may be none; *bottleneck is its largest cost. False: *next is the least limit that can change
 * that. */
static bool fill_from_rear(const search *s, double limit, int *starts, double *bottleneck, double *next, bool *doubt)
{
    int first = s->query->first, stages = s->query->stages;
    *bottleneck = 0;
    *next = INFINITY;
    *doubt = false;
    starts[stages] = s->query->last;
    starts[0] = first;
    for (int k = stages - 1; k >= 0; k--) {
        int end = starts[k + 1], low = first + k, high = k ? end - 1 : first;
        double best = cost_of(s, k, high, end), beyond = INFINITY;
        if (!(best <= limit)) {
            *next = fmin(*next, best);
            if (k == 0 || s->query->alike)
                return false;
            *doubt = true;
            starts[k] = high;
            continue;
        }
        int stop = low - 1; /* the latest start known to exceed the limit, if it is a start at all */
        while (high - stop > 1) {
            int middle = stop + (high - stop) / 2;
            double cost = cost_of(s, k, middle, end);
            if (cost <= limit) {
                high = middle;
                best = cost;
            } else {
                stop = middle;
                beyond = cost;
            }
        }
        starts[k] = high;
        *bottleneck = fmax(*bottleneck, best);
        *next = fmin(*next, beyond);
    }
    return true;
}

/* The latest starts of any split within limit: stages filled from the front (the mirror of the argument above). *next
 * falls to the least limit that lets one start later. */
static void fill_from_front(const search *s, double limit, int *starts, double *next)
{
    int stages = s->query->stages, last = s->query->last;
    starts[0] = s->query->first;
    starts[stages] = last;
    for (int k = 0; k + 1 < stages; k++) {
        int low = starts[k] + 1, stop = last - (stages - 1 - k) + 1;
        double beyond = INFINITY;
        while (stop - low > 1) {
            int middle = low + (stop - low) / 2;
            double cost = cost_of(s, k, starts[k], middle);
            if (cost <= limit) {
                low = middle;
            } else {
                stop = middle;
                beyond = cost;
            }
        }
        starts[k + 1] = low;
        *next = fmin(*next, beyond);
    }
}

enum { ROOM = 4096 }; /* stack for the sums of all splits that 127 atoms can have; more come from malloc */

/* Among the splits within limit, the one of least sum; starts holds the earliest starts on entry and that split on
 * exit. False if there is none; *next falls to the least limit that can change that. Stage k starts somewhere in
 * [earliest, latest]; a dynamic program over these windows. */
static bool least_sum(search *s, double limit, int *starts, double *next)
{
    int stages = s->query->stages, late[TG_SPLIT_ATOMS + 1], offset[TG_SPLIT_ATOMS + 1];
    fill_from_front(s, limit, late, next);
    int total = 0;
    for (int k = 0; k <= stages; k++) {
        if (late[k] < starts[k])
            return false;
        offset[k] = total - starts[k];
        total += late[k] - starts[k] + 1;
    }
    double room[ROOM], *sum = total <= ROOM ? room : malloc((size_t)total * sizeof *sum);
    if (!sum) {
        s->out_of_memory = true;
        return false;
    }
    sum[total - 1] = 0; /* behind the last stage there is one place only */
    for (int k = stages - 1; k >= 0; k--)
        for (int i = starts[k]; i <= late[k]; i++) {
            double best = INFINITY;
            for (int j = i < starts[k + 1] ? starts[k + 1] : i + 1; j <= late[k + 1]; j++) {
                double cost = cost_of(s, k, i, j);
                if (!(cost <= limit)) {
                    *next = fmin(*next, cost);
                    break; /* longer runs cost no less */
                }
                best = fmin(best, cost + sum[offset[k + 1] + j]);
            }
            sum[offset[k] + i] = best;
        }
    bool found = !isinf(sum[0]);
    for (int k = 0; found && k + 1 < stages; k++) {
        int j = starts[k] < starts[k + 1] ? starts[k + 1] : starts[k] + 1;
        while (cost_of(s, k, starts[k], j) + sum[offset[k + 1] + j] > sum[offset[k] + starts[k]])
            j++;
        starts[k + 1] = j;
    }
    if (sum != room)
        free(sum);
    return found;
}

static double bottleneck_of(const search *s, const int *starts)
{
    double bottleneck = 0;
    for (int k = 0; k < s->query->stages; k++)
        bottleneck = fmax(bottleneck, cost_of(s, k, starts[k], starts[k + 1]));
    return bottleneck;
}

/* The least bottleneck, or infinity; earliest then holds the bounds of the splits that have it. low is a lower bound.
 */
static double least_bottleneck(search *s, double low, int *earliest)
{
    int starts[TG_SPLIT_ATOMS + 1], trial[TG_SPLIT_ATOMS + 1];
    size_t size = sizeof *starts * (size_t)(s->query->stages + 1);
    double found = INFINITY;
    for (int probe = 0; low < found && !s->out_of_memory; probe++) {
        /* The first limits are candidates just above a good bound, one of which most often is the optimum; after that,
         * halving keeps the count of probes small where candidates are many. */
        double limit = probe < 4 ? low : isinf(found) ? low * (1 + ldexp(0.01, probe - 4)) : low + (found - low) / 2;
        if (limit >= found)
            limit = low; /* nothing lies between them: halving rounds up to found and would never end */
        double bottleneck, next;
        bool doubt, filled = fill_from_rear(s, limit, starts, &bottleneck, &next, &doubt);
        if (filled && doubt) {
            memcpy(trial, starts, size);
            filled = least_sum(s, limit, trial, &next);
            bottleneck = filled ? bottleneck_of(s, trial) : INFINITY;
        }
        if (filled) {
            found = bottleneck;
            memcpy(earliest, starts, size);
            if (limit <= low)
                break;
        } else {
            if (isinf(next))
                break;
            low = next;
        }
    }
    return found;
}

static tg_status check(const tg_split_query *q, tg_error *err)
{
    if (q->stages < 1)
        return tg_fail(err, TG_EINPUT, "stages: must be at least 1, not %d", q->stages);
    if (q->successors < 0 || q->successors > 1 << 30)
        return tg_fail(err, TG_EINPUT, "successors: must be 0 to 2^30, not %d", q->successors);
    const tg_terms *one = q->ways->list->terms;
    for (int k = 0; k < (q->alike ? 1 : q->stages); k++)
        for (int w = 0; w < q->ways[k].count; w++) {
            const tg_terms *t = q->ways[k].list[w].terms;
            if (t->atoms != one->atoms || t->microbatches != one->microbatches)
                return tg_fail(err, TG_EINPUT,
                               "stage %d: terms of %d atoms and %d microbatches, expected %d and %d as before", k + 1,
                               t->atoms, t->microbatches, one->atoms, one->microbatches);
        }
    return tg_split_check_run(one, q->first, q->last, err);
}

/* No split has a lesser bottleneck: with y_k > 0 of sum 1, the largest stage takes at least the sum of y_k times stage
 * k's time, so at least the sum over the atoms of the least y_k times an atom's time. y_k goes by stage k's speed. */
static double least_mean_s(const tg_split_query *q)
{
    const tg_terms *t = q->ways->list->terms;
    if (q->alike && q->ways->count == 1)
        return (t->time_s[q->last] - t->time_s[q->first]) / q->stages + t->stage_s;
    double weight[TG_SPLIT_ATOMS], weights = 0, mean_s = 0;
    for (int k = 0; k < q->stages; k++) {
        const tg_split_ways *ways = ways_of(q, k);
        double whole_s = INFINITY, stage_s = INFINITY;
        for (int w = 0; w < ways->count; w++) {
            t = ways->list[w].terms;
            whole_s = fmin(whole_s, t->time_s[q->last] - t->time_s[q->first]);
            stage_s = fmin(stage_s, t->stage_s);
        }
        weight[k] = whole_s > 0 ? 1 / whole_s : 1;
        weights += weight[k];
        mean_s += weight[k] * stage_s;
    }
    for (int i = q->first; i < q->last; i++) {
        double least_s = INFINITY;
        for (int k = 0; k < q->stages; k++) {
            const tg_split_ways *ways = ways_of(q, k);
            if (k > 0 && ways->list == ways_of(q, k - 1)->list)
                continue;
            for (int w = 0; w < ways->count; w++) {
                t = ways->list[w].terms;
                least_s = fmin(least_s, weight[k] * (t->time_s[i + 1] - t->time_s[i]));
            }
        }
        mean_s += least_s;
    }
    return mean_s / weights;
}

static tg_split_part part_of(const search *s, int k, int i, int j)
{
    const tg_split_ways *ways = ways_of(s->query, k);
    int inflight = inflight_of(s->query, k);
    tg_split_part part = {.last = j};
    double least_s = INFINITY;
    for (int w = 0; w < ways->count; w++) {
        double time_s = s->cost(ways->list[w].terms, i, j, inflight, ways->list[w].may_recompute);
        if (time_s < least_s) {
            least_s = time_s;
            part.way = w;
        }
    }
    const tg_split_way *way = &ways->list[part.way];
    part.recomputed = tg_terms_recomputed(way->terms, i, j, inflight, way->may_recompute);
    return part;
}

tg_status tg_split_run(const tg_split_query *query, tg_split *out, tg_split_part *parts, tg_error *err)
{
    tg_status status = check(query, err);
    if (status != TG_OK)
        return status;
    search s = {.query = query, .cost = cost_time_s};
    int starts[TG_SPLIT_ATOMS + 1], stages = query->stages;
    *out = (tg_split){false, INFINITY, INFINITY};
    if (stages > query->last - query->first)
        return TG_OK;
    /* Rounded down a little more than its own rounding may have lifted it. */
    double bottleneck_s = least_bottleneck(&s, least_mean_s(query) * (1 - 1e-12), starts);
    if (s.out_of_memory)
        return tg_fail(err, TG_EMEMORY, "out of memory");
    if (isinf(bottleneck_s))
        return TG_OK;
    bool differ = !query->alike || query->ways->count > 1;
    for (int k = 0; k < stages && !differ; k++)
        differ = part_of(&s, k, starts[k], starts[k + 1]).recomputed > 0;
    /* Where stages are alike and nothing is recomputed, all splits have the same sum. */
    double next = INFINITY;
    if (differ && !least_sum(&s, bottleneck_s, starts, &next))
        return tg_fail(err, TG_EMEMORY, "out of memory");
    *out = (tg_split){true, 0, 0};
    for (int k = 0; k < stages; k++) {
        double time_s = cost_of(&s, k, starts[k], starts[k + 1]);
        out->bottleneck_s = fmax(out->bottleneck_s, time_s);
        out->latency_s += time_s;
        if (parts)
            parts[k] = part_of(&s, k, starts[k], starts[k + 1]);
    }
    return TG_OK;
}

tg_status tg_split_shortage(const tg_split_query *query, double *short_bytes, int *stage, tg_error *err)
{
    tg_status status = check(query, err);
    if (status != TG_OK)
        return status;
    search s = {.query = query, .cost = cost_shortage_bytes};
    int starts[TG_SPLIT_ATOMS + 1];
    *short_bytes = INFINITY;
    *stage = 0;
    if (query->stages > query->last - query->first)
        return TG_OK;
    double mean_bytes = 0;
    if (query->alike && query->ways->count == 1) {
        /* The stages' mean is a lower bound, here of what they need with all recomputed and as few in flight as the
         * last. */
        const tg_terms *t = query->ways->list->terms;
        mean_bytes = t->static_bytes[query->last] - t->static_bytes[query->first] +
                     inflight_of(query, query->stages - 1) *
                         (t->least_inflight_bytes[query->last] - t->least_inflight_bytes[query->first]);
        if (query->stages == 1)
            mean_bytes -= t->whole_static_bytes;
        mean_bytes = mean_bytes / query->stages + t->stage_static_bytes - t->capacity_bytes;
    }
    *short_bytes = least_bottleneck(&s, fmax(0, floor(mean_bytes)), starts);
    double next = INFINITY;
    if (s.out_of_memory || (!query->alike && !least_sum(&s, *short_bytes, starts, &next)))
        return tg_fail(err, TG_EMEMORY, "out of memory");
    for (int k = 0; k < query->stages; k++)
        if (cost_of(&s, k, starts[k], starts[k + 1]) >= *short_bytes) {
            *stage = k;
            break;
        }
    return TG_OK;
}
