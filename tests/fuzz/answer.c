/* Reading the bytes of an answer; what can be read is written back and read again as the same bytes. */
#include "fuzz.h"
#include "search/serial.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    tg_arena arena = {0};
    tg_answer answer, again;
    tg_bytes once = {0}, twice = {0};
    tg_error err = {{0}};
    if (tg_answer_read(data, size, &arena, &answer, &err) != TG_OK)
        require_sentence(&err);
    else if (!tg_answer_write(&answer, &once) || tg_answer_read(once.at, once.count, &arena, &again, &err) != TG_OK ||
             !tg_answer_write(&again, &twice) || once.count != twice.count ||
             memcmp(once.at, twice.at, once.count) != 0)
        abort();
    tg_bytes_free(&once);
    tg_bytes_free(&twice);
    tg_arena_free(&arena);
    return 0;
}
