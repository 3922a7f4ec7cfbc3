/* An adapter's answer, from Lua tables to the engine's structs and back. */
#ifndef TG_BIND_CANDIDATES_H
#define TG_BIND_CANDIDATES_H

#include "bind/state.h"
#include "search/provider.h"

/* Reads an adapter's list of partial plans at index. TG_EPROVIDER with one sentence ("plan 1: stage 2: forward_s: …")
 * for unknown fields, wrong types and missing fields. What out holds lives in arena; Lua may raise for lack of memory
 * only. */
tg_status tg_read_candidates(lua_State *L, int index, tg_arena *arena, tg_answer *out, tg_error *err);

/* Pushes a stage as adapters write it. */
void tg_push_stage(lua_State *L, const tg_planned_stage *stage);

#endif
