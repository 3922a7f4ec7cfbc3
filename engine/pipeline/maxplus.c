#include "pipeline/maxplus.h"

#include <math.h>

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

/* S, the rear stage's waits over the outer link. */
static void apply_rear(const tg_problem *problem, const tg_content *content, double transfer_s, int first, int count,
                       tg_labels from, tg_labels to)
{
    const int B = problem->microbatches, rear = content->stage_count - 1;
    const bool blocking = problem->options->p2p == TG_BLOCKING;
    const tg_stage_time *stage = &content->stages[rear];
    const double f = stage->forward_s, b = stage->backward_s, t = f + b, c2 = 2 * transfer_s;
    const double front_s = rear ? content->inner_transfer_s[rear - 1] : 0;
    for (int i = 0; i < count; i++) {
        const int n = first + i, w = tg_most_depth(stage, n, B, problem->options->warmup), k = w - n + 2,
                  left = B - 2 - w;
        if (left < 0)
            return; /* and so at every larger n */
        const double next = from.next_s[i] + c2;
        double gain = (left / k) * larger(0, next - (k - 1) * t);
        if (blocking)
            gain = larger(gain, left * (transfer_s + front_s) + front_s);
        const double serial = (B - 1) * t + gain +
                              larger(0, larger(from.head[i] + c2 - w * f, next + (n - 1 - w) * f)) +
                              larger(0, larger(from.tail[i] + c2 - w * b, next + (n - 1 - w) * b));
        to.e[i] = larger(to.e[i], content->r + serial);
        to.x[i] = larger(to.x[i], content->e + serial);
    }
}

void tg_content_apply(const tg_problem *problem, const tg_content *content, double transfer_s, int first, int count,
                      tg_labels from, tg_labels to)
{
    const int N = problem->most_stages, B = problem->microbatches;
    const double *restrict a0 = content->maps + first, *restrict ah = a0 + N, *restrict at = ah + N,
                           *restrict a2 = at + N;
    const double *restrict x0 = a2 + N, *restrict xh = x0 + N, *restrict xt = xh + N, *restrict x2 = xt + N;
    const double *restrict h = x2 + N, *restrict t = h + N;
    const double *restrict head = from.head, *restrict tail = from.tail, *restrict e = from.e, *restrict x = from.x;
    double *restrict to_head = to.head, *restrict to_tail = to.tail, *restrict to_e = to.e, *restrict to_x = to.x;
    const double c2 = 2 * transfer_s, own = content->r, reach = content->e, lead = content->f + transfer_s;
    const double starve = (B - 1) * transfer_s;
    for (int i = 0; i < count; i++) {
        const double H = head[i] + c2, T = tail[i] + c2, both = H + T;
        const double behind = larger(c2 + e[i], starve + larger(H, T));
        to_head[i] = larger(h[i], own + H);
        to_tail[i] = larger(t[i], own + T);
        to_e[i] = larger(larger(larger(a0[i], ah[i] + H), larger(at[i] + T, a2[i] + both)), own + behind);
        to_x[i] = larger(larger(larger(x0[i], xh[i] + H), larger(xt[i] + T, x2[i] + both)),
                         larger(reach + behind, lead + x[i]));
        to.next_s[i] = content->front_s;
    }
    if (problem->options->objective == TG_PAPER)
        return;
    apply_rear(problem, content, transfer_s, first, count, from, to);
    if (problem->options->p2p == TG_BLOCKING)
        for (int i = first ? 0 : 1; i < count && first + i <= B; i++) {
            const double busy = c2 + B * from.next_s[i] + (B + first + i - 2) * transfer_s;
            to_e[i] = larger(to_e[i], own + busy);
            to_x[i] = larger(to_x[i], reach + busy);
        }
}
