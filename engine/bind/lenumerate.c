/* core.enumerate: the search, with Lua functions as its provider. */
#include <limits.h>
#include <math.h>
#include <string.h>

#include "bind/candidates.h"
#include "bind/convert.h"
#include "bind/core.h"
#include "bind/lcluster.h"
#include "bind/lstore.h"
#include "search/enumerate.h"

/* The provider's self. The functions stand in the table at index callbacks. */
typedef struct {
    lua_State *L;
    int callbacks;
    tg_arena *arena; /* for policies' names */
    tg_store *store; /* NULL: none */
} lua_provider;

/* Pushes the callback, false if there is none. */
static bool push_callback(const lua_provider *provider, const char *name)
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
    return tg_fail(err, TG_EPROVIDER, "%s: %s", name, lua_tostring(L, -1));
}

/* Copies the first line of the message at the top of the stack. */
static const char *copy_line(lua_State *L, tg_arena *arena)
{
    const char *text = luaL_tolstring(L, -1, NULL);
    char *copied = tg_arena_strdup(arena, text);
    if (copied)
        copied[strcspn(copied, "\n")] = '\0';
    lua_pop(L, 1);
    return copied;
}

static tg_status ask(void *self, const tg_query *query, tg_arena *arena, tg_answer *out, tg_error *err)
{
    lua_provider *provider = self;
    lua_State *L = provider->L;
    int top = lua_gettop(L);
    push_callback(provider, "plan");
    push_slice(L, query);
    lua_pushinteger(L, query->microbatches);
    lua_pushinteger(L, query->successors);
    tg_status status = TG_OK;
    tg_error wrong;
    if (lua_pcall(L, 5, 4, 0) != LUA_OK) {
        out->outcome = TG_FAILED;
        out->why = copy_line(L, arena);
        lua_settop(L, top);
        return out->why ? TG_OK : tg_fail(err, TG_EMEMORY, "out of memory");
    }
    if (lua_isstring(L, top + 4)) {
        out->notes = tg_arena_strdup(arena, lua_tostring(L, top + 4));
        status = out->notes ? TG_OK : TG_EMEMORY;
    }
    out->own_times = lua_toboolean(L, top + 3);
    lua_settop(L, top + 2);
    if (lua_isnil(L, -2)) {
        out->outcome = TG_NO_PLAN;
        out->why = lua_isnil(L, -1) ? tg_arena_strdup(arena, "no reason given") : copy_line(L, arena);
    } else if (status == TG_OK) {
        status = tg_read_candidates(L, top + 1, arena, out, &wrong);
        if (status == TG_EPROVIDER) {
            out->outcome = TG_FAILED;
            out->why = tg_arena_strdup(arena, wrong.message);
            status = TG_OK;
        }
    }
    lua_settop(L, top);
    if (status == TG_OK && out->outcome != TG_ANSWERED && !out->why)
        status = TG_EMEMORY;
    return status == TG_OK ? TG_OK : tg_fail(err, status, "out of memory");
}

static tg_status identity(void *self, const tg_query *query, tg_arena *arena, tg_identity *out, tg_error *err)
{
    lua_provider *provider = self;
    lua_State *L = provider->L;
    int top = lua_gettop(L);
    push_callback(provider, "identity");
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

static tg_status plan(void *self, const tg_query *query, tg_arena *arena, tg_answer *out, tg_error *err)
{
    lua_provider *provider = self;
    tg_provider asking = {.self = self, .plan = ask, .identity = identity};
    return provider->store ? tg_stored_plan(provider->store, &asking, query, arena, out, err)
                           : ask(self, query, arena, out, err);
}

static void answered(void *self, const tg_query *query, const tg_answer *answer)
{
    (void)query;
    lua_provider *provider = self;
    lua_State *L = provider->L;
    if (!answer->own_times && !answer->notes)
        return;
    push_callback(provider, "answered");
    lua_pushboolean(L, answer->own_times);
    lua_pushstring(L, answer->notes);
    if (lua_pcall(L, 2, 0, 0) != LUA_OK)
        lua_pop(L, 1);
}

static tg_status keep(void *self, const tg_query *query, const char **policy, tg_error *err)
{
    lua_provider *provider = self;
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
    lua_provider *provider = self;
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
    lua_provider *provider = self;
    lua_State *L = provider->L;
    push_callback(provider, "bound");
    push_slice(L, query);
    lua_pushinteger(L, query->microbatches);
    if (lua_pcall(L, 4, 1, 0) != LUA_OK)
        return callback_failed(L, "bound", err);
    *bound_s = lua_tonumber(L, -1);
    if (lua_type(L, -1) != LUA_TNUMBER || isnan(*bound_s))
        return tg_fail(err, TG_EPROVIDER, "bound: got %s, expected seconds", luaL_tolstring(L, -1, NULL));
    lua_pop(L, 1);
    return TG_OK;
}

static tg_status price_link(void *self, int from, int to, tg_link *link, tg_error *err)
{
    lua_provider *provider = self;
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
    lua_provider *provider = self;
    lua_State *L = provider->L;
    push_callback(provider, "progress");
    lua_pushinteger(L, microbatches);
    lua_pushnumber(L, share);
    lua_pushnumber(L, best_s);
    if (lua_pcall(L, 3, 0, 0) != LUA_OK)
        lua_pop(L, 1);
}

static bool has_callback(const lua_provider *provider, const char *name)
{
    bool has = push_callback(provider, name);
    if (has)
        lua_pop(provider->L, 1);
    return has;
}

static double *read_numbers(lua_State *L, const char *name, tg_arena *arena, size_t expected)
{
    lua_getfield(L, 1, name);
    if (!lua_istable(L, -1) || lua_rawlen(L, -1) != expected)
        luaL_error(L, "field '%s': expected a list of %d numbers", name, (int)expected);
    double *values = tg_arena_alloc(arena, expected, sizeof *values);
    if (!values)
        luaL_error(L, "out of memory");
    for (size_t i = 0; i < expected; i++) {
        lua_rawgeti(L, -1, (lua_Integer)i + 1);
        values[i] = luaL_checknumber(L, -1);
        lua_pop(L, 1);
    }
    lua_pop(L, 1);
    return values;
}

static const tg_island *read_islands(lua_State *L, const tg_cluster *cluster, tg_arena *arena, int *count)
{
    lua_getfield(L, 1, "islands");
    luaL_checktype(L, -1, LUA_TTABLE);
    *count = (int)lua_rawlen(L, -1);
    tg_island *islands = tg_arena_alloc(arena, (size_t)*count, sizeof *islands);
    if (!islands)
        luaL_error(L, "out of memory");
    for (int i = 0; i < *count; i++) {
        lua_rawgeti(L, -1, i + 1);
        islands[i] = tg_read_island(L, cluster, arena, lua_gettop(L));
        islands[i].compute_flops = tg_number_field(L, lua_gettop(L), "compute_flops");
        lua_pop(L, 1);
    }
    lua_pop(L, 1);
    return islands;
}

static tg_problem read_problem(lua_State *L, tg_arena *arena)
{
    tg_problem problem = {.global_batch = tg_integer_field(L, 1, "global_batch", 1, INT_MAX)};
    lua_getfield(L, 1, "cluster");
    problem.cluster = tg_check_cluster(L, lua_gettop(L)); /* the table keeps it alive */
    lua_pop(L, 1);
    problem.islands = read_islands(L, problem.cluster, arena, &problem.island_count);
    problem.capacity_bytes = read_numbers(L, "capacity_bytes", arena, (size_t)problem.island_count);
    lua_getfield(L, 1, "flops");
    problem.atom_count = (int)luaL_len(L, -1);
    lua_pop(L, 1);
    luaL_argcheck(L, problem.atom_count > 0 && problem.island_count > 0, 1, "expected atoms and islands");
    problem.flops = read_numbers(L, "flops", arena, (size_t)problem.atom_count);
    problem.boundary_bytes = read_numbers(L, "boundary_bytes", arena, (size_t)problem.atom_count - 1);
    lua_getfield(L, 1, "microbatches");
    luaL_checktype(L, -1, LUA_TTABLE);
    problem.microbatch_count = (int)lua_rawlen(L, -1);
    int *microbatches = tg_arena_alloc(arena, (size_t)problem.microbatch_count, sizeof *microbatches);
    if (!microbatches)
        luaL_error(L, "out of memory");
    for (int i = 0; i < problem.microbatch_count; i++) {
        lua_rawgeti(L, -1, i + 1);
        microbatches[i] = (int)luaL_checkinteger(L, -1);
        luaL_argcheck(L, microbatches[i] > 0 && (i == 0 || microbatches[i] < microbatches[i - 1]), 1,
                      "microbatches fall and are at least 1");
        lua_pop(L, 1);
    }
    lua_pop(L, 1);
    problem.microbatches = microbatches;
    return problem;
}

static int word_field(lua_State *L, const char *name, const char *const *words)
{
    lua_getfield(L, 1, name);
    int word = luaL_checkoption(L, lua_gettop(L), words[0], words);
    lua_pop(L, 1);
    return word;
}

static tg_enumerate_options read_options(lua_State *L)
{
    static const char *const objectives[] = {"simulated", "paper", NULL},
                             *const p2ps[] = {"overlapped", "blocking", NULL},
                             *const warmups[] = {"1f1b", "auto", NULL};
    tg_enumerate_options options = {0};
    tg_compose_defaults(&options.compose);
    options.compose.gap = tg_number_field_or(L, 1, "gap", options.compose.gap);
    options.compose.time_limit_s = tg_number_field_or(L, 1, "time_limit_s", INFINITY);
    options.compose.cutoff = tg_number_field_or(L, 1, "cutoff", INFINITY);
    options.compose.top = tg_integer_field_or(L, 1, "top", 1, 10000, 1);
    options.compose.objective = (tg_objective)word_field(L, "objective", objectives);
    options.compose.p2p = (tg_p2p)word_field(L, "p2p", p2ps);
    options.compose.warmup = (tg_warmup)word_field(L, "warmup", warmups);
    options.compose.stop = tg_stop_flag();
    lua_getfield(L, 1, "left_out");
    options.left_out = lua_toboolean(L, -1);
    lua_getfield(L, 1, "any");
    options.any = lua_toboolean(L, -1);
    lua_pop(L, 2);
    return options;
}

static void push_choice(lua_State *L, const tg_choice *choice)
{
    luaL_checkstack(L, 16, NULL);
    lua_newtable(L);
    tg_set_integer(L, "microbatches", (size_t)(choice->microbatches));
    tg_set_number(L, "time_s", choice->time_s);
    lua_createtable(L, choice->count, 0);
    for (int i = 0; i < choice->count; i++) {
        const tg_chosen *chosen = &choice->plans[i];
        lua_newtable(L);
        tg_set_integer(L, "island", (size_t)(chosen->query.island + 1));
        tg_set_integer(L, "first", (size_t)(chosen->query.first + 1));
        tg_set_integer(L, "last", (size_t)(chosen->query.last));
        tg_set_integer(L, "successors", (size_t)(chosen->query.successors));
        tg_set_integer(L, "idle", (size_t)(chosen->candidate->idle));
        lua_createtable(L, chosen->candidate->stage_count, 0);
        for (int s = 0; s < chosen->candidate->stage_count; s++) {
            tg_push_stage(L, &chosen->candidate->stages[s]);
            lua_rawseti(L, -2, s + 1);
        }
        lua_setfield(L, -2, "stages");
        lua_rawseti(L, -2, i + 1);
    }
    lua_setfield(L, -2, "plans");
}

static void push_complaints(lua_State *L, const char *name, const tg_complaint *complaints, int count)
{
    lua_newtable(L);
    for (int i = 0; i < count; i++) {
        lua_newtable(L);
        tg_set_integer(L, "island", (size_t)(complaints[i].query.island + 1));
        tg_set_integer(L, "first", (size_t)(complaints[i].query.first + 1));
        tg_set_integer(L, "last", (size_t)(complaints[i].query.last));
        tg_set_integer(L, "microbatches", (size_t)(complaints[i].query.microbatches));
        tg_set_integer(L, "successors", (size_t)(complaints[i].query.successors));
        tg_set_text(L, "why", complaints[i].why);
        lua_rawseti(L, -2, i + 1);
    }
    lua_setfield(L, -2, name);
}

static void push_left_out(lua_State *L, const tg_enumeration *found, int islands)
{
    lua_newtable(L);
    for (int i = 0; found->left_out && i < islands; i++) {
        const tg_left_out *row = &found->left_out[i];
        if (!row->found)
            continue;
        lua_newtable(L);
        tg_set_number(L, "best_with_s", row->best_with_s);
        tg_set_number(L, "each_s", row->bound_each_s);
        tg_set_integer(L, "island", (size_t)(row->bound_island + 1));
        if (row->by_link)
            tg_set_integer(L, "to_island", (size_t)(row->bound_to_island + 1));
        lua_rawseti(L, -2, i + 1);
    }
    lua_setfield(L, -2, "left_out");
}

static void push_enumeration(lua_State *L, const tg_enumeration *found, int islands)
{
    static const char *const stops[] = {NULL, "time", "signal", "effort"};
    lua_newtable(L);
    lua_pushboolean(L, found->found);
    lua_setfield(L, -2, "found");
    tg_set_text(L, "stopped", stops[found->stopped]);
    tg_set_number(L, "bound_s", found->bound_s);
    tg_set_integer(L, "all", (size_t)(found->all));
    tg_set_integer(L, "asked", (size_t)(found->asked));
    tg_set_integer(L, "queried", (size_t)(found->queried));
    tg_set_integer(L, "reused", (size_t)(found->reused));
    lua_pushinteger(L, found->saved);
    lua_setfield(L, -2, "saved");
    lua_newtable(L);
    for (int i = 0; i < found->pruned_count; i++)
        tg_set_integer(L, found->pruned[i].policy, (size_t)(found->pruned[i].count));
    lua_setfield(L, -2, "pruned");
    push_complaints(L, "failed", found->failed, found->failed_count);
    push_complaints(L, "refused", found->refused, found->refused_count);
    if (!found->found)
        return;
    push_choice(L, &found->best);
    lua_setfield(L, -2, "best");
    tg_set_number(L, "gap", found->gap);
    lua_pushboolean(L, found->proved);
    lua_setfield(L, -2, "proved");
    tg_set_number(L, "paper_s", found->paper_s);
    lua_createtable(L, found->stage_count, 0);
    lua_createtable(L, found->stage_count, 0);
    for (int s = 0; s < found->stage_count; s++) {
        lua_pushinteger(L, found->warmup[s]);
        lua_rawseti(L, -3, s + 1);
        if (s + 1 < found->stage_count) {
            lua_pushnumber(L, found->transfer_s[s]);
            lua_rawseti(L, -2, s + 1);
        }
    }
    lua_setfield(L, -3, "transfer_s");
    lua_setfield(L, -2, "warmup");
    lua_createtable(L, found->top_count, 0);
    for (int i = 0; i < found->top_count; i++) {
        push_choice(L, &found->top[i]);
        lua_rawseti(L, -2, i + 1);
    }
    lua_setfield(L, -2, "top");
    push_left_out(L, found, islands);
}

/* core.enumerate(spec) -> result | nil, why. spec: cluster, islands (of cluster:islands), capacity_bytes (by island),
 * flops and boundary_bytes (by atom, one sample), global_batch, microbatches (falling), gap, top, cutoff, time_limit_s,
 * objective, p2p, warmup, left_out, any, store, and the callbacks, with indices from 1, slices inclusive:
 *   plan(island, first, last, microbatches, successors) -> list of plans | nil, why; then own_times, notes (or nil)
 *   identity(same) -> scope, description, rest (tg_identity), needed with store
 *   answered(own_times, notes), of answers with either; key(island, first, last) -> string
 *   keep(island, first, last, microbatches) -> nil | policy's name; bound(same) -> seconds
 *   link(from, to, latency_s, bytes_per_s) -> latency_s, bytes_per_s; progress(microbatches, share, best_s) */
static int enumerate(lua_State *L)
{
    luaL_checktype(L, 1, LUA_TTABLE);
    lua_settop(L, 1);
    tg_arena *arena = tg_push_arena(L);
    lua_provider self = {.L = L, .callbacks = 1, .arena = arena};
    tg_problem problem = read_problem(L, arena);
    tg_enumerate_options options = read_options(L);
    tg_provider provider = {.self = &self, .plan = plan};
    if (!has_callback(&self, "plan"))
        return luaL_error(L, "field 'plan': missing, expected a function");
    provider.answered = has_callback(&self, "answered") ? answered : NULL;
    provider.keep = has_callback(&self, "keep") ? keep : NULL;
    provider.key = has_callback(&self, "key") ? key : NULL;
    provider.bound = has_callback(&self, "bound") ? bound : NULL;
    provider.link = has_callback(&self, "link") ? price_link : NULL;
    provider.progress = has_callback(&self, "progress") ? progress : NULL;
    if (lua_getfield(L, 1, "store") != LUA_TNIL) /* the table keeps it alive */
        self.store = tg_check_store(L, lua_gettop(L));
    lua_pop(L, 1);
    tg_enumeration found;
    tg_error err;
    tg_status status = tg_enumerate(arena, &problem, &provider, &options, &found, &err);
    if (status != TG_OK)
        return tg_cluster_failure(L, status, &err);
    push_enumeration(L, &found, problem.island_count);
    tg_arena_free(arena);
    return 1;
}

void tg_open_enumerate(lua_State *L)
{
    lua_pushcfunction(L, enumerate);
    lua_setfield(L, -2, "enumerate");
}
