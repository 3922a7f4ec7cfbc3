#include "pipeline/split.h"

#include <float.h>
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

struct tg_terms {
    int atoms, microbatches, levels;
    double stage_s, stage_static_bytes, capacity_bytes;
    double whole_static_bytes, whole_step_s, whole_reduce_s;
    double stage_step_s, stage_reduce_s, reduce_share;
    /* Sums over the atoms before the index (atoms + 1 each). */
    double *time_s, *static_bytes, *inflight_bytes;
    double *least_inflight_bytes; /* everything recomputable recomputed */
    /* Recomputable atoms: how many before the index; the index behind each; the sum over those before it. */
    int *recomputable, *behind;
    double *recompute_s;
    double *step_s, *reduce_s;
    /* Level l holds the largest of 2^l atoms from the index on (levels * atoms). */
    double *transient_bytes, *peak_bytes;
};

static int levels_of(int atoms)
{
    int levels = 1;
    while (1 << levels <= atoms)
        levels++;
    return levels;
}

size_t tg_terms_bytes(int atoms)
{
    size_t n = (size_t)atoms, doubles = 7 * (n + 1) + 2 * n * (size_t)levels_of(atoms);
    return sizeof(tg_terms) + doubles * sizeof(double) + 2 * (n + 1) * sizeof(int);
}

int tg_terms_atoms(const tg_terms *terms)
{
    return terms->atoms;
}

static tg_status check_list(const double *list, int count, const char *name, tg_error *err)
{
    for (int i = 0; i < count; i++)
        if (!isfinite(list[i]) || list[i] < 0)
            return tg_fail(err, TG_EINPUT, "%s: must be finite and at least 0, not %g", name, list[i]);
    return TG_OK;
}

static tg_status check_terms(const tg_split_terms *from, tg_error *err)
{
    if (from->atoms < 1 || from->atoms > TG_SPLIT_ATOMS)
        return tg_fail(err, TG_EINPUT, "time_s: must hold 1 to %d atoms, not %d", TG_SPLIT_ATOMS, from->atoms);
    if (from->microbatches < 1)
        return tg_fail(err, TG_EINPUT, "microbatches: must be at least 1, not %d", from->microbatches);
    const struct {
        const char *name;
        const double *list;
        int count;
    } lists[] = {{"time_s", from->time_s, from->atoms},
                 {"static_bytes", from->static_bytes, from->atoms},
                 {"inflight_bytes", from->inflight_bytes, from->atoms},
                 {"transient_bytes", from->transient_bytes, from->atoms},
                 {"recompute_s", from->recompute_s, from->atoms},
                 {"recomputed_inflight_bytes", from->recomputed_inflight_bytes, from->atoms},
                 {"recompute_peak_bytes", from->recompute_peak_bytes, from->atoms},
                 {"stage_s", &from->stage_s, 1},
                 {"stage_static_bytes", &from->stage_static_bytes, 1},
                 {"capacity_bytes", &from->capacity_bytes, 1},
                 {"step_s", from->step_s, from->step_s ? from->atoms : 0},
                 {"reduce_s", from->reduce_s, from->reduce_s ? from->atoms : 0},
                 {"whole_static_bytes", &from->whole_static_bytes, 1},
                 {"whole_step_s", &from->whole_step_s, 1},
                 {"whole_reduce_s", &from->whole_reduce_s, 1},
                 {"stage_step_s", &from->stage_step_s, 1},
                 {"stage_reduce_s", &from->stage_reduce_s, 1},
                 {"reduce_share", &from->reduce_share, 1}};
    for (size_t l = 0; l < sizeof lists / sizeof *lists; l++) {
        tg_status status = check_list(lists[l].list, lists[l].count, lists[l].name, err);
        if (status != TG_OK)
            return status;
    }
    for (int i = 0; i < from->atoms; i++)
        if (from->recomputable[i] && from->recomputed_inflight_bytes[i] > from->inflight_bytes[i])
            return tg_fail(err, TG_EINPUT,
                           "recomputed_inflight_bytes: %g is more than the same atom's inflight_bytes %g",
                           from->recomputed_inflight_bytes[i], from->inflight_bytes[i]);
    return TG_OK;
}

static void build_maxima(double *table, int count, int levels, int stride)
{
    for (int l = 1; l < levels; l++)
        for (int i = 0; i + (1 << l) <= count; i++)
            table[l * stride + i] = fmax(table[(l - 1) * stride + i], table[(l - 1) * stride + i + (1 << (l - 1))]);
}

/* A power of two of which the model's times in all make fewer than 2^52. */
static double time_quantum(const tg_split_terms *from)
{
    double total_s = from->stage_s * from->atoms;
    for (int i = 0; i < from->atoms; i++)
        total_s += from->time_s[i] + (from->recomputable[i] ? from->recompute_s[i] : 0) +
                   (from->step_s ? from->step_s[i] : 0) + (from->reduce_s ? from->reduce_s[i] : 0);
    return total_s > DBL_MIN && total_s < DBL_MAX ? fmax(ldexp(1, ilogb(total_s) - 50), DBL_MIN) : 1;
}

tg_status tg_terms_init(tg_terms *terms, const tg_split_terms *from, tg_error *err)
{
    tg_status status = check_terms(from, err);
    if (status != TG_OK)
        return status;
    tg_terms *t = terms;
    int n = from->atoms;
    memset(t, 0, tg_terms_bytes(n));
    t->atoms = n;
    t->microbatches = from->microbatches;
    t->levels = levels_of(n);
    double quantum_s = time_quantum(from);
    t->stage_s = nearbyint(from->stage_s / quantum_s) * quantum_s;
    t->stage_static_bytes = ceil(from->stage_static_bytes);
    t->capacity_bytes = floor(from->capacity_bytes);
    t->whole_static_bytes = floor(from->whole_static_bytes);
    t->whole_step_s = from->whole_step_s;
    t->whole_reduce_s = from->whole_reduce_s;
    t->stage_step_s = from->stage_step_s;
    t->stage_reduce_s = from->stage_reduce_s;
    t->reduce_share = from->reduce_share;
    t->time_s = (double *)(t + 1);
    t->static_bytes = t->time_s + n + 1;
    t->inflight_bytes = t->static_bytes + n + 1;
    t->least_inflight_bytes = t->inflight_bytes + n + 1;
    t->recompute_s = t->least_inflight_bytes + n + 1;
    t->step_s = t->recompute_s + n + 1;
    t->reduce_s = t->step_s + n + 1;
    t->transient_bytes = t->reduce_s + n + 1;
    t->peak_bytes = t->transient_bytes + n * t->levels;
    t->recomputable = (int *)(t->peak_bytes + n * t->levels);
    t->behind = t->recomputable + n + 1;
    int m = 0;
    for (int i = 0; i < n; i++) {
        double inflight = ceil(from->inflight_bytes[i]), least = inflight;
        if (from->recomputable[i]) {
            least = ceil(from->recomputed_inflight_bytes[i]);
            t->recompute_s[m + 1] = t->recompute_s[m] + nearbyint(from->recompute_s[i] / quantum_s) * quantum_s;
            t->peak_bytes[m] = ceil(from->recompute_peak_bytes[i]);
            t->behind[m++] = i + 1;
        }
        t->recomputable[i + 1] = m;
        t->time_s[i + 1] = t->time_s[i] + nearbyint(from->time_s[i] / quantum_s) * quantum_s;
        t->static_bytes[i + 1] = t->static_bytes[i] + ceil(from->static_bytes[i]);
        t->inflight_bytes[i + 1] = t->inflight_bytes[i] + inflight;
        t->least_inflight_bytes[i + 1] = t->least_inflight_bytes[i] + least;
        t->transient_bytes[i] = ceil(from->transient_bytes[i]);
        t->step_s[i + 1] = t->step_s[i] + (from->step_s ? nearbyint(from->step_s[i] / quantum_s) * quantum_s : 0);
        t->reduce_s[i + 1] =
            t->reduce_s[i] + (from->reduce_s ? nearbyint(from->reduce_s[i] / quantum_s) * quantum_s : 0);
    }
    build_maxima(t->transient_bytes, n, t->levels, n);
    build_maxima(t->peak_bytes, m, t->levels, n);
    return TG_OK;
}

/* The largest of [i, j), not empty. */
static inline double largest(const tg_terms *t, const double *table, int i, int j)
{
    int level = 31 - __builtin_clz((unsigned)(j - i));
    const double *row = table + level * t->atoms;
    double a = row[i], b = row[j - (1 << level)];
    return a > b ? a : b;
}

/* Bytes of [i, j) that do not depend on what is recomputed, the microbatches in flight apart. */
static inline double fixed_bytes(const tg_terms *t, int i, int j)
{
    double whole = i == 0 && j == t->atoms ? t->whole_static_bytes : 0;
    return t->static_bytes[j] - t->static_bytes[i] - whole + t->stage_static_bytes +
           largest(t, t->transient_bytes, i, j);
}

/* Bytes of one microbatch in flight with the first r recomputable atoms of [i, j) recomputed. */
static inline double kept_bytes(const tg_terms *t, int i, int j, int r)
{
    int cut = r ? t->behind[t->recomputable[i] + r - 1] : i;
    return t->least_inflight_bytes[cut] - t->least_inflight_bytes[i] + t->inflight_bytes[j] - t->inflight_bytes[cut];
}

/* The least r that fits room bytes (transient peak included) beside the fixed ones, or -1. */
static int least_recomputed(const tg_terms *t, int i, int j, int inflight, double room)
{
    int front = t->recomputable[i], count = t->recomputable[j] - front;
    if (count == 0)
        return -1;
    double all = kept_bytes(t, i, j, 0), least = kept_bytes(t, i, j, count);
    /* kept falls and the peak rises with r: with the peak of a smaller r, the least r that fits is a lower bound, whose
     * own peak gives the next one, until both agree. */
    int r = 1;
    for (double peak = largest(t, t->peak_bytes, front, front + 1);;) {
        double limit = (room - peak) / inflight;
        if (least > limit)
            return -1;
        int from = r;
        /* A first guess as if all atoms were alike; the walk from it makes it right. */
        double guess = all > least ? ceil(count * (all - limit) / (all - least)) : 1;
        r = guess <= from ? from : guess >= count ? count : (int)guess;
        while (kept_bytes(t, i, j, r) > limit)
            r++;
        while (r > from && kept_bytes(t, i, j, r - 1) <= limit)
            r--;
        double own = largest(t, t->peak_bytes, front, front + r);
        if (own <= peak)
            return r;
        peak = own;
    }
}

typedef struct {
    const tg_terms *terms;
    const tg_split_query *query;
    double (*cost)(const tg_terms *, int i, int j, int inflight, bool allow_recompute);
} search;

static int recomputed_of(const tg_terms *t, int i, int j, int inflight, bool allow_recompute)
{
    double room = t->capacity_bytes - fixed_bytes(t, i, j);
    if (inflight * (t->inflight_bytes[j] - t->inflight_bytes[i]) <= room)
        return 0;
    return allow_recompute ? least_recomputed(t, i, j, inflight, room) : -1;
}

static double cost_time_s(const tg_terms *t, int i, int j, int inflight, bool allow_recompute)
{
    int r = recomputed_of(t, i, j, inflight, allow_recompute);
    if (r < 0)
        return INFINITY;
    int front = t->recomputable[i];
    return t->time_s[j] - t->time_s[i] + t->stage_s + (t->recompute_s[front + r] - t->recompute_s[front]);
}

static double cost_shortage_bytes(const tg_terms *t, int i, int j, int inflight, bool allow_recompute)
{
    int front = t->recomputable[i], count = allow_recompute ? t->recomputable[j] - front : 0;
    double least = inflight * kept_bytes(t, i, j, 0);
    for (int r = 0; r < count;) {
        /* As many more as share the next one's peak: of these the last keeps least. */
        double peak = largest(t, t->peak_bytes, front, front + r + 1);
        r = count;
        while (largest(t, t->peak_bytes, front, front + r) > peak)
            r--;
        least = fmin(least, peak + inflight * kept_bytes(t, i, j, r));
    }
    return fmax(0, fixed_bytes(t, i, j) + least - t->capacity_bytes);
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
    sum[offset[stages] + starts[stages]] = 0;
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

static tg_status check_query(const tg_terms *t, const tg_split_query *q, tg_error *err)
{
    if (q->first < 0 || q->last > t->atoms || q->first >= q->last)
        return tg_fail(err, TG_EINPUT, "atoms [%d, %d): not a run of the %d atoms", q->first, q->last, t->atoms);
    if (q->stages < 1)
        return tg_fail(err, TG_EINPUT, "stages: must be at least 1, not %d", q->stages);
    if (q->successors < 0 || q->successors > 1 << 30)
        return tg_fail(err, TG_EINPUT, "successors: must be 0 to 2^30, not %d", q->successors);
    return TG_OK;
}

tg_status tg_split_run(const tg_terms *terms, const tg_split_query *query, tg_split *out, int *last, int *recomputed,
                       tg_error *err)
{
    tg_status status = check_query(terms, query, err);
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
        recomputes = recomputed_of(t, starts[k], starts[k + 1], inflight_of(&s, k), query->allow_recompute) > 0;
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
            recomputed[k] = recomputed_of(t, starts[k], starts[k + 1], inflight_of(&s, k), query->allow_recompute);
    }
    return TG_OK;
}

bool tg_terms_stage(const tg_terms *terms, int first, int last, int inflight, bool allow_recompute, tg_split_stage *out)
{
    const tg_terms *t = terms;
    int held = inflight < t->microbatches ? inflight : t->microbatches;
    int r = recomputed_of(t, first, last, held, allow_recompute), front = t->recomputable[first];
    if (r < 0)
        return false;
    bool whole = first == 0 && last == t->atoms;
    double reduce_s = t->reduce_s[last] - t->reduce_s[first] - (whole ? t->whole_reduce_s : 0);
    if (reduce_s > 0)
        reduce_s += t->stage_reduce_s;
    out->recomputed = r;
    out->time_s = t->time_s[last] - t->time_s[first] + t->stage_s + (t->recompute_s[front + r] - t->recompute_s[front]);
    out->sync_s = t->step_s[last] - t->step_s[first] - (whole ? t->whole_step_s : 0) + t->stage_step_s +
                  fmax(t->reduce_share * reduce_s, reduce_s - out->time_s);
    const tg_stage_memory memory = {.static_bytes = fixed_bytes(t, first, last),
                                    .transient_bytes = r ? largest(t, t->peak_bytes, front, front + r) : 0,
                                    .inflight_bytes = kept_bytes(t, first, last, r),
                                    .capacity_bytes = t->capacity_bytes};
    out->max_successors = tg_memory_bears(&memory, t->microbatches);
    return true;
}

tg_status tg_split_shortage(const tg_terms *terms, const tg_split_query *query, double *short_bytes, int *stage,
                            tg_error *err)
{
    tg_status status = check_query(terms, query, err);
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

tg_status tg_terms_price(const tg_terms *t, int first, int last, int behind, bool allow_recompute, tg_split_price *out,
                         tg_error *err)
{
    tg_split_query query = {.first = first, .last = last, .stages = 1, .successors = behind};
    tg_status status = check_query(t, &query, err);
    if (status != TG_OK)
        return status;
    int inflight = behind < t->microbatches ? behind + 1 : t->microbatches;
    int front = t->recomputable[first], count = t->recomputable[last] - front;
    int r = recomputed_of(t, first, last, inflight, allow_recompute);
    double fixed = fixed_bytes(t, first, last);
    *out = (tg_split_price){.fits = r >= 0, .recomputed = r, .bytes = fixed + inflight * kept_bytes(t, first, last, 0)};
    if (r < 0)
        out->recomputed = allow_recompute ? count : 0;
    if (out->recomputed > 0) {
        double bytes = fixed + largest(t, t->peak_bytes, front, front + out->recomputed) +
                       inflight * kept_bytes(t, first, last, out->recomputed);
        if (r < 0 && bytes > out->bytes)
            out->recomputed = 0;
        else
            out->bytes = bytes;
    }
    out->recompute_s = t->recompute_s[front + out->recomputed] - t->recompute_s[front];
    out->time_s = t->time_s[last] - t->time_s[first] + t->stage_s + out->recompute_s;
    return TG_OK;
}
