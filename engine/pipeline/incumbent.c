#include "pipeline/incumbent.h"

#include <math.h>
#include <string.h>

static const double tie = 1e-12; /* relative; nearer values count as equal */

tg_status tg_incumbent_make(tg_arena *arena, const tg_problem *problem, tg_incumbent *out, tg_error *err)
{
    const size_t top = (size_t)problem->options->top, kinds = (size_t)problem->instance->islands;
    const size_t stages = (size_t)problem->most_stages;
    *out = (tg_incumbent){.problem = problem};
    out->found = tg_arena_alloc(arena, top + 1, sizeof *out->found);
    out->island_of = tg_arena_alloc(arena, kinds, sizeof *out->island_of);
    out->next = tg_arena_alloc(arena, kinds, sizeof *out->next);
    bool fits = out->found && out->island_of && out->next;
    for (size_t i = 0; i <= top && fits; i++) {
        out->found[i].plans = tg_arena_alloc(arena, kinds, sizeof(int));
        out->found[i].warmup = tg_arena_alloc(arena, stages, sizeof(int));
        fits = out->found[i].plans && out->found[i].warmup;
    }
    return fits ? TG_OK : tg_fail(err, TG_EMEMORY, "out of memory");
}

double tg_incumbent_limit(const tg_incumbent *incumbent)
{
    const tg_compose_options *options = incumbent->problem->options;
    if (incumbent->count < options->top)
        return options->cutoff;
    return fmin(options->cutoff, incumbent->found[incumbent->count - 1].value);
}

/* Ties: fewest GPUs, then fewest stages, then the lexicographically first list of (first atom, island, plan index). */
static bool better(const tg_incumbent *incumbent, const tg_found *a, const tg_found *b)
{
    if (fabs(a->value - b->value) > tie * fmax(a->value, b->value))
        return a->value < b->value;
    if (a->gpus != b->gpus)
        return a->gpus < b->gpus;
    if (a->stage_count != b->stage_count)
        return a->stage_count < b->stage_count;
    const tg_partial *plan = incumbent->problem->instance->plan;
    for (int i = 0; i < a->count && i < b->count; i++) {
        const tg_partial *p = &plan[a->plans[i]], *q = &plan[b->plans[i]];
        if (p->first != q->first)
            return p->first < q->first;
        if (p->island != q->island)
            return p->island < q->island;
        if (a->plans[i] != b->plans[i])
            return a->plans[i] < b->plans[i];
    }
    return a->count < b->count;
}

/* Moves the entry behind the last into its place; false if it is no better than the last of a full list. The same
 * sequence comes again when a later search goes over it, with another time only if deeper warm-ups were out of reach
 * before. */
static bool insert(tg_incumbent *incumbent)
{
    tg_found *found = incumbent->found, fresh = found[incumbent->count];
    for (int i = 0; i < incumbent->count; i++) {
        if (found[i].count != fresh.count ||
            memcmp(found[i].plans, fresh.plans, (size_t)fresh.count * sizeof(int)) != 0)
            continue;
        if (fresh.value >= found[i].value)
            return true;
        const tg_found old = found[i];
        incumbent->count--;
        memmove(&found[i], &found[i + 1], (size_t)(incumbent->count - i) * sizeof *found);
        found[incumbent->count] = fresh;
        found[incumbent->count + 1] = old; /* its arrays serve again */
        break;
    }
    int at = incumbent->count;
    while (at > 0 && better(incumbent, &fresh, &found[at - 1])) {
        found[at] = found[at - 1];
        at--;
    }
    found[at] = fresh;
    if (incumbent->count < incumbent->problem->options->top) {
        incumbent->count++;
        return true;
    }
    return at < incumbent->count;
}

/* The next way to name the islands in lexicographic order, each piece one of its kind's members; false after the last.
 */
static bool next_names(tg_incumbent *incumbent, const tg_piece *const *pieces, int count)
{
    const tg_problem *problem = incumbent->problem;
    int *member = incumbent->island_of;
    for (int i = count - 1; i >= 0; i--) {
        int kind = pieces[i]->kind, members = problem->member_start[kind + 1] - problem->member_start[kind];
        for (int m = member[i] + 1; m < members; m++) {
            bool taken = false;
            for (int j = 0; j < i; j++)
                taken |= pieces[j]->kind == kind && member[j] == m;
            if (taken)
                continue;
            member[i] = m;
            for (int j = i + 1; j < count; j++) { /* the least names for those behind */
                for (member[j] = 0, taken = true; taken; member[j] += taken) {
                    taken = false;
                    for (int l = 0; l < j; l++)
                        taken |= pieces[l]->kind == pieces[j]->kind && member[l] == member[j];
                }
            }
            return true;
        }
    }
    return false;
}

void tg_incumbent_offer(tg_incumbent *incumbent, const tg_piece *const *pieces, int count, double value, double time_s,
                        const int *warmup)
{
    const tg_problem *problem = incumbent->problem;
    const tg_instance *instance = problem->instance;
    if (value >= problem->options->cutoff)
        return;
    memset(incumbent->next, 0, (size_t)problem->kinds * sizeof(int));
    for (int i = 0; i < count; i++)
        incumbent->island_of[i] = incumbent->next[pieces[i]->kind]++;
    bool kept = true;
    for (bool more = true; more && kept; more = next_names(incumbent, pieces, count)) {
        tg_found *fresh = &incumbent->found[incumbent->count];
        fresh->value = value;
        fresh->time_s = time_s;
        fresh->count = count;
        fresh->gpus = fresh->stage_count = 0;
        for (int i = 0; i < count; i++) {
            int island = problem->members[problem->member_start[pieces[i]->kind] + incumbent->island_of[i]];
            fresh->plans[i] = problem->rank[problem->rank_start[island] + pieces[i]->plan];
            fresh->gpus += instance->plan[fresh->plans[i]].gpus;
            fresh->stage_count += pieces[i]->stage_count;
        }
        memcpy(fresh->warmup, warmup, (size_t)fresh->stage_count * sizeof(int));
        kept = insert(incumbent);
    }
}
