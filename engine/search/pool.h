/* Workers that answer queries in parallel: N providers, the first in the calling thread, each other in a thread of its
 * own. */
#ifndef TG_SEARCH_POOL_H
#define TG_SEARCH_POOL_H

#include <signal.h>

#include "search/provider.h"

typedef struct tg_pool tg_pool;

/* workers must outlive the pool. After deadline_s (tg_clock_s), or once *stop is set (NULL: never), no further query is
 * begun. Where the system gives fewer threads, the pool does with those. */
tg_status tg_pool_open(const tg_workers *workers, double deadline_s, const volatile sig_atomic_t *stop, tg_pool **out,
                       tg_error *err);
void tg_pool_close(tg_pool *pool); /* NULL is allowed */

/* Workers, and with that arenas that tg_pool_ask takes. */
int tg_pool_size(const tg_pool *pool);

/* Asks all queries; answers[i] is that of queries[i], whoever gave it, TG_UNASKED where stopped before. What answers
 * hold lives in arenas, one for each worker. A provider's status other than TG_OK ends the batch with it. */
tg_status tg_pool_ask(tg_pool *pool, const tg_query *queries, size_t count, tg_arena *arenas, tg_answer *answers,
                      tg_error *err);

#endif
