#include "pipeline/label.h"

static double larger(double a, double b) /* unlike fmax, one instruction */
{
    return a > b ? a : b;
}

bool tg_chain_make(tg_arena *arena, int room, int microbatches, tg_p2p p2p, tg_chain *out)
{
    const size_t count = (size_t)room;
    *out = (tg_chain){.room = room, .microbatches = microbatches, .p2p = p2p};
    out->stage = tg_arena_alloc(arena, count, sizeof *out->stage);
    out->time_s = tg_arena_alloc(arena, count, sizeof *out->time_s);
    out->transfer_s = tg_arena_alloc(arena, count, sizeof *out->transfer_s);
    out->least = tg_arena_alloc(arena, count, sizeof *out->least);
    out->most = tg_arena_alloc(arena, count, sizeof *out->most);
    return out->stage && out->time_s && out->transfer_s && out->least && out->most;
}

/* What the chain's front stage waits for beyond its own work (COMPOSITION.md, section 4), sharper there in head and
 * tail.
 *
 * A stage v forwards 0 … w_v before it goes back on 0. So for each u behind s, F_0(s) … B_0(s) holds the path that
 * forwards w_u microbatches at the slowest stage from s to u, passes F_{w_u}(u) → B_0(u), and returns: head(s) = max
 * over u >= s of Σ_{v in [s, u]} (t_v + 2 the transfer in front of v, v > s) + w_u max_{v in [s, u]} f_v. Likewise
 * F_{B-1}(u) is followed by the backwards B-1-w_u … B-1, so tail(s) is the same with b_v for f_v. The text's R is the
 * case of the last stage, where w_u = 0; u = s gives the stage's own work. The chain F_0 → B_0, jumps, serial steps,
 * F_{B-1} → B_{B-1} consists of dependencies in either kind of p2p.
 *
 * Forwards reach u no faster than the slowest forward or transfer from s to u, p_f, and backwards s no faster than
 * likewise p_b. So F_w(u) starts no sooner than w p_f after F_0 could; from there to the end of B_{B-1-w}(u) stage u
 * has (B-w) t_u to do without a break, and B_{B-1} follows no sooner than w p_b later. With w = min(w_u, B-1), E(s) >=
 * the way from s to u and back + w (p_f + p_b) + (B-w) t_u (pace), which deeper warm-ups only lengthen.
 *
 * Where depths may be chosen, head, tail and pace take the least, and what the stage does in the meantime the most; a
 * jump gains less the more microbatches it moves on, so k takes the most of s and the least of u. */
typedef struct {
    double head, tail, loop, pace;
} waits;

static waits find_waits(const tg_chain *chain)
{
    const int s = chain->count - 1, B = chain->microbatches, left = B - 2 - chain->most[s];
    const double t = chain->time_s[s];
    double f = chain->stage[s]->forward_s, b = chain->stage[s]->backward_s, path = 0, c = 0;
    int w = tg_least_depth(chain->least[s], B - 1);
    waits most = {t + w * f, t + w * b, 0, B * t};
    for (int u = s - 1; u >= 0; u--) {
        path += chain->time_s[u] + 2 * chain->transfer_s[u + 1];
        c = larger(c, chain->transfer_s[u + 1]);
        f = larger(f, chain->stage[u]->forward_s);
        b = larger(b, chain->stage[u]->backward_s);
        w = tg_least_depth(chain->least[u], B - 1);
        most.pace = larger(most.pace, t + path + w * (larger(f, c) + larger(b, c)) + (B - w - 1) * chain->time_s[u]);
        most.head = larger(most.head, t + path + w * f);
        most.tail = larger(most.tail, t + path + w * b);
        const int k = chain->most[s] - chain->least[u] + 1;
        if (k <= left)
            most.loop = larger(most.loop, (left / k) * (path - (k - 1) * t));
    }
    return most;
}

/* With blocking p2p a stage waits for its own messages. Its own work and messages one after the other: w times F, send,
 * receive; B - w times F, batch behind, B, batch in front; then receive, B, send each. And between B_0 and F_{B-1},
 * where head and tail leave off, there are B-2-w steady steps and one more batch in front. front_s = 0 leaves the
 * messages in front out. */
static double blocking_e(const tg_chain *chain, int s, double head, double tail, double front_s)
{
    const int B = chain->microbatches, least = chain->least[s], most = chain->most[s];
    const double t = chain->time_s[s], behind_s = chain->transfer_s[s];
    const double serial = B * t + (B + least) * behind_s + (B + least - 1 - (most == B)) * front_s;
    const int steady = B - 2 - most;
    return steady < 0 ? serial : larger(serial, head + tail + steady * (t + behind_s + front_s) + front_s);
}

tg_label tg_chain_push(tg_chain *chain, const tg_stage_time *stage, double transfer_s, int least, int most,
                       tg_label behind)
{
    const int s = chain->count++, B = chain->microbatches;
    const double f = stage->forward_s, b = stage->backward_s, t = f + b, c = transfer_s;
    chain->stage[s] = stage;
    chain->time_s[s] = t;
    chain->transfer_s[s] = transfer_s;
    chain->least[s] = least;
    chain->most[s] = most;
    if (chain->p2p == TG_BLOCKING && s > 0) {
        behind.e = larger(behind.e, blocking_e(chain, s - 1, behind.head, behind.tail, c));
        behind.x = larger(behind.x, behind.e + chain->stage[s - 1]->sync_s);
    }
    const waits wait = find_waits(chain);
    const double w = tg_least_depth(most, B - 1);
    const double idle1 = larger(0, wait.head - t - w * f), idle2 = larger(0, wait.tail - t - w * b);
    double own = larger(wait.pace, B * t + (B > most + 1 ? idle1 + idle2 + wait.loop : larger(idle1, idle2)));
    if (s > 0)
        own = larger(own, (B - 1) * c + t + 2 * c + larger(behind.head, behind.tail));
    if (chain->p2p == TG_BLOCKING)
        own = larger(own, blocking_e(chain, s, wait.head, wait.tail, 0));
    tg_label label = {.head = wait.head, .tail = wait.tail};
    label.e = larger(own, t + 2 * c + behind.e);
    label.x = larger(label.e + stage->sync_s, f + c + behind.x);
    return label;
}

tg_label tg_chain_push_stages(tg_chain *chain, const tg_stage_time *stages, int count, const double *inner_transfer_s,
                              double transfer_s, tg_warmup warmup, tg_label behind)
{
    for (int s = count - 1; s >= 0; s--) {
        const double c = s + 1 < count ? inner_transfer_s[s] : transfer_s;
        const int least = tg_least_depth(chain->count, chain->microbatches);
        const int most = tg_most_depth(&stages[s], chain->count, chain->microbatches, warmup);
        behind = tg_chain_push(chain, &stages[s], c, least, most, behind);
    }
    return behind;
}

tg_label tg_chain_push_content(tg_chain *chain, const tg_content *content, double transfer_s, const tg_problem *problem,
                               tg_label behind)
{
    tg_label label = tg_chain_push_stages(chain, content->stages, content->stage_count, content->inner_transfer_s,
                                          transfer_s, problem->options->warmup, behind);
    if (problem->options->objective == TG_PAPER) {
        const double rest = behind.head + 2 * transfer_s, starved = (problem->microbatches - 1) * transfer_s;
        label.head = label.tail = content->r + rest;
        label.e =
            larger(content->r + 2 * transfer_s + behind.e, larger(rest + content->bottleneck_s, label.head + starved));
        label.x = label.e;
    }
    return label;
}
