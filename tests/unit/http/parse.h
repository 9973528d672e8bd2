/* parse.h: parses one request head in a test. The input is copied to memory of exactly its size, so
 * that the address sanitizer sees a byte read beyond it. */
#ifndef DZ_TESTS_PARSE_H
#define DZ_TESTS_PARSE_H

#include "../check.h"

#include "http/head.h"

enum { HEADERS_MAX = 100 };

typedef struct parsed {
    dz_head head;
    dz_header headers[HEADERS_MAX];
    size_t scanned;
    char *bytes;
    int rc;
} parsed;

static const dz_head_limits default_limits = DZ_HEAD_LIMITS_DEFAULT;

static inline void parse_limited(parsed *p, dz_slice text, const dz_head_limits *limits)
{
    free(p->bytes);
    p->bytes = malloc(text.len ? text.len : 1);
    assert_non_null(p->bytes);
    memcpy(p->bytes, text.ptr, text.len);
    p->head.headers = p->headers;
    p->rc = dz_head_parse(&p->head, p->bytes, text.len, &p->scanned, limits);
}

static inline int status_limited(dz_slice text, const dz_head_limits *limits)
{
    parsed p = {0};
    parse_limited(&p, text, limits);
    free(p.bytes);
    return p.rc;
}

static inline int status_of(dz_slice text)
{
    return status_limited(text, &default_limits);
}

/* One GET with these header lines besides Host. */
static inline int status_with(const char *lines)
{
    char text[1024];
    int len = snprintf(text, sizeof text, "GET / HTTP/1.1\r\nHost: a\r\n%s\r\n", lines);
    int rc = status_of(dz_slice_make(text, (size_t)len));
    return rc == len ? 0 : rc;
}

#define STATUS(literal) status_of(DZ_LIT(literal))

#endif
