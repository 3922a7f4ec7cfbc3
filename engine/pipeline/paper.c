#include "pipeline/compose.h"

#include <math.h>

double tg_paper_s(const tg_instance *instance, const int *plans, int count)
{
    const double steady = instance->microbatches - 1;
    double sum = 0, most = 0;
    for (int i = 0; i < count; i++) {
        const tg_partial *plan = &instance->plan[plans[i]];
        double bottleneck = 0, sync = 0;
        for (int s = 0; s < plan->stage_count; s++) {
            const tg_stage_time *stage = &plan->stages[s];
            double inner = s + 1 < plan->stage_count ? plan->inner_transfer_s[s] : 0;
            sum += stage->forward_s + stage->backward_s + 2 * inner;
            bottleneck = fmax(bottleneck, fmax(stage->forward_s + stage->backward_s, inner));
            sync = fmax(sync, stage->sync_s);
        }
        most = fmax(most, steady * bottleneck + sync);
        if (i + 1 < count) {
            double c = tg_instance_transfer_s(instance, plan, &instance->plan[plans[i + 1]]);
            sum += 2 * c;
            most = fmax(most, steady * c);
        }
    }
    return sum + most;
}
