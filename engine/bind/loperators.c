/* Operators userdata: profiled operators and Aceso's price of a stage of them (pipeline/operators.h). */
#include <math.h>

#include "bind/convert.h"
#include "bind/core.h"
#include "pipeline/operators.h"

static const char *const OPERATORS = "tangram.Operators";

/* Names as indices, from 1 in Lua. */
static const int *check_names(lua_State *L, int count)
{
    const double *numbers = tg_amounts_field(L, "name", count, true);
    int *list = lua_newuserdatauv(L, (size_t)count * sizeof *list, 0);
    for (int i = 0; i < count; i++) {
        if (numbers[i] != floor(numbers[i]) || numbers[i] < 1 || numbers[i] > TG_OPERATOR_NAMES)
            luaL_error(L, "field 'name[%d]': expected a whole number from 1 to %d", i + 1, TG_OPERATOR_NAMES);
        list[i] = (int)numbers[i] - 1;
    }
    return list;
}

/* core.operators{ forward_s = {…}, backward_s, weight_bytes, input_bytes, activation_bytes, kept_bytes,
 * forward_reserved_bytes, backward_reserved_bytes, name (1, 2, …: equal for what is recomputed together), recomputes
 * (booleans), layer (booleans: a layer starts here) } -> Operators. One value per operator of the whole model. Raises
 * on wrong fields. */
static int operators_new(lua_State *L)
{
    static const char *const fields[] = {"forward_s",
                                         "backward_s",
                                         "weight_bytes",
                                         "input_bytes",
                                         "activation_bytes",
                                         "kept_bytes",
                                         "forward_reserved_bytes",
                                         "backward_reserved_bytes",
                                         "name",
                                         "recomputes",
                                         "layer",
                                         NULL};
    luaL_checktype(L, 1, LUA_TTABLE);
    tg_check_fields(L, 1, fields);
    luaL_checkstack(L, 20, NULL);
    if (lua_getfield(L, 1, "forward_s") != LUA_TTABLE)
        luaL_error(L, "field 'forward_s': expected a list of numbers, got %s", luaL_typename(L, -1));
    lua_Integer length = luaL_len(L, -1);
    if (length < 1 || length > TG_OPERATORS)
        luaL_error(L, "field 'forward_s': expected 1 to %d operators, got %I", TG_OPERATORS, (LUAI_UACINT)length);
    int count = (int)length;
    tg_operators *operators = lua_newuserdatauv(L, tg_operators_bytes(count), 0);
    luaL_setmetatable(L, OPERATORS);
    int index = lua_gettop(L);
    tg_operators_input from = {.count = count,
                               .forward_s = tg_amounts_field(L, "forward_s", count, true),
                               .backward_s = tg_amounts_field(L, "backward_s", count, true),
                               .weight_bytes = tg_amounts_field(L, "weight_bytes", count, true),
                               .input_bytes = tg_amounts_field(L, "input_bytes", count, true),
                               .activation_bytes = tg_amounts_field(L, "activation_bytes", count, true),
                               .kept_bytes = tg_amounts_field(L, "kept_bytes", count, true),
                               .forward_reserved_bytes = tg_amounts_field(L, "forward_reserved_bytes", count, true),
                               .backward_reserved_bytes = tg_amounts_field(L, "backward_reserved_bytes", count, true),
                               .name = check_names(L, count),
                               .recomputes = tg_flags_field(L, "recomputes", count, true),
                               .layer = tg_flags_field(L, "layer", count, true)};
    tg_error err;
    if (tg_operators_init(operators, &from, &err) != TG_OK)
        return luaL_error(L, "%s", err.message);
    lua_settop(L, index);
    return 1;
}

/* (operators, first, last) */
static const tg_operators *check_stage(lua_State *L, int *first, int *last)
{
    const tg_operators *operators = luaL_checkudata(L, 1, OPERATORS);
    tg_check_run(L, 2, first, last);
    luaL_argcheck(L, *first < *last && *last <= tg_operators_count(operators), 3,
                  "expected 1 <= first <= last <= the number of operators");
    return operators;
}

static int push_stage(lua_State *L, const tg_operators_stage *stage)
{
    const double numbers[] = {stage->forward_s,  stage->backward_s, stage->recompute_s,   stage->weight_bytes,
                              stage->live_bytes, stage->peak_bytes, stage->reserved_bytes};
    int count = (int)(sizeof numbers / sizeof *numbers);
    for (int i = 0; i < count; i++)
        lua_pushnumber(L, numbers[i]);
    lua_pushinteger(L, stage->flagged);
    return count + 1;
}

/* operators:fit(first, last, behind, limit_bytes) -> forward_s, backward_s, recompute_s, weight_bytes, live_bytes,
 * peak_bytes, reserved_bytes, flagged. What is recomputed is chosen greedily; the stage may still not fit. */
static int operators_fit(lua_State *L)
{
    int first, last;
    const tg_operators *operators = check_stage(L, &first, &last);
    int behind = tg_check_integer(L, 4, 0, INT32_MAX);
    tg_operators_stage stage;
    tg_operators_fit(operators, first, last, behind, luaL_checknumber(L, 5), NULL, &stage);
    return push_stage(L, &stage);
}

/* operators:flags(first, last, behind, limit_bytes) -> what fit flags for recompute, a list of booleans */
static int operators_flags(lua_State *L)
{
    int first, last;
    const tg_operators *operators = check_stage(L, &first, &last);
    int behind = tg_check_integer(L, 4, 0, INT32_MAX);
    bool flags[TG_OPERATORS];
    tg_operators_stage stage;
    tg_operators_fit(operators, first, last, behind, luaL_checknumber(L, 5), flags, &stage);
    lua_createtable(L, last - first, 0);
    for (int i = 0; i < last - first; i++) {
        lua_pushboolean(L, flags[i]);
        lua_rawseti(L, -2, i + 1);
    }
    return 1;
}

/* operators:price(first, last, flags) -> as fit, with what is recomputed given: a list of booleans */
static int operators_price(lua_State *L)
{
    int first, last;
    const tg_operators *operators = check_stage(L, &first, &last);
    luaL_checktype(L, 4, LUA_TTABLE);
    luaL_argcheck(L, luaL_len(L, 4) == last - first, 4, "expected a boolean for each operator");
    bool flags[TG_OPERATORS];
    for (int i = 0; i < last - first; i++) {
        lua_geti(L, 4, i + 1);
        flags[i] = lua_toboolean(L, -1);
        lua_pop(L, 1);
    }
    tg_operators_stage stage;
    tg_operators_price(operators, first, last, flags, &stage);
    return push_stage(L, &stage);
}

static int operators_length(lua_State *L)
{
    lua_pushinteger(L, tg_operators_count(luaL_checkudata(L, 1, OPERATORS)));
    return 1;
}

void tg_open_operators(lua_State *L)
{
    static const luaL_Reg functions[] = {{"operators", operators_new}, {NULL, NULL}};
    static const luaL_Reg methods[] = {
        {"fit", operators_fit}, {"flags", operators_flags}, {"price", operators_price}, {NULL, NULL}};
    static const luaL_Reg metamethods[] = {{"__len", operators_length}, {NULL, NULL}};
    tg_make_class(L, OPERATORS, methods, metamethods);
    luaL_setfuncs(L, functions, 0);
}
