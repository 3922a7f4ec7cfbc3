#include "pipeline/label.h"

#include <math.h>

bool tg_chain_make(tg_arena *arena, int room, tg_chain *out)
{
    const size_t count = (size_t)room;
    *out = (tg_chain){.room = room};
    out->stage = tg_arena_alloc(arena, count, sizeof *out->stage);
    out->time_s = tg_arena_alloc(arena, count, sizeof *out->time_s);
    out->transfer_s = tg_arena_alloc(arena, count, sizeof *out->transfer_s);
    out->depth = tg_arena_alloc(arena, count, sizeof *out->depth);
    return out->stage && out->time_s && out->transfer_s && out->depth;
}

/* The loop term of the chain's front stage. */
static double loop_term(const tg_chain *chain, int microbatches)
{
    const int s = chain->count - 1, left = microbatches - 2 - chain->depth[s];
    double most = 0, path = 0;
    for (int u = s - 1; u >= 0; u--) {
        int k = chain->depth[s] - chain->depth[u] + 1;
        if (k > left)
            break; /* the depths fall to the rear: no jump fits from here on */
        path += chain->time_s[u] + 2 * chain->transfer_s[u + 1];
        most = fmax(most, (left / k) * (path - (k - 1) * chain->time_s[s]));
    }
    return most;
}

tg_label tg_chain_push(tg_chain *chain, const tg_stage_time *stage, double transfer_s, int depth, int microbatches,
                       tg_label behind)
{
    const int s = chain->count++;
    const double f = stage->forward_s, b = stage->backward_s, t = f + b, B = microbatches;
    chain->stage[s] = stage;
    chain->time_s[s] = t;
    chain->transfer_s[s] = transfer_s;
    chain->depth[s] = depth;
    const double rest = behind.r + 2 * transfer_s, w = depth < microbatches ? depth : microbatches - 1;
    const double idle1 = fmax(0, rest - w * f), idle2 = fmax(0, rest - w * b);
    double serial = B * t;
    serial += microbatches > depth + 1 ? idle1 + idle2 + loop_term(chain, microbatches) : fmax(idle1, idle2);
    tg_label label = {.r = t + rest};
    label.e = fmax(serial, fmax((B - 1) * transfer_s + t + rest, t + 2 * transfer_s + behind.e));
    label.x = fmax(label.e + stage->sync_s, f + transfer_s + behind.x);
    return label;
}

tg_label tg_chain_push_stages(tg_chain *chain, const tg_stage_time *stages, int count, const double *inner_transfer_s,
                              double transfer_s, int microbatches, tg_label behind)
{
    for (int s = count - 1; s >= 0; s--) {
        double c = s + 1 < count ? inner_transfer_s[s] : transfer_s;
        int depth = chain->count < microbatches ? chain->count : microbatches;
        behind = tg_chain_push(chain, &stages[s], c, depth, microbatches, behind);
    }
    return behind;
}

tg_label tg_chain_push_content(tg_chain *chain, const tg_content *content, double transfer_s, const tg_problem *problem,
                               tg_label behind)
{
    const int B = problem->microbatches;
    tg_label label = tg_chain_push_stages(chain, content->stages, content->stage_count, content->inner_transfer_s,
                                          transfer_s, B, behind);
    if (problem->options->objective == TG_PAPER) {
        double rest = behind.r + 2 * transfer_s;
        label.r = content->r + rest;
        label.e = fmax(content->r + 2 * transfer_s + behind.e,
                       fmax(rest + content->bottleneck_s, label.r + (B - 1) * transfer_s));
        label.x = label.e;
    }
    return label;
}
