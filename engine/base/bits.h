/* Sets of small numbers as words of 64 bits. */
#ifndef TG_BITS_H
#define TG_BITS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

/* Whether any bit is set. */
static inline bool tg_bits_any(const uint64_t *bits, int words)
{
    for (int w = 0; w < words; w++)
        if (bits[w])
            return true;
    return false;
}

/* to |= from << by, or >> if by is negative; bits past the words are lost. */
static inline void tg_bits_join_shifted(uint64_t *to, const uint64_t *from, int by, int words)
{
    int whole = abs(by) / 64, part = abs(by) % 64;
    for (int w = 0; w + whole < words; w++) {
        int up = words - 1 - w;
        if (by >= 0) {
            uint64_t bits = from[up - whole] << part;
            if (part && up - whole > 0)
                bits |= from[up - whole - 1] >> (64 - part);
            to[up] |= bits;
        } else {
            uint64_t bits = from[w + whole] >> part;
            if (part && w + whole + 1 < words)
                bits |= from[w + whole + 1] << (64 - part);
            to[w] |= bits;
        }
    }
}

#endif
