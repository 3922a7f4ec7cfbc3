#include "pipeline/interleave.h"

#include <math.h>
#include <stdlib.h>

typedef struct {
    const tg_stage_time *stages;
    const double *transfer_s;
    int count, ranks, chunks, microbatches;
    double *activation, *gradient;                      /* count * microbatches: arrival, NaN until known */
    double *forward_link_free_s, *backward_link_free_s; /* of each rank, to the rank behind and in front */
    double *free_s;                                     /* when the rank is free */
    int *done;                                          /* operations that the rank has behind it */
} simulation;

/* The k-th forward (or backward) of every rank: its microbatch, and its chunk counted from where the pass begins. */
static int microbatch_at(const simulation *sim, int k, int *chunk)
{
    const int group = k / (sim->ranks * sim->chunks), first = group * sim->ranks;
    const int left = sim->microbatches - first, size = left < sim->ranks ? left : sim->ranks;
    k -= group * sim->ranks * sim->chunks;
    *chunk = k / size;
    return first + k % size;
}

/* The k-th operation of a rank: its index among the forwards or backwards. */
static int operation_at(const simulation *sim, int rank, int k, bool *backward)
{
    const int all = sim->microbatches * sim->chunks;
    const int depth = 2 * (sim->ranks - 1 - rank) + (sim->chunks - 1) * sim->ranks, w = depth < all ? depth : all;
    if (k < w) {
        *backward = false;
        return k;
    }
    k -= w;
    if (k < 2 * (all - w)) {
        *backward = k % 2 == 1;
        return *backward ? k / 2 : w + k / 2;
    }
    *backward = true;
    return k - (all - w);
}

/* Sends what is ready at end_s; the arrival. */
static double send(double *link_free_s, double end_s, double transfer_s)
{
    *link_free_s = fmax(*link_free_s, end_s) + transfer_s;
    return *link_free_s;
}

/* Runs a rank as far as its inputs allow; did it get any further? */
static bool run_rank(simulation *sim, int rank)
{
    const int before = sim->done[rank], all = 2 * sim->microbatches * sim->chunks;
    for (; sim->done[rank] < all; sim->done[rank]++) {
        bool backward;
        int chunk;
        const int m = microbatch_at(sim, operation_at(sim, rank, sim->done[rank], &backward), &chunk);
        const int stage = (backward ? sim->chunks - 1 - chunk : chunk) * sim->ranks + rank;
        const size_t cell = (size_t)stage * (size_t)sim->microbatches + (size_t)m;
        const double input = backward ? sim->gradient[cell] : sim->activation[cell];
        if (isnan(input))
            break;
        const tg_stage_time *time = &sim->stages[stage];
        const double end = fmax(sim->free_s[rank], input) + (backward ? time->backward_s : time->forward_s);
        sim->free_s[rank] = end;
        if (!backward && stage + 1 < sim->count)
            sim->activation[cell + (size_t)sim->microbatches] =
                send(&sim->forward_link_free_s[rank], end, sim->transfer_s[stage]);
        else if (!backward)
            sim->gradient[cell] = end; /* the loss stands here */
        else if (stage > 0)
            sim->gradient[cell - (size_t)sim->microbatches] =
                send(&sim->backward_link_free_s[rank], end, sim->transfer_s[stage - 1]);
    }
    return sim->done[rank] > before;
}

static tg_status finish(const simulation *sim, double *time_s, tg_error *err)
{
    *time_s = 0;
    for (int r = 0; r < sim->ranks; r++) {
        if (sim->done[r] < 2 * sim->microbatches * sim->chunks)
            return tg_fail(err, TG_EINPUT,
                           "%d microbatches over %d ranks of %d chunks wait for ever; expected a multiple of the ranks",
                           sim->microbatches, sim->ranks, sim->chunks);
        double end = sim->free_s[r];
        for (int s = r; s < sim->count; s += sim->ranks)
            end += sim->stages[s].sync_s;
        *time_s = fmax(*time_s, end);
    }
    return TG_OK;
}

tg_status tg_simulate_interleaved(const tg_stage_time *stages, int count, const double *transfer_s, int chunks,
                                  int microbatches, double *time_s, tg_error *err)
{
    if (chunks < 1 || microbatches < 1 || count < 1 || count % chunks != 0)
        return tg_fail(err, TG_EINPUT, "got %d stages in %d chunks a rank, expected a multiple of the chunks", count,
                       chunks);
    const size_t cells = (size_t)count * (size_t)microbatches, ranks = (size_t)(count / chunks);
    double *memory = malloc((2 * cells + 3 * ranks) * sizeof(double) + ranks * sizeof(int));
    if (!memory)
        return tg_fail(err, TG_EMEMORY, "out of memory");
    simulation sim = {.stages = stages,
                      .transfer_s = transfer_s,
                      .count = count,
                      .ranks = (int)ranks,
                      .chunks = chunks,
                      .microbatches = microbatches,
                      .activation = memory,
                      .gradient = memory + cells,
                      .forward_link_free_s = memory + 2 * cells,
                      .backward_link_free_s = memory + 2 * cells + ranks,
                      .free_s = memory + 2 * cells + 2 * ranks,
                      .done = (int *)(memory + 2 * cells + 3 * ranks)};
    for (size_t i = 0; i < cells; i++)
        sim.activation[i] = i < (size_t)microbatches ? 0 : NAN;
    for (size_t i = 0; i < cells; i++)
        sim.gradient[i] = NAN;
    for (size_t r = 0; r < ranks; r++) {
        sim.forward_link_free_s[r] = sim.backward_link_free_s[r] = sim.free_s[r] = 0;
        sim.done[r] = 0;
    }
    for (bool further = true; further;) {
        further = false;
        for (int r = 0; r < sim.ranks; r++)
            further |= run_rank(&sim, r);
    }
    tg_status status = finish(&sim, time_s, err);
    free(memory);
    return status;
}
