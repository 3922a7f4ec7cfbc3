/* What the fuzzers share. A fuzzer aborts when the engine breaks a promise; the sanitizers see the rest. */
#ifndef TG_FUZZ_H
#define TG_FUZZ_H

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* An error is one line. */
static inline void require_sentence(const tg_error *err)
{
    if (err->message[0] == '\0' || strchr(err->message, '\n'))
        abort();
}

#endif
