/* The composition problem that the answers so far make (COMPOSITION.md, section 7). */
#ifndef TG_SEARCH_ASSEMBLE_H
#define TG_SEARCH_ASSEMBLE_H

#include "search/pairs.h"

/* Where a plan of the instance came from. */
typedef struct {
    int pair;
    const tg_compiled *compiled;
} tg_origin;

/* Each candidate stands where it is known to fit and, if hopeful, also at the positions not asked for yet behind the
 * largest one asked before: there it is a hope, to be asked for if the best sequence uses it. origins: by plan. Both
 * live in arena.
 */
tg_status tg_assemble(const tg_run *run, const tg_level *level, bool hopeful, tg_arena *arena, tg_instance *out,
                      tg_origin **origins, tg_error *err);

#endif
