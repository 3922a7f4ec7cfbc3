#include "bind/embedded.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "bind/core.h"

static const char MODULES = 0; /* its address is the registry's key */

static int load_embedded(lua_State *L)
{
    const tg_embedded *module = lua_touserdata(L, lua_upvalueindex(1));
    char chunk[128];
    snprintf(chunk, sizeof chunk, "@%s", module->name);
    if (luaL_loadbufferx(L, (const char *)module->source, module->size, chunk, "t") != LUA_OK)
        return lua_error(L);
    lua_pushstring(L, module->name);
    lua_call(L, 1, 1);
    return 1;
}

void tg_preload(lua_State *L, const tg_embedded *modules)
{
    lua_pushlightuserdata(L, (void *)(uintptr_t)modules);
    lua_rawsetp(L, LUA_REGISTRYINDEX, &MODULES);
    luaL_getsubtable(L, LUA_REGISTRYINDEX, LUA_PRELOAD_TABLE);
    for (const tg_embedded *module = modules; module && module->name; module++) {
        lua_pushlightuserdata(L, (void *)(uintptr_t)module);
        lua_pushcclosure(L, load_embedded, 1);
        lua_setfield(L, -2, module->name);
    }
    lua_pushcfunction(L, luaopen_tangram_core);
    lua_setfield(L, -2, "tangram.core");
    lua_pop(L, 1);
}

const tg_embedded *tg_preloaded(lua_State *L)
{
    lua_rawgetp(L, LUA_REGISTRYINDEX, &MODULES);
    const tg_embedded *modules = lua_touserdata(L, -1);
    lua_pop(L, 1);
    return modules;
}

static int library_source(lua_State *L)
{
    const char *name = luaL_checkstring(L, 1);
    for (const tg_embedded *module = tg_preloaded(L); module && module->name; module++)
        if (strcmp(module->name, name) == 0) {
            lua_pushlstring(L, (const char *)module->source, module->size);
            return 1;
        }
    lua_pushnil(L);
    return 1;
}

void tg_open_embedded(lua_State *L)
{
    lua_pushcfunction(L, library_source);
    lua_setfield(L, -2, "library_source");
}
