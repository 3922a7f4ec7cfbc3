/* PartitionTable userdata: the Pareto sets of all slices on one island (pipeline/partition_table.h). */
#include <float.h>
#include <math.h>

#include "bind/convert.h"
#include "bind/core.h"
#include "pipeline/partition_table.h"

static const char *const TABLE = "tangram.PartitionTable";

typedef struct {
    tg_partition_table *table;
} table_ud;

static tg_partition_table *check_table(lua_State *L)
{
    table_ud *u = luaL_checkudata(L, 1, TABLE);
    luaL_argcheck(L, u->table, 1, "the table is closed");
    return u->table;
}

/* The contents of the atoms as numbers: the same for equal values of the list at the top of the stack. */
static int *check_contents(lua_State *L, int *atoms)
{
    luaL_checktype(L, -1, LUA_TTABLE);
    int list = lua_gettop(L), seen = list + 1, count = *atoms = (int)luaL_len(L, list);
    lua_newtable(L);
    int *contents = lua_newuserdatauv(L, ((size_t)count + 1) * sizeof *contents, 0);
    for (int i = 0; i < count; i++) {
        lua_geti(L, list, i + 1);
        luaL_argcheck(L, !lua_isnil(L, -1), 1, "field 'content': expected a value for each atom");
        lua_pushvalue(L, -1);
        if (lua_gettable(L, seen) == LUA_TNIL) {
            lua_pop(L, 1);
            lua_pushvalue(L, -1);
            lua_pushinteger(L, i);
            lua_settable(L, seen);
            lua_pushinteger(L, i);
        }
        contents[i] = (int)lua_tointeger(L, -1);
        lua_pop(L, 2);
    }
    return contents;
}

/* The field's list of so many numbers of at least `least`. */
static double *check_numbers(lua_State *L, const char *name, int count, double least, tg_arena *arena)
{
    lua_getfield(L, 1, name);
    double *numbers = tg_arena_alloc(arena, (size_t)count + 1, sizeof *numbers);
    if (!numbers)
        luaL_error(L, "out of memory");
    if (!lua_istable(L, -1) || (int)lua_rawlen(L, -1) != count)
        luaL_error(L, "field '%s': expected a list of %d numbers", name, count);
    for (int i = 0; i < count; i++) {
        numbers[i] = lua_rawgeti(L, -1, i + 1) == LUA_TNUMBER ? lua_tonumber(L, -1) : -1;
        if (!(numbers[i] >= least && numbers[i] < INFINITY))
            luaL_error(L, "field '%s': expected finite numbers, none negative and no rate 0", name);
        lua_pop(L, 1);
    }
    lua_pop(L, 1);
    return numbers;
}

static bool boolean_field(lua_State *L, const char *name)
{
    lua_getfield(L, 1, name);
    bool value = lua_toboolean(L, -1);
    lua_pop(L, 1);
    return value;
}

/* core.partition_table{ content = {hashes}, devices, node, microbatches, most_successors, most_stages [, spread]
 * [, idle] [, simulated] [, boundary_bytes = by atom but the last, of a microbatch; and then intra_bytes_per_s and
 * inter_bytes_per_s = by GPUs of a group in a node, by flows between nodes, 1 to node; intra_latency_s,
 * inter_latency_s] } -> PartitionTable. Raises on wrong fields. */
static int table_new(lua_State *L)
{
    static const char *const fields[] = {"content",
                                         "devices",
                                         "node",
                                         "microbatches",
                                         "most_successors",
                                         "most_stages",
                                         "spread",
                                         "idle",
                                         "simulated",
                                         "boundary_bytes",
                                         "intra_latency_s",
                                         "intra_bytes_per_s",
                                         "inter_bytes_per_s",
                                         "inter_latency_s",
                                         NULL};
    luaL_checktype(L, 1, LUA_TTABLE);
    lua_settop(L, 1);
    tg_check_fields(L, 1, fields);
    table_ud *u = lua_newuserdatauv(L, sizeof *u, 1);
    u->table = NULL;
    luaL_setmetatable(L, TABLE);
    lua_newtable(L); /* the terms, kept alive */
    lua_setiuservalue(L, -2, 1);
    tg_partition_table_spec spec = {
        .devices = tg_integer_field(L, 1, "devices", 1, INT_MAX),
        .node = tg_integer_field(L, 1, "node", 1, INT_MAX),
        .microbatches = tg_integer_field(L, 1, "microbatches", 1, INT_MAX),
        .most_successors = tg_integer_field(L, 1, "most_successors", 0, 1 << 20),
        .most_stages = tg_integer_field(L, 1, "most_stages", 1, 1 << 20),
        .spread = boolean_field(L, "spread"),
        .idle = boolean_field(L, "idle"),
        .simulated = boolean_field(L, "simulated"),
    };
    lua_getfield(L, 1, "content");
    spec.content = check_contents(L, &spec.atoms);
    tg_arena *arena = tg_push_arena(L);
    if (lua_getfield(L, 1, "boundary_bytes") != LUA_TNIL) {
        spec.boundary_bytes = check_numbers(L, "boundary_bytes", spec.atoms - 1, 0, arena);
        spec.intra_bytes_per_s = check_numbers(L, "intra_bytes_per_s", spec.node, DBL_MIN, arena);
        spec.inter_bytes_per_s = check_numbers(L, "inter_bytes_per_s", spec.node, DBL_MIN, arena);
        spec.intra_latency_s = tg_number_field(L, 1, "intra_latency_s");
        spec.inter_latency_s = tg_number_field(L, 1, "inter_latency_s");
    }
    tg_error err;
    u->table = tg_partition_table_new(&spec, &err);
    if (!u->table)
        return luaL_error(L, "%s", err.message);
    lua_settop(L, 2);
    return 1;
}

static int table_close(lua_State *L)
{
    table_ud *u = luaL_checkudata(L, 1, TABLE);
    tg_partition_table_free(u->table);
    u->table = NULL;
    return 0;
}

/* table:add(devices, strategy, terms, allow_recompute): stages of so many devices may have this strategy (a number) */
static int table_add(lua_State *L)
{
    tg_partition_table *table = check_table(L);
    int devices = tg_check_integer(L, 2, 1, INT_MAX), strategy = tg_check_integer(L, 3, 0, INT_MAX);
    const tg_terms *terms = tg_check_terms(L, 4);
    tg_error err;
    lua_getiuservalue(L, 1, 1);
    lua_pushvalue(L, 4);
    lua_rawseti(L, -2, (lua_Integer)lua_rawlen(L, -2) + 1);
    if (tg_partition_table_add(table, devices, strategy, terms, lua_toboolean(L, 5), &err) != TG_OK)
        return luaL_error(L, "%s", err.message);
    return 0;
}

static bool has_field(lua_State *L, const char *name)
{
    bool there = lua_getfield(L, -1, name) != LUA_TNIL;
    lua_pop(L, 1);
    return there;
}

static double number_of(lua_State *L, int row, const char *name)
{
    if (lua_getfield(L, -1, name) != LUA_TNUMBER)
        luaL_error(L, "option %d: field '%s': expected a number, got %s", row, name, luaL_typename(L, -1));
    double value = lua_tonumber(L, -1);
    lua_pop(L, 1);
    return value;
}

static int count_of(lua_State *L, int row, const char *name)
{
    double value = number_of(L, row, name);
    if (!(value >= -1 && value <= INT_MAX))
        luaL_error(L, "option %d: field '%s': expected a whole number of at least -1", row, name);
    return (int)value;
}

/* table:set(first, last, devices, { { time_s [, forward_s = half of it], sync_s, max_successors, strategy, recomputed
 * }, … }): all ways of such a stage */
static int table_set(lua_State *L)
{
    tg_partition_table *table = check_table(L);
    int first, last, devices = tg_check_integer(L, 4, 1, INT_MAX);
    tg_check_run(L, 2, &first, &last);
    luaL_checktype(L, 5, LUA_TTABLE);
    int count = (int)luaL_len(L, 5);
    tg_stage_option *options = lua_newuserdatauv(L, ((size_t)count + 1) * sizeof *options, 0);
    for (int i = 0; i < count; i++) {
        luaL_argcheck(L, lua_geti(L, 5, i + 1) == LUA_TTABLE, 5, "expected a list of options");
        options[i] = (tg_stage_option){.time_s = number_of(L, i + 1, "time_s"),
                                       .forward_s = has_field(L, "forward_s") ? number_of(L, i + 1, "forward_s")
                                                                              : number_of(L, i + 1, "time_s") / 2,
                                       .sync_s = number_of(L, i + 1, "sync_s"),
                                       .max_successors = count_of(L, i + 1, "max_successors"),
                                       .strategy = count_of(L, i + 1, "strategy"),
                                       .recomputed = count_of(L, i + 1, "recomputed")};
        lua_pop(L, 1);
    }
    tg_error err;
    if (tg_partition_table_set(table, first, last, devices, options, count, &err) != TG_OK)
        return luaL_error(L, "%s", err.message);
    return 0;
}

/* table:has(first, last, devices) -> have the ways of such a stage been set? */
static int table_has(lua_State *L)
{
    const tg_partition_table *table = check_table(L);
    int first, last, devices = tg_check_integer(L, 4, 1, INT_MAX);
    tg_check_run(L, 2, &first, &last);
    lua_pushboolean(L, tg_partition_table_has(table, first, last, devices));
    return 1;
}

/* table:plans(first, last, successors) -> { { idle = n, { first, atoms, devices, strategy, recomputed }, … front first
 * }, … }, in the order of tg_partition_table_plans */
static int table_plans(lua_State *L)
{
    tg_partition_table *table = check_table(L);
    int first, last, successors = tg_check_integer(L, 4, 0, INT_MAX), count;
    tg_check_run(L, 2, &first, &last);
    tg_arena *arena = tg_push_arena(L);
    const tg_table_plan *plans;
    tg_error err;
    if (tg_partition_table_plans(table, arena, first, last, successors, &plans, &count, &err) != TG_OK)
        return luaL_error(L, "%s", err.message);
    lua_createtable(L, count, 0);
    for (int n = 0; n < count; n++) {
        lua_createtable(L, plans[n].stages, 1);
        tg_set_integer(L, "idle", plans[n].idle);
        for (int k = 0; k < plans[n].stages; k++) {
            const tg_table_stage *stage = &plans[n].stage[k];
            lua_createtable(L, 0, 5);
            tg_set_integer(L, "first", stage->first + 1);
            tg_set_integer(L, "atoms", stage->atoms);
            tg_set_integer(L, "devices", stage->devices);
            tg_set_integer(L, "strategy", stage->option.strategy);
            tg_set_integer(L, "recomputed", stage->option.recomputed);
            lua_rawseti(L, -2, k + 1);
        }
        lua_rawseti(L, -2, n + 1);
    }
    return 1;
}

void tg_open_partition_table(lua_State *L)
{
    static const luaL_Reg methods[] = {
        {"add", table_add}, {"set", table_set}, {"has", table_has}, {"plans", table_plans}, {NULL, NULL}};
    static const luaL_Reg metamethods[] = {{"__gc", table_close}, {"__close", table_close}, {NULL, NULL}};
    tg_make_class(L, TABLE, methods, metamethods);
    lua_pushcfunction(L, table_new);
    lua_setfield(L, -2, "partition_table");
}
