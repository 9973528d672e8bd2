/* response_head.h: writes the head of a response into given memory. No I/O, no allocation. */
#ifndef DZ_HTTP_RESPONSE_HEAD_H
#define DZ_HTTP_RESPONSE_HEAD_H

#include <donmaz/error.h>
#include <donmaz/http.h>

/* How the client finds the body's end. */
typedef enum dz_body_kind {
    DZ_BODY_NONE,    /* no length field: 1xx, 204, or until the connection closes */
    DZ_BODY_LENGTH,  /* Content-Length */
    DZ_BODY_CHUNKED, /* Transfer-Encoding: chunked */
} dz_body_kind;

typedef enum dz_persist {
    DZ_PERSIST_DEFAULT,    /* say nothing: HTTP/1.1 goes on */
    DZ_PERSIST_KEEP_ALIVE, /* Connection: keep-alive, which HTTP/1.0 needs to hear */
    DZ_PERSIST_CLOSE,      /* Connection: close */
} dz_persist;

typedef struct dz_response_head {
    int status; /* 100 to 999 */
    dz_body_kind body;
    dz_persist persist;
    uint64_t content_length; /* with DZ_BODY_LENGTH */
    dz_slice date;           /* a whole line from dz_date_line, or empty */
    dz_slice content_type;   /* empty: no such field */
    const dz_header *headers;
    size_t header_count;
} dz_response_head;

/* At least as many bytes as dz_response_head_write will write. */
size_t dz_response_head_bound(const dz_response_head *head);

/* Writes the head, with the empty line, to out[0..cap). Length fields are left out where they may
 * not be (1xx, 204; chunked also for 304). Returns its length, or
 *   DZ_E_TOO_LARGE  cap is too small
 *   DZ_E_INVALID    the status, or a field that would let its text end the line (CR, LF, NUL and
 *                   other control bytes; a name that is no token), or that is this function's to
 *                   write (Content-Length, Transfer-Encoding, Connection)
 * After an error out[0..cap) holds garbage. */
int dz_response_head_write(char *out, size_t cap, const dz_response_head *head);

/* Whether a response with `status` never has a body, whatever the request (RFC 9110 6.4.1). */
static inline bool dz_status_bodiless(int status)
{
    return status < 200 || status == 204 || status == 304;
}

/* Whether `header` may be sent: name a token, value without control bytes but HT. */
bool dz_header_valid(dz_slice name, dz_slice value);

/* Writes n in decimal, not NUL-terminated; returns the length, at most DZ_DECIMAL_MAX. */
enum { DZ_DECIMAL_MAX = 20 };
size_t dz_decimal_write(char out[DZ_DECIMAL_MAX], uint64_t n);

#endif
