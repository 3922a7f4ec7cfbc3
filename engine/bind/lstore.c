/* Store: answers kept in a file (search/store.h). */
#include "bind/lstore.h"

#include <math.h>
#include <sha2.h>

#include "bind/convert.h"
#include "bind/core.h"
#include "bind/fingerprint.h"
#include "bind/lcluster.h"

static const char type_name[] = "tangram.Store";

typedef struct {
    tg_store *store; /* NULL: closed */
} store_ud;

tg_store *tg_check_store(lua_State *L, int index)
{
    store_ud *u = luaL_checkudata(L, index, type_name);
    luaL_argcheck(L, u->store, index, "the store is closed");
    return u->store;
}

static int close_store(lua_State *L)
{
    store_ud *u = luaL_checkudata(L, 1, type_name);
    tg_store_close(u->store);
    u->store = NULL;
    return 0;
}

/* store:counts() -> { found, kept, trouble? }: answers that this run took from the file and put into it */
static int counts(lua_State *L)
{
    tg_store_counts now = tg_store_count(tg_check_store(L, 1));
    lua_newtable(L);
    tg_set_count(L, "found", (size_t)now.found);
    tg_set_count(L, "kept", (size_t)now.kept);
    tg_set_text(L, "trouble", now.trouble);
    return 1;
}

/* store:list() -> { { program, description, created, used, answers, bytes }… } | nil, why; times are seconds since
 * 1970 */
static int list(lua_State *L)
{
    tg_store *store = tg_check_store(L, 1);
    tg_arena *arena = tg_push_arena(L);
    tg_store_scope *scopes;
    int count;
    tg_error err;
    tg_status status = tg_store_list(store, arena, &scopes, &count, &err);
    if (status != TG_OK)
        return tg_cluster_failure(L, status, &err);
    lua_createtable(L, count, 0);
    for (int i = 0; i < count; i++) {
        lua_newtable(L);
        tg_set_text(L, "program", scopes[i].program);
        tg_set_text(L, "description", scopes[i].description);
        tg_set_number(L, "created", scopes[i].created);
        tg_set_number(L, "used", scopes[i].used);
        tg_set_count(L, "answers", (size_t)scopes[i].answers);
        tg_set_number(L, "bytes", scopes[i].bytes);
        lua_rawseti(L, -2, i + 1);
    }
    return 1;
}

/* store:prune(other_programs, unused_s) -> answers dropped | nil, why; unused_s nil: whenever used */
static int prune(lua_State *L)
{
    long dropped;
    tg_error err;
    tg_status status = tg_store_prune(tg_check_store(L, 1), lua_toboolean(L, 2),
                                      lua_isnoneornil(L, 3) ? INFINITY : luaL_checknumber(L, 3), &dropped, &err);
    if (status != TG_OK)
        return tg_cluster_failure(L, status, &err);
    lua_pushinteger(L, dropped);
    return 1;
}

/* store:verify() -> answers read | nil, why */
static int verify(lua_State *L)
{
    long answers;
    tg_error err;
    tg_status status = tg_store_verify(tg_check_store(L, 1), &answers, &err);
    if (status != TG_OK)
        return tg_cluster_failure(L, status, &err);
    lua_pushinteger(L, answers);
    return 1;
}

/* core.store(path, mode) -> Store | nil, why; mode: "create", "join" or "existing" (tg_store_mode) */
static int open_store(lua_State *L)
{
    static const char *const modes[] = {"create", "join", "existing", NULL};
    const char *path = luaL_checkstring(L, 1);
    tg_store_mode mode = (tg_store_mode)luaL_checkoption(L, 2, "create", modes);
    store_ud *u = lua_newuserdatauv(L, sizeof *u, 0);
    u->store = NULL;
    luaL_setmetatable(L, type_name);
    tg_error err;
    tg_status status = tg_store_open(path, tg_fingerprint, mode, &u->store, &err);
    return status == TG_OK ? 1 : tg_cluster_failure(L, status, &err);
}

/* core.sha256(text) -> its SHA-256 in hexadecimal digits */
static int sha256(lua_State *L)
{
    size_t size;
    const char *text = luaL_checklstring(L, 1, &size);
    char digits[SHA256_DIGEST_STRING_LENGTH];
    SHA256Data((const uint8_t *)text, size, digits);
    lua_pushstring(L, digits);
    return 1;
}

void tg_open_store(lua_State *L)
{
    static const luaL_Reg methods[] = {{"counts", counts}, {"list", list},         {"prune", prune},
                                       {"verify", verify}, {"close", close_store}, {NULL, NULL}};
    if (luaL_newmetatable(L, type_name)) {
        luaL_newlib(L, methods);
        lua_setfield(L, -2, "__index");
        lua_pushcfunction(L, close_store);
        lua_setfield(L, -2, "__gc");
        lua_pushcfunction(L, close_store);
        lua_setfield(L, -2, "__close");
    }
    lua_pop(L, 1);
    lua_pushcfunction(L, open_store);
    lua_setfield(L, -2, "store");
    lua_pushcfunction(L, sha256);
    lua_setfield(L, -2, "sha256");
    tg_set_text(L, "fingerprint", tg_fingerprint);
}
