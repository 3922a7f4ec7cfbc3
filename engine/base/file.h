/* Writing a file that a user names. */
#ifndef TG_FILE_H
#define TG_FILE_H

#include "base/base.h"

/* A file, or a path where none is, holds all of the text or what it held before: it is written beside it and renamed
 * when complete. All else that a path may name (a device, a pipe, a link) is written to as it is, for a rename would
 * put a file in its place. TG_EIO. */
tg_status tg_file_write(const char *path, const char *text, size_t size, tg_error *err);

/* Whether that may go well, as far as can be seen beforehand; TG_EIO with the same sentence. */
tg_status tg_file_may_write(const char *path, tg_error *err);

#endif
