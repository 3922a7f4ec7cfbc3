#include <math.h>

#include "pipeline/partition_table_parts.h"

/* A row of stages is a map of what the pipeline has behind it (COMPOSITION.md, section 9). Of its constants, four tell
 * rows of equally many stages apart, in 1F1B with as many stages behind as asked for that take no time: latency r (with
 * the transfers inside, there and back), e (reach: how long after the first forward the last sync ends if no microbatch
 * waits), a0 (busy: from the front stage's first forward to its last backward's end) and x0 (end: to the iteration's).
 * They tell the order of stages; bottleneck, latency and largest sync, all that the paper's estimate needs, do not. A
 * row of fewer stages is not better for that: it leaves the stages in front of it fewer microbatches in flight.
 *
 * A stage put in front of two rows keeps the order of their r and e, and that of a0 and x0 but for what it waits for
 * beyond them (label.c), and for a transfer that depends on their front stages' GPUs. So nothing is proved, but of all
 * rows those kept missed the optimum hardly ever (rows_spec). */
enum { BOTTLENECK, LATENCY, SYNC, BUSY = BOTTLENECK, REACH = SYNC, END };

static int smaller(int a, int b)
{
    return a < b ? a : b;
}

double tg_table_transfer(const tg_partition_table *t, double bytes, int gpus, int next, int rest)
{
    const int node = t->spec.node, in_node = rest % node; /* GPUs of the node behind the border */
    if (in_node == 0) {
        const int nodes = smaller(gpus, next) < node ? 1 : smaller(gpus, next) / node;
        return t->spec.inter_latency_s +
               bytes / (t->spec.inter_bytes_per_s[smaller(smaller(gpus, next), node) - 1] * nodes);
    }
    const int first = node - in_node - gpus, last = node - in_node + next;
    int group = 1; /* the smallest aligned one that holds both, as in tg_transfer_inside */
    while (first / group != (last - 1) / group)
        group *= 2;
    return t->spec.intra_latency_s + bytes / t->spec.intra_bytes_per_s[smaller(group, node) - 1];
}

figures tg_table_least(const tg_partition_table *t, const tg_stage_option *front, double transfer_s,
                       const figures *behind, int stages, int successors)
{
    const int most = t->spec.spread ? t->spec.most_successors : successors, own = front->max_successors - stages + 1;
    const double time_s = front->time_s, rest_s = 2 * transfer_s + behind->at[LATENCY];
    figures least = {.bears = own < most ? own : most};
    if (stages > 1 && behind->bears < least.bears)
        least.bears = behind->bears;
    least.at[LATENCY] = time_s + rest_s;
    if (!t->spec.simulated) {
        least.at[BOTTLENECK] = fmax(time_s, behind->at[BOTTLENECK]);
        least.at[SYNC] = fmax(front->sync_s, behind->at[SYNC]);
        return least;
    }
    const int B = t->spec.microbatches, depth = tg_least_depth(successors + stages - 1, B - 1);
    const double waits_s = fmax(0, 2 * rest_s - depth * time_s); /* before the first and behind the last microbatch */
    least.at[BUSY] =
        fmax(time_s + 2 * transfer_s + behind->at[BUSY], B * time_s + (B > depth + 1 ? waits_s : waits_s / 2));
    least.at[REACH] = fmax(front->sync_s + least.at[LATENCY], front->forward_s + transfer_s + behind->at[REACH]);
    least.at[END] = fmax(front->sync_s + least.at[BUSY], front->forward_s + transfer_s + behind->at[END]);
    return least;
}

figures tg_table_measure(tg_partition_table *t, const tg_stage_option *front, double transfer_s, const label *behind,
                         int successors)
{
    static const figures nothing = {{0}, 0};
    const int stages = behind ? behind->stages + 1 : 1, B = t->spec.microbatches;
    figures all = tg_table_least(t, front, transfer_s, behind ? &behind->figures : &nothing, stages, successors);
    if (!t->spec.simulated || !behind)
        return all;
    tg_chain *chain = &t->chain;
    chain->count = behind->stages;
    for (const label *l = behind; l; l = l->behind) {
        const int k = l->stages - 1;
        chain->stage[k] = &l->time;
        chain->time_s[k] = l->time.forward_s + l->time.backward_s;
        chain->transfer_s[k] = l->transfer_s;
        chain->least[k] = chain->most[k] = tg_least_depth(successors + k, B);
    }
    const tg_stage_time time = {front->forward_s, front->time_s - front->forward_s, front->sync_s, 0};
    const int depth = tg_least_depth(successors + behind->stages, B);
    const tg_label pushed = tg_chain_push(chain, &time, transfer_s, depth, depth,
                                          (tg_label){.e = behind->figures.at[BUSY], .x = behind->figures.at[END]});
    all.at[BUSY] = pushed.e;
    all.at[END] = pushed.x;
    return all;
}
