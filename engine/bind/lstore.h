/* The Store userdata. */
#ifndef TG_BIND_LSTORE_H
#define TG_BIND_LSTORE_H

#include "bind/state.h"
#include "search/store.h"

/* The Store at index, not closed; raises for anything else. */
tg_store *tg_check_store(lua_State *L, int index);

#endif
