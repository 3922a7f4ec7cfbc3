#ifndef TG_BIND_EMBEDDED_H
#define TG_BIND_EMBEDDED_H

#include <stddef.h>

/* The standard library's modules, made from lua/tangram by cmake/embed.lua; the last entry has no name. */
typedef struct {
    const char *name;
    const unsigned char *source;
    size_t size;
} tg_embedded;

extern const tg_embedded tg_embedded_modules[];

#endif
