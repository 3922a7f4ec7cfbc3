#include "pipeline/instance.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"

enum { MOST_ATOMS = 1 << 16, MOST_MICROBATCHES = 1 << 16, MOST_ISLANDS = 1 << 10, MOST_STAGES = 1 << 12 };
static const double most_s = 1e12, most_bytes = 1e18;

double tg_instance_transfer_s(const tg_instance *instance, const tg_partial *p, const tg_partial *q)
{
    const tg_link *link = &instance->links[(size_t)p->rear_class * (size_t)instance->classes + (size_t)q->front_class];
    return link->bytes_per_s > 0 ? link->latency_s + instance->boundary_bytes[p->last - 1] / link->bytes_per_s
                                 : INFINITY;
}

static tg_status out_of_memory(tg_error *err)
{
    return tg_fail(err, TG_EMEMORY, "out of memory");
}

#define TRY(call)                                                                                                      \
    do {                                                                                                               \
        tg_status tried = (call);                                                                                      \
        if (tried != TG_OK)                                                                                            \
            return tried;                                                                                              \
    } while (0)
#define FIELDS(names) (names), sizeof(names) / sizeof *(names)

static tg_status read_islands(tg_arena *arena, const tg_json *root, tg_instance *out, tg_error *err)
{
    tg_json list, at;
    TRY(tg_json_field(root, "islands", true, &list, err));
    TRY(tg_json_array(&list, 1, MOST_ISLANDS, &out->islands, err));
    const char **names = tg_arena_alloc(arena, (size_t)out->islands, sizeof *names);
    if (!names)
        return out_of_memory(err);
    out->names = names;
    for (bool more = tg_json_first(&list, &at); more; more = tg_json_next(&at)) {
        const char *name;
        TRY(tg_json_string(&at, &name, err));
        for (int i = 0; i < at.index; i++)
            if (strcmp(names[i], name) == 0)
                return tg_json_fail(&at, err, "island '%.64s' is already listed as islands[%d]", name, i);
        names[at.index] = tg_arena_strdup(arena, name);
        if (!names[at.index])
            return out_of_memory(err);
    }
    return TG_OK;
}

/* Without class_island the classes are the islands. */
static tg_status read_classes(tg_arena *arena, const tg_json *root, tg_instance *out, tg_error *err)
{
    tg_json list, at;
    TRY(tg_json_field(root, "class_island", false, &list, err));
    out->classes = out->islands;
    if (list.item)
        TRY(tg_json_array(&list, 1, MOST_ISLANDS, &out->classes, err));
    int *island = tg_arena_alloc(arena, (size_t)out->classes, sizeof *island);
    if (!island)
        return out_of_memory(err);
    out->class_island = island;
    for (int c = 0; !list.item && c < out->classes; c++)
        island[c] = c;
    for (bool more = list.item && tg_json_first(&list, &at); more; more = tg_json_next(&at))
        TRY(tg_json_int(&at, 0, out->islands - 1, &island[at.index], err));
    return TG_OK;
}

static tg_status read_link(const tg_json *at, bool diagonal, tg_link *out, tg_error *err)
{
    static const char *const fields[] = {"latency_s", "bytes_per_s"};
    *out = (tg_link){0};
    if (cJSON_IsNull(at->item))
        return TG_OK;
    if (diagonal)
        return tg_json_fail(at, err, "expected null: an island is used at most once, so it has no link to itself");
    TRY(tg_json_object(at, FIELDS(fields), err));
    TRY(tg_json_number_field(at, "latency_s", 0, most_s, &out->latency_s, err));
    return tg_json_number_field(at, "bytes_per_s", 1e-6, most_bytes, &out->bytes_per_s, err);
}

static tg_status read_links(tg_arena *arena, const tg_json *root, tg_instance *out, tg_error *err)
{
    tg_json list, row, at;
    int count;
    TRY(tg_json_field(root, "links", true, &list, err));
    TRY(tg_json_array(&list, out->classes, out->classes, &count, err));
    tg_link *links = tg_arena_alloc(arena, (size_t)count * (size_t)count, sizeof *links);
    if (!links)
        return out_of_memory(err);
    out->links = links;
    for (bool rows = tg_json_first(&list, &row); rows; rows = tg_json_next(&row)) {
        TRY(tg_json_array(&row, out->classes, out->classes, &count, err));
        for (bool more = tg_json_first(&row, &at); more; more = tg_json_next(&at)) {
            bool diagonal = out->class_island[row.index] == out->class_island[at.index];
            TRY(read_link(&at, diagonal, &links[row.index * count + at.index], err));
        }
    }
    return TG_OK;
}

/* An optional whole number; null, where allowed, is TG_NO_LIMIT. */
static tg_status read_optional(const tg_json *object, const char *name, int least, int most, bool nullable, int *out,
                               tg_error *err)
{
    tg_json at;
    TRY(tg_json_field(object, name, false, &at, err));
    if (!at.item)
        return TG_OK;
    if (nullable && cJSON_IsNull(at.item)) {
        *out = TG_NO_LIMIT;
        return TG_OK;
    }
    return tg_json_int(&at, least, most, out, err);
}

static tg_status read_class(const tg_json *at, const char *name, const tg_instance *instance, int island, int *out,
                            tg_error *err)
{
    *out = -1;
    TRY(read_optional(at, name, 0, instance->classes - 1, false, out, err));
    for (int c = 0; *out < 0 && c < instance->classes; c++)
        if (instance->class_island[c] == island)
            *out = c;
    if (*out < 0)
        return tg_json_fail(at, err, "island %d has no class in class_island", island);
    if (instance->class_island[*out] != island)
        return tg_json_fail(at, err, "%s %d is a class of island %d, not of the plan's island %d", name, *out,
                            instance->class_island[*out], island);
    return TG_OK;
}

static tg_status read_stage(const tg_json *at, tg_stage_time *out, tg_error *err)
{
    static const char *const fields[] = {"forward_s", "backward_s", "sync_s", "max_inflight"};
    TRY(tg_json_object(at, FIELDS(fields), err));
    TRY(tg_json_number_field(at, "forward_s", 0, most_s, &out->forward_s, err));
    TRY(tg_json_number_field(at, "backward_s", 0, most_s, &out->backward_s, err));
    TRY(tg_json_number_field(at, "sync_s", 0, most_s, &out->sync_s, err));
    return read_optional(at, "max_inflight", 1, INT_MAX, true, &out->max_inflight, err);
}

static tg_status read_plan(tg_arena *arena, const tg_json *at, const tg_instance *instance, tg_partial *out,
                           tg_error *err)
{
    static const char *const fields[] = {"island", "first",  "last",        "max_successors", "min_successors",
                                         "gpus",   "stages", "front_class", "rear_class",     "inner_transfer_s"};
    tg_json list, element;
    TRY(tg_json_object(at, FIELDS(fields), err));
    TRY(tg_json_int_field(at, "island", 0, instance->islands - 1, &out->island, err));
    TRY(tg_json_int_field(at, "first", 0, instance->atoms - 1, &out->first, err));
    TRY(tg_json_int_field(at, "last", out->first + 1, instance->atoms, &out->last, err));
    TRY(tg_json_field(at, "max_successors", true, &list, err));
    TRY(read_optional(at, "max_successors", 0, INT_MAX, true, &out->max_successors, err));
    TRY(read_optional(at, "min_successors", 0, INT_MAX, false, &out->min_successors, err));
    TRY(read_optional(at, "gpus", 0, INT_MAX, false, &out->gpus, err));
    TRY(read_class(at, "front_class", instance, out->island, &out->front_class, err));
    TRY(read_class(at, "rear_class", instance, out->island, &out->rear_class, err));
    TRY(tg_json_field(at, "stages", true, &list, err));
    TRY(tg_json_array(&list, 1, MOST_STAGES, &out->stage_count, err));
    tg_stage_time *stages = tg_arena_alloc(arena, (size_t)out->stage_count, sizeof *stages);
    double *inner = tg_arena_alloc(arena, (size_t)out->stage_count, sizeof *inner);
    if (!stages || !inner)
        return out_of_memory(err);
    out->stages = stages;
    out->inner_transfer_s = inner;
    for (bool more = tg_json_first(&list, &element); more; more = tg_json_next(&element))
        TRY(read_stage(&element, &stages[element.index], err));
    int count;
    TRY(tg_json_field(at, "inner_transfer_s", true, &list, err));
    TRY(tg_json_array(&list, out->stage_count - 1, out->stage_count - 1, &count, err));
    for (bool more = tg_json_first(&list, &element); more; more = tg_json_next(&element))
        TRY(tg_json_number(&element, 0, most_s, &inner[element.index], err));
    return TG_OK;
}

static tg_status read_root(tg_arena *arena, const tg_json *root, tg_instance *out, tg_error *err)
{
    static const char *const fields[] = {"format",  "atoms", "microbatches", "boundary_bytes",
                                         "islands", "links", "class_island", "plans"};
    tg_json at, list;
    const char *format;
    TRY(tg_json_object(root, FIELDS(fields), err));
    TRY(tg_json_field(root, "format", true, &at, err));
    TRY(tg_json_string(&at, &format, err));
    if (strcmp(format, "tangram.instance/1") != 0)
        return tg_json_fail(&at, err, "expected 'tangram.instance/1', got '%.64s'", format);
    TRY(tg_json_int_field(root, "atoms", 1, MOST_ATOMS, &out->atoms, err));
    TRY(tg_json_int_field(root, "microbatches", 1, MOST_MICROBATCHES, &out->microbatches, err));
    int count;
    TRY(tg_json_field(root, "boundary_bytes", true, &list, err));
    TRY(tg_json_array(&list, out->atoms - 1, out->atoms - 1, &count, err));
    double *bytes = tg_arena_alloc(arena, (size_t)out->atoms, sizeof *bytes);
    if (!bytes)
        return out_of_memory(err);
    out->boundary_bytes = bytes;
    for (bool more = tg_json_first(&list, &at); more; more = tg_json_next(&at))
        TRY(tg_json_number(&at, 0, most_bytes, &bytes[at.index], err));
    TRY(read_islands(arena, root, out, err));
    TRY(read_classes(arena, root, out, err));
    TRY(read_links(arena, root, out, err));
    TRY(tg_json_field(root, "plans", true, &list, err));
    TRY(tg_json_array(&list, 0, INT_MAX, &out->plans, err));
    tg_partial *plans = tg_arena_alloc(arena, (size_t)out->plans, sizeof *plans);
    if (!plans)
        return out_of_memory(err);
    out->plan = plans;
    for (bool more = tg_json_first(&list, &at); more; more = tg_json_next(&at))
        TRY(read_plan(arena, &at, out, &plans[at.index], err));
    return TG_OK;
}

tg_status tg_instance_read(tg_arena *arena, const char *json, size_t size, tg_instance *out, tg_error *err)
{
    *out = (tg_instance){0};
    cJSON *root;
    TRY(tg_json_parse(json, size, &root, err));
    const tg_json at = tg_json_root(root);
    tg_status status = read_root(arena, &at, out, err);
    cJSON_Delete(root);
    return status;
}

static void write_limit(tg_text *text, const char *name, int value)
{
    if (value == TG_NO_LIMIT)
        tg_text_add(text, ",\"%s\":null", name);
    else
        tg_text_add(text, ",\"%s\":%d", name, value);
}

static void write_plan(tg_text *text, const tg_partial *plan, bool classes)
{
    tg_text_add(text, "{\"island\":%d,\"first\":%d,\"last\":%d", plan->island, plan->first, plan->last);
    write_limit(text, "max_successors", plan->max_successors);
    if (plan->min_successors > 0)
        tg_text_add(text, ",\"min_successors\":%d", plan->min_successors);
    if (classes)
        tg_text_add(text, ",\"front_class\":%d,\"rear_class\":%d", plan->front_class, plan->rear_class);
    tg_text_add(text, ",\"gpus\":%d,\"stages\":[", plan->gpus);
    for (int s = 0; s < plan->stage_count; s++) {
        const tg_stage_time *stage = &plan->stages[s];
        tg_text_add(text, "%s{\"forward_s\":%.17g,\"backward_s\":%.17g,\"sync_s\":%.17g", s ? "," : "",
                    stage->forward_s, stage->backward_s, stage->sync_s);
        if (stage->max_inflight)
            write_limit(text, "max_inflight", stage->max_inflight);
        tg_text_add(text, "}");
    }
    tg_text_add(text, "],\"inner_transfer_s\":[");
    for (int s = 0; s + 1 < plan->stage_count; s++)
        tg_text_add(text, "%s%.17g", s ? "," : "", plan->inner_transfer_s[s]);
    tg_text_add(text, "]}");
}

char *tg_instance_write(const tg_instance *instance)
{
    tg_text text = {0};
    bool classes = instance->classes != instance->islands;
    for (int c = 0; !classes && c < instance->classes; c++)
        classes = instance->class_island[c] != c;
    tg_text_add(&text, "{\"format\":\"tangram.instance/1\",\"atoms\":%d,\"microbatches\":%d,\n\"boundary_bytes\":[",
                instance->atoms, instance->microbatches);
    for (int i = 0; i + 1 < instance->atoms; i++)
        tg_text_add(&text, "%s%.17g", i ? "," : "", instance->boundary_bytes[i]);
    tg_text_add(&text, "],\n\"islands\":[");
    for (int i = 0; i < instance->islands; i++) {
        tg_text_add(&text, "%s", i ? "," : "");
        tg_text_string(&text, instance->names[i]);
    }
    for (int c = 0; classes && c < instance->classes; c++)
        tg_text_add(&text, "%s%d", c ? "," : "],\n\"class_island\":[", instance->class_island[c]);
    tg_text_add(&text, "],\n\"links\":[");
    for (int i = 0; i < instance->classes * instance->classes; i++) {
        const tg_link *link = &instance->links[i];
        tg_text_add(&text, "%s", i % instance->classes ? "," : i ? "],\n[" : "[");
        if (link->bytes_per_s > 0)
            tg_text_add(&text, "{\"latency_s\":%.17g,\"bytes_per_s\":%.17g}", link->latency_s, link->bytes_per_s);
        else
            tg_text_add(&text, "null");
    }
    tg_text_add(&text, "]],\n\"plans\":[");
    for (int p = 0; p < instance->plans; p++) {
        tg_text_add(&text, p ? ",\n" : "\n");
        write_plan(&text, &instance->plan[p], classes);
    }
    tg_text_add(&text, "]}\n");
    return tg_text_take(&text);
}
