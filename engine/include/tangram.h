/* tangram: plans the training of one large language model over a cluster of unlike GPUs.
 *
 * Ownership: what a function makes, it puts into a handle that the caller releases with the _free function of the same
 * name (NULL is allowed, twice is not). Strings and arrays reached through a handle belong to it. Inputs are copied.
 * Every function that can fail returns a tg_status and writes one sentence into *err (may be NULL). Nothing is global:
 * two threads may use the library at once as long as they share no handle. */
#ifndef TANGRAM_H
#define TANGRAM_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum {
    TG_OK = 0,
    TG_EINPUT,    /* the caller's data is wrong; the message says where and what is expected */
    TG_EMEMORY,   /* out of memory */
    TG_EIO,       /* the system refused a file */
    TG_EPROVIDER, /* a script, adapter or other callback failed */
    TG_EINTERNAL  /* our own fault */
} tg_status;

typedef struct {
    char message[512];
} tg_error;

const char *tg_version(void);

/* A composition: the best pipeline of partial plans (COMPOSITION.md). */
typedef struct tg_pipeline tg_pipeline;

typedef struct {
    double gap;          /* fraction by which the answer may miss the optimum; 0 is exact */
    double time_limit_s; /* 0: none */
    int paper;           /* non-zero: minimise the paper's estimate in place of the simulated time */
    int blocking;        /* non-zero: transfers as Megatron does them */
    int deeper;          /* non-zero: more microbatches in flight where that helps */
} tg_pipeline_options;

/* Composes a tangram.instance/1 text of size bytes; options may be NULL (gap 0.005). TG_OK also when nothing fits:
 * *out then has 0 plans. TG_EINPUT names the JSON path. */
tg_status tg_pipeline_compose(const char *instance, size_t size, const tg_pipeline_options *options, tg_pipeline **out,
                              tg_error *err);
size_t tg_pipeline_plan_count(const tg_pipeline *pipeline);
/* Index in the instance of the i-th plan, front first. */
int tg_pipeline_plan(const tg_pipeline *pipeline, size_t i);
double
tg_pipeline_time_s(const tg_pipeline *pipeline); /* simulated seconds of one iteration; infinite without a plan */
double tg_pipeline_bound_s(const tg_pipeline *pipeline); /* no sequence takes less */
void tg_pipeline_free(tg_pipeline *pipeline);

/* Checks a tangram.plan/1 text of size bytes, all that plan_check does; *time_s (may be NULL) is the simulated time of
 * one iteration. TG_EINPUT names the JSON path and what is wrong. */
tg_status tg_plan_check_text(const char *plan, size_t size, double *time_s, tg_error *err);

#ifdef __cplusplus
}
#endif
#endif
