/* response.h: reads HTTP/1.1 responses from bytes as they arrive (RFC 9112).
 *
 * The bytes are looked at where recv put them; only a head that was cut in two is kept. Bodies are
 * counted and, when asked, compared, never stored.
 *
 *   HEAD --(status line, fields, blank line)--> LENGTH | CLOSE | CHUNK_SIZE | done
 *   LENGTH --(all bytes)--> done            CLOSE --(end of stream)--> done
 *   CHUNK_SIZE -> CHUNK_EXT -> CHUNK_DATA -> CHUNK_END -> CHUNK_SIZE ... -> TRAILER -> done
 *   1xx (but 101): back to HEAD, as the final response is still to come */
#ifndef DZ_LOAD_RESPONSE_H
#define DZ_LOAD_RESPONSE_H

#include <donmaz/slice.h>

#include <stdbool.h>
#include <stdint.h>

typedef enum load_response_state {
    LOAD_HEAD,
    LOAD_LENGTH,
    LOAD_CLOSE,
    LOAD_CHUNK_SIZE,
    LOAD_CHUNK_EXT,
    LOAD_CHUNK_DATA,
    LOAD_CHUNK_END,
    LOAD_TRAILER,
} load_response_state;

/* X(name, text): why bytes are no response. */
#define LOAD_FAULTS(X)                                                                             \
    X(LOAD_FAULT_NONE, "none")                                                                     \
    X(LOAD_FAULT_NOT_HTTP, "not an HTTP/1 status line")                                            \
    X(LOAD_FAULT_FIELD, "malformed header field")                                                  \
    X(LOAD_FAULT_LENGTH, "malformed or contradicting Content-Length")                              \
    X(LOAD_FAULT_ENCODING, "unknown Transfer-Encoding")                                            \
    X(LOAD_FAULT_CHUNK, "malformed chunk")                                                         \
    X(LOAD_FAULT_TOO_LARGE, "header section over 256 KiB")                                         \
    X(LOAD_FAULT_UPGRADE, "switched protocols unasked")                                            \
    X(LOAD_FAULT_NOMEM, "out of memory")

typedef enum load_fault {
#define X(name, text) name,
    LOAD_FAULTS(X)
#undef X
} load_fault;

const char *load_fault_text(load_fault fault);

typedef struct load_response {
    load_response_state state;
    load_fault fault;
    bool head_only;    /* set before feeding: the request was HEAD */
    bool close;        /* the connection ends after this response */
    bool started;      /* at least one byte has come */
    bool mismatch;     /* the body differs from `expected` */
    bool digits;       /* CHUNK_SIZE: a digit has come */
    unsigned status;   /* 100 to 999 once the head is read */
    uint64_t left;     /* LENGTH, CHUNK_DATA: bytes to come; CHUNK_SIZE: the size so far */
    uint64_t bytes;    /* of the whole response so far */
    uint64_t matched;  /* body bytes compared so far */
    dz_slice expected; /* set before feeding: the body it must have; ptr NULL: any */
    char *head;        /* the cut head, owned; kept between responses */
    size_t head_len, head_cap;
} load_response;

typedef enum load_progress { LOAD_MORE, LOAD_DONE, LOAD_BAD } load_progress;

/* Gets ready for the next response; keeps allocated memory. */
void load_response_reset(load_response *r);
void load_response_free(load_response *r);

/* Feeds bytes; *used is how many of them belong to this response (all of them for LOAD_MORE). */
load_progress load_response_feed(load_response *r, const char *data, size_t len, size_t *used);

/* The stream ended: LOAD_DONE when that is how this response ends, else LOAD_BAD. */
load_progress load_response_end(load_response *r);

#endif
