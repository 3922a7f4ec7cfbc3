/* tangram: plans the training of one large language model over a cluster of unlike GPUs.
 *
 * Ownership: what a function makes, it puts into a handle that the caller releases with the _free function of the same
 * name (NULL is allowed, twice is not). Strings and arrays reached through a handle belong to it. Inputs are copied.
 * Every function that can fail returns a tg_status and writes one sentence into *err (may be NULL). Nothing is global:
 * two threads may use the library at once as long as they share no handle. */
#ifndef TANGRAM_H
#define TANGRAM_H

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

#ifdef __cplusplus
}
#endif
#endif
