#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Writes all and closes; false with errno where that fails. */
static bool write_and_close(int file, const char *text, size_t size)
{
    int failure = 0;
    while (size > 0 && !failure) {
        ssize_t wrote = write(file, text, size);
        if (wrote >= 0) {
            text += wrote;
            size -= (size_t)wrote;
        } else if (errno != EINTR) {
            failure = errno;
        }
    }
    if (close(file) != 0 && !failure)
        failure = errno;
    errno = failure;
    return failure == 0;
}

/* A file that there is hands its mode to its successor, whatever the umask. */
static bool replace(const char *path, const char *text, size_t size)
{
    char beside[PATH_MAX];
    if (snprintf(beside, sizeof beside, "%s.%ld.tmp", path, (long)getpid()) >= (int)sizeof beside) {
        errno = ENAMETOOLONG;
        return false;
    }
    struct stat old;
    bool there = lstat(path, &old) == 0;
    int file = open(beside, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, there ? old.st_mode & 0777 : 0666);
    if (file < 0)
        return false;
    if (there)
        (void)fchmod(file, old.st_mode & 0777);
    if (write_and_close(file, text, size) && rename(beside, path) == 0)
        return true;
    int failure = errno;
    unlink(beside);
    errno = failure;
    return false;
}

/* Whether a path is to be a file of its own. */
static bool is_plain(const char *path)
{
    struct stat old;
    return lstat(path, &old) == 0 ? S_ISREG(old.st_mode) : errno == ENOENT;
}

static bool write_to(const char *path, const char *text, size_t size)
{
    if (is_plain(path))
        return replace(path, text, size);
    int file = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    return file >= 0 && write_and_close(file, text, size);
}

static bool may_write_to(const char *path)
{
    const char *slash = strrchr(path, '/');
    char folder[PATH_MAX] = ".";
    struct stat status;
    if (is_plain(path)) {
        if (slash)
            snprintf(folder, sizeof folder, "%.*s", (int)(slash - path) + 1, path);
        return access(folder, W_OK | X_OK) == 0;
    }
    if (stat(path, &status) == 0 && S_ISDIR(status.st_mode)) {
        errno = EISDIR;
        return false;
    }
    return access(path, W_OK) == 0 || errno == ENOENT; /* a link to what is not there yet */
}

static tg_status status_of(bool done, const char *path, tg_error *err)
{
    if (done)
        return TG_OK;
    return tg_fail(err, TG_EIO, "%s: %s, expected a place to write to", path, strerror(errno));
}

tg_status tg_file_write(const char *path, const char *text, size_t size, tg_error *err)
{
    return status_of(write_to(path, text, size), path, err);
}

tg_status tg_file_may_write(const char *path, tg_error *err)
{
    return status_of(may_write_to(path), path, err);
}
