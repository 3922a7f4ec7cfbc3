/* Composition and simulation for Lua. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "bind/convert.h"
#include "bind/core.h"
#include "pipeline/compose.h"
#include "pipeline/interleave.h"
#include "pipeline/label.h"

static int int_field(lua_State *L, int table, const char *name, int otherwise)
{
    return tg_integer_field_or(L, table, name, INT_MIN, INT_MAX, otherwise);
}

static int choice_field(lua_State *L, int table, const char *name, const char *const *choices)
{
    int chosen = 0;
    if (lua_getfield(L, table, name) != LUA_TNIL) {
        const char *text = lua_tostring(L, -1);
        while (text && choices[chosen] && strcmp(choices[chosen], text) != 0)
            chosen++;
        if (!text || !choices[chosen])
            luaL_error(L, "%s: expected '%s' or '%s', got '%s'", name, choices[0], choices[1], text ? text : "?");
    }
    lua_pop(L, 1);
    return chosen;
}

static const char *const p2p_names[] = {"overlapped", "blocking", NULL};

static void check_options(lua_State *L, int table, tg_compose_options *options)
{
    static const char *const fields[] = {"objective", "p2p",    "warmup",          "gap", "time_limit_s", "effort",
                                         "top",       "cutoff", "required_island", NULL};
    static const char *const objectives[] = {"simulated", "paper", NULL}, *const warmups[] = {"1f1b", "auto", NULL};
    tg_compose_defaults(options);
    options->stop = tg_stop_flag();
    if (lua_isnoneornil(L, table))
        return;
    tg_check_fields(L, table, fields);
    options->objective = choice_field(L, table, "objective", objectives) ? TG_PAPER : TG_SIMULATED;
    options->p2p = choice_field(L, table, "p2p", p2p_names) ? TG_BLOCKING : TG_OVERLAPPED;
    options->warmup = choice_field(L, table, "warmup", warmups) ? TG_AUTO : TG_PLAIN;
    options->gap = tg_number_field_or(L, table, "gap", options->gap);
    options->time_limit_s = tg_number_field_or(L, table, "time_limit_s", options->time_limit_s);
    const int effort = int_field(L, table, "effort", 0);
    if (effort < 0)
        luaL_error(L, "effort: expected at least 0, got %d", effort);
    options->effort = effort ? effort : options->effort;
    options->top = int_field(L, table, "top", options->top);
    options->cutoff = tg_number_field_or(L, table, "cutoff", options->cutoff);
    options->required_island = int_field(L, table, "required_island", 0) - 1;
}

static tg_status generate_from(lua_State *L, int table, tg_arena *arena, tg_instance *out, tg_error *err)
{
    static const char *const fields[] = {"seed", "atoms", "islands", "variants", "kinds", NULL};
    tg_check_fields(L, table, fields);
    int islands = int_field(L, table, "islands", 4);
    return tg_instance_generate(arena, (uint64_t)int_field(L, table, "seed", 1), int_field(L, table, "atoms", 42),
                                islands, int_field(L, table, "variants", 4), int_field(L, table, "kinds", islands), out,
                                err);
}

static void push_sequence(lua_State *L, const tg_sequence *sequence)
{
    lua_createtable(L, sequence->count, 0);
    for (int i = 0; i < sequence->count; i++) {
        lua_pushinteger(L, sequence->plans[i] + 1);
        lua_rawseti(L, -2, i + 1);
    }
}

static void push_composition(lua_State *L, const tg_composition *composition)
{
    static const char *const stops[] = {NULL, "time", "signal", "effort"};
    lua_createtable(L, 0, 12);
    tg_set_boolean(L, "found", composition->found);
    tg_set_number(L, "bound_s", composition->bound_s);
    tg_set_text(L, "stopped", stops[composition->stopped]);
    tg_set_integer(L, "labels", composition->labels);
    tg_set_integer(L, "simulated", composition->simulated);
    if (!composition->found)
        return;
    push_sequence(L, &composition->best);
    lua_setfield(L, -2, "sequence");
    tg_set_number(L, "time_s", composition->best.time_s);
    tg_set_number(L, "gap", composition->gap);
    tg_set_boolean(L, "proved", composition->proved);
    tg_set_number(L, "paper_s", composition->paper_s);
    lua_createtable(L, composition->stage_count, 0);
    for (int s = 0; s < composition->stage_count; s++) {
        lua_pushinteger(L, composition->warmup[s]);
        lua_rawseti(L, -2, s + 1);
    }
    lua_setfield(L, -2, "warmup");
    lua_createtable(L, composition->top_count, 0);
    for (int i = 0; i < composition->top_count; i++) {
        lua_createtable(L, 0, 2);
        push_sequence(L, &composition->top[i]);
        lua_setfield(L, -2, "sequence");
        tg_set_number(L, "time_s", composition->top[i].time_s);
        lua_rawseti(L, -2, i + 1);
    }
    lua_setfield(L, -2, "top");
}

/* core.compose(instance, options?) -> result | nil, why. instance: tangram.instance/1 text, or the arguments of a
 * generated one { seed, atoms, islands, variants, kinds }. options: objective, p2p, warmup, gap, time_limit_s,
 * effort (a limit on work, the same in every run; 0: none), top, cutoff, required_island (from 1). result: found,
 * sequence and top[i].sequence (plans from 1, front first), time_s, bound_s, gap, proved, paper_s, warmup, stopped,
 * labels, simulated, compose_s, cpu_s; without a sequence only found, bound_s, stopped and the last four. */
static int compose(lua_State *L)
{
    tg_compose_options options;
    check_options(L, 2, &options);
    tg_arena *arena = tg_push_arena(L);
    tg_instance instance;
    tg_composition composition;
    tg_error err;
    tg_status status;
    if (lua_istable(L, 1)) {
        status = generate_from(L, 1, arena, &instance, &err);
    } else {
        size_t size;
        const char *text = luaL_checklstring(L, 1, &size);
        status = tg_instance_read(arena, text, size, &instance, &err);
    }
    const double start_s = tg_clock_s();
    const clock_t start_cpu = clock();
    if (status == TG_OK)
        status = tg_compose(arena, &instance, &options, &composition, &err);
    if (status != TG_OK)
        return tg_push_failure(L, &err);
    const double compose_s = tg_clock_s() - start_s, cpu_s = (double)(clock() - start_cpu) / CLOCKS_PER_SEC;
    push_composition(L, &composition);
    tg_arena_free(arena); /* large: not left to the collector */
    tg_set_number(L, "compose_s", compose_s);
    tg_set_number(L, "cpu_s", cpu_s);
    return 1;
}

/* core.generate(seed, atoms, islands, variants, kinds = islands) -> tangram.instance/1 text | nil, why */
static int generate(lua_State *L)
{
    lua_Integer seed = luaL_checkinteger(L, 1);
    int atoms = (int)luaL_checkinteger(L, 2), islands = (int)luaL_checkinteger(L, 3);
    int variants = (int)luaL_checkinteger(L, 4), kinds = (int)luaL_optinteger(L, 5, islands);
    tg_arena *arena = tg_push_arena(L);
    tg_instance instance;
    tg_error err;
    if (tg_instance_generate(arena, (uint64_t)seed, atoms, islands, variants, kinds, &instance, &err) != TG_OK)
        return tg_push_failure(L, &err);
    char *text = tg_instance_write(&instance);
    if (!text)
        return luaL_error(L, "out of memory");
    lua_pushstring(L, text);
    free(text);
    return 1;
}

typedef struct {
    int count, microbatches, chunks;
    tg_stage_time *stages;
    double *transfer_s;
    int *warmup; /* NULL: plain */
    tg_p2p p2p;
    bool operations;
} pipeline;

static void check_pipeline(lua_State *L, pipeline *out)
{
    static const char *const fields[] = {"microbatches", "warmup", "p2p", "operations", "chunks", NULL};
    static const char *const stage_fields[] = {"forward_s", "backward_s", "sync_s", NULL};
    luaL_checktype(L, 1, LUA_TTABLE);
    luaL_checktype(L, 2, LUA_TTABLE);
    tg_check_fields(L, 3, fields);
    *out = (pipeline){.count = (int)luaL_len(L, 1),
                      .microbatches = int_field(L, 3, "microbatches", 1),
                      .chunks = int_field(L, 3, "chunks", 1)};
    luaL_argcheck(L, out->count >= 1, 1, "expected at least one stage");
    luaL_argcheck(L, luaL_len(L, 2) == out->count - 1, 2, "expected one transfer less than stages");
    out->p2p = choice_field(L, 3, "p2p", p2p_names) ? TG_BLOCKING : TG_OVERLAPPED;
    lua_getfield(L, 3, "operations");
    out->operations = lua_toboolean(L, -1);
    const size_t count = (size_t)out->count;
    out->stages = lua_newuserdatauv(L, count * sizeof *out->stages, 0);
    out->transfer_s = lua_newuserdatauv(L, count * sizeof *out->transfer_s, 0);
    for (int s = 0; s < out->count; s++) {
        lua_geti(L, 1, s + 1);
        int at = lua_gettop(L);
        tg_check_fields(L, at, stage_fields);
        out->stages[s] =
            (tg_stage_time){tg_number_field_or(L, at, "forward_s", 0), tg_number_field_or(L, at, "backward_s", 0),
                            tg_number_field_or(L, at, "sync_s", 0), 0};
        lua_pop(L, 1);
        if (s + 1 == out->count)
            break;
        lua_geti(L, 2, s + 1);
        out->transfer_s[s] = luaL_checknumber(L, -1);
        lua_pop(L, 1);
    }
    if (lua_getfield(L, 3, "warmup") != LUA_TNIL) {
        luaL_argcheck(L, luaL_len(L, -1) == out->count, 3, "warmup: expected one depth a stage");
        out->warmup = lua_newuserdatauv(L, count * sizeof *out->warmup, 0);
        for (int s = 0; s < out->count; s++) {
            lua_geti(L, -2, s + 1);
            out->warmup[s] = (int)luaL_checkinteger(L, -1);
            lua_pop(L, 1);
        }
    }
}

static int simulate_interleaved(lua_State *L, const pipeline *p)
{
    luaL_argcheck(L, !p->warmup && !p->operations && p->p2p == TG_OVERLAPPED, 3, "chunks: stands alone");
    double time_s;
    tg_error err;
    if (tg_simulate_interleaved(p->stages, p->count, p->transfer_s, p->chunks, p->microbatches, &time_s, &err) != TG_OK)
        return tg_push_failure(L, &err);
    lua_pushnumber(L, time_s);
    return 1;
}

/* core.simulate(stages, transfer_s, options) -> time_s, operations? | nil, why. stages: { forward_s, backward_s, sync_s
 * }, front first; options: microbatches, p2p, warmup (depths), operations (true: return them too, as { stage,
 * microbatch, backward, start_s, end_s } in the order of stage, then of execution). chunks above 1: interleaved 1F1B
 * with that many stages a rank, which knows no other option. */
static int simulate(lua_State *L)
{
    pipeline p;
    check_pipeline(L, &p);
    if (p.chunks > 1)
        return simulate_interleaved(L, &p);
    size_t count = 2 * (size_t)p.count * (size_t)p.microbatches;
    tg_operation *operations = p.operations ? lua_newuserdatauv(L, count * sizeof *operations, 0) : NULL;
    double time_s;
    tg_error err;
    if (tg_simulate(p.stages, p.count, p.transfer_s, p.warmup, p.microbatches, p.p2p, &time_s, operations, &err) !=
        TG_OK)
        return tg_push_failure(L, &err);
    lua_pushnumber(L, time_s);
    if (!operations)
        return 1;
    tg_push_operations(L, operations, count);
    return 2;
}

/* core.bound(stages, transfer_s, options) -> the lower bound X of COMPOSITION.md, section 4, in seconds */
static int bound(lua_State *L)
{
    pipeline p;
    check_pipeline(L, &p);
    tg_arena *arena = tg_push_arena(L);
    tg_chain chain;
    if (!tg_chain_make(arena, p.count, p.microbatches, p.p2p, &chain))
        return luaL_error(L, "out of memory");
    chain.paced = true;
    tg_label label = {0};
    for (int s = p.count - 1; s >= 0; s--) {
        int depth = tg_least_depth(p.warmup ? p.warmup[s] : p.count - 1 - s, p.microbatches);
        label = tg_chain_push(&chain, &p.stages[s], s + 1 < p.count ? p.transfer_s[s] : 0, depth, depth, label);
    }
    lua_pushnumber(L, label.x);
    return 1;
}

void tg_open_compose(lua_State *L)
{
    static const luaL_Reg functions[] = {
        {"compose", compose}, {"generate", generate}, {"simulate", simulate}, {"bound", bound}, {NULL, NULL}};
    luaL_setfuncs(L, functions, 0);
}
