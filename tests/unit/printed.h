/* printed.h: what the code under test prints on standard output and error, each caught in a file.
 */
#ifndef DZ_TESTS_PRINTED_H
#define DZ_TESTS_PRINTED_H

#include "check.h"

#include <stdio.h>
#include <unistd.h>

static char printed_out[16384], printed_err[4096]; /* NUL-terminated, cut off when longer */

typedef struct printed_stream {
    int fd, before;
    FILE *file;
} printed_stream;

static printed_stream printed_streams[2] = {{.fd = 1}, {.fd = 2}};

static inline void printed_begin(void)
{
    fflush(stdout);
    fflush(stderr);
    for (int i = 0; i < 2; i++) {
        printed_stream *it = &printed_streams[i];
        it->before = dup(it->fd);
        it->file = tmpfile();
        assert_true(it->before >= 0 && it->file != NULL);
        assert_int_equal(dup2(fileno(it->file), it->fd), it->fd);
    }
}

static inline void printed_take(printed_stream *it, char *into, size_t size)
{
    dup2(it->before, it->fd);
    close(it->before);
    rewind(it->file);
    into[fread(into, 1, size - 1, it->file)] = '\0';
    fclose(it->file);
}

static inline void printed_end(void)
{
    fflush(stdout);
    fflush(stderr);
    printed_take(&printed_streams[0], printed_out, sizeof printed_out);
    printed_take(&printed_streams[1], printed_err, sizeof printed_err);
}

/* The statement's prints go to printed_out and printed_err. It must not fail the test. */
#define with_printed(statement)                                                                    \
    do {                                                                                           \
        printed_begin();                                                                           \
        statement;                                                                                 \
        printed_end();                                                                             \
    } while (0)

#endif
