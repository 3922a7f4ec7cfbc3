#include "search/store_file.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum {
    APPLICATION = 0x54474d31, /* "TGM1", in the file's header */
    SCHEMA = 1,               /* user_version */
    HEADER = 72               /* bytes of it that are looked at; application_id is the last of them */
};

static bool is_damage(int code)
{
    return code == SQLITE_CORRUPT || code == SQLITE_NOTADB || code == SQLITE_FORMAT || code == SQLITE_MISMATCH;
}

tg_status tg_store_failure(const tg_store *store, tg_error *err)
{
    int code = sqlite3_errcode(store->db) & 0xff;
    if (code == SQLITE_NOMEM)
        return tg_fail(err, TG_EMEMORY, "out of memory");
    if (is_damage(code))
        return tg_fail(err, TG_EINPUT, "%s: the store is damaged (%s), expected one that 'tangram store verify' passes",
                       store->path, sqlite3_errmsg(store->db));
    return tg_fail(err, TG_EIO, "%s: %s", store->path, sqlite3_errmsg(store->db));
}

tg_status tg_store_execute(const tg_store *store, const char *sql, tg_error *err)
{
    return sqlite3_exec(store->db, sql, NULL, NULL, NULL) == SQLITE_OK ? TG_OK : tg_store_failure(store, err);
}

tg_status tg_store_prepare(const tg_store *store, const char *sql, sqlite3_stmt **out, tg_error *err)
{
    return sqlite3_prepare_v2(store->db, sql, -1, out, NULL) == SQLITE_OK ? TG_OK : tg_store_failure(store, err);
}

sqlite3_int64 tg_store_checksum(const void *key, const void *answer, int size)
{
    uint64_t hash = tg_hash_bytes(tg_hash_bytes(TG_HASH_START, key, TG_SCOPE_BYTES), answer, (size_t)size);
    return (sqlite3_int64)hash;
}

static unsigned big_endian(const unsigned char *at)
{
    return (unsigned)at[0] << 24 | (unsigned)at[1] << 16 | (unsigned)at[2] << 8 | at[3];
}

/* Looks at the header before SQLite does, which would tidy up behind whoever else the file belongs to. A file is ours
 * from its first byte on: its tables and marks are one transaction, made before it gets a log (WAL). */
static tg_status refuse_foreign(const char *path, bool must_exist, tg_error *err)
{
    unsigned char header[HEADER] = {0};
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0 && errno == ENOENT && !must_exist)
        return TG_OK;
    if (file < 0)
        return tg_fail(err, TG_EINPUT, "%s: %s, expected a store of tangram", path, strerror(errno));
    struct stat info;
    bool regular = fstat(file, &info) == 0 && S_ISREG(info.st_mode);
    ssize_t size = regular ? read(file, header, sizeof header) : -1;
    close(file);
    if (!regular || size < 0)
        return tg_fail(err, TG_EINPUT, "%s: not a file to read, expected a store of tangram", path);
    if (size == 0 && !must_exist)
        return TG_OK;
    if (size < HEADER || memcmp(header, "SQLite format 3", 16) != 0 || big_endian(header + 68) != APPLICATION)
        return tg_fail(err, TG_EINPUT, "%s: not a store of tangram, and left as it is; expected a store or a new name",
                       path);
    unsigned schema = big_endian(header + 60);
    if (schema != SCHEMA)
        return tg_fail(err, TG_EINPUT, "%s: a store of form %u, expected form %d; it is left as it is", path, schema,
                       SCHEMA);
    return TG_OK;
}

/* Under the lock that another process may have held while it did the same. */
static tg_status make_tables(const tg_store *store, tg_error *err)
{
    static const char tables[] =
        "CREATE TABLE IF NOT EXISTS scopes(id INTEGER PRIMARY KEY, digest BLOB NOT NULL UNIQUE, program TEXT NOT NULL,"
        " description TEXT NOT NULL, created REAL NOT NULL, used REAL NOT NULL);"
        "CREATE TABLE IF NOT EXISTS answers(key BLOB NOT NULL UNIQUE, scope INTEGER NOT NULL REFERENCES scopes(id),"
        " answer BLOB NOT NULL, checksum INTEGER NOT NULL);"
        "CREATE INDEX IF NOT EXISTS answers_of ON answers(scope);";
    char marks[96];
    sqlite3_snprintf(sizeof marks, marks, "PRAGMA application_id = %d; PRAGMA user_version = %d;", APPLICATION, SCHEMA);
    tg_status status = tg_store_execute(store, "BEGIN IMMEDIATE", err);
    if (status == TG_OK)
        status = tg_store_execute(store, marks, err);
    if (status == TG_OK)
        status = tg_store_execute(store, tables, err);
    if (status == TG_OK)
        status = tg_store_execute(store, "COMMIT", err);
    return status;
}

/* One row, one column. */
static tg_status ask(const tg_store *store, const char *sql, char *text, size_t room, tg_error *err)
{
    sqlite3_stmt *statement = NULL;
    tg_status status = tg_store_prepare(store, sql, &statement, err);
    if (status == TG_OK && sqlite3_step(statement) == SQLITE_ROW)
        sqlite3_snprintf((int)room, text, "%s", (const char *)sqlite3_column_text(statement, 0));
    else if (status == TG_OK)
        status = tg_store_failure(store, err);
    sqlite3_finalize(statement);
    return status;
}

static tg_status check_whole(const tg_store *store, tg_error *err)
{
    char found[200];
    tg_status status = ask(store, "PRAGMA quick_check(1)", found, sizeof found, err);
    if (status == TG_OK && strcmp(found, "ok") != 0)
        return tg_fail(err, TG_EINPUT, "%s: the store is damaged (%s); it is left as it is, expected an intact one",
                       store->path, found);
    return status;
}

/* Another process that does the same now is waited for: here SQLite itself does not wait. */
static tg_status begin_log(const tg_store *store, tg_error *err)
{
    char log[16];
    double until_s = tg_clock_s() + TG_STORE_BUSY_MS / 1000.0;
    const struct timespec pause = {.tv_nsec = 10000000};
    tg_status status;
    while ((status = ask(store, "PRAGMA journal_mode = WAL", log, sizeof log, err)) == TG_EIO &&
           (sqlite3_errcode(store->db) & 0xff) == SQLITE_BUSY && tg_clock_s() < until_s)
        nanosleep(&pause, NULL);
    return status;
}

tg_status tg_store_file_open(tg_store *store, tg_store_mode mode, tg_error *err)
{
    tg_status status = refuse_foreign(store->path, mode == TG_STORE_EXISTING, err);
    if (status != TG_OK)
        return status;
    int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX | (mode == TG_STORE_EXISTING ? 0 : SQLITE_OPEN_CREATE);
    if (sqlite3_open_v2(store->path, &store->db, flags, NULL) != SQLITE_OK) {
        int code = sqlite3_errcode(store->db) & 0xff;
        status = tg_store_failure(store, err);
        return code == SQLITE_CANTOPEN ? TG_EINPUT : status;
    }
    sqlite3_busy_timeout(store->db, TG_STORE_BUSY_MS);
    char tables[16];
    status = ask(store, "SELECT count(*) FROM sqlite_master", tables, sizeof tables, err);
    if (status == TG_OK && strcmp(tables, "0") == 0)
        status = make_tables(store, err);
    if (status == TG_OK && sqlite3_db_readonly(store->db, "main"))
        return tg_fail(err, TG_EINPUT, "%s: can't be written to, expected a store that can", store->path);
    if (status == TG_OK && mode != TG_STORE_JOIN)
        status = check_whole(store, err);
    if (status == TG_OK)
        status = begin_log(store, err);
    if (status == TG_OK)
        status = tg_store_execute(store, "PRAGMA synchronous = NORMAL", err);
    return status;
}
