#include "pipeline/reach.h"

#include <math.h>
#include <string.h>

enum { MOST_SETS = 4096, MOST_CELLS = 1 << 23 };
static const double precision = 0.01;

tg_status tg_reach_make(tg_arena *arena, const tg_problem *problem, tg_halt *halt, tg_reach *out, tg_error *err)
{
    const size_t K = (size_t)problem->kinds, L = (size_t)problem->atoms + 1;
    *out = (tg_reach){.problem = problem, .halt = halt, .sets = 1};
    out->stride = tg_arena_alloc(arena, K, sizeof *out->stride);
    if (!out->stride)
        return tg_fail(err, TG_EMEMORY, "out of memory");
    for (int k = 0; k < problem->kinds; k++) {
        long grown = (long)out->sets * (tg_kind_size(problem, k) + 1);
        if (grown > MOST_SETS || grown * (long)L > MOST_CELLS)
            continue;
        out->stride[k] = out->sets;
        out->sets = (int)grown;
    }
    out->counts_all = true;
    for (size_t k = 0; k < K; k++)
        out->counts_all &= out->stride[k] > 0;
    out->words = ((size_t)out->sets + 63) / 64;
    out->available = tg_arena_alloc(arena, (size_t)out->sets * K, sizeof *out->available);
    out->free_of = tg_arena_alloc(arena, K * out->words, sizeof *out->free_of);
    out->back = tg_arena_alloc(arena, L * out->words, sizeof *out->back);
    out->front = tg_arena_alloc(arena, L * out->words, sizeof *out->front);
    out->longest = tg_arena_alloc(arena, out->counts_all ? 1 : L * K, sizeof *out->longest);
    out->used = tg_arena_alloc(arena, K, sizeof *out->used);
    if (!out->available || !out->free_of || !out->back || !out->front || !out->longest || !out->used)
        return tg_fail(err, TG_EMEMORY, "out of memory");
    for (int set = 0; set < out->sets; set++)
        for (size_t k = 0; k < K; k++) {
            int size = tg_kind_size(problem, (int)k), stride = out->stride[k];
            bool available = !stride || set / stride % (size + 1) < size;
            out->available[(size_t)set * K + k] = available;
            out->free_of[k * out->words + (size_t)set / 64] |= (uint64_t)available << (set % 64);
        }
    return TG_OK;
}

/* to |= (from & mask) moved up by stride sets. */
static void add_up(uint64_t *to, const uint64_t *from, const uint64_t *mask, size_t words, size_t stride)
{
    if (words == 1) {
        *to |= (*from & *mask) << stride;
        return;
    }
    const size_t shift = stride % 64, skip = stride / 64;
    for (size_t word = 0; word < words; word++) {
        uint64_t bits = from[word] & mask[word];
        if (!bits)
            continue;
        to[word + skip] |= bits << shift;
        if (shift && word + skip + 1 < words)
            to[word + skip + 1] |= bits >> (64 - shift);
    }
}

/* to |= (from moved down by stride sets) & mask. */
static void add_down(uint64_t *to, const uint64_t *from, const uint64_t *mask, size_t words, size_t stride)
{
    if (words == 1) {
        *to |= *from >> stride & *mask;
        return;
    }
    const size_t shift = stride % 64, skip = stride / 64;
    for (size_t word = 0; word + skip < words; word++) {
        uint64_t bits = from[word + skip] >> shift;
        if (shift && word + skip + 1 < words)
            bits |= from[word + skip + 1] << (64 - shift);
        to[word] |= bits & mask[word];
    }
}

int tg_reach_spare(const tg_problem *problem, const int *longest, int boundary, const int *used)
{
    longest += (size_t)boundary * (size_t)problem->kinds;
    int atoms = 0;
    for (int k = 0; k < problem->kinds; k++)
        atoms += (tg_kind_size(problem, k) - used[k]) * longest[k];
    return atoms - boundary;
}

void tg_reach_find_longest(const tg_problem *problem, const tg_group *groups, const int *start, double most,
                           int *longest)
{
    const size_t K = (size_t)problem->kinds;
    for (int i = 1; i <= problem->atoms; i++) {
        longest += K;
        memcpy(longest, longest - K, K * sizeof *longest);
        for (int at = start[i]; at < start[i + 1]; at++)
            if (groups[at].least_s <= most && i - groups[at].first > longest[groups[at].kind])
                longest[groups[at].kind] = i - groups[at].first;
    }
}

/* Drops from the front the sets that leave too little for [0, boundary). */
static void drop_short(tg_reach *reach, int boundary)
{
    uint64_t *front = reach->front + (size_t)boundary * reach->words;
    const uint64_t *back = reach->back + (size_t)boundary * reach->words;
    for (int set = 0; set < reach->sets; set++) {
        const uint64_t bit = (uint64_t)1 << (set % 64);
        if (!(front[set / 64] & back[set / 64] & bit))
            continue;
        for (int k = 0; k < reach->problem->kinds; k++) {
            const int stride = reach->stride[k];
            reach->used[k] = stride ? set / stride % (tg_kind_size(reach->problem, k) + 1) : 0;
        }
        if (tg_reach_spare(reach->problem, reach->longest, boundary, reach->used) < 0)
            front[set / 64] &= ~bit;
    }
}

bool tg_reach_find(tg_reach *reach, const tg_group *groups, const int *start, double most, bool fronts)
{
    const tg_problem *problem = reach->problem;
    const size_t words = reach->words;
    const int L = problem->atoms;
    memset(reach->back, 0, ((size_t)L + 1) * words * sizeof *reach->back);
    reach->back[(size_t)L * words] = 1;
    for (int i = L; i > 0 && !tg_halted(reach->halt, 1); i--)
        for (int at = start[i]; at < start[i + 1]; at++) {
            const tg_group *group = &groups[at];
            if (group->least_s <= most)
                add_up(reach->back + (size_t)group->first * words, reach->back + (size_t)i * words,
                       reach->free_of + (size_t)group->kind * words, words, (size_t)reach->stride[group->kind]);
        }
    bool covered = false;
    if (!reach->counts_all)
        tg_reach_find_longest(problem, groups, start, most, reach->longest);
    for (size_t word = 0; word < words; word++)
        covered |= reach->back[word] != 0;
    if (!reach->counts_all) {
        memset(reach->used, 0, (size_t)problem->kinds * sizeof *reach->used);
        covered &= tg_reach_spare(problem, reach->longest, L, reach->used) >= 0;
    }
    covered &= reach->halt->stopped == TG_NOT_STOPPED;
    if (!covered || !fronts)
        return covered;
    memset(reach->front, 0, ((size_t)L + 1) * words * sizeof *reach->front);
    memset(reach->front, 0xff, words * sizeof *reach->front);
    for (int i = 1; i <= L && !tg_halted(reach->halt, 1); i++) {
        for (int at = start[i]; at < start[i + 1]; at++) {
            const tg_group *group = &groups[at];
            if (group->least_s <= most)
                add_down(reach->front + (size_t)i * words, reach->front + (size_t)group->first * words,
                         reach->free_of + (size_t)group->kind * words, words, (size_t)reach->stride[group->kind]);
        }
        if (!reach->counts_all)
            drop_short(reach, i);
    }
    return reach->halt->stopped == TG_NOT_STOPPED;
}

double tg_reach_least_bottleneck(tg_reach *reach)
{
    const tg_problem *problem = reach->problem;
    double low = INFINITY, high = 0;
    for (int i = 0; i < problem->group_start[problem->atoms + 1]; i++) {
        low = fmin(low, problem->group[i].least_s);
        high = fmax(high, problem->group[i].least_s);
    }
    if (isinf(low) || !tg_reach_find(reach, problem->group, problem->group_start, high, false))
        return reach->halt->stopped == TG_NOT_STOPPED ? INFINITY : 0;
    while (high - low > precision * high) {
        const double middle = low / 2 + high / 2;
        const bool covered = tg_reach_find(reach, problem->group, problem->group_start, middle, false);
        if (reach->halt->stopped != TG_NOT_STOPPED)
            break;
        *(covered ? &high : &low) = middle;
    }
    return low;
}
