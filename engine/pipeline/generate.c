/* Random instances in the likeness of real ones: a model of equal layers between a light embedding and a head, islands
 * of 2 to 8 GPUs of unlike speed, plans of 1, 2 or 4 stages with and without recompute, and memory that bounds what is
 * in flight. As for an adapter whose answers are reused, slices of equal content on equal islands have equal plans.
 * Only sums, products and divisions are used, so that the same arguments give the same instance on every machine. */
#include "pipeline/instance.h"

#include <stdio.h>

enum { MICROBATCHES = 64, MOST_GENERATED_ATOMS = 4096, MOST_GENERATED_ISLANDS = 64, MOST_VARIANTS = 64 };

static uint64_t mix(uint64_t x) /* SplitMix64 */
{
    x += 0x9e3779b97f4a7c15ULL;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
    return x ^ (x >> 31);
}

static double uniform(uint64_t *state, double least, double most)
{
    *state = mix(*state);
    return least + (most - least) * ((double)(*state >> 11) / 9007199254740992.0);
}

static int choose(uint64_t *state, int count)
{
    return (int)uniform(state, 0, count);
}

typedef struct {
    int gpus;
    double speed;           /* layers of 0.1 s a second and GPU */
    double capacity_layers; /* weights of that many layers fit into a GPU */
} kind;

/* Work of atom i in layers. */
static double atom_work(int i, int atoms)
{
    return atoms > 1 && i == 0 ? 0.1 : atoms > 2 && i == atoms - 1 ? 0.7 : 1.0;
}

/* A plan of kind k for slice [first, last): the stages are cut as evenly as whole atoms allow. */
static bool make_plan(tg_arena *arena, uint64_t state, const kind *k, int atoms, int first, int last, tg_partial *plan)
{
    int splits = 1, limit = k->gpus < last - first ? k->gpus : last - first;
    while (splits < 3 && (1 << splits) <= limit)
        splits++;
    int count = 1 << choose(&state, splits);
    bool recompute = choose(&state, 3) == 0;
    double efficiency = uniform(&state, 0.8, 1.0), gpus = (double)k->gpus / count;
    tg_stage_time *stages = tg_arena_alloc(arena, (size_t)count, sizeof *stages);
    double *inner = tg_arena_alloc(arena, (size_t)count, sizeof *inner);
    if (!stages || !inner)
        return false;
    plan->max_successors = TG_NO_LIMIT;
    for (int s = 0; s < count; s++) {
        double work = 0;
        for (int i = first + (last - first) * s / count; i < first + (last - first) * (s + 1) / count; i++)
            work += atom_work(i, atoms);
        double forward_s = 0.1 * work / (gpus * k->speed * efficiency) * uniform(&state, 0.97, 1.03);
        double weights = work / gpus, inflight = weights * (recompute ? 0.01 : 0.06);
        double room = (k->capacity_layers - weights) / inflight;
        int inflight_most = room < 1 ? 1 : room > 1000 ? 1000 : (int)room;
        stages[s] = (tg_stage_time){forward_s, forward_s * (recompute ? 3.0 : 2.0) * uniform(&state, 0.98, 1.1),
                                    0.02 * weights * uniform(&state, 0.8, 1.2), inflight_most};
        inner[s] = uniform(&state, 0.001, 0.004);
        int successors = inflight_most - 1 - (count - 1 - s);
        if (inflight_most < MICROBATCHES && successors < plan->max_successors)
            plan->max_successors = successors < 0 ? 0 : successors;
    }
    plan->stages = stages;
    plan->stage_count = count;
    plan->inner_transfer_s = inner;
    plan->gpus = k->gpus;
    return true;
}

static tg_status make_islands(tg_arena *arena, uint64_t seed, int islands, int kinds, kind *kind_of, tg_instance *out,
                              tg_error *err)
{
    uint64_t state = mix(seed);
    const char **names = tg_arena_alloc(arena, (size_t)islands, sizeof *names);
    tg_link *links = tg_arena_alloc(arena, (size_t)islands * (size_t)islands, sizeof *links);
    int *class_island = tg_arena_alloc(arena, (size_t)islands, sizeof *class_island);
    tg_link *between = tg_arena_alloc(arena, (size_t)kinds * (size_t)kinds, sizeof *between);
    if (!names || !links || !class_island || !between)
        return tg_fail(err, TG_EMEMORY, "out of memory");
    for (int k = 0; k < kinds; k++)
        kind_of[k] = (kind){2 << choose(&state, 3), uniform(&state, 0.7, 3.0), 0};
    double speed = 0;
    for (int i = 0; i < islands; i++)
        speed += kind_of[i % kinds].gpus * kind_of[i % kinds].speed;
    /* Room for 1.5 to 4 times the layers that the island's share of the speed gives it. */
    for (int k = 0; k < kinds; k++)
        kind_of[k].capacity_layers = uniform(&state, 1.5, 4.0) * out->atoms * kind_of[k].speed / speed;
    for (int i = 0; i < kinds * kinds; i++)
        between[i] = (tg_link){uniform(&state, 1e-5, 5e-5), uniform(&state, 2e9, 1.2e10)};
    for (int i = 0; i < islands; i++) {
        char name[32];
        snprintf(name, sizeof name, "%c%d", 'a' + i % kinds % 26, i / kinds + 1 + i % kinds / 26 * 100);
        names[i] = tg_arena_strdup(arena, name);
        if (!names[i])
            return tg_fail(err, TG_EMEMORY, "out of memory");
        class_island[i] = i;
        for (int j = 0; j < islands; j++)
            if (i != j)
                links[i * islands + j] = between[i % kinds * kinds + j % kinds];
    }
    out->names = names;
    out->links = links;
    out->class_island = class_island;
    return TG_OK;
}

tg_status tg_instance_generate(tg_arena *arena, uint64_t seed, int atoms, int islands, int variants, int kinds,
                               tg_instance *out, tg_error *err)
{
    if (atoms < 1 || atoms > MOST_GENERATED_ATOMS)
        return tg_fail(err, TG_EINPUT, "atoms: expected 1 to %d, got %d", MOST_GENERATED_ATOMS, atoms);
    if (islands < 1 || islands > MOST_GENERATED_ISLANDS)
        return tg_fail(err, TG_EINPUT, "islands: expected 1 to %d, got %d", MOST_GENERATED_ISLANDS, islands);
    if (variants < 1 || variants > MOST_VARIANTS)
        return tg_fail(err, TG_EINPUT, "variants: expected 1 to %d, got %d", MOST_VARIANTS, variants);
    if (kinds < 1 || kinds > islands)
        return tg_fail(err, TG_EINPUT, "kinds: expected 1 to the %d islands, got %d", islands, kinds);
    *out = (tg_instance){.atoms = atoms, .microbatches = MICROBATCHES, .islands = islands, .classes = islands};
    const size_t slices = (size_t)atoms * ((size_t)atoms + 1) / 2, signatures = (size_t)atoms * 4;
    kind *kind_of = tg_arena_alloc(arena, (size_t)kinds, sizeof *kind_of);
    tg_partial *made = tg_arena_alloc(arena, (size_t)kinds * signatures * (size_t)variants, sizeof *made);
    double *bytes = tg_arena_alloc(arena, (size_t)atoms, sizeof *bytes);
    tg_partial *plans = tg_arena_alloc(arena, slices * (size_t)islands * (size_t)variants, sizeof *plans);
    if (!kind_of || !made || !bytes || !plans)
        return tg_fail(err, TG_EMEMORY, "out of memory");
    tg_status status = make_islands(arena, seed, islands, kinds, kind_of, out, err);
    if (status != TG_OK)
        return status;
    for (int i = 0; i < atoms; i++)
        bytes[i] = 4194304.0 * 8;
    for (int first = 0; first < atoms; first++)
        for (int last = first + 1; last <= atoms; last++)
            for (int i = 0; i < islands; i++)
                for (int v = 0; v < variants; v++) {
                    size_t ends = (size_t)(first == 0) + 2 * (size_t)(last == atoms);
                    size_t signature =
                        ((size_t)(i % kinds) * signatures + (size_t)(last - first - 1) * 4 + ends) * (size_t)variants +
                        (size_t)v;
                    tg_partial *content = &made[signature];
                    if (!content->stages &&
                        !make_plan(arena, mix(seed ^ mix(signature)), &kind_of[i % kinds], atoms, first, last, content))
                        return tg_fail(err, TG_EMEMORY, "out of memory");
                    tg_partial *plan = &plans[out->plans++];
                    *plan = *content;
                    plan->island = plan->front_class = plan->rear_class = i;
                    plan->first = first;
                    plan->last = last;
                }
    out->boundary_bytes = bytes;
    out->plan = plans;
    return TG_OK;
}
