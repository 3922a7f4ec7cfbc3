#include "base/base.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

const char *tg_version(void)
{
    return TANGRAM_VERSION;
}

tg_status tg_fail(tg_error *err, tg_status status, const char *format, ...)
{
    if (err) {
        va_list args;
        va_start(args, format);
        vsnprintf(err->message, sizeof err->message, format, args);
        va_end(args);
        for (char *c = err->message; *c; c++)
            if ((unsigned char)*c < ' ')
                *c = ' '; /* what it quotes may hold line ends */
    }
    return status;
}

struct tg_arena_block {
    tg_arena_block *next;
    size_t used, room;
    _Alignas(max_align_t) unsigned char bytes[];
};

enum { BLOCK_BYTES = 1 << 16 };

void *tg_arena_alloc(tg_arena *arena, size_t count, size_t size)
{
    const size_t align = _Alignof(max_align_t);
    if (size && count > (SIZE_MAX / 2) / size)
        return NULL;
    size_t bytes = (count * size + align - 1) / align * align;
    if (bytes == 0)
        bytes = align;
    tg_arena_block *block = arena->blocks;
    if (!block || block->room - block->used < bytes) {
        size_t room = bytes > BLOCK_BYTES ? bytes : BLOCK_BYTES;
        block = malloc(sizeof *block + room);
        if (!block)
            return NULL;
        block->used = 0;
        block->room = room;
        block->next = arena->blocks;
        arena->blocks = block;
    }
    void *at = block->bytes + block->used;
    block->used += bytes;
    return memset(at, 0, bytes);
}

char *tg_arena_strdup(tg_arena *arena, const char *text)
{
    size_t size = strlen(text) + 1;
    char *copy = tg_arena_alloc(arena, size, 1);
    return copy ? memcpy(copy, text, size) : NULL;
}

void tg_arena_free(tg_arena *arena)
{
    for (tg_arena_block *block = arena->blocks, *next; block; block = next) {
        next = block->next;
        free(block);
    }
    arena->blocks = NULL;
}

bool tg_vec_grow(void **at, size_t *room, size_t size)
{
    size_t more = *room ? *room * 2 : 16;
    if (more > SIZE_MAX / 2 / size)
        return false;
    void *grown = realloc(*at, more * size);
    if (!grown)
        return false;
    *at = grown;
    *room = more;
    return true;
}

void tg_vec_release(void **at)
{
    free(*at);
    *at = NULL;
}

uint64_t tg_hash_bytes(uint64_t hash, const void *bytes, size_t size)
{
    const unsigned char *at = bytes;
    for (size_t i = 0; i < size; i++)
        hash = (hash ^ at[i]) * 1099511628211ULL;
    return hash;
}

uint64_t tg_hash_text(uint64_t hash, const char *text)
{
    return tg_hash_bytes(hash, text, strlen(text) + 1);
}

double tg_clock_s(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}
