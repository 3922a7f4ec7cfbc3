#include "pipeline/depths.h"

#include <math.h>
#include <string.h>

bool tg_depths_make(tg_arena *arena, int room, int microbatches, tg_p2p p2p, double gap, tg_depths *out)
{
    const size_t count = (size_t)room;
    *out = (tg_depths){.gap = gap, .budget = LONG_MAX};
    out->most = tg_arena_alloc(arena, count, sizeof *out->most);
    out->depth = tg_arena_alloc(arena, count, sizeof *out->depth);
    out->best = tg_arena_alloc(arena, count, sizeof *out->best);
    out->stages = tg_arena_alloc(arena, count, sizeof *out->stages);
    out->transfer_s = tg_arena_alloc(arena, count, sizeof *out->transfer_s);
    return tg_chain_make(arena, room, microbatches, p2p, &out->chain) && out->most && out->depth && out->best &&
           out->stages && out->transfer_s;
}

static tg_status simulate(tg_depths *depths, int count, tg_error *err)
{
    double time_s;
    tg_status status = tg_simulate(depths->stages, count, depths->transfer_s, depths->depth, depths->chain.microbatches,
                                   depths->chain.p2p, &time_s, NULL, err);
    depths->simulated++;
    if (status == TG_OK && time_s < depths->time_s) {
        depths->time_s = time_s;
        memcpy(depths->best, depths->depth, (size_t)count * sizeof *depths->best);
        depths->target = fmin(depths->target, time_s * (1 - depths->gap));
    }
    return status;
}

/* The most that stage k may take over the depth of the stage behind it. */
static int highest(const tg_depths *depths, int k, int behind)
{
    const bool tied = k > 0 && depths->chain.p2p == TG_BLOCKING && depths->most[k] > behind + 2;
    return tied ? behind + 2 : depths->most[k];
}

/* X of the whole: the chain with the stages in front of it, whose depths are at least that of its front stage. */
static double whole_bound(tg_depths *depths, const tg_chain *sequence, tg_label label)
{
    const int count = depths->chain.count, w = depths->chain.most[count - 1];
    for (int k = count; k < sequence->count; k++) {
        const int least = sequence->least[k] > w ? sequence->least[k] : w;
        label =
            tg_chain_push(&depths->chain, sequence->stage[k], sequence->transfer_s[k], least, depths->most[k], label);
    }
    depths->chain.count = count;
    return label.x;
}

/* Chooses the depth of the next stage in front: no less than that behind it, and with blocking p2p at most 2 more. */
static tg_status choose(tg_depths *depths, const tg_chain *sequence, tg_label behind, tg_halt *halt, tg_error *err)
{
    const int k = depths->chain.count, S = sequence->count;
    if (k == S)
        return simulate(depths, S, err);
    const int next = k ? depths->chain.most[k - 1] : 0, low = sequence->least[k] > next ? sequence->least[k] : next;
    tg_status status = TG_OK;
    for (int w = low; w <= highest(depths, k, next) && status == TG_OK && depths->simulated <= depths->budget; w++) {
        if (tg_halted(halt, 16))
            break;
        const tg_label label = tg_chain_push(&depths->chain, sequence->stage[k], sequence->transfer_s[k], w, w, behind);
        depths->depth[S - 1 - k] = w;
        if (whole_bound(depths, sequence, label) < depths->target)
            status = choose(depths, sequence, label, halt, err);
        depths->chain.count = k;
    }
    return status;
}

tg_status tg_depths_search(tg_depths *depths, const tg_chain *sequence, double target, tg_halt *halt, tg_error *err)
{
    const int S = sequence->count;
    bool fixed = true;
    depths->target = target;
    depths->time_s = INFINITY;
    depths->simulated = 0;
    depths->chain.count = 0;
    for (int k = S - 1; k >= 0; k--) {
        depths->stages[S - 1 - k] = *sequence->stage[k];
        if (k > 0)
            depths->transfer_s[S - 1 - k] = sequence->transfer_s[k];
        depths->depth[S - 1 - k] = sequence->least[k];
        depths->most[k] =
            k + 1 < S && depths->most[k + 1] < sequence->most[k] ? depths->most[k + 1] : sequence->most[k];
        fixed &= depths->most[k] <= sequence->least[k];
    }
    tg_status status = simulate(depths, S, err);
    if (status != TG_OK || fixed)
        return status;
    for (int k = 0; k < S; k++) /* as deep as may be: often near the best */
        depths->depth[S - 1 - k] = highest(depths, k, k ? depths->depth[S - k] : 0);
    status = simulate(depths, S, err);
    return status == TG_OK ? choose(depths, sequence, (tg_label){0}, halt, err) : status;
}
