/* The Cluster userdata, shared by the files that add methods to it. */
#ifndef TG_BIND_LCLUSTER_H
#define TG_BIND_LCLUSTER_H

#include "bind/convert.h"
#include "bind/state.h"
#include "cluster/islands.h"

/* The Cluster at index, not closed; raises for anything else. */
const tg_cluster *tg_check_cluster(lua_State *L, int index);

/* What place, transfer and enumerate need of an island that cluster:islands gave. */
tg_island tg_read_island(lua_State *L, const tg_cluster *cluster, tg_arena *arena, int index);

/* What tg_fail says when the engine is out of memory raises; all else is nil, why. */
int tg_cluster_failure(lua_State *L, tg_status status, const tg_error *err);

/* A rate as Lua has it: a list of { size, bytes_per_s }, sizes ascending. */
void tg_push_rate(lua_State *L, const tg_rate *rate);

/* tg_arena_alloc that raises when memory is out. */
void *tg_need(lua_State *L, tg_arena *arena, size_t count, size_t size);

/* The node at index, by its name or its place from 1; raises if there is none. */
size_t tg_node_at(lua_State *L, const tg_cluster *cluster, int index);

/* The list of nodes at the top of the stack, popped. */
size_t *tg_pop_nodes(lua_State *L, const tg_cluster *cluster, tg_arena *arena, size_t *count);

/* Methods of Cluster. */
extern const luaL_Reg tg_islands_methods[]; /* islands, why, link, nodes */
extern const luaL_Reg tg_place_methods[];   /* place, classes, transfer */

#endif
