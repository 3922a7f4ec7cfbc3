#include "pipeline/operators.h"

#include <math.h>
#include <string.h>

struct tg_operators {
    int count;
    /* Sums over the operators before the index (count + 1 each). */
    double *forward_s, *backward_s, *weight_bytes, *kept_sum_bytes;
    double *activation_bytes, *kept_bytes, *input_bytes, *forward_reserved_bytes, *backward_reserved_bytes;
    int *name;
    bool *recomputes, *layer;
};

size_t tg_operators_bytes(int count)
{
    size_t n = (size_t)count;
    return sizeof(tg_operators) + (9 * n + 4) * sizeof(double) + n * (sizeof(int) + 2 * sizeof(bool));
}

int tg_operators_count(const tg_operators *operators)
{
    return operators->count;
}

static tg_status check_input(const tg_operators_input *from, tg_error *err)
{
    const struct {
        const char *name;
        const double *list;
    } lists[] = {{"forward_s", from->forward_s},
                 {"backward_s", from->backward_s},
                 {"weight_bytes", from->weight_bytes},
                 {"input_bytes", from->input_bytes},
                 {"activation_bytes", from->activation_bytes},
                 {"kept_bytes", from->kept_bytes},
                 {"forward_reserved_bytes", from->forward_reserved_bytes},
                 {"backward_reserved_bytes", from->backward_reserved_bytes}};
    if (from->count < 1 || from->count > TG_OPERATORS)
        return tg_fail(err, TG_EINPUT, "operators: must be 1 to %d, not %d", TG_OPERATORS, from->count);
    for (size_t l = 0; l < sizeof lists / sizeof *lists; l++)
        for (int i = 0; i < from->count; i++)
            if (!isfinite(lists[l].list[i]) || lists[l].list[i] < 0)
                return tg_fail(err, TG_EINPUT, "%s: must be finite and at least 0, not %g", lists[l].name,
                               lists[l].list[i]);
    for (int i = 0; i < from->count; i++)
        if (from->name[i] < 0 || from->name[i] >= TG_OPERATOR_NAMES)
            return tg_fail(err, TG_EINPUT, "name: must be below %d, not %d", TG_OPERATOR_NAMES, from->name[i]);
    return TG_OK;
}

static double *take(double **at, const double *from, int count)
{
    double *list = *at;
    memcpy(list, from, (size_t)count * sizeof *list);
    *at += count;
    return list;
}

static double *take_sums(double **at, const double *from, int count)
{
    double *sums = *at;
    sums[0] = 0;
    for (int i = 0; i < count; i++)
        sums[i + 1] = sums[i] + from[i];
    *at += count + 1;
    return sums;
}

tg_status tg_operators_init(tg_operators *operators, const tg_operators_input *from, tg_error *err)
{
    tg_status status = check_input(from, err);
    if (status != TG_OK)
        return status;
    int n = from->count;
    double *at = (double *)(operators + 1);
    operators->count = n;
    operators->forward_s = take_sums(&at, from->forward_s, n);
    operators->backward_s = take_sums(&at, from->backward_s, n);
    operators->weight_bytes = take_sums(&at, from->weight_bytes, n);
    operators->kept_sum_bytes = take_sums(&at, from->kept_bytes, n);
    operators->activation_bytes = take(&at, from->activation_bytes, n);
    operators->kept_bytes = take(&at, from->kept_bytes, n);
    operators->input_bytes = take(&at, from->input_bytes, n);
    operators->forward_reserved_bytes = take(&at, from->forward_reserved_bytes, n);
    operators->backward_reserved_bytes = take(&at, from->backward_reserved_bytes, n);
    operators->name = (int *)at;
    operators->recomputes = (bool *)(operators->name + n);
    operators->layer = operators->recomputes + n;
    memcpy(operators->name, from->name, (size_t)n * sizeof *from->name);
    memcpy(operators->recomputes, from->recomputes, (size_t)n * sizeof *from->recomputes);
    memcpy(operators->layer, from->layer, (size_t)n * sizeof *from->layer);
    return TG_OK;
}

double tg_operators_stage_bytes(const tg_operators_stage *stage, int behind)
{
    return 8 * stage->weight_bytes + stage->live_bytes * (behind + 1) + stage->peak_bytes + stage->reserved_bytes;
}

/* All that does not depend on the flags, none set. */
static void price_plain(const tg_operators *o, int first, int last, tg_operators_stage *out)
{
    double forward_most = 0, backward_most = 0;
    for (int i = first; i < last - 1; i++) { /* Aceso leaves the last one out */
        forward_most = fmax(forward_most, o->forward_reserved_bytes[i]);
        backward_most = fmax(backward_most, o->backward_reserved_bytes[i]);
    }
    *out =
        (tg_operators_stage){.forward_s = o->forward_s[last] - o->forward_s[first],
                             .backward_s = o->backward_s[last] - o->backward_s[first],
                             .weight_bytes = o->weight_bytes[last] - o->weight_bytes[first],
                             .live_bytes = o->input_bytes[first] + o->kept_sum_bytes[last] - o->kept_sum_bytes[first]};
    out->reserved_bytes = fmax(forward_most + backward_most, out->weight_bytes);
}

/* Adds what the flags change to a plain price. */
static void add_flags(const tg_operators *o, int first, int last, const bool *flags, tg_operators_stage *out)
{
    double saved = 0, run = 0;
    for (int i = first; i < last; i++) {
        if (flags[i - first]) {
            out->recompute_s += o->forward_s[i + 1] - o->forward_s[i];
            out->flagged++;
        }
        bool pair = i + 1 < last && flags[i - first] && flags[i + 1 - first];
        if (pair) {
            run += o->kept_bytes[i];
            saved += o->layer[i + 1] ? 0 : o->kept_bytes[i];
            out->peak_bytes = fmax(out->peak_bytes, run);
        }
        if (!pair || o->layer[i + 1])
            run = 0;
    }
    out->live_bytes -= saved;
}

void tg_operators_price(const tg_operators *o, int first, int last, const bool *flags, tg_operators_stage *out)
{
    price_plain(o, first, last, out);
    add_flags(o, first, last, flags, out);
}

/* The first operator of the name not done with most activations in the stage, of equals the one in front; -1 if none is
 * left. */
static int next_name(const tg_operators *o, int first, int last, const bool *done)
{
    double sum[TG_OPERATOR_NAMES] = {0}, most = 0;
    int best = -1;
    for (int i = first; i < last; i++)
        sum[o->name[i]] += o->activation_bytes[i];
    for (int i = first; i < last; i++)
        if (o->recomputes[i] && !done[o->name[i]] && sum[o->name[i]] > most) {
            most = sum[o->name[i]];
            best = i;
        }
    return best;
}

void tg_operators_fit(const tg_operators *o, int first, int last, int behind, double limit_bytes, bool *flags,
                      tg_operators_stage *out)
{
    tg_operators_stage plain;
    price_plain(o, first, last, &plain);
    *out = plain;
    double over = tg_operators_stage_bytes(out, behind) - limit_bytes;
    if (flags)
        memset(flags, 0, (size_t)(last - first) * sizeof *flags);
    if (over <= 0)
        return;
    bool own[TG_OPERATORS], done[TG_OPERATOR_NAMES] = {false};
    if (!flags) {
        flags = own;
        memset(flags, 0, (size_t)(last - first) * sizeof *flags);
    }
    while (over > 0) {
        int front = next_name(o, first, last, done);
        if (front < 0 || front == last - 1)
            break;
        done[o->name[front]] = done[o->name[front + 1]] = true;
        double taken = 0;
        for (int i = front; i < last && taken <= over; i++)
            if (o->name[i] == o->name[front]) {
                flags[i - first] = true;
                if (i + 1 < last)
                    flags[i + 1 - first] = true;
                taken += o->activation_bytes[i] * (behind + 1);
            }
        *out = plain;
        add_flags(o, first, last, flags, out);
        over = tg_operators_stage_bytes(out, behind) - limit_bytes;
    }
}
