/* One Lua state: allocator with a limit, protected call with traceback, time limit by hook. */
#ifndef TG_BIND_STATE_H
#define TG_BIND_STATE_H

#include <lauxlib.h>
#include <lua.h>
#include <signal.h>

#include "base/base.h"

/* Set by the program's SIGINT handler; long work polls it. Never set when Lua is the host. */
const volatile sig_atomic_t *tg_stop_flag(void);
void tg_request_stop(void); /* async-signal-safe */
void tg_clear_stop(void);

/* As lua_pcall, all results, but once a stop is requested the function fails with "interrupted"; no pcall inside can
 * swallow that. Not to be nested. */
int tg_interruptible_call(lua_State *L, int nargs);

/* Calls the function under nargs arguments at the top of the stack, with a traceback in the error value unless the
 * error is marked as one for people (a string without position, from error(…, 0)). Returns as lua_pcall. */
int tg_protected_call(lua_State *L, int nargs, int nresults);

/* core.limited(seconds, f, ...) -> true, results | false, error value. The hook can't be swallowed by a pcall inside f:
 * past the limit it fires on every line. core.unlimited(f, ...) -> results, its time not counted. */
void tg_open_state(lua_State *L);

/* Pushes a userdata that holds an empty arena, freed with it. Leave it on the stack, or hold it by a user value, for as
 * long as the arena is used. */
tg_arena *tg_push_arena(lua_State *L);

/* nil, why: the expected way to fail. Returns 2, for `return tg_push_failure(L, &err)`. */
int tg_push_failure(lua_State *L, const tg_error *err);

#endif
