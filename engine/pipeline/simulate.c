#include "pipeline/simulate.h"

#include <math.h>
#include <stdlib.h>

/* Both simulations walk each stage's own list of operations as far as its inputs allow and go on with a neighbour when
 * it gets something to do, so each operation is looked at a bounded number of times. */
typedef struct {
    const tg_stage_time *stages;
    const double *transfer_s;
    int count, microbatches;
    int *depth;                    /* forwards before the first backward, at most microbatches */
    int *done;                     /* operations (blocking: steps) that the stage has behind it */
    double *free_s;                /* when the stage is free */
    double *finished_s;            /* end of its last backward so far */
    double *activation, *gradient; /* count * microbatches: arrival (blocking: posts), NaN until known */
    double *post_activation, *post_gradient;
    bool *posted; /* blocking: the stage waits in a batch whose messages it has posted */
    int *waiting; /* stack of stages to look at */
    bool *queued;
    int waiting_count;
    tg_operation *operations;
} simulation;

static double larger(double a, double b) /* unlike fmax, one instruction */
{
    return a > b ? a : b;
}

static void wake(simulation *sim, int stage)
{
    if (stage < 0 || stage >= sim->count || sim->queued[stage])
        return;
    sim->queued[stage] = true;
    sim->waiting[sim->waiting_count++] = stage;
}

/* The k-th operation of a stage with w warm-up forwards: its microbatch, and whether it is a backward. */
static int operation_at(int k, int w, int microbatches, bool *backward)
{
    int steady = 2 * (microbatches - w);
    if (k < w) {
        *backward = false;
        return k;
    }
    k -= w;
    if (k < steady) {
        *backward = k % 2 == 1;
        return *backward ? k / 2 : w + k / 2;
    }
    *backward = true;
    return microbatches - w + k - steady;
}

static void record(simulation *sim, int stage, int k, int microbatch, bool backward, double start_s, double end_s)
{
    if (sim->operations)
        sim->operations[(size_t)stage * 2 * (size_t)sim->microbatches + (size_t)k] =
            (tg_operation){stage, microbatch, backward, start_s, end_s};
}

static void run_overlapped(simulation *sim, int s)
{
    const int B = sim->microbatches;
    const bool first = s == 0, last = s == sim->count - 1;
    double *activation = sim->activation + (size_t)s * (size_t)B, *gradient = sim->gradient + (size_t)s * (size_t)B;
    for (; sim->done[s] < 2 * B; sim->done[s]++) {
        bool backward;
        int m = operation_at(sim->done[s], sim->depth[s], B, &backward);
        double input = backward ? (last ? 0 : gradient[m]) : (first ? 0 : activation[m]);
        if (isnan(input))
            return;
        double start = larger(sim->free_s[s], input);
        double end = start + (backward ? sim->stages[s].backward_s : sim->stages[s].forward_s);
        sim->free_s[s] = sim->finished_s[s] = end;
        record(sim, s, sim->done[s], m, backward, start, end);
        /* A link is first-in first-out and its messages are sent in the order of microbatches: it is free once the one
         * before has arrived. */
        if (!backward && !last) {
            double *arrival = activation + B;
            arrival[m] = (m ? larger(end, arrival[m - 1]) : end) + sim->transfer_s[s];
            wake(sim, s + 1);
        } else if (backward && !first) {
            double *arrival = gradient - B;
            arrival[m] = (m ? larger(end, arrival[m - 1]) : end) + sim->transfer_s[s - 1];
            wake(sim, s - 1);
        }
    }
}

/* A batch of the blocking schedule: microbatches of its messages, -1 where it has none. */
typedef struct {
    int send_forward, receive_forward, send_backward, receive_backward;
} batch;

/* Step k of a stage: true and *operation for a computation, else *messages. Warm-up: receive-F, F, send-F each, then
 * one receive-F; steady: F, batch, B, batch; then receive-B, B, send-B each. */
static bool blocking_step(int k, int w, int B, int *operation, batch *messages)
{
    *messages = (batch){-1, -1, -1, -1};
    if (k < 3 * w) {
        int m = k / 3;
        *operation = m;
        if (k % 3 == 0)
            messages->receive_forward = m;
        else if (k % 3 == 2)
            messages->send_forward = m;
        return k % 3 == 1;
    }
    k -= 3 * w;
    if (w < B) {
        if (k == 0) {
            messages->receive_forward = w;
            return false;
        }
        k--;
        if (k < 4 * (B - w)) {
            int m = k / 4;
            *operation = w + 2 * m + (k % 4) / 2;
            if (k % 4 == 1) {
                messages->send_forward = w + m;
                messages->receive_backward = m;
            } else if (k % 4 == 3) {
                messages->send_backward = m;
                messages->receive_forward = w + m + 1 < B ? w + m + 1 : -1;
            }
            return k % 2 == 0;
        }
        k -= 4 * (B - w);
    }
    int m = B - w + k / 3;
    *operation = B + m;
    if (k % 3 == 0)
        messages->receive_backward = m;
    else if (k % 3 == 2)
        messages->send_backward = m;
    return k % 3 == 1;
}

static int blocking_steps(int w, int B)
{
    return w < B ? 3 * w + 1 + 4 * (B - w) + 3 * w : 6 * B;
}

/* Posts one message at time `now`, and raises *end to its end; false while the other side has not posted. */
static bool exchange(double *mine, const double *theirs, double transfer_s, double now, double *end)
{
    *mine = now;
    if (isnan(*theirs))
        return false;
    *end = larger(*end, larger(now, *theirs) + transfer_s);
    return true;
}

static void run_blocking(simulation *sim, int s)
{
    const int B = sim->microbatches, w = sim->depth[s], steps = blocking_steps(w, B);
    const size_t at = (size_t)s * (size_t)B, B_ = (size_t)B;
    for (; sim->done[s] < steps; sim->done[s]++) {
        int k;
        batch messages;
        if (blocking_step(sim->done[s], w, B, &k, &messages)) {
            bool backward;
            int m = operation_at(k, w, B, &backward);
            double start = sim->free_s[s];
            sim->free_s[s] = start + (backward ? sim->stages[s].backward_s : sim->stages[s].forward_s);
            sim->finished_s[s] = sim->free_s[s];
            record(sim, s, k, m, backward, start, sim->free_s[s]);
            continue;
        }
        const bool in_front = s > 0, behind = s + 1 < sim->count;
        double now = sim->free_s[s], end = now;
        bool complete = true;
        /* activation: posts of the receiver, by receiver; post_activation: posts of the sender, by receiver. Gradients
         * likewise. */
        if (in_front && messages.receive_forward >= 0) {
            size_t i = at + (size_t)messages.receive_forward;
            complete &= exchange(&sim->activation[i], &sim->post_activation[i], sim->transfer_s[s - 1], now, &end);
        }
        if (in_front && messages.send_backward >= 0) {
            size_t i = at - B_ + (size_t)messages.send_backward;
            complete &= exchange(&sim->post_gradient[i], &sim->gradient[i], sim->transfer_s[s - 1], now, &end);
        }
        if (behind && messages.send_forward >= 0) {
            size_t i = at + B_ + (size_t)messages.send_forward;
            complete &= exchange(&sim->post_activation[i], &sim->activation[i], sim->transfer_s[s], now, &end);
        }
        if (behind && messages.receive_backward >= 0) {
            size_t i = at + (size_t)messages.receive_backward;
            complete &= exchange(&sim->gradient[i], &sim->post_gradient[i], sim->transfer_s[s], now, &end);
        }
        if (!sim->posted[s]) {
            sim->posted[s] = true;
            wake(sim, s - 1);
            wake(sim, s + 1);
        }
        if (!complete)
            return;
        sim->free_s[s] = end;
        sim->posted[s] = false;
    }
}

static void *take(unsigned char **memory, size_t bytes)
{
    void *at = *memory;
    *memory += (bytes + 15) / 16 * 16;
    return at;
}

tg_status tg_simulate(const tg_stage_time *stages, int count, const double *transfer_s, const int *warmup,
                      int microbatches, tg_p2p p2p, double *time_s, tg_operation *operations, tg_error *err)
{
    if (count < 1 || microbatches < 1)
        return tg_fail(err, TG_EINPUT, "a pipeline needs at least one stage and one microbatch");
    const size_t S = (size_t)count, cells = S * (size_t)microbatches, arrays = p2p == TG_BLOCKING ? 4 : 2;
    unsigned char *memory =
        malloc(arrays * (cells * sizeof(double) + 16) + S * (3 * sizeof(int) + 2 * sizeof(double) + 2) + 112);
    if (!memory)
        return tg_fail(err, TG_EMEMORY, "out of memory");
    unsigned char *at = memory;
    simulation sim = {.stages = stages,
                      .transfer_s = transfer_s,
                      .count = count,
                      .microbatches = microbatches,
                      .operations = operations};
    double **cell[4] = {&sim.activation, &sim.gradient, &sim.post_activation, &sim.post_gradient};
    for (size_t i = 0; i < arrays; i++) {
        *cell[i] = take(&at, cells * sizeof(double));
        for (size_t j = 0; j < cells; j++)
            (*cell[i])[j] = NAN;
    }
    sim.free_s = take(&at, S * sizeof(double));
    sim.finished_s = take(&at, S * sizeof(double));
    sim.depth = take(&at, S * sizeof(int));
    sim.done = take(&at, S * sizeof(int));
    sim.waiting = take(&at, S * sizeof(int));
    sim.posted = take(&at, S);
    sim.queued = take(&at, S);
    tg_status status = TG_OK;
    for (int s = 0; s < count && status == TG_OK; s++) {
        int w = warmup ? warmup[s] : count - 1 - s;
        if (w < 0)
            status = tg_fail(err, TG_EINPUT, "stage %d: a warm-up of %d forwards; expected at least 0", s, w);
        sim.depth[s] = w < microbatches ? w : microbatches;
        sim.done[s] = 0;
        sim.free_s[s] = sim.finished_s[s] = 0;
        sim.posted[s] = sim.queued[s] = false;
    }
    for (int s = count - 1; s >= 0; s--)
        wake(&sim, s);
    while (status == TG_OK && sim.waiting_count > 0) {
        int s = sim.waiting[--sim.waiting_count];
        sim.queued[s] = false;
        if (p2p == TG_BLOCKING)
            run_blocking(&sim, s);
        else
            run_overlapped(&sim, s);
    }
    *time_s = 0;
    for (int s = 0; s < count && status == TG_OK; s++) {
        int steps = p2p == TG_BLOCKING ? blocking_steps(sim.depth[s], microbatches) : 2 * microbatches;
        if (sim.done[s] < steps)
            status = tg_fail(err, TG_EINPUT, "stage %d waits for ever: warm-up depths must not grow to the rear%s", s,
                             p2p == TG_BLOCKING ? ", nor fall by more than 2 a stage" : "");
        *time_s = larger(*time_s, sim.finished_s[s] + stages[s].sync_s);
    }
    free(memory);
    return status;
}
