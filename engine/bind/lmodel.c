/* A model's description (a Lua table, lua/tangram/model.lua) to its atoms and counts. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bind/convert.h"
#include "bind/core.h"
#include "model/model.h"

static const char *const mlp_names[] = {"none", "dense", "moe", NULL};
static const char *const attention_names[] = {"none", "full", "sliding", NULL};
static const char *const atom_names[] = {"embedding", "layer", "attention", "mlp", "head", NULL};

/* A missing field is 0; what is no whole number raises. */
static void read_fields(lua_State *L, int index, const tg_model_field *fields, size_t count, tg_model_dims *dims)
{
    for (size_t i = 0; i < count; i++) {
        int whole = 1;
        lua_Integer value = 0;
        if (lua_getfield(L, index, fields[i].name) != LUA_TNIL)
            value = lua_tointegerx(L, -1, &whole);
        if (!whole)
            luaL_error(L, "model: %s: expected a whole number, got %s", fields[i].name, luaL_tolstring(L, -1, NULL));
        *(int64_t *)(void *)((char *)dims + fields[i].offset) = value;
        lua_pop(L, 1);
    }
}

static bool read_flag(lua_State *L, int index, const char *name)
{
    lua_getfield(L, index, name);
    bool flag = lua_toboolean(L, -1);
    lua_pop(L, 1);
    return flag;
}

/* Reads list `name` of one word a layer: each the place of its word in words, 0 being no choice. NULL: no memory. */
static const uint8_t *read_kinds(lua_State *L, int index, const char *name, const char *const *words, int64_t layers,
                                 tg_arena *arena)
{
    if (lua_getfield(L, index, name) != LUA_TTABLE || luaL_len(L, -1) != layers)
        luaL_error(L, "model: %s: expected a list of %I words, one a layer", name, (LUAI_UACINT)layers);
    uint8_t *kinds = tg_arena_alloc(arena, (size_t)layers, 1);
    for (int64_t i = 0; kinds && i < layers; i++) {
        lua_geti(L, -1, i + 1);
        const char *word = lua_tostring(L, -1);
        for (uint8_t kind = 1; word && words[kind]; kind++)
            if (strcmp(word, words[kind]) == 0)
                kinds[i] = kind;
        if (!kinds[i])
            luaL_error(L, "model: %s[%I]: expected '%s' or '%s'", name, (LUAI_UACINT)(i + 1), words[1], words[2]);
        lua_pop(L, 1);
    }
    lua_pop(L, 1);
    return kinds;
}

/* The dimensions in the table at index, checked; their lists live in arena. Wrong types raise. */
static tg_status read_dims(lua_State *L, int index, tg_arena *arena, tg_model_dims *dims, tg_error *err)
{
    memset(dims, 0, sizeof *dims);
    luaL_checktype(L, index, LUA_TTABLE);
    read_fields(L, index, tg_model_fields, TG_MODEL_FIELDS, dims);
    dims->gated = read_flag(L, index, "gated");
    dims->tied = read_flag(L, index, "tied");
    dims->bias = read_flag(L, index, "bias");
    dims->has_mla = lua_getfield(L, index, "mla") == LUA_TTABLE;
    if (dims->has_mla)
        read_fields(L, lua_gettop(L), tg_mla_fields, TG_MLA_FIELDS, dims);
    lua_pop(L, 1);
    dims->layer_mlp = read_kinds(L, index, "layer_mlp", mlp_names, dims->layers, arena);
    dims->layer_attention = read_kinds(L, index, "layer_attention", attention_names, dims->layers, arena);
    if (!dims->layer_mlp || !dims->layer_attention)
        return tg_fail(err, TG_EMEMORY, "out of memory");
    return tg_model_check(dims, err);
}

static void push_hash(lua_State *L, uint64_t hash)
{
    char text[17];
    snprintf(text, sizeof text, "%016" PRIx64, hash);
    lua_pushstring(L, text);
}

static void push_atom(lua_State *L, const tg_atom *atom, size_t index)
{
    lua_createtable(L, 0, 11);
    tg_set_text(L, "kind", atom_names[atom->kind]);
    tg_set_integer(L, "index", (lua_Integer)index + 1);
    tg_set_integer(L, "layer", atom->layer);
    if (atom->mlp != TG_MLP_NONE)
        tg_set_text(L, "mlp", mlp_names[atom->mlp]);
    if (atom->attention != TG_ATTENTION_NONE)
        tg_set_text(L, "attention", attention_names[atom->attention]);
    tg_set_integer(L, "parameters", atom->parameters);
    tg_set_integer(L, "expert_parameters", atom->expert_parameters);
    tg_set_integer(L, "parameter_bytes", 2 * atom->parameters);
    tg_set_number(L, "flops", atom->forward_flops);
    tg_set_number(L, "boundary_bytes", atom->boundary_bytes);
    push_hash(L, atom->hash);
    lua_setfield(L, -2, "hash");
}

/* core.atoms(model, { seq_len =, granularity = "layer"|"half" }) -> list of { kind, index (from 1), layer (from 1; 0 at
 * the ends), mlp, attention, parameters, expert_parameters, parameter_bytes (2 a parameter), flops (forward, one
 * sample), boundary_bytes (one sample), hash } | nil, why */
static int atoms(lua_State *L)
{
    static const char *const granularities[] = {"layer", "half", NULL};
    luaL_checktype(L, 2, LUA_TTABLE);
    lua_getfield(L, 2, "granularity");
    tg_granularity granularity = (tg_granularity)luaL_checkoption(L, -1, "layer", granularities);
    lua_getfield(L, 2, "seq_len");
    lua_Integer seq_len = luaL_checkinteger(L, -1);
    tg_arena *arena = tg_push_arena(L);
    tg_model_dims dims;
    tg_atoms list;
    tg_error err;
    if (read_dims(L, 1, arena, &dims, &err) != TG_OK ||
        tg_model_atoms(arena, &dims, seq_len, granularity, &list, &err) != TG_OK)
        return tg_push_failure(L, &err);
    lua_createtable(L, (int)list.count, 0);
    for (size_t i = 0; i < list.count; i++) {
        push_atom(L, &list.at[i], i);
        lua_rawseti(L, -2, (lua_Integer)i + 1);
    }
    return 1;
}

/* core.model_check(model) -> true | nil, why */
static int model_check(lua_State *L)
{
    tg_model_dims dims;
    tg_error err;
    if (read_dims(L, 1, tg_push_arena(L), &dims, &err) != TG_OK)
        return tg_push_failure(L, &err);
    lua_pushboolean(L, 1);
    return 1;
}

/* core.model_parameters(model) -> total, active a token | nil, why */
static int model_parameters(lua_State *L)
{
    tg_model_dims dims;
    tg_error err;
    if (read_dims(L, 1, tg_push_arena(L), &dims, &err) != TG_OK)
        return tg_push_failure(L, &err);
    int64_t active;
    lua_pushinteger(L, tg_model_parameters(&dims, &active));
    lua_pushinteger(L, active);
    return 2;
}

/* core.model_flops(model, seq_len) -> FLOPs of one sample, forward and backward, nothing recomputed | nil, why */
static int model_flops(lua_State *L)
{
    lua_Integer seq_len = luaL_checkinteger(L, 2);
    luaL_argcheck(L, seq_len >= 1, 2, "expected at least 1");
    tg_model_dims dims;
    tg_error err;
    if (read_dims(L, 1, tg_push_arena(L), &dims, &err) != TG_OK)
        return tg_push_failure(L, &err);
    lua_pushnumber(L, tg_model_flops(&dims, seq_len));
    return 1;
}

/* core.signature(atoms, first, last) -> signature of the atoms first to last (from 1, inclusive), from their hashes */
static int signature(lua_State *L)
{
    luaL_checktype(L, 1, LUA_TTABLE);
    lua_Integer first = luaL_checkinteger(L, 2), last = luaL_checkinteger(L, 3);
    luaL_argcheck(L, first >= 1 && last >= first && last <= luaL_len(L, 1), 3, "expected 1 <= first <= last <= #atoms");
    tg_atom *list = tg_arena_alloc(tg_push_arena(L), (size_t)(last - first + 1), sizeof *list);
    if (!list)
        return luaL_error(L, "out of memory");
    for (lua_Integer i = first; i <= last; i++) {
        lua_geti(L, 1, i);
        lua_getfield(L, -1, "hash");
        const char *text = luaL_checkstring(L, -1);
        char *end;
        list[i - first].hash = strtoull(text, &end, 16);
        luaL_argcheck(L, *text && !*end, 1, "an atom's hash is not hexadecimal");
        lua_pop(L, 2);
    }
    push_hash(L, tg_slice_signature(list, 0, (size_t)(last - first + 1)));
    return 1;
}

static void set_ranges(lua_State *L, const tg_model_field *fields, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        lua_createtable(L, 0, 2);
        tg_set_integer(L, "min", fields[i].min);
        tg_set_integer(L, "max", fields[i].max);
        lua_setfield(L, -2, fields[i].name);
    }
}

/* core.model_ranges: { hidden = { min =, max = }, … } of the whole-number fields, with those of mla and seq_len. */
static void push_ranges(lua_State *L)
{
    const tg_model_field seq_len = {.name = "seq_len", .min = 1, .max = TG_MAX_SEQ_LEN};
    lua_newtable(L);
    set_ranges(L, tg_model_fields, TG_MODEL_FIELDS);
    set_ranges(L, tg_mla_fields, TG_MLA_FIELDS);
    set_ranges(L, &seq_len, 1);
}

void tg_open_model(lua_State *L)
{
    static const luaL_Reg functions[] = {{"atoms", atoms},
                                         {"model_check", model_check},
                                         {"model_parameters", model_parameters},
                                         {"model_flops", model_flops},
                                         {"signature", signature},
                                         {NULL, NULL}};
    luaL_setfuncs(L, functions, 0);
    push_ranges(L);
    lua_setfield(L, -2, "model_ranges");
}
