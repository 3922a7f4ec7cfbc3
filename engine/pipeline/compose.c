#include "pipeline/compose.h"

#include <math.h>
#include <string.h>

#include "pipeline/incumbent.h"

enum { MOST_TOP = 10000 };

typedef struct {
    const tg_problem *problem;
    tg_incumbent incumbent;
    tg_chain chain;
    const tg_piece **pieces, **front_first; /* of the suffix, rear first; of a whole sequence */
    int piece_count;
    int *used;                                    /* islands by kind */
    double *least_r, *least_f, *least_bottleneck; /* of any cover of [0, i) */
    double target;                                /* labels whose bound is at least this are cut */
    double least_cut;                             /* least bound of a label cut */
    double deadline_s;
    tg_stop stopped;
    long labels, simulated;
    tg_stage_time *stages;
    double *transfer_s;
    int *warmup;
} search;

void tg_compose_defaults(tg_compose_options *options)
{
    *options = (tg_compose_options){
        .gap = 0.005, .time_limit_s = INFINITY, .top = 1, .cutoff = INFINITY, .required_island = -1};
}

static bool stopped(search *s)
{
    const tg_compose_options *options = s->problem->options;
    if (options->stop && *options->stop)
        s->stopped = TG_STOPPED_SIGNAL;
    else if (s->labels % 64 == 0 && tg_clock_s() > s->deadline_s)
        s->stopped = TG_STOPPED_TIME;
    return s->stopped != TG_NOT_STOPPED;
}

static tg_status complete(search *s, double bound, tg_error *err)
{
    const tg_problem *problem = s->problem;
    const tg_compose_options *options = problem->options;
    const int S = s->chain.count;
    if (problem->required_kind >= 0 && !s->used[problem->required_kind])
        return TG_OK;
    for (int k = 0; k < S; k++) {
        s->stages[k] = *s->chain.stage[S - 1 - k];
        s->warmup[k] = s->chain.depth[S - 1 - k];
        if (k + 1 < S)
            s->transfer_s[k] = s->chain.transfer_s[S - 1 - k];
    }
    double time_s;
    tg_status status =
        tg_simulate(s->stages, S, s->transfer_s, s->warmup, problem->microbatches, options->p2p, &time_s, NULL, err);
    if (status != TG_OK)
        return status;
    s->simulated++;
    for (int i = 0; i < s->piece_count; i++)
        s->front_first[i] = s->pieces[s->piece_count - 1 - i];
    tg_incumbent_offer(&s->incumbent, s->front_first, s->piece_count, options->objective == TG_PAPER ? bound : time_s,
                       time_s, s->warmup);
    s->target = fmin(s->target, tg_incumbent_limit(&s->incumbent) * (1 - options->gap));
    return TG_OK;
}

static tg_status extend(search *s, int boundary, int front_class, tg_label behind, tg_error *err)
{
    const tg_problem *problem = s->problem;
    const int n = s->chain.count;
    for (int at = problem->piece_start[boundary - 1]; at < problem->piece_start[boundary] && !stopped(s); at++) {
        const tg_piece *piece = &problem->piece[at];
        const tg_content *content = &problem->content[piece->content];
        int members = problem->member_start[piece->kind + 1] - problem->member_start[piece->kind];
        if (n < piece->min_successors || n > piece->max_successors || s->used[piece->kind] == members)
            continue;
        double c = n ? tg_problem_transfer_s(problem, boundary, piece->rear_class, front_class) : 0;
        if (isinf(c))
            continue;
        tg_label label = tg_chain_push_content(&s->chain, content, c, problem, behind);
        double bound = fmax(label.e + s->least_r[piece->first],
                            fmax(label.x + s->least_f[piece->first], s->least_bottleneck[piece->first]));
        s->labels++;
        if (bound >= s->target) {
            s->least_cut = fmin(s->least_cut, bound);
        } else {
            s->pieces[s->piece_count++] = piece;
            s->used[piece->kind]++;
            tg_status status =
                piece->first == 0 ? complete(s, label.x, err) : extend(s, piece->first, piece->front_class, label, err);
            s->used[piece->kind]--;
            s->piece_count--;
            if (status != TG_OK)
                return status;
        }
        s->chain.count = n;
    }
    return TG_OK;
}

static void find_least(search *s)
{
    const tg_problem *problem = s->problem;
    for (int i = 1; i <= problem->atoms; i++) {
        s->least_r[i] = s->least_f[i] = s->least_bottleneck[i] = INFINITY;
        for (int at = problem->piece_start[i - 1]; at < problem->piece_start[i]; at++) {
            const tg_piece *piece = &problem->piece[at];
            const tg_content *content = &problem->content[piece->content];
            s->least_r[i] = fmin(s->least_r[i], content->r + s->least_r[piece->first]);
            s->least_f[i] = fmin(s->least_f[i], content->f + s->least_f[piece->first]);
            s->least_bottleneck[i] =
                fmin(s->least_bottleneck[i], fmax(content->bottleneck_s, s->least_bottleneck[piece->first]));
        }
    }
}

static tg_status check_options(const tg_instance *instance, const tg_compose_options *options, tg_error *err)
{
    if (!(options->gap >= 0 && options->gap < 1))
        return tg_fail(err, TG_EINPUT, "gap: expected a fraction of at least 0 and below 1, got %g", options->gap);
    if (options->top < 1 || options->top > MOST_TOP)
        return tg_fail(err, TG_EINPUT, "top: expected 1 to %d, got %d", MOST_TOP, options->top);
    if (!(options->time_limit_s >= 0))
        return tg_fail(err, TG_EINPUT, "time limit: expected seconds, at least 0, got %g", options->time_limit_s);
    if (isnan(options->cutoff))
        return tg_fail(err, TG_EINPUT, "cutoff: not a number");
    if (options->required_island < -1 || options->required_island >= instance->islands)
        return tg_fail(err, TG_EINPUT, "required island: expected one of the %d islands, got index %d",
                       instance->islands, options->required_island);
    if (options->objective == TG_PAPER && options->warmup == TG_AUTO)
        return tg_fail(err, TG_EINPUT, "warmup: the paper's objective knows no depths but 1f1b, got auto");
    if (options->warmup == TG_AUTO)
        return tg_fail(err, TG_EINPUT, "warmup auto is not available yet");
    return TG_OK;
}

tg_status tg_compose(tg_arena *arena, const tg_instance *instance, const tg_compose_options *options,
                     tg_composition *out, tg_error *err)
{
    *out = (tg_composition){.bound_s = INFINITY};
    const double start_s = tg_clock_s();
    tg_status status = check_options(instance, options, err);
    if (status != TG_OK)
        return status;
    tg_problem problem;
    status = tg_problem_make(arena, instance, options, &problem, err);
    search s = {.problem = &problem, .deadline_s = start_s + options->time_limit_s};
    if (status == TG_OK)
        status = tg_incumbent_make(arena, &problem, &s.incumbent, err);
    if (status != TG_OK)
        return status;
    const size_t most = (size_t)problem.most_stages, atoms = (size_t)problem.atoms + 1;
    s.pieces = tg_arena_alloc(arena, most, sizeof *s.pieces);
    s.front_first = tg_arena_alloc(arena, most, sizeof *s.front_first);
    s.used = tg_arena_alloc(arena, (size_t)problem.kinds, sizeof *s.used);
    s.least_r = tg_arena_alloc(arena, atoms, sizeof(double));
    s.least_f = tg_arena_alloc(arena, atoms, sizeof(double));
    s.least_bottleneck = tg_arena_alloc(arena, atoms, sizeof(double));
    s.stages = tg_arena_alloc(arena, most, sizeof *s.stages);
    s.transfer_s = tg_arena_alloc(arena, most, sizeof(double));
    s.warmup = tg_arena_alloc(arena, most, sizeof(int));
    if (!tg_chain_make(arena, problem.most_stages, &s.chain) || !s.pieces || !s.front_first || !s.used || !s.least_r ||
        !s.least_f || !s.least_bottleneck || !s.stages || !s.transfer_s || !s.warmup)
        return tg_fail(err, TG_EMEMORY, "out of memory");
    find_least(&s);
    double proven = fmax(s.least_bottleneck[problem.atoms], s.least_f[problem.atoms]);
    for (double lim = proven; !isinf(proven) && status == TG_OK && s.stopped == TG_NOT_STOPPED;) {
        double done = tg_incumbent_limit(&s.incumbent) * (1 - options->gap);
        s.target = fmin(lim, done);
        s.least_cut = INFINITY;
        status = extend(&s, problem.atoms, 0, (tg_label){0}, err);
        if (s.stopped != TG_NOT_STOPPED || status != TG_OK)
            break;
        proven = s.least_cut;
        if (isinf(proven) || tg_incumbent_limit(&s.incumbent) * (1 - options->gap) <= proven)
            break;
        lim = fmax(lim * 1.03, nextafter(s.least_cut * (1 + 1e-6), INFINITY));
    }
    if (status != TG_OK)
        return status;
    out->stopped = s.stopped;
    out->labels = s.labels;
    out->simulated = s.simulated;
    out->found = s.incumbent.count > 0;
    out->bound_s = proven;
    if (!out->found)
        return TG_OK;
    const tg_found *best = &s.incumbent.found[0];
    tg_sequence *top = tg_arena_alloc(arena, (size_t)s.incumbent.count, sizeof *top);
    if (!top)
        return tg_fail(err, TG_EMEMORY, "out of memory");
    for (int i = 0; i < s.incumbent.count; i++)
        top[i] = (tg_sequence){s.incumbent.found[i].plans, s.incumbent.found[i].count, s.incumbent.found[i].time_s};
    out->top = top;
    out->top_count = s.incumbent.count;
    out->best = top[0];
    out->stage_count = best->stage_count;
    out->warmup = best->warmup;
    const double bound = fmin(proven, best->value);
    out->bound_s = bound;
    if (options->objective == TG_PAPER) {
        const tg_partial *plan = instance->plan;
        tg_label label = {0};
        s.chain.count = 0;
        for (int i = best->count - 1; i >= 0; i--) {
            const tg_partial *p = &plan[best->plans[i]];
            double c = i + 1 < best->count ? tg_instance_transfer_s(instance, p, &plan[best->plans[i + 1]]) : 0;
            label = tg_chain_push_stages(&s.chain, p->stages, p->stage_count, p->inner_transfer_s, c,
                                         problem.microbatches, label);
        }
        out->bound_s = label.x;
    }
    out->gap = best->value > 0 ? 1 - bound / best->value : 0;
    out->proved = out->gap <= options->gap;
    out->paper_s = tg_paper_s(instance, best->plans, best->count);
    return TG_OK;
}
