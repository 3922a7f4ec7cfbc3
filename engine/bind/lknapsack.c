/* Knapsack userdata: the best choices for a row of items at any budget (pipeline/knapsack.h). */
#include <math.h>

#include "bind/convert.h"
#include "bind/core.h"
#include "pipeline/knapsack.h"

static const char *const KNAPSACK = "tangram.Knapsack";

typedef struct {
    tg_knapsack_front *front; /* NULL once closed */
    double least_bytes;
} knapsack_ud;

/* The list of `rows` lists of `columns` numbers at field name, in memory that lives while it stays on the stack: pushes
 * one value. NULL for a missing field. */
static const double *check_rows(lua_State *L, const char *name, int rows, int columns, bool needed, bool finite)
{
    int type = lua_getfield(L, 1, name);
    if (type == LUA_TNIL && !needed)
        return NULL;
    if (type != LUA_TTABLE || luaL_len(L, -1) != rows)
        luaL_error(L, "field '%s': expected a list of %d lists of numbers", name, rows);
    double *list = lua_newuserdatauv(L, (size_t)rows * (size_t)columns * sizeof *list, 0);
    for (int i = 0; i < rows; i++) {
        if (lua_geti(L, -2, i + 1) != LUA_TTABLE || luaL_len(L, -1) != columns)
            luaL_error(L, "field '%s[%d]': expected %d numbers, one a choice", name, i + 1, columns);
        for (int c = 0; c < columns; c++) {
            double *value = &list[i * columns + c];
            lua_geti(L, -1, c + 1);
            *value = lua_tonumber(L, -1);
            if (lua_type(L, -1) != LUA_TNUMBER || !(*value >= 0) || (finite && isinf(*value)))
                luaL_error(L, "field '%s[%d][%d]': expected a %snumber of at least 0, got %s", name, i + 1, c + 1,
                           finite ? "finite " : "", luaL_tolstring(L, -1, NULL));
            lua_pop(L, 1);
        }
        lua_pop(L, 1);
    }
    lua_remove(L, -2);
    return list;
}

/* The length of the list at field time_s and of its first item. */
static void check_sizes(lua_State *L, int *items, int *choices)
{
    if (lua_getfield(L, 1, "time_s") != LUA_TTABLE || lua_geti(L, -1, 1) != LUA_TTABLE)
        luaL_error(L, "field 'time_s': expected a list of lists of numbers");
    lua_Integer width = luaL_len(L, -1), length = luaL_len(L, -2);
    if (length > TG_KNAPSACK_ITEMS || width < 1 || width > TG_KNAPSACK_CHOICES)
        luaL_error(L, "field 'time_s': expected at most %d items of 1 to %d choices", TG_KNAPSACK_ITEMS,
                   TG_KNAPSACK_CHOICES);
    *items = (int)length;
    *choices = (int)width;
    lua_pop(L, 2);
}

/* core.knapsack{ time_s = {{…}…}, bytes = {{…}…} [, switch_s = {{…}…}], capacity_bytes } -> Knapsack. time_s, bytes:
 * for each item a list, a number a choice (time infinite: can't be had); switch_s[from][to]: between neighbours. */
static int knapsack_new(lua_State *L)
{
    static const char *const fields[] = {"time_s", "bytes", "switch_s", "capacity_bytes", NULL};
    luaL_checktype(L, 1, LUA_TTABLE);
    tg_check_fields(L, 1, fields);
    lua_settop(L, 1);
    knapsack_ud *ud = lua_newuserdatauv(L, sizeof *ud, 0);
    *ud = (knapsack_ud){0};
    luaL_setmetatable(L, KNAPSACK);
    ud->front = tg_knapsack_new();
    if (ud->front == NULL)
        return luaL_error(L, "out of memory");
    tg_knapsack problem = {0};
    check_sizes(L, &problem.items, &problem.choices);
    problem.time_s = check_rows(L, "time_s", problem.items, problem.choices, true, false);
    problem.bytes = check_rows(L, "bytes", problem.items, problem.choices, true, true);
    problem.switch_s = check_rows(L, "switch_s", problem.choices, problem.choices, false, true);
    problem.capacity_bytes = tg_number_field(L, 1, "capacity_bytes");
    tg_error err;
    if (tg_knapsack_solve(ud->front, &problem, &err) != TG_OK)
        return luaL_error(L, "%s", err.message);
    ud->least_bytes = tg_knapsack_least_bytes(&problem);
    lua_settop(L, 2);
    return 1;
}

static knapsack_ud *check_open(lua_State *L)
{
    knapsack_ud *ud = luaL_checkudata(L, 1, KNAPSACK);
    luaL_argcheck(L, ud->front != NULL, 1, "is closed");
    return ud;
}

/* knapsack:best(capacity_bytes [, with_choices]) -> time_s, bytes [, choices] | nil, least_bytes. The quickest row
 * within capacity_bytes (no more than it was made for); choices: for each item, from 1; least_bytes: the smallest
 * row's. */
static int knapsack_best(lua_State *L)
{
    const knapsack_ud *ud = check_open(L);
    const tg_knapsack_point *point = tg_knapsack_best(ud->front, luaL_checknumber(L, 2));
    if (point == NULL) {
        lua_pushnil(L);
        lua_pushnumber(L, ud->least_bytes);
        return 2;
    }
    lua_pushnumber(L, point->time_s);
    lua_pushnumber(L, point->bytes);
    if (!lua_toboolean(L, 3))
        return 2;
    int items = tg_knapsack_items(ud->front), choices[TG_KNAPSACK_ITEMS];
    tg_knapsack_choices(ud->front, point, choices);
    lua_createtable(L, items, 0);
    for (int i = 0; i < items; i++) {
        lua_pushinteger(L, choices[i] + 1);
        lua_rawseti(L, -2, i + 1);
    }
    return 3;
}

/* #knapsack -> how many rows no other is as good as */
static int knapsack_length(lua_State *L)
{
    lua_pushinteger(L, (lua_Integer)tg_knapsack_count(check_open(L)->front));
    return 1;
}

static int knapsack_close(lua_State *L)
{
    knapsack_ud *ud = luaL_checkudata(L, 1, KNAPSACK);
    tg_knapsack_free(ud->front);
    ud->front = NULL;
    return 0;
}

void tg_open_knapsack(lua_State *L)
{
    static const luaL_Reg methods[] = {{"best", knapsack_best}, {NULL, NULL}};
    static const luaL_Reg metamethods[] = {
        {"__len", knapsack_length}, {"__gc", knapsack_close}, {"__close", knapsack_close}, {NULL, NULL}};
    tg_make_class(L, KNAPSACK, methods, metamethods);
    lua_pushcfunction(L, knapsack_new);
    lua_setfield(L, -2, "knapsack");
}
