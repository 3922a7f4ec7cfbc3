/* One island's stages (pipeline/partition.h) and Pareto sets. */
#include <math.h>

#include "bind/convert.h"
#include "bind/core.h"
#include "pipeline/pareto.h"
#include "pipeline/partition.h"

/* The numbers of the list in field name of the table at index, in memory that lives while it stays on the stack (pushes
 * one value). A list that is absent and has a value for that is all this value; NaN: it is needed. */
static const double *check_column(lua_State *L, int index, const char *name, int count, bool whole, double missing)
{
    double *column = lua_newuserdatauv(L, (size_t)(count + 1) * sizeof *column, 0);
    int type = lua_getfield(L, index, name);
    bool absent = type == LUA_TNIL && !isnan(missing);
    if (type != LUA_TTABLE && !absent)
        luaL_error(L, "field '%s': expected a list, got %s", name, luaL_typename(L, -1));
    if (!absent && luaL_len(L, -1) != count)
        luaL_error(L, "field '%s': expected %d values, got %d", name, count, (int)luaL_len(L, -1));
    for (int i = 0; i < count; i++) {
        column[i] = missing;
        if (absent)
            continue;
        lua_geti(L, -1, i + 1);
        column[i] = lua_tonumber(L, -1);
        if (lua_type(L, -1) != LUA_TNUMBER || !isfinite(column[i]) || (whole && column[i] != floor(column[i])) ||
            (whole && fabs(column[i]) > INT_MAX))
            luaL_error(L, "field '%s[%d]': expected a %s number, got %s", name, i + 1, whole ? "whole" : "finite",
                       luaL_tolstring(L, -1, NULL));
        lua_pop(L, 1);
    }
    lua_pop(L, 1);
    return column;
}

static const tg_partition_entry *check_entries(lua_State *L, int *count)
{
    static const char *const fields[] = {"first", "last", "devices", "cost_s", "max_successors", "sync_s", NULL};
    luaL_argcheck(L, lua_getfield(L, 1, "entries") == LUA_TTABLE, 1, "field 'entries': expected a table of lists");
    int at = lua_gettop(L);
    tg_check_fields(L, at, fields);
    if (lua_getfield(L, at, "cost_s") != LUA_TTABLE)
        luaL_error(L, "field 'cost_s': expected a list, got %s", luaL_typename(L, -1));
    lua_Integer length = luaL_len(L, -1);
    if (length > 1 << 26)
        luaL_error(L, "field 'cost_s': expected at most 2^26 entries");
    int n = *count = (int)length;
    tg_partition_entry *entries = lua_newuserdatauv(L, (size_t)(n + 1) * sizeof *entries, 0);
    const double *first = check_column(L, at, "first", n, true, NAN), *last = check_column(L, at, "last", n, true, NAN);
    const double *devices = check_column(L, at, "devices", n, true, NAN);
    const double *cost_s = check_column(L, at, "cost_s", n, false, NAN);
    const double *sync_s = check_column(L, at, "sync_s", n, false, 0);
    const double *max_successors = check_column(L, at, "max_successors", n, true, TG_NO_LIMIT);
    for (int i = 0; i < n; i++)
        entries[i] = (tg_partition_entry){.first = (int)first[i] - 1,
                                          .last = (int)last[i],
                                          .devices = (int)devices[i],
                                          .cost_s = cost_s[i],
                                          .sync_s = sync_s[i],
                                          .max_successors = (int)max_successors[i]};
    return entries;
}

/* Leaves what it needs on the stack. */
static void check_problem(lua_State *L, tg_partition *problem)
{
    static const char *const fields[] = {"atoms",  "devices", "microbatches", "successors", "at_most",
                                         "pareto", "entries", "transfer_s",   NULL};
    luaL_checktype(L, 1, LUA_TTABLE);
    lua_settop(L, 1);
    luaL_checkstack(L, 32, NULL);
    tg_check_fields(L, 1, fields);
    *problem = (tg_partition){.atoms = tg_integer_field(L, 1, "atoms", 1, INT_MAX),
                              .devices = tg_integer_field(L, 1, "devices", 1, INT_MAX),
                              .microbatches = tg_integer_field(L, 1, "microbatches", 1, INT_MAX),
                              .successors = tg_integer_field_or(L, 1, "successors", 0, INT_MAX, 0)};
    lua_getfield(L, 1, "at_most");
    problem->at_most = lua_toboolean(L, -1);
    problem->entry = check_entries(L, &problem->entries);
    problem->transfer_s = check_column(L, 1, "transfer_s", problem->atoms - 1, false, 0);
}

static void push_plan(lua_State *L, const tg_partition *problem, const tg_partition_plan *plan)
{
    lua_createtable(L, 0, 8);
    tg_set_integer(L, "stages", plan->stages);
    tg_set_integer(L, "devices", plan->devices);
    tg_set_number(L, "bottleneck_s", plan->bottleneck_s);
    tg_set_number(L, "latency_s", plan->latency_s);
    tg_set_number(L, "sync_s", plan->sync_s);
    tg_set_number(L, "total_s", tg_partition_total_s(problem, plan));
    tg_set_integer(L, "max_successors", plan->max_successors);
    lua_createtable(L, plan->stages, 0);
    for (int k = 0; k < plan->stages; k++) {
        lua_pushinteger(L, plan->entries[k] + 1);
        lua_rawseti(L, -2, k + 1);
    }
    lua_setfield(L, -2, "entries");
}

/* core.partition{ atoms, devices, microbatches [, successors = 0] [, at_most = false] [, pareto = false], entries = {
 * first = {…}, last = {…} (inclusive), devices = {…}, cost_s = {…} [, max_successors = {…}] [, sync_s = {…}] } [,
 * transfer_s = {…} per boundary] } -> { entries = {indices, front first}, stages, devices, bottleneck_s, latency_s,
 * sync_s, max_successors, total_s }, with pareto a list of these | nil, why. COMPOSITION.md, section 8. */
static int partition(lua_State *L)
{
    tg_partition problem;
    check_problem(L, &problem);
    lua_getfield(L, 1, "pareto");
    bool pareto = lua_toboolean(L, -1);
    tg_arena *arena = tg_push_arena(L);
    tg_error err;
    tg_partition_plan best;
    const tg_partition_plan *plans = &best;
    int count = 1;
    tg_status status = pareto ? tg_partition_pareto(arena, &problem, &plans, &count, &err)
                              : tg_partition_best(arena, &problem, &best, &err);
    if (status != TG_OK)
        return luaL_error(L, "%s", err.message);
    if (count == 0 || plans[0].stages == 0) {
        tg_partition_explain(&problem, &err);
        return tg_push_failure(L, &err);
    }
    if (!pareto) {
        push_plan(L, &problem, &best);
        return 1;
    }
    lua_createtable(L, count, 0);
    for (int n = 0; n < count; n++) {
        push_plan(L, &problem, &plans[n]);
        lua_rawseti(L, -2, n + 1);
    }
    return 1;
}

/* core.pareto(rows, keys) -> the rows (tables) that no other is as good as in all keys, in their order; of equals the
 * first. Less is better, of a key written "-name" more is. */
static int pareto_filter(lua_State *L)
{
    luaL_checktype(L, 1, LUA_TTABLE);
    luaL_checktype(L, 2, LUA_TTABLE);
    size_t count = (size_t)luaL_len(L, 1), width = (size_t)luaL_len(L, 2);
    double *rows = lua_newuserdatauv(L, (count * width + 1) * sizeof *rows, 0);
    bool *keep = lua_newuserdatauv(L, (count + 1) * sizeof *keep, 0);
    for (size_t k = 0; k < width; k++) {
        lua_geti(L, 2, (lua_Integer)k + 1);
        const char *key = luaL_checkstring(L, -1);
        bool more = *key == '-';
        for (size_t i = 0; i < count; i++) {
            if (lua_geti(L, 1, (lua_Integer)i + 1) != LUA_TTABLE)
                luaL_error(L, "row %d: expected a table, got %s", (int)i + 1, luaL_typename(L, -1));
            if (lua_getfield(L, -1, key + more) != LUA_TNUMBER)
                luaL_error(L, "row %d: field '%s': expected a number, got %s", (int)i + 1, key + more,
                           luaL_typename(L, -1));
            double value = lua_tonumber(L, -1);
            rows[i * width + k] = more ? -value : value;
            lua_pop(L, 2);
        }
        lua_pop(L, 1);
    }
    tg_pareto_filter(rows, count, width, keep);
    lua_newtable(L);
    lua_Integer kept = 0;
    for (size_t i = 0; i < count; i++)
        if (keep[i]) {
            lua_geti(L, 1, (lua_Integer)i + 1);
            lua_rawseti(L, -2, ++kept);
        }
    return 1;
}

void tg_open_partition(lua_State *L)
{
    static const luaL_Reg functions[] = {{"partition", partition}, {"pareto", pareto_filter}, {NULL, NULL}};
    luaL_setfuncs(L, functions, 0);
}
