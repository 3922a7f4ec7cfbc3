/* The standard library inside the program. */
#ifndef TG_BIND_EMBEDDED_H
#define TG_BIND_EMBEDDED_H

#include "bind/state.h"

/* The modules, made from lua/tangram by cmake/embed.lua; the last entry has no name. */
typedef struct {
    const char *name;
    const unsigned char *source;
    size_t size;
} tg_embedded;

extern const tg_embedded tg_embedded_modules[]; /* of the program alone: core.so has none */

/* Lets require find these modules (NULL: none) and tangram.core; the state remembers them. */
void tg_preload(lua_State *L, const tg_embedded *modules);

/* What tg_preload was given in this state, or NULL. */
const tg_embedded *tg_preloaded(lua_State *L);

/* core.library_source(name) -> the source of a module of the standard library, or nil */
void tg_open_embedded(lua_State *L);

#endif
