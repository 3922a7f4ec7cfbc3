/* First sequences where the search takes long to come to any: where islands are too many for the tables to count
 * (reach.h), or rows too many. Private to the composer. */
#ifndef TG_PIPELINE_BEAM_H
#define TG_PIPELINE_BEAM_H

#include "pipeline/search.h"

/* Offers the incumbent sequences of nearly even stages, found without a guarantee: one bottleneck after the other, from
 * `least` (no sequence takes less) on up, as long as it helps. The pieces are listed anew. */
tg_status tg_beam(tg_search *search, double least, tg_error *err);

#endif
