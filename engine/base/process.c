#include "base/process.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <poll.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum {
    MOST_REPLY = 64 << 20,
    MOST_ERROR_LINE = 4000, /* a longer line is cut in pieces */
    TICK_MS = 50            /* how often a silent program is looked at */
};

static const double GRACE_S = 0.5;

TG_VEC(text_buffer, char);

struct tg_process {
    char *name;
    pid_t pid;               /* 0: ended and waited for */
    int in, out, errors;     /* our ends; -1: closed */
    text_buffer heard, said; /* from its standard output and error, not yet passed on */
    size_t taken;            /* bytes of heard that the last reply took */
};

static void close_end(int *end)
{
    if (*end >= 0)
        close(*end);
    *end = -1;
}

static bool make_pipe(int *read_end, int *write_end, int *ours)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0)
        return false;
    *read_end = ends[0];
    *write_end = ends[1];
    return fcntl(*ours, F_SETFL, O_NONBLOCK) == 0;
}

/* Signals as a program expects them, whatever this thread has blocked. */
static int spawn(tg_process *p, const char *const *argv, const int theirs[3])
{
    posix_spawn_file_actions_t files;
    posix_spawnattr_t attributes;
    sigset_t none, defaults;
    sigemptyset(&none);
    sigemptyset(&defaults);
    sigaddset(&defaults, SIGPIPE);
    sigaddset(&defaults, SIGINT);
    posix_spawn_file_actions_init(&files);
    posix_spawnattr_init(&attributes);
    for (int i = 0; i < 3; i++)
        posix_spawn_file_actions_adddup2(&files, theirs[i], i);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
    posix_spawnattr_setpgroup(&attributes, 0);
    posix_spawnattr_setsigmask(&attributes, &none);
    posix_spawnattr_setsigdefault(&attributes, &defaults);
    extern char **environ;
    int failed = posix_spawnp(&p->pid, argv[0], &files, &attributes, (char *const *)(uintptr_t)argv, environ);
    posix_spawnattr_destroy(&attributes);
    posix_spawn_file_actions_destroy(&files);
    if (failed)
        p->pid = 0;
    return failed;
}

tg_status tg_process_start(const char *const *argv, tg_process **out, tg_error *err)
{
    tg_process *p = calloc(1, sizeof *p);
    if (!p || !(p->name = strdup(argv[0]))) {
        free(p);
        return tg_fail(err, TG_EMEMORY, "out of memory");
    }
    int theirs[3] = {-1, -1, -1};
    p->in = p->out = p->errors = -1;
    int failed = 0;
    if (!make_pipe(&theirs[0], &p->in, &p->in) || !make_pipe(&p->out, &theirs[1], &p->out) ||
        !make_pipe(&p->errors, &theirs[2], &p->errors))
        failed = errno;
    else
        failed = spawn(p, argv, theirs);
    for (int i = 0; i < 3; i++)
        close_end(&theirs[i]);
    if (failed) {
        tg_fail(err, TG_EINPUT, "%s: %s, expected a program to run", argv[0], strerror(failed));
        tg_process_stop(p);
        return TG_EINPUT;
    }
    *out = p;
    return TG_OK;
}

/* Reads what is there into the buffer; closes the end when nothing more can come. */
static bool take_in(int *end, text_buffer *into)
{
    char piece[8192];
    for (;;) {
        ssize_t size = read(*end, piece, sizeof piece);
        if (size < 0 && errno == EINTR)
            continue;
        if (size < 0 && errno == EAGAIN)
            return true;
        if (size <= 0) {
            close_end(end);
            return true;
        }
        for (ssize_t i = 0; i < size; i++)
            if (!text_buffer_push(into, piece[i]))
                return false;
        if (into->count > MOST_REPLY)
            return true;
    }
}

/* Passes on whole lines of standard error, and at the end the rest. */
static void pass_on(tg_process *p, bool all)
{
    size_t start = 0;
    for (size_t i = 0; i < p->said.count; i++)
        if (p->said.at[i] == '\n' || i - start >= MOST_ERROR_LINE) {
            fprintf(stderr, "%s: %.*s\n", p->name, (int)(i - start), p->said.at + start);
            start = i + (p->said.at[i] == '\n');
        }
    if (all && start < p->said.count) {
        fprintf(stderr, "%s: %.*s\n", p->name, (int)(p->said.count - start), p->said.at + start);
        start = p->said.count;
    }
    if (start)
        memmove(p->said.at, p->said.at + start, p->said.count - start);
    p->said.count -= start;
}

static void drain_errors(tg_process *p)
{
    if (p->errors >= 0)
        take_in(&p->errors, &p->said);
    pass_on(p, p->errors < 0);
}

static void nap(void)
{
    nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL);
}

static bool has_ended(const tg_process *p, siginfo_t *how)
{
    how->si_pid = 0;
    return waitid(P_PID, (id_t)p->pid, how, WEXITED | WNOHANG | WNOWAIT) == 0 && how->si_pid == p->pid;
}

/* Waits for the program until deadline_s, then ends all of its group, and waits. Until it is waited for, nothing else
 * can have its group's number. */
static void end(tg_process *p, double deadline_s, siginfo_t *how)
{
    bool ended = false;
    while (p->pid && !(ended = has_ended(p, how)) && tg_clock_s() < deadline_s) {
        drain_errors(p);
        nap();
    }
    if (p->pid) {
        kill(-p->pid, SIGKILL);
        drain_errors(p);
        while (waitpid(p->pid, NULL, 0) < 0 && errno == EINTR)
            ;
    }
    if (!ended)
        how->si_pid = 0;
    p->pid = 0;
    close_end(&p->in);
    close_end(&p->out);
    close_end(&p->errors);
    pass_on(p, true);
}

/* What was heard of an unfinished line, for people. */
static const char *half_line(const tg_process *p, char *text, size_t room)
{
    size_t size = p->heard.count - p->taken;
    if (size == 0)
        return "";
    snprintf(text, room, ", in the middle of a line ('%.*s%s')", (int)(size < 40 ? size : 40), p->heard.at + p->taken,
             size > 40 ? "…" : "");
    for (char *c = text; *c; c++)
        if ((unsigned char)*c < ' ')
            *c = ' ';
    return text;
}

/* Ends the program for what it did, and says how it ended if it did so by itself. */
static tg_status give_up(tg_process *p, const char *what, double wait_s, tg_error *err)
{
    siginfo_t how = {0};
    char half[128];
    const char *middle = half_line(p, half, sizeof half);
    end(p, tg_clock_s() + wait_s, &how);
    if (how.si_pid && how.si_code == CLD_EXITED)
        return tg_fail(err, TG_EPROVIDER, "%s: ended with status %d%s", p->name, how.si_status, middle);
    if (how.si_pid)
        return tg_fail(err, TG_EPROVIDER, "%s: was killed by signal %d (%s)%s", p->name, how.si_status,
                       strsignal(how.si_status), middle);
    return tg_fail(err, TG_EPROVIDER, "%s: %s%s", p->name, what, middle);
}

/* Writes without ending this process if nobody reads. */
static ssize_t write_unsignalled(int end, const char *bytes, size_t size)
{
    sigset_t pipe_signal, before, pending;
    sigemptyset(&pipe_signal);
    sigaddset(&pipe_signal, SIGPIPE);
    sigpending(&pending);
    pthread_sigmask(SIG_BLOCK, &pipe_signal, &before);
    ssize_t written = write(end, bytes, size);
    int failed = errno;
    if (written < 0 && failed == EPIPE && !sigismember(&pending, SIGPIPE))
        sigtimedwait(&pipe_signal, NULL, &(struct timespec){0});
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    errno = failed;
    return written;
}

/* A line to be sent: text, then its end. */
typedef struct {
    const char *text;
    size_t size, sent;
} outgoing;

/* Sends what the pipe takes. False if nobody reads it. */
static bool send_more(tg_process *p, outgoing *line)
{
    while (line->sent <= line->size) {
        bool last = line->sent == line->size;
        ssize_t written =
            write_unsignalled(p->in, last ? "\n" : line->text + line->sent, last ? 1 : line->size - line->sent);
        if (written < 0 && errno != EINTR)
            return errno == EAGAIN;
        line->sent += written > 0 ? (size_t)written : 0;
    }
    return true;
}

/* The reply, once its line has ended. */
static bool take_reply(tg_process *p, const char **reply, size_t *size)
{
    const char *start = p->heard.at + p->taken;
    const char *line_end = p->heard.count > p->taken ? memchr(start, '\n', p->heard.count - p->taken) : NULL;
    if (!line_end)
        return false;
    *reply = start;
    *size = (size_t)(line_end - start);
    p->taken += *size + 1;
    return true;
}

tg_status tg_process_ask(tg_process *p, const char *line, size_t size, double seconds,
                         const volatile sig_atomic_t *stop, const char **reply, size_t *reply_size, tg_error *err)
{
    double deadline_s = tg_clock_s() + seconds;
    outgoing message = {.text = line, .size = size};
    if (!p->pid)
        return tg_fail(err, TG_EPROVIDER, "%s: has ended", p->name);
    if (p->taken)
        memmove(p->heard.at, p->heard.at + p->taken, p->heard.count - p->taken);
    p->heard.count -= p->taken;
    p->taken = 0;
    for (;;) {
        bool sent = message.sent > message.size;
        if (sent && take_reply(p, reply, reply_size)) {
            drain_errors(p);
            return TG_OK;
        }
        char late[80];
        snprintf(late, sizeof late, "did not answer within %g s", seconds);
        if (stop && *stop)
            return give_up(p, "was stopped", 0, err);
        if (tg_clock_s() > deadline_s)
            return give_up(p, late, 0, err);
        if (p->out < 0)
            return give_up(p, "closed its standard output", fmin(GRACE_S, deadline_s - tg_clock_s()), err);
        if (p->heard.count > MOST_REPLY)
            return give_up(p, "wrote a line of more than 64 MiB", 0, err);
        struct pollfd ends[] = {{.fd = sent ? -1 : p->in, .events = POLLOUT},
                                {.fd = p->out, .events = POLLIN},
                                {.fd = p->errors, .events = POLLIN}};
        siginfo_t how;
        int ready = poll(ends, 3, TICK_MS);
        if (ready <= 0 && has_ended(p, &how)) /* a child of its own may hold the pipes */
            return give_up(p, "has ended", 0, err);
        if (ends[0].revents && !send_more(p, &message))
            return give_up(p, "closed its standard input", fmin(GRACE_S, deadline_s - tg_clock_s()), err);
        if (ends[1].revents && !take_in(&p->out, &p->heard))
            return tg_fail(err, TG_EMEMORY, "out of memory");
        if (ends[2].revents)
            drain_errors(p);
    }
}

void tg_process_stop(tg_process *p)
{
    if (!p)
        return;
    siginfo_t how;
    close_end(&p->in);
    end(p, tg_clock_s() + GRACE_S, &how);
    text_buffer_free(&p->heard);
    text_buffer_free(&p->said);
    free(p->name);
    free(p);
}
