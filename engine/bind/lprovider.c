#include "bind/lprovider.h"

#include <math.h>
#include <string.h>

#include "bind/candidates.h"

/* Pushes the callback, false if there is none. */
static bool push_callback(const tg_lua_provider *provider, const char *name)
{
    luaL_checkstack(provider->L, 16, NULL);
    if (lua_getfield(provider->L, provider->callbacks, name) == LUA_TFUNCTION)
        return true;
    lua_pop(provider->L, 1);
    return false;
}

static void push_slice(lua_State *L, const tg_query *query)
{
    lua_pushinteger(L, query->island + 1);
    lua_pushinteger(L, query->first + 1);
    lua_pushinteger(L, query->last);
}

static tg_status callback_failed(lua_State *L, const char *name, tg_error *err)
{
    tg_push_message(L, lua_gettop(L));
    return tg_fail(err, TG_EPROVIDER, "%s: %s", name, lua_tostring(L, -1));
}

static tg_status keep(void *self, const tg_query *query, const char **policy, tg_error *err)
{
    tg_lua_provider *provider = self;
    lua_State *L = provider->L;
    *policy = NULL;
    push_callback(provider, "keep");
    push_slice(L, query);
    lua_pushinteger(L, query->microbatches);
    if (lua_pcall(L, 4, 1, 0) != LUA_OK)
        return callback_failed(L, "keep", err);
    if (lua_type(L, -1) == LUA_TSTRING) {
        *policy = tg_arena_strdup(provider->arena, lua_tostring(L, -1));
        if (!*policy)
            return tg_fail(err, TG_EMEMORY, "out of memory");
    }
    lua_pop(L, 1);
    return TG_OK;
}

static tg_status key(void *self, const tg_query *query, uint64_t *out, tg_error *err)
{
    tg_lua_provider *provider = self;
    lua_State *L = provider->L;
    push_callback(provider, "key");
    push_slice(L, query);
    if (lua_pcall(L, 3, 1, 0) != LUA_OK)
        return callback_failed(L, "key", err);
    size_t size;
    const char *text = lua_tolstring(L, -1, &size);
    if (!text)
        return tg_fail(err, TG_EPROVIDER, "key: got a %s, expected a string", luaL_typename(L, -1));
    *out = tg_hash_bytes(TG_HASH_START, text, size);
    lua_pop(L, 1);
    return TG_OK;
}

static tg_status bound(void *self, const tg_query *query, double *bound_s, tg_error *err)
{
    tg_lua_provider *provider = self;
    lua_State *L = provider->L;
    push_callback(provider, "bound");
    push_slice(L, query);
    lua_pushinteger(L, query->microbatches);
    if (lua_pcall(L, 4, 1, 0) != LUA_OK)
        return callback_failed(L, "bound", err);
    *bound_s = lua_tonumber(L, -1);
    if (lua_type(L, -1) != LUA_TNUMBER || isnan(*bound_s))
        return tg_fail(err, TG_EPROVIDER, "bound: got a %s, expected seconds", luaL_typename(L, -1));
    lua_pop(L, 1);
    return TG_OK;
}

static tg_status price_link(void *self, int from, int to, tg_link *link, tg_error *err)
{
    tg_lua_provider *provider = self;
    lua_State *L = provider->L;
    push_callback(provider, "link");
    lua_pushinteger(L, from + 1);
    lua_pushinteger(L, to + 1);
    lua_pushnumber(L, link->latency_s);
    lua_pushnumber(L, link->bytes_per_s);
    if (lua_pcall(L, 4, 2, 0) != LUA_OK)
        return callback_failed(L, "link", err);
    link->latency_s = lua_tonumber(L, -2);
    link->bytes_per_s = lua_tonumber(L, -1);
    if (!(link->latency_s >= 0) || !(link->bytes_per_s > 0) || isinf(link->latency_s))
        return tg_fail(err, TG_EPROVIDER, "link: expected a latency of at least 0 and a rate above 0");
    lua_pop(L, 2);
    return TG_OK;
}

static void progress(void *self, int microbatches, double share, double best_s)
{
    tg_lua_provider *provider = self;
    lua_State *L = provider->L;
    push_callback(provider, "progress");
    lua_pushinteger(L, microbatches);
    lua_pushnumber(L, share);
    lua_pushnumber(L, best_s);
    if (lua_pcall(L, 3, 0, 0) != LUA_OK)
        lua_pop(L, 1);
}

typedef struct {
    const tg_query *query;
    tg_arena *arena;
    tg_answer *out;
    bool memory_out;
} plan_call;

static const char *copy_line(plan_call *call, lua_State *L, int index)
{
    tg_push_message(L, index);
    const char *copied = tg_arena_strdup(call->arena, lua_tostring(L, -1));
    call->memory_out = call->memory_out || !copied;
    lua_pop(L, 1);
    return copied;
}

/* (plan, plan_call), under limits: the answer's tables may have metamethods of the plugin's. */
static int call_plan(lua_State *L)
{
    plan_call *call = lua_touserdata(L, 2);
    lua_settop(L, 1);
    push_slice(L, call->query);
    lua_pushinteger(L, call->query->microbatches);
    lua_pushinteger(L, call->query->successors);
    lua_call(L, 5, 4);
    if (lua_type(L, 4) == LUA_TSTRING) {
        call->out->notes = tg_arena_strdup(call->arena, lua_tostring(L, 4));
        call->memory_out = !call->out->notes;
    }
    call->out->own_times = lua_toboolean(L, 3);
    if (lua_isnil(L, 1)) {
        call->out->outcome = TG_NO_PLAN;
        call->out->why = lua_isnil(L, 2) ? "no reason given" : copy_line(call, L, 2);
        return 0;
    }
    tg_error wrong;
    tg_status status = tg_read_candidates(L, 1, call->arena, call->out, &wrong);
    if (status == TG_EPROVIDER) {
        call->out->outcome = TG_FAILED;
        call->out->why = tg_arena_strdup(call->arena, wrong.message);
        call->memory_out = call->memory_out || !call->out->why;
    } else if (status != TG_OK) {
        call->memory_out = true;
    }
    return 0;
}

tg_status tg_lua_plan(lua_State *L, const tg_query *query, const tg_query_limits *limits, tg_arena *arena,
                      tg_answer *out, tg_error *err)
{
    plan_call call = {.query = query, .arena = arena, .out = out};
    int top = lua_gettop(L) - 1;
    double left_s = limits->deadline_s - tg_clock_s();
    bool run_ends_first = left_s < limits->seconds;
    tg_cut cut;
    lua_pushcfunction(L, call_plan);
    lua_insert(L, -2);
    lua_pushlightuserdata(L, &call);
    int status = tg_limited_call(L, 2, 0, run_ends_first ? left_s : limits->seconds, limits->bytes, &cut);
    if (status != LUA_OK) {
        *out = (tg_answer){.outcome = TG_UNASKED};
        if (cut != TG_CUT_STOP && !(cut == TG_CUT_TIME && run_ends_first)) {
            out->outcome = TG_FAILED;
            out->transient = cut != TG_NOT_CUT;
            if (cut == TG_CUT_TIME)
                lua_pushfstring(L, "time limit of %f s reached", limits->seconds);
            else if (cut == TG_CUT_MEMORY)
                lua_pushfstring(L, "memory limit of %f MiB reached", (double)limits->bytes / 0x1p20);
            out->why = copy_line(&call, L, lua_gettop(L));
        }
        lua_settop(L, top);
    }
    return call.memory_out ? tg_fail(err, TG_EMEMORY, "out of memory") : TG_OK;
}

tg_status tg_lua_identity(lua_State *L, const tg_query *query, tg_arena *arena, tg_identity *out, tg_error *err)
{
    int top = lua_gettop(L) - 1;
    push_slice(L, query);
    lua_pushinteger(L, query->microbatches);
    lua_pushinteger(L, query->successors);
    if (lua_pcall(L, 5, 3, 0) != LUA_OK)
        return callback_failed(L, "identity", err);
    const char **const texts[] = {&out->scope, &out->description, &out->rest};
    for (int i = 0; i < 3; i++) {
        const char *text = lua_tostring(L, top + 1 + i);
        *texts[i] = text ? tg_arena_strdup(arena, text) : NULL;
        if (!*texts[i])
            return text ? tg_fail(err, TG_EMEMORY, "out of memory")
                        : tg_fail(err, TG_EPROVIDER, "identity: expected three strings");
    }
    lua_settop(L, top);
    return TG_OK;
}

static void answered(void *self, const tg_query *query, const tg_answer *answer)
{
    (void)query;
    tg_lua_provider *provider = self;
    lua_State *L = provider->L;
    if (!answer->own_times && !answer->notes)
        return;
    push_callback(provider, "answered");
    lua_pushboolean(L, answer->own_times);
    lua_pushstring(L, answer->notes);
    if (lua_pcall(L, 2, 0, 0) != LUA_OK)
        lua_pop(L, 1);
}

static tg_status ask(void *self, const tg_query *query, tg_arena *arena, tg_answer *out, tg_error *err)
{
    tg_lua_provider *provider = self;
    push_callback(provider, "plan");
    return tg_lua_plan(provider->L, query, &provider->limits, arena, out, err);
}

static tg_status identity(void *self, const tg_query *query, tg_arena *arena, tg_identity *out, tg_error *err)
{
    tg_lua_provider *provider = self;
    push_callback(provider, "identity");
    return tg_lua_identity(provider->L, query, arena, out, err);
}

static tg_status plan(void *self, const tg_query *query, tg_arena *arena, tg_answer *out, tg_error *err)
{
    tg_lua_provider *provider = self;
    tg_provider asking = {.self = self, .plan = ask, .identity = identity};
    return provider->store && !query->again ? tg_stored_plan(provider->store, &asking, query, arena, out, err)
                                            : ask(self, query, arena, out, err);
}

static bool has_callback(const tg_lua_provider *provider, const char *name)
{
    bool has = push_callback(provider, name);
    if (has)
        lua_pop(provider->L, 1);
    return has;
}

void tg_make_lua_provider(tg_lua_provider *self, tg_provider *out)
{
    *out = (tg_provider){.self = self};
    out->plan = has_callback(self, "plan") ? plan : NULL;
    out->answered = has_callback(self, "answered") ? answered : NULL;
    out->keep = has_callback(self, "keep") ? keep : NULL;
    out->key = has_callback(self, "key") ? key : NULL;
    out->bound = has_callback(self, "bound") ? bound : NULL;
    out->link = has_callback(self, "link") ? price_link : NULL;
    out->progress = has_callback(self, "progress") ? progress : NULL;
}
