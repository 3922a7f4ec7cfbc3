#include "cluster/cluster.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

double tg_rate_at(const tg_rate *rate, size_t size)
{
    size_t i = 0;
    while (i + 1 < rate->count && rate->steps[i + 1].size <= size)
        i++;
    return rate->steps[i].bytes_per_s;
}

const tg_wire *tg_cluster_link(const tg_cluster *cluster, size_t n, size_t m)
{
    return n == m ? NULL : &cluster->wires[cluster->wire_of[n * cluster->node_count + m]];
}

double tg_node_intra_at(const tg_node *node, size_t first, size_t last)
{
    size_t size = 1;
    while (first / size != (last - 1) / size)
        size *= 2;
    return tg_rate_at(&node->intra, size < node->physical_gpus ? size : node->physical_gpus);
}

size_t tg_cluster_find(const tg_cluster *cluster, const char *name)
{
    size_t n = 0;
    while (n < cluster->node_count && strcmp(cluster->nodes[n].name, name) != 0)
        n++;
    return n;
}

bool tg_rate_slower(tg_arena *arena, const tg_rate *a, const tg_rate *b, tg_rate *out)
{
    tg_rate_step *steps = tg_arena_alloc(arena, a->count + b->count, sizeof *steps);
    if (!steps)
        return false;
    size_t count = 0;
    for (size_t i = 0, j = 0; i < a->count || j < b->count; count++) {
        size_t x = i < a->count ? a->steps[i].size : SIZE_MAX, y = j < b->count ? b->steps[j].size : SIZE_MAX;
        size_t size = x < y ? x : y;
        steps[count] = (tg_rate_step){size, fmin(tg_rate_at(a, size), tg_rate_at(b, size))};
        i += x == size;
        j += y == size;
    }
    *out = (tg_rate){count, steps};
    return true;
}

static const tg_node_input *find_input(const tg_cluster_input *input, const char *name)
{
    for (size_t n = 0; n < input->node_count; n++)
        if (strcmp(input->nodes[n].name, name) == 0)
            return &input->nodes[n];
    return NULL;
}

static tg_status check_rate(const char *place, const char *field, const tg_rate *rate, tg_error *err)
{
    if (rate->count == 0)
        return tg_fail(err, TG_EINPUT, "%s: %s is missing, expected bytes per second", place, field);
    for (size_t i = 0; i < rate->count; i++) {
        if (rate->steps[i].size == 0 || (i > 0 && rate->steps[i].size <= rate->steps[i - 1].size))
            return tg_fail(err, TG_EINPUT, "%s: %s: sizes must be at least 1 and rise, got %zu", place, field,
                           rate->steps[i].size);
        if (!(rate->steps[i].bytes_per_s > 0) || !isfinite(rate->steps[i].bytes_per_s))
            return tg_fail(err, TG_EINPUT, "%s: %s must be above 0 and finite, got %g", place, field,
                           rate->steps[i].bytes_per_s);
    }
    return TG_OK;
}

static tg_status check_latency(const char *place, const char *field, double latency_s, tg_error *err)
{
    if (!(latency_s >= 0) || !isfinite(latency_s))
        return tg_fail(err, TG_EINPUT, "%s: %s must be at least 0 and finite, got %g", place, field, latency_s);
    return TG_OK;
}

static tg_status check_kind(const char *place, const tg_gpu_kind *kind, tg_error *err)
{
    if (!kind->gpu || !*kind->gpu)
        return tg_fail(err, TG_EINPUT, "%s: gpu is missing, expected the name of a GPU type", place);
    if (kind->count == 0)
        return tg_fail(err, TG_EINPUT, "%s: gpus must be at least 1", place);
    if (!(kind->compute_flops > 0) || !isfinite(kind->compute_flops))
        return tg_fail(err, TG_EINPUT, "%s: compute_flops must be above 0 and finite, got %g", place,
                       kind->compute_flops);
    if (!(kind->memory_bytes > 0) || !isfinite(kind->memory_bytes))
        return tg_fail(err, TG_EINPUT, "%s: memory_bytes must be above 0 and finite, got %g", place,
                       kind->memory_bytes);
    return TG_OK;
}

static tg_status check_node(const tg_cluster_input *input, size_t n, tg_error *err)
{
    const tg_node_input *node = &input->nodes[n];
    if (!node->name || !*node->name)
        return tg_fail(err, TG_EINPUT, "nodes[%zu]: name is missing", n);
    if (find_input(input, node->name) != node)
        return tg_fail(err, TG_EINPUT, "node '%s': two nodes have this name", node->name);
    char place[160];
    snprintf(place, sizeof place, "node '%.120s'", node->name);
    if (node->kind_count == 0)
        return tg_fail(err, TG_EINPUT, "%s: gpus must be at least 1", place);
    for (size_t k = 0; k < node->kind_count; k++) {
        tg_status status = check_kind(place, &node->kinds[k], err);
        if (status != TG_OK)
            return status;
    }
    tg_status status = check_rate(place, "intra_bytes_per_s", &node->intra, err);
    return status == TG_OK ? check_latency(place, "intra_latency_s", node->intra_latency_s, err) : status;
}

static tg_status check_link(const tg_cluster_input *input, size_t l, tg_error *err)
{
    const tg_link_input *link = &input->links[l];
    char place[320];
    for (int end = 0; end < 2; end++) {
        if (link->between[end] && find_input(input, link->between[end]))
            continue;
        const char *name = link->between[end] ? link->between[end] : "";
        const char **names = calloc(input->node_count + 1, sizeof *names);
        for (size_t n = 0; names && n < input->node_count; n++)
            names[n] = input->nodes[n].name;
        const char *nearest = names ? tg_nearest(name, names, input->node_count) : NULL;
        tg_fail(err, TG_EINPUT, "links[%zu]: between: there is no node '%.120s'%s%s%s", l, name,
                nearest ? " (did you mean '" : "", nearest ? nearest : "", nearest ? "'?)" : "");
        free(names);
        return TG_EINPUT;
    }
    snprintf(place, sizeof place, "link between '%.120s' and '%.120s'", link->between[0], link->between[1]);
    if (strcmp(link->between[0], link->between[1]) == 0)
        return tg_fail(err, TG_EINPUT, "%s: a link joins two nodes; inside a node it is intra_bytes_per_s", place);
    tg_status status = check_rate(place, "bytes_per_s", &link->wire.rate, err);
    return status == TG_OK ? check_latency(place, "latency_s", link->wire.latency_s, err) : status;
}

static tg_status check_input(const tg_cluster_input *input, tg_error *err)
{
    if (input->node_count == 0)
        return tg_fail(err, TG_EINPUT, "nodes: a cluster has at least one node");
    tg_status status = TG_OK;
    for (size_t n = 0; n < input->node_count && status == TG_OK; n++)
        status = check_node(input, n, err);
    for (size_t l = 0; l < input->link_count && status == TG_OK; l++)
        status = check_link(input, l, err);
    if (input->default_wire && status == TG_OK)
        status = check_rate("network", "default.bytes_per_s", &input->default_wire->rate, err);
    if (input->default_wire && status == TG_OK)
        status = check_latency("network", "default.latency_s", input->default_wire->latency_s, err);
    return status;
}

static bool copy_rate(tg_arena *arena, const tg_rate *from, tg_rate *to)
{
    tg_rate_step *steps = tg_arena_alloc(arena, from->count, sizeof *steps);
    if (!steps)
        return false;
    if (from->count > 0)
        memcpy(steps, from->steps, from->count * sizeof *steps);
    *to = (tg_rate){from->count, steps};
    return true;
}

static const char *part_name(tg_arena *arena, const tg_node *node, size_t first, size_t gpus)
{
    if (gpus == node->physical_gpus)
        return tg_arena_strdup(arena, node->physical_name);
    char indices[48];
    if (gpus == 1)
        snprintf(indices, sizeof indices, ":%zu", first);
    else
        snprintf(indices, sizeof indices, ":%zu-%zu", first, first + gpus - 1);
    size_t size = strlen(node->physical_name);
    char *name = tg_arena_alloc(arena, size + sizeof indices, 1);
    if (name) {
        memcpy(name, node->physical_name, size);
        strcpy(name + size, indices);
    }
    return name;
}

/* Appends a node of whole, which describes its machine, with the GPUs [first, first + gpus). */
static bool add_part(tg_arena *arena, tg_cluster *cluster, const tg_node *whole, size_t first, size_t gpus)
{
    tg_node *node = &cluster->nodes[cluster->node_count++];
    *node = *whole;
    node->first_gpu = first;
    node->gpus = gpus;
    node->name = part_name(arena, whole, first, gpus);
    node->physical_name = tg_arena_strdup(arena, whole->physical_name);
    node->gpu = tg_arena_strdup(arena, whole->gpu);
    node->facts = tg_arena_strdup(arena, whole->facts);
    return node->name && node->physical_name && node->gpu && node->facts &&
           copy_rate(arena, &whole->intra, &node->intra);
}

static tg_status out_of_memory(tg_error *err)
{
    return tg_fail(err, TG_EMEMORY, "out of memory");
}

/* Room for wires between machines and one for each two parts of one machine, and a matrix of node_count squared. */
static bool make_wires(tg_arena *arena, tg_cluster *cluster, size_t between_machines)
{
    size_t n = cluster->node_count, parts = 0;
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j < i; j++)
            parts += cluster->nodes[i].physical == cluster->nodes[j].physical;
    cluster->wires = tg_arena_alloc(arena, between_machines + parts, sizeof *cluster->wires);
    cluster->wire_of = tg_arena_alloc(arena, n * n, sizeof *cluster->wire_of);
    return cluster->wires && cluster->wire_of;
}

static bool wire_parts(tg_arena *arena, tg_cluster *cluster)
{
    size_t count = cluster->node_count;
    for (size_t n = 0; n < count; n++)
        for (size_t m = 0; m < n; m++) {
            const tg_node *a = &cluster->nodes[n], *b = &cluster->nodes[m];
            if (a->physical != b->physical)
                continue;
            tg_rate_step *step = tg_arena_alloc(arena, 1, sizeof *step);
            if (!step)
                return false;
            *step = (tg_rate_step){1, tg_node_intra_at(a, b->first_gpu, a->first_gpu + a->gpus)}; /* b lies before a */
            cluster->wires[cluster->wire_count] = (tg_wire){{1, step}, a->intra_latency_s};
            cluster->wire_of[n * count + m] = cluster->wire_of[m * count + n] = (uint32_t)cluster->wire_count++;
        }
    return true;
}

static tg_status check_names(const tg_cluster *cluster, tg_error *err)
{
    for (size_t n = 0; n < cluster->node_count; n++)
        if (tg_cluster_find(cluster, cluster->nodes[n].name) != n)
            return tg_fail(err, TG_EINPUT, "node '%s': this name also stands for a part of another node",
                           cluster->nodes[n].name);
    return TG_OK;
}

static bool build_nodes(tg_arena *arena, const tg_cluster_input *input, tg_cluster *out)
{
    size_t count = 0;
    for (size_t i = 0; i < input->node_count; i++)
        count += input->nodes[i].kind_count;
    out->nodes = tg_arena_alloc(arena, count, sizeof *out->nodes);
    if (!out->nodes)
        return false;
    for (size_t i = 0; i < input->node_count; i++) {
        const tg_node_input *node = &input->nodes[i];
        tg_node whole = {
            .physical = i, .physical_name = node->name, .intra = node->intra, .intra_latency_s = node->intra_latency_s};
        for (size_t k = 0; k < node->kind_count; k++)
            whole.physical_gpus += node->kinds[k].count;
        for (size_t k = 0, first = 0; k < node->kind_count; first += node->kinds[k++].count) {
            const tg_gpu_kind *kind = &node->kinds[k];
            whole.gpu = kind->gpu;
            whole.facts = kind->facts ? kind->facts : "";
            whole.compute_flops = kind->compute_flops;
            whole.memory_bytes = kind->memory_bytes;
            if (!add_part(arena, out, &whole, first, kind->count))
                return false;
        }
    }
    return true;
}

static bool copy_wire(tg_arena *arena, tg_cluster *cluster, const tg_wire *wire)
{
    tg_wire *to = &cluster->wires[cluster->wire_count++];
    to->latency_s = wire->latency_s;
    return copy_rate(arena, &wire->rate, &to->rate);
}

/* Sets the wire of all pairs of parts of the two machines; false if they have one already. */
static bool set_wire(tg_cluster *cluster, size_t a, size_t b, uint32_t wire, uint32_t unset)
{
    size_t count = cluster->node_count;
    for (size_t n = 0; n < count; n++) {
        if (cluster->nodes[n].physical != a)
            continue;
        for (size_t m = 0; m < count; m++) {
            if (cluster->nodes[m].physical != b)
                continue;
            if (cluster->wire_of[n * count + m] != unset)
                return false;
            cluster->wire_of[n * count + m] = cluster->wire_of[m * count + n] = wire;
        }
    }
    return true;
}

static tg_status build_wires(tg_arena *arena, const tg_cluster_input *input, tg_cluster *out, tg_error *err)
{
    const uint32_t unset = UINT32_MAX;
    size_t count = out->node_count;
    if (!make_wires(arena, out, input->link_count + 1))
        return out_of_memory(err);
    for (size_t i = 0; i < count * count; i++)
        out->wire_of[i] = unset;
    for (size_t l = 0; l < input->link_count; l++) {
        const tg_link_input *link = &input->links[l];
        size_t a = (size_t)(find_input(input, link->between[0]) - input->nodes);
        size_t b = (size_t)(find_input(input, link->between[1]) - input->nodes);
        if (!set_wire(out, a, b, (uint32_t)out->wire_count, unset))
            return tg_fail(err, TG_EINPUT, "link between '%.120s' and '%.120s': given twice (links are symmetric)",
                           link->between[0], link->between[1]);
        if (!copy_wire(arena, out, &link->wire))
            return out_of_memory(err);
    }
    uint32_t usual = (uint32_t)out->wire_count;
    if (input->default_wire && !copy_wire(arena, out, input->default_wire))
        return out_of_memory(err);
    if (!wire_parts(arena, out))
        return out_of_memory(err);
    for (size_t n = 0; n < count; n++)
        for (size_t m = 0; m < count; m++) {
            uint32_t *wire = &out->wire_of[n * count + m];
            if (n == m || *wire != unset)
                continue;
            if (!input->default_wire)
                return tg_fail(err, TG_EINPUT,
                               "network: no link between '%.120s' and '%.120s' and no default, expected one of them",
                               out->nodes[n].physical_name, out->nodes[m].physical_name);
            *wire = usual;
        }
    return TG_OK;
}

tg_status tg_cluster_build(tg_arena *arena, const tg_cluster_input *input, tg_cluster *out, tg_error *err)
{
    *out = (tg_cluster){0};
    tg_status status = check_input(input, err);
    if (status != TG_OK)
        return status;
    if (!build_nodes(arena, input, out))
        return out_of_memory(err);
    status = check_names(out, err);
    return status == TG_OK ? build_wires(arena, input, out, err) : status;
}

tg_status tg_cluster_cut(tg_arena *arena, const tg_cluster *cluster, size_t gpus, tg_cluster *out, tg_error *err)
{
    *out = (tg_cluster){0};
    if (gpus == 0)
        return tg_fail(err, TG_EINPUT, "cut_nodes: expected at least 1 GPU a part");
    size_t count = 0;
    for (size_t n = 0; n < cluster->node_count; n++)
        count += cluster->nodes[n].gpus % gpus == 0 ? cluster->nodes[n].gpus / gpus : 1;
    out->nodes = tg_arena_alloc(arena, count, sizeof *out->nodes);
    size_t *from = tg_arena_alloc(arena, count, sizeof *from);
    if (!out->nodes || !from)
        return out_of_memory(err);
    for (size_t n = 0; n < cluster->node_count; n++) {
        const tg_node *node = &cluster->nodes[n];
        size_t part = node->gpus % gpus == 0 ? gpus : node->gpus;
        for (size_t first = 0; first < node->gpus; first += part) {
            from[out->node_count] = n;
            if (!add_part(arena, out, node, node->first_gpu + first, part))
                return out_of_memory(err);
        }
    }
    tg_status status = check_names(out, err);
    if (status != TG_OK)
        return status;
    if (!make_wires(arena, out, cluster->wire_count))
        return out_of_memory(err);
    for (size_t w = 0; w < cluster->wire_count; w++)
        if (!copy_wire(arena, out, &cluster->wires[w]))
            return out_of_memory(err);
    for (size_t n = 0; n < count; n++)
        for (size_t m = 0; m < count; m++)
            out->wire_of[n * count + m] = cluster->wire_of[from[n] * cluster->node_count + from[m]];
    return wire_parts(arena, out) ? TG_OK : out_of_memory(err);
}
