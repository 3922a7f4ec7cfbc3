#include "cluster/place.h"

#include <math.h>

static tg_status place_stage(tg_arena *arena, const tg_island *island, size_t stage, size_t at, size_t gpus,
                             tg_stage_place *place, tg_error *err)
{
    size_t size = island->gpus_per_node, inside = at % size;
    if (gpus == 0)
        return tg_fail(err, TG_EINPUT, "stages[%zu]: gpus must be at least 1", stage);
    if (gpus > size - inside && (inside != 0 || gpus % size != 0))
        return tg_fail(
            err, TG_EINPUT,
            "stages[%zu]: %zu GPUs behind %zu others lie across nodes of %zu; a stage lies in one node or in "
            "whole nodes",
            stage, gpus, at, size);
    size_t count = (gpus + size - 1) / size;
    tg_gpu_range *ranges = tg_arena_alloc(arena, count, sizeof *ranges);
    if (!ranges)
        return tg_fail(err, TG_EMEMORY, "out of memory");
    for (size_t i = 0; i < count; i++)
        ranges[i] = (tg_gpu_range){island->nodes[at / size + i], inside, gpus < size ? gpus : size};
    *place = (tg_stage_place){ranges, count};
    return TG_OK;
}

tg_status tg_place(tg_arena *arena, const tg_island *island, const size_t *gpus, size_t count, size_t idle,
                   tg_stage_place *places, tg_error *err)
{
    size_t left = island->gpus;
    for (size_t s = 0; s < count; s++) {
        if (gpus[s] > left)
            return tg_fail(err, TG_EINPUT, "stages[%zu]: %zu GPUs, but only %zu of the %zu of island '%.120s' are left",
                           s, gpus[s], left, island->gpus, island->name);
        tg_status status = place_stage(arena, island, s, island->gpus - left, gpus[s], &places[s], err);
        if (status != TG_OK)
            return status;
        left -= gpus[s];
    }
    if (left != idle)
        return tg_fail(
            err, TG_EINPUT, "the stages take %zu of the %zu GPUs of island '%.120s', expected %zu (idle = %zu)",
            island->gpus - left, island->gpus, island->name, island->gpus - (idle < island->gpus ? idle : 0), idle);
    return TG_OK;
}

size_t tg_end_classes(tg_arena *arena, const tg_island *island, const tg_end_class **out)
{
    size_t count = island->gpus_per_node + island->node_count - 1;
    tg_end_class *classes = tg_arena_alloc(arena, count, sizeof *classes);
    for (size_t i = 0; classes && i < count; i++) {
        bool whole = i >= island->gpus_per_node;
        classes[i] = (tg_end_class){whole ? i - island->gpus_per_node + 2 : 1, whole ? island->gpus_per_node : i + 1};
    }
    *out = classes;
    return count;
}

static void take_slower(tg_transfer *slowest, const tg_wire *wire, size_t flows, size_t nodes)
{
    slowest->bytes_per_s = fmin(slowest->bytes_per_s, tg_rate_at(&wire->rate, flows) * (double)nodes);
    slowest->latency_s = fmax(slowest->latency_s, wire->latency_s);
}

static size_t smaller(size_t a, size_t b)
{
    return a < b ? a : b;
}

tg_transfer tg_transfer_between(const tg_cluster *cluster, const tg_island *a, tg_end_class class_a, const tg_island *b,
                                tg_end_class class_b)
{
    tg_transfer slowest = {0, INFINITY};
    size_t flows = smaller(class_a.gpus_per_node, class_b.gpus_per_node), nodes = smaller(class_a.nodes, class_b.nodes);
    for (size_t i = 0; i < a->node_count; i++)
        for (size_t j = 0; j < b->node_count; j++)
            take_slower(&slowest, tg_cluster_link(cluster, a->nodes[i], b->nodes[j]), flows, nodes);
    return slowest;
}

tg_transfer tg_transfer_inside(const tg_cluster *cluster, const tg_stage_place *a, const tg_stage_place *b)
{
    const tg_gpu_range *x = &a->ranges[0], *y = &b->ranges[0];
    if (x->node == y->node) { /* then each lies in that node alone */
        const tg_node *node = &cluster->nodes[x->node];
        size_t first = smaller(x->first, y->first), x_last = x->first + x->count, y_last = y->first + y->count;
        size_t last = x_last > y_last ? x_last : y_last;
        return (tg_transfer){node->intra_latency_s,
                             tg_node_intra_at(node, node->first_gpu + first, node->first_gpu + last)};
    }
    tg_transfer slowest = {0, INFINITY};
    size_t flows = smaller(x->count, y->count), nodes = smaller(a->range_count, b->range_count);
    for (size_t i = 0; i < a->range_count; i++)
        for (size_t j = 0; j < b->range_count; j++)
            take_slower(&slowest, tg_cluster_link(cluster, a->ranges[i].node, b->ranges[j].node), flows, nodes);
    return slowest;
}
