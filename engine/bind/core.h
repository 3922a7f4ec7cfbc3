#ifndef TG_BIND_CORE_H
#define TG_BIND_CORE_H

#include "bind/state.h"
#include "pipeline/split.h"

/* Each adds its functions to the table at the top of the stack. */
void tg_open_json(lua_State *L);
void tg_open_compose(lua_State *L);
void tg_open_model(lua_State *L);
void tg_open_cluster(lua_State *L);
void tg_open_terms(lua_State *L);
void tg_open_enumerate(lua_State *L);
void tg_open_plan(lua_State *L);
void tg_open_partition(lua_State *L);
void tg_open_knapsack(lua_State *L);
void tg_open_operators(lua_State *L);
void tg_open_store(lua_State *L);
void tg_open_process(lua_State *L);
void tg_open_ranks(lua_State *L);
void tg_open_partition_table(lua_State *L);

/* Argument arg, a Terms userdata. */
const tg_terms *tg_check_terms(lua_State *L, int arg);

/* The module tangram.core. */
int luaopen_tangram_core(lua_State *L);

#endif
