/* What tangram.h offers of the pipeline to C programs. */
#include <math.h>
#include <stdlib.h>

#include "pipeline/compose.h"
#include "pipeline/plan.h"

struct tg_pipeline {
    tg_arena arena;
    tg_composition found;
};

tg_status tg_pipeline_compose(const char *instance, size_t size, const tg_pipeline_options *options, tg_pipeline **out,
                              tg_error *err)
{
    *out = NULL;
    tg_pipeline *pipeline = calloc(1, sizeof *pipeline);
    if (!pipeline)
        return tg_fail(err, TG_EMEMORY, "out of memory");
    tg_compose_options own;
    tg_compose_defaults(&own);
    if (options) {
        own.gap = options->gap;
        own.time_limit_s = options->time_limit_s > 0 ? options->time_limit_s : own.time_limit_s;
        own.objective = options->paper ? TG_PAPER : TG_SIMULATED;
        own.p2p = options->blocking ? TG_BLOCKING : TG_OVERLAPPED;
        own.warmup = options->deeper ? TG_AUTO : TG_PLAIN;
    }
    tg_instance read;
    tg_status status = tg_instance_read(&pipeline->arena, instance, size, &read, err);
    if (status == TG_OK)
        status = tg_compose(&pipeline->arena, &read, &own, &pipeline->found, err);
    if (status != TG_OK) {
        tg_pipeline_free(pipeline);
        return status;
    }
    *out = pipeline;
    return TG_OK;
}

size_t tg_pipeline_plan_count(const tg_pipeline *pipeline)
{
    return pipeline->found.found ? (size_t)pipeline->found.best.count : 0;
}

int tg_pipeline_plan(const tg_pipeline *pipeline, size_t i)
{
    return pipeline->found.best.plans[i];
}

double tg_pipeline_time_s(const tg_pipeline *pipeline)
{
    return pipeline->found.found ? pipeline->found.best.time_s : INFINITY;
}

double tg_pipeline_bound_s(const tg_pipeline *pipeline)
{
    return pipeline->found.bound_s;
}

void tg_pipeline_free(tg_pipeline *pipeline)
{
    if (!pipeline)
        return;
    tg_arena_free(&pipeline->arena);
    free(pipeline);
}

tg_status tg_plan_check_text(const char *plan, size_t size, double *time_s, tg_error *err)
{
    tg_arena arena = {0};
    tg_plan read;
    tg_status status = tg_plan_read(&arena, plan, size, &read, err);
    if (status == TG_OK)
        status = tg_plan_check(&read, err);
    if (status == TG_OK && time_s)
        *time_s = read.time_s;
    tg_arena_free(&arena);
    return status;
}
