#include "pipeline/compose.h"

#include <float.h>
#include <math.h>

#include "pipeline/beam.h"

enum { MOST_TOP = 10000 };

void tg_compose_defaults(tg_compose_options *options)
{
    *options = (tg_compose_options){.gap = 0.005,
                                    .time_limit_s = INFINITY,
                                    .effort = LONG_MAX,
                                    .many_effort = LONG_MAX,
                                    .top = 1,
                                    .cutoff = INFINITY,
                                    .required_island = -1};
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
    return TG_OK;
}

/* No sequence takes longer, simulated or by the paper's estimate: all work of all islands one after the other. */
static double most_s(const tg_problem *problem)
{
    const double B = problem->microbatches;
    double work = 0, link = 0, bytes = 0;
    for (int i = 0; i < problem->contents; i++) {
        const tg_content *content = &problem->content[i];
        double sync = 0;
        for (int s = 0; s < content->stage_count; s++)
            sync += content->stages[s].sync_s;
        work = fmax(work, 2 * B * content->r + sync);
    }
    for (int i = 0; i + 1 < problem->atoms; i++)
        bytes = fmax(bytes, problem->instance->boundary_bytes[i]);
    for (int i = 0; i < problem->classes * problem->classes; i++)
        if (!isinf(problem->latency_s[i]))
            link = fmax(link, problem->latency_s[i] + bytes * problem->per_byte_s[i]);
    return (work + 4 * B * link) * problem->instance->islands;
}

/* Makes the tables live for a limit, or dead. */
static tg_status prepare(tg_search *search, double limit, bool by_class, tg_error *err)
{
    tg_tables *tables = search->tables;
    if (limit <= tables->built)
        return tg_tables_tighten(tables, limit, err);
    if (limit > search->problem->most_s)
        tg_problem_list_pieces(search->problem, 1.5 * limit);
    return tg_tables_build(tables, limit, by_class, err);
}

/* Finds first sequences where the search takes long to come to any. */
static tg_status open_search(tg_search *search, double least_bottleneck_s, tg_error *err)
{
    const long effort = search->problem->options->many_effort;
    search->tables->built = 0;
    tg_status status = tg_beam(search, least_bottleneck_s, err);
    if (!search->tables->reach.counts_all && effort < search->halt->effort_left)
        search->halt->effort_left = effort;
    return status;
}

/* Searches below the limit of living tables. A search that costs more than building them is left for tables by class.
 */
static tg_status search_below(tg_search *search, bool *by_class, tg_error *err)
{
    enum { DIVE_WORK = 1 << 16, LEAST_WORK = 1 << 20 };
    tg_tables *tables = search->tables;
    tg_status status = search->incumbent.count == 0 ? tg_search_dive(search, DIVE_WORK, err) : TG_OK;
    if (status != TG_OK)
        return status;
    const bool impatient = !*by_class && tg_tables_fit_by_class(tables);
    status = tg_search_run(search, impatient ? tables->build_work + LEAST_WORK : LONG_MAX, err);
    if (search->outcome == TG_SPENT) {
        *by_class = true;
        tables->built = 0;
    }
    return status;
}

/* Raises a limit until the tables live, searches below it, and goes on until what is covered meets the incumbent. The
 * nearer the tables come to living, the smaller the steps, since too high a limit costs much; where that leads nowhere
 * they grow. Under the limit that tables are built for, lower ones are cheap: there the search begins just above the
 * least that the tables leave, in finer steps. At first the depths of a sequence are searched only so far, lest one
 * sequence keep all others from their turn. */
static tg_status climb(tg_search *search, double *proven, tg_error *err)
{
    static const double steps[] = {[TG_NO_COVER] = 0.04, [TG_NO_ROW] = 0.025, [TG_NO_LABEL] = 0.02, [TG_ALIVE] = 0.01};
    static const double first_fine = 0.002;
    enum { FEW_DEAD = 16, FEW_DEPTHS = 256, LONG_POLLS = 1 << 18 };
    const tg_compose_options *options = search->problem->options;
    const tg_tables *tables = search->tables;
    const double most = most_s(search->problem), least_limit = fmax(most * 1e-9, DBL_MIN);
    const double least_bottleneck_s = *proven;
    double covered = *proven, limit = covered, stretch = 1, fine = first_fine;
    bool by_class = false, opened = false;
    search->depths.budget = FEW_DEPTHS;
    for (int rung = 1; !isinf(*proven); rung++) {
        const double wanted = tg_incumbent_limit(&search->incumbent) * (1 - options->gap);
        if (wanted <= *proven)
            break;
        if (wanted <= covered) {
            search->depths.budget = LONG_MAX;
            covered = limit = *proven;
        }
        limit = fmin(wanted, fmax(limit, least_limit));
        const bool fresh = limit > tables->built;
        if (fresh && !opened && (!tables->reach.counts_all || search->halt->calls > LONG_POLLS)) {
            opened = true;
            tg_status status = search->incumbent.count ? TG_OK : open_search(search, least_bottleneck_s, err);
            if (status != TG_OK || search->halt->stopped != TG_NOT_STOPPED)
                return status;
            continue;
        }
        tg_status status = prepare(search, limit, by_class, err);
        const bool alive = tables->death == TG_ALIVE;
        if (status == TG_OK && alive) {
            *proven = fmax(*proven, tg_tables_least(tables));
            covered = fmax(covered, *proven);
            const double begin = (1 + fine) * fmax(covered, least_limit);
            if (fresh && begin < limit) {
                limit = begin;
                continue;
            }
            status = search_below(search, &by_class, err);
        }
        if (status != TG_OK || search->halt->stopped != TG_NOT_STOPPED)
            return status;
        if (alive && search->outcome != TG_EXHAUSTED)
            continue;
        covered = alive ? search->target : limit;
        if (covered > most && search->incumbent.count < options->top)
            covered = INFINITY;
        *proven = fmax(*proven, alive ? fmin(covered, search->open_bound) : covered);
        if (covered < tables->built) {
            fine *= alive ? 2 : 1;
            limit = fmin(covered * (1 + fine), tables->built);
        } else {
            stretch *= alive || rung % FEW_DEAD == 0 ? 2 : 1;
            limit = covered * (1 + stretch * steps[tables->death]);
            fine = first_fine;
        }
    }
    return TG_OK;
}

static tg_status report(tg_arena *arena, tg_search *search, double proven, tg_composition *out, tg_error *err)
{
    const tg_problem *problem = search->problem;
    const tg_instance *instance = problem->instance;
    const tg_incumbent *incumbent = &search->incumbent;
    *out = (tg_composition){.found = incumbent->count > 0,
                            .bound_s = proven,
                            .stopped = search->halt->stopped,
                            .labels = search->labels,
                            .simulated = search->simulated};
    if (!out->found)
        return TG_OK;
    tg_sequence *top = tg_arena_alloc(arena, (size_t)incumbent->count, sizeof *top);
    if (!top)
        return tg_fail(err, TG_EMEMORY, "out of memory");
    for (int i = 0; i < incumbent->count; i++)
        top[i] = (tg_sequence){incumbent->found[i].plans, incumbent->found[i].count, incumbent->found[i].time_s};
    const tg_found *best = &incumbent->found[0];
    out->top = top;
    out->top_count = incumbent->count;
    out->best = top[0];
    out->stage_count = best->stage_count;
    out->warmup = best->warmup;
    out->paper_s = tg_paper_s(instance, best->plans, best->count);
    out->bound_s = fmin(proven, best->value);
    const double asked = problem->options->gap;
    out->proved = out->bound_s >= best->value * (1 - asked);
    out->gap = best->value > 0 ? 1 - out->bound_s / best->value : 0;
    if (out->proved && out->gap > asked) /* by rounding */
        out->gap = asked;
    if (problem->options->objective == TG_PAPER) {
        tg_label label = {0};
        search->chain.count = 0;
        for (int i = best->count - 1; i >= 0; i--) {
            const tg_partial *plan = &instance->plan[best->plans[i]];
            double c =
                i + 1 < best->count ? tg_instance_transfer_s(instance, plan, &instance->plan[best->plans[i + 1]]) : 0;
            label = tg_chain_push_stages(&search->chain, plan->stages, plan->stage_count, plan->inner_transfer_s, c,
                                         TG_PLAIN, label);
        }
        out->bound_s = label.x;
    }
    return TG_OK;
}

tg_status tg_compose(tg_arena *arena, const tg_instance *instance, const tg_compose_options *options,
                     tg_composition *out, tg_error *err)
{
    tg_halt halt = {
        .deadline_s = tg_clock_s() + options->time_limit_s, .stop = options->stop, .effort_left = options->effort};
    tg_problem problem = {0};
    tg_tables tables = {0};
    tg_search search = {0};
    *out = (tg_composition){0};
    tg_status status = check_options(instance, options, err);
    if (status == TG_OK)
        status = tg_problem_make(arena, instance, options, &halt, &problem, err);
    if (status == TG_OK && halt.stopped == TG_NOT_STOPPED) {
        status = tg_tables_make(arena, &problem, &halt, &tables, err);
        if (status == TG_OK)
            status = tg_search_make(arena, &problem, &tables, &halt, &search, err);
        if (status == TG_OK) {
            const bool impossible = options->required_island >= 0 && problem.required_kind < 0; /* it has no plans */
            double proven = impossible ? INFINITY : tg_reach_least_bottleneck(&tables.reach);
            status = climb(&search, &proven, err);
            if (status == TG_OK)
                status = report(arena, &search, proven, out, err);
        }
    }
    out->stopped = halt.stopped;
    tg_tables_free(&tables);
    tg_search_free(&search);
    tg_problem_free(&problem);
    return status;
}
