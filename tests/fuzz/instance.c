/* Reading a composition problem and, if it is a small one, solving it. */
#include "fuzz.h"
#include "pipeline/compose.h"

static void require_round_trip(const tg_instance *instance)
{
    tg_arena arena = {0};
    tg_instance again;
    tg_error err;
    char *text = tg_instance_write(instance);
    if (!text || tg_instance_read(&arena, text, strlen(text), &again, &err) != TG_OK)
        abort(); /* what we write, we read */
    free(text);
    tg_arena_free(&arena);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    tg_arena arena = {0};
    tg_instance instance;
    tg_error err = {{0}};
    if (tg_instance_read(&arena, (const char *)data, size, &instance, &err) != TG_OK) {
        require_sentence(&err);
    } else {
        require_round_trip(&instance);
        if (instance.plans <= 16 && instance.microbatches <= 64) {
            tg_compose_options options;
            tg_composition composition;
            tg_compose_defaults(&options);
            options.time_limit_s = 0.2;
            if (tg_compose(&arena, &instance, &options, &composition, &err) != TG_OK)
                require_sentence(&err);
        }
    }
    tg_arena_free(&arena);
    return 0;
}
