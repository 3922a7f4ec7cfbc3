/* The terminal of the REPL, in the program only: tangram.core for stock Lua doesn't need libedit. */
#ifndef TG_BIND_LREPL_H
#define TG_BIND_LREPL_H

#include <lua.h>

/* The module tangram.terminal. */
int luaopen_tangram_terminal(lua_State *L);

#endif
