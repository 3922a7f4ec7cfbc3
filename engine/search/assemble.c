#include "search/assemble.h"

/* Appends the plan for positions [from, to]. It may have been asked for on an equal island, whose link classes are
 * others. */
static void add(const tg_run *run, tg_instance *instance, tg_partial *plans, tg_origin *origins, int pair,
                const tg_pair *slice, const tg_compiled *compiled, int from, int to)
{
    if (from > to)
        return;
    tg_partial *plan = &plans[instance->plans];
    *plan = compiled->partial;
    plan->first = slice->first;
    plan->last = slice->last;
    int other = run->first_class[slice->island] - run->first_class[plan->island];
    plan->front_class += other;
    plan->rear_class += other;
    plan->island = slice->island;
    plan->min_successors = from;
    plan->max_successors = to;
    origins[instance->plans++] = (tg_origin){.pair = pair, .compiled = compiled};
}

tg_status tg_assemble(const tg_run *run, const tg_level *level, bool hopeful, tg_arena *arena, tg_instance *out,
                      tg_origin **origins, tg_error *err)
{
    const tg_problem *problem = run->problem;
    size_t room = 0;
    for (int i = 0; i < run->pair_count; i++)
        if (!level->pairs[i].dropped_by)
            for (size_t a = 0; a < level->classes[level->pairs[i].class].asked.count; a++)
                room += (size_t)level->classes[level->pairs[i].class].asked.at[a].count;
    tg_partial *plans = tg_arena_alloc(arena, room, sizeof *plans);
    *origins = tg_arena_alloc(arena, room, sizeof **origins);
    if (!plans || !*origins)
        return tg_fail(err, TG_EMEMORY, "out of memory");
    *out = (tg_instance){.atoms = problem->atom_count,
                         .microbatches = level->microbatches,
                         .boundary_bytes = level->boundary_bytes,
                         .islands = problem->island_count,
                         .names = run->names,
                         .classes = run->link_class_count,
                         .class_island = run->class_island,
                         .links = run->links,
                         .plan = plans};
    for (int i = 0; i < run->pair_count; i++) {
        const tg_pair *pair = &level->pairs[i];
        const tg_pair_class *class = &level->classes[pair->class];
        for (size_t a = 0; a < class->asked.count && !pair->dropped_by; a++) {
            const tg_asked *asked = &class->asked.at[a];
            int next = a + 1 < class->asked.count ? class->asked.at[a + 1].successors - 1 : TG_NO_LIMIT;
            for (int c = 0; c < asked->count; c++) {
                const tg_compiled *compiled = &asked->compiled[c];
                bool hopes =
                    hopeful && compiled->max_successors < next && compiled->max_successors >= asked->successors;
                add(run, out, plans, *origins, i, pair, compiled, 0, hopes ? next : compiled->max_successors);
            }
        }
    }
    return TG_OK;
}
