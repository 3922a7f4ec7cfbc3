/* JSON to Lua tables and back, by cJSON. */
#include <cjson/cJSON.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "bind/core.h"

static const char ARRAY = 0; /* its address is the registry's key of the arrays' metatable */

static void push_value(lua_State *L, const cJSON *item);

static void push_array(lua_State *L, const cJSON *item)
{
    lua_newtable(L);
    lua_rawgetp(L, LUA_REGISTRYINDEX, &ARRAY);
    lua_setmetatable(L, -2);
    lua_Integer n = 0;
    const cJSON *child;
    cJSON_ArrayForEach(child, item)
    {
        push_value(L, child);
        lua_rawseti(L, -2, ++n);
    }
}

static void push_object(lua_State *L, const cJSON *item)
{
    lua_newtable(L);
    const cJSON *child;
    cJSON_ArrayForEach(child, item)
    {
        push_value(L, child);
        lua_setfield(L, -2, child->string);
    }
}

static void push_value(lua_State *L, const cJSON *item)
{
    luaL_checkstack(L, 8, "JSON nested too deeply");
    if (cJSON_IsObject(item))
        push_object(L, item);
    else if (cJSON_IsArray(item))
        push_array(L, item);
    else if (cJSON_IsString(item))
        lua_pushstring(L, item->valuestring);
    else if (cJSON_IsBool(item))
        lua_pushboolean(L, cJSON_IsTrue(item));
    else if (cJSON_IsNull(item))
        lua_pushlightuserdata(L, NULL);
    else if (floor(item->valuedouble) == item->valuedouble && fabs(item->valuedouble) <= 9007199254740992.0)
        lua_pushinteger(L, (lua_Integer)item->valuedouble);
    else
        lua_pushnumber(L, item->valuedouble);
}

static int push_parsed(lua_State *L)
{
    push_value(L, lua_touserdata(L, 1));
    return 1;
}

/* core.json_decode(text) -> value | nil, "line:column: why" or "field: why". Whole numbers up to 2^53 become integers,
 * null becomes core.null. */
static int json_decode(lua_State *L)
{
    size_t size;
    const char *text = luaL_checklstring(L, 1, &size);
    cJSON *root;
    tg_error err;
    if (tg_json_parse(text, size, &root, &err) != TG_OK)
        return tg_push_failure(L, &err);
    lua_pushcfunction(L, push_parsed);
    lua_pushlightuserdata(L, root);
    int status = lua_pcall(L, 1, 1, 0);
    cJSON_Delete(root);
    if (status != LUA_OK) {
        lua_pushnil(L);
        lua_insert(L, -2);
        return 2;
    }
    return 1;
}

/* Order of keys: by their place in the list of names, then by letters. */
typedef struct {
    const char *name;
    lua_Integer rank;
} key;

static int compare_keys(const void *a, const void *b)
{
    const key *x = a, *y = b;
    if (x->rank != y->rank)
        return x->rank < y->rank ? -1 : 1;
    return strcmp(x->name, y->name);
}

/* Bytes of the UTF-8 sequence that text starts with; 0 if it starts with none. Overlong forms, surrogates and what is
 * past U+10FFFF are none. */
static size_t sequence(const char *text)
{
    const unsigned char *at = (const unsigned char *)text;
    size_t size = at[0] < 0x80 ? 1 : at[0] >= 0xC2 && at[0] < 0xE0 ? 2 : (at[0] & 0xF0) == 0xE0 ? 3 : 4;
    unsigned char least = at[0] == 0xE0 ? 0xA0 : at[0] == 0xF0 ? 0x90 : 0x80;
    unsigned char most = at[0] == 0xED ? 0x9F : at[0] == 0xF4 ? 0x8F : 0xBF;
    if ((at[0] >= 0x80 && at[0] < 0xC2) || at[0] > 0xF4 || (size > 1 && (at[1] < least || at[1] > most)))
        return 0;
    for (size_t i = 2; i < size; i++)
        if ((at[i] & 0xC0) != 0x80)
            return 0;
    return size;
}

/* Pushes text with U+FFFD for each byte that is not UTF-8, which JSON is. */
static void push_utf8(lua_State *L, const char *text)
{
    luaL_Buffer out;
    luaL_buffinit(L, &out);
    while (*text) {
        size_t size = sequence(text), run = 0;
        for (; size && text[run]; size = sequence(text + run))
            run += size;
        luaL_addlstring(&out, text, run);
        text += run;
        if (*text) {
            luaL_addstring(&out, "\xEF\xBF\xBD");
            text++;
        }
    }
    luaL_pushresult(&out);
}

/* The tree under construction hangs below one root, which the caller deletes whatever happens. */
static void add_value(lua_State *L, int index, cJSON *parent, const char *name, int depth);

static void attach(lua_State *L, cJSON *parent, const char *name, cJSON *item)
{
    bool added = item && (name ? cJSON_AddItemToObject(parent, name, item) : cJSON_AddItemToArray(parent, item));
    if (!added) {
        cJSON_Delete(item);
        luaL_error(L, "out of memory");
    }
}

static bool is_array(lua_State *L, int index)
{
    bool marked = false;
    if (lua_getmetatable(L, index)) {
        lua_rawgetp(L, LUA_REGISTRYINDEX, &ARRAY);
        marked = lua_rawequal(L, -1, -2);
        lua_pop(L, 2);
    }
    return marked || lua_rawlen(L, index) > 0;
}

static void add_object(lua_State *L, int index, cJSON *object, int depth)
{
    size_t count = 0;
    for (lua_pushnil(L); lua_next(L, index); lua_pop(L, 1)) {
        if (lua_type(L, -2) != LUA_TSTRING)
            luaL_error(L, "a table with keys of type %s is not JSON", luaL_typename(L, -2));
        count++;
    }
    key *keys = lua_newuserdatauv(L, (count + 1) * sizeof *keys, 0);
    size_t n = 0;
    for (lua_pushnil(L); lua_next(L, index); lua_pop(L, 1)) {
        keys[n].name = lua_tostring(L, -2);
        lua_pushvalue(L, -2);
        keys[n].rank = lua_rawget(L, 2) == LUA_TNUMBER ? lua_tointeger(L, -1) : LUA_MAXINTEGER;
        lua_pop(L, 1);
        n++;
    }
    qsort(keys, count, sizeof *keys, compare_keys);
    for (size_t i = 0; i < count; i++) {
        push_utf8(L, keys[i].name);
        lua_getfield(L, index, keys[i].name);
        add_value(L, lua_gettop(L), object, lua_tostring(L, -2), depth);
        lua_pop(L, 2);
    }
    lua_pop(L, 1);
}

static void add_value(lua_State *L, int index, cJSON *parent, const char *name, int depth)
{
    luaL_checkstack(L, 16, NULL);
    if (depth > 100)
        luaL_error(L, "nested too deeply for JSON (a table that holds itself?)");
    char number[32];
    cJSON *item;
    switch (lua_type(L, index)) {
    case LUA_TBOOLEAN:
        attach(L, parent, name, cJSON_CreateBool(lua_toboolean(L, index)));
        return;
    case LUA_TSTRING:
        push_utf8(L, lua_tostring(L, index));
        attach(L, parent, name, cJSON_CreateString(lua_tostring(L, -1)));
        lua_pop(L, 1);
        return;
    case LUA_TLIGHTUSERDATA:
        attach(L, parent, name, cJSON_CreateNull());
        return;
    case LUA_TNUMBER:
        if (lua_isinteger(L, index)) {
            snprintf(number, sizeof number, "%lld", (long long)lua_tointeger(L, index));
        } else {
            if (!isfinite(lua_tonumber(L, index)))
                luaL_error(L, "field '%s': not a finite number", name ? name : "?");
            snprintf(number, sizeof number, "%.17g", lua_tonumber(L, index));
        }
        attach(L, parent, name, cJSON_CreateRaw(number));
        return;
    case LUA_TTABLE:
        if (is_array(L, index)) {
            attach(L, parent, name, item = cJSON_CreateArray());
            for (lua_Integer i = 1, n = (lua_Integer)lua_rawlen(L, index); i <= n; i++) {
                lua_rawgeti(L, index, i);
                add_value(L, lua_gettop(L), item, NULL, depth + 1);
                lua_pop(L, 1);
            }
        } else {
            attach(L, parent, name, item = cJSON_CreateObject());
            add_object(L, index, item, depth + 1);
        }
        return;
    default:
        luaL_error(L, "field '%s': a %s is not JSON", name ? name : "?", luaL_typename(L, index));
    }
}

/* (root, ranks, value) */
static int build_tree(lua_State *L)
{
    cJSON *root = lua_touserdata(L, 1);
    add_value(L, 3, root, NULL, 0);
    return 0;
}

/* core.json_encode(value [, names]) -> text, in UTF-8 whatever the strings hold. Keys in the order of names, then by
 * letters; numbers as %.17g; a table is an array if it has a first element or was marked by core.array. */
static int json_encode(lua_State *L)
{
    luaL_checkany(L, 1);
    lua_settop(L, 2);
    cJSON *root = cJSON_CreateArray();
    if (!root)
        return luaL_error(L, "out of memory");
    lua_pushcfunction(L, build_tree);
    lua_pushlightuserdata(L, root);
    lua_newtable(L);
    if (lua_istable(L, 2))
        for (lua_Integer i = 1, n = (lua_Integer)lua_rawlen(L, 2); i <= n; i++) {
            lua_rawgeti(L, 2, i);
            lua_pushinteger(L, i);
            lua_rawset(L, -3);
        }
    lua_pushvalue(L, 1);
    int status = lua_pcall(L, 3, 0, 0);
    char *text = status == LUA_OK ? cJSON_Print(root->child) : NULL;
    cJSON_Delete(root);
    if (status != LUA_OK)
        return lua_error(L);
    if (!text)
        return luaL_error(L, "out of memory");
    lua_pushfstring(L, "%s\n", text);
    cJSON_free(text);
    return 1;
}

/* core.array(t) -> t, marked so that it encodes as an array even if empty */
static int mark_array(lua_State *L)
{
    luaL_checktype(L, 1, LUA_TTABLE);
    lua_settop(L, 1);
    lua_rawgetp(L, LUA_REGISTRYINDEX, &ARRAY);
    lua_setmetatable(L, 1);
    return 1;
}

void tg_open_json(lua_State *L)
{
    static const luaL_Reg functions[] = {
        {"json_decode", json_decode}, {"json_encode", json_encode}, {"array", mark_array}, {NULL, NULL}};
    if (lua_rawgetp(L, LUA_REGISTRYINDEX, &ARRAY) == LUA_TNIL) {
        lua_newtable(L);
        lua_pushliteral(L, "array");
        lua_setfield(L, -2, "__name");
        lua_rawsetp(L, LUA_REGISTRYINDEX, &ARRAY);
    }
    lua_pop(L, 1);
    luaL_setfuncs(L, functions, 0);
    lua_pushlightuserdata(L, NULL);
    lua_setfield(L, -2, "null");
}
