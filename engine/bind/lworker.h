/* Workers with a Lua state each. */
#ifndef TG_BIND_LWORKER_H
#define TG_BIND_LWORKER_H

#include "bind/embedded.h"
#include "bind/lprovider.h"

/* What workers' states are made from; no Lua value of it is used but by the thread that made it. */
typedef struct {
    const char *text; /* given to open of the module tangram.worker, which returns the plan function */
    size_t size;
    const char *path, *cpath; /* package.path and package.cpath */
    const tg_embedded *modules;
    tg_query_limits limits;
    const tg_provider *far; /* answers instead of the states; where it has no answer, they do. NULL: none */
    tg_store *store;        /* NULL: none */
    tg_store **joined;      /* of each worker */
} tg_worker_source;

/* store: asked first; may be NULL. Finds modules as L does. Pushes what source points to: it must stay on L's stack,
 * and text alive, while workers are in use. */
void tg_make_lua_workers(lua_State *L, const char *text, size_t size, int count, const tg_query_limits *limits,
                         tg_store *store, tg_worker_source *source, tg_workers *workers);

/* Once no worker is left: what workers' stores counted goes to the store. */
void tg_finish_lua_workers(tg_worker_source *source, int count);

#endif
