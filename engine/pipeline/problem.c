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

static uint64_t content_hash(const tg_partial *plan)
{
    uint64_t hash = (uint64_t)TG_HASH_START + (uint64_t)plan->stage_count;
    for (int s = 0; s < plan->stage_count; s++) {
        hash = mix_double(hash, plan->stages[s].forward_s);
        hash = mix_double(hash, plan->stages[s].backward_s);
        hash = mix_double(hash, plan->stages[s].sync_s);
        hash = mix_double(hash, plan->stages[s].max_inflight);
        if (s + 1 < plan->stage_count)
            hash = mix_double(hash, plan->inner_transfer_s[s]);
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
    *content = (tg_content){.stages = plan->stages, .inner_transfer_s = plan->inner_transfer_s, .stage_count = S};
    double r = 0, sum_f = 0, e = 0, behind = 0, bottleneck = 0, sync = 0;
    for (int s = S - 1; s >= 0; s--) { /* from the rear: R from stage s to the plan's end */
        const tg_stage_time *stage = &plan->stages[s];
        double inner = s + 1 < S ? plan->inner_transfer_s[s] : 0;
        r = stage->forward_s + stage->backward_s + 2 * inner + behind;
        behind = r;
        e = fmax(stage->sync_s + r, s + 1 < S ? stage->forward_s + inner + e : 0);
        sum_f += stage->forward_s + inner;
        double t = stage->forward_s + stage->backward_s;
        if (options->objective == TG_PAPER) {
            bottleneck = fmax(bottleneck, fmax(t, inner));
            sync = fmax(sync, stage->sync_s);
        } else {
            bottleneck = fmax(bottleneck, B * t + stage->sync_s);
        }
    }
    content->r = r;
    const tg_stage_time *front = &plan->stages[0], *rear = &plan->stages[S - 1];
    content->front_s = front->forward_s + front->backward_s;
    content->rear_forward_s = rear->forward_s;
    content->rear_backward_s = rear->backward_s;
    content->rear_s = rear->forward_s + rear->backward_s;
    content->rear_sync_s = rear->sync_s;
    content->rear_lead = r - content->rear_s;
    content->rear_lead_f = sum_f - rear->forward_s;
    if (options->objective == TG_PAPER) {
        /* T of a suffix takes the place of E and of X: T' = max(r + 2c + T, r + R' + (B-1) max(bottleneck, c) + sync).
         */
        content->e = content->f = r;
        content->bottleneck_s = r + ((B - 1) * bottleneck + sync);
    } else {
        content->e = e;
        content->f = sum_f;
        content->bottleneck_s = bottleneck;
    }
}

TG_VEC(contents, tg_content);

/* Gives equal plans one content. */
static bool find_contents(tg_arena *arena, making *m, const tg_compose_options *options, tg_problem *out)
{
    const tg_instance *instance = m->instance;
    size_t slots = 16;
    while (slots < 2 * (size_t)instance->plans)
        slots *= 2;
    int *table = calloc(slots, sizeof *table);
    if (!table)
        return false;
    contents found = {0};
    bool fits = true;
    for (int p = 0; p < instance->plans && fits; p++) {
        const tg_partial *plan = &instance->plan[p];
        uint64_t hash = content_hash(plan);
        size_t at = (size_t)(hash & (slots - 1));
        while (table[at] && !content_equal(&found.at[table[at] - 1], plan))
            at = (at + 1) & (slots - 1);
        if (!table[at]) {
            tg_content content;
            describe(&content, plan, options, instance->microbatches);
            fits = contents_push(&found, content);
            table[at] = (int)found.count;
        }
        m->content_of[p] = table[at] - 1;
    }
    free(table);
    out->contents = (int)found.count;
    out->content = tg_arena_alloc(arena, found.count, sizeof *out->content);
    fits = fits && out->content;
    if (fits && found.count)
        memcpy(out->content, found.at, found.count * sizeof *found.at);
    contents_free(&found);
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
    /* Pieces refer to canonical classes from here on. */
    memcpy(m->class_rank, canonical, C * sizeof *canonical);
    return true;
}

static bool list_pieces(tg_arena *arena, const making *m, tg_problem *out)
{
    const tg_instance *instance = m->instance;
    int total = 0;
    for (int k = 0; k < out->kinds; k++) {
        int island = out->members[out->member_start[k]], most = 0;
        for (int at = out->rank_start[island]; at < out->rank_start[island + 1]; at++) {
            const tg_partial *plan = &instance->plan[out->rank[at]];
            out->piece_start[plan->last]++;
            total++;
            most = plan->stage_count > most ? plan->stage_count : most;
        }
        out->most_stages += most * (out->member_start[k + 1] - out->member_start[k]);
    }
    out->pieces = total;
    out->piece = tg_arena_alloc(arena, (size_t)total, sizeof *out->piece);
    int *fill = tg_arena_alloc(arena, (size_t)out->atoms + 1, sizeof *fill);
    if (!out->piece || !fill)
        return false;
    for (int i = 1; i <= out->atoms; i++) {
        out->piece_start[i] += out->piece_start[i - 1];
        fill[i] = out->piece_start[i - 1];
    }
    for (int k = 0; k < out->kinds; k++) {
        int island = out->members[out->member_start[k]];
        for (int at = out->rank_start[island]; at < out->rank_start[island + 1]; at++) {
            int p = out->rank[at];
            const tg_partial *plan = &instance->plan[p];
            out->piece[fill[plan->last]++] = (tg_piece){.content = m->content_of[p],
                                                        .plan = at - out->rank_start[island],
                                                        .first = plan->first,
                                                        .kind = k,
                                                        .stage_count = plan->stage_count,
                                                        .front_class = m->class_rank[plan->front_class],
                                                        .rear_class = m->class_rank[plan->rear_class],
                                                        .min_successors = plan->min_successors,
                                                        .max_successors = plan->max_successors};
        }
    }
    return true;
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
    m.content_of = malloc((P + 1) * sizeof *m.content_of);
    m.class_rank = tg_arena_alloc(arena, C, sizeof *m.class_rank);
    m.sum = tg_arena_alloc(arena, I, sizeof *m.sum);
    out->members = tg_arena_alloc(arena, I, sizeof *out->members);
    out->member_start = tg_arena_alloc(arena, I + 1, sizeof *out->member_start);
    out->rank = tg_arena_alloc(arena, P, sizeof *out->rank);
    out->rank_start = tg_arena_alloc(arena, I + 1, sizeof *out->rank_start);
    out->piece_start = tg_arena_alloc(arena, (size_t)instance->atoms + 1, sizeof *out->piece_start);
    bool fits = m.content_of && m.class_rank && m.sum && out->members && out->member_start && out->rank &&
                out->rank_start && out->piece_start;
    fits = fits && find_contents(arena, &m, options, out) && find_kinds(arena, &m, out) && list_pieces(arena, &m, out);
    free(m.content_of);
    return fits ? TG_OK : tg_fail(err, TG_EMEMORY, "out of memory");
}
