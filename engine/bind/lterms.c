/* Terms userdata: the split of a run into stages of one strategy (pipeline/split.h), and what memory bears. */
#include <math.h>
#include <stddef.h>

#include "bind/convert.h"
#include "bind/core.h"
#include "pipeline/memory.h"
#include "pipeline/split.h"

static const char *const TERMS = "tangram.Terms";

const tg_terms *tg_check_terms(lua_State *L, int arg)
{
    return luaL_checkudata(L, arg, TERMS);
}

/* Atoms of equal content share a row of the lists. */
typedef struct {
    int rows, atoms;
    const int *row; /* of each atom */
} shape;

/* The shape that the fields time_s and rows tell; row lives while it stays on the stack: pushes one value. */
static shape check_shape(lua_State *L)
{
    bool given = lua_getfield(L, 1, "rows") != LUA_TNIL;
    if (given && !lua_istable(L, -1))
        luaL_error(L, "field 'rows': expected a list of whole numbers, got %s", luaL_typename(L, -1));
    if (lua_getfield(L, 1, "time_s") != LUA_TTABLE)
        luaL_error(L, "field 'time_s': expected a list of numbers, got %s", luaL_typename(L, -1));
    lua_Integer rows = luaL_len(L, -1), atoms = given ? luaL_len(L, -2) : rows;
    if (rows < 1 || rows > TG_SPLIT_ATOMS || atoms < 1 || atoms > TG_SPLIT_ATOMS)
        luaL_error(L, "field '%s': expected 1 to %d atoms, got %I", given ? "rows" : "time_s", TG_SPLIT_ATOMS,
                   (LUAI_UACINT)(given ? atoms : rows));
    lua_pop(L, 1);
    int *row = lua_newuserdatauv(L, (size_t)atoms * sizeof *row, 0);
    for (int i = 0; i < (int)atoms; i++) {
        row[i] = i;
        if (given) {
            lua_Integer k = lua_geti(L, -2, i + 1) == LUA_TNUMBER ? lua_tointeger(L, -1) : 0;
            if (k < 1 || k > rows)
                luaL_error(L, "field 'rows[%d]': expected a whole number from 1 to %d", i + 1, (int)rows);
            row[i] = (int)k - 1;
            lua_pop(L, 1);
        }
    }
    lua_remove(L, -2);
    return (shape){(int)rows, (int)atoms, row};
}

/* The values of all atoms at field name, in memory that lives while it stays on the stack. */
static const double *amounts(lua_State *L, const char *name, const shape *of, bool needed)
{
    const double *list = tg_amounts_field(L, name, of->rows, needed);
    double *spread = lua_newuserdatauv(L, (size_t)of->atoms * sizeof *spread, 0);
    for (int i = 0; i < of->atoms; i++)
        spread[i] = list[of->row[i]];
    return spread;
}

static bool given(lua_State *L, const char *name)
{
    bool there = lua_getfield(L, 1, name) != LUA_TNIL;
    lua_pop(L, 1);
    return there;
}

static const bool *flags(lua_State *L, const char *name, const shape *of)
{
    const bool *list = tg_flags_field(L, name, of->rows, false);
    bool *spread = lua_newuserdatauv(L, (size_t)of->atoms * sizeof *spread, 0);
    for (int i = 0; i < of->atoms; i++)
        spread[i] = list[of->row[i]];
    return spread;
}

/* core.terms{ time_s = {…} [, forward_s = {…}], static_bytes = {…}, inflight_bytes = {…} [, transient_bytes = {…}]
 * [, recomputable = {…}, recompute_s = {…}, recomputed_inflight_bytes = {…}, recompute_peak_bytes = {…}]
 * [, stage_s] [, stage_static_bytes] [, step_s = {…}] [, reduce_s = {…}] [, stage_step_s] [, stage_reduce_s]
 * [, reduce_share = 1] [, whole_static_bytes] [, whole_step_s] [, whole_reduce_s], capacity_bytes, microbatches
 * [, rows = {…}] } -> Terms. Lists: one value per atom of the whole model or, with rows, per row: atom i has row
 * rows[i]. Raises on wrong fields. */
static int terms_new(lua_State *L)
{
    static const char *const fields[] = {"time_s",
                                         "forward_s",
                                         "static_bytes",
                                         "inflight_bytes",
                                         "transient_bytes",
                                         "recomputable",
                                         "recompute_s",
                                         "recomputed_inflight_bytes",
                                         "recompute_peak_bytes",
                                         "stage_s",
                                         "stage_static_bytes",
                                         "step_s",
                                         "reduce_s",
                                         "whole_static_bytes",
                                         "whole_step_s",
                                         "whole_reduce_s",
                                         "stage_step_s",
                                         "stage_reduce_s",
                                         "reduce_share",
                                         "capacity_bytes",
                                         "microbatches",
                                         "rows",
                                         NULL};
    luaL_checktype(L, 1, LUA_TTABLE);
    tg_check_fields(L, 1, fields);
    luaL_checkstack(L, 32, NULL);
    shape of = check_shape(L);
    tg_terms *terms = lua_newuserdatauv(L, tg_terms_bytes(of.atoms), 0);
    luaL_setmetatable(L, TERMS);
    int index = lua_gettop(L);
    tg_split_terms from = {
        .atoms = of.atoms,
        .microbatches = tg_integer_field(L, 1, "microbatches", 1, INT32_MAX),
        .time_s = amounts(L, "time_s", &of, true),
        .forward_s = given(L, "forward_s") ? amounts(L, "forward_s", &of, true) : NULL,
        .static_bytes = amounts(L, "static_bytes", &of, true),
        .inflight_bytes = amounts(L, "inflight_bytes", &of, true),
        .transient_bytes = amounts(L, "transient_bytes", &of, false),
        .recomputable = flags(L, "recomputable", &of),
        .recompute_s = amounts(L, "recompute_s", &of, false),
        .recomputed_inflight_bytes = amounts(L, "recomputed_inflight_bytes", &of, false),
        .recompute_peak_bytes = amounts(L, "recompute_peak_bytes", &of, false),
        .stage_s = tg_number_field_or(L, 1, "stage_s", 0),
        .stage_static_bytes = tg_number_field_or(L, 1, "stage_static_bytes", 0),
        .capacity_bytes = tg_number_field(L, 1, "capacity_bytes"),
        .step_s = amounts(L, "step_s", &of, false),
        .reduce_s = amounts(L, "reduce_s", &of, false),
        .whole_static_bytes = tg_number_field_or(L, 1, "whole_static_bytes", 0),
        .whole_step_s = tg_number_field_or(L, 1, "whole_step_s", 0),
        .whole_reduce_s = tg_number_field_or(L, 1, "whole_reduce_s", 0),
        .stage_step_s = tg_number_field_or(L, 1, "stage_step_s", 0),
        .stage_reduce_s = tg_number_field_or(L, 1, "stage_reduce_s", 0),
        .reduce_share = tg_number_field_or(L, 1, "reduce_share", 1),
    };
    tg_error err;
    if (tg_terms_init(terms, &from, &err) != TG_OK)
        return luaL_error(L, "%s", err.message);
    lua_settop(L, index);
    return 1;
}

/* A query about stages that all have one way: it lives as long as this. */
typedef struct {
    tg_split_way way;
    tg_split_ways ways;
    tg_split_query query;
} one_way;

/* (terms, first, last, stages, successors, allow_recompute) */
static void check_query(lua_State *L, one_way *one)
{
    tg_split_query *query = &one->query;
    one->way = (tg_split_way){luaL_checkudata(L, 1, TERMS), lua_toboolean(L, 6)};
    one->ways = (tg_split_ways){1, &one->way};
    *query = (tg_split_query){.ways = &one->ways, .alike = true};
    tg_check_run(L, 2, &query->first, &query->last);
    query->stages = tg_check_integer(L, 4, 1, INT32_MAX);
    query->successors = tg_check_integer(L, 5, 0, INT32_MAX);
}

/* Pushes bottleneck_s, latency_s or, with false, nil, short_bytes, stage. */
static bool push_split(lua_State *L, const tg_split_query *query, tg_split_part *parts)
{
    tg_split split;
    tg_error err;
    if (tg_split_run(query, &split, parts, &err) != TG_OK)
        luaL_error(L, "%s", err.message);
    if (split.fits) {
        lua_pushnumber(L, split.bottleneck_s);
        lua_pushnumber(L, split.latency_s);
        return true;
    }
    double short_bytes;
    int stage;
    if (tg_split_shortage(query, &short_bytes, &stage, &err) != TG_OK)
        luaL_error(L, "%s", err.message);
    lua_pushnil(L);
    lua_pushnumber(L, short_bytes);
    lua_pushinteger(L, stage + 1);
    return false;
}

/* Pushes a list of one number of each part, counted from `base`. */
static void push_parts(lua_State *L, const tg_split_part *parts, int count, size_t member, int base)
{
    lua_createtable(L, count, 0);
    for (int i = 0; i < count; i++) {
        lua_pushinteger(L, *(const int *)((const char *)&parts[i] + member) + base);
        lua_rawseti(L, -2, i + 1);
    }
}

/* terms:split(first, last, stages, successors, allow_recompute) -> bottleneck_s, latency_s, bounds, recomputed
 * | nil, short_bytes, stage. bounds: the last atom of each stage; recomputed: how many of its first recomputable atoms
 * each stage recomputes; short_bytes: infinite if there are more stages than atoms. */
static int terms_split(lua_State *L)
{
    one_way one;
    check_query(L, &one);
    tg_split_part parts[TG_SPLIT_ATOMS];
    if (!push_split(L, &one.query, parts))
        return 3;
    push_parts(L, parts, one.query.stages, offsetof(tg_split_part, last), 0);
    push_parts(L, parts, one.query.stages, offsetof(tg_split_part, recomputed), 0);
    return 4;
}

static const char *const EXPECTED_WAYS =
    "expected for each stage a list of terms, each with whether atoms may be recomputed";

/* Fills list with the ways in the table on the top of the stack, at most `most`. */
static tg_split_ways fill_ways(lua_State *L, tg_split_way *list, size_t most)
{
    size_t count = lua_rawlen(L, -1) / 2;
    luaL_argcheck(L, count > 0 && count <= most, 1, EXPECTED_WAYS);
    for (size_t i = 0; i < count; i++) {
        lua_rawgeti(L, -1, (lua_Integer)(2 * i + 1));
        lua_rawgeti(L, -2, (lua_Integer)(2 * i + 2));
        list[i] = (tg_split_way){luaL_testudata(L, -2, TERMS), lua_toboolean(L, -1)};
        luaL_argcheck(L, list[i].terms, 1, EXPECTED_WAYS);
        lua_pop(L, 2);
    }
    return (tg_split_ways){(int)count, list};
}

/* core.split(ways, first, last, successors) -> bottleneck_s, latency_s, bounds, recomputed, chosen | nil, short_bytes,
 * stage. As terms:split, for stages that are not alike: ways[k] lists what stage k may choose from, in turn terms and
 * whether its atoms may be recomputed; chosen says which of them each stage took. Stages may share a list. */
static int split_unlike(lua_State *L)
{
    tg_split_ways ways[TG_SPLIT_ATOMS];
    tg_split_query query = {.ways = ways};
    luaL_checktype(L, 1, LUA_TTABLE);
    tg_check_run(L, 2, &query.first, &query.last);
    query.successors = tg_check_integer(L, 4, 0, INT32_MAX);
    lua_Unsigned stages = lua_rawlen(L, 1);
    luaL_argcheck(L, stages >= 1 && stages <= TG_SPLIT_ATOMS, 1, EXPECTED_WAYS);
    query.stages = (int)stages;

    const void *lists[TG_SPLIT_ATOMS]; /* each counted, and read, once */
    int like[TG_SPLIT_ATOMS];
    size_t room = 0;
    for (int k = 0; k < query.stages; k++) {
        luaL_argcheck(L, lua_rawgeti(L, 1, k + 1) == LUA_TTABLE, 1, EXPECTED_WAYS);
        lists[k] = lua_topointer(L, -1);
        for (like[k] = 0; lists[like[k]] != lists[k];)
            like[k]++;
        room += like[k] < k ? 0 : lua_rawlen(L, -1) / 2;
        lua_pop(L, 1);
    }
    tg_split_way *list = lua_newuserdatauv(L, room * sizeof *list, 0);
    for (int k = 0; k < query.stages; k++) {
        luaL_argcheck(L, lua_rawgeti(L, 1, k + 1) == LUA_TTABLE, 1, EXPECTED_WAYS);
        ways[k] = like[k] < k ? ways[like[k]] : fill_ways(L, list, room);
        if (like[k] == k) {
            list += ways[k].count;
            room -= (size_t)ways[k].count;
        }
        lua_pop(L, 1);
    }
    tg_split_part parts[TG_SPLIT_ATOMS];
    if (!push_split(L, &query, parts))
        return 3;
    push_parts(L, parts, query.stages, offsetof(tg_split_part, last), 0);
    push_parts(L, parts, query.stages, offsetof(tg_split_part, recomputed), 0);
    push_parts(L, parts, query.stages, offsetof(tg_split_part, way), 1);
    return 5;
}

/* terms:probe(first, last, stages, successors, allow_recompute) -> bottleneck_s, latency_s | nil. As split, for those
 * who ask often: no tables, and what is short is not worked out. */
static int terms_probe(lua_State *L)
{
    one_way one;
    check_query(L, &one);
    tg_split split;
    tg_error err;
    if (tg_split_run(&one.query, &split, NULL, &err) != TG_OK)
        return luaL_error(L, "%s", err.message);
    if (!split.fits)
        return 0;
    lua_pushnumber(L, split.bottleneck_s);
    lua_pushnumber(L, split.latency_s);
    return 2;
}

/* terms:price(first, last, behind, allow_recompute) -> time_s, recompute_s (part of it), bytes, recomputed, fits: these
 * atoms as one stage with so many behind it. One that does not fit recomputes nothing or all, whichever needs less. */
static int terms_price(lua_State *L)
{
    const tg_terms *terms = luaL_checkudata(L, 1, TERMS);
    int first, last, behind = tg_check_integer(L, 4, 0, INT32_MAX);
    tg_check_run(L, 2, &first, &last);
    tg_split_price price;
    tg_error err;
    if (tg_terms_price(terms, first, last, behind, lua_toboolean(L, 5), &price, &err) != TG_OK)
        return luaL_error(L, "%s", err.message);
    lua_pushnumber(L, price.time_s);
    lua_pushnumber(L, price.recompute_s);
    lua_pushnumber(L, price.bytes);
    lua_pushinteger(L, price.recomputed);
    lua_pushboolean(L, price.fits);
    return 5;
}

/* terms:stage(first, last, inflight, allow_recompute) -> time_s, sync_s, max_successors, recomputed | nil. One stage
 * that holds so many microbatches at once. */
static int terms_stage(lua_State *L)
{
    const tg_terms *terms = luaL_checkudata(L, 1, TERMS);
    int first, last, inflight = tg_check_integer(L, 4, 1, INT32_MAX);
    tg_check_run(L, 2, &first, &last);
    luaL_argcheck(L, last <= tg_terms_atoms(terms), 3, "not an atom of the model");
    tg_split_stage stage;
    if (!tg_terms_stage(terms, first, last, inflight, lua_toboolean(L, 5), &stage))
        return 0;
    lua_pushnumber(L, stage.time_s);
    lua_pushnumber(L, stage.sync_s);
    lua_pushinteger(L, stage.max_successors);
    lua_pushinteger(L, stage.recomputed);
    return 4;
}

static int terms_length(lua_State *L)
{
    lua_pushinteger(L, tg_terms_atoms(luaL_checkudata(L, 1, TERMS)));
    return 1;
}

static double check_bytes(lua_State *L, int arg)
{
    double value = luaL_checknumber(L, arg);
    luaL_argcheck(L, isfinite(value) && value >= 0, arg, "expected a finite number of bytes, at least 0");
    return value;
}

/* (static_bytes, transient_bytes, inflight_bytes, capacity_bytes, microbatches) */
static tg_stage_memory check_memory(lua_State *L, int *microbatches)
{
    tg_stage_memory memory = {.static_bytes = check_bytes(L, 1),
                              .transient_bytes = check_bytes(L, 2),
                              .inflight_bytes = check_bytes(L, 3),
                              .capacity_bytes = check_bytes(L, 4)};
    *microbatches = tg_check_integer(L, 5, 1, INT32_MAX);
    return memory;
}

/* core.bears(static_bytes, transient_bytes, inflight_bytes, capacity_bytes, microbatches) -> the most stages that may
 * stand behind such a stage, -1 if it fits nowhere, core.no_limit (larger than any count) if anywhere */
static int bears(lua_State *L)
{
    int microbatches;
    tg_stage_memory memory = check_memory(L, &microbatches);
    lua_pushinteger(L, tg_memory_bears(&memory, microbatches));
    return 1;
}

/* core.max_inflight(as bears) -> the most microbatches it holds at once, 0 if none, core.no_limit if all */
static int max_inflight(lua_State *L)
{
    int microbatches;
    tg_stage_memory memory = check_memory(L, &microbatches);
    lua_pushinteger(L, tg_memory_max_inflight(&memory, microbatches));
    return 1;
}

/* core.max_successors(stages, microbatches) -> as bears, for a row of stages, each with static_bytes, transient_bytes,
 * inflight_bytes, capacity_bytes (other fields are ignored) */
static int max_successors(lua_State *L)
{
    luaL_checktype(L, 1, LUA_TTABLE);
    int microbatches = tg_check_integer(L, 2, 1, INT32_MAX), count = (int)luaL_len(L, 1);
    luaL_argcheck(L, count > 0, 1, "expected at least one stage");
    tg_stage_memory *stages = lua_newuserdatauv(L, (size_t)count * sizeof *stages, 0);
    for (int i = 0; i < count; i++) {
        luaL_argcheck(L, lua_geti(L, 1, i + 1) == LUA_TTABLE, 1, "expected a list of stages");
        int stage = lua_gettop(L);
        stages[i] = (tg_stage_memory){.static_bytes = tg_number_field(L, stage, "static_bytes"),
                                      .transient_bytes = tg_number_field(L, stage, "transient_bytes"),
                                      .inflight_bytes = tg_number_field(L, stage, "inflight_bytes"),
                                      .capacity_bytes = tg_number_field(L, stage, "capacity_bytes")};
        lua_pop(L, 1);
    }
    lua_pushinteger(L, tg_plan_max_successors(stages, count, microbatches));
    return 1;
}

void tg_open_terms(lua_State *L)
{
    static const luaL_Reg functions[] = {{"terms", terms_new},
                                         {"split", split_unlike},
                                         {"bears", bears},
                                         {"max_inflight", max_inflight},
                                         {"max_successors", max_successors},
                                         {NULL, NULL}};
    static const luaL_Reg methods[] = {
        {"split", terms_split}, {"probe", terms_probe}, {"stage", terms_stage}, {"price", terms_price}, {NULL, NULL}};
    static const luaL_Reg metamethods[] = {{"__len", terms_length}, {NULL, NULL}};
    tg_make_class(L, TERMS, methods, metamethods);
    luaL_setfuncs(L, functions, 0);
    tg_set_integer(L, "no_limit", TG_NO_LIMIT);
}
