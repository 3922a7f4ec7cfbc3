/* Asks the provider, checks what it answers, and makes the candidates ready for composition. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pipeline/memory.h"
#include "search/pairs.h"

static bool is_time(double seconds)
{
    return isfinite(seconds) && seconds >= 0;
}

static const char *wrong_figure(const tg_planned_stage *stage)
{
    if (stage->atoms < 1)
        return "atoms must be at least 1";
    if (stage->gpus < 1)
        return "gpus must be at least 1";
    if (!is_time(stage->forward_s))
        return "forward_s must be finite and at least 0";
    if (!is_time(stage->backward_s))
        return "backward_s must be finite and at least 0";
    if (!is_time(stage->sync_s))
        return "sync_s must be finite and at least 0";
    if (!isfinite(stage->transfer_s))
        return "transfer_s must be finite";
    if (!is_time(stage->static_bytes) || !is_time(stage->inflight_bytes) || !is_time(stage->transient_bytes))
        return "bytes must be finite and at least 0";
    return NULL;
}

/* TG_EPROVIDER with the sentence if the candidate does not plan this pair. */
static tg_status check_candidate(const tg_run *run, const tg_query *query, const tg_candidate *candidate, tg_error *err)
{
    long atoms = 0, gpus = candidate->idle, wanted = (long)run->problem->islands[query->island].gpus;
    if (candidate->stage_count < 1)
        return tg_fail(err, TG_EPROVIDER, "a plan without stages");
    if (candidate->idle < 0)
        return tg_fail(err, TG_EPROVIDER, "idle: got %d, expected at least 0", candidate->idle);
    for (int s = 0; s < candidate->stage_count; s++) {
        const char *wrong = wrong_figure(&candidate->stages[s]);
        if (wrong)
            return tg_fail(err, TG_EPROVIDER, "stage %d: %s", s + 1, wrong);
        const tg_strategy *strategy = &candidate->stages[s].strategy;
        if (strategy->dp * strategy->tp * strategy->cp != candidate->stages[s].gpus)
            return tg_fail(err, TG_EPROVIDER, "stage %d: dp %d * tp %d * cp %d do not make its %d GPUs", s + 1,
                           strategy->dp, strategy->tp, strategy->cp, candidate->stages[s].gpus);
        atoms += candidate->stages[s].atoms;
        gpus += candidate->stages[s].gpus;
    }
    if (atoms != query->last - query->first)
        return tg_fail(err, TG_EPROVIDER, "its stages hold %ld atoms, expected the slice's %d", atoms,
                       query->last - query->first);
    if (gpus != wanted)
        return tg_fail(err, TG_EPROVIDER, "its stages and idle make %ld GPUs, expected the island's %ld", gpus, wanted);
    return TG_OK;
}

static int class_of(const tg_run *run, int island, const tg_stage_place *place)
{
    tg_end_class end = {.nodes = place->range_count, .gpus_per_node = place->ranges[0].count};
    for (int i = 0; i < run->link_class_count; i++)
        if (run->link_classes[i].island == island && run->link_classes[i].end.nodes == end.nodes &&
            run->link_classes[i].end.gpus_per_node == end.gpus_per_node)
            return i;
    return -1;
}

/* Where the stages lie, what their transfers take, how many stages they bear behind them. */
static tg_status compile(const tg_run *run, tg_level *level, const tg_query *query, const tg_candidate *candidate,
                         tg_compiled *out, tg_error *err)
{
    const tg_problem *problem = run->problem;
    const tg_island *island = &problem->islands[query->island];
    size_t count = (size_t)candidate->stage_count;
    tg_stage_time *times = tg_arena_alloc(&level->arena, count, sizeof *times);
    double *transfers = tg_arena_alloc(&level->arena, count, sizeof *transfers);
    tg_stage_memory *memory = tg_arena_alloc(&level->arena, count, sizeof *memory);
    size_t *gpus = tg_arena_alloc(&level->arena, count, sizeof *gpus);
    tg_stage_place *places = tg_arena_alloc(&level->arena, count, sizeof *places);
    if (!times || !transfers || !memory || !gpus || !places)
        return tg_fail(err, TG_EMEMORY, "out of memory");
    for (size_t s = 0; s < count; s++)
        gpus[s] = (size_t)candidate->stages[s].gpus;
    tg_status status = tg_place(&level->arena, island, gpus, count, (size_t)candidate->idle, places, err);
    if (status != TG_OK)
        return status == TG_EINPUT ? TG_EPROVIDER : status;
    int atom = query->first, used = 0;
    for (size_t s = 0; s < count; s++) {
        const tg_planned_stage *stage = &candidate->stages[s];
        times[s] =
            (tg_stage_time){.forward_s = stage->forward_s, .backward_s = stage->backward_s, .sync_s = stage->sync_s};
        memory[s] = (tg_stage_memory){.static_bytes = stage->static_bytes,
                                      .transient_bytes = stage->transient_bytes,
                                      .inflight_bytes = stage->inflight_bytes,
                                      .capacity_bytes = problem->capacity_bytes[query->island]};
        int inflight = tg_memory_max_inflight(&memory[s], level->microbatches);
        times[s].max_inflight = inflight;
        atom += stage->atoms;
        used += stage->gpus;
        if (s + 1 < count) {
            transfers[s] = stage->transfer_s;
            if (transfers[s] < 0) {
                tg_transfer link = tg_transfer_inside(problem->cluster, &places[s], &places[s + 1]);
                transfers[s] = link.latency_s + level->boundary_bytes[atom - 1] / link.bytes_per_s;
            }
        }
    }
    *out = (tg_compiled){.candidate = candidate,
                         .max_successors = tg_plan_max_successors(memory, (int)count, level->microbatches),
                         .partial = {.island = query->island,
                                     .front_class = class_of(run, query->island, &places[0]),
                                     .rear_class = class_of(run, query->island, &places[count - 1]),
                                     .gpus = used,
                                     .stage_count = (int)count,
                                     .stages = times,
                                     .inner_transfer_s = transfers}};
    return TG_OK;
}

static bool same_candidate(const tg_compiled *a, const tg_compiled *b)
{
    if (a->partial.stage_count != b->partial.stage_count || a->max_successors != b->max_successors)
        return false;
    size_t count = (size_t)a->partial.stage_count;
    for (size_t s = 0; s < count; s++) {
        const tg_planned_stage *x = &a->candidate->stages[s], *y = &b->candidate->stages[s];
        if (x->atoms != y->atoms || x->gpus != y->gpus)
            return false;
    }
    return memcmp(a->partial.stages, b->partial.stages, count * sizeof *a->partial.stages) == 0 &&
           memcmp(a->partial.inner_transfer_s, b->partial.inner_transfer_s, (count - 1) * sizeof(double)) == 0;
}

static tg_status note(tg_run *run, const tg_query *query, const char *why, bool failed, tg_error *err)
{
    tg_complaint *refused = &run->refused[query->island];
    bool larger = !refused->why || query->last - query->first > refused->query.last - refused->query.first;
    if (!failed && !larger)
        return TG_OK;
    tg_complaint complaint = {.query = *query, .why = tg_arena_strdup(run->arena, why ? why : "no reason given")};
    if (!complaint.why || (failed && !tg_complaint_vec_push(&run->failed, complaint)))
        return tg_fail(err, TG_EMEMORY, "out of memory");
    if (larger)
        *refused = complaint;
    return TG_OK;
}

/* The answer's candidates, checked and compiled; those that don't fit even in the last place are left out. */
static tg_status take_answer(tg_run *run, tg_level *level, const tg_query *query, const tg_answer *answer,
                             tg_asked *asked, tg_error *err)
{
    tg_compiled *compiled = tg_arena_alloc(&level->arena, (size_t)answer->count, sizeof *compiled);
    if (!compiled)
        return tg_fail(err, TG_EMEMORY, "out of memory");
    for (int c = 0; c < answer->count; c++) {
        tg_status status = check_candidate(run, query, &answer->candidates[c], err);
        if (status == TG_OK)
            status = compile(run, level, query, &answer->candidates[c], &compiled[asked->count], err);
        if (status != TG_OK)
            return status;
        bool new = compiled[asked->count].max_successors >= 0;
        for (int i = 0; i < asked->count && new; i++)
            new = !same_candidate(&compiled[i], &compiled[asked->count]);
        asked->count += new;
    }
    asked->compiled = compiled;
    return TG_OK;
}

tg_status tg_level_ask(tg_run *run, tg_level *level, int class, int successors, tg_error *err)
{
    tg_pair_class *group = &level->classes[class];
    size_t at = 0;
    for (; at < group->asked.count && group->asked.at[at].successors <= successors; at++)
        if (group->asked.at[at].successors == successors)
            return TG_OK;
    tg_query query = group->representative;
    query.successors = successors;
    tg_asked asked = {.successors = successors};
    tg_answer answer = {0};
    run->queried++;
    tg_status status = run->provider->plan(run->provider->self, &query, &level->arena, &answer, err);
    if (status != TG_OK)
        return status;
    if (run->provider->answered)
        run->provider->answered(run->provider->self, &query, &answer);
    if (answer.outcome == TG_ANSWERED) {
        tg_error wrong;
        status = take_answer(run, level, &query, &answer, &asked, &wrong);
        if (status == TG_EPROVIDER) {
            asked.count = 0;
            status = note(run, &query, wrong.message, true, err);
        } else if (status == TG_OK && asked.count == 0) {
            status = note(run, &query, "no plan that fits its memory", false, err);
        } else if (status != TG_OK && err) {
            *err = wrong;
        }
    } else {
        status = note(run, &query, answer.why, answer.outcome == TG_FAILED, err);
    }
    if (status != TG_OK)
        return status;
    if (!tg_asked_vec_push(&group->asked, asked))
        return tg_fail(err, TG_EMEMORY, "out of memory");
    memmove(group->asked.at + at + 1, group->asked.at + at, (group->asked.count - 1 - at) * sizeof asked);
    group->asked.at[at] = asked;
    return TG_OK;
}
