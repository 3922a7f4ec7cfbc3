/* Answers kept in a file, so that a later run asks only for what no earlier one was told (DESIGN.md, section 6).
 *
 * The file is an SQLite database in WAL mode. Each answer is committed by itself: a process killed at any moment loses
 * what is in flight; a machine that loses power may also lose the last commits, never the file (synchronous = NORMAL).
 * Several processes, and threads with a store each, may share a file. A file that is damaged or not ours is refused and
 * left as it is. Where the system refuses to write (a full disk), the store says so once and forgets: the run goes on
 * without it. */
#ifndef TG_SEARCH_STORE_H
#define TG_SEARCH_STORE_H

#include "search/provider.h"

typedef struct tg_store tg_store;

typedef enum {
    TG_STORE_CREATE,  /* make the file if there is none; check all of it */
    TG_STORE_JOIN,    /* the same, unchecked: another store of this process has been opened on it */
    TG_STORE_EXISTING /* refuse if there is none */
} tg_store_mode;

/* program: what names the code that works out answers, another for other code. TG_EINPUT for a file that is damaged,
 * not ours or not to be opened. A full disk gives TG_OK and a store that tells its trouble. */
tg_status tg_store_open(const char *path, const char *program, tg_store_mode mode, tg_store **out, tg_error *err);
void tg_store_close(tg_store *store); /* NULL is allowed */

/* Another store on the same file, for another thread; leaving adds its counts and trouble to the first (joined may be
 * NULL) and closes it. */
tg_status tg_store_join(const tg_store *store, tg_store **out, tg_error *err);
void tg_store_leave(tg_store *store, tg_store *joined);

/* The answer of the store, else inner's, which is then kept unless it is a failure. inner needs plan and identity. A
 * damaged answer ends the run with TG_EINPUT. */
tg_status tg_stored_plan(tg_store *store, const tg_provider *inner, const tg_query *query, tg_arena *arena,
                         tg_answer *out, tg_error *err);

typedef struct {
    long found, kept;
    const char *trouble; /* why the store was given up; NULL: it was not */
} tg_store_counts;
tg_store_counts tg_store_count(const tg_store *store);

/* What is known of a scope (tg_identity). */
typedef struct {
    const char *program, *description;
    double created, used; /* seconds since 1970; used: by a run, its first answer */
    long answers;
    double bytes;
} tg_store_scope;

/* All scopes, oldest first. What out holds lives in arena. */
tg_status tg_store_list(tg_store *store, tg_arena *arena, tg_store_scope **out, int *count, tg_error *err);

/* Drops the scopes of other programs, if wanted, and those not used in so many seconds (infinite: none), gives the room
 * back to the system, and says how many answers went. */
tg_status tg_store_prune(tg_store *store, bool other_programs, double unused_s, long *dropped, tg_error *err);

/* Reads everything. TG_EINPUT with the first damage found. */
tg_status tg_store_verify(tg_store *store, long *answers, tg_error *err);

#endif
