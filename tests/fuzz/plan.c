/* Reading, checking and simulating a plan. */
#include "pipeline/plan.h"
#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    tg_arena arena = {0};
    tg_plan plan;
    tg_error err = {{0}};
    double time_s;
    if (tg_plan_read(&arena, (const char *)data, size, &plan, &err) != TG_OK) {
        require_sentence(&err);
    } else {
        if (tg_plan_check(&plan, &err) != TG_OK)
            require_sentence(&err);
        if (plan.microbatches <= 1024 && tg_plan_simulate(&plan, &time_s, NULL, &err) != TG_OK)
            require_sentence(&err);
    }
    tg_arena_free(&arena);
    return 0;
}
