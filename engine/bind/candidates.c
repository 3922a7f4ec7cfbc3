#include "bind/candidates.h"
#include "bind/convert.h"

#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Fields of a table that stands for a struct. */
typedef enum { INTEGER, NUMBER, BOOLEAN, OTHER } field_kind;
typedef struct {
    const char *name;
    field_kind kind;
    size_t offset;
    bool required;
} field;

/* What an answer may hold, so that a faulty one is refused before it fills the memory: plans are compared in pairs. */
enum { MOST_FIELDS = 32, MOST_CANDIDATES = 10000, MOST_STAGES = 100000, MOST_PARTS = 32, LONGEST_NAME = 64 };

enum { SEEN_STAGES = 128 };
typedef struct {
    const void *table;
    const tg_planned_stage *stage;
} seen_stage;

typedef struct {
    lua_State *L;
    tg_arena *arena;
    tg_error *err;
    int plan, stage; /* from 1, for messages */
    lua_Integer stages_left;
    seen_stage seen[SEEN_STAGES]; /* plans share most of their stages: by their tables' addresses */
} reader;

static tg_status refuse(const reader *r, const char *name, const char *got, const char *expected)
{
    return tg_fail(r->err, TG_EPROVIDER, "plan %d: stage %d: %s: %s, expected %s", r->plan, r->stage, name, got,
                   expected);
}

static tg_status refuse_value(const reader *r, const char *name, const char *expected)
{
    char got[80];
    int type = lua_type(r->L, -1);
    if (type == LUA_TNUMBER && isnan(lua_tonumber(r->L, -1)))
        snprintf(got, sizeof got, "got NaN");
    else if (type == LUA_TNUMBER)
        snprintf(got, sizeof got, "got %.14g", lua_tonumber(r->L, -1));
    else if (type == LUA_TSTRING)
        snprintf(got, sizeof got, "got '%.40s'", lua_tostring(r->L, -1));
    else
        snprintf(got, sizeof got, "got a %s", lua_typename(r->L, type));
    return refuse(r, name, got, expected);
}

static const field *find_field(const field *fields, size_t count, const char *name)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(fields[i].name, name) == 0)
            return &fields[i];
    return NULL;
}

static tg_status refuse_unknown(const reader *r, const char *prefix, const field *fields, size_t count,
                                const char *name)
{
    const char *names[MOST_FIELDS];
    for (size_t i = 0; i < count; i++)
        names[i] = fields[i].name;
    const char *near = tg_nearest(name, names, count);
    return tg_fail(r->err, TG_EPROVIDER, "plan %d: stage %d: %s%.60s: unknown field%s%s%s", r->plan, r->stage, prefix,
                   name, near ? " (did you mean '" : "", near ? near : "", near ? "'?)" : "");
}

static tg_status refuse_field(const reader *r, const char *prefix, const field *f, const char *expected)
{
    char place[LONGEST_NAME];
    snprintf(place, sizeof place, "%s%s", prefix, f->name);
    return refuse_value(r, place, expected);
}

/* The plain fields of the table at the top of the stack; OTHER ones are left to the caller. prefix: of names in
 * messages. */
static tg_status read_fields(const reader *r, const char *prefix, const field *fields, size_t count, void *out)
{
    static const char *const words[] = {[INTEGER] = "a whole number",
                                        [NUMBER] = "a finite number of at least 0",
                                        [BOOLEAN] = "true or false",
                                        [OTHER] = "a value"};
    lua_State *L = r->L;
    bool seen[MOST_FIELDS] = {false};
    for (lua_pushnil(L); lua_next(L, -2); lua_pop(L, 1)) {
        if (lua_type(L, -2) != LUA_TSTRING)
            return tg_fail(r->err, TG_EPROVIDER,
                           "plan %d: stage %d: got a key that is not a name, expected names as keys", r->plan,
                           r->stage);
        const char *name = lua_tostring(L, -2);
        const field *f = find_field(fields, count, name);
        if (!f)
            return refuse_unknown(r, prefix, fields, count, name);
        seen[f - fields] = true;
        void *at = (char *)out + f->offset;
        int whole;
        switch (f->kind) {
        case INTEGER:
            if (!lua_isinteger(L, -1) && lua_tonumber(L, -1) != floor(lua_tonumber(L, -1)))
                return refuse_field(r, prefix, f, words[INTEGER]);
            if (lua_type(L, -1) != LUA_TNUMBER || fabs(lua_tonumber(L, -1)) > 1e9)
                return refuse_field(r, prefix, f, words[INTEGER]);
            whole = (int)lua_tonumber(L, -1);
            memcpy(at, &whole, sizeof whole);
            break;
        case NUMBER:
            if (lua_type(L, -1) != LUA_TNUMBER || !(lua_tonumber(L, -1) >= 0) || isinf(lua_tonumber(L, -1)))
                return refuse_field(r, prefix, f, words[NUMBER]);
            *(double *)at = lua_tonumber(L, -1);
            break;
        case BOOLEAN:
            if (lua_type(L, -1) != LUA_TBOOLEAN)
                return refuse_field(r, prefix, f, words[BOOLEAN]);
            *(bool *)at = lua_toboolean(L, -1);
            break;
        case OTHER:
            break;
        }
    }
    for (size_t i = 0; i < count; i++)
        if (fields[i].required && !seen[i]) {
            char place[LONGEST_NAME];
            snprintf(place, sizeof place, "%s%s", prefix, fields[i].name);
            return refuse(r, place, "missing", words[fields[i].kind]);
        }
    return TG_OK;
}

static const field strategy_fields[] = {
    {"dp", INTEGER, offsetof(tg_strategy, dp), true},
    {"tp", INTEGER, offsetof(tg_strategy, tp), true},
    {"cp", INTEGER, offsetof(tg_strategy, cp), false},
    {"ep", INTEGER, offsetof(tg_strategy, ep), false},
    {"etp", INTEGER, offsetof(tg_strategy, etp), false},
    {"zero", INTEGER, offsetof(tg_strategy, zero), false},
    {"sp", BOOLEAN, offsetof(tg_strategy, sp), false},
    {"fsep", BOOLEAN, offsetof(tg_strategy, fsep), false},
    {"recompute", OTHER, 0, false},
    {"offload", OTHER, 0, false},
};
enum { STRATEGY_FIELDS = sizeof strategy_fields / sizeof *strategy_fields };

static const char *const recompute_names[] = {"none", "selective", "full"};
static const char *const offload_names[] = {"none", "optimizer", "activations", "both"};

/* The string at the top of the stack among count words, or -1. */
static int word_at_top(lua_State *L, const char *const *words, int count)
{
    for (int i = 0; i < count && lua_type(L, -1) == LUA_TSTRING; i++)
        if (strcmp(lua_tostring(L, -1), words[i]) == 0)
            return i;
    return -1;
}

static tg_status read_recompute(const reader *r, tg_strategy *out)
{
    lua_State *L = r->L;
    int type = lua_getfield(L, -1, "recompute"), layers = -1;
    if (type == LUA_TTABLE) {
        if (lua_getfield(L, -1, "layers") != LUA_TNIL) {
            layers = lua_isinteger(L, -1) ? (int)lua_tointeger(L, -1) : -2;
            if (layers < 0)
                return refuse_value(r, "strategy.recompute.layers", "a whole number of at least 0");
        }
        lua_pop(L, 1);
        lua_getfield(L, -1, "kind");
        lua_replace(L, -2);
    }
    if (type != LUA_TNIL) {
        int word = word_at_top(L, recompute_names, 3);
        if (word < 0)
            return refuse_value(r, "strategy.recompute", "'none', 'selective' or 'full'");
        out->recompute = (tg_recompute)word;
        out->recompute_layers = layers;
    }
    lua_pop(L, 1);
    return TG_OK;
}

/* The strategy table in field of the stage at the top of the stack. */
static tg_status read_strategy(const reader *r, tg_strategy *out)
{
    lua_State *L = r->L;
    *out = (tg_strategy){.cp = 1, .ep = 1, .etp = 1, .recompute_layers = -1};
    if (lua_getfield(L, -1, "strategy") != LUA_TTABLE)
        return refuse_value(r, "strategy", "a table");
    tg_status status = read_fields(r, "strategy.", strategy_fields, STRATEGY_FIELDS, out);
    if (status == TG_OK)
        status = read_recompute(r, out);
    if (status != TG_OK)
        return status;
    if (out->dp < 1 || out->tp < 1 || out->cp < 1 || out->ep < 1 || out->etp < 1)
        return refuse(r, "strategy", "a degree below 1", "dp, tp, cp, ep, etp of at least 1");
    if (out->zero < 0 || out->zero > 3)
        return refuse(r, "strategy.zero", "out of range", "a whole number from 0 to 3");
    if (lua_getfield(L, -1, "offload") != LUA_TNIL) {
        int word = word_at_top(L, offload_names, 4);
        if (word < 0)
            return refuse_value(r, "strategy.offload", "'none', 'optimizer', 'activations' or 'both'");
        out->offload_optimizer = word == 1 || word == 3;
        out->offload_activations = word == 2 || word == 3;
    }
    lua_pop(L, 2);
    return TG_OK;
}

static int compare_parts(const void *a, const void *b)
{
    return strcmp(((const tg_part *)a)->name, ((const tg_part *)b)->name);
}

/* The named numbers of the table in field name of the table at the top; none if it is absent. */
static tg_status read_parts(const reader *r, const char *name, const tg_part **out, int *count)
{
    lua_State *L = r->L;
    int type = lua_getfield(L, -1, name);
    *out = NULL;
    *count = 0;
    if (type == LUA_TTABLE) {
        size_t n = 0;
        for (lua_pushnil(L); lua_next(L, -2); lua_pop(L, 1))
            n++;
        if (n > MOST_PARTS)
            return refuse_value(r, name, "a table of at most 32 parts");
        tg_part *parts = tg_arena_alloc(r->arena, n, sizeof *parts);
        if (!parts)
            return tg_fail(r->err, TG_EMEMORY, "out of memory");
        for (lua_pushnil(L); lua_next(L, -2); lua_pop(L, 1)) {
            if (lua_type(L, -2) != LUA_TSTRING || lua_rawlen(L, -2) > LONGEST_NAME || lua_type(L, -1) != LUA_TNUMBER ||
                !isfinite(lua_tonumber(L, -1)))
                return refuse_value(r, name, "a table of short names and finite numbers");
            parts[*count] =
                (tg_part){.name = tg_arena_strdup(r->arena, lua_tostring(L, -2)), .value = lua_tonumber(L, -1)};
            if (!parts[(*count)++].name)
                return tg_fail(r->err, TG_EMEMORY, "out of memory");
        }
        qsort(parts, n, sizeof *parts, compare_parts);
        *out = parts;
    } else if (type != LUA_TNIL) {
        return refuse_value(r, name, "a table");
    }
    lua_pop(L, 1);
    return TG_OK;
}

static const field stage_fields[] = {
    {"atoms", INTEGER, offsetof(tg_planned_stage, atoms), true},
    {"gpus", INTEGER, offsetof(tg_planned_stage, gpus), true},
    {"strategy", OTHER, 0, true},
    {"forward_s", NUMBER, offsetof(tg_planned_stage, forward_s), true},
    {"backward_s", NUMBER, offsetof(tg_planned_stage, backward_s), true},
    {"sync_s", NUMBER, offsetof(tg_planned_stage, sync_s), true},
    {"transfer_s", NUMBER, offsetof(tg_planned_stage, transfer_s), false},
    {"static_bytes", NUMBER, offsetof(tg_planned_stage, static_bytes), true},
    {"inflight_bytes", NUMBER, offsetof(tg_planned_stage, inflight_bytes), true},
    {"transient_bytes", NUMBER, offsetof(tg_planned_stage, transient_bytes), true},
    {"parts", OTHER, 0, false},
};
enum { STAGE_FIELDS = sizeof stage_fields / sizeof *stage_fields };

static tg_status read_stage(reader *r, tg_planned_stage *out)
{
    lua_State *L = r->L;
    *out = (tg_planned_stage){.transfer_s = -1};
    if (!lua_istable(L, -1))
        return refuse_value(r, "stage", "a table");
    const void *table = lua_topointer(L, -1);
    seen_stage *seen = &r->seen[(uintptr_t)table / 64 % SEEN_STAGES];
    if (seen->table == table) {
        *out = *seen->stage;
        return TG_OK;
    }
    tg_status status = read_fields(r, "", stage_fields, STAGE_FIELDS, out);
    if (status == TG_OK)
        status = read_strategy(r, &out->strategy);
    if (status == TG_OK && lua_getfield(L, -1, "parts") != LUA_TNIL) {
        if (!lua_istable(L, -1))
            return refuse_value(r, "parts", "a table");
        status = read_parts(r, "memory", &out->memory_parts, &out->memory_part_count);
        if (status == TG_OK)
            status = read_parts(r, "time", &out->time_parts, &out->time_part_count);
    }
    if (status == TG_OK) {
        lua_pop(L, 1);
        *seen = (seen_stage){table, out};
    }
    return status;
}

/* Names the key of the plan at the top that is neither a stage's number nor 'idle'. */
static tg_status refuse_plan_key(const reader *r, lua_Integer count)
{
    lua_State *L = r->L;
    for (lua_pushnil(L); lua_next(L, -2); lua_pop(L, 1)) {
        bool name = lua_type(L, -2) == LUA_TSTRING, index = lua_isinteger(L, -2);
        if (name && strcmp(lua_tostring(L, -2), "idle") != 0)
            return tg_fail(r->err, TG_EPROVIDER, "plan %d: %.60s: unknown field, expected stages and, if any, 'idle'",
                           r->plan, lua_tostring(L, -2));
        if (!name && (!index || lua_tointeger(L, -2) < 1 || lua_tointeger(L, -2) > count))
            break;
    }
    return tg_fail(r->err, TG_EPROVIDER, "plan %d: expected a list of stages and, if any, 'idle'", r->plan);
}

static tg_status read_candidate(reader *r, tg_candidate *out)
{
    lua_State *L = r->L;
    if (!lua_istable(L, -1))
        return tg_fail(r->err, TG_EPROVIDER, "plan %d: got a %s, expected a list of stages", r->plan,
                       luaL_typename(L, -1));
    lua_Integer count = (lua_Integer)lua_rawlen(L, -1);
    if (count < 1)
        return tg_fail(r->err, TG_EPROVIDER, "plan %d: got 0 stages, expected at least 1", r->plan);
    r->stages_left -= count;
    if (r->stages_left < 0)
        return tg_fail(r->err, TG_EPROVIDER, "plan %d: more than %d stages in all plans together", r->plan,
                       MOST_STAGES);
    lua_Integer named = 0;
    for (lua_pushnil(L); lua_next(L, -2); lua_pop(L, 1)) {
        bool idle = lua_type(L, -2) == LUA_TSTRING && strcmp(lua_tostring(L, -2), "idle") == 0;
        named += !idle;
        if (idle && !lua_isinteger(L, -1))
            return tg_fail(r->err, TG_EPROVIDER, "plan %d: idle: expected a whole number", r->plan);
        if (idle)
            out->idle = (int)lua_tointeger(L, -1);
    }
    if (named != count)
        return refuse_plan_key(r, count);
    tg_planned_stage *stages = tg_arena_alloc(r->arena, (size_t)count, sizeof *stages);
    if (!stages)
        return tg_fail(r->err, TG_EMEMORY, "out of memory");
    for (lua_Integer s = 1; s <= count; s++) {
        r->stage = (int)s;
        lua_rawgeti(L, -1, s);
        tg_status status = read_stage(r, &stages[s - 1]);
        if (status != TG_OK)
            return status;
        lua_pop(L, 1);
    }
    out->stages = stages;
    out->stage_count = (int)count;
    return TG_OK;
}

tg_status tg_read_candidates(lua_State *L, int index, tg_arena *arena, tg_answer *out, tg_error *err)
{
    int top = lua_gettop(L);
    luaL_checkstack(L, 24, NULL);
    if (!lua_istable(L, index))
        return tg_fail(err, TG_EPROVIDER, "plan() returned a %s, expected a list of plans, or nil and why",
                       luaL_typename(L, index));
    lua_Integer count = (lua_Integer)lua_rawlen(L, index);
    if (count < 1 || count > MOST_CANDIDATES)
        return tg_fail(err, TG_EPROVIDER, "plan() returned %lld plans, expected 1 to %d, or nil and why",
                       (long long)count, MOST_CANDIDATES);
    tg_candidate *candidates = tg_arena_alloc(arena, (size_t)count, sizeof *candidates);
    if (!candidates)
        return tg_fail(err, TG_EMEMORY, "out of memory");
    tg_status status = TG_OK;
    reader r = {.L = L, .arena = arena, .err = err, .stages_left = MOST_STAGES};
    for (lua_Integer c = 1; c <= count && status == TG_OK; c++) {
        r.plan = (int)c;
        lua_rawgeti(L, index, c);
        status = read_candidate(&r, &candidates[c - 1]);
        lua_settop(L, top);
    }
    out->candidates = candidates;
    out->count = (int)count;
    out->outcome = TG_ANSWERED;
    return status;
}

static void push_strategy(lua_State *L, const tg_strategy *strategy)
{
    lua_newtable(L);
    for (size_t i = 0; i < STRATEGY_FIELDS; i++) {
        const void *at = (const char *)strategy + strategy_fields[i].offset;
        if (strategy_fields[i].kind == INTEGER)
            lua_pushinteger(L, *(const int *)at);
        else if (strategy_fields[i].kind == BOOLEAN)
            lua_pushboolean(L, *(const bool *)at);
        else
            continue;
        lua_setfield(L, -2, strategy_fields[i].name);
    }
    lua_createtable(L, 0, 2);
    tg_set_text(L, "kind", recompute_names[strategy->recompute]);
    if (strategy->recompute_layers >= 0)
        tg_set_integer(L, "layers", strategy->recompute_layers);
    lua_setfield(L, -2, "recompute");
    tg_set_text(L, "offload",
                offload_names[(strategy->offload_optimizer ? 1 : 0) + (strategy->offload_activations ? 2 : 0)]);
}

static void push_parts(lua_State *L, const char *name, const tg_part *parts, int count)
{
    lua_createtable(L, 0, count);
    for (int i = 0; i < count; i++)
        tg_set_number(L, parts[i].name, parts[i].value);
    lua_setfield(L, -2, name);
}

void tg_push_stage(lua_State *L, const tg_planned_stage *stage)
{
    luaL_checkstack(L, 8, NULL);
    lua_newtable(L);
    for (size_t i = 0; i < STAGE_FIELDS; i++) {
        const void *at = (const char *)stage + stage_fields[i].offset;
        if (stage_fields[i].kind == INTEGER)
            tg_set_integer(L, stage_fields[i].name, *(const int *)at);
        else if (stage_fields[i].kind == NUMBER)
            tg_set_number(L, stage_fields[i].name, *(const double *)at);
    }
    push_strategy(L, &stage->strategy);
    lua_setfield(L, -2, "strategy");
    lua_createtable(L, 0, 2);
    push_parts(L, "memory", stage->memory_parts, stage->memory_part_count);
    push_parts(L, "time", stage->time_parts, stage->time_part_count);
    lua_setfield(L, -2, "parts");
}
