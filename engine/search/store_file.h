/* The file of a store: opened, refused, and how its calls fail. */
#ifndef TG_SEARCH_STORE_FILE_H
#define TG_SEARCH_STORE_FILE_H

#include <sqlite3.h>

#include "search/store.h"

enum { TG_STORE_BUSY_MS = 20000, TG_SCOPE_BYTES = 32 };

/* A scope whose row is known. */
typedef struct {
    unsigned char digest[TG_SCOPE_BYTES];
    sqlite3_int64 id;
} tg_scope_row;

TG_VEC(tg_scope_rows, tg_scope_row);

struct tg_store {
    char *path, *program;
    sqlite3 *db;
    sqlite3_stmt *get, *put, *scope;
    tg_scope_rows scopes; /* used in this run */
    long found, kept;
    char trouble[256]; /* "": none; else db is no longer used */
};

/* Opens db, checks that it is ours, makes its tables if it is new. */
tg_status tg_store_file_open(tg_store *store, tg_store_mode mode, tg_error *err);

/* The failure of the call just made. TG_EINPUT for damage; TG_EIO where the system refuses. */
tg_status tg_store_failure(const tg_store *store, tg_error *err);

/* Runs SQL without results. */
tg_status tg_store_execute(const tg_store *store, const char *sql, tg_error *err);

/* Prepares a statement, NULL on failure. */
tg_status tg_store_prepare(const tg_store *store, const char *sql, sqlite3_stmt **out, tg_error *err);

/* What guards an answer against damage that the file's own structure does not show. */
sqlite3_int64 tg_store_checksum(const void *key, const void *answer, int size);

#endif
