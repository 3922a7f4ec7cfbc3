#include "bind/state.h"

#include <float.h>
#include <string.h>

/* A signal handler can reach nothing else: the one mutable global of the program. */
static volatile sig_atomic_t stop_requested;

const volatile sig_atomic_t *tg_stop_flag(void)
{
    return &stop_requested;
}

void tg_request_stop(void)
{
    stop_requested = 1;
}

void tg_clear_stop(void)
{
    stop_requested = 0;
}

static int traceback(lua_State *L)
{
    const char *message = lua_tostring(L, 1);
    if (!message) {
        if (luaL_callmeta(L, 1, "__tostring") && lua_isstring(L, -1))
            return 1;
        message = lua_pushfstring(L, "(error value of type %s)", luaL_typename(L, 1));
    }
    luaL_traceback(L, L, message, 1);
    return 1;
}

int tg_protected_call(lua_State *L, int nargs, int nresults)
{
    int base = lua_gettop(L) - nargs;
    lua_pushcfunction(L, traceback);
    lua_insert(L, base);
    int status = lua_pcall(L, nargs, nresults, base);
    lua_remove(L, base);
    return status;
}

int tg_push_failure(lua_State *L, const tg_error *err)
{
    lua_pushnil(L);
    lua_pushstring(L, err->message);
    return 2;
}

static int free_arena(lua_State *L)
{
    tg_arena_free(luaL_checkudata(L, 1, "tangram.arena"));
    return 0;
}

tg_arena *tg_push_arena(lua_State *L)
{
    tg_arena *arena = lua_newuserdatauv(L, sizeof *arena, 0);
    arena->blocks = NULL;
    if (luaL_newmetatable(L, "tangram.arena")) {
        lua_pushcfunction(L, free_arena);
        lua_setfield(L, -2, "__gc");
    }
    lua_setmetatable(L, -2);
    return arena;
}

enum { CHECK_EVERY = 10000 }; /* instructions between two looks at the clock */

static const char DEADLINE = 0, INTERRUPTIBLE = 0; /* their addresses are the registry's keys */

static double deadline_of(lua_State *L)
{
    double deadline = DBL_MAX;
    if (lua_rawgetp(L, LUA_REGISTRYINDEX, &DEADLINE) == LUA_TNUMBER)
        deadline = lua_tonumber(L, -1);
    lua_pop(L, 1);
    return deadline;
}

static void set_deadline(lua_State *L, double deadline)
{
    lua_pushnumber(L, deadline);
    lua_rawsetp(L, LUA_REGISTRYINDEX, &DEADLINE);
}

static bool is_interruptible(lua_State *L)
{
    bool result = lua_rawgetp(L, LUA_REGISTRYINDEX, &INTERRUPTIBLE) == LUA_TBOOLEAN;
    lua_pop(L, 1);
    return result;
}

static void check_limits(lua_State *L, lua_Debug *ar)
{
    (void)ar;
    const char *why = NULL;
    if (stop_requested && is_interruptible(L))
        why = "interrupted";
    else if (tg_clock_s() > deadline_of(L))
        why = "time limit reached";
    if (why) {
        lua_sethook(L, check_limits, LUA_MASKLINE | LUA_MASKCALL | LUA_MASKCOUNT, 1);
        lua_pushstring(L, why);
        lua_error(L);
    }
}

static void hook_deadline(lua_State *L, double deadline)
{
    bool watch = deadline < DBL_MAX || is_interruptible(L);
    set_deadline(L, deadline);
    lua_sethook(L, watch ? check_limits : NULL, watch ? LUA_MASKCOUNT : 0, CHECK_EVERY);
}

static int limited(lua_State *L)
{
    double deadline = tg_clock_s() + luaL_checknumber(L, 1), outer = deadline_of(L);
    hook_deadline(L, deadline < outer ? deadline : outer);
    int status = lua_pcall(L, lua_gettop(L) - 2, LUA_MULTRET, 0);
    hook_deadline(L, outer);
    lua_pushboolean(L, status == LUA_OK);
    lua_replace(L, 1);
    return lua_gettop(L);
}

/* core.unlimited(f, ...) -> results of f, whose time no limit around it counts */
static int unlimited(lua_State *L)
{
    double outer = deadline_of(L), started = tg_clock_s();
    luaL_checkany(L, 1);
    hook_deadline(L, DBL_MAX);
    int status = lua_pcall(L, lua_gettop(L) - 1, LUA_MULTRET, 0);
    hook_deadline(L, outer < DBL_MAX ? outer + (tg_clock_s() - started) : outer);
    return status == LUA_OK ? lua_gettop(L) : lua_error(L);
}

/* core.traced(f, ...) -> true, results | false, message with traceback */
static int traced(lua_State *L)
{
    luaL_checkany(L, 1);
    int status = tg_protected_call(L, lua_gettop(L) - 1, LUA_MULTRET);
    lua_pushboolean(L, status == LUA_OK);
    lua_insert(L, 1);
    return lua_gettop(L);
}

int tg_interruptible_call(lua_State *L, int nargs)
{
    lua_pushboolean(L, 1);
    lua_rawsetp(L, LUA_REGISTRYINDEX, &INTERRUPTIBLE);
    hook_deadline(L, deadline_of(L));
    int status = lua_pcall(L, nargs, LUA_MULTRET, 0);
    lua_pushnil(L);
    lua_rawsetp(L, LUA_REGISTRYINDEX, &INTERRUPTIBLE);
    hook_deadline(L, deadline_of(L));
    return status;
}

static int clock_s(lua_State *L)
{
    lua_pushnumber(L, tg_clock_s());
    return 1;
}

void tg_open_state(lua_State *L)
{
    static const luaL_Reg functions[] = {
        {"limited", limited}, {"unlimited", unlimited}, {"traced", traced}, {"clock_s", clock_s}, {NULL, NULL}};
    luaL_setfuncs(L, functions, 0);
}
