/* Process: a program that answers lines with lines (base/process.h). For the library alone: no plugin sees it. */
#include "base/process.h"
#include "bind/convert.h"
#include "bind/core.h"
#include "bind/lcluster.h"

static const char type_name[] = "tangram.Process";

typedef struct {
    tg_process *process; /* NULL: closed */
} process_ud;

/* process:ask(line, seconds) -> reply | nil, why: the program is then ended */
static int ask(lua_State *L)
{
    process_ud *u = luaL_checkudata(L, 1, type_name);
    luaL_argcheck(L, u->process, 1, "the process is closed");
    size_t size, reply_size;
    const char *line = luaL_checklstring(L, 2, &size), *reply;
    tg_error err;
    tg_status status =
        tg_process_ask(u->process, line, size, luaL_checknumber(L, 3), tg_stop_flag(), &reply, &reply_size, &err);
    if (status != TG_OK)
        return tg_cluster_failure(L, status, &err);
    lua_pushlstring(L, reply, reply_size);
    return 1;
}

static int close_process(lua_State *L)
{
    process_ud *u = luaL_checkudata(L, 1, type_name);
    tg_process_stop(u->process);
    u->process = NULL;
    return 0;
}

/* core.process(words) -> Process | nil, why; words: the program and its arguments */
static int start(lua_State *L)
{
    luaL_checktype(L, 1, LUA_TTABLE);
    lua_Integer count = luaL_len(L, 1);
    luaL_argcheck(L, count > 0, 1, "expected a program and its arguments");
    const char **words = lua_newuserdatauv(L, (size_t)(count + 1) * sizeof *words, 0);
    for (lua_Integer i = 0; i < count; i++) {
        lua_rawgeti(L, 1, i + 1);
        luaL_argcheck(L, lua_type(L, -1) == LUA_TSTRING, 1, "expected a list of strings");
        words[i] = lua_tostring(L, -1); /* the list keeps it alive */
        lua_pop(L, 1);
    }
    words[count] = NULL;
    process_ud *u = lua_newuserdatauv(L, sizeof *u, 0);
    u->process = NULL;
    luaL_setmetatable(L, type_name);
    tg_error err;
    tg_status status = tg_process_start(words, &u->process, &err);
    return status == TG_OK ? 1 : tg_cluster_failure(L, status, &err);
}

void tg_open_process(lua_State *L)
{
    static const luaL_Reg methods[] = {{"ask", ask}, {"close", close_process}, {NULL, NULL}};
    if (luaL_newmetatable(L, type_name)) {
        luaL_newlib(L, methods);
        lua_setfield(L, -2, "__index");
        lua_pushcfunction(L, close_process);
        lua_setfield(L, -2, "__gc");
    }
    lua_pop(L, 1);
    lua_pushcfunction(L, start);
    lua_setfield(L, -2, "process");
}
