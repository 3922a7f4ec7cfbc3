/* The Ranks userdata (search/ranks.h), and what stands in for it where the program is built without MPI. */
#ifndef TG_BIND_LRANKS_H
#define TG_BIND_LRANKS_H

#include "bind/lprovider.h"

/* How many other ranks the Ranks at index has; 0 for nil. */
int tg_other_ranks(lua_State *L, int index);

/* Gives the problem, a text for the module tangram.worker, to the ranks at index: out's plan is answered by them. */
void tg_pose_to_ranks(lua_State *L, int index, const char *text, size_t size, const tg_query_limits *limits,
                      tg_provider *out);

#endif
