/* Lua functions as the engine's provider. */
#ifndef TG_BIND_LPROVIDER_H
#define TG_BIND_LPROVIDER_H

#include "bind/state.h"
#include "search/provider.h"
#include "search/store.h"

typedef struct {
    double seconds; /* a query may take */
    size_t bytes;   /* by which it may make its state grow */
    double deadline_s;
} tg_query_limits;

/* A provider's self. The functions stand in the table at index callbacks. */
typedef struct {
    lua_State *L;
    int callbacks;
    tg_arena *arena; /* for policies' names */
    tg_query_limits limits;
    tg_store *store; /* asked first; NULL: none */
} tg_lua_provider;

/* The callbacks that the table has; self must outlive out. */
void tg_make_lua_provider(tg_lua_provider *self, tg_provider *out);

/* Asks the function at the top of the stack, which is popped: plan(island, first, last, microbatches, successors) ->
 * list of plans | nil; why; whether it brings its own times; what was logged. Whatever it raises or returns is
 * an answer: only lack of memory is a status. Past deadline_s, or interrupted, the query is TG_UNASKED. */
tg_status tg_lua_plan(lua_State *L, const tg_query *query, const tg_query_limits *limits, tg_arena *arena,
                      tg_answer *out, tg_error *err);

/* Calls the function at the top of the stack, which is popped: identify(island, first, last, microbatches, successors)
 * -> scope, description, rest (tg_identity). */
tg_status tg_lua_identity(lua_State *L, const tg_query *query, tg_arena *arena, tg_identity *out, tg_error *err);

#endif
