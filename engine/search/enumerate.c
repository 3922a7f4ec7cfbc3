#include "search/enumerate.h"

#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "search/assemble.h"
#include "search/best.h"
#include "search/pairs.h"

enum {
    ROUND = 64, /* classes asked for between two compositions; fixed, so that counts don't depend on workers */
    LEFT_OUT_EFFORT = 400000, /* of a composition with an island that is better left out: for the report only */
    ROUND_EFFORT = 500000,    /* of one after which more is asked for; what it leaves open is gone into at the end */
    LAST_EFFORT = 5000000,    /* of the last, before a time limit is used up for more */
    MANY_EFFORT = 300000      /* of the last where islands are too many to count */
};

static const double LEFT_OUT_GAP = 0.01;    /* fraction */
static const double GUESS_GAP = 0.05;       /* fraction */
static const double LAST_COMPOSITION_S = 2; /* for what is there when the run is stopped */

/* How to compose. */
typedef struct {
    int required_island;
    double gap; /* at least */
    long effort, many_effort;
    bool leave; /* ask for no more after a composition that was left for its effort */
} manner;

static tg_compose_options options_for(const tg_run *run, const tg_level *level, manner how, const tg_best *best,
                                      bool stopped)
{
    tg_compose_options options = run->options->compose;
    options.cutoff = tg_best_cutoff(best, level->microbatches);
    options.top = best->room;
    options.required_island = how.required_island;
    options.gap = fmax(options.gap, how.gap);
    options.effort = how.effort;
    options.many_effort = how.many_effort;
    options.time_limit_s = stopped ? LAST_COMPOSITION_S : fmax(0, run->deadline_s - tg_clock_s());
    if (stopped)
        options.stop = NULL;
    return options;
}

/* The plans of the sequences found that stand behind fewer stages than they were asked for. */
static tg_status list_hopes(const tg_level *level, const tg_composition *found, const tg_origin *origins,
                            tg_ask_vec *out, tg_error *err)
{
    for (int t = 0; t < found->top_count && found->found; t++) {
        const tg_sequence *sequence = &found->top[t];
        int behind = 0;
        for (int i = sequence->count - 1; i >= 0; i--) {
            const tg_origin *origin = &origins[sequence->plans[i]];
            tg_ask hope = {.class = level->pairs[origin->pair].class, .successors = behind};
            if (behind > origin->compiled->max_successors && !tg_ask_vec_push(out, hope))
                return tg_fail(err, TG_EMEMORY, "out of memory");
            behind += origin->compiled->partial.stage_count;
        }
    }
    return TG_OK;
}

/* Composes what is known at this level. A plan that stands where it was not asked for is asked for there, until none
 * is; once the run is stopped, plans stand only where they are known to fit. */
static tg_status compose_level(tg_run *run, tg_level *level, manner how, tg_best *best, tg_composition *last,
                               tg_error *err)
{
    for (;;) {
        tg_arena arena = {0};
        tg_instance instance;
        tg_origin *origins;
        tg_composition found = {0};
        tg_ask_vec hopes = {0};
        bool stopped = tg_run_stopped(run);
        tg_compose_options options = options_for(run, level, how, best, stopped);
        tg_status status = tg_assemble(run, level, !stopped, &arena, &instance, &origins, err);
        if (status == TG_OK)
            status = tg_compose(&arena, &instance, &options, &found, err);
        if (status == TG_OK)
            status = list_hopes(level, &found, origins, &hopes, err);
        bool hoped = hopes.count > 0;
        if (status == TG_OK && hoped)
            status = tg_level_ask(run, level, hopes.at, hopes.count, err);
        tg_ask_vec_free(&hopes);
        if (status == TG_OK && found.found && !hoped)
            status = tg_best_take(best, run, level, &instance, origins, &found, err);
        found.best = (tg_sequence){0};
        found.top = NULL;
        found.warmup = NULL;
        *last = found;
        tg_arena_free(&arena);
        if (status != TG_OK || !hoped)
            return status;
    }
}

static bool enough(const tg_run *run, const tg_best *best)
{
    return run->options->any && best->count > 0;
}

/* Round 0 of every level before any goes on: one whose best is far from that of another is then left soon. */
static tg_status open_levels(tg_run *run, tg_level *levels, tg_best *best, int *opened, tg_error *err)
{
    const tg_problem *problem = run->problem;
    const manner guess = {run->options->compose.required_island, GUESS_GAP, ROUND_EFFORT, 0, false};
    tg_composition last;
    tg_status status = TG_OK;
    while (*opened < problem->microbatch_count && status == TG_OK && !tg_run_stopped(run) && !enough(run, best)) {
        tg_level *level = &levels[*opened];
        status = tg_level_open(run, problem->microbatches[(*opened)++], level, err);
        if (status == TG_OK)
            status = tg_level_guess(run, level, err);
        if (status == TG_OK)
            status = compose_level(run, level, guess, best, &last, err);
    }
    return status;
}

typedef struct {
    double bound_s;
    int class;
} ranked;

static int compare_ranked(const void *a, const void *b)
{
    const ranked *x = a, *y = b;
    if (x->bound_s != y->bound_s)
        return x->bound_s < y->bound_s ? -1 : 1;
    return x->class - y->class;
}

/* Asks for what could still be part of a plan better than best, most promising first, and composes after every round.
 */
static tg_status search_level(tg_run *run, tg_level *level, manner how, tg_best *best, tg_composition *last,
                              tg_error *err)
{
    ranked *order = calloc((size_t)run->class_count + 1, sizeof *order);
    if (!order)
        return tg_fail(err, TG_EMEMORY, "out of memory");
    int kept = 0;
    for (int c = 0; c < run->class_count; c++)
        if (level->classes[c].kept)
            order[kept++] = (ranked){.bound_s = level->classes[c].bound_s, .class = c};
    qsort(order, (size_t)kept, sizeof *order, compare_ranked);
    tg_status status = tg_level_guess(run, level, err);
    int at = 0;
    while (status == TG_OK) {
        status = compose_level(run, level, how, best, last, err);
        if (run->provider->progress && status == TG_OK)
            run->provider->progress(run->provider->self, level->microbatches, kept ? (double)at / kept : 1,
                                    tg_best_time(best));
        if (status != TG_OK || tg_run_stopped(run) || enough(run, best) ||
            (how.leave && last->stopped == TG_STOPPED_EFFORT))
            break;
        tg_ask asks[ROUND];
        size_t asked = 0;
        for (; at < kept && asked < ROUND; at++) {
            tg_pair_class *class = &level->classes[order[at].class];
            /* Every later class has a bound at least as high. B * bottleneck is no more than the time (COMPOSITION.md,
             * 4). */
            if (class->bound_s * level->microbatches > tg_best_cutoff(best, level->microbatches))
                at = kept - 1;
            else if (class->asked.count == 0)
                asks[asked++] =
                    (tg_ask){.class = order[at].class, .successors = tg_first_successors(run->problem, class)};
        }
        status = tg_level_ask(run, level, asks, asked, err);
        if (asked == 0)
            break;
    }
    free(order);
    return status;
}

/* Composes once more where the effort was not enough: first with more of it, then, if there is a limit on time, until
 * that. */
static tg_status close_levels(tg_run *run, tg_level *levels, int count, tg_composition *last, tg_best *best,
                              tg_error *err)
{
    const tg_compose_options *asked = &run->options->compose;
    const manner more[] = {{asked->required_island, 0, LAST_EFFORT, MANY_EFFORT, true},
                           {asked->required_island, 0, LONG_MAX, LONG_MAX, true}};
    tg_status status = TG_OK;
    for (int k = 0; k < (isinf(asked->time_limit_s) ? 1 : 2); k++)
        for (int b = 0; b < count && status == TG_OK && !tg_run_stopped(run) && !enough(run, best); b++)
            if (last[b].stopped == TG_STOPPED_EFFORT)
                status = compose_level(run, &levels[b], more[k], best, &last[b], err);
    return status;
}

/* Searches the levels in turn. bound_s: no plan of what could be asked for takes less; 0 if that was not gone through.
 */
static tg_status search_levels(tg_run *run, tg_level *levels, int count, tg_best *best, double *bound_s, tg_error *err)
{
    const manner how = {run->options->compose.required_island, 0, ROUND_EFFORT, 0, false};
    tg_composition *last = tg_arena_alloc(run->arena, (size_t)count + 1, sizeof *last);
    tg_status status = last ? TG_OK : tg_fail(err, TG_EMEMORY, "out of memory");
    for (int b = 0; b < count && status == TG_OK && !tg_run_stopped(run) && !enough(run, best); b++)
        status = search_level(run, &levels[b], how, best, &last[b], err);
    const bool whole = !tg_run_stopped(run) && !enough(run, best) && count == run->problem->microbatch_count;
    if (status == TG_OK)
        status = close_levels(run, levels, count, last, best, err);
    *bound_s = whole ? INFINITY : 0;
    for (int b = 0; b < count; b++)
        *bound_s = fmin(*bound_s, last[b].bound_s);
    return status;
}

/* Positions a slice may stand at: by the stages that the other islands may put behind it. */
static long positions_of(const tg_problem *problem, const tg_pair *pair)
{
    long positions = 0;
    for (int i = 0; i < problem->island_count; i++)
        positions += i == pair->island ? 0 : (long)problem->islands[i].gpus;
    return pair->last == problem->atom_count ? 1 : positions;
}

/* Counts what became of the level's pairs, once nothing more will be asked at it. */
static tg_status count_pairs(const tg_run *run, const tg_level *level, tg_enumeration *out, tg_error *err)
{
    const char *rest = tg_run_stopped(run) ? "not reached" : "bounded";
    bool *seen = calloc((size_t)run->class_count + 1, sizeof *seen);
    if (!seen)
        return tg_fail(err, TG_EMEMORY, "out of memory");
    for (int i = 0; i < run->pair_count; i++) {
        const tg_pair *pair = &level->pairs[i];
        const char *policy = pair->dropped_by;
        out->all++;
        if (!policy && level->classes[pair->class].asked.count == 0)
            policy = rest;
        if (!policy && seen[pair->class])
            out->reused++;
        else if (!policy) {
            out->asked++;
            long spared = positions_of(run->problem, pair) - (long)level->classes[pair->class].asked.count;
            out->saved += spared > 0 ? spared : 0; /* on a sole island no other slice than the whole has a position */
        }
        if (!policy)
            seen[pair->class] = true;
        int p = 0;
        while (policy && p < out->pruned_count && strcmp(out->pruned[p].policy, policy) != 0)
            p++;
        if (policy && p == out->pruned_count) {
            tg_pruned *grown = tg_arena_alloc(run->arena, (size_t)p + 1, sizeof *grown);
            if (!grown) {
                free(seen);
                return tg_fail(err, TG_EMEMORY, "out of memory");
            }
            if (p)
                memcpy(grown, out->pruned, (size_t)p * sizeof *grown);
            grown[p].policy = policy;
            out->pruned = grown;
            out->pruned_count++;
        }
        if (policy)
            out->pruned[p].count++;
    }
    free(seen);
    return TG_OK;
}

/* The best plan that uses the island, over all levels; the best plan's own comes first, for an early cutoff. */
static tg_status search_with(tg_run *run, tg_level *levels, int island, int first, tg_best *with, tg_error *err)
{
    const manner how = {island, LEFT_OUT_GAP, LEFT_OUT_EFFORT, 0, true};
    tg_composition last;
    tg_status status = tg_best_open(with, run, 1, INFINITY, err);
    if (status == TG_OK)
        status = search_level(run, &levels[first], how, with, &last, err);
    for (int b = 0; b < run->problem->microbatch_count && status == TG_OK && !tg_run_stopped(run); b++)
        if (b != first)
            status = search_level(run, &levels[b], how, with, &last, err);
    return status;
}

/* For each island that the best plan leaves out: the best with it, and what takes longest there. */
static tg_status work_out_left_out(tg_run *run, tg_level *levels, const tg_best *best, tg_enumeration *out,
                                   tg_error *err)
{
    tg_left_out *rows = tg_arena_alloc(run->arena, (size_t)run->problem->island_count, sizeof *rows);
    if (!rows)
        return tg_fail(err, TG_EMEMORY, "out of memory");
    out->left_out = rows;
    int first = 0;
    while (run->problem->microbatches[first] != best->at[0].choice.microbatches)
        first++;
    for (int island = 0; island < run->problem->island_count && !tg_run_stopped(run); island++) {
        bool used = false;
        for (int i = 0; i < best->at[0].choice.count; i++)
            used = used || best->at[0].choice.plans[i].query.island == island;
        if (used)
            continue;
        tg_best with;
        tg_status status = search_with(run, levels, island, first, &with, err);
        if (status != TG_OK)
            return status;
        if (with.count)
            rows[island] = tg_best_limit(&with.at[0]);
    }
    return TG_OK;
}

static tg_status open_run(tg_run *run, const tg_workers *workers, tg_error *err)
{
    const tg_problem *problem = run->problem;
    size_t islands = (size_t)problem->island_count;
    run->names = tg_arena_alloc(run->arena, islands, sizeof *run->names);
    run->refused = tg_arena_alloc(run->arena, islands, sizeof *run->refused);
    if (!run->names || !run->refused)
        return tg_fail(err, TG_EMEMORY, "out of memory");
    for (size_t i = 0; i < islands; i++)
        run->names[i] = problem->islands[i].name;
    tg_status status = tg_run_link(run, err);
    if (status == TG_OK)
        status = tg_run_list_pairs(run, err);
    if (status == TG_OK)
        status = tg_pool_open(workers, run->deadline_s, run->options->compose.stop, &run->pool, err);
    return status;
}

static tg_status open_provider(void *self, int worker, tg_provider *out, tg_error *err)
{
    (void)worker, (void)err;
    *out = *(const tg_provider *)self;
    return TG_OK;
}

static void close_provider(void *self, int worker, tg_provider *provider)
{
    (void)self, (void)worker, (void)provider;
}

/* What adapters could not do: every failure, and for each island the largest slice without a plan. */
static tg_status report_complaints(tg_run *run, tg_enumeration *out, tg_error *err)
{
    size_t islands = (size_t)run->problem->island_count;
    out->refused = tg_arena_alloc(run->arena, islands, sizeof *out->refused);
    out->failed = tg_arena_alloc(run->arena, run->failed.count, sizeof *out->failed);
    if (!out->refused || !out->failed)
        return tg_fail(err, TG_EMEMORY, "out of memory");
    for (size_t i = 0; i < islands; i++)
        if (run->refused[i].why)
            out->refused[out->refused_count++] = run->refused[i];
    for (size_t i = 0; i < run->failed.count; i++)
        out->failed[out->failed_count++] = run->failed.at[i];
    return TG_OK;
}

static void conclude(const tg_run *run, const tg_best *best, double bound_s, tg_enumeration *out)
{
    const volatile sig_atomic_t *stop = run->options->compose.stop;
    if (stop && *stop)
        out->stopped = TG_STOPPED_SIGNAL;
    else if (tg_clock_s() > run->deadline_s)
        out->stopped = TG_STOPPED_TIME;
    out->queried = run->queried;
    out->found = best->count > 0;
    out->bound_s = bound_s;
    if (out->found)
        tg_best_report(best, run, bound_s, out);
}

tg_status tg_enumerate(tg_arena *arena, const tg_problem *problem, const tg_provider *provider,
                       const tg_workers *workers, const tg_enumerate_options *options, tg_enumeration *out,
                       tg_error *err)
{
    *out = (tg_enumeration){0};
    tg_workers alone = {
        .self = (void *)(uintptr_t)provider, .count = 1, .open = open_provider, .close = close_provider};
    workers = workers ? workers : &alone;
    tg_run run = {.problem = problem,
                  .provider = provider,
                  .options = options,
                  .arena = arena,
                  .deadline_s = tg_clock_s() + options->compose.time_limit_s};
    tg_level *levels = tg_arena_alloc(arena, (size_t)problem->microbatch_count, sizeof *levels);
    tg_best best = {0};
    double bound_s = INFINITY;
    int opened = 0;
    tg_status status = levels ? open_run(&run, workers, err) : tg_fail(err, TG_EMEMORY, "out of memory");
    if (status == TG_OK)
        status = tg_best_open(&best, &run, options->compose.top, options->compose.cutoff, err);
    if (status == TG_OK)
        status = open_levels(&run, levels, &best, &opened, err);
    if (status == TG_OK)
        status = search_levels(&run, levels, opened, &best, &bound_s, err);
    if (status == TG_OK && best.count && options->left_out && opened == problem->microbatch_count)
        status = work_out_left_out(&run, levels, &best, out, err);
    for (int b = 0; b < opened; b++) {
        if (status == TG_OK)
            status = count_pairs(&run, &levels[b], out, err);
        tg_level_close(&run, &levels[b]);
    }
    tg_pool_close(run.pool);
    if (status == TG_OK)
        conclude(&run, &best, bound_s, out);
    if (status == TG_OK && out->stopped == TG_NOT_STOPPED && !options->any)
        status = tg_run_ask_again(&run, workers, out, err);
    if (status == TG_OK)
        status = report_complaints(&run, out, err);
    tg_complaint_vec_free(&run.failed);
    tg_sample_vec_free(&run.samples);
    return status;
}
