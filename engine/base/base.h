/* Status, errors, arenas and growing arrays: what every step of the engine uses. */
#ifndef TG_BASE_H
#define TG_BASE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tangram.h"

/* Writes the message (printf style, one line) and returns status, so that a caller can `return tg_fail(…)`. err may be
 * NULL. */
tg_status tg_fail(tg_error *err, tg_status status, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* An arena: everything allocated from it is freed at once by tg_arena_free. Allocations are zeroed and aligned for any
 * type; NULL when memory is out. Not for use by two threads at once. */
typedef struct tg_arena_block tg_arena_block;
typedef struct {
    tg_arena_block *blocks;
} tg_arena;
void *tg_arena_alloc(tg_arena *arena, size_t count, size_t size);
char *tg_arena_strdup(tg_arena *arena, const char *text);
void tg_arena_free(tg_arena *arena);

/* Declares name, a growing array of type: name_push appends (false when memory is out), name_free releases. */
#define TG_VEC(name, type)                                                                                             \
    typedef struct {                                                                                                   \
        type *at;                                                                                                      \
        size_t count, room;                                                                                            \
    } name;                                                                                                            \
    __attribute__((unused)) static inline bool name##_push(name *v, type item)                                         \
    {                                                                                                                  \
        if (v->count == v->room && !tg_vec_grow((void **)&v->at, &v->room, sizeof(type)))                              \
            return false;                                                                                              \
        v->at[v->count++] = item;                                                                                      \
        return true;                                                                                                   \
    }                                                                                                                  \
    __attribute__((unused)) static inline void name##_free(name *v)                                                    \
    {                                                                                                                  \
        tg_vec_release((void **)&v->at);                                                                               \
        v->count = v->room = 0;                                                                                        \
    }                                                                                                                  \
    typedef int name##_needs_semicolon
bool tg_vec_grow(void **at, size_t *room, size_t size);
void tg_vec_release(void **at);

/* FNV-1a, 64 bit; start from TG_HASH_START. Numbers are hashed by their bytes. */
#define TG_HASH_START 14695981039346656037ULL
uint64_t tg_hash_bytes(uint64_t hash, const void *bytes, size_t size);
uint64_t tg_hash_text(uint64_t hash, const char *text);

/* Seconds of the monotonic clock. */
double tg_clock_s(void);

/* The nearest of count words to word by edit distance (Damerau-Levenshtein), or NULL if none is within a third of its
 * length (at least 2). */
const char *tg_nearest(const char *word, const char *const *words, size_t count);

#endif
