#include "pipeline/problem.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
    const tg_instance *instance;
    int *content_of; /* by plan */
    int *class_rank; /* by class: its place among its island's */
    uint64_t *sum;   /* by island: hash of its plans in any order */
} making;

static const uint64_t odd = 0x9e3779b97f4a7c15U, odd2 = 0xbf58476d1ce4e5b9U;

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

TG_VEC(contents, tg_content);

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
static int content_of_plan(const tg_partial *plan, table *by_content, contents *found, const tg_problem *problem)
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
        if (!contents_push(found, content))
            return -1;
        by_content->slot[at] = (int)found->count;
        by_content->count++;
    }
    return by_content->slot[at] - 1;
}

/* Gives equal plans one content. Plans that share their stages in memory, as moved answers do, are found by that. */
static bool find_contents(making *m, tg_problem *out)
{
    const tg_instance *instance = m->instance;
    table by_content = {0}, by_memory = {0};
    contents found = {0};
    bool fits = true;
    for (int p = 0; p < instance->plans && fits; p++) {
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
            m->content_of[p] = m->content_of[by_memory.slot[at] - 1];
            continue;
        }
        by_memory.slot[at] = p + 1;
        by_memory.count++;
        m->content_of[p] = content_of_plan(plan, &by_content, &found, out);
        fits = m->content_of[p] >= 0;
    }
    free(by_content.slot);
    free(by_memory.slot);
    out->contents = (int)found.count;
    out->content = found.at;
    return fits;
}

static int compare_rows(const making *m, int p, int q)
{
    const tg_partial *a = &m->instance->plan[p], *b = &m->instance->plan[q];
    const int keys[][2] = {{a->first, b->first},
                           {a->last, b->last},
                           {m->content_of[p], m->content_of[q]},
                           {a->max_successors, b->max_successors},
                           {a->min_successors, b->min_successors},
                           {a->gpus, b->gpus},
                           {m->class_rank[a->front_class], m->class_rank[b->front_class]},
                           {m->class_rank[a->rear_class], m->class_rank[b->rear_class]}};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (keys[i][0] != keys[i][1])
            return keys[i][0] < keys[i][1] ? -1 : 1;
    return 0;
}

/* A merge sort, since qsort has no context: rows of [first, first + count), stable, so that twins keep their order. */
static void sort_rows(const making *m, int *rows, int *spare, int count)
{
    if (count < 2)
        return;
    int half = count / 2;
    sort_rows(m, rows, spare, half);
    sort_rows(m, rows + half, spare, count - half);
    if (compare_rows(m, rows[half - 1], rows[half]) <= 0)
        return;
    memcpy(spare, rows, (size_t)count * sizeof *rows);
    for (int i = 0, j = half, k = 0; k < count; k++)
        rows[k] = j == count || (i < half && compare_rows(m, spare[i], spare[j]) <= 0) ? spare[i++] : spare[j++];
}

static uint64_t row_hash(const making *m, int p)
{
    const tg_partial *plan = &m->instance->plan[p];
    uint64_t hash = (uint64_t)plan->first * odd + (uint64_t)plan->last;
    hash = hash * odd2 + (uint64_t)m->content_of[p];
    hash = (hash ^ (hash >> 31)) * odd;
    hash += (uint64_t)plan->max_successors + ((uint64_t)plan->gpus << 32);
    return hash ^ (hash >> 29);
}

static bool same_link(const tg_instance *instance, int a, int b, int c, int d)
{
    const tg_link *x = &instance->links[(size_t)a * (size_t)instance->classes + (size_t)b];
    const tg_link *y = &instance->links[(size_t)c * (size_t)instance->classes + (size_t)d];
    return x->latency_s == y->latency_s && x->bytes_per_s == y->bytes_per_s;
}

/* Whether exchanging islands i and j, class by class, leaves every link as it is. */
static bool links_exchange(const making *m, const int *const *class_of, const int *class_count, int i, int j)
{
    const tg_instance *instance = m->instance;
    for (int t = 0; t < class_count[i]; t++) {
        int a = class_of[i][t], b = class_of[j][t];
        for (int z = 0; z < instance->classes; z++) {
            int island = instance->class_island[z];
            int image = island == i ? class_of[j][m->class_rank[z]] : island == j ? class_of[i][m->class_rank[z]] : z;
            if (!same_link(instance, a, z, b, image) || !same_link(instance, z, a, image, b))
                return false;
        }
    }
    return true;
}

static bool equal_islands(const making *m, const tg_problem *problem, int i, int j)
{
    int count = problem->rank_start[i + 1] - problem->rank_start[i];
    const int *a = problem->rank + problem->rank_start[i], *b = problem->rank + problem->rank_start[j];
    for (int k = 0; k < count; k++)
        if (compare_rows(m, a[k], b[k]) != 0)
            return false;
    return true;
}

static void list_by_island(making *m, tg_problem *out)
{
    const tg_instance *instance = m->instance;
    for (int p = 0; p < instance->plans; p++)
        out->rank_start[instance->plan[p].island + 1]++;
    for (int i = 0; i < instance->islands; i++)
        out->rank_start[i + 1] += out->rank_start[i];
    for (int p = instance->plans - 1; p >= 0; p--) {
        int island = instance->plan[p].island;
        out->rank[--out->rank_start[island + 1]] = p;
        m->sum[island] += row_hash(m, p);
    }
    /* The loop above moved each end to its start: shift back. */
    memmove(out->rank_start, out->rank_start + 1, (size_t)instance->islands * sizeof *out->rank_start);
    out->rank_start[instance->islands] = instance->plans;
}

/* Joins equal islands. One without plans is left out, and one that must be used keeps to itself. */
static bool find_kinds(tg_arena *arena, making *m, tg_problem *out)
{
    const tg_instance *instance = m->instance;
    const size_t I = (size_t)instance->islands, C = (size_t)instance->classes;
    int *class_count = tg_arena_alloc(arena, I, sizeof *class_count),
        *kind_of = tg_arena_alloc(arena, I, sizeof *kind_of);
    int **class_of = tg_arena_alloc(arena, I, sizeof *class_of),
        *spare = malloc(((size_t)instance->plans + 1) * sizeof *spare);
    int *first = tg_arena_alloc(arena, I, sizeof *first), *size = tg_arena_alloc(arena, I, sizeof *size);
    bool *sorted = tg_arena_alloc(arena, I, sizeof *sorted);
    bool fits = class_count && kind_of && class_of && spare && first && size && sorted;
    for (size_t i = 0; i < I && fits; i++)
        fits = (class_of[i] = tg_arena_alloc(arena, C, sizeof **class_of)) != NULL;
    if (!fits) {
        free(spare);
        return false;
    }
    for (int c = 0; c < instance->classes; c++) {
        int island = instance->class_island[c];
        m->class_rank[c] = class_count[island];
        class_of[island][class_count[island]++] = c;
    }
    list_by_island(m, out);
    for (int i = 0; i < instance->islands; i++) {
        int count = out->rank_start[i + 1] - out->rank_start[i], k = 0;
        kind_of[i] = -1;
        if (count == 0)
            continue;
        for (; k < out->kinds; k++) {
            int j = first[k];
            if (i == out->options->required_island || j == out->options->required_island || m->sum[i] != m->sum[j] ||
                count != out->rank_start[j + 1] - out->rank_start[j] || class_count[i] != class_count[j] ||
                !links_exchange(m, (const int *const *)class_of, class_count, j, i))
                continue;
            if (!sorted[j] && equal_islands(m, out, i, j))
                break; /* mostly they are listed alike */
            const int both[2] = {i, j};
            for (int s = 0; s < 2; s++)
                if (!sorted[both[s]]) {
                    sort_rows(m, out->rank + out->rank_start[both[s]], spare, count);
                    sorted[both[s]] = true;
                }
            if (equal_islands(m, out, i, j))
                break;
        }
        if (k == out->kinds)
            first[out->kinds++] = i;
        kind_of[i] = k;
        size[k]++;
        if (i == out->options->required_island)
            out->required_kind = k;
    }
    free(spare);
    for (int k = 0; k < out->kinds; k++)
        out->member_start[k + 1] = out->member_start[k] + size[k];
    int *fill = size;
    memset(fill, 0, I * sizeof *fill);
    for (int i = 0; i < instance->islands; i++)
        if (kind_of[i] >= 0)
            out->members[out->member_start[kind_of[i]] + fill[kind_of[i]]++] = i;
    /* Canonical classes: those of each kind's first island, in the island's order. */
    int *canonical = tg_arena_alloc(arena, C, sizeof *canonical);
    out->class_kind = tg_arena_alloc(arena, C, sizeof *out->class_kind);
    if (!canonical || !out->class_kind)
        return false;
    for (int k = 0; k < out->kinds; k++)
        for (int t = 0; t < class_count[first[k]]; t++) {
            canonical[class_of[first[k]][t]] = out->classes;
            out->class_kind[out->classes++] = k;
        }
    const size_t N = (size_t)out->classes;
    out->latency_s = tg_arena_alloc(arena, N * N, sizeof *out->latency_s);
    out->per_byte_s = tg_arena_alloc(arena, N * N, sizeof *out->per_byte_s);
    if (!out->latency_s || !out->per_byte_s)
        return false;
    for (int k = 0; k < out->kinds; k++)
        for (int l = 0; l < out->kinds; l++) {
            int i = first[k], j = first[l];
            if (k == l && out->member_start[k + 1] - out->member_start[k] > 1)
                j = out->members[out->member_start[k] + 1];
            for (int t = 0; t < class_count[i]; t++)
                for (int u = 0; u < class_count[j]; u++) {
                    const tg_link *link = &instance->links[(size_t)class_of[i][t] * C + (size_t)class_of[j][u]];
                    size_t at = (size_t)canonical[class_of[i][t]] * N + (size_t)canonical[class_of[first[l]][u]];
                    bool exists = link->bytes_per_s > 0;
                    out->latency_s[at] = exists ? link->latency_s : INFINITY;
                    out->per_byte_s[at] = exists ? 1 / link->bytes_per_s : 0;
                }
        }
    out->canonical = canonical;
    out->kind_of = kind_of;
    for (int k = 0; k < out->kinds; k++) {
        int most = 0;
        for (int at = out->rank_start[first[k]]; at < out->rank_start[first[k] + 1]; at++) {
            int stages = instance->plan[out->rank[at]].stage_count;
            most = stages > most ? stages : most;
        }
        out->most_stages += most * tg_kind_size(out, k);
    }
    return true;
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
                          tg_problem *out, tg_error *err)
{
    const size_t P = (size_t)instance->plans, I = (size_t)instance->islands, C = (size_t)instance->classes;
    *out = (tg_problem){.instance = instance,
                        .options = options,
                        .microbatches = instance->microbatches,
                        .atoms = instance->atoms,
                        .required_kind = -1};
    making m = {.instance = instance};
    m.content_of = out->content_of = malloc((P + 1) * sizeof *m.content_of);
    m.class_rank = tg_arena_alloc(arena, C, sizeof *m.class_rank);
    m.sum = tg_arena_alloc(arena, I, sizeof *m.sum);
    out->members = tg_arena_alloc(arena, I, sizeof *out->members);
    out->member_start = tg_arena_alloc(arena, I + 1, sizeof *out->member_start);
    out->rank = malloc((P + 1) * sizeof *out->rank);
    out->rank_start = tg_arena_alloc(arena, I + 1, sizeof *out->rank_start);
    out->group_start = tg_arena_alloc(arena, (size_t)instance->atoms + 2, sizeof *out->group_start);
    bool fits = m.content_of && m.class_rank && m.sum && out->members && out->member_start && out->rank &&
                out->rank_start && out->group_start;
    fits = fits && find_contents(&m, out) && find_kinds(arena, &m, out) && make_groups(out);
    return fits ? TG_OK : tg_fail(err, TG_EMEMORY, "out of memory");
}
