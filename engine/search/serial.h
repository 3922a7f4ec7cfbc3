/* An answer as bytes: what the store keeps and what ranks send each other. Doubles are kept bit by bit, numbers in
 * little endian order, each distinct stage once. */
#ifndef TG_SEARCH_SERIAL_H
#define TG_SEARCH_SERIAL_H

#include "search/provider.h"

TG_VEC(tg_bytes, unsigned char);

/* Appends the answer; false when memory is out. */
bool tg_answer_write(const tg_answer *answer, tg_bytes *out);

/* What out holds lives in arena. TG_EINPUT if the bytes are no answer. */
tg_status tg_answer_read(const void *bytes, size_t size, tg_arena *arena, tg_answer *out, tg_error *err);

#endif
