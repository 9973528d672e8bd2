#include "http/response_head.h"

#include "http/chars.h"
#include "http/scan.h"

#include <limits.h>

/* X(code, reason): the registered status codes (RFC 9110 15, and their registry). */
#define STATUSES(X)                                                                                \
    X(100, "Continue")                                                                             \
    X(101, "Switching Protocols")                                                                  \
    X(103, "Early Hints")                                                                          \
    X(200, "OK")                                                                                   \
    X(201, "Created")                                                                              \
    X(202, "Accepted")                                                                             \
    X(203, "Non-Authoritative Information")                                                        \
    X(204, "No Content")                                                                           \
    X(205, "Reset Content")                                                                        \
    X(206, "Partial Content")                                                                      \
    X(207, "Multi-Status")                                                                         \
    X(208, "Already Reported")                                                                     \
    X(226, "IM Used")                                                                              \
    X(300, "Multiple Choices")                                                                     \
    X(301, "Moved Permanently")                                                                    \
    X(302, "Found")                                                                                \
    X(303, "See Other")                                                                            \
    X(304, "Not Modified")                                                                         \
    X(305, "Use Proxy")                                                                            \
    X(307, "Temporary Redirect")                                                                   \
    X(308, "Permanent Redirect")                                                                   \
    X(400, "Bad Request")                                                                          \
    X(401, "Unauthorized")                                                                         \
    X(402, "Payment Required")                                                                     \
    X(403, "Forbidden")                                                                            \
    X(404, "Not Found")                                                                            \
    X(405, "Method Not Allowed")                                                                   \
    X(406, "Not Acceptable")                                                                       \
    X(407, "Proxy Authentication Required")                                                        \
    X(408, "Request Timeout")                                                                      \
    X(409, "Conflict")                                                                             \
    X(410, "Gone")                                                                                 \
    X(411, "Length Required")                                                                      \
    X(412, "Precondition Failed")                                                                  \
    X(413, "Content Too Large")                                                                    \
    X(414, "URI Too Long")                                                                         \
    X(415, "Unsupported Media Type")                                                               \
    X(416, "Range Not Satisfiable")                                                                \
    X(417, "Expectation Failed")                                                                   \
    X(421, "Misdirected Request")                                                                  \
    X(422, "Unprocessable Content")                                                                \
    X(423, "Locked")                                                                               \
    X(424, "Failed Dependency")                                                                    \
    X(425, "Too Early")                                                                            \
    X(426, "Upgrade Required")                                                                     \
    X(428, "Precondition Required")                                                                \
    X(429, "Too Many Requests")                                                                    \
    X(431, "Request Header Fields Too Large")                                                      \
    X(451, "Unavailable For Legal Reasons")                                                        \
    X(500, "Internal Server Error")                                                                \
    X(501, "Not Implemented")                                                                      \
    X(502, "Bad Gateway")                                                                          \
    X(503, "Service Unavailable")                                                                  \
    X(504, "Gateway Timeout")                                                                      \
    X(505, "HTTP Version Not Supported")                                                           \
    X(506, "Variant Also Negotiates")                                                              \
    X(507, "Insufficient Storage")                                                                 \
    X(508, "Loop Detected")                                                                        \
    X(511, "Network Authentication Required")

/* "HTTP/1.1 200 OK\r\n"; the longest reason has 31 bytes. */
enum { STATUS_LINE_MAX = 64 };

#define KEEP_ALIVE "Connection: keep-alive\r\n"
#define CLOSE      "Connection: close\r\n"
#define CHUNKED    "Transfer-Encoding: chunked\r\n"
#define LENGTH     "Content-Length: "
#define TYPE       "Content-Type: "

const char *dz_status_reason(int status)
{
    switch (status) {
#define X(code, reason)                                                                            \
    case code:                                                                                     \
        return reason;
        STATUSES(X)
#undef X
    default:
        return "";
    }
}

static dz_slice known_status_line(int status)
{
    switch (status) {
#define X(code, reason)                                                                            \
    case code:                                                                                     \
        return DZ_LIT("HTTP/1.1 " #code " " reason "\r\n");
        STATUSES(X)
#undef X
    default:
        return (dz_slice){0};
    }
}

size_t dz_decimal_write(char out[DZ_DECIMAL_MAX], uint64_t n)
{
    char digits[DZ_DECIMAL_MAX];
    size_t at = sizeof digits;
    do {
        digits[--at] = (char)('0' + n % 10);
        n /= 10;
    } while (n > 0);
    memcpy(out, digits + at, sizeof digits - at);
    return sizeof digits - at;
}

bool dz_header_valid(dz_slice name, dz_slice value)
{
    for (size_t i = 0; i < name.len; i++)
        if (!dz_char_is(name.ptr[i], DZ_CHAR_TOKEN))
            return false;
    const char *end = value.ptr + value.len;
    return name.len > 0 && (value.len == 0 || dz_scan_control(value.ptr, value.ptr, end) == end);
}

/* Fields that decide where the message ends are written by this file alone. */
static bool is_framing(dz_slice name)
{
    switch (name.len) {
    case 10:
        return dz_slice_equal_nocase(name, DZ_LIT("connection"));
    case 14:
        return dz_slice_equal_nocase(name, DZ_LIT("content-length"));
    case 17:
        return dz_slice_equal_nocase(name, DZ_LIT("transfer-encoding"));
    default:
        return false;
    }
}

static char *put(char *out, dz_slice text)
{
    if (text.len > 0)
        memcpy(out, text.ptr, text.len);
    return out + text.len;
}

#define PUT(out, literal) put((out), DZ_LIT(literal))

static char *put_status_line(char *out, int status)
{
    dz_slice line = known_status_line(status);
    if (line.ptr)
        return put(out, line);
    out = PUT(out, "HTTP/1.1 ");
    out += dz_decimal_write(out, (uint64_t)status);
    return PUT(out, " \r\n"); /* the space stays though the reason is empty (RFC 9112 4) */
}

static char *put_field(char *out, dz_slice name, dz_slice value)
{
    out = PUT(put(out, name), ": ");
    return PUT(put(out, value), "\r\n");
}

static char *put_framing(char *out, const dz_response_head *head)
{
    bool none = head->status < 200 || head->status == 204;
    if (head->body == DZ_BODY_LENGTH && !none) {
        out = PUT(out, LENGTH);
        out += dz_decimal_write(out, head->content_length);
        out = PUT(out, "\r\n");
    } else if (head->body == DZ_BODY_CHUNKED && !dz_status_bodiless(head->status)) {
        out = PUT(out, CHUNKED);
    }
    if (head->persist == DZ_PERSIST_CLOSE)
        out = PUT(out, CLOSE);
    else if (head->persist == DZ_PERSIST_KEEP_ALIVE)
        out = PUT(out, KEEP_ALIVE);
    return out;
}

static size_t add(size_t a, size_t b)
{
    return a > SIZE_MAX - b ? SIZE_MAX : a + b;
}

size_t dz_response_head_bound(const dz_response_head *head)
{
    size_t size = STATUS_LINE_MAX + sizeof CHUNKED + sizeof LENGTH + DZ_DECIMAL_MAX +
                  sizeof KEEP_ALIVE + sizeof TYPE + sizeof "\r\n\r\n";
    size = add(add(size, head->date.len), head->content_type.len);
    for (size_t i = 0; i < head->header_count; i++)
        size = add(size, add(add(head->headers[i].name.len, head->headers[i].value.len), 4));
    return size;
}

int dz_response_head_write(char *out, size_t cap, const dz_response_head *head)
{
    char *at = out;
    if (head->status < 100 || head->status > 999)
        return DZ_E_INVALID;
    size_t bound = dz_response_head_bound(head);
    if (bound > cap || bound > INT_MAX)
        return DZ_E_TOO_LARGE;
    at = put(put_status_line(at, head->status), head->date);
    if (head->content_type.len > 0) {
        if (!dz_header_valid(DZ_LIT("Content-Type"), head->content_type))
            return DZ_E_INVALID;
        at = put_field(at, DZ_LIT("Content-Type"), head->content_type);
    }
    for (size_t i = 0; i < head->header_count; i++) {
        const dz_header *header = &head->headers[i];
        if (!dz_header_valid(header->name, header->value) || is_framing(header->name))
            return DZ_E_INVALID;
        at = put_field(at, header->name, header->value);
    }
    at = PUT(put_framing(at, head), "\r\n");
    return (int)(at - out);
}
