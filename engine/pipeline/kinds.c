/* Which islands are equal: same rows of plans, same links to all others and among themselves. */
#include "pipeline/problem.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const uint64_t odd = 0x9e3779b97f4a7c15U, odd2 = 0xbf58476d1ce4e5b9U;

typedef struct {
    const tg_instance *instance;
    int *content_of;  /* by plan */
    int *class_rank;  /* by class: its place among its island's */
    uint64_t *sum;    /* by island: hash of its plans in any order */
    int *most_stages; /* by island: of any plan */
    bool *sorted;     /* by island: whether compare_rows orders its rows */
    int *spare;       /* as many as plans */
} making;

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
static void sort_rows(const making *m, int *rows, int count)
{
    if (count < 2)
        return;
    int half = count / 2, *spare = m->spare;
    sort_rows(m, rows, half);
    sort_rows(m, rows + half, count - half);
    if (compare_rows(m, rows[half - 1], rows[half]) <= 0)
        return;
    memcpy(spare, rows, (size_t)count * sizeof *rows);
    for (int i = 0, j = half, k = 0; k < count; k++)
        rows[k] = j == count || (i < half && compare_rows(m, spare[i], spare[j]) <= 0) ? spare[i++] : spare[j++];
}

static void sort_island(const making *m, const tg_problem *problem, int island)
{
    if (!m->sorted[island])
        sort_rows(m, problem->rank + problem->rank_start[island],
                  problem->rank_start[island + 1] - problem->rank_start[island]);
    m->sorted[island] = true;
}

static uint64_t row_hash(const making *m, int p)
{
    const tg_partial *plan = &m->instance->plan[p];
    uint64_t hash = ((uint64_t)plan->first << 32 ^ (uint64_t)plan->last) * odd + (uint64_t)m->content_of[p];
    hash = (hash ^ (hash >> 31)) * odd2 + (uint64_t)plan->max_successors;
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

static uint64_t rows_hash(making *m, const tg_problem *problem, int island)
{
    uint64_t sum = m->sum[island];
    if (sum == 0)
        for (int at = problem->rank_start[island]; at < problem->rank_start[island + 1]; at++)
            sum += row_hash(m, problem->rank[at]);
    return m->sum[island] = sum;
}

/* Lists each island's plans as they come, or sorted where that does not go by first atoms. */
static void list_by_island(making *m, tg_problem *out)
{
    const tg_instance *instance = m->instance;
    for (int p = 0; p < instance->plans; p++)
        out->rank_start[instance->plan[p].island + 1]++;
    for (int i = 0; i < instance->islands; i++)
        out->rank_start[i + 1] += out->rank_start[i];
    for (int p = instance->plans - 1; p >= 0; p--) {
        const tg_partial *plan = &instance->plan[p];
        const int island = plan->island;
        out->rank[--out->rank_start[island + 1]] = p;
        m->most_stages[island] =
            plan->stage_count > m->most_stages[island] ? plan->stage_count : m->most_stages[island];
    }
    /* The loop above moved each end to its start: shift back. */
    memmove(out->rank_start, out->rank_start + 1, (size_t)instance->islands * sizeof *out->rank_start);
    out->rank_start[instance->islands] = instance->plans;
    for (int i = 0; i < instance->islands; i++)
        for (int at = out->rank_start[i] + 1; at < out->rank_start[i + 1] && !m->sorted[i]; at++)
            if (instance->plan[out->rank[at]].first < instance->plan[out->rank[at - 1]].first)
                sort_island(m, out, i);
}

/* Joins equal islands. One without plans is left out, and one that must be used keeps to itself. */
bool tg_problem_find_kinds(tg_arena *arena, tg_problem *out)
{
    const tg_instance *instance = out->instance;
    making work = {.instance = instance, .content_of = out->content_of}, *m = &work;
    const size_t I = (size_t)instance->islands, C = (size_t)instance->classes;
    int *class_count = tg_arena_alloc(arena, I, sizeof *class_count),
        *kind_of = tg_arena_alloc(arena, I, sizeof *kind_of);
    int **class_of = tg_arena_alloc(arena, I, sizeof *class_of);
    int *first = tg_arena_alloc(arena, I, sizeof *first), *size = tg_arena_alloc(arena, I, sizeof *size);
    work.sorted = tg_arena_alloc(arena, I, sizeof *work.sorted);
    work.spare = malloc(((size_t)instance->plans + 1) * sizeof *work.spare);
    work.class_rank = tg_arena_alloc(arena, C, sizeof *work.class_rank);
    work.sum = tg_arena_alloc(arena, I, sizeof *work.sum);
    work.most_stages = tg_arena_alloc(arena, I, sizeof *work.most_stages);
    bool fits = work.class_rank && work.sum && work.most_stages && work.sorted && work.spare && class_count &&
                kind_of && class_of && first && size;
    for (size_t i = 0; i < I && fits; i++)
        fits = (class_of[i] = tg_arena_alloc(arena, C, sizeof **class_of)) != NULL;
    if (!fits) {
        free(work.spare);
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
            if (i == out->options->required_island || j == out->options->required_island ||
                count != out->rank_start[j + 1] - out->rank_start[j] || class_count[i] != class_count[j] ||
                !links_exchange(m, (const int *const *)class_of, class_count, j, i))
                continue;
            if (!m->sorted[j] && equal_islands(m, out, i, j))
                break; /* mostly they are listed alike */
            if (rows_hash(m, out, i) != rows_hash(m, out, j))
                continue;
            for (int member = j; member < i; member++)
                if (kind_of[member] == k)
                    sort_island(m, out, member);
            sort_island(m, out, i);
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
    free(work.spare);
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
    for (int k = 0; k < out->kinds; k++)
        out->most_stages += work.most_stages[first[k]] * tg_kind_size(out, k);
    return true;
}
