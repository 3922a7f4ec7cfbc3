/* A program that answers lines with lines, on its standard input and output. It runs in a process group of its own,
 * which is ended as a whole. What it writes to standard error goes to ours, each line behind its name. */
#ifndef TG_PROCESS_H
#define TG_PROCESS_H

#include <signal.h>

#include "base/base.h"

typedef struct tg_process tg_process;

/* Starts argv (ends with NULL; argv[0] is looked up in PATH). TG_EINPUT if there is no such program. */
tg_status tg_process_start(const char *const *argv, tg_process **out, tg_error *err);

/* Sends a line (without its end) and waits for one, which stays valid until the next call. TG_EPROVIDER with one
 * sentence, and the program ended, if it ends, closes its pipes, takes longer than so many seconds, or writes a line of
 * more than 64 MiB; or once *stop is set (NULL: never). */
tg_status tg_process_ask(tg_process *process, const char *line, size_t size, double seconds,
                         const volatile sig_atomic_t *stop, const char **reply, size_t *reply_size, tg_error *err);

/* Closes its standard input, gives it a moment to end by itself, then ends the group. NULL is allowed. */
void tg_process_stop(tg_process *process);

#endif
