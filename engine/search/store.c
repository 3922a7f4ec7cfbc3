#include "search/store.h"

#include <sha2.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "search/serial.h"
#include "search/store_file.h"

/* The system refused: the run goes on without the store. */
static tg_status give_up(tg_store *store, tg_status status, tg_error *err)
{
    if (status != TG_EIO)
        return status;
    sqlite3_snprintf(sizeof store->trouble, store->trouble, "%s", err->message);
    return TG_OK;
}

static tg_status prepare_all(tg_store *store, tg_error *err)
{
    tg_status status = tg_store_prepare(store, "SELECT answer, checksum FROM answers WHERE key = ?1", &store->get, err);
    if (status == TG_OK)
        status = tg_store_prepare(store,
                                  "INSERT INTO answers(key, scope, answer, checksum) VALUES(?1, ?2, ?3, ?4)"
                                  " ON CONFLICT DO NOTHING",
                                  &store->put, err);
    if (status == TG_OK)
        status = tg_store_prepare(store,
                                  "INSERT INTO scopes(digest, program, description, created, used)"
                                  " VALUES(?1, ?2, ?3, ?4, ?4)"
                                  " ON CONFLICT(digest) DO UPDATE SET used = ?4 RETURNING id",
                                  &store->scope, err);
    return status;
}

tg_status tg_store_open(const char *path, const char *program, tg_store_mode mode, tg_store **out, tg_error *err)
{
    tg_store *store = calloc(1, sizeof *store);
    tg_error own;
    if (store) {
        store->path = strdup(path);
        store->program = strdup(program);
    }
    if (!store || !store->path || !store->program) {
        tg_store_close(store);
        return tg_fail(err, TG_EMEMORY, "out of memory");
    }
    tg_status status = tg_store_file_open(store, mode, &own);
    if (status == TG_OK)
        status = prepare_all(store, &own);
    if (mode != TG_STORE_EXISTING)
        status = give_up(store, status, &own);
    if (status != TG_OK) {
        tg_store_close(store);
        return tg_fail(err, status, "%s", own.message);
    }
    *out = store;
    return TG_OK;
}

void tg_store_close(tg_store *store)
{
    if (!store)
        return;
    sqlite3_finalize(store->get);
    sqlite3_finalize(store->put);
    sqlite3_finalize(store->scope);
    sqlite3_close(store->db);
    tg_scope_rows_free(&store->scopes);
    free(store->path);
    free(store->program);
    free(store);
}

tg_status tg_store_join(const tg_store *store, tg_store **out, tg_error *err)
{
    return tg_store_open(store->path, store->program, TG_STORE_JOIN, out, err);
}

void tg_store_leave(tg_store *store, tg_store *joined)
{
    if (!joined)
        return;
    store->found += joined->found;
    store->kept += joined->kept;
    if (!store->trouble[0])
        memcpy(store->trouble, joined->trouble, sizeof store->trouble);
    tg_store_close(joined);
}

tg_store_counts tg_store_count(const tg_store *store)
{
    return (tg_store_counts){
        .found = store->found, .kept = store->kept, .trouble = store->trouble[0] ? store->trouble : NULL};
}

typedef struct {
    unsigned char scope[TG_SCOPE_BYTES], key[TG_SCOPE_BYTES];
} digests;

static digests digests_of(const tg_store *store, const tg_identity *identity)
{
    digests made;
    SHA2_CTX context;
    SHA256Init(&context);
    SHA256Update(&context, (const uint8_t *)store->program, strlen(store->program) + 1);
    SHA256Update(&context, (const uint8_t *)identity->scope, strlen(identity->scope));
    SHA256Final(made.scope, &context);
    SHA256Init(&context);
    SHA256Update(&context, made.scope, sizeof made.scope);
    SHA256Update(&context, (const uint8_t *)identity->rest, strlen(identity->rest));
    SHA256Final(made.key, &context);
    return made;
}

static tg_status look_up(tg_store *store, const unsigned char *key, tg_arena *arena, tg_answer *out, bool *found,
                         tg_error *err)
{
    sqlite3_bind_blob(store->get, 1, key, TG_SCOPE_BYTES, SQLITE_STATIC);
    tg_status status = TG_OK;
    int step = sqlite3_step(store->get);
    *found = step == SQLITE_ROW;
    if (*found) {
        const void *bytes = sqlite3_column_blob(store->get, 0);
        int size = sqlite3_column_bytes(store->get, 0);
        bool right = tg_store_checksum(key, bytes, size) == sqlite3_column_int64(store->get, 1);
        if (!right || (status = tg_answer_read(bytes, (size_t)size, arena, out, err)) == TG_EINPUT)
            status = tg_fail(err, TG_EINPUT,
                             "%s: an answer in it is damaged, expected a store that 'tangram store verify' passes",
                             store->path);
    } else if (step != SQLITE_DONE) {
        status = tg_store_failure(store, err);
    }
    sqlite3_reset(store->get);
    return status;
}

/* The scope's row, marked as used once a run. */
static tg_status enter_scope(tg_store *store, const unsigned char *scope, const char *description, sqlite3_int64 *id,
                             tg_error *err)
{
    for (size_t i = 0; i < store->scopes.count; i++)
        if (memcmp(store->scopes.at[i].digest, scope, TG_SCOPE_BYTES) == 0) {
            *id = store->scopes.at[i].id;
            return TG_OK;
        }
    sqlite3_bind_blob(store->scope, 1, scope, TG_SCOPE_BYTES, SQLITE_STATIC);
    sqlite3_bind_text(store->scope, 2, store->program, -1, SQLITE_STATIC);
    sqlite3_bind_text(store->scope, 3, description, -1, SQLITE_STATIC);
    sqlite3_bind_double(store->scope, 4, (double)time(NULL));
    tg_scope_row row = {0};
    tg_status status = TG_OK;
    if (sqlite3_step(store->scope) == SQLITE_ROW)
        row.id = sqlite3_column_int64(store->scope, 0);
    if (!row.id || sqlite3_step(store->scope) != SQLITE_DONE)
        status = tg_store_failure(store, err);
    sqlite3_reset(store->scope);
    memcpy(row.digest, scope, TG_SCOPE_BYTES);
    if (status == TG_OK && !tg_scope_rows_push(&store->scopes, row))
        status = tg_fail(err, TG_EMEMORY, "out of memory");
    *id = row.id;
    return status;
}

static tg_status keep(tg_store *store, const digests *of, const tg_identity *identity, const tg_answer *answer,
                      tg_error *err)
{
    tg_bytes bytes = {0};
    if (!tg_answer_write(answer, &bytes) || bytes.count > INT32_MAX / 2) {
        tg_bytes_free(&bytes);
        return tg_fail(err, TG_EMEMORY, "out of memory");
    }
    int size = (int)bytes.count;
    sqlite3_int64 scope;
    tg_status status = enter_scope(store, of->scope, identity->description, &scope, err);
    if (status == TG_OK) {
        sqlite3_bind_blob(store->put, 1, of->key, TG_SCOPE_BYTES, SQLITE_STATIC);
        sqlite3_bind_int64(store->put, 2, scope);
        sqlite3_bind_blob(store->put, 3, bytes.at, size, SQLITE_STATIC);
        sqlite3_bind_int64(store->put, 4, tg_store_checksum(of->key, bytes.at, size));
        if (sqlite3_step(store->put) != SQLITE_DONE)
            status = tg_store_failure(store, err);
        sqlite3_reset(store->put);
        sqlite3_clear_bindings(store->put);
    }
    tg_bytes_free(&bytes);
    store->kept += status == TG_OK;
    return status;
}

tg_status tg_stored_plan(tg_store *store, const tg_provider *inner, const tg_query *query, tg_arena *arena,
                         tg_answer *out, tg_error *err)
{
    if (store->trouble[0])
        return inner->plan(inner->self, query, arena, out, err);
    tg_identity identity;
    tg_error own;
    tg_status status = inner->identity(inner->self, query, arena, &identity, err);
    if (status != TG_OK)
        return status;
    digests of = digests_of(store, &identity);
    bool found = false;
    status = give_up(store, look_up(store, of.key, arena, out, &found, &own), &own);
    if (status != TG_OK)
        return tg_fail(err, status, "%s", own.message);
    if (found && !store->trouble[0]) {
        sqlite3_int64 row;
        out->stored = true;
        store->found++;
        status = give_up(store, enter_scope(store, of.scope, identity.description, &row, &own), &own);
        return status == TG_OK ? TG_OK : tg_fail(err, status, "%s", own.message);
    }
    status = inner->plan(inner->self, query, arena, out, err);
    bool answered = out->outcome == TG_ANSWERED || out->outcome == TG_NO_PLAN;
    if (status != TG_OK || !answered || store->trouble[0])
        return status;
    status = give_up(store, keep(store, &of, &identity, out, &own), &own);
    return status == TG_OK ? TG_OK : tg_fail(err, status, "%s", own.message);
}
