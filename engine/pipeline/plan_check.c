#include <math.h>
#include <string.h>

#include "pipeline/plan.h"

/* Relative, for sums of a few numbers and for the simulation's order of operations. */
static const double slack = 1e-9;

static bool equal(double a, double b)
{
    return fabs(a - b) <= slack * fmax(fabs(a), fabs(b));
}

static tg_status check_atoms(const tg_plan *plan, int i, tg_error *err)
{
    const tg_plan_stage *s = &plan->stage[i];
    int expected = i ? plan->stage[i - 1].last : 0;
    if (s->first != expected)
        return tg_fail(err, TG_EINPUT, "stages[%d].first: is %d, but the atoms in front end at %d", i, s->first,
                       expected);
    if (s->last <= s->first)
        return tg_fail(err, TG_EINPUT, "stages[%d].last: is %d, so the stage from atom %d on is empty", i, s->last,
                       s->first);
    if (i == plan->stages - 1 && s->last != plan->atoms)
        return tg_fail(err, TG_EINPUT, "stages[%d].last: is %d, but the model has %d atoms", i, s->last, plan->atoms);
    if (plan->adapter_atoms)
        return TG_OK;
    bool embedding = s->first == 0, head = s->last == plan->atoms;
    if (s->has_embedding != embedding)
        return tg_fail(err, TG_EINPUT, "stages[%d].has_embedding: is %s, but atom 0 is %s [%d, %d)", i,
                       embedding ? "false" : "true", embedding ? "in" : "not in", s->first, s->last);
    if (s->has_head != head)
        return tg_fail(err, TG_EINPUT, "stages[%d].has_head: is %s, but atom %d is %s [%d, %d)", i,
                       head ? "false" : "true", plan->atoms - 1, head ? "in" : "not in", s->first, s->last);
    double blocks = s->last - s->first - embedding - head, layers = blocks / (plan->half ? 2 : 1);
    if (s->layers != layers)
        return tg_fail(err, TG_EINPUT, "stages[%d].layers: is %g, but atoms [%d, %d) hold %g", i, s->layers, s->first,
                       s->last, layers);
    if (s->recompute_layers >= 0 && s->recompute != TG_RECOMPUTE_FULL)
        return tg_fail(err, TG_EINPUT,
                       "stages[%d].strategy.recompute.layers: is %g, expected a count with 'full' alone", i,
                       s->recompute_layers);
    if (s->recompute_layers > blocks)
        return tg_fail(err, TG_EINPUT, "stages[%d].strategy.recompute.layers: is %g, but the stage has %g", i,
                       s->recompute_layers, blocks);
    return TG_OK;
}

/* taken: one flag for each GPU of the cluster, start: where each node's flags begin. */
static tg_status check_gpus(const tg_plan *plan, int i, bool *taken, const size_t *start, tg_error *err)
{
    const tg_plan_stage *s = &plan->stage[i];
    for (int g = 0; g < s->gpus_count; g++) {
        const tg_plan_gpus *gpus = &s->gpus[g];
        const char *node = plan->node[gpus->node].name;
        for (int other = 0; other < g; other++)
            if (s->gpus[other].node == gpus->node)
                return tg_fail(err, TG_EINPUT, "stages[%d].gpus[%d].node: '%s' is already gpus[%d]", i, g, node, other);
        int least = gpus->indices[0], most = least;
        for (int k = 0; k < gpus->count; k++) {
            bool *flag = &taken[start[gpus->node] + (size_t)gpus->indices[k]];
            if (*flag)
                return tg_fail(err, TG_EINPUT, "stages[%d].gpus[%d].indices: GPU %d of node '%s' is used twice", i, g,
                               gpus->indices[k], node);
            *flag = true;
            least = gpus->indices[k] < least ? gpus->indices[k] : least;
            most = gpus->indices[k] > most ? gpus->indices[k] : most;
        }
        if (s->gpus_count > 1 && gpus->count != s->gpus[0].count)
            return tg_fail(err, TG_EINPUT, "stages[%d].gpus[%d]: %d GPUs of node '%s', but %d of '%s': must be equal",
                           i, g, gpus->count, node, s->gpus[0].count, plan->node[s->gpus[0].node].name);
        /* A machine may have been cut into equal parts, each a node to the planner. */
        if (s->gpus_count > 1 && (least % gpus->count != 0 || most != least + gpus->count - 1))
            return tg_fail(
                err, TG_EINPUT,
                "stages[%d].gpus[%d]: a stage of several nodes takes whole nodes or aligned parts, not GPUs %d "
                "to %d of '%s'",
                i, g, least, most, node);
    }
    return TG_OK;
}

static tg_status check_degrees(const tg_plan *plan, int i, tg_error *err)
{
    const tg_plan_stage *s = &plan->stage[i];
    long long gpus = 0, degrees = (long long)s->dp * s->tp * s->cp, expert = (long long)s->ep * s->etp;
    for (int g = 0; g < s->gpus_count; g++)
        gpus += s->gpus[g].count;
    if (degrees != gpus)
        return tg_fail(err, TG_EINPUT, "stages[%d].strategy: dp %d * tp %d * cp %d = %lld, but the stage has %lld GPUs",
                       i, s->dp, s->tp, s->cp, degrees, gpus);
    if (s->gpus[0].count % s->tp != 0)
        return tg_fail(err, TG_EINPUT, "stages[%d].strategy.tp: %d does not divide the stage's %d GPUs a node", i,
                       s->tp, s->gpus[0].count);
    if (degrees % expert != 0)
        return tg_fail(err, TG_EINPUT, "stages[%d].strategy.ep: ep %d * etp %d does not divide the stage's %lld GPUs",
                       i, s->ep, s->etp, gpus);
    int samples = plan->global_batch / plan->microbatches;
    if (samples % s->dp != 0)
        return tg_fail(err, TG_EINPUT, "stages[%d].strategy.dp: %d does not divide the microbatch of %d samples", i,
                       s->dp, samples);
    return TG_OK;
}

static tg_status check_depth(const tg_plan *plan, int i, tg_error *err)
{
    const tg_plan_stage *s = &plan->stage[i];
    int behind = plan->stages - 1 - i, depth = plan->warmup[i];
    int least = behind < plan->microbatches ? behind : plan->microbatches;
    int inflight = depth + 1 < plan->microbatches ? depth + 1 : plan->microbatches;
    if (s->successors != behind)
        return tg_fail(err, TG_EINPUT, "stages[%d].successors: is %d, but %d stages are behind it", i, s->successors,
                       behind);
    if (depth < least)
        return tg_fail(err, TG_EINPUT, "warmup[%d]: is %d, but 1F1B needs at least %d there", i, depth, least);
    if (behind && depth < plan->warmup[i + 1])
        return tg_fail(err, TG_EINPUT, "warmup[%d]: is %d, less than %d of the stage behind", i, depth,
                       plan->warmup[i + 1]);
    if (behind && plan->p2p == TG_BLOCKING && depth > plan->warmup[i + 1] + 2)
        return tg_fail(err, TG_EINPUT,
                       "warmup[%d]: is %d, but blocking transfers allow at most %d, two more than behind", i, depth,
                       plan->warmup[i + 1] + 2);
    if (s->inflight != inflight)
        return tg_fail(err, TG_EINPUT, "stages[%d].inflight: is %d, but warmup %d of %d microbatches keeps %d", i,
                       s->inflight, depth, plan->microbatches, inflight);
    return TG_OK;
}

static tg_status check_memory(const tg_plan *plan, int i, tg_error *err)
{
    const tg_plan_stage *s = &plan->stage[i];
    double sum = 0, smallest = INFINITY;
    for (int use = 0; use < TG_BYTES_USES; use++)
        sum += s->bytes[use];
    for (int g = 0; g < s->gpus_count; g++)
        for (int k = 0; k < s->gpus[g].count; k++)
            smallest = fmin(smallest, plan->node[s->gpus[g].node].memory_bytes[s->gpus[g].indices[k]]);
    double capacity = (1 - plan->memory_margin) * smallest;
    if (!equal(sum, s->total_bytes))
        return tg_fail(err, TG_EINPUT, "stages[%d].memory.total_bytes: is %.17g, but its parts add up to %.17g", i,
                       s->total_bytes, sum);
    if (!equal(capacity, s->capacity_bytes))
        return tg_fail(
            err, TG_EINPUT,
            "stages[%d].memory.capacity_bytes: is %.17g, but a margin of %g leaves %.17g of the smallest GPU", i,
            s->capacity_bytes, plan->memory_margin, capacity);
    if (s->total_bytes > s->capacity_bytes * (1 + slack))
        return tg_fail(err, TG_EINPUT, "stages[%d].memory.total_bytes: is %.17g, %.17g more than the capacity", i,
                       s->total_bytes, s->total_bytes - s->capacity_bytes);
    return TG_OK;
}

static tg_status check_island(const tg_plan *plan, int i, tg_error *err)
{
    const char *name = plan->stage[i].island;
    for (int n = 0; n < plan->islands; n++)
        if (strcmp(plan->island[n].name, name) == 0)
            return plan->island[n].used
                       ? TG_OK
                       : tg_fail(err, TG_EINPUT, "stages[%d].island: islands[%d] '%.64s' says it is not used", i, n,
                                 name);
    return tg_fail(err, TG_EINPUT, "stages[%d].island: '%.64s' is not in islands", i, name);
}

static tg_status check_times(const tg_plan *plan, tg_error *err)
{
    double time_s;
    tg_status status = tg_plan_simulate(plan, &time_s, NULL, err);
    if (status != TG_OK)
        return status;
    if (!equal(time_s, plan->time_s))
        return tg_fail(err, TG_EINPUT, "time_s: is %.17g, but the stages simulate to %.17g", plan->time_s, time_s);
    if (plan->bound_s > plan->time_s * (1 + slack))
        return tg_fail(err, TG_EINPUT, "bound_s: is %.17g, more than time_s %.17g", plan->bound_s, plan->time_s);
    double gap = plan->time_s > 0 ? 1 - plan->bound_s / plan->time_s : 0;
    if (!plan->paper && fabs(gap - plan->gap) > slack)
        return tg_fail(err, TG_EINPUT, "gap: is %.17g, but 1 - bound_s / time_s is %.17g", plan->gap, gap);
    return TG_OK;
}

static tg_status check_stages(const tg_plan *plan, bool *taken, const size_t *start, tg_error *err)
{
    for (int i = 0; i < plan->stages; i++) {
        tg_status status = check_atoms(plan, i, err);
        if (status == TG_OK)
            status = check_island(plan, i, err);
        if (status == TG_OK)
            status = check_gpus(plan, i, taken, start, err);
        if (status == TG_OK)
            status = check_degrees(plan, i, err);
        if (status == TG_OK)
            status = check_depth(plan, i, err);
        if (status == TG_OK)
            status = check_memory(plan, i, err);
        if (status != TG_OK)
            return status;
    }
    return TG_OK;
}

tg_status tg_plan_check(const tg_plan *plan, tg_error *err)
{
    if (plan->global_batch % plan->microbatches != 0)
        return tg_fail(err, TG_EINPUT, "microbatches: %d does not divide the global batch of %d", plan->microbatches,
                       plan->global_batch);
    tg_arena arena = {0};
    size_t gpus = 0, *start = tg_arena_alloc(&arena, (size_t)plan->nodes, sizeof *start);
    for (int n = 0; start && n < plan->nodes; n++) {
        start[n] = gpus;
        gpus += (size_t)plan->node[n].gpus;
    }
    bool *taken = start ? tg_arena_alloc(&arena, gpus, sizeof *taken) : NULL;
    tg_status status = taken ? check_stages(plan, taken, start, err) : tg_fail(err, TG_EMEMORY, "out of memory");
    tg_arena_free(&arena);
    return status == TG_OK ? check_times(plan, err) : status;
}
