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

/* Whether the degrees divide what they must (plan_check's rules, which no plan may break at the end). */
static tg_status check_strategy(const tg_run *run, const tg_query *query, const tg_planned_stage *stage, int s,
                                int recomputable, tg_error *err)
{
    const tg_strategy *of = &stage->strategy;
    long long degrees = (long long)of->dp * of->tp * of->cp, experts = (long long)of->ep * of->etp;
    if (degrees != stage->gpus)
        return tg_fail(err, TG_EPROVIDER, "stage %d: dp %d * tp %d * cp %d do not make its %d GPUs", s, of->dp, of->tp,
                       of->cp, stage->gpus);
    if (degrees % experts != 0)
        return tg_fail(err, TG_EPROVIDER, "stage %d: ep %d * etp %d does not divide its %d GPUs", s, of->ep, of->etp,
                       stage->gpus);
    int samples = run->problem->global_batch / query->microbatches;
    if (samples % of->dp != 0)
        return tg_fail(err, TG_EPROVIDER, "stage %d: dp %d does not divide the microbatch of %d samples", s, of->dp,
                       samples);
    if (of->recompute_layers >= 0 && of->recompute != TG_RECOMPUTE_FULL)
        return tg_fail(err, TG_EPROVIDER, "stage %d: recompute.layers: got %d, expected a count with 'full' alone", s,
                       of->recompute_layers);
    if (of->recompute_layers > recomputable)
        return tg_fail(err, TG_EPROVIDER,
                       "stage %d: recompute.layers: got %d, expected at most %d, its atoms but embedding and head", s,
                       of->recompute_layers, recomputable);
    return TG_OK;
}

static tg_status check_memory_parts(const tg_planned_stage *stage, int s, tg_error *err)
{
    double sum = 0;
    for (int i = 0; i < stage->memory_part_count; i++) {
        if (stage->memory_parts[i].value < 0)
            return tg_fail(err, TG_EPROVIDER, "stage %d: parts.memory.%s: got %g, expected at least 0", s,
                           stage->memory_parts[i].name, stage->memory_parts[i].value);
        sum += stage->memory_parts[i].value;
    }
    if (stage->memory_part_count && fabs(sum - stage->static_bytes) > 1e-9 * fmax(fabs(sum), stage->static_bytes))
        return tg_fail(err, TG_EPROVIDER, "stage %d: parts.memory: add up to %.17g, expected static_bytes, %.17g", s,
                       sum, stage->static_bytes);
    return TG_OK;
}

/* How many of a slice's atoms [first, last) can be recomputed. */
static int count_recomputable(const tg_run *run, const tg_query *query, long long first, long long last)
{
    const double *recomputable = run->problem->recomputable;
    int count = 0;
    for (long long i = first; i < last && i < query->last; i++)
        count += !recomputable || recomputable[i] != 0;
    return count;
}

/* TG_EPROVIDER with the sentence if the candidate does not plan this pair. */
static tg_status check_candidate(const tg_run *run, const tg_query *query, const tg_candidate *candidate, tg_error *err)
{
    long long atoms = 0, gpus = candidate->idle, wanted = (long long)run->problem->islands[query->island].gpus;
    if (candidate->stage_count < 1)
        return tg_fail(err, TG_EPROVIDER, "a plan without stages");
    if (candidate->idle < 0)
        return tg_fail(err, TG_EPROVIDER, "idle: got %d, expected at least 0", candidate->idle);
    for (int s = 0; s < candidate->stage_count; s++) {
        const tg_planned_stage *stage = &candidate->stages[s];
        const char *wrong = wrong_figure(stage);
        if (wrong)
            return tg_fail(err, TG_EPROVIDER, "stage %d: %s", s + 1, wrong);
        long long first = query->first + atoms;
        int recomputable = count_recomputable(run, query, first, first + stage->atoms);
        tg_status status = check_strategy(run, query, stage, s + 1, recomputable, err);
        if (status == TG_OK)
            status = check_memory_parts(stage, s + 1, err);
        if (status != TG_OK)
            return status;
        atoms += stage->atoms;
        gpus += stage->gpus;
    }
    if (atoms != query->last - query->first)
        return tg_fail(err, TG_EPROVIDER, "its stages hold %lld atoms, expected the slice's %d", atoms,
                       query->last - query->first);
    if (gpus != wanted)
        return tg_fail(err, TG_EPROVIDER, "its stages and idle make %lld GPUs, expected the island's %lld", gpus,
                       wanted);
    return TG_OK;
}

/* A TP group lies in one node. */
static tg_status check_place(const tg_candidate *candidate, const tg_stage_place *places, tg_error *err)
{
    for (int s = 0; s < candidate->stage_count; s++)
        if (places[s].ranges[0].count % (size_t)candidate->stages[s].strategy.tp != 0)
            return tg_fail(err, TG_EPROVIDER, "stage %d: tp %d does not divide its %zu GPUs a node", s + 1,
                           candidate->stages[s].strategy.tp, places[s].ranges[0].count);
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
    if (status == TG_OK)
        status = check_place(candidate, places, err);
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

/* The place of what was asked with that many successors, or where it belongs. */
static size_t place_of(const tg_pair_class *group, int successors)
{
    size_t at = 0;
    while (at < group->asked.count && group->asked.at[at].successors < successors)
        at++;
    return at;
}

static bool was_asked(const tg_pair_class *group, int successors)
{
    size_t at = place_of(group, successors);
    return at < group->asked.count && group->asked.at[at].successors == successors;
}

static tg_status reserve(tg_pair_class *group, int successors, tg_error *err)
{
    size_t at = place_of(group, successors);
    tg_asked asked = {.successors = successors};
    if (!tg_asked_vec_push(&group->asked, asked))
        return tg_fail(err, TG_EMEMORY, "out of memory");
    memmove(group->asked.at + at + 1, group->asked.at + at, (group->asked.count - 1 - at) * sizeof asked);
    group->asked.at[at] = asked;
    return TG_OK;
}

static void forget(tg_pair_class *group, int successors)
{
    size_t at = place_of(group, successors);
    group->asked.count--;
    memmove(group->asked.at + at, group->asked.at + at + 1, (group->asked.count - at) * sizeof *group->asked.at);
}

/* An answer's candidates, not its words. */
static uint64_t hash_answer(const tg_answer *answer)
{
    uint64_t hash = tg_hash_bytes(TG_HASH_START, &answer->outcome, sizeof answer->outcome);
    for (int c = 0; c < answer->count; c++)
        for (int s = 0; s < answer->candidates[c].stage_count; s++) {
            const tg_planned_stage *stage = &answer->candidates[c].stages[s];
            const tg_strategy *of = &stage->strategy;
            const double figures[] = {stage->forward_s,      stage->backward_s,   stage->sync_s,
                                      stage->transfer_s,     stage->static_bytes, stage->inflight_bytes,
                                      stage->transient_bytes};
            const int whole[] = {
                s,        stage->atoms,       stage->gpus,         of->dp, of->tp, of->cp, of->ep, of->etp,
                of->zero, (int)of->recompute, of->recompute_layers};
            hash = tg_hash_bytes(tg_hash_bytes(hash, figures, sizeof figures), whole, sizeof whole);
        }
    return hash;
}

enum { SAMPLE_EVERY = 64, MOST_SAMPLES = 4 };

static tg_status take(tg_run *run, tg_level *level, tg_ask ask, const tg_query *query, const tg_answer *answer,
                      tg_error *err)
{
    tg_pair_class *group = &level->classes[ask.class];
    if (answer->outcome == TG_UNASKED) {
        forget(group, ask.successors);
        return TG_OK;
    }
    tg_sample sample = {.query = *query, .hash = hash_answer(answer)};
    if (run->queried++ % SAMPLE_EVERY == 0 && run->samples.count < MOST_SAMPLES && !answer->transient &&
        !answer->stored && !tg_sample_vec_push(&run->samples, sample))
        return tg_fail(err, TG_EMEMORY, "out of memory");
    if (run->provider->answered)
        run->provider->answered(run->provider->self, query, answer);
    if (answer->outcome != TG_ANSWERED)
        return note(run, query, answer->why, answer->outcome == TG_FAILED, err);
    tg_asked *asked = &group->asked.at[place_of(group, ask.successors)];
    tg_error wrong;
    tg_status status = take_answer(run, level, query, answer, asked, &wrong);
    if (status == TG_EPROVIDER) {
        asked->count = 0;
        return note(run, query, wrong.message, true, err);
    }
    if (status == TG_OK && asked->count == 0)
        return note(run, query, "no plan that fits its memory", false, err);
    if (status != TG_OK && err)
        *err = wrong;
    return status;
}

tg_status tg_level_ask(tg_run *run, tg_level *level, const tg_ask *wanted, size_t count, tg_error *err)
{
    tg_ask *asks = calloc(count + 1, sizeof *asks);
    tg_query *queries = calloc(count + 1, sizeof *queries);
    tg_answer *answers = calloc(count + 1, sizeof *answers);
    size_t n = 0;
    tg_status status = asks && queries && answers ? TG_OK : tg_fail(err, TG_EMEMORY, "out of memory");
    for (size_t i = 0; i < count && status == TG_OK; i++) {
        tg_pair_class *group = &level->classes[wanted[i].class];
        if (was_asked(group, wanted[i].successors))
            continue;
        status = reserve(group, wanted[i].successors, err);
        queries[n] = group->representative;
        queries[n].successors = wanted[i].successors;
        asks[n++] = wanted[i];
    }
    if (status == TG_OK)
        status = tg_pool_ask(run->pool, queries, n, level->answers, answers, err);
    for (size_t i = 0; i < n && status == TG_OK; i++)
        status = take(run, level, asks[i], &queries[i], &answers[i], err);
    free(asks);
    free(queries);
    free(answers);
    return status;
}

static bool differs(const tg_answer *answer, const tg_sample *sample)
{
    return answer->outcome != TG_UNASKED && !answer->transient && hash_answer(answer) != sample->hash;
}

/* Twice: first as a new state answers, then as one that has answered others. */
static tg_status compare_samples(tg_run *run, tg_pool *pool, tg_arena *arena, tg_enumeration *out, tg_error *err)
{
    tg_query queries[2 * MOST_SAMPLES];
    tg_answer answers[2 * MOST_SAMPLES];
    size_t count = run->samples.count;
    for (size_t i = 0; i < 2 * count; i++) {
        queries[i] = run->samples.at[i % count].query;
        queries[i].again = true;
    }
    tg_status status = tg_pool_ask(pool, queries, 2 * count, arena, answers, err);
    for (size_t i = 0; i < count && status == TG_OK; i++)
        if (differs(&answers[i], &run->samples.at[i]) || differs(&answers[count + i], &run->samples.at[i]))
            out->unsteady[out->unsteady_count++] =
                (tg_complaint){.query = run->samples.at[i].query, .why = "another answer when asked again"};
    return status;
}

tg_status tg_run_ask_again(tg_run *run, const tg_workers *workers, tg_enumeration *out, tg_error *err)
{
    tg_workers one = *workers;
    one.count = 1;
    out->unsteady = tg_arena_alloc(run->arena, MOST_SAMPLES, sizeof *out->unsteady);
    if (!out->unsteady)
        return tg_fail(err, TG_EMEMORY, "out of memory");
    if (run->samples.count == 0)
        return TG_OK;
    tg_arena arena = {0};
    tg_pool *pool = NULL;
    tg_status status = tg_pool_open(&one, run->deadline_s, run->options->compose.stop, &pool, err);
    if (status == TG_OK)
        status = compare_samples(run, pool, &arena, out, err);
    tg_pool_close(pool);
    tg_arena_free(&arena);
    return status;
}
