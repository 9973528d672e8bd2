/* record.h: what happened, as one thread writes it down for one endpoint. Every latency is kept:
 * percentiles are computed from all of them, later. */
#ifndef DZ_LOAD_RECORD_H
#define DZ_LOAD_RECORD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A growing array that never moves what it holds. */
typedef struct load_series {
    struct load_chunk **chunks;
    size_t chunk_count, chunk_cap;
    size_t count;
    uint64_t *end, *limit; /* where the next value goes, and where the present chunk ends */
} load_series;

enum { LOAD_CHUNK_VALUES = 65536 };
typedef struct load_chunk {
    uint64_t values[LOAD_CHUNK_VALUES];
} load_chunk;

/* Slow path of load_series_add. DZ_E_NOMEM: the value is lost. */
int load_series_grow(load_series *series, uint64_t value);
void load_series_free(load_series *series);
/* Copies all values, in the order added, to `out`, which has room for series->count. */
void load_series_copy(const load_series *series, uint64_t *out);

static inline int load_series_add(load_series *series, uint64_t value)
{
    if (series->end == series->limit)
        return load_series_grow(series, value);
    *series->end++ = value;
    series->count++;
    return 0;
}

/* X(NAME, "KEY in errorClasses", "text for people"): failures that are no system call's. */
#define LOAD_FAILURES(X)                                                                           \
    X(LOAD_FAIL_ERRNO, "", "")                                                                     \
    X(LOAD_FAIL_TIMEOUT, "TIMEOUT", "no response within the timeout")                              \
    X(LOAD_FAIL_CLOSED, "CLOSED", "connection closed before a response")                           \
    X(LOAD_FAIL_TRUNCATED, "TRUNCATED", "connection closed in the middle of a response")           \
    X(LOAD_FAIL_BAD_RESPONSE, "BAD_RESPONSE", "not a valid HTTP response")                         \
    X(LOAD_FAIL_UNSOLICITED, "UNSOLICITED", "a response to no request")                            \
    X(LOAD_FAIL_TLS, "TLS", "TLS failure")                                                         \
    X(LOAD_FAIL_ABORTED, "ABORTED", "sent behind a request that timed out or failed")              \
    X(LOAD_FAIL_STATUS, "STATUS", "status other than expected")                                    \
    X(LOAD_FAIL_BODY, "BODY_MISMATCH", "body other than expected")

typedef enum load_failure {
#define X(name, key, text) name,
    LOAD_FAILURES(X)
#undef X
} load_failure;

const char *load_failure_key(load_failure failure, int error);
const char *load_failure_text(load_failure failure, int error);

typedef struct load_error {
    load_failure failure;
    int error; /* errno for LOAD_FAIL_ERRNO; a load_fault for BAD_RESPONSE; else 0 */
    uint64_t count;
} load_error;

enum { LOAD_ERRORS = 48, LOAD_STATUSES = 1000 };

/* Where a record stood at the end of one sample interval; number i covers [i, i+1) intervals from
 * the start of counting. */
typedef struct load_mark {
    uint64_t completed, bytes;
    size_t latencies;
} load_mark;

/* What can be counted, and adds up over threads and endpoints. */
typedef struct load_totals {
    uint64_t completed;  /* responses, whatever their status */
    uint64_t sent;       /* requests handed to the kernel while counting */
    uint64_t errors;     /* requests without a valid response, and failed connection attempts */
    uint64_t timeouts;   /* of those */
    uint64_t mismatches; /* responses whose body differed */
    uint64_t unexpected; /* responses whose status differed */
    uint64_t bytes;
    uint64_t statuses[LOAD_STATUSES];
    load_error classes[LOAD_ERRORS];
    size_t class_count;
} load_totals;

void load_totals_add(load_totals *to, const load_totals *from);
void load_totals_error(load_totals *totals, load_failure failure, int error, uint64_t count);

/* Responses with a status from `low` to `high`, and those that are no 2xx. */
uint64_t load_totals_statuses(const load_totals *totals, unsigned low, unsigned high);
uint64_t load_totals_non2xx(const load_totals *totals);

typedef struct load_record {
    load_totals totals;
    load_series service;   /* ns from the request's own send to its response's last byte */
    load_series scheduled; /* ns from when it was due; only with a rate */
    load_series lag;       /* ns from when it was due to its send; only with a rate */
    load_mark *marks;      /* owned */
    size_t mark_count, mark_cap;
} load_record;

void load_record_free(load_record *record);

/* Ends a sample interval. DZ_E_NOMEM. */
int load_record_mark(load_record *record);

#endif
