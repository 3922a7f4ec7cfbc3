#include "pipeline/memory.h"

static bool fits(const tg_stage_memory *stage, double inflight)
{
    return stage->static_bytes + stage->transient_bytes + inflight * stage->inflight_bytes <= stage->capacity_bytes;
}

int tg_memory_max_inflight(const tg_stage_memory *stage, int microbatches)
{
    if (fits(stage, microbatches))
        return TG_NO_LIMIT;
    /* What does not fit microbatches times fits fewer; halving asks the same comparison as anyone who checks the
     * answer, where a quotient could be rounded up to one too many. */
    int fit = 0, too_many = microbatches;
    while (too_many - fit > 1) {
        int middle = fit + (too_many - fit) / 2;
        if (fits(stage, middle))
            fit = middle;
        else
            too_many = middle;
    }
    return fit;
}

int tg_memory_bears(const tg_stage_memory *stage, int microbatches)
{
    int inflight = tg_memory_max_inflight(stage, microbatches);
    return inflight == TG_NO_LIMIT ? TG_NO_LIMIT : inflight - 1;
}

int tg_plan_max_successors(const tg_stage_memory *stages, int count, int microbatches)
{
    int least = TG_NO_LIMIT;
    for (int i = 0; i < count; i++) {
        int bears = tg_memory_bears(&stages[i], microbatches);
        if (bears == TG_NO_LIMIT)
            continue;
        int beyond = bears - (count - 1 - i);
        if (beyond < 0)
            return -1;
        if (beyond < least)
            least = beyond;
    }
    return least;
}
