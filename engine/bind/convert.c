#include "bind/convert.h"

#include <math.h>
#include <string.h>

void tg_check_fields(lua_State *L, int index, const char *const *names)
{
    size_t count = 0;
    while (names[count])
        count++;
    luaL_checktype(L, index, LUA_TTABLE);
    for (lua_pushnil(L); lua_next(L, index); lua_pop(L, 1)) {
        if (lua_type(L, -2) != LUA_TSTRING)
            luaL_error(L, "a key of type %s, expected field names", luaL_typename(L, -2));
        const char *field = lua_tostring(L, -2);
        size_t i = 0;
        while (i < count && strcmp(field, names[i]) != 0)
            i++;
        if (i == count) {
            const char *meant = tg_nearest(field, names, count);
            luaL_error(L, meant ? "unknown field '%s' (did you mean '%s'?)" : "unknown field '%s'", field, meant);
        }
    }
}

double tg_number_field_or(lua_State *L, int index, const char *name, double missing)
{
    int type = lua_getfield(L, index, name);
    double value = type == LUA_TNIL ? missing : lua_tonumber(L, -1);
    if (type != LUA_TNIL && (type != LUA_TNUMBER || !isfinite(value)))
        luaL_error(L, "field '%s': expected a finite number, got %s", name, luaL_tolstring(L, -1, NULL));
    lua_pop(L, 1);
    return value;
}

double tg_number_field(lua_State *L, int index, const char *name)
{
    double value = tg_number_field_or(L, index, name, NAN);
    if (isnan(value))
        luaL_error(L, "field '%s' is missing, expected a number", name);
    return value;
}

static int within(lua_State *L, const char *name, int low, int high)
{
    int exact;
    lua_Integer value = lua_tointegerx(L, -1, &exact);
    if (!exact || lua_type(L, -1) != LUA_TNUMBER || value < low || value > high)
        luaL_error(L, "field '%s': expected an integer from %d to %d, got %s", name, low, high,
                   luaL_tolstring(L, -1, NULL));
    lua_pop(L, 1);
    return (int)value;
}

int tg_integer_field_or(lua_State *L, int index, const char *name, int low, int high, int missing)
{
    if (lua_getfield(L, index, name) != LUA_TNIL)
        return within(L, name, low, high);
    lua_pop(L, 1);
    return missing;
}

int tg_integer_field(lua_State *L, int index, const char *name, int low, int high)
{
    lua_getfield(L, index, name);
    return within(L, name, low, high);
}

/* Pushes the list at field name, of count values of the said kind; false for one that is missing and not needed. */
static bool push_list(lua_State *L, const char *name, int count, bool needed, const char *kind)
{
    int type = lua_getfield(L, 1, name);
    if (type == LUA_TNIL && !needed)
        return false;
    if (type != LUA_TTABLE)
        luaL_error(L, "field '%s': expected a list of %d %s, got %s", name, count, kind, luaL_typename(L, -1));
    if (luaL_len(L, -1) != count)
        luaL_error(L, "field '%s': expected a list of %d %s, got %d", name, count, kind, (int)luaL_len(L, -1));
    return true;
}

const double *tg_amounts_field(lua_State *L, const char *name, int count, bool needed)
{
    double *list = lua_newuserdatauv(L, (size_t)count * sizeof *list, 0);
    bool given = push_list(L, name, count, needed, "numbers");
    for (int i = 0; i < count; i++) {
        list[i] = 0;
        if (!given)
            continue;
        lua_geti(L, -1, i + 1);
        list[i] = lua_tonumber(L, -1);
        if (lua_type(L, -1) != LUA_TNUMBER || !isfinite(list[i]) || list[i] < 0)
            luaL_error(L, "field '%s[%d]': expected a finite number of at least 0, got %s", name, i + 1,
                       luaL_tolstring(L, -1, NULL));
        lua_pop(L, 1);
    }
    lua_pop(L, 1);
    return list;
}

const bool *tg_flags_field(lua_State *L, const char *name, int count, bool needed)
{
    bool *list = lua_newuserdatauv(L, (size_t)count * sizeof *list, 0);
    bool given = push_list(L, name, count, needed, "booleans");
    for (int i = 0; i < count; i++) {
        list[i] = false;
        if (!given)
            continue;
        if (lua_geti(L, -1, i + 1) != LUA_TBOOLEAN)
            luaL_error(L, "field '%s[%d]': expected a boolean, got %s", name, i + 1, luaL_typename(L, -1));
        list[i] = lua_toboolean(L, -1);
        lua_pop(L, 1);
    }
    lua_pop(L, 1);
    return list;
}

void tg_check_run(lua_State *L, int arg, int *first, int *last)
{
    *first = tg_check_integer(L, arg, 1, INT32_MAX) - 1;
    *last = tg_check_integer(L, arg + 1, 1, INT32_MAX);
}

int tg_check_integer(lua_State *L, int arg, int low, int high)
{
    lua_Integer value = luaL_checkinteger(L, arg);
    if (value < low || value > high)
        luaL_argerror(L, arg,
                      lua_pushfstring(L, "expected an integer from %d to %d, got %I", low, high, (LUAI_UACINT)value));
    return (int)value;
}

void tg_set_integer(lua_State *L, const char *name, lua_Integer x)
{
    lua_pushinteger(L, x);
    lua_setfield(L, -2, name);
}

void tg_set_count(lua_State *L, const char *name, size_t x)
{
    tg_set_integer(L, name, (lua_Integer)x);
}

void tg_set_number(lua_State *L, const char *name, double x)
{
    lua_pushnumber(L, x);
    lua_setfield(L, -2, name);
}

void tg_set_text(lua_State *L, const char *name, const char *x)
{
    lua_pushstring(L, x);
    lua_setfield(L, -2, name);
}

void tg_set_boolean(lua_State *L, const char *name, bool x)
{
    lua_pushboolean(L, x);
    lua_setfield(L, -2, name);
}

void tg_push_operations(lua_State *L, const tg_operation *operations, size_t count)
{
    lua_createtable(L, (int)count, 0);
    for (size_t i = 0; i < count; i++) {
        lua_createtable(L, 0, 5);
        tg_set_integer(L, "stage", operations[i].stage + 1);
        tg_set_integer(L, "microbatch", operations[i].microbatch + 1);
        tg_set_boolean(L, "backward", operations[i].backward);
        tg_set_number(L, "start_s", operations[i].start_s);
        tg_set_number(L, "end_s", operations[i].end_s);
        lua_rawseti(L, -2, (lua_Integer)i + 1);
    }
}
