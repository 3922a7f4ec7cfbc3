#include "search/best.h"

#include <math.h>
#include <string.h>

tg_status tg_best_open(tg_best *best, const tg_run *run, int room, double cutoff, tg_error *err)
{
    *best = (tg_best){.room = room, .cutoff = cutoff};
    best->at = tg_arena_alloc(run->arena, (size_t)room + 1, sizeof *best->at);
    return best->at ? TG_OK : tg_fail(err, TG_EMEMORY, "out of memory");
}

double tg_best_cutoff(const tg_best *best, int microbatches)
{
    if (best->count < best->room)
        return best->cutoff;
    const tg_best_row *last = &best->at[best->count - 1];
    bool larger = microbatches > last->choice.microbatches;
    return fmin(best->cutoff, larger ? nextafter(last->value, INFINITY) : last->value);
}

double tg_best_time(const tg_best *best)
{
    return best->count ? best->at[0].choice.time_s : INFINITY;
}

static const void *copy(tg_arena *arena, const void *from, size_t count, size_t size)
{
    void *to = tg_arena_alloc(arena, count, size);
    return to && count ? memcpy(to, from, count * size) : to;
}

static const tg_part *copy_parts(tg_arena *arena, const tg_part *parts, int count)
{
    tg_part *copied = tg_arena_alloc(arena, (size_t)count, sizeof *copied);
    for (int i = 0; copied && i < count; i++) {
        copied[i] = (tg_part){.name = tg_arena_strdup(arena, parts[i].name), .value = parts[i].value};
        if (!copied[i].name)
            return NULL;
    }
    return copied;
}

static const tg_candidate *copy_candidate(tg_arena *arena, const tg_candidate *candidate)
{
    tg_candidate *copied = tg_arena_alloc(arena, 1, sizeof *copied);
    tg_planned_stage *stages = tg_arena_alloc(arena, (size_t)candidate->stage_count, sizeof *stages);
    if (!copied || !stages)
        return NULL;
    for (int s = 0; s < candidate->stage_count; s++) {
        stages[s] = candidate->stages[s];
        stages[s].memory_parts = copy_parts(arena, stages[s].memory_parts, stages[s].memory_part_count);
        stages[s].time_parts = copy_parts(arena, stages[s].time_parts, stages[s].time_part_count);
        if (!stages[s].memory_parts || !stages[s].time_parts)
            return NULL;
    }
    *copied = *candidate;
    copied->stages = stages;
    return copied;
}

static bool same_choice(const tg_choice *a, const tg_choice *b)
{
    bool same = a->microbatches == b->microbatches && a->count == b->count && a->time_s == b->time_s;
    for (int i = 0; i < a->count && same; i++) {
        const tg_chosen *p = &a->plans[i], *q = &b->plans[i];
        same = p->query.island == q->query.island && p->query.first == q->query.first &&
               p->candidate->stage_count == q->candidate->stage_count;
        for (int s = 0; same && s < p->candidate->stage_count; s++)
            same =
                p->candidate->stages[s].atoms == q->candidate->stages[s].atoms &&
                memcmp(&p->candidate->stages[s].strategy, &q->candidate->stages[s].strategy, sizeof(tg_strategy)) == 0;
    }
    return same;
}

/* The row of one sequence; candidates are not copied yet. */
static tg_status make_row(const tg_run *run, const tg_level *level, const tg_instance *instance,
                          const tg_origin *origins, const tg_sequence *sequence, tg_best_row *row, tg_error *err)
{
    tg_chosen *plans = tg_arena_alloc(run->arena, (size_t)sequence->count, sizeof *plans);
    row->stage_count = 0;
    for (int i = 0; i < sequence->count; i++)
        row->stage_count += instance->plan[sequence->plans[i]].stage_count;
    double *transfers = tg_arena_alloc(run->arena, (size_t)row->stage_count, sizeof *transfers);
    if (!plans || !transfers)
        return tg_fail(err, TG_EMEMORY, "out of memory");
    int behind = row->stage_count, stage = 0;
    for (int i = 0; i < sequence->count; i++) {
        const tg_partial *plan = &instance->plan[sequence->plans[i]];
        const tg_origin *origin = &origins[sequence->plans[i]];
        behind -= plan->stage_count;
        plans[i] = (tg_chosen){.query = {.island = plan->island,
                                         .first = plan->first,
                                         .last = plan->last,
                                         .microbatches = level->microbatches,
                                         .successors = behind},
                               .candidate = origin->compiled->candidate,
                               .max_successors = origin->compiled->max_successors};
        for (int s = 0; s + 1 < plan->stage_count; s++)
            transfers[stage++] = plan->inner_transfer_s[s];
        if (i + 1 < sequence->count)
            transfers[stage++] = tg_instance_transfer_s(instance, plan, &instance->plan[sequence->plans[i + 1]]);
    }
    row->transfer_s = transfers;
    row->choice = (tg_choice){
        .microbatches = level->microbatches, .count = sequence->count, .plans = plans, .time_s = sequence->time_s};
    return TG_OK;
}

static tg_status keep_candidates(const tg_run *run, tg_choice *choice, tg_error *err)
{
    tg_chosen *plans = tg_arena_alloc(run->arena, (size_t)choice->count, sizeof *plans);
    for (int i = 0; plans && i < choice->count; i++) {
        plans[i] = choice->plans[i];
        plans[i].candidate = copy_candidate(run->arena, choice->plans[i].candidate);
        if (!plans[i].candidate)
            return tg_fail(err, TG_EMEMORY, "out of memory");
    }
    choice->plans = plans;
    return plans ? TG_OK : tg_fail(err, TG_EMEMORY, "out of memory");
}

static bool comes_before(const tg_best_row *a, const tg_best_row *b)
{
    return a->value < b->value || (a->value == b->value && a->choice.microbatches > b->choice.microbatches);
}

tg_status tg_best_take(tg_best *best, const tg_run *run, const tg_level *level, const tg_instance *instance,
                       const tg_origin *origins, const tg_composition *found, tg_error *err)
{
    bool paper = run->options->compose.objective == TG_PAPER;
    for (int t = 0; t < found->top_count; t++) {
        tg_best_row row = {.paper_s = found->paper_s};
        tg_status status = make_row(run, level, instance, origins, &found->top[t], &row, err);
        if (status != TG_OK)
            return status;
        row.value = paper && t == 0 ? found->paper_s : row.choice.time_s;
        if (t == 0)
            row.warmup = copy(run->arena, found->warmup, (size_t)found->stage_count, sizeof *found->warmup);
        bool known = false;
        for (int i = 0; i < best->count && !known; i++)
            known = same_choice(&best->at[i].choice, &row.choice);
        int at = best->count;
        while (at > 0 && comes_before(&row, &best->at[at - 1]))
            at--;
        if (known || at == best->room)
            continue;
        status = keep_candidates(run, &row.choice, err);
        if (status != TG_OK)
            return status;
        memmove(best->at + at + 1, best->at + at, (size_t)(best->count - at) * sizeof *best->at);
        best->at[at] = row;
        best->count += best->count < best->room;
        best->improved += at == 0;
    }
    return TG_OK;
}

tg_left_out tg_best_limit(const tg_best_row *row)
{
    tg_left_out limit = {.found = true, .best_with_s = row->choice.time_s};
    int stage = 0;
    for (int i = 0; i < row->choice.count; i++) {
        const tg_chosen *plan = &row->choice.plans[i];
        for (int s = 0; s < plan->candidate->stage_count; s++, stage++) {
            double busy_s = plan->candidate->stages[s].forward_s + plan->candidate->stages[s].backward_s;
            if (busy_s > limit.bound_each_s) {
                limit.bound_each_s = busy_s;
                limit.by_link = false;
                limit.bound_island = plan->query.island;
            }
            if (stage + 1 < row->stage_count && row->transfer_s[stage] > limit.bound_each_s) {
                bool outer = s + 1 == plan->candidate->stage_count;
                limit.bound_each_s = row->transfer_s[stage];
                limit.by_link = true;
                limit.bound_island = plan->query.island;
                limit.bound_to_island = outer ? row->choice.plans[i + 1].query.island : plan->query.island;
            }
        }
    }
    return limit;
}

void tg_best_report(const tg_best *best, const tg_run *run, double bound_s, tg_enumeration *out)
{
    const tg_best_row *first = &best->at[0];
    tg_choice *top = tg_arena_alloc(run->arena, (size_t)best->count, sizeof *top);
    for (int i = 0; top && i < best->count; i++)
        top[i] = best->at[i].choice;
    out->best = first->choice;
    out->top = top;
    out->top_count = top ? best->count : 0;
    out->stage_count = first->stage_count;
    out->warmup = first->warmup;
    out->transfer_s = first->transfer_s;
    out->paper_s = first->paper_s;
    double gap_asked = run->options->compose.gap;
    if (run->options->compose.objective == TG_PAPER) {
        /* The certificate is about T; conclude by the least T not excluded (COMPOSITION.md, section 3). */
        out->bound_s = fmin(bound_s, first->choice.time_s);
        out->gap = bound_s < first->paper_s ? 1 - bound_s / first->paper_s : 0;
    } else {
        out->bound_s = fmin(bound_s, first->choice.time_s);
        out->gap = 1 - out->bound_s / first->choice.time_s;
    }
    out->proved = out->gap <= gap_asked + 1e-12;
}
