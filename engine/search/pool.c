#include "search/pool.h"

#include <pthread.h>
#include <stdlib.h>

typedef struct {
    tg_pool *pool;
    int index;
    pthread_t thread; /* of all but the first */
    tg_provider provider;
    bool open;
} worker;

struct tg_pool {
    const tg_workers *workers;
    double deadline_s;
    const volatile sig_atomic_t *stop;
    worker *all;
    int count;
    pthread_mutex_t mutex; /* guards what follows */
    pthread_cond_t begun, done;
    unsigned long batch; /* how many were begun */
    int busy;            /* threads that have not come to the end of the batch */
    bool closing;
    const tg_query *queries;
    size_t query_count, next;
    tg_arena *arenas;
    tg_answer *answers;
    tg_status status;
    tg_error error;
};

static bool stopped(const tg_pool *pool)
{
    return (pool->stop && __atomic_load_n(pool->stop, __ATOMIC_RELAXED)) || tg_clock_s() > pool->deadline_s;
}

static tg_status answer(worker *self, size_t query, tg_error *err)
{
    const tg_pool *pool = self->pool;
    tg_status status = TG_OK;
    if (!self->open) {
        status = pool->workers->open(pool->workers->self, self->index, &self->provider, err);
        self->open = status == TG_OK;
    }
    if (status == TG_OK)
        status = self->provider.plan(self->provider.self, &pool->queries[query], &pool->arenas[self->index],
                                     &pool->answers[query], err);
    return status;
}

/* Answers queries until none is left. The mutex is held before and after. */
static void work(worker *self)
{
    tg_pool *pool = self->pool;
    while (pool->next < pool->query_count && pool->status == TG_OK && !stopped(pool)) {
        size_t query = pool->next++;
        pthread_mutex_unlock(&pool->mutex);
        tg_error err;
        tg_status status = answer(self, query, &err);
        pthread_mutex_lock(&pool->mutex);
        if (status != TG_OK && pool->status == TG_OK) {
            pool->status = status;
            pool->error = err;
        }
    }
}

static void close_worker(worker *self)
{
    if (self->open)
        self->pool->workers->close(self->pool->workers->self, self->index, &self->provider);
    self->open = false;
}

static void *thread_main(void *argument)
{
    worker *self = argument;
    tg_pool *pool = self->pool;
    unsigned long seen = 0;
    pthread_mutex_lock(&pool->mutex);
    for (;;) {
        while (pool->batch == seen && !pool->closing)
            pthread_cond_wait(&pool->begun, &pool->mutex);
        if (pool->closing)
            break;
        seen = pool->batch;
        work(self);
        if (--pool->busy == 0)
            pthread_cond_signal(&pool->done);
    }
    pthread_mutex_unlock(&pool->mutex);
    close_worker(self);
    return NULL;
}

/* Signals are the calling thread's. */
static void start_threads(tg_pool *pool)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    while (pool->count < pool->workers->count) {
        worker *next = &pool->all[pool->count];
        *next = (worker){.pool = pool, .index = pool->count};
        if (pool->count > 0 && pthread_create(&next->thread, NULL, thread_main, next) != 0)
            break;
        pool->count++;
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

tg_status tg_pool_open(const tg_workers *workers, double deadline_s, const volatile sig_atomic_t *stop, tg_pool **out,
                       tg_error *err)
{
    tg_pool *pool = calloc(1, sizeof *pool);
    worker *all = calloc((size_t)workers->count, sizeof *all);
    if (!pool || !all) {
        free(pool);
        free(all);
        return tg_fail(err, TG_EMEMORY, "out of memory");
    }
    *pool = (tg_pool){.workers = workers, .deadline_s = deadline_s, .stop = stop, .all = all};
    pthread_mutex_init(&pool->mutex, NULL);
    pthread_cond_init(&pool->begun, NULL);
    pthread_cond_init(&pool->done, NULL);
    start_threads(pool);
    *out = pool;
    return TG_OK;
}

void tg_pool_close(tg_pool *pool)
{
    if (!pool)
        return;
    pthread_mutex_lock(&pool->mutex);
    pool->closing = true;
    pthread_cond_broadcast(&pool->begun);
    pthread_mutex_unlock(&pool->mutex);
    close_worker(&pool->all[0]);
    for (int i = 1; i < pool->count; i++)
        pthread_join(pool->all[i].thread, NULL);
    pthread_cond_destroy(&pool->begun);
    pthread_cond_destroy(&pool->done);
    pthread_mutex_destroy(&pool->mutex);
    free(pool->all);
    free(pool);
}

int tg_pool_size(const tg_pool *pool)
{
    return pool->count;
}

tg_status tg_pool_ask(tg_pool *pool, const tg_query *queries, size_t count, tg_arena *arenas, tg_answer *answers,
                      tg_error *err)
{
    for (size_t i = 0; i < count; i++)
        answers[i] = (tg_answer){.outcome = TG_UNASKED};
    pthread_mutex_lock(&pool->mutex);
    pool->queries = queries;
    pool->query_count = count;
    pool->next = 0;
    pool->arenas = arenas;
    pool->answers = answers;
    pool->status = TG_OK;
    if (count > 1) {
        pool->busy = pool->count - 1;
        pool->batch++;
        pthread_cond_broadcast(&pool->begun);
    }
    work(&pool->all[0]);
    while (pool->busy > 0)
        pthread_cond_wait(&pool->done, &pool->mutex);
    if (pool->status != TG_OK && err)
        *err = pool->error;
    tg_status status = pool->status;
    pthread_mutex_unlock(&pool->mutex);
    return status;
}
