#include "bind/lworker.h"
#include "bind/convert.h"

#include <lualib.h>

static const char PLAN = 0, IDENTIFY = 0; /* their addresses are the registry's keys of the functions */

typedef struct {
    lua_State *L;
    const tg_worker_source *source;
    tg_store *store;
} lua_worker;

/* (source) -> lua_worker, protected: makes the state's plan function. */
static int set_up(lua_State *L)
{
    const tg_worker_source *source = lua_touserdata(L, 1);
    luaL_openlibs(L);
    lua_gc(L, LUA_GCINC, 400, 0, 0); /* as the program's own state */
    if (source->modules)             /* of the program, not of a host */
        tg_tick(L);
    tg_preload(L, source->modules);
    lua_getglobal(L, "package");
    tg_set_text(L, "path", source->path);
    tg_set_text(L, "cpath", source->cpath);
    lua_getglobal(L, "require");
    lua_pushliteral(L, "tangram.worker");
    lua_call(L, 1, 1);
    lua_getfield(L, -1, "open");
    lua_pushlstring(L, source->text, source->size);
    lua_call(L, 1, 2);
    lua_rawsetp(L, LUA_REGISTRYINDEX, &IDENTIFY);
    lua_rawsetp(L, LUA_REGISTRYINDEX, &PLAN);
    tg_set_interruptible(L, true);
    lua_worker *worker = lua_newuserdatauv(L, sizeof *worker, 0);
    *worker = (lua_worker){.L = L, .source = source};
    return 1;
}

static tg_status ask(void *self, const tg_query *query, tg_arena *arena, tg_answer *out, tg_error *err)
{
    const lua_worker *worker = self;
    const tg_provider *far = worker->source->far;
    if (far) {
        tg_status status = far->plan(far->self, query, arena, out, err);
        if (status != TG_OK || out->outcome != TG_UNASKED)
            return status;
    }
    lua_rawgetp(worker->L, LUA_REGISTRYINDEX, &PLAN);
    return tg_lua_plan(worker->L, query, &worker->source->limits, arena, out, err);
}

static tg_status identify(void *self, const tg_query *query, tg_arena *arena, tg_identity *out, tg_error *err)
{
    const lua_worker *worker = self;
    lua_rawgetp(worker->L, LUA_REGISTRYINDEX, &IDENTIFY);
    return tg_lua_identity(worker->L, query, arena, out, err);
}

static tg_status plan(void *self, const tg_query *query, tg_arena *arena, tg_answer *out, tg_error *err)
{
    const lua_worker *worker = self;
    tg_provider asking = {.self = self, .plan = ask, .identity = identify};
    return worker->store && !query->again ? tg_stored_plan(worker->store, &asking, query, arena, out, err)
                                          : ask(self, query, arena, out, err);
}

static void close_worker(void *self, int index, tg_provider *provider)
{
    (void)self, (void)index;
    lua_close(((lua_worker *)provider->self)->L); /* and with it the worker, a userdata there */
}

static tg_status open_worker(void *self, int index, tg_provider *out, tg_error *err)
{
    tg_worker_source *source = self;
    tg_status status = TG_OK;
    if (source->store && !source->joined[index])
        status = tg_store_join(source->store, &source->joined[index], err);
    if (status != TG_OK)
        return status;
    lua_State *L = luaL_newstate();
    if (!L)
        return tg_fail(err, TG_EMEMORY, "out of memory");
    lua_pushcfunction(L, set_up);
    lua_pushlightuserdata(L, self);
    if (lua_pcall(L, 1, 1, 0) != LUA_OK) {
        tg_push_message(L, lua_gettop(L));
        status = tg_fail(err, TG_EPROVIDER, "%s", lua_tostring(L, -1));
        lua_close(L);
        return status;
    }
    lua_worker *worker = lua_touserdata(L, -1); /* stays on the stack */
    worker->store = source->store ? source->joined[index] : NULL;
    *out = (tg_provider){.self = worker, .plan = plan};
    return TG_OK;
}

void tg_make_lua_workers(lua_State *L, const char *text, size_t size, int count, const tg_query_limits *limits,
                         tg_store *store, tg_worker_source *source, tg_workers *workers)
{
    tg_store **joined = lua_newuserdatauv(L, (size_t)count * sizeof *joined, 0);
    for (int i = 0; i < count; i++)
        joined[i] = NULL;
    lua_getglobal(L, "package");
    lua_getfield(L, -1, "path");
    lua_getfield(L, -2, "cpath");
    *source = (tg_worker_source){.text = text,
                                 .size = size,
                                 .path = luaL_checkstring(L, -2),
                                 .cpath = luaL_checkstring(L, -1),
                                 .modules = tg_preloaded(L),
                                 .limits = *limits,
                                 .store = store,
                                 .joined = joined};
    *workers = (tg_workers){.self = source, .count = count, .open = open_worker, .close = close_worker};
}

void tg_finish_lua_workers(tg_worker_source *source, int count)
{
    for (int i = 0; i < count && source->store; i++)
        tg_store_leave(source->store, source->joined[i]);
}
