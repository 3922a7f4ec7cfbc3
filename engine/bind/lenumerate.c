/* core.enumerate: the search, with Lua functions as its provider. */
#include <limits.h>
#include <math.h>
#include <string.h>

#include "bind/candidates.h"
#include "bind/convert.h"
#include "bind/core.h"
#include "bind/lcluster.h"
#include "bind/lprovider.h"
#include "bind/lranks.h"
#include "bind/lstore.h"
#include "bind/lworker.h"
#include "search/enumerate.h"

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
    if (lua_getfield(L, 1, "recomputable") != LUA_TNIL)
        problem.recomputable = read_numbers(L, "recomputable", arena, (size_t)problem.atom_count);
    lua_pop(L, 1);
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
    tg_set_integer(L, "microbatches", choice->microbatches);
    tg_set_number(L, "time_s", choice->time_s);
    lua_createtable(L, choice->count, 0);
    for (int i = 0; i < choice->count; i++) {
        const tg_chosen *chosen = &choice->plans[i];
        lua_newtable(L);
        tg_set_integer(L, "island", chosen->query.island + 1);
        tg_set_integer(L, "first", chosen->query.first + 1);
        tg_set_integer(L, "last", chosen->query.last);
        tg_set_integer(L, "successors", chosen->query.successors);
        tg_set_integer(L, "idle", chosen->candidate->idle);
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
        tg_set_integer(L, "island", complaints[i].query.island + 1);
        tg_set_integer(L, "first", complaints[i].query.first + 1);
        tg_set_integer(L, "last", complaints[i].query.last);
        tg_set_integer(L, "microbatches", complaints[i].query.microbatches);
        tg_set_integer(L, "successors", complaints[i].query.successors);
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
        tg_set_integer(L, "island", row->bound_island + 1);
        if (row->by_link)
            tg_set_integer(L, "to_island", row->bound_to_island + 1);
        lua_rawseti(L, -2, i + 1);
    }
    lua_setfield(L, -2, "left_out");
}

static void push_enumeration(lua_State *L, const tg_enumeration *found, int islands)
{
    static const char *const stops[] = {NULL, "time", "signal", "effort"};
    lua_newtable(L);
    tg_set_boolean(L, "found", found->found);
    tg_set_text(L, "stopped", stops[found->stopped]);
    tg_set_number(L, "bound_s", found->bound_s);
    tg_set_count(L, "all", (size_t)(found->all));
    tg_set_count(L, "asked", (size_t)(found->asked));
    tg_set_count(L, "queried", (size_t)(found->queried));
    tg_set_count(L, "reused", (size_t)(found->reused));
    tg_set_integer(L, "saved", found->saved);
    lua_newtable(L);
    for (int i = 0; i < found->pruned_count; i++)
        tg_set_count(L, found->pruned[i].policy, (size_t)(found->pruned[i].count));
    lua_setfield(L, -2, "pruned");
    push_complaints(L, "failed", found->failed, found->failed_count);
    push_complaints(L, "refused", found->refused, found->refused_count);
    push_complaints(L, "unsteady", found->unsteady, found->unsteady_count);
    if (!found->found)
        return;
    push_choice(L, &found->best);
    lua_setfield(L, -2, "best");
    tg_set_number(L, "gap", found->gap);
    tg_set_boolean(L, "proved", found->proved);
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

static tg_query_limits read_limits(lua_State *L, double time_limit_s)
{
    double bytes = tg_number_field_or(L, 1, "query_memory_bytes", INFINITY);
    return (tg_query_limits){.seconds = tg_number_field_or(L, 1, "query_seconds", INFINITY),
                             .bytes = bytes < 0x1p62 ? (size_t)bytes : SIZE_MAX,
                             .deadline_s = tg_clock_s() + time_limit_s};
}

/* core.enumerate(spec) -> result | nil, why. spec: cluster, islands (of cluster:islands), capacity_bytes (by island),
 * flops and boundary_bytes (by atom, one sample), recomputable (by atom: 1 or 0; nil: all are), global_batch,
 * microbatches (falling), gap, top, cutoff, time_limit_s, objective, p2p, warmup, left_out, any, store,
 * query_seconds, query_memory_bytes. Who plans: either worker, the text
 * that each of `workers` states gives to the module tangram.worker, whose function returns plan, or (ranks: core.ranks)
 * the other ranks' states; or plan itself, in this state. Callbacks, with indices from 1, slices inclusive:
 *   plan(island, first, last, microbatches, successors) -> list of plans | nil; why; then own_times, notes (or nil)
 *   identity(same) -> scope, description, rest (tg_identity), needed with plan and store
 *   answered(own_times, notes), of answers with either, in the order of asking
 *   key(island, first, last) -> string
 *   keep(island, first, last, microbatches) -> nil | policy's name
 *   bound(island, first, last, microbatches) -> seconds
 *   link(from, to, latency_s, bytes_per_s) -> latency_s, bytes_per_s
 *   progress(microbatches, share, best_s) */
static int enumerate(lua_State *L)
{
    luaL_checktype(L, 1, LUA_TTABLE);
    lua_settop(L, 1);
    tg_arena *arena = tg_push_arena(L);
    tg_problem problem = read_problem(L, arena);
    tg_enumerate_options options = read_options(L);
    tg_query_limits limits = read_limits(L, options.compose.time_limit_s);
    tg_lua_provider self = {.L = L, .callbacks = 1, .arena = arena, .limits = limits};
    if (lua_getfield(L, 1, "store") != LUA_TNIL) /* the table keeps it alive */
        self.store = tg_check_store(L, lua_gettop(L));
    tg_provider provider;
    tg_make_lua_provider(&self, &provider);
    tg_provider far;
    lua_getfield(L, 1, "ranks"); /* stays on the stack */
    int ranks = lua_gettop(L), others = tg_other_ranks(L, ranks);
    int count = others ? others : tg_integer_field_or(L, 1, "workers", 1, 1024, 1);
    size_t size;
    lua_getfield(L, 1, "worker");
    const char *text = lua_tolstring(L, -1, &size); /* stays on the stack */
    if (!text && !provider.plan)
        return luaL_error(L, "field 'plan': missing, expected a function");
    tg_worker_source source;
    tg_workers workers;
    if (text)
        tg_make_lua_workers(L, text, size, count, &limits, self.store, &source, &workers);
    if (text && others) {
        tg_pose_to_ranks(L, ranks, text, size, &limits, &far);
        source.far = &far;
    }
    tg_enumeration found;
    tg_error err;
    tg_status status = tg_enumerate(arena, &problem, &provider, text ? &workers : NULL, &options, &found, &err);
    if (text)
        tg_finish_lua_workers(&source, count);
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
