/* What `tangram store` does: list, prune, verify. */
#include <float.h>
#include <time.h>

#include "search/serial.h"
#include "search/store_file.h"

TG_VEC(scope_vec, tg_store_scope);

static tg_status read_scopes(const tg_store *store, sqlite3_stmt *rows, tg_arena *arena, scope_vec *list, tg_error *err)
{
    int step;
    while ((step = sqlite3_step(rows)) == SQLITE_ROW) {
        tg_store_scope scope = {
            .program = tg_arena_strdup(arena, (const char *)sqlite3_column_text(rows, 0)),
            .description = tg_arena_strdup(arena, (const char *)sqlite3_column_text(rows, 1)),
            .created = sqlite3_column_double(rows, 2),
            .used = sqlite3_column_double(rows, 3),
            .answers = (long)sqlite3_column_int64(rows, 4),
            .bytes = sqlite3_column_double(rows, 5),
        };
        if (!scope.program || !scope.description || !scope_vec_push(list, scope))
            return tg_fail(err, TG_EMEMORY, "out of memory");
    }
    return step == SQLITE_DONE ? TG_OK : tg_store_failure(store, err);
}

tg_status tg_store_list(tg_store *store, tg_arena *arena, tg_store_scope **out, int *count, tg_error *err)
{
    sqlite3_stmt *rows = NULL;
    scope_vec list = {0};
    tg_status status = tg_store_prepare(store,
                                        "SELECT program, description, created, used, count(key), total(length(answer))"
                                        " FROM scopes LEFT JOIN answers ON scope = id GROUP BY id ORDER BY id",
                                        &rows, err);
    if (status == TG_OK)
        status = read_scopes(store, rows, arena, &list, err);
    sqlite3_finalize(rows);
    *out = tg_arena_alloc(arena, list.count, sizeof **out);
    if (status == TG_OK && !*out)
        status = tg_fail(err, TG_EMEMORY, "out of memory");
    for (size_t i = 0; i < list.count && status == TG_OK; i++)
        (*out)[i] = list.at[i];
    *count = (int)list.count;
    scope_vec_free(&list);
    return status;
}

static tg_status drop(const tg_store *store, bool other_programs, double before, long *dropped, tg_error *err)
{
    static const char *const sql[] = {
        "DELETE FROM answers WHERE scope IN (SELECT id FROM scopes WHERE (?1 AND program <> ?2) OR used <= ?3)",
        "DELETE FROM scopes WHERE (?1 AND program <> ?2) OR used <= ?3"};
    for (int i = 0; i < 2; i++) {
        sqlite3_stmt *statement = NULL;
        tg_status status = tg_store_prepare(store, sql[i], &statement, err);
        if (status == TG_OK) {
            sqlite3_bind_int(statement, 1, other_programs);
            sqlite3_bind_text(statement, 2, store->program, -1, SQLITE_STATIC);
            sqlite3_bind_double(statement, 3, before);
            if (sqlite3_step(statement) != SQLITE_DONE)
                status = tg_store_failure(store, err);
        }
        sqlite3_finalize(statement);
        if (status != TG_OK)
            return status;
        if (i == 0)
            *dropped = sqlite3_changes(store->db);
    }
    return TG_OK;
}

tg_status tg_store_prune(tg_store *store, bool other_programs, double unused_s, long *dropped, tg_error *err)
{
    double before = unused_s < DBL_MAX ? (double)time(NULL) - unused_s : 0;
    tg_status status = tg_store_execute(store, "BEGIN IMMEDIATE", err);
    if (status == TG_OK)
        status = drop(store, other_programs, before, dropped, err);
    if (status == TG_OK)
        status = tg_store_execute(store, "COMMIT", err);
    if (status == TG_OK)
        status = tg_store_execute(store, "VACUUM", err);
    return status;
}

static tg_status verify_answers(const tg_store *store, sqlite3_stmt *rows, long *answers, tg_error *err)
{
    int step;
    while ((step = sqlite3_step(rows)) == SQLITE_ROW) {
        tg_arena arena = {0};
        tg_answer answer;
        const void *key = sqlite3_column_blob(rows, 0), *bytes = sqlite3_column_blob(rows, 1);
        int size = sqlite3_column_bytes(rows, 1);
        tg_status status = TG_EINPUT;
        if (sqlite3_column_bytes(rows, 0) == TG_SCOPE_BYTES &&
            tg_store_checksum(key, bytes, size) == sqlite3_column_int64(rows, 2))
            status = tg_answer_read(bytes, (size_t)size, &arena, &answer, err);
        tg_arena_free(&arena);
        if (status == TG_EINPUT)
            return tg_fail(err, TG_EINPUT, "%s: answer %ld is damaged, expected the bytes that were stored",
                           store->path, *answers + 1);
        if (status != TG_OK)
            return status;
        ++*answers;
    }
    return step == SQLITE_DONE ? TG_OK : tg_store_failure(store, err);
}

tg_status tg_store_verify(tg_store *store, long *answers, tg_error *err)
{
    sqlite3_stmt *rows = NULL;
    *answers = 0;
    tg_status status = tg_store_prepare(store, "PRAGMA integrity_check(1)", &rows, err);
    if (status == TG_OK && sqlite3_step(rows) != SQLITE_ROW)
        status = tg_store_failure(store, err);
    else if (status == TG_OK && sqlite3_stricmp((const char *)sqlite3_column_text(rows, 0), "ok") != 0)
        status = tg_fail(err, TG_EINPUT, "%s: the store is damaged: %s", store->path,
                         (const char *)sqlite3_column_text(rows, 0));
    sqlite3_finalize(rows);
    rows = NULL;
    if (status == TG_OK)
        status = tg_store_prepare(store, "SELECT key, answer, checksum FROM answers", &rows, err);
    if (status == TG_OK)
        status = verify_answers(store, rows, answers, err);
    sqlite3_finalize(rows);
    return status;
}
