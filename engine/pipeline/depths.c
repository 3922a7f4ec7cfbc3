#include "pipeline/depths.h"

#include <math.h>
#include <string.h>

bool tg_depths_make(tg_arena *arena, int room, int microbatches, tg_p2p p2p, double gap, tg_depths *out)
{
    const size_t count = (size_t)room;
    *out = (tg_depths){.gap = gap, .budget = LONG_MAX};
    out->depth = tg_arena_alloc(arena, count, sizeof *out->depth);
    out->best = tg_arena_alloc(arena, count, sizeof *out->best);
    out->stages = tg_arena_alloc(arena, count, sizeof *out->stages);
    out->transfer_s = tg_arena_alloc(arena, count, sizeof *out->transfer_s);
    return tg_chain_make(arena, room, microbatches, p2p, &out->chain) && out->depth && out->best && out->stages &&
           out->transfer_s;
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

/* The range of stage i, front first, whose front neighbours' depths are chosen up to `chosen`: no deeper than the last
 * of these, and with blocking p2p at most 2 a stage less. */
static void range_of(const tg_depths *depths, const tg_chain *sequence, int i, int chosen, int *least, int *most)
{
    const int k = sequence->count - 1 - i, front = chosen ? depths->depth[chosen - 1] : INT_MAX;
    *least = sequence->least[k];
    *most = sequence->most[k] < front ? sequence->most[k] : front;
    if (chosen && depths->chain.p2p == TG_BLOCKING && front - 2 * (i - chosen + 1) > *least)
        *least = front - 2 * (i - chosen + 1);
}

/* X of the whole with the depths chosen so far; infinite if there are none for the others. */
static double bound_of(tg_depths *depths, const tg_chain *sequence, int chosen)
{
    tg_label label = {0};
    depths->chain.count = 0;
    for (int i = sequence->count - 1; i >= 0; i--) {
        int least = depths->depth[i], most = least;
        if (i >= chosen)
            range_of(depths, sequence, i, chosen, &least, &most);
        if (least > most)
            return INFINITY;
        const int k = sequence->count - 1 - i;
        label = tg_chain_push(&depths->chain, sequence->stage[k], sequence->transfer_s[k], least, most, label);
    }
    return label.x;
}

/* Chooses the depths from stage i on, from the front: there they matter most, as forwards of all stages behind pass. */
static tg_status choose(tg_depths *depths, const tg_chain *sequence, int i, tg_halt *halt, tg_error *err)
{
    if (i == sequence->count)
        return simulate(depths, i, err);
    int least, most;
    range_of(depths, sequence, i, i, &least, &most);
    tg_status status = TG_OK;
    for (int w = least; w <= most && status == TG_OK && depths->simulated <= depths->budget; w++) {
        if (tg_halted(halt, 16))
            break;
        depths->depth[i] = w;
        if (bound_of(depths, sequence, i + 1) < depths->target)
            status = choose(depths, sequence, i + 1, halt, err);
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
    for (int i = 0; i < S; i++) {
        const int k = S - 1 - i;
        depths->stages[i] = *sequence->stage[k];
        if (k > 0)
            depths->transfer_s[i] = sequence->transfer_s[k];
        depths->depth[i] = sequence->least[k];
        fixed &= sequence->most[k] <= sequence->least[k];
    }
    tg_status status = simulate(depths, S, err);
    return status == TG_OK && !fixed ? choose(depths, sequence, 0, halt, err) : status;
}
