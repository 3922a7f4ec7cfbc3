#include "search/ranks.h"

#include <limits.h>
#include <math.h>
#include <mpi.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "search/serial.h"

enum { TO_PROBLEM, TO_QUERY, TO_STOP, TO_ABANDON, FROM_ANSWER, FROM_FAILURE };

typedef enum { FREE, BUSY, LOST } peer_state;

typedef struct {
    peer_state state;
    unsigned long problem; /* the number of the one that it knows; 0: none */
} peer;

/* MPI is called by one thread at a time, under the mutex: what Debian's build is sure to allow. */
struct tg_ranks {
    int rank, size;
    pthread_mutex_t mutex;
    peer *peers; /* by rank; rank 0: all others */
    void *problem;
    size_t problem_size;
    unsigned long problem_number;
    double patience_s;
    bool abandoned; /* other ranks: some rank was lost, so there is no common end */
};

bool tg_ranks_started(void)
{
    static const char *const marks[] = {"OMPI_COMM_WORLD_SIZE", "PMIX_RANK", "PMI_SIZE"};
    for (size_t i = 0; i < sizeof marks / sizeof *marks; i++)
        if (getenv(marks[i]))
            return true;
    return false;
}

tg_status tg_ranks_join(tg_ranks **out, tg_error *err)
{
    tg_ranks *ranks = calloc(1, sizeof *ranks);
    int level;
    if (!ranks)
        return tg_fail(err, TG_EMEMORY, "out of memory");
    if (MPI_Init_thread(NULL, NULL, MPI_THREAD_SERIALIZED, &level) != MPI_SUCCESS || level < MPI_THREAD_SERIALIZED) {
        free(ranks);
        return tg_fail(err, TG_EIO, "MPI does not start, or not for threads");
    }
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_rank(MPI_COMM_WORLD, &ranks->rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks->size);
    pthread_mutex_init(&ranks->mutex, NULL);
    ranks->peers = calloc((size_t)ranks->size, sizeof *ranks->peers);
    *out = ranks;
    return ranks->peers ? TG_OK : tg_fail(err, TG_EMEMORY, "out of memory");
}

int tg_ranks_rank(const tg_ranks *ranks)
{
    return ranks->rank;
}

int tg_ranks_others(const tg_ranks *ranks)
{
    return ranks->size - 1;
}

int tg_ranks_lost(const tg_ranks *ranks)
{
    int lost = 0;
    for (int i = 1; i < ranks->size; i++)
        lost += ranks->peers[i].state == LOST;
    return lost;
}

static void nap(void)
{
    nanosleep(&(struct timespec){.tv_nsec = 100000}, NULL);
}

/* Waits for the request without keeping MPI from other threads. False if it is late or fails: then it may still be
 * under way, and its buffer must stay. */
static bool finish(tg_ranks *ranks, MPI_Request *request, double deadline_s)
{
    for (;;) {
        int done = 0;
        pthread_mutex_lock(&ranks->mutex);
        int failed = MPI_Test(request, &done, MPI_STATUS_IGNORE);
        pthread_mutex_unlock(&ranks->mutex);
        if (failed != MPI_SUCCESS)
            return false;
        if (done)
            return true;
        if (tg_clock_s() > deadline_s)
            return false;
        nap();
    }
}

/* A copy is sent, which is left where it is if the rank does not take it. */
static bool send_bytes(tg_ranks *ranks, int to, int tag, const void *bytes, size_t size, double deadline_s)
{
    MPI_Request request;
    void *copy = malloc(size + 1);
    if (!copy || size > INT_MAX) {
        free(copy);
        return false;
    }
    memcpy(copy, bytes, size);
    pthread_mutex_lock(&ranks->mutex);
    bool begun = MPI_Isend(copy, (int)size, MPI_BYTE, to, tag, MPI_COMM_WORLD, &request) == MPI_SUCCESS;
    pthread_mutex_unlock(&ranks->mutex);
    if (!begun || !finish(ranks, &request, deadline_s))
        return false;
    free(copy);
    return true;
}

/* The next message from a rank, to be freed; NULL if none comes in time. */
static unsigned char *receive_bytes(tg_ranks *ranks, int from, int *tag, size_t *size, double deadline_s)
{
    for (;;) {
        int there = 0, count = 0;
        MPI_Status status;
        MPI_Request request;
        unsigned char *bytes = NULL;
        pthread_mutex_lock(&ranks->mutex);
        bool right = MPI_Iprobe(from, MPI_ANY_TAG, MPI_COMM_WORLD, &there, &status) == MPI_SUCCESS;
        if (right && there) {
            MPI_Get_count(&status, MPI_BYTE, &count);
            bytes = malloc((size_t)count + 1);
            right = bytes &&
                    MPI_Irecv(bytes, count, MPI_BYTE, from, status.MPI_TAG, MPI_COMM_WORLD, &request) == MPI_SUCCESS;
        }
        pthread_mutex_unlock(&ranks->mutex);
        if (right && there && finish(ranks, &request, deadline_s)) {
            bytes[count] = '\0';
            *tag = status.MPI_TAG;
            *size = (size_t)count;
            return bytes;
        }
        if (!right || there || tg_clock_s() > deadline_s)
            return NULL;
        nap();
    }
}

/* A rank that is free now or soon; 0 if all are lost. */
static int acquire(tg_ranks *ranks)
{
    for (;;) {
        bool some = false;
        int found = 0;
        pthread_mutex_lock(&ranks->mutex);
        for (int i = 1; i < ranks->size && !found; i++) {
            some = some || ranks->peers[i].state != LOST;
            found = ranks->peers[i].state == FREE ? i : 0;
        }
        if (found)
            ranks->peers[found].state = BUSY;
        pthread_mutex_unlock(&ranks->mutex);
        if (found || !some)
            return found;
        nap();
    }
}

static void release(tg_ranks *ranks, int rank, peer_state state)
{
    pthread_mutex_lock(&ranks->mutex);
    ranks->peers[rank].state = state;
    pthread_mutex_unlock(&ranks->mutex);
}

/* The answer of a rank that was acquired; NULL if it is lost. */
static unsigned char *ask(tg_ranks *ranks, int rank, const tg_query *query, int *tag, size_t *size)
{
    double deadline_s = tg_clock_s() + ranks->patience_s;
    peer *one = &ranks->peers[rank];
    if (one->problem != ranks->problem_number) {
        if (!send_bytes(ranks, rank, TO_PROBLEM, ranks->problem, ranks->problem_size, deadline_s))
            return NULL;
        one->problem = ranks->problem_number;
    }
    if (!send_bytes(ranks, rank, TO_QUERY, query, sizeof *query, deadline_s))
        return NULL;
    return receive_bytes(ranks, rank, tag, size, deadline_s);
}

static tg_status plan(void *self, const tg_query *query, tg_arena *arena, tg_answer *out, tg_error *err)
{
    tg_ranks *ranks = self;
    int rank = acquire(ranks), tag = 0;
    *out = (tg_answer){.outcome = TG_UNASKED};
    if (!rank)
        return TG_OK;
    size_t size;
    unsigned char *bytes = ask(ranks, rank, query, &tag, &size);
    release(ranks, rank, bytes ? FREE : LOST);
    tg_status status = TG_OK;
    if (!bytes) {
        char why[80];
        snprintf(why, sizeof why, "rank %d died or hangs: no answer within %g s", rank, ranks->patience_s);
        fprintf(stderr, "warning: %s; it is asked no more\n", why);
        *out = (tg_answer){.outcome = TG_FAILED, .why = tg_arena_strdup(arena, why), .transient = true};
        return out->why ? TG_OK : tg_fail(err, TG_EMEMORY, "out of memory");
    }
    if (tag == FROM_FAILURE)
        status = tg_fail(err, TG_EPROVIDER, "rank %d: %s", rank, (const char *)bytes);
    else
        status = tg_answer_read(bytes, size, arena, out, err);
    free(bytes);
    return status;
}

tg_status tg_ranks_pose(tg_ranks *ranks, const void *problem, size_t size, double patience_s, tg_provider *out,
                        tg_error *err)
{
    void *copy = malloc(size + 1);
    if (!copy)
        return tg_fail(err, TG_EMEMORY, "out of memory");
    memcpy(copy, problem, size);
    free(ranks->problem);
    ranks->problem = copy;
    ranks->problem_size = size;
    ranks->problem_number++;
    ranks->patience_s = patience_s;
    *out = (tg_provider){.self = ranks, .plan = plan};
    return TG_OK;
}

/* Answers one query and sends what comes of it; false if rank 0 does not take it. */
static bool answer(tg_ranks *ranks, const tg_provider *provider, const tg_query *query, tg_status status, tg_error *err)
{
    tg_arena arena = {0};
    tg_bytes bytes = {0};
    tg_answer made = {0};
    if (status == TG_OK)
        status = provider->plan(provider->self, query, &arena, &made, err);
    if (status == TG_OK && !tg_answer_write(&made, &bytes))
        status = tg_fail(err, TG_EMEMORY, "out of memory");
    bool sent = status == TG_OK
                    ? send_bytes(ranks, 0, FROM_ANSWER, bytes.at, bytes.count, tg_clock_s() + 600)
                    : send_bytes(ranks, 0, FROM_FAILURE, err->message, strlen(err->message), tg_clock_s() + 600);
    tg_bytes_free(&bytes);
    tg_arena_free(&arena);
    return sent;
}

tg_status tg_ranks_serve(tg_ranks *ranks, const tg_opener *opener, tg_error *err)
{
    tg_provider provider;
    tg_status opened = TG_EINTERNAL;
    tg_error why = {.message = "asked before there was a problem"};
    unsigned char *problem = NULL;
    for (bool going = true; going;) {
        int tag;
        size_t size;
        unsigned char *message = receive_bytes(ranks, 0, &tag, &size, HUGE_VAL);
        if (!message)
            return tg_fail(err, TG_EIO, "rank %d: no more messages from rank 0", ranks->rank);
        if (tag != TO_QUERY && opened == TG_OK)
            opener->close(opener->self, &provider);
        if (tag == TO_PROBLEM) {
            free(problem);
            problem = message;
            opened = opener->open(opener->self, problem, size, &provider, &why);
            continue;
        }
        tg_query query;
        if (tag == TO_QUERY && size == sizeof query) {
            memcpy(&query, message, sizeof query);
            going = answer(ranks, &provider, &query, opened, &why);
        } else {
            ranks->abandoned = tag == TO_ABANDON;
            going = false;
        }
        free(message);
    }
    free(problem);
    return TG_OK;
}

/* To finalize is to wait for all ranks, so where some are lost the others are told and all is aborted. mpirun then ends
 * them, unless it was told to let ranks go on (--enable-recovery): then they end by themselves, later than rank 0,
 * whose status is the job's. */
void tg_ranks_leave(tg_ranks *ranks, int exit_status)
{
    if (!ranks)
        return;
    int tag = tg_ranks_lost(ranks) > 0 ? TO_ABANDON : TO_STOP;
    for (int i = 1; i < ranks->size && ranks->rank == 0; i++)
        if (ranks->peers[i].state != LOST && !send_bytes(ranks, i, tag, "", 0, tg_clock_s() + 5))
            ranks->peers[i].state = LOST;
    if (ranks->abandoned || tg_ranks_lost(ranks) > 0)
        fflush(NULL);
    if (ranks->abandoned) {
        nanosleep(&(struct timespec){.tv_sec = 1}, NULL);
        _exit(exit_status);
    }
    if (tg_ranks_lost(ranks) > 0)
        MPI_Abort(MPI_COMM_WORLD, exit_status);
    MPI_Finalize();
    pthread_mutex_destroy(&ranks->mutex);
    free(ranks->problem);
    free(ranks->peers);
    free(ranks);
}
