#include "bind/lranks.h"

#include "bind/core.h"

#ifdef TANGRAM_MPI

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "bind/lcluster.h"
#include "bind/lworker.h"
#include "search/ranks.h"

static const char type_name[] = "tangram.Ranks";
static const double GRACE_S = 5; /* beyond a query's own limit, which the rank itself keeps */

typedef struct {
    tg_ranks *ranks; /* NULL: left */
} ranks_ud;

static tg_ranks *check_ranks(lua_State *L, int index)
{
    ranks_ud *u = luaL_checkudata(L, index, type_name);
    luaL_argcheck(L, u->ranks, index, "the ranks have been left");
    return u->ranks;
}

int tg_other_ranks(lua_State *L, int index)
{
    return lua_isnil(L, index) ? 0 : tg_ranks_others(check_ranks(L, index));
}

void tg_pose_to_ranks(lua_State *L, int index, const char *text, size_t size, const tg_query_limits *limits,
                      tg_provider *out)
{
    tg_query_limits theirs = *limits;
    theirs.deadline_s = INFINITY; /* another machine's clock */
    luaL_Buffer problem;
    luaL_buffinit(L, &problem);
    luaL_addlstring(&problem, (const char *)&theirs, sizeof theirs);
    luaL_addlstring(&problem, text, size);
    luaL_pushresult(&problem);
    tg_error err;
    if (tg_ranks_pose(check_ranks(L, index), lua_tostring(L, -1), sizeof theirs + size, limits->seconds + GRACE_S, out,
                      &err) != TG_OK)
        luaL_error(L, "%s", err.message);
    lua_pop(L, 1);
}

/* A rank's state and what it is made from. */
typedef struct {
    lua_State *L;
    tg_worker_source source;
    tg_workers workers;
} server;

static tg_status open_problem(void *self, const void *problem, size_t size, tg_provider *out, tg_error *err)
{
    server *s = self;
    tg_query_limits limits;
    if (size < sizeof limits)
        return tg_fail(err, TG_EINTERNAL, "a problem of %zu bytes", size);
    memcpy(&limits, problem, sizeof limits);
    lua_settop(s->L, 1);
    tg_make_lua_workers(s->L, (const char *)problem + sizeof limits, size - sizeof limits, 1, &limits, NULL, &s->source,
                        &s->workers);
    return s->workers.open(s->workers.self, 0, out, err);
}

static void close_problem(void *self, tg_provider *provider)
{
    server *s = self;
    s->workers.close(s->workers.self, 0, provider);
}

/* ranks:rank() -> integer from 0 */
static int rank(lua_State *L)
{
    lua_pushinteger(L, tg_ranks_rank(check_ranks(L, 1)));
    return 1;
}

/* ranks:serve() -> true | nil, why: answers queries until rank 0 leaves */
static int serve(lua_State *L)
{
    server s = {.L = L};
    tg_opener opener = {.self = &s, .open = open_problem, .close = close_problem};
    tg_error err;
    tg_ranks *ranks = check_ranks(L, 1);
    lua_settop(L, 1);
    tg_status status = tg_ranks_serve(ranks, &opener, &err);
    if (status != TG_OK)
        return tg_cluster_failure(L, status, &err);
    lua_pushboolean(L, true);
    return 1;
}

/* ranks:leave(status): the program is about to end with it; does not return where ranks were lost */
static int leave(lua_State *L)
{
    ranks_ud *u = luaL_checkudata(L, 1, type_name);
    tg_ranks_leave(u->ranks, (int)luaL_optinteger(L, 2, EXIT_FAILURE));
    u->ranks = NULL;
    return 0;
}

static int leave_at_end(lua_State *L)
{
    lua_settop(L, 1);
    return leave(L);
}

/* core.ranks() -> Ranks | nil: where mpirun or srun started the program. Once a process. */
static int join(lua_State *L)
{
    if (!tg_ranks_started())
        return 0;
    ranks_ud *u = lua_newuserdatauv(L, sizeof *u, 0);
    u->ranks = NULL;
    luaL_setmetatable(L, type_name);
    tg_error err;
    if (tg_ranks_join(&u->ranks, &err) != TG_OK)
        return luaL_error(L, "%s", err.message);
    return 1;
}

void tg_open_ranks(lua_State *L)
{
    static const luaL_Reg methods[] = {{"rank", rank}, {"serve", serve}, {"leave", leave}, {NULL, NULL}};
    if (luaL_newmetatable(L, type_name)) {
        luaL_newlib(L, methods);
        lua_setfield(L, -2, "__index");
        lua_pushcfunction(L, leave_at_end);
        lua_setfield(L, -2, "__gc");
    }
    lua_pop(L, 1);
    lua_pushcfunction(L, join);
    lua_setfield(L, -2, "ranks");
}

#else

int tg_other_ranks(lua_State *L, int index)
{
    (void)L, (void)index;
    return 0;
}

void tg_pose_to_ranks(lua_State *L, int index, const char *text, size_t size, const tg_query_limits *limits,
                      tg_provider *out)
{
    (void)index, (void)text, (void)size, (void)limits, (void)out;
    luaL_error(L, "built without MPI");
}

void tg_open_ranks(lua_State *L)
{
    (void)L; /* core.ranks is nil */
}

#endif
