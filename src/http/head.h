/* head.h: strict parser of HTTP/1.x request heads (RFC 9112), in place and without I/O. */
#ifndef DZ_HTTP_HEAD_H
#define DZ_HTTP_HEAD_H

#include <donmaz/http.h>
#include <donmaz/slice.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* dz_head_parse's result: bytes of the whole head, DZ_HEAD_MORE, or minus the status to answer. */
enum { DZ_HEAD_MORE = 0 };

/* A method longer than this is answered 501 (RFC 9112 3). */
enum { DZ_METHOD_MAX = 32 };

typedef struct dz_head_limits {
    uint32_t line_max;    /* bytes of the request line, without CRLF: 414 above */
    uint32_t head_max;    /* bytes of the whole head, at most INT_MAX: 431 above */
    uint16_t headers_max; /* header fields: 431 above */
} dz_head_limits;

#define DZ_HEAD_LIMITS_DEFAULT                                                                     \
    {                                                                                              \
        .line_max = 8 * 1024, .head_max = 16 * 1024, .headers_max = 100                            \
    }

/* All slices show bytes of the input, or a literal. */
typedef struct dz_head {
    dz_slice method_text;
    uint8_t method;  /* a dz_method */
    uint8_t minor;   /* 0 or 1; a later 1.x counts as 1.1 (RFC 9110 2.5) */
    bool keep_alive; /* the client lets the connection persist */
    bool chunked;    /* the body is chunked; never together with has_length */
    bool has_length; /* content_length was given; a body follows when it isn't 0 */
    bool expect_continue;
    bool upgrade; /* Upgrade, and named in Connection */
    uint16_t header_count;
    dz_slice target;    /* as received */
    dz_slice authority; /* of an absolute-form or CONNECT target; else empty */
    dz_slice path;      /* percent-encoded with valid escapes, none of them %00; begins with '/'.
                           "*" for OPTIONS *, empty for CONNECT */
    dz_slice query;     /* after the '?', undecoded and unchecked; .ptr NULL when there is no '?' */
    dz_slice host; /* the host asked for: authority, else the Host field; may be empty on 1.0 */
    uint64_t content_length; /* at most INT64_MAX */
    dz_header *headers;      /* given by the caller: room for limits->headers_max */
} dz_head;

/* Parses the head at bytes[0..len). `*scanned` is 0 before the first call for a head; with it a
 * later call, given the same bytes (perhaps moved) and more, does not scan the first ones again.
 * It is 0 again when a whole head was parsed. head->headers must point to room for
 * limits->headers_max entries; everything else in *head is written.
 *
 * Returns how many bytes the head takes, the empty line and up to four empty lines before it
 * included; DZ_HEAD_MORE (*head holds nothing yet); or minus the status to answer before closing:
 *   400 malformed, or its length can't be relied on    414 request line too long
 *   417 an expectation other than 100-continue         431 too many or too large header fields
 *   501 transfer coding or method not implemented      505 not HTTP/1.x */
int dz_head_parse(dz_head *head, const char *bytes, size_t len, size_t *scanned,
                  const dz_head_limits *limits);

#endif
