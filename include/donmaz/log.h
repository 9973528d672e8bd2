/* log.h: one JSON object a line, with pino's field names and level numbers.
 *
 *     dz_log(log, DZ_LOG_INFO, "cache filled", dz_field_str("key", key), dz_field_int("n", n));
 *     {"level":30,"time":1767225600000,"pid":71,"hostname":"a","key":"doc","n":3,"msg":"cache
 * filled"}
 *
 * A line is made on the calling thread into that thread's own buffer, without a lock; one writer
 * thread per logger collects the buffers every few milliseconds and writes them. Lines of one
 * thread keep their order; between threads "time" tells. A crash loses at most what was logged in
 * the last 10 ms; closing, flushing and exit() lose nothing.
 *
 * All functions may be called on any thread unless they say otherwise; none from a signal handler
 * except dz_logger_reopen. A NULL logger is harmless and logs nothing. errno is kept. */
#ifndef DONMAZ_LOG_H
#define DONMAZ_LOG_H

#include <donmaz/export.h>
#include <donmaz/slice.h>

#include <stdint.h>

typedef struct dz_logger dz_logger;

enum {
    DZ_LOG_TRACE = 10,
    DZ_LOG_DEBUG = 20,
    DZ_LOG_INFO = 30,
    DZ_LOG_WARN = 40,
    DZ_LOG_ERROR = 50,
    DZ_LOG_FATAL = 60,
    DZ_LOG_SILENT = 100, /* as a logger's level: nothing is logged */
};

/* All zero is usable: INFO and above to stdout, dropping when a buffer is full. */
typedef struct dz_log_options {
    const char *path;    /* a file to append to, made if missing; NULL: write to fd */
    int fd;              /* 0 means stdout; stays the caller's */
    int level;           /* lines below are not logged; 0 means DZ_LOG_INFO */
    const char *name;    /* adds "name" to every line; may be NULL */
    size_t thread_bytes; /* buffer of each thread that logs; 0 means 4 MB; touched as needed */
    size_t line_bytes;   /* longest line, what is above is cut; 0 means 16 KB */
    bool block;          /* a full buffer makes the caller wait instead of dropping the line */
    unsigned close_ms;   /* longest wait for a slow reader at close and exit; 0 means 1000 */
    /* Fields whose value is replaced by "[Redacted]": "password", "req.headers.cookie" (groups
     * joined by dots), "*.token" (at any depth, in any case), "?key" (that query parameter in a
     * request's url, in any case). Copied. */
    const char *const *redact;
    size_t redact_count;
} dz_log_options;

/* Makes a logger. At most 8 are open at once in a process. The writer thread starts with the first
 * line. *out is the caller's, to be closed. Errors: -errno of opening path, DZ_E_INVALID,
 * DZ_E_NOMEM, DZ_E_STATE (8 are open). */
DZ_API int dz_logger_open(dz_logger **out, const dz_log_options *options);

/* Writes what is buffered (waiting close_ms at most) and frees the logger. No other thread may use
 * it any more. exit() does the same for loggers left open. */
DZ_API void dz_logger_close(dz_logger *logger);

/* Returns once everything logged before the call was handed to the kernel. DZ_E_TIMEOUT. */
DZ_API int dz_logger_flush(dz_logger *logger, unsigned timeout_ms);

/* Opens the path anew, as after a log rotation; happens on the writer thread before its next
 * write. When that fails the old file stays in use and a line says so. Async-signal-safe. */
DZ_API void dz_logger_reopen(dz_logger *logger);

DZ_API void dz_logger_set_level(dz_logger *logger, int level);

typedef struct dz_log_stats {
    uint64_t lines;           /* accepted into a buffer */
    uint64_t dropped;         /* not accepted: buffer full, or no memory for one */
    uint64_t waited;          /* accepted, but with `block` the caller had to wait for room */
    uint64_t lost;            /* accepted, but the file refused them (ENOSPC, EPIPE, ...) */
    uint64_t thread_failures; /* the writer thread could not be started, so often */
} dz_log_stats;

DZ_API void dz_logger_stats(dz_logger *logger, dz_log_stats *stats);

/* --- fields --------------------------------------------------------------------------------- */

typedef enum dz_field_kind {
    DZ_FIELD_NONE,
    DZ_FIELD_TEXT,
    DZ_FIELD_INT,
    DZ_FIELD_UINT,
    DZ_FIELD_DOUBLE,
    DZ_FIELD_BOOL,
    DZ_FIELD_NULL,
    DZ_FIELD_MS,
    DZ_FIELD_ERROR,
    DZ_FIELD_JSON,
    DZ_FIELD_GROUP,
    DZ_FIELD_END,
} dz_field_kind;

/* A name and a typed value; both are only borrowed for the call. */
typedef struct dz_field {
    const char *name;
    dz_field_kind kind;
    union {
        dz_slice text;
        int64_t number;
        uint64_t unsigned_number;
        double real;
    } value;
} dz_field;

/* For the functions below, which fill in the value. C++ reads this header too. */
static inline dz_field dz_field_make(const char *name, dz_field_kind kind)
{
    dz_field field = {name, kind, {{NULL, 0}}};
    return field;
}

/* A NUL-terminated text; NULL becomes null. Bytes that are not UTF-8 become U+FFFD. */
static inline dz_field dz_field_str(const char *name, const char *text)
{
    dz_field field = dz_field_make(name, text ? DZ_FIELD_TEXT : DZ_FIELD_NULL);
    field.value.text = dz_slice_of(text);
    return field;
}

static inline dz_field dz_field_slice(const char *name, dz_slice text)
{
    dz_field field = dz_field_make(name, DZ_FIELD_TEXT);
    field.value.text = text;
    return field;
}

static inline dz_field dz_field_int(const char *name, int64_t number)
{
    dz_field field = dz_field_make(name, DZ_FIELD_INT);
    field.value.number = number;
    return field;
}

static inline dz_field dz_field_uint(const char *name, uint64_t number)
{
    dz_field field = dz_field_make(name, DZ_FIELD_UINT);
    field.value.unsigned_number = number;
    return field;
}

/* NaN and the infinities become null, as JSON has no such numbers. */
static inline dz_field dz_field_double(const char *name, double number)
{
    dz_field field = dz_field_make(name, DZ_FIELD_DOUBLE);
    field.value.real = number;
    return field;
}

static inline dz_field dz_field_bool(const char *name, bool yes)
{
    dz_field field = dz_field_make(name, DZ_FIELD_BOOL);
    field.value.number = yes;
    return field;
}

/* Nanoseconds, shown as milliseconds with a fraction. */
static inline dz_field dz_field_ms(const char *name, uint64_t nanoseconds)
{
    dz_field field = dz_field_make(name, DZ_FIELD_MS);
    field.value.unsigned_number = nanoseconds;
    return field;
}

/* A DZ_E_* code or -errno as "err":{"type":name,"message":text,"code":number}. */
static inline dz_field dz_field_error(int code)
{
    dz_field field = dz_field_make("err", DZ_FIELD_ERROR);
    field.value.number = code;
    return field;
}

/* Valid JSON without a newline, put in as it is (not searched by the redaction list); dropped
 * when it does not fit the line. */
static inline dz_field dz_field_json(const char *name, dz_slice json)
{
    dz_field field = dz_field_make(name, DZ_FIELD_JSON);
    field.value.text = json;
    return field;
}

/* Fields up to the matching dz_field_end go into an object of that name. Groups nest 8 deep. */
static inline dz_field dz_field_group(const char *name)
{
    return dz_field_make(name, DZ_FIELD_GROUP);
}

static inline dz_field dz_field_end(void)
{
    return dz_field_make(NULL, DZ_FIELD_END);
}

/* --- logging -------------------------------------------------------------------------------- */

/* Whether a line of that level would be logged. */
DZ_API bool dz_log_enabled(const dz_logger *logger, int level);

/* Logs one line; msg may be NULL. Use dz_log, which counts the fields. */
DZ_API void dz_log_write(dz_logger *logger, int level, const char *msg, const dz_field *fields,
                         size_t count);

/* dz_log(logger, level, msg, fields...): the fields are evaluated only when the level is enabled.
 */
#define dz_log(logger, level, msg, ...)                                                            \
    do {                                                                                           \
        if (dz_log_enabled((logger), (level)))                                                     \
            dz_log_write((logger), (level), (msg), (const dz_field[]){{0}, ##__VA_ARGS__},         \
                         sizeof((const dz_field[]){{0}, ##__VA_ARGS__}) / sizeof(dz_field));       \
    } while (0)

/* What the line about an answered request says, in Fastify's shape: reqId, req{method, url, route,
 * remoteAddress, remotePort}, res{statusCode, bytes}, responseTime in ms, rescued, and msg "request
 * completed" (aborted: "request aborted" and aborted true). Empty slices and a zero port are left
 * out. Level INFO; ERROR for status 500 and up. */
typedef struct dz_log_request_info {
    dz_slice id, method, url, route, remote_address;
    uint16_t remote_port;
    uint16_t status;
    bool rescued;
    bool aborted;         /* the client was gone before it had the whole response */
    dz_slice members;     /* ready-made JSON for the line: "user":"ada","n":1 */
    uint64_t time_ms;     /* since 1970; 0: now */
    uint64_t bytes;       /* of the response body */
    uint64_t duration_ns; /* from the request's first byte to the response's last */
} dz_log_request_info;

DZ_API void dz_log_request(dz_logger *logger, const dz_log_request_info *info);

#endif
