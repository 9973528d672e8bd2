#include "log/sink.h"

#include "base/clock.h"

#include <donmaz/error.h>

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

enum { POLL_MS = 100 };

/* A pipe is opened a second time so that it can be made non-blocking for us alone: O_NONBLOCK on
 * the inherited descriptor would also hit everyone who shares it, such as the shell. */
static void reopen_pipe_nonblocking(dz_sink *sink)
{
    char path[40];
    snprintf(path, sizeof path, "/proc/self/fd/%d", sink->fd);
    int fd = open(path, O_WRONLY | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0)
        return;
    if (sink->owns_fd)
        close(sink->fd);
    sink->fd = fd;
    sink->owns_fd = sink->nonblocking = true;
}

static void look_at_kind(dz_sink *sink)
{
    struct stat st;
    sink->kind = DZ_SINK_FILE;
    sink->nonblocking = false;
    if (fstat(sink->fd, &st) < 0)
        return;
    if (S_ISSOCK(st.st_mode)) {
        sink->kind = DZ_SINK_SOCKET;
        sink->nonblocking = true; /* by MSG_DONTWAIT */
    } else if (S_ISFIFO(st.st_mode)) {
        sink->kind = DZ_SINK_PIPE;
        sink->nonblocking = (fcntl(sink->fd, F_GETFL) & O_NONBLOCK) != 0;
        if (!sink->nonblocking)
            reopen_pipe_nonblocking(sink);
    } else if (S_ISCHR(st.st_mode)) {
        sink->kind = DZ_SINK_PIPE; /* a terminal: small writes, each after poll */
    }
}

/* Only a file that was opened by name is read: whoever gave a descriptor may have given no more. */
static void open_tail(dz_sink *sink)
{
    if (sink->tail_fd >= 0)
        close(sink->tail_fd);
    sink->tail_fd = -1;
    struct stat st;
    if (!sink->path || fstat(sink->fd, &st) < 0 || !S_ISREG(st.st_mode))
        return;
    char path[40];
    snprintf(path, sizeof path, "/proc/self/fd/%d", sink->fd);
    sink->tail_fd = open(path, O_RDONLY | O_CLOEXEC); /* -1: we may only write */
}

static bool ends_in_mid_line(const dz_sink *sink)
{
    struct stat st;
    char last;
    return fstat(sink->tail_fd, &st) == 0 && st.st_size > 0 &&
           pread(sink->tail_fd, &last, 1, st.st_size - 1) == 1 && last != '\n';
}

/* A process that shares the file, or an earlier one, may have been killed in the middle of a line:
 * ours must not become a part of it. What is merely being written just now is whole a moment later.
 */
static bool must_end_a_line(const dz_sink *sink)
{
    enum { LOOKS = 3 };
    if (sink->tail_fd < 0)
        return false;
    for (int i = 0; i < LOOKS; i++) {
        if (!ends_in_mid_line(sink))
            return false;
        poll(NULL, 0, 1);
    }
    return true;
}

/* O_NONBLOCK: a FIFO that nobody reads must be an error, not a hang; for files it means nothing. */
static int open_path(const char *path)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOCTTY | O_NONBLOCK, 0644);
    return fd < 0 ? -errno : fd;
}

int dz_sink_open(dz_sink *sink, const char *path, int fd)
{
    *sink = (dz_sink){.fd = fd, .tail_fd = -1};
    if (path) {
        sink->path = strdup(path);
        if (!sink->path)
            return DZ_E_NOMEM;
        sink->fd = open_path(path);
        if (sink->fd < 0) {
            free(sink->path);
            return sink->fd;
        }
        sink->owns_fd = true;
    }
    look_at_kind(sink);
    open_tail(sink);
    return 0;
}

void dz_sink_close(dz_sink *sink)
{
    if (sink->tail_fd >= 0)
        close(sink->tail_fd);
    if (sink->owns_fd)
        close(sink->fd);
    free(sink->path);
}

int dz_sink_reopen(dz_sink *sink)
{
    if (!sink->path)
        return 0;
    int fd = open_path(sink->path);
    if (fd < 0)
        return fd;
    if (sink->owns_fd)
        close(sink->fd);
    sink->fd = fd;
    sink->owns_fd = true;
    sink->torn = false; /* what was begun is in the old file */
    look_at_kind(sink);
    open_tail(sink);
    return 0;
}

static ssize_t write_some(const dz_sink *sink, const char *bytes, size_t len)
{
    if (sink->kind == DZ_SINK_SOCKET)
        return send(sink->fd, bytes, len, MSG_DONTWAIT | MSG_NOSIGNAL);
    return write(sink->fd, bytes, len);
}

/* Waits until the reader made room; false when the deadline has passed. */
static bool wait_for_room(const dz_sink *sink)
{
    for (;;) {
        struct pollfd p = {.fd = sink->fd, .events = POLLOUT};
        if (poll(&p, 1, POLL_MS) > 0)
            return true; /* room, or an error that the write will name */
        uint64_t deadline = atomic_load_explicit(&sink->deadline, memory_order_relaxed);
        if (deadline != 0 && dz_now() >= deadline)
            return false;
    }
}

/* Writes all of it, or returns how much was written before an error, in sink->error. */
static size_t write_fully(dz_sink *sink, const char *bytes, size_t len)
{
    size_t done = 0;
    while (done < len) {
        if (sink->kind == DZ_SINK_PIPE && !sink->nonblocking && !wait_for_room(sink)) {
            sink->error = DZ_E_TIMEOUT;
            return done;
        }
        ssize_t n = write_some(sink, bytes + done, len - done);
        if (n >= 0) {
            done += (size_t)n;
            continue;
        }
        if (errno == EINTR)
            continue;
        if (errno != EAGAIN) {
            sink->error = -errno;
            return done;
        }
        if (!wait_for_room(sink)) {
            sink->error = DZ_E_TIMEOUT;
            return done;
        }
    }
    sink->error = 0;
    return done;
}

/* How much to give one write. Several processes may share a pipe: only up to PIPE_BUF bytes go in
 * undivided, so what is longer is split between lines. */
static size_t next_piece(const dz_sink *sink, const char *bytes, size_t len)
{
    if (sink->kind != DZ_SINK_PIPE || len <= PIPE_BUF)
        return len;
    const char *last = memrchr(bytes, '\n', PIPE_BUF);
    if (!last) /* one long line: its end is the piece's */
        last = memchr(bytes, '\n', len);
    return last ? (size_t)(last - bytes) + 1 : len;
}

static uint64_t count_lines(const char *bytes, size_t len)
{
    uint64_t lines = 0;
    for (const char *at = bytes, *end = bytes + len; (at = memchr(at, '\n', (size_t)(end - at)));
         at++)
        lines++;
    return lines;
}

void dz_sink_write(dz_sink *sink, const char *bytes, size_t len)
{
    if (len > 0 && (sink->torn || must_end_a_line(sink))) {
        if (write_fully(sink, "\n", 1) == 0) {
            sink->lost += count_lines(bytes, len);
            return;
        }
        sink->torn = false;
    }
    while (len > 0) {
        size_t piece = next_piece(sink, bytes, len);
        size_t done = write_fully(sink, bytes, piece);
        if (done < piece) {
            sink->torn = done > 0 && bytes[done - 1] != '\n';
            sink->lost += count_lines(bytes + done, len - done);
            return;
        }
        bytes += piece;
        len -= piece;
    }
}
