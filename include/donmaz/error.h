/* error.h: what a negative return value means.
 *
 * Functions that can fail return 0 or a count on success and a negative code on failure: either
 * -errno of the failed system call, or one of the codes below, which lie outside errno's range. */
#ifndef DONMAZ_ERROR_H
#define DONMAZ_ERROR_H

#include <donmaz/export.h>

/* X(name, value, text): one row per code; values never change once released. */
#define DZ_ERRORS(X)                                                                               \
    X(DZ_E_NOMEM, -5001, "out of memory")                                                          \
    X(DZ_E_INVALID, -5002, "invalid argument")                                                     \
    X(DZ_E_STATE, -5003, "call not possible in this state")                                        \
    X(DZ_E_TOO_LARGE, -5004, "larger than the configured limit")                                   \
    X(DZ_E_NOT_OWNED, -5005,                                                                       \
      "buffer does not own its whole memory: copy it first (dz_buf_copy), then transfer the copy") \
    X(DZ_E_QUEUE_FULL, -5006, "queue is full: retry later")                                        \
    X(DZ_E_TIMEOUT, -5007, "timed out")                                                            \
    X(DZ_E_CANCELLED, -5008, "cancelled")                                                          \
    X(DZ_E_CLOSED, -5009, "connection closed by the peer")                                         \
    X(DZ_E_PROTOCOL, -5010, "peer broke the protocol")                                             \
    X(DZ_E_NOT_FOUND, -5011, "not found")                                                          \
    X(DZ_E_NO_THREAD, -5012, "no thread could be started")                                         \
    X(DZ_E_EXISTS, -5013, "exists already")                                                        \
    X(DZ_E_FORMAT, -5014, "malformed input")                                                       \
    X(DZ_E_CRASHED, -5015, "worker process died while running the task")                           \
    X(DZ_E_UNAVAILABLE, -5016, "service not available")                                            \
    X(DZ_E_SHUTDOWN, -5017, "shutting down")                                                       \
    X(DZ_E_REPLY, -5018, "server answered with an error")                                          \
    X(DZ_E_EXPIRED, -5019, "waited too long, and was never started")

enum dz_error {
#define X(name, value, text) name = (value),
    DZ_ERRORS(X)
#undef X
};

/* The text for `code`: a DZ_E_* value or -errno. Never NULL, static storage, thread-safe. */
DZ_API const char *dz_strerror(int code);

/* The name for `code`, such as "DZ_E_TIMEOUT" or "ECONNRESET"; "unknown" for any other number.
 * Static storage, thread-safe. */
DZ_API const char *dz_error_name(int code);

#endif
