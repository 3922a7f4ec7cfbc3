#include "bind/core.h"
#include "bind/convert.h"

#include <dirent.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/file.h"
#include "bind/embedded.h"

/* core.nearest(word, words) -> the nearest of words, or nil */
static int nearest(lua_State *L)
{
    const char *word = luaL_checkstring(L, 1);
    luaL_checktype(L, 2, LUA_TTABLE);
    lua_Integer count = luaL_len(L, 2);
    const char **words = lua_newuserdatauv(L, (size_t)(count + 1) * sizeof *words, 0);
    for (lua_Integer i = 0; i < count; i++) {
        lua_geti(L, 2, i + 1);
        words[i] = luaL_checkstring(L, -1); /* the list keeps it alive */
        lua_pop(L, 1);
    }
    lua_pushstring(L, tg_nearest(word, words, (size_t)count));
    return 1;
}

/* core.list_folder(path) -> names in it, by letters; none if it can't be read */
static int list_folder(lua_State *L)
{
    struct dirent **entries;
    int count = scandir(luaL_checkstring(L, 1), &entries, NULL, alphasort);
    lua_newtable(L);
    for (int i = 0; i < count; i++) {
        lua_pushstring(L, entries[i]->d_name);
        lua_rawseti(L, -2, i + 1);
        free(entries[i]);
    }
    if (count >= 0)
        free(entries);
    return 1;
}

/* core.write_file(path, text) -> true | nil, "path: why, expected …": all of it or nothing (base/file.h) */
static int write_file(lua_State *L)
{
    size_t size;
    const char *path = luaL_checkstring(L, 1), *text = luaL_checklstring(L, 2, &size);
    tg_error err;
    if (tg_file_write(path, text, size, &err) != TG_OK)
        return tg_push_failure(L, &err);
    lua_pushboolean(L, true);
    return 1;
}

/* core.may_write(path) -> true | nil, why: as write_file would say, as far as can be seen beforehand */
static int may_write(lua_State *L)
{
    tg_error err;
    if (tg_file_may_write(luaL_checkstring(L, 1), &err) != TG_OK)
        return tg_push_failure(L, &err);
    lua_pushboolean(L, true);
    return 1;
}

/* core.is_terminal(descriptor) -> boolean */
static int is_terminal(lua_State *L)
{
    lua_pushboolean(L, isatty((int)luaL_checkinteger(L, 1)));
    return 1;
}

/* core.processors() -> how many the machine has online */
static int processors(lua_State *L)
{
    long count = sysconf(_SC_NPROCESSORS_ONLN);
    lua_pushinteger(L, count > 0 ? count : 1);
    return 1;
}

int luaopen_tangram_core(lua_State *L)
{
    luaL_checkversion(L);
    static const luaL_Reg functions[] = {{"nearest", nearest},
                                         {"list_folder", list_folder},
                                         {"write_file", write_file},
                                         {"may_write", may_write},
                                         {"is_terminal", is_terminal},
                                         {"processors", processors},
                                         {NULL, NULL}};
    luaL_newlib(L, functions);
    tg_set_text(L, "version", tg_version());
    tg_open_state(L);
    tg_open_embedded(L);
    tg_open_json(L);
    tg_open_compose(L);
    tg_open_model(L);
    tg_open_cluster(L);
    tg_open_terms(L);
    tg_open_enumerate(L);
    tg_open_plan(L);
    tg_open_partition(L);
    tg_open_knapsack(L);
    tg_open_operators(L);
    tg_open_store(L);
    tg_open_process(L);
    tg_open_ranks(L);
    tg_open_partition_table(L);
    return 1;
}
