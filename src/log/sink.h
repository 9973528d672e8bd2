/* sink.h: where lines go: a file, pipe, socket or terminal, whose troubles it bears. */
#ifndef DZ_LOG_SINK_H
#define DZ_LOG_SINK_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum dz_sink_kind { DZ_SINK_FILE, DZ_SINK_PIPE, DZ_SINK_SOCKET } dz_sink_kind;

typedef struct dz_sink {
    int fd;
    int tail_fd; /* reads the end of a file of our own; -1: none */
    bool owns_fd;
    bool nonblocking; /* write() says EAGAIN instead of waiting */
    bool torn;        /* the last thing written was the beginning of a line */
    dz_sink_kind kind;
    char *path;                /* NULL when writing to a given fd */
    _Atomic uint64_t deadline; /* dz_now() after which a slow reader is given up; 0: none */
    uint64_t lost;             /* lines that could not be written */
    int error;                 /* -errno of the last failed write; 0 when it worked */
} dz_sink;

/* Opens path, or uses fd. -errno or DZ_E_NOMEM. */
int dz_sink_open(dz_sink *sink, const char *path, int fd);
void dz_sink_close(dz_sink *sink);

/* Opens the path again. -errno: the old file stays in use. */
int dz_sink_reopen(dz_sink *sink);

/* Writes whole lines, waiting for a slow reader; lines that can't be written are counted as lost.
 */
void dz_sink_write(dz_sink *sink, const char *bytes, size_t len);

#endif
