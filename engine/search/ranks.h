/* Workers on other machines: MPI ranks. Rank 0 runs the search and hands out queries one at a time; the others answer.
 * What goes over the wire are a problem as bytes that only its two ends understand, queries, and answers as the store
 * keeps them. A rank that dies or does not answer costs the query that it had in hand and is asked no more. Built with
 * TANGRAM_MPI. */
#ifndef TG_SEARCH_RANKS_H
#define TG_SEARCH_RANKS_H

#include "search/provider.h"

typedef struct tg_ranks tg_ranks;

/* Whether mpirun or srun started this process as one of several ranks. */
bool tg_ranks_started(void);

/* Joins the others; once a process. */
tg_status tg_ranks_join(tg_ranks **out, tg_error *err);
int tg_ranks_rank(const tg_ranks *ranks);

int tg_ranks_others(const tg_ranks *ranks); /* how many ranks there are beside this one */

/* Rank 0: a provider whose plan, called by any number of threads, is answered by another rank. The problem is copied. A
 * rank that takes longer than patience_s for a query is given up. TG_UNASKED: no other rank is left. */
tg_status tg_ranks_pose(tg_ranks *ranks, const void *problem, size_t size, double patience_s, tg_provider *out,
                        tg_error *err);

/* How many ranks were given up. */
int tg_ranks_lost(const tg_ranks *ranks);

/* Other ranks: makes a provider from a problem's bytes, which stay valid until it is released. */
typedef struct {
    void *self;
    tg_status (*open)(void *self, const void *problem, size_t size, tg_provider *out, tg_error *err);
    void (*close)(void *self, tg_provider *provider);
} tg_opener;

/* Other ranks: answers until rank 0 leaves. */
tg_status tg_ranks_serve(tg_ranks *ranks, const tg_opener *opener, tg_error *err);

/* The end of the process is near. Rank 0 sends the others home; if some were lost, it ends all ranks with this exit
 * status, and does not return. */
void tg_ranks_leave(tg_ranks *ranks, int exit_status);

#endif
