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
 * optimum. The same holds for any cost that grows with the run, so also for the shortage. */

typedef struct {
    const tg_terms *terms;
    const tg_split_query *query;
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

static inline int inflight_of(const search *s, int stage)
{
    int needed = s->query->successors + s->query->stages - stage;
    return needed < s->terms->microbatches ? needed : s->terms->microbatches;
}

static inline double cost_of(const search *s, int stage, int i, int j)
{
    return s->cost(s->terms, i, j, inflight_of(s, stage), s->query->allow_recompute);
}

/* Fills stages from the rear within limit. True: starts holds the split (stages + 1 numbers), *bottleneck its largest
 * cost. False: *next is the least limit that can change that. */
static bool fill_from_rear(const search *s, double limit, int *starts, double *bottleneck, double *next)
{
    int first = s->query->first, stages = s->query->stages;
    *bottleneck = 0;
    *next = INFINITY;
    starts[stages] = s->query->last;
    starts[0] = first;
    for (int k = stages - 1; k >= 0; k--) {
        int end = starts[k + 1], low = first + k, high = k ? end - 1 : first;
        double best = cost_of(s, k, high, end), beyond = INFINITY;
        if (!(best <= limit)) {
            *next = fmin(*next, best);
            return false;
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

/* The least bottleneck, or infinity; starts then holds a split that has it. low is a lower bound. */
static double least_bottleneck(const search *s, double low, int *starts)
{
    int trial[TG_SPLIT_ATOMS + 1];
    double found = INFINITY;
    for (int probe = 0; low < found; probe++) {
        /* The first limits are candidates just above a good bound, one of which most often is the optimum; after that,
         * halving keeps the count of probes small where candidates are many. */
        double limit = probe < 4 ? low : isinf(found) ? low * (1 + ldexp(0.01, probe - 4)) : low + (found - low) / 2;
        if (limit >= found)
            limit = low; /* nothing lies between them: halving rounds up to found and would never end */
        double bottleneck, next;
        if (fill_from_rear(s, limit, trial, &bottleneck, &next)) {
            found = bottleneck;
            memcpy(starts, trial, sizeof *starts * (size_t)(s->query->stages + 1));
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

/* Latest starts within limit: stages filled from the front (the mirror of the argument above). */
static void fill_from_front(const search *s, double limit, int *starts)
{
    int stages = s->query->stages, last = s->query->last;
    starts[0] = s->query->first;
    starts[stages] = last;
    for (int k = 0; k + 1 < stages; k++) {
        int low = starts[k] + 1, stop = last - (stages - 1 - k) + 1;
        while (stop - low > 1) {
            int middle = low + (stop - low) / 2;
            if (cost_of(s, k, starts[k], middle) <= limit)
                low = middle;
            else
                stop = middle;
        }
        starts[k + 1] = low;
    }
}

enum { ROOM = 4096 }; /* stack for the sums of all splits that 127 atoms can have; more come from malloc */

/* Among the splits within limit, the one of least sum; starts holds the earliest starts on entry and that split on
 * exit. Stage k starts somewhere in [earliest, latest]; a dynamic program over these windows. */
static bool least_sum(const search *s, double limit, int *starts)
{
    int stages = s->query->stages, late[TG_SPLIT_ATOMS + 1], offset[TG_SPLIT_ATOMS + 1];
    fill_from_front(s, limit, late);
    int total = 0;
    for (int k = 0; k <= stages; k++) {
        offset[k] = total - starts[k];
        total += late[k] - starts[k] + 1;
    }
    double room[ROOM], *sum = total <= ROOM ? room : malloc((size_t)total * sizeof *sum);
    if (!sum)
        return false;
    sum[total - 1] = 0; /* behind the last stage there is one place only */
    for (int k = stages - 1; k >= 0; k--)
        for (int i = starts[k]; i <= late[k]; i++) {
            double best = INFINITY;
            for (int j = i < starts[k + 1] ? starts[k + 1] : i + 1; j <= late[k + 1]; j++) {
                double cost = cost_of(s, k, i, j);
                if (!(cost <= limit))
                    break; /* longer runs cost no less */
                best = fmin(best, cost + sum[offset[k + 1] + j]);
            }
            sum[offset[k] + i] = best;
        }
    for (int k = 0; k + 1 < stages; k++) {
        int j = starts[k] < starts[k + 1] ? starts[k + 1] : starts[k] + 1;
        while (cost_of(s, k, starts[k], j) + sum[offset[k + 1] + j] > sum[offset[k] + starts[k]])
            j++;
        starts[k + 1] = j;
    }
    if (sum != room)
        free(sum);
    return true;
}

tg_status tg_split_run(const tg_terms *terms, const tg_split_query *query, tg_split *out, int *last, int *recomputed,
                       tg_error *err)
{
    tg_status status = tg_split_check(terms, query, err);
    if (status != TG_OK)
        return status;
    const tg_terms *t = terms;
    search s = {terms, query, cost_time_s};
    int starts[TG_SPLIT_ATOMS + 1], stages = query->stages;
    *out = (tg_split){false, INFINITY, INFINITY};
    if (stages > query->last - query->first)
        return TG_OK;
    double mean_s = (t->time_s[query->last] - t->time_s[query->first]) / stages + t->stage_s;
    /* Rounded down a little more than its own rounding may have lifted it. */
    double bottleneck_s = least_bottleneck(&s, mean_s * (1 - 1e-12), starts);
    if (isinf(bottleneck_s))
        return TG_OK;
    bool recomputes = false;
    for (int k = 0; k < stages && !recomputes; k++)
        recomputes = tg_terms_recomputed(t, starts[k], starts[k + 1], inflight_of(&s, k), query->allow_recompute) > 0;
    /* Without recomputation all splits have the same sum. */
    if (recomputes && !least_sum(&s, bottleneck_s, starts))
        return tg_fail(err, TG_EMEMORY, "out of memory");
    *out = (tg_split){true, 0, 0};
    for (int k = 0; k < stages; k++) {
        double time_s = cost_of(&s, k, starts[k], starts[k + 1]);
        out->bottleneck_s = fmax(out->bottleneck_s, time_s);
        out->latency_s += time_s;
        if (last)
            last[k] = starts[k + 1];
        if (recomputed)
            recomputed[k] =
                tg_terms_recomputed(t, starts[k], starts[k + 1], inflight_of(&s, k), query->allow_recompute);
    }
    return TG_OK;
}

tg_status tg_split_shortage(const tg_terms *terms, const tg_split_query *query, double *short_bytes, int *stage,
                            tg_error *err)
{
    tg_status status = tg_split_check(terms, query, err);
    if (status != TG_OK)
        return status;
    search s = {terms, query, cost_shortage_bytes};
    int starts[TG_SPLIT_ATOMS + 1];
    *short_bytes = INFINITY;
    *stage = 0;
    if (query->stages > query->last - query->first)
        return TG_OK;
    /* The stages' mean is a lower bound, here of what they need with all recomputed and as few in flight as the last.
     */
    const tg_terms *t = terms;
    double mean_bytes = t->static_bytes[query->last] - t->static_bytes[query->first] +
                        inflight_of(&s, query->stages - 1) *
                            (t->least_inflight_bytes[query->last] - t->least_inflight_bytes[query->first]);
    if (query->stages == 1)
        mean_bytes -= t->whole_static_bytes;
    mean_bytes = mean_bytes / query->stages + t->stage_static_bytes - t->capacity_bytes;
    *short_bytes = least_bottleneck(&s, fmax(0, floor(mean_bytes)), starts);
    for (int k = 0; k < query->stages; k++)
        if (cost_of(&s, k, starts[k], starts[k + 1]) >= *short_bytes) {
            *stage = k;
            break;
        }
    return TG_OK;
}
