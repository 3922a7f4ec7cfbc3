#include "pipeline/depths.h"

#include <math.h>
#include <string.h>

bool tg_depths_make(tg_arena *arena, int room, int microbatches, tg_p2p p2p, double gap, tg_depths *out)
{
    const size_t count = (size_t)room;
    *out = (tg_depths){.gap = gap};
    out->add_e = tg_arena_alloc(arena, count, sizeof *out->add_e);
    out->add_x = tg_arena_alloc(arena, count, sizeof *out->add_x);
    out->depth = tg_arena_alloc(arena, count, sizeof *out->depth);
    out->best = tg_arena_alloc(arena, count, sizeof *out->best);
    out->stages = tg_arena_alloc(arena, count, sizeof *out->stages);
    out->transfer_s = tg_arena_alloc(arena, count, sizeof *out->transfer_s);
    return tg_chain_make(arena, room, microbatches, p2p, &out->chain) && out->add_e && out->add_x && out->depth &&
           out->best && out->stages && out->transfer_s;
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

/* Chooses the depth of the next stage in front: no less than that behind it, and with blocking p2p at most 2 more. */
static tg_status choose(tg_depths *depths, const tg_chain *sequence, tg_label behind, tg_halt *halt, tg_error *err)
{
    const int k = depths->chain.count, S = sequence->count;
    if (k == S)
        return simulate(depths, S, err);
    const int next = k ? depths->chain.most[k - 1] : 0;
    int low = sequence->least[k] > next ? sequence->least[k] : next, high = sequence->most[k];
    if (k && depths->chain.p2p == TG_BLOCKING && high > next + 2)
        high = next + 2;
    tg_status status = TG_OK;
    for (int w = low; w <= (high > low ? high : low) && status == TG_OK && !tg_halted(halt); w++) {
        const tg_label label = tg_chain_push(&depths->chain, sequence->stage[k], sequence->transfer_s[k], w, w, behind);
        depths->depth[S - 1 - k] = w;
        if (fmax(label.e + depths->add_e[k], label.x + depths->add_x[k]) < depths->target)
            status = choose(depths, sequence, label, halt, err);
        depths->chain.count = k;
    }
    return status;
}

tg_status tg_depths_search(tg_depths *depths, const tg_chain *sequence, double target, tg_halt *halt, tg_error *err)
{
    const int S = sequence->count;
    depths->target = target;
    depths->time_s = INFINITY;
    depths->simulated = 0;
    depths->chain.count = 0;
    for (int k = 0; k < S; k++) {
        depths->stages[S - 1 - k] = *sequence->stage[k];
        if (k > 0)
            depths->transfer_s[S - 1 - k] = sequence->transfer_s[k];
        depths->depth[S - 1 - k] = sequence->least[k];
    }
    depths->add_e[S - 1] = sequence->stage[S - 1]->sync_s;
    depths->add_x[S - 1] = 0;
    for (int k = S - 2; k >= 0; k--) {
        const tg_stage_time *front = sequence->stage[k + 1];
        const double c = sequence->transfer_s[k + 1];
        depths->add_x[k] = front->forward_s + c + depths->add_x[k + 1];
        depths->add_e[k] = fmax(sequence->time_s[k + 1] + 2 * c + depths->add_e[k + 1],
                                sequence->stage[k]->sync_s + depths->add_x[k]);
    }
    bool free_depths = false;
    for (int k = 0; k < S; k++)
        free_depths |= sequence->most[k] > sequence->least[k];
    tg_status status = simulate(depths, S, err);
    return status == TG_OK && free_depths ? choose(depths, sequence, (tg_label){0}, halt, err) : status;
}
