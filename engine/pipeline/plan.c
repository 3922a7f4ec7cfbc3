#include "pipeline/plan.h"

#include <math.h>
#include <string.h>

#include "base/json.h"

#define TRY(call)                                                                                                      \
    do {                                                                                                               \
        tg_status tried = (call);                                                                                      \
        if (tried != TG_OK)                                                                                            \
            return tried;                                                                                              \
    } while (0)
#define FIELDS(names) (names), sizeof(names) / sizeof *(names)

enum { MOST_NODES = 1 << 16, MOST_GPUS = 1 << 10, MOST_STAGES = 1 << 12, MOST_LAYERS = 1 << 16 };
enum { MOST_MICROBATCHES = 1 << 20, MOST_OPERATIONS = 1 << 22 };
static const double most_s = 1e9, most_bytes = 1e18;

static tg_status allocate(tg_arena *arena, int count, size_t size, void *out, tg_error *err)
{
    void *at = tg_arena_alloc(arena, (size_t)count, size);
    memcpy(out, &at, sizeof at);
    return at ? TG_OK : tg_fail(err, TG_EMEMORY, "out of memory");
}

static tg_status copy_text(tg_arena *arena, const char *text, const char **out, tg_error *err)
{
    *out = tg_arena_strdup(arena, text);
    return *out ? TG_OK : tg_fail(err, TG_EMEMORY, "out of memory");
}

static tg_status read_text(const tg_json *object, const char *name, const char **out, tg_error *err)
{
    tg_json at;
    TRY(tg_json_field(object, name, true, &at, err));
    return tg_json_string(&at, out, err);
}

static tg_status read_boolean(const tg_json *object, const char *name, bool *out, tg_error *err)
{
    tg_json at;
    TRY(tg_json_field(object, name, true, &at, err));
    if (!cJSON_IsBool(at.item))
        return tg_json_fail(&at, err, "expected true or false");
    *out = cJSON_IsTrue(at.item);
    return TG_OK;
}

/* A field that holds one of count words; *out is its index. */
static tg_status read_word(const tg_json *object, const char *name, const char *const *words, size_t count, int *out,
                           tg_error *err)
{
    tg_json at;
    const char *word;
    TRY(tg_json_field(object, name, true, &at, err));
    TRY(tg_json_string(&at, &word, err));
    for (size_t i = 0; i < count; i++)
        if (strcmp(word, words[i]) == 0) {
            *out = (int)i;
            return TG_OK;
        }
    const char *nearest = tg_nearest(word, words, count);
    return tg_json_fail(&at, err, "'%.64s' is not known (did you mean '%s'?)", word, nearest ? nearest : words[0]);
}

/* count more GPUs of a node, memory_bytes each as in object. */
static tg_status add_gpus(const tg_json *object, int count, double *memory_bytes, tg_plan_node *node, tg_error *err)
{
    double each;
    TRY(tg_json_number_field(object, "memory_bytes", 1, most_bytes, &each, err));
    for (int i = 0; i < count; i++)
        memory_bytes[node->gpus++] = each;
    return TG_OK;
}

/* A node's GPUs: a number of one type, or a list of types with their counts. */
static tg_status read_node_gpus(tg_arena *arena, const tg_json *at, tg_plan_node *node, tg_error *err)
{
    tg_json gpus, kind;
    int count, kinds;
    double *memory_bytes;
    TRY(tg_json_field(at, "gpus", true, &gpus, err));
    TRY(allocate(arena, MOST_GPUS, sizeof *memory_bytes, &memory_bytes, err));
    node->memory_bytes = memory_bytes;
    if (!cJSON_IsArray(gpus.item)) {
        TRY(tg_json_int(&gpus, 1, MOST_GPUS, &count, err));
        return add_gpus(at, count, memory_bytes, node, err);
    }
    TRY(tg_json_array(&gpus, 1, MOST_GPUS, &kinds, err));
    for (bool more = tg_json_first(&gpus, &kind); more; more = tg_json_next(&kind)) {
        TRY(tg_json_int_field(&kind, "count", 1, MOST_GPUS - node->gpus, &count, err));
        TRY(add_gpus(&kind, count, memory_bytes, node, err));
    }
    return TG_OK;
}

static tg_status read_nodes(tg_arena *arena, const tg_json *cluster, tg_plan *out, tg_error *err)
{
    tg_json list, at;
    TRY(tg_json_field(cluster, "nodes", true, &list, err));
    TRY(tg_json_array(&list, 1, MOST_NODES, &out->nodes, err));
    tg_plan_node *nodes;
    TRY(allocate(arena, out->nodes, sizeof *nodes, &nodes, err));
    out->node = nodes;
    for (bool more = tg_json_first(&list, &at); more; more = tg_json_next(&at)) {
        tg_plan_node *node = &nodes[at.index];
        const char *name;
        TRY(read_text(&at, "name", &name, err));
        for (int i = 0; i < at.index; i++)
            if (strcmp(nodes[i].name, name) == 0)
                return tg_json_fail(&at, err, "node '%.64s' is already listed as cluster.nodes[%d]", name, i);
        TRY(copy_text(arena, name, &node->name, err));
        tg_json count;
        TRY(tg_json_field(&at, "count", false, &count, err));
        if (count.item)
            return tg_json_fail(&count, err, "a plan lists each of its nodes by name");
        TRY(read_node_gpus(arena, &at, node, err));
    }
    return TG_OK;
}

static tg_status read_islands(tg_arena *arena, const tg_json *root, tg_plan *out, tg_error *err)
{
    static const char *const fields[] = {"name", "nodes", "merged", "used", "idle", "reason", "best_with_s"};
    tg_json list, at;
    TRY(tg_json_field(root, "islands", true, &list, err));
    TRY(tg_json_array(&list, 1, MOST_NODES, &out->islands, err));
    tg_plan_island *islands;
    TRY(allocate(arena, out->islands, sizeof *islands, &islands, err));
    out->island = islands;
    for (bool more = tg_json_first(&list, &at); more; more = tg_json_next(&at)) {
        const char *name;
        TRY(tg_json_object(&at, FIELDS(fields), err));
        TRY(read_text(&at, "name", &name, err));
        TRY(copy_text(arena, name, &islands[at.index].name, err));
        TRY(read_boolean(&at, "used", &islands[at.index].used, err));
    }
    return TG_OK;
}

static tg_status read_gpus(tg_arena *arena, const tg_json *stage, const tg_plan *plan, tg_plan_stage *out,
                           tg_error *err)
{
    static const char *const fields[] = {"node", "indices"};
    tg_json list, at, indices, index;
    TRY(tg_json_field(stage, "gpus", true, &list, err));
    TRY(tg_json_array(&list, 1, MOST_NODES, &out->gpus_count, err));
    tg_plan_gpus *gpus;
    TRY(allocate(arena, out->gpus_count, sizeof *gpus, &gpus, err));
    out->gpus = gpus;
    for (bool more = tg_json_first(&list, &at); more; more = tg_json_next(&at)) {
        tg_plan_gpus *entry = &gpus[at.index];
        const char *name;
        TRY(tg_json_object(&at, FIELDS(fields), err));
        TRY(read_text(&at, "node", &name, err));
        while (entry->node < plan->nodes && strcmp(plan->node[entry->node].name, name) != 0)
            entry->node++;
        if (entry->node == plan->nodes)
            return tg_json_fail(&at, err, "node '%.64s' is not in cluster.nodes", name);
        TRY(tg_json_field(&at, "indices", true, &indices, err));
        TRY(tg_json_array(&indices, 1, MOST_GPUS, &entry->count, err));
        int *numbers;
        TRY(allocate(arena, entry->count, sizeof *numbers, &numbers, err));
        entry->indices = numbers;
        for (bool another = tg_json_first(&indices, &index); another; another = tg_json_next(&index))
            TRY(tg_json_int(&index, 0, plan->node[entry->node].gpus - 1, &numbers[index.index], err));
    }
    return TG_OK;
}

static tg_status read_recompute(const tg_json *strategy, tg_plan_stage *out, tg_error *err)
{
    static const char *const fields[] = {"kind", "layers"}, *const kinds[] = {"none", "selective", "full"};
    tg_json at, layers;
    int kind = 0;
    TRY(tg_json_field(strategy, "recompute", true, &at, err));
    TRY(tg_json_object(&at, FIELDS(fields), err));
    TRY(read_word(&at, "kind", FIELDS(kinds), &kind, err));
    out->recompute = (tg_recompute)kind;
    out->recompute_layers = -1;
    TRY(tg_json_field(&at, "layers", false, &layers, err));
    if (layers.item && !cJSON_IsNull(layers.item))
        TRY(tg_json_number(&layers, 0, MOST_LAYERS, &out->recompute_layers, err));
    return TG_OK;
}

static tg_status read_strategy(const tg_json *stage, tg_plan_stage *out, tg_error *err)
{
    static const char *const fields[] = {"dp", "tp", "cp", "ep", "etp", "zero", "fsep", "sp", "recompute", "offload"};
    static const char *const offloads[] = {"none", "optimizer", "activations", "both"};
    tg_json at;
    int unused;
    bool sp;
    TRY(tg_json_field(stage, "strategy", true, &at, err));
    TRY(tg_json_object(&at, FIELDS(fields), err));
    TRY(tg_json_int_field(&at, "dp", 1, 1 << 20, &out->dp, err));
    TRY(tg_json_int_field(&at, "tp", 1, 1 << 10, &out->tp, err));
    TRY(tg_json_int_field(&at, "cp", 1, 1 << 10, &out->cp, err));
    TRY(tg_json_int_field(&at, "ep", 1, 1 << 10, &out->ep, err));
    TRY(tg_json_int_field(&at, "etp", 1, 1 << 10, &out->etp, err));
    TRY(tg_json_int_field(&at, "zero", 0, 3, &unused, err));
    TRY(read_boolean(&at, "sp", &sp, err));
    TRY(read_word(&at, "offload", FIELDS(offloads), &unused, err));
    return read_recompute(&at, out, err);
}

static tg_status read_memory(const tg_json *stage, tg_plan_stage *out, tg_error *err)
{
    static const char *const fields[] = {"weights_bytes",     "gradients_bytes", "optimizer_bytes",
                                         "activations_bytes", "transient_bytes", "buffers_bytes",
                                         "context_bytes",     "total_bytes",     "capacity_bytes"};
    tg_json at;
    TRY(tg_json_field(stage, "memory", true, &at, err));
    TRY(tg_json_object(&at, FIELDS(fields), err));
    for (int use = 0; use < TG_BYTES_USES; use++)
        TRY(tg_json_number_field(&at, fields[use], 0, most_bytes, &out->bytes[use], err));
    TRY(tg_json_number_field(&at, "total_bytes", 0, most_bytes, &out->total_bytes, err));
    return tg_json_number_field(&at, "capacity_bytes", 0, most_bytes, &out->capacity_bytes, err);
}

static tg_status read_stage(tg_arena *arena, const tg_json *at, const tg_plan *plan, tg_plan_stage *out, tg_error *err)
{
    static const char *const fields[] = {"island",     "gpus",     "first",     "last",       "layers", "has_embedding",
                                         "has_head",   "strategy", "forward_s", "backward_s", "sync_s", "transfer_s",
                                         "successors", "inflight", "memory",    "time_parts"};
    const char *island;
    tg_json transfer;
    TRY(tg_json_object(at, FIELDS(fields), err));
    TRY(read_text(at, "island", &island, err));
    TRY(copy_text(arena, island, &out->island, err));
    TRY(read_gpus(arena, at, plan, out, err));
    TRY(tg_json_int_field(at, "first", 0, plan->atoms, &out->first, err));
    TRY(tg_json_int_field(at, "last", 0, plan->atoms, &out->last, err));
    TRY(tg_json_number_field(at, "layers", 0, MOST_LAYERS, &out->layers, err));
    TRY(read_boolean(at, "has_embedding", &out->has_embedding, err));
    TRY(read_boolean(at, "has_head", &out->has_head, err));
    TRY(read_strategy(at, out, err));
    TRY(tg_json_number_field(at, "forward_s", 0, most_s, &out->time.forward_s, err));
    TRY(tg_json_number_field(at, "backward_s", 0, most_s, &out->time.backward_s, err));
    TRY(tg_json_number_field(at, "sync_s", 0, most_s, &out->time.sync_s, err));
    bool end = at->index == plan->stages - 1;
    TRY(tg_json_field(at, "transfer_s", !end, &transfer, err));
    if (transfer.item && !(end && cJSON_IsNull(transfer.item)))
        TRY(tg_json_number(&transfer, 0, end ? 0 : most_s, &out->transfer_s, err));
    TRY(tg_json_int_field(at, "successors", 0, MOST_STAGES, &out->successors, err));
    TRY(tg_json_int_field(at, "inflight", 1, MOST_MICROBATCHES, &out->inflight, err));
    return read_memory(at, out, err);
}

static tg_status read_stages(tg_arena *arena, const tg_json *root, tg_plan *out, tg_error *err)
{
    tg_json list, at;
    TRY(tg_json_field(root, "stages", true, &list, err));
    TRY(tg_json_array(&list, 1, MOST_STAGES, &out->stages, err));
    if (out->stages > MOST_OPERATIONS / out->microbatches)
        return tg_json_fail(&list, err, "%d stages of %d microbatches are more than %d to simulate", out->stages,
                            out->microbatches, MOST_OPERATIONS);
    tg_plan_stage *stages;
    TRY(allocate(arena, out->stages, sizeof *stages, &stages, err));
    out->stage = stages;
    for (bool more = tg_json_first(&list, &at); more; more = tg_json_next(&at))
        TRY(read_stage(arena, &at, out, &stages[at.index], err));
    TRY(tg_json_field(root, "warmup", true, &list, err));
    int count, *warmup;
    TRY(tg_json_array(&list, out->stages, out->stages, &count, err));
    TRY(allocate(arena, count, sizeof *warmup, &warmup, err));
    out->warmup = warmup;
    for (bool more = tg_json_first(&list, &at); more; more = tg_json_next(&at))
        TRY(tg_json_int(&at, 0, out->microbatches, &warmup[at.index], err));
    return TG_OK;
}

static tg_status read_model(const tg_json *root, tg_plan *out, tg_error *err)
{
    enum { LAYER, HALF, ADAPTER };
    static const char *const granularities[] = {"layer", "half", "adapter"};
    tg_json model, granularity;
    int kind = LAYER;
    TRY(tg_json_field(root, "granularity", false, &granularity, err));
    if (granularity.item)
        TRY(read_word(root, "granularity", FIELDS(granularities), &kind, err));
    TRY(tg_json_field(root, "model", true, &model, err));
    TRY(tg_json_int_field(&model, "layers", 1, MOST_LAYERS, &out->layers, err));
    out->half = kind == HALF;
    out->adapter_atoms = kind == ADAPTER;
    if (out->adapter_atoms)
        return tg_json_int_field(root, "atoms", 1, MOST_LAYERS, &out->atoms, err);
    out->atoms = out->layers * (out->half ? 2 : 1) + 2; /* the embedding in front, the head at the end */
    return TG_OK;
}

static tg_status read_document(tg_arena *arena, const tg_json *root, tg_plan *out, tg_error *err)
{
    static const char *const fields[] = {
        "format",  "version",   "model",     "cluster",  "training",     "parallelizer", "cost",
        "target",  "objective", "p2p",       "warmup",   "microbatches", "stopped",      "stages",
        "time_s",  "bound_s",   "gap",       "proved",   "paper_s",      "tokens_per_s", "model_flops_utilisation",
        "islands", "pairs",     "constants", "warnings", "top",          "granularity",  "atoms"};
    static const char *const formats[] = {"tangram.plan/1"}, *const objectives[] = {"simulated", "paper"},
                             *const p2ps[] = {"overlapped", "blocking"};
    int format, objective = 0, p2p = 0;
    tg_json cluster, training;
    TRY(tg_json_object(root, FIELDS(fields), err));
    TRY(read_word(root, "format", FIELDS(formats), &format, err));
    TRY(read_word(root, "objective", FIELDS(objectives), &objective, err));
    TRY(read_word(root, "p2p", FIELDS(p2ps), &p2p, err));
    out->paper = objective == 1;
    out->p2p = p2p == 1 ? TG_BLOCKING : TG_OVERLAPPED;
    TRY(read_model(root, out, err));
    TRY(tg_json_field(root, "cluster", true, &cluster, err));
    TRY(read_nodes(arena, &cluster, out, err));
    TRY(read_islands(arena, root, out, err));
    TRY(tg_json_field(root, "training", true, &training, err));
    TRY(tg_json_int_field(&training, "global_batch", 1, INT_MAX, &out->global_batch, err));
    TRY(tg_json_number_field(&training, "memory_margin", 0, 1, &out->memory_margin, err));
    TRY(tg_json_int_field(root, "microbatches", 1, MOST_MICROBATCHES, &out->microbatches, err));
    TRY(read_stages(arena, root, out, err));
    TRY(tg_json_number_field(root, "time_s", 0, most_s, &out->time_s, err));
    TRY(tg_json_number_field(root, "bound_s", 0, most_s, &out->bound_s, err));
    return tg_json_number_field(root, "gap", 0, 1, &out->gap, err);
}

tg_status tg_plan_read(tg_arena *arena, const char *text, size_t size, tg_plan *out, tg_error *err)
{
    cJSON *tree;
    TRY(tg_json_parse(text, size, &tree, err));
    *out = (tg_plan){0};
    tg_json root = tg_json_root(tree);
    tg_status status = read_document(arena, &root, out, err);
    cJSON_Delete(tree);
    return status;
}

tg_status tg_plan_simulate(const tg_plan *plan, double *time_s, tg_operation *operations, tg_error *err)
{
    size_t count = (size_t)plan->stages;
    tg_arena arena = {0};
    tg_stage_time *stages = tg_arena_alloc(&arena, count, sizeof *stages);
    double *transfer_s = tg_arena_alloc(&arena, count, sizeof *transfer_s);
    tg_status status = TG_EMEMORY;
    if (stages && transfer_s) {
        for (int i = 0; i < plan->stages; i++) {
            stages[i] = plan->stage[i].time;
            transfer_s[i] = plan->stage[i].transfer_s;
        }
        status = tg_simulate(stages, plan->stages, transfer_s, plan->warmup, plan->microbatches, plan->p2p, time_s,
                             operations, err);
    } else {
        tg_fail(err, TG_EMEMORY, "out of memory");
    }
    tg_arena_free(&arena);
    return status;
}
