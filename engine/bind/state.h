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

/* For a state of the program's own, once, by the thread that runs it from here to lua_close: whether its limits are
 * reached is then looked at when a timer's signal says so. Other states, whose host may not expect signals, have a hook
 * that counts instructions; it makes Lua slower by a fifth. */
void tg_tick(lua_State *L);

/* As lua_pcall, all results, but once a stop is requested the function fails with "interrupted"; no pcall inside can
 * swallow that. Not to be nested. */
int tg_interruptible_call(lua_State *L, int nargs);
void tg_set_interruptible(lua_State *L, bool yes); /* the same for limited calls to come, within them */

typedef enum { TG_NOT_CUT, TG_CUT_TIME, TG_CUT_MEMORY, TG_CUT_STOP } tg_cut;

/* As lua_pcall, but the function fails with "time limit reached" after so many seconds (no later than a call around it)
 * and with "not enough memory" where the state would have to grow by more than so many bytes (SIZE_MAX: any). No pcall
 * and no coroutine inside can swallow the former: past the limit the hook fires on every instruction. Neither is seen
 * before a C function called in it, say a string.find, returns. *cut: whether a limit is what ended it. */
int tg_limited_call(lua_State *L, int nargs, int nresults, double seconds, size_t bytes, tg_cut *cut);

/* Pushes what was raised, at index, as one line that is not long; no metamethod of it is called. */
void tg_push_message(lua_State *L, int index);

/* Calls the function under nargs arguments at the top of the stack, with a traceback in the error value unless the
 * error is marked as one for people (a string without position, from error(…, 0)). Returns as lua_pcall. */
int tg_protected_call(lua_State *L, int nargs, int nresults);

/* core.limited(seconds, f, ...) -> true, results | false, error value; core.guarded(seconds, bytes, f, ...) -> true,
 * results | false, message, cut; core.unlimited(f, ...) -> results, its time not counted. */
void tg_open_state(lua_State *L);

/* Pushes a userdata that holds an empty arena, freed with it. Leave it on the stack, or hold it by a user value, for as
 * long as the arena is used. */
tg_arena *tg_push_arena(lua_State *L);

/* Makes the class of a userdata, once. Its methods stand apart from the metatable, so that no script can reach what all
 * of them share. */
void tg_make_class(lua_State *L, const char *name, const luaL_Reg *methods, const luaL_Reg *metamethods);

/* nil, why: the expected way to fail. Returns 2, for `return tg_push_failure(L, &err)`. */
int tg_push_failure(lua_State *L, const tg_error *err);

#endif
