#include "pipeline/maxplus.h"

#include <math.h>

/* For loops that the compiler makes vectors of: their pointers must be parameters, or it would not believe that they
 * don't overlap. */
#define VECTORS __attribute__((noinline)) static

static double larger(double a, double b) /* unlike fmax, one instruction */
{
    return a > b ? a : b;
}

/* What stage s waits for in its own plan: see find_waits in label.c. */
typedef struct {
    double head, tail, loop;
} waits;

static waits inner_waits(const tg_content *content, int s, int n, int B, tg_warmup warmup)
{
    const tg_stage_time *stage = &content->stages[s];
    const int own = n + content->stage_count - 1 - s, high = tg_most_depth(stage, own, B, warmup), left = B - 2 - high;
    const double t = stage->forward_s + stage->backward_s;
    double f = stage->forward_s, b = stage->backward_s, path = 0;
    int w = tg_least_depth(own, B - 1);
    waits most = {t + w * f, t + w * b, 0};
    for (int u = s + 1; u < content->stage_count; u++) {
        const tg_stage_time *other = &content->stages[u];
        path += other->forward_s + other->backward_s + 2 * content->inner_transfer_s[u - 1];
        f = larger(f, other->forward_s);
        b = larger(b, other->backward_s);
        w = tg_least_depth(own - (u - s), B - 1);
        most.head = larger(most.head, t + path + w * f);
        most.tail = larger(most.tail, t + path + w * b);
        const int k = high - tg_least_depth(own - (u - s), B) + 1;
        if (k <= left)
            most.loop = larger(most.loop, (left / k) * (path - (k - 1) * t));
    }
    return most;
}

/* The constants at n, from the rear stage to the front. */
static void constants(const tg_problem *problem, const tg_content *content, int n, double out[TG_CONSTANTS])
{
    const int B = problem->microbatches;
    double a[4] = {-INFINITY, -INFINITY, -INFINITY, -INFINITY}, x[4] = {-INFINITY, -INFINITY, -INFINITY, -INFINITY};
    double r = 0;
    waits behind = {0, 0, 0};
    for (int s = content->stage_count - 1; s >= 0; s--) {
        const tg_stage_time *stage = &content->stages[s];
        const bool rear = s + 1 == content->stage_count;
        const double f = stage->forward_s, b = stage->backward_s, t = f + b;
        const double c = rear ? 0 : content->inner_transfer_s[s], rest = r + 2 * c; /* + H or T */
        const int high = tg_most_depth(stage, n + content->stage_count - 1 - s, B, problem->options->warmup);
        const double w = tg_least_depth(high, B - 1);
        waits wait = inner_waits(content, s, n, B, problem->options->warmup);
        if (problem->options->p2p == TG_BLOCKING && B > high + 1) {
            const double front_s = s ? content->inner_transfer_s[s - 1] : 0;
            wait.loop = larger(wait.loop, (B - 2 - high) * (c + front_s) + front_s);
        }
        const double idle1 = larger(0, wait.head - t - w * f), idle2 = larger(0, wait.tail - t - w * b), serial = B * t;
        double own[4] = {serial + larger(idle1, idle2), serial + rest - w * f, serial + rest - w * b, -INFINITY};
        if (B > high + 1) {
            own[0] = serial + wait.loop + idle1 + idle2;
            own[1] += wait.loop + idle2;
            own[2] += wait.loop + idle1;
            own[3] = serial + wait.loop + 2 * rest - w * t;
        }
        if (!rear) {
            const double starved = (B - 1) * c + t + 2 * c;
            own[0] = larger(own[0], starved + larger(behind.head, behind.tail));
            own[1] = larger(own[1], starved + r);
            own[2] = larger(own[2], starved + r);
        }
        for (int i = 0; i < 4; i++) {
            a[i] = larger(own[i], t + 2 * c + a[i]);
            x[i] = larger(a[i] + stage->sync_s, f + c + x[i]);
        }
        r = t + rest;
        behind = wait;
    }
    for (int i = 0; i < 4; i++) {
        out[TG_A0 + i] = a[i];
        out[TG_X0 + i] = x[i];
    }
    out[TG_H] = behind.head;
    out[TG_T] = behind.tail;
}

bool tg_content_ready(tg_arena *arena, const tg_problem *problem, tg_content *content)
{
    if (content->maps)
        return true;
    const int N = problem->most_stages;
    content->maps = tg_arena_alloc(arena, (size_t)N * TG_CONSTANTS, sizeof *content->maps);
    if (!content->maps)
        return false;
    for (int n = 0; n < N; n++) {
        double at[TG_CONSTANTS];
        for (int i = 0; i < TG_CONSTANTS; i++)
            at[i] = -INFINITY;
        at[TG_AH] = at[TG_XH] = content->serial_s; /* the paper's objective has no others */
        if (problem->options->objective == TG_SIMULATED)
            constants(problem, content, n, at);
        for (int i = 0; i < TG_CONSTANTS; i++)
            content->maps[i * N + n] = at[i];
    }
    return true;
}

/* S, where the rear stage may do more forwards first than it has stages behind it, or p2p is blocking. */
static void apply_any_rear(const tg_problem *problem, const tg_content *content, double transfer_s, int first,
                           int count, const double *from, size_t row, double *to, size_t to_row)
{
    const int B = problem->microbatches, rear = content->stage_count - 1;
    const bool blocking = problem->options->p2p == TG_BLOCKING;
    const tg_stage_time *stage = &content->stages[rear];
    const double f = stage->forward_s, b = stage->backward_s, t = f + b, c2 = 2 * transfer_s;
    const double front_s = rear ? content->inner_transfer_s[rear - 1] : 0;
    double *e = to + TG_E * to_row, *x = to + TG_X * to_row;
    for (int i = 0; i < count; i++) {
        const int n = first + i, w = tg_most_depth(stage, n, B, problem->options->warmup), k = w - n + 2,
                  left = B - 2 - w;
        if (left < 0)
            return; /* and so at every larger n */
        const double next = from[TG_NEXT * row + (size_t)i] + c2;
        double gain = (left / k) * larger(0, next - (k - 1) * t);
        if (blocking)
            gain = larger(gain, left * (transfer_s + front_s) + front_s);
        const double serial = (B - 1) * t + gain +
                              larger(0, larger(from[TG_HEAD * row + (size_t)i] + c2 - w * f, next + (n - 1 - w) * f)) +
                              larger(0, larger(from[TG_TAIL * row + (size_t)i] + c2 - w * b, next + (n - 1 - w) * b));
        e[i] = larger(e[i], content->r + serial);
        x[i] = larger(x[i], content->e + serial);
    }
}

/* S with w = n. */
VECTORS void apply_rear(const tg_content *content, double transfer_s, int B, int first, int count,
                        const double *restrict from, size_t row, double *restrict to, size_t to_row)
{
    const tg_stage_time *stage = &content->stages[content->stage_count - 1];
    const double f = stage->forward_s, b = stage->backward_s, t = f + b, c2 = 2 * transfer_s, serial = (B - 1) * t;
    const double own = content->r, reach = content->e;
    for (int i = 0; i < count; i++) {
        const int n = first + i;
        const double next = from[TG_NEXT * row + (size_t)i] + c2, gain = ((B - 2 - n) >> 1) * larger(0, next - t);
        const double total = serial + gain + larger(0, larger(from[TG_HEAD * row + (size_t)i] + c2 - n * f, next - f)) +
                             larger(0, larger(from[TG_TAIL * row + (size_t)i] + c2 - n * b, next - b));
        to[TG_E * to_row + (size_t)i] = larger(to[TG_E * to_row + (size_t)i], own + total);
        to[TG_X * to_row + (size_t)i] = larger(to[TG_X * to_row + (size_t)i], reach + total);
    }
}

VECTORS void apply_map(const tg_content *content, double transfer_s, int B, const double *restrict maps, size_t N,
                       int count, const double *restrict from, size_t row, double *restrict to, size_t to_row)
{
    const double c2 = 2 * transfer_s, own = content->r, reach = content->e, lead = content->f + transfer_s;
    const double starve = (B - 1) * transfer_s, front_s = content->front_s;
    for (size_t i = 0; i < (size_t)count; i++) {
        const double H = from[TG_HEAD * row + i] + c2, T = from[TG_TAIL * row + i] + c2, both = H + T;
        const double behind = larger(c2 + from[TG_E * row + i], starve + larger(H, T));
        to[TG_HEAD * to_row + i] = larger(maps[TG_H * N + i], own + H);
        to[TG_TAIL * to_row + i] = larger(maps[TG_T * N + i], own + T);
        to[TG_E * to_row + i] = larger(larger(larger(maps[TG_A0 * N + i], maps[TG_AH * N + i] + H),
                                              larger(maps[TG_AT * N + i] + T, maps[TG_A2 * N + i] + both)),
                                       own + behind);
        to[TG_X * to_row + i] = larger(larger(larger(maps[TG_X0 * N + i], maps[TG_XH * N + i] + H),
                                              larger(maps[TG_XT * N + i] + T, maps[TG_X2 * N + i] + both)),
                                       larger(reach + behind, lead + from[TG_X * row + i]));
        to[TG_NEXT * to_row + i] = front_s;
    }
}

void tg_content_apply(const tg_problem *problem, const tg_content *content, double transfer_s, int first, int count,
                      const double *from, size_t row, double *to, size_t to_row)
{
    const int B = problem->microbatches;
    const size_t N = (size_t)problem->most_stages;
    apply_map(content, transfer_s, B, content->maps + first, N, count, from, row, to, to_row);
    if (problem->options->objective == TG_PAPER)
        return;
    const tg_stage_time *rear = &content->stages[content->stage_count - 1];
    const bool blocking = problem->options->p2p == TG_BLOCKING;
    const int few = count < B - 1 - first ? count : B - 1 - first; /* with B > n + 1 */
    if (!blocking && tg_most_depth(rear, first, B, problem->options->warmup) == first)
        apply_rear(content, transfer_s, B, first, few, from, row, to, to_row);
    else
        apply_any_rear(problem, content, transfer_s, first, count, from, row, to, to_row);
    for (int i = first ? 0 : 1; blocking && i < count && first + i <= B; i++) {
        const double next_s = from[TG_NEXT * row + (size_t)i];
        const double busy = 2 * transfer_s + B * next_s + (B + first + i - 2) * transfer_s;
        double *e = &to[TG_E * to_row + (size_t)i], *x = &to[TG_X * to_row + (size_t)i];
        *e = larger(*e, content->r + busy);
        *x = larger(*x, content->e + busy);
    }
}
