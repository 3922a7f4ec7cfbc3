#include "pipeline/problem.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const uint64_t odd = 0x9e3779b97f4a7c15U;

static uint64_t mix_double(uint64_t hash, double value)
{
    uint64_t bits;
    value += 0.0; /* -0 counts as 0 */
    memcpy(&bits, &value, sizeof bits);
    hash = (hash ^ bits) * odd;
    return hash ^ (hash >> 29);
}

static uint64_t stages_hash(const tg_stage_time *stages, int count, const double *inner_transfer_s)
{
    uint64_t hash = (uint64_t)TG_HASH_START + (uint64_t)count;
    for (int s = 0; s < count; s++) {
        hash = mix_double(hash, stages[s].forward_s);
        hash = mix_double(hash, stages[s].backward_s);
        hash = mix_double(hash, stages[s].sync_s);
        hash = mix_double(hash, stages[s].max_inflight);
        if (s + 1 < count)
            hash = mix_double(hash, inner_transfer_s[s]);
    }
    return hash;
}

static bool content_equal(const tg_content *content, const tg_partial *plan)
{
    if (content->stage_count != plan->stage_count)
        return false;
    if (content->stages == plan->stages && content->inner_transfer_s == plan->inner_transfer_s)
        return true;
    for (int s = 0; s < plan->stage_count; s++) {
        const tg_stage_time *a = &content->stages[s], *b = &plan->stages[s];
        if (a->forward_s != b->forward_s || a->backward_s != b->backward_s || a->sync_s != b->sync_s ||
            a->max_inflight != b->max_inflight)
            return false;
        if (s + 1 < plan->stage_count && content->inner_transfer_s[s] != plan->inner_transfer_s[s])
            return false;
    }
    return true;
}

static void describe(tg_content *content, const tg_partial *plan, const tg_compose_options *options, int microbatches)
{
    const int S = plan->stage_count;
    const double B = microbatches;
    double r = 0, sum_f = 0, e = 0, serial = 0, total = 0, bottleneck = 0, sync = 0;
    for (int s = S - 1; s >= 0; s--) {
        const tg_stage_time *stage = &plan->stages[s];
        const double inner = s + 1 < S ? plan->inner_transfer_s[s] : 0, t = stage->forward_s + stage->backward_s;
        r += t + 2 * inner; /* from stage s to the plan's end */
        e = fmax(stage->sync_s + r, s + 1 < S ? stage->forward_s + inner + e : 0);
        sum_f += stage->forward_s + inner;
        serial = fmax(serial, B * t);
        total = fmax(total, B * t + stage->sync_s);
        bottleneck = fmax(bottleneck, fmax(t, inner));
        sync = fmax(sync, stage->sync_s);
    }
    *content = (tg_content){.stages = plan->stages,
                            .inner_transfer_s = plan->inner_transfer_s,
                            .stage_count = S,
                            .r = r,
                            .e = e,
                            .f = sum_f,
                            .serial_s = serial,
                            .bottleneck_s = total,
                            .front_s = plan->stages[0].forward_s + plan->stages[0].backward_s};
    if (options->objective == TG_PAPER) {
        /* T of a suffix takes the place of E and X: T' = max(r + 2c + T, r + R' + (B-1) c, r + R' + (B-1) bottleneck +
         * sync) is the map with e = f = r, a1 = x1 = r + (B-1) bottleneck + sync and no other constants. */
        content->e = content->f = r;
        content->serial_s = content->bottleneck_s = r + ((B - 1) * bottleneck + sync);
    }
}

/* Open addressing; entries count from 1, 0 is free. Grows with what it holds, which is often far less than the plans.
 */
typedef struct {
    int *slot;
    size_t slots, count;
} table;

/* Doubles a table that is half full, placing its entries anew by their hashes. */
static bool table_room(table *t, uint64_t (*hash_of)(const void *items, int item), const void *items)
{
    if (2 * (t->count + 1) <= t->slots)
        return true;
    const table old = *t;
    *t = (table){NULL, old.slots ? 2 * old.slots : 1024, old.count};
    t->slot = calloc(t->slots, sizeof *t->slot);
    for (size_t i = 0; t->slot && i < old.slots; i++)
        if (old.slot[i]) {
            size_t at = (size_t)(hash_of(items, old.slot[i] - 1) & (t->slots - 1));
            while (t->slot[at])
                at = (at + 1) & (t->slots - 1);
            t->slot[at] = old.slot[i];
        }
    free(old.slot);
    return t->slot != NULL;
}

static uint64_t memory_hash(const void *plans, int p)
{
    const uint64_t hash = (uint64_t)(uintptr_t)((const tg_partial *)plans)[p].stages * odd;
    return hash ^ (hash >> 32);
}

static uint64_t hash_of_content(const void *contents_at, int i)
{
    const tg_content *content = &((const tg_content *)contents_at)[i];
    return stages_hash(content->stages, content->stage_count, content->inner_transfer_s);
}

/* The content that equals a plan, or a new one; -1 when memory is out. */
static int content_of_plan(const tg_partial *plan, table *by_content, tg_contents *found, const tg_problem *problem)
{
    if (!table_room(by_content, hash_of_content, found->at))
        return -1;
    const size_t mask = by_content->slots - 1;
    size_t at = (size_t)(stages_hash(plan->stages, plan->stage_count, plan->inner_transfer_s) & mask);
    while (by_content->slot[at] && !content_equal(&found->at[by_content->slot[at] - 1], plan))
        at = (at + 1) & mask;
    if (!by_content->slot[at]) {
        tg_content content;
        describe(&content, plan, problem->options, problem->microbatches);
        if (!tg_contents_push(found, content))
            return -1;
        by_content->slot[at] = (int)found->count;
        by_content->count++;
    }
    return by_content->slot[at] - 1;
}

/* Gives equal plans one content. Plans that share their stages in memory, as moved answers do, are found by that. */
static bool find_contents(tg_problem *out, tg_halt *halt)
{
    const tg_instance *instance = out->instance;
    table by_content = {0}, by_memory = {0};
    tg_contents found = {0};
    bool fits = true;
    for (int p = 0; p < instance->plans && fits && !tg_halted(halt, 4096); p++) {
        const tg_partial *plan = &instance->plan[p];
        fits = table_room(&by_memory, memory_hash, instance->plan);
        if (!fits)
            break;
        const size_t mask = by_memory.slots - 1;
        size_t at = (size_t)(memory_hash(instance->plan, p) & mask);
        for (; by_memory.slot[at]; at = (at + 1) & mask) {
            const tg_partial *other = &instance->plan[by_memory.slot[at] - 1];
            if (other->stages == plan->stages && other->inner_transfer_s == plan->inner_transfer_s &&
                other->stage_count == plan->stage_count)
                break;
        }
        if (by_memory.slot[at]) {
            out->content_of[p] = out->content_of[by_memory.slot[at] - 1];
            continue;
        }
        by_memory.slot[at] = p + 1;
        by_memory.count++;
        out->content_of[p] = content_of_plan(plan, &by_content, &found, out);
        fits = out->content_of[p] >= 0;
    }
    free(by_content.slot);
    free(by_memory.slot);
    out->contents = (int)found.count;
    out->content = found.at;
    return fits;
}

/* Stable counting sort of ranks by a key below keys. */
static bool sort_by(const int *from, int *to, int count, const int *key, int keys)
{
    int *start = calloc((size_t)keys + 1, sizeof *start);
    if (!start)
        return false;
    for (int i = 0; i < count; i++)
        start[key[i] + 1]++;
    for (int k = 0; k < keys; k++)
        start[k + 1] += start[k];
    for (int i = 0; i < count; i++)
        to[start[key[i]]++] = from[i];
    free(start);
    return true;
}

/* Orders the plans of the kinds' first islands by last, kind and first, and groups them. */
static bool make_groups(tg_problem *out)
{
    const tg_instance *instance = out->instance;
    for (int k = 0; k < out->kinds; k++) {
        int island = out->members[out->member_start[k]];
        out->listed += out->rank_start[island + 1] - out->rank_start[island];
    }
    const size_t room = (size_t)out->listed + 1;
    int *order = malloc(3 * room * sizeof *order);
    out->order = order;
    if (!order)
        return false;
    int *other = order + room, *key = order + 2 * room, count = 0;
    for (int k = 0; k < out->kinds; k++) {
        int island = out->members[out->member_start[k]];
        for (int at = out->rank_start[island]; at < out->rank_start[island + 1]; at++)
            order[count++] = at;
    }
    for (int i = 0; i < count; i++)
        key[i] = instance->plan[out->rank[order[i]]].first;
    bool fits = sort_by(order, other, count, key, out->atoms);
    for (int i = 0; i < count; i++)
        key[i] = out->kind_of[instance->plan[out->rank[other[i]]].island];
    fits = fits && sort_by(other, order, count, key, out->kinds);
    for (int i = 0; i < count; i++)
        key[i] = instance->plan[out->rank[order[i]]].last;
    fits = fits && sort_by(order, other, count, key, out->atoms + 1);
    memcpy(order, other, (size_t)count * sizeof *order);
    tg_groups groups = {0};
    for (int i = 0, last = 0; i < count && fits; i++) {
        const tg_partial *plan = &instance->plan[out->rank[order[i]]];
        const int kind = out->kind_of[plan->island];
        const double bottleneck_s = out->content[out->content_of[out->rank[order[i]]]].bottleneck_s;
        tg_group *group = groups.count ? &groups.at[groups.count - 1] : NULL;
        for (; last < plan->last; last++) {
            out->group_start[last + 1] = (int)groups.count;
            group = NULL;
        }
        if (group && group->kind == kind && group->first == plan->first) {
            group->plans++;
            group->least_s = bottleneck_s < group->least_s ? bottleneck_s : group->least_s;
        } else {
            fits = tg_groups_push(&groups,
                                  (tg_group){.kind = kind, .first = plan->first, .plans = 1, .least_s = bottleneck_s});
        }
        out->group_start[last + 1] = (int)groups.count;
    }
    for (int i = count ? instance->plan[out->rank[order[count - 1]]].last : 0; i <= out->atoms; i++)
        out->group_start[i + 1] = (int)groups.count;
    out->group = groups.at;
    return fits;
}

tg_status tg_problem_list_pieces(tg_problem *problem, double most_s, tg_error *err)
{
    const tg_instance *instance = problem->instance;
    int count = 0, place = 0, at = 0;
    problem->most_s = most_s;
    for (int i = 0; i < problem->listed; i++)
        count += problem->content[problem->content_of[problem->rank[problem->order[i]]]].bottleneck_s < most_s;
    free(problem->piece);
    problem->piece = malloc((size_t)count * sizeof *problem->piece + 1);
    if (!problem->piece)
        return tg_fail(err, TG_EMEMORY, "out of memory");
    for (int g = 0; g < problem->group_start[problem->atoms + 1]; g++) {
        tg_group *group = &problem->group[g];
        group->begin = place;
        for (int end = at + group->plans; at < end; at++) {
            const int rank = problem->order[at], p = problem->rank[rank];
            const tg_content *content = &problem->content[problem->content_of[p]];
            if (!(content->bottleneck_s < most_s))
                continue;
            const tg_partial *plan = &instance->plan[p];
            const tg_piece piece = {.content = problem->content_of[p],
                                    .plan = rank - problem->rank_start[plan->island],
                                    .first = plan->first,
                                    .kind = (int16_t)group->kind,
                                    .stage_count = (int16_t)plan->stage_count,
                                    .front_class = (int16_t)problem->canonical[plan->front_class],
                                    .rear_class = (int16_t)problem->canonical[plan->rear_class],
                                    .min_successors = plan->min_successors,
                                    .max_successors = plan->max_successors,
                                    .bottleneck_s = content->bottleneck_s};
            int to = place++;
            for (; to > group->begin && piece.bottleneck_s < problem->piece[to - 1].bottleneck_s; to--)
                problem->piece[to] = problem->piece[to - 1];
            problem->piece[to] = piece;
        }
        group->end = place;
    }
    return TG_OK;
}

void tg_problem_free(tg_problem *problem)
{
    free(problem->rank);
    free(problem->content);
    free(problem->piece);
    free(problem->group);
    free(problem->order);
    free(problem->content_of);
}

tg_status tg_problem_make(tg_arena *arena, const tg_instance *instance, const tg_compose_options *options,
                          tg_halt *halt, tg_problem *out, tg_error *err)
{
    const size_t P = (size_t)instance->plans, I = (size_t)instance->islands;
    *out = (tg_problem){.instance = instance,
                        .options = options,
                        .microbatches = instance->microbatches,
                        .atoms = instance->atoms,
                        .required_kind = -1};
    out->content_of = malloc((P + 1) * sizeof *out->content_of);
    out->members = tg_arena_alloc(arena, I, sizeof *out->members);
    out->member_start = tg_arena_alloc(arena, I + 1, sizeof *out->member_start);
    out->rank = malloc((P + 1) * sizeof *out->rank);
    out->rank_start = tg_arena_alloc(arena, I + 1, sizeof *out->rank_start);
    out->group_start = tg_arena_alloc(arena, (size_t)instance->atoms + 2, sizeof *out->group_start);
    bool fits =
        out->content_of && out->members && out->member_start && out->rank && out->rank_start && out->group_start;
    fits = fits && find_contents(out, halt);
    fits = fits && (tg_halted(halt, 1) || tg_problem_find_kinds(arena, out));
    fits = fits && (tg_halted(halt, 1) || make_groups(out));
    return fits ? TG_OK : tg_fail(err, TG_EMEMORY, "out of memory");
}
