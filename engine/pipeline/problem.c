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

/* Open addressing, with what tells the entries apart beside them; content counts from 1, 0 is free. Grows with what it
 * holds, which is often far less than the plans. */
typedef struct {
    uint64_t hash;
    const tg_partial *plan; /* one whose stages lie there */
    int content;
} slot;

typedef struct {
    slot *slot;
    size_t slots, count;
} table;

static bool table_grow(table *t)
{
    const table old = *t;
    *t = (table){NULL, old.slots ? 2 * old.slots : 1024, old.count};
    t->slot = calloc(t->slots, sizeof *t->slot);
    for (size_t i = 0; t->slot && i < old.slots; i++)
        if (old.slot[i].content) {
            size_t at = (size_t)(old.slot[i].hash & (t->slots - 1));
            while (t->slot[at].content)
                at = (at + 1) & (t->slots - 1);
            t->slot[at] = old.slot[i];
        }
    free(old.slot);
    return t->slot != NULL;
}

/* Enters into a free slot; the table stays at most half full. */
static bool table_enter(table *t, size_t at, slot entry)
{
    t->slot[at] = entry;
    return 2 * ++t->count < t->slots || table_grow(t);
}

/* The content that equals a plan, or a new one; -1 when memory is out. */
static int content_of_plan(const tg_partial *plan, table *by_content, tg_contents *found, const tg_problem *problem)
{
    const uint64_t hash = stages_hash(plan->stages, plan->stage_count, plan->inner_transfer_s);
    const size_t mask = by_content->slots - 1;
    size_t at = (size_t)(hash & mask);
    for (; by_content->slot[at].content; at = (at + 1) & mask)
        if (by_content->slot[at].hash == hash && content_equal(&found->at[by_content->slot[at].content - 1], plan))
            return by_content->slot[at].content - 1;
    tg_content content;
    describe(&content, plan, problem->options, problem->microbatches);
    const bool fits = tg_contents_push(found, content);
    return fits && table_enter(by_content, at, (slot){hash, plan, (int)found->count}) ? (int)found->count - 1 : -1;
}

/* Gives equal plans one content. Plans that share their stages in memory, as moved answers do, are found by that. */
static bool find_contents(tg_problem *out, tg_halt *halt)
{
    const tg_instance *instance = out->instance;
    table by_content = {0}, by_memory = {0};
    tg_contents found = {0};
    bool fits = table_grow(&by_content) && table_grow(&by_memory);
    for (int p = 0; p < instance->plans && fits && (p % 64 != 0 || !tg_halted(halt, 64)); p++) {
        const tg_partial *plan = &instance->plan[p];
        uint64_t hash = (uint64_t)(uintptr_t)plan->stages * odd;
        hash ^= hash >> 32;
        const size_t mask = by_memory.slots - 1;
        size_t at = (size_t)(hash & mask);
        for (; by_memory.slot[at].content; at = (at + 1) & mask) {
            const slot *other = &by_memory.slot[at];
            if (other->hash == hash && other->plan->stages == plan->stages &&
                other->plan->inner_transfer_s == plan->inner_transfer_s &&
                other->plan->stage_count == plan->stage_count)
                break;
        }
        out->content_of[p] = by_memory.slot[at].content - 1;
        if (out->content_of[p] >= 0)
            continue;
        out->content_of[p] = content_of_plan(plan, &by_content, &found, out);
        fits = out->content_of[p] >= 0 && table_enter(&by_memory, at, (slot){hash, plan, out->content_of[p] + 1});
    }
    free(by_content.slot);
    free(by_memory.slot);
    out->contents = (int)found.count;
    out->content = found.at;
    return fits;
}

/* What is known of the plans of one last atom and kind while they are listed. */
typedef struct {
    int first; /* of the last one seen, -1: none */
    int plans, groups;
} bucket;

/* Walks the plans of the kinds' first islands, each kind's by first atoms. The first time they are counted, the second
 * time placed. */
static void walk_plans(tg_problem *out, bucket *buckets, bool place)
{
    const int buckets_count = (out->atoms + 1) * out->kinds;
    for (int i = 0; i < buckets_count; i++)
        buckets[i].first = -1;
    for (int k = 0; k < out->kinds; k++) {
        const int island = out->members[out->member_start[k]];
        for (int at = out->rank_start[island]; at < out->rank_start[island + 1]; at++) {
            const int p = out->rank[at];
            const tg_partial *plan = &out->instance->plan[p];
            bucket *in = &buckets[plan->last * out->kinds + k];
            const bool fresh = in->first != plan->first;
            in->first = plan->first;
            in->groups += fresh;
            if (place) {
                const double bottleneck_s = out->content[out->content_of[p]].bottleneck_s;
                tg_group *group = &out->group[in->groups - 1];
                if (fresh)
                    *group = (tg_group){.kind = k, .first = plan->first, .least_s = bottleneck_s};
                group->plans++;
                group->least_s = bottleneck_s < group->least_s ? bottleneck_s : group->least_s;
                out->listed[in->plans] = (tg_listed){at, out->content_of[p]};
            }
            in->plans++;
        }
    }
}

/* Lists and groups the plans of the kinds' first islands. */
static bool make_groups(tg_problem *out)
{
    const size_t count = (size_t)(out->atoms + 1) * (size_t)out->kinds;
    bucket *buckets = calloc(count + 1, sizeof *buckets);
    if (!buckets)
        return false;
    walk_plans(out, buckets, false);
    int plans = 0, groups = 0;
    for (size_t i = 0; i < count; i++) { /* from counts to places */
        const bucket in = buckets[i];
        if (i % (size_t)out->kinds == 0)
            out->group_start[i / (size_t)out->kinds] = groups;
        buckets[i].plans = plans;
        buckets[i].groups = groups;
        plans += in.plans;
        groups += in.groups;
    }
    out->group_start[out->atoms + 1] = groups;
    out->group = malloc(((size_t)groups + 1) * sizeof *out->group);
    out->listed = malloc(((size_t)plans + 1) * sizeof *out->listed);
    out->piece = malloc(((size_t)plans + 1) * sizeof *out->piece);
    const bool fits = out->group && out->listed && out->piece;
    if (fits)
        walk_plans(out, buckets, true);
    free(buckets);
    return fits;
}

void tg_problem_list_pieces(tg_problem *problem, double most_s)
{
    int place = 0, at = 0;
    problem->most_s = most_s;
    for (int g = 0; g < problem->group_start[problem->atoms + 1]; g++) {
        tg_group *group = &problem->group[g];
        const int end = at + group->plans;
        group->begin = place;
        for (; at < end && group->least_s < most_s; at++) {
            const tg_listed *listed = &problem->listed[at];
            const tg_content *content = &problem->content[listed->content];
            if (!(content->bottleneck_s < most_s))
                continue;
            const tg_partial *plan = &problem->instance->plan[problem->rank[listed->rank]];
            const tg_piece piece = {.content = listed->content,
                                    .plan = listed->rank - problem->rank_start[plan->island],
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
        at = end;
        group->end = place;
    }
}

void tg_problem_free(tg_problem *problem)
{
    free(problem->rank);
    free(problem->content);
    free(problem->piece);
    free(problem->group);
    free(problem->listed);
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
