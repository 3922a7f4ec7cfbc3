#include "cluster/islands.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cluster/units.h"

enum { JOIN_TWINS_PAST = 16 }; /* nodes; up to here every partition is looked at */

static tg_status out_of_memory(tg_error *err)
{
    return tg_fail(err, TG_EMEMORY, "out of memory");
}

static tg_status check_tolerance(const char *name, double x, tg_error *err)
{
    if (!(x >= 0))
        return tg_fail(err, TG_EINPUT, "tolerance.%s: expected a number of at least 0, got %g", name, x);
    return TG_OK;
}

/* Splits the nodes of an island into equal parts: each starts with the first node left and takes, one by one, the node
 * with the fastest slowest link to the part. Writes the number of each node's part. */
static void split(const tg_cluster *cluster, const size_t *nodes, size_t count, size_t size, size_t *part_of)
{
    for (size_t i = 0; i < count; i++)
        part_of[i] = SIZE_MAX;
    for (size_t part = 0; part < count / size; part++)
        for (size_t filled = 0; filled < size; filled++) {
            size_t next = count;
            double fastest = -1;
            for (size_t i = 0; i < count; i++) {
                if (part_of[i] != SIZE_MAX)
                    continue;
                double slowest = INFINITY;
                for (size_t j = 0; j < count; j++)
                    if (part_of[j] == part)
                        slowest = fmin(slowest, tg_rate_at(&tg_cluster_link(cluster, nodes[i], nodes[j])->rate, 1));
                if (next == count || slowest > fastest) {
                    next = i;
                    fastest = slowest;
                }
            }
            part_of[next] = part;
        }
}

/* label: for each node a number of its island, of labels; splits the large ones, which takes more labels. */
static bool split_labels(tg_arena *arena, const tg_units *units, size_t split_nodes, size_t *label, size_t *labels)
{
    const tg_cluster *cluster = units->cluster;
    size_t n = cluster->node_count, before = *labels;
    size_t *nodes = tg_arena_alloc(arena, 2 * n, sizeof *nodes);
    if (!nodes)
        return false;
    size_t *part_of = nodes + n;
    for (size_t l = 0; l < before; l++) {
        size_t count = 0;
        for (size_t i = 0; i < n; i++)
            if (label[units->order[i]] == l)
                nodes[count++] = units->order[i];
        if (count <= split_nodes || count % split_nodes != 0)
            continue;
        split(cluster, nodes, count, split_nodes, part_of);
        for (size_t i = 0; i < count; i++)
            if (part_of[i] > 0)
                label[nodes[i]] = *labels + part_of[i] - 1;
        *labels += count / split_nodes - 1;
    }
    return true;
}

/* Numbers the islands by their smallest name and lists their nodes in the cluster's order. */
static bool list_islands(tg_arena *arena, const tg_units *units, const size_t *label, size_t labels, tg_islands *out)
{
    size_t n = units->cluster->node_count;
    size_t *number = tg_arena_alloc(arena, labels, sizeof *number);
    size_t *island_of = tg_arena_alloc(arena, n, sizeof *island_of);
    size_t *nodes = tg_arena_alloc(arena, n, sizeof *nodes);
    out->islands = tg_arena_alloc(arena, labels, sizeof *out->islands);
    if (!number || !island_of || !nodes || !out->islands)
        return false;
    for (size_t l = 0; l < labels; l++)
        number[l] = labels;
    for (size_t i = 0; i < n; i++) {
        size_t l = label[units->order[i]];
        if (number[l] == labels)
            number[l] = out->count++;
        island_of[units->order[i]] = number[l];
    }
    for (size_t i = 0; i < out->count; i++) {
        tg_island *island = &out->islands[i];
        island->nodes = nodes;
        for (size_t node = 0; node < n; node++)
            if (island_of[node] == i)
                nodes[island->node_count++] = node;
        nodes += island->node_count;
    }
    out->island_of = island_of;
    return true;
}

/* The types of the island's GPUs, each once, in the order of its nodes. */
static const char *gpu_types(tg_arena *arena, const tg_cluster *cluster, const tg_island *island)
{
    const char *types = "";
    for (size_t i = 0; i < island->node_count; i++) {
        const char *gpu = cluster->nodes[island->nodes[i]].gpu;
        bool known = false;
        for (size_t j = 0; j < i && !known; j++)
            known = strcmp(gpu, cluster->nodes[island->nodes[j]].gpu) == 0;
        if (known)
            continue;
        size_t size = strlen(types) + strlen(gpu) + 2;
        char *longer = tg_arena_alloc(arena, size, 1);
        if (!longer)
            return NULL;
        snprintf(longer, size, "%s%s%s", types, *types ? "+" : "", gpu);
        types = longer;
    }
    return types;
}

static uint64_t hash_number(uint64_t hash, double x)
{
    return tg_hash_bytes(hash, &x, sizeof x);
}

static uint64_t hash_rate(uint64_t hash, const tg_rate *rate)
{
    for (size_t i = 0; i < rate->count; i++) {
        hash = hash_number(hash, (double)rate->steps[i].size);
        hash = hash_number(hash, rate->steps[i].bytes_per_s);
    }
    return hash_number(hash, (double)rate->count);
}

/* By nodes and pairs of nodes in order, so that an equal hash means an equal time of anything inside the island; some
 * islands that are equal but for the order of their nodes get different ones. */
static uint64_t sign(const tg_cluster *cluster, const tg_island *island)
{
    uint64_t hash = hash_number(TG_HASH_START, (double)island->gpus_per_node);
    for (size_t i = 0; i < island->node_count; i++) {
        const tg_node *node = &cluster->nodes[island->nodes[i]];
        hash = tg_hash_text(tg_hash_text(hash, node->gpu), node->facts);
        hash = hash_number(hash_number(hash, node->compute_flops), node->memory_bytes);
        hash = hash_rate(hash_number(hash, node->intra_latency_s), &node->intra);
        hash = hash_number(hash_number(hash, (double)node->physical_gpus), (double)node->first_gpu);
        for (size_t j = 0; j < i; j++) {
            const tg_wire *wire = tg_cluster_link(cluster, island->nodes[i], island->nodes[j]);
            hash = hash_rate(hash_number(hash, wire->latency_s), &wire->rate);
        }
    }
    return hash;
}

static bool slowest_wire(tg_arena *arena, const tg_cluster *cluster, tg_island *island)
{
    const tg_wire *before = NULL; /* most pairs share one wire */
    for (size_t i = 0; i < island->node_count; i++)
        for (size_t j = 0; j < i; j++) {
            const tg_wire *wire = tg_cluster_link(cluster, island->nodes[i], island->nodes[j]);
            if (wire == before)
                continue;
            before = wire;
            if (island->inter.rate.count == 0)
                island->inter = *wire;
            else if (!tg_rate_slower(arena, &island->inter.rate, &wire->rate, &island->inter.rate))
                return false;
            island->inter.latency_s = fmax(island->inter.latency_s, wire->latency_s);
        }
    return true;
}

/* Fills in all figures of an island whose nodes are listed. */
static bool describe(tg_arena *arena, const tg_cluster *cluster, tg_island *island)
{
    const tg_node *first = &cluster->nodes[island->nodes[0]];
    island->gpus_per_node = first->gpus;
    island->compute_flops = first->compute_flops;
    island->memory_bytes = first->memory_bytes;
    island->intra = first->intra;
    island->intra_latency_s = first->intra_latency_s;
    for (size_t i = 1; i < island->node_count; i++) {
        const tg_node *node = &cluster->nodes[island->nodes[i]];
        if (node->gpus < island->gpus_per_node)
            island->gpus_per_node = node->gpus;
        island->compute_flops = fmin(island->compute_flops, node->compute_flops);
        island->memory_bytes = fmin(island->memory_bytes, node->memory_bytes);
        island->intra_latency_s = fmax(island->intra_latency_s, node->intra_latency_s);
        if (!tg_rate_slower(arena, &island->intra, &node->intra, &island->intra))
            return false;
    }
    island->gpus = island->node_count * island->gpus_per_node;
    island->gpu = gpu_types(arena, cluster, island);
    island->signature = sign(cluster, island);
    return island->gpu && slowest_wire(arena, cluster, island);
}

static bool taken(const tg_islands *islands, const char *name)
{
    for (size_t i = 0; i < islands->count; i++)
        if (islands->islands[i].name && strcmp(islands->islands[i].name, name) == 0)
            return true;
    return false;
}

/* The types of GPUs; -1, -2, … behind them where several islands have the same. */
static bool name_islands(tg_arena *arena, tg_islands *islands)
{
    for (size_t i = 0; i < islands->count; i++) {
        size_t alike = 0;
        for (size_t j = 0; j < islands->count; j++)
            alike += strcmp(islands->islands[i].gpu, islands->islands[j].gpu) == 0;
        if (alike == 1)
            islands->islands[i].name = islands->islands[i].gpu;
    }
    for (size_t i = 0; i < islands->count; i++) {
        tg_island *island = &islands->islands[i];
        if (island->name)
            continue;
        size_t size = strlen(island->gpu) + 24;
        char *name = tg_arena_alloc(arena, size, 1);
        if (!name)
            return false;
        size_t number = 1;
        do
            snprintf(name, size, "%s-%zu", island->gpu, number++);
        while (taken(islands, name));
        island->name = name;
    }
    return true;
}

/* Marks islands whose members differ by more than the tolerances, with whichever ones they were grouped. */
static tg_status mark_merged(tg_arena *arena, const tg_cluster *cluster, const tg_tolerance *tolerance, tg_islands *out,
                             tg_error *err)
{
    tg_units units; /* one a node */
    tg_status status = tg_units_build(arena, cluster, tolerance, NULL, 0, false, &units, err);
    for (size_t u = 0; status == TG_OK && u < units.count; u++)
        for (size_t v = 0; v < u; v++) {
            size_t island = out->island_of[units.order[u]];
            if (out->island_of[units.order[v]] == island && tg_units_differ(&units, u, v) < units.figures)
                out->islands[island].merged = true;
        }
    return status;
}

/* Labels each node with its island, and those of pins as pinned. */
static tg_status group_nodes(tg_arena *arena, const tg_units *units, const tg_islands_options *options, size_t *label,
                             bool *pinned, size_t *labels, bool *proved, tg_error *err)
{
    size_t *of_unit = tg_arena_alloc(arena, units->count, sizeof *of_unit);
    if (!of_unit)
        return out_of_memory(err);
    tg_status status = tg_units_partition(units, of_unit, labels, proved, err);
    if (status != TG_OK)
        return status;
    for (size_t u = 0; u < units->count; u++)
        for (size_t m = units->start[u]; m < units->start[u + 1]; m++)
            label[units->order[units->member[m]]] = of_unit[u];
    for (size_t p = 0; p < options->pin_count; p++, ++*labels)
        for (size_t i = 0; i < options->pins[p].count; i++) {
            label[options->pins[p].nodes[i]] = *labels;
            pinned[options->pins[p].nodes[i]] = true;
        }
    if (options->split_nodes > 0 && !split_labels(arena, units, options->split_nodes, label, labels))
        return out_of_memory(err);
    return TG_OK;
}

static tg_status describe_islands(tg_arena *arena, const tg_cluster *cluster, const tg_islands_options *options,
                                  const bool *pinned, tg_islands *out, tg_error *err)
{
    size_t *unsplit = tg_arena_alloc(arena, out->count, sizeof *unsplit);
    if (!unsplit)
        return out_of_memory(err);
    for (size_t i = 0; i < out->count; i++) {
        tg_island *island = &out->islands[i];
        island->pinned = pinned[island->nodes[0]];
        if (!describe(arena, cluster, island))
            return out_of_memory(err);
        if (options->split_nodes > 0 && island->node_count > options->split_nodes)
            unsplit[out->unsplit_count++] = i;
    }
    out->unsplit = unsplit;
    if (!name_islands(arena, out))
        return out_of_memory(err);
    tg_status status = mark_merged(arena, cluster, &options->tolerance, out, err);
    return status == TG_OK ? tg_islands_check_pins(arena, cluster, options, out, err) : status;
}

tg_status tg_islands_build(tg_arena *arena, const tg_cluster *cluster, const tg_islands_options *options,
                           tg_islands *out, tg_error *err)
{
    *out = (tg_islands){0};
    tg_status status = check_tolerance("compute", options->tolerance.compute, err);
    if (status == TG_OK)
        status = check_tolerance("memory", options->tolerance.memory, err);
    if (status == TG_OK)
        status = check_tolerance("intra", options->tolerance.intra, err);
    const tg_tolerance any = {INFINITY, INFINITY, INFINITY};
    size_t n = cluster->node_count, labels = 0;
    tg_units units;
    if (status == TG_OK)
        status = tg_units_build(arena, cluster, options->merged ? &any : &options->tolerance, options->pins,
                                options->pin_count, n > JOIN_TWINS_PAST, &units, err);
    if (status != TG_OK)
        return status;
    size_t *label = tg_arena_alloc(arena, n, sizeof *label);
    bool *pinned = tg_arena_alloc(arena, n, sizeof *pinned);
    if (!label || !pinned)
        return out_of_memory(err);
    status = group_nodes(arena, &units, options, label, pinned, &labels, &out->proved_fewest, err);
    if (status != TG_OK)
        return status;
    if (!list_islands(arena, &units, label, labels, out))
        return out_of_memory(err);
    return describe_islands(arena, cluster, options, pinned, out, err);
}
