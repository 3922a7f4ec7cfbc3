#include "pipeline/split_terms.h"

#include <float.h>
#include <math.h>
#include <string.h>

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

int tg_terms_least_recomputed(const tg_terms *t, int i, int j, int inflight, double room)
{
    int front = t->recomputable[i], count = t->recomputable[j] - front;
    if (count == 0)
        return -1;
    double all = tg_terms_kept_bytes(t, i, j, 0), least = tg_terms_kept_bytes(t, i, j, count);
    /* kept falls and the peak rises with r: with the peak of a smaller r, the least r that fits is a lower bound, whose
     * own peak gives the next one, until both agree. */
    int r = 1;
    for (double peak = tg_terms_largest(t, t->peak_bytes, front, front + 1);;) {
        double limit = (room - peak) / inflight;
        if (least > limit)
            return -1;
        int from = r;
        /* A first guess as if all atoms were alike; the walk from it makes it right. */
        double guess = all > least ? ceil(count * (all - limit) / (all - least)) : 1;
        r = guess <= from ? from : guess >= count ? count : (int)guess;
        while (tg_terms_kept_bytes(t, i, j, r) > limit)
            r++;
        while (r > from && tg_terms_kept_bytes(t, i, j, r - 1) <= limit)
            r--;
        double own = tg_terms_largest(t, t->peak_bytes, front, front + r);
        if (own <= peak)
            return r;
        peak = own;
    }
}

tg_status tg_split_check_run(const tg_terms *t, int first, int last, tg_error *err)
{
    if (first < 0 || last > t->atoms || first >= last)
        return tg_fail(err, TG_EINPUT, "atoms [%d, %d): not a run of the %d atoms", first, last, t->atoms);
    return TG_OK;
}

bool tg_terms_stage(const tg_terms *terms, int first, int last, int inflight, bool allow_recompute, tg_split_stage *out)
{
    const tg_terms *t = terms;
    int held = inflight < t->microbatches ? inflight : t->microbatches;
    int r = tg_terms_recomputed(t, first, last, held, allow_recompute), front = t->recomputable[first];
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
    const tg_stage_memory memory = {.static_bytes = tg_terms_fixed_bytes(t, first, last),
                                    .transient_bytes = r ? tg_terms_largest(t, t->peak_bytes, front, front + r) : 0,
                                    .inflight_bytes = tg_terms_kept_bytes(t, first, last, r),
                                    .capacity_bytes = t->capacity_bytes};
    out->max_successors = tg_memory_bears(&memory, t->microbatches);
    return true;
}

tg_status tg_terms_price(const tg_terms *t, int first, int last, int behind, bool allow_recompute, tg_split_price *out,
                         tg_error *err)
{
    tg_status status = tg_split_check_run(t, first, last, err);
    if (status != TG_OK)
        return status;
    int inflight = behind < t->microbatches ? behind + 1 : t->microbatches;
    int front = t->recomputable[first], count = t->recomputable[last] - front;
    int r = tg_terms_recomputed(t, first, last, inflight, allow_recompute);
    double fixed = tg_terms_fixed_bytes(t, first, last);
    *out = (tg_split_price){
        .fits = r >= 0, .recomputed = r, .bytes = fixed + inflight * tg_terms_kept_bytes(t, first, last, 0)};
    if (r < 0)
        out->recomputed = allow_recompute ? count : 0;
    if (out->recomputed > 0) {
        double bytes = fixed + tg_terms_largest(t, t->peak_bytes, front, front + out->recomputed) +
                       inflight * tg_terms_kept_bytes(t, first, last, out->recomputed);
        if (r < 0 && bytes > out->bytes)
            out->recomputed = 0;
        else
            out->bytes = bytes;
    }
    out->recompute_s = t->recompute_s[front + out->recomputed] - t->recompute_s[front];
    out->time_s = t->time_s[last] - t->time_s[first] + t->stage_s + out->recompute_s;
    return TG_OK;
}
