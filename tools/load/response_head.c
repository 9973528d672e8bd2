/* Status line and fields of a response, and what they say about its body. */
#include "load/response_head.h"

static load_progress bad(load_response *r, load_fault fault)
{
    r->fault = fault;
    return LOAD_BAD;
}

size_t load_head_end(const char *data, size_t len, size_t from)
{
    while (from < len) {
        const char *newline = memchr(data + from, '\n', len - from);
        if (!newline)
            return 0;
        size_t at = (size_t)(newline - data);
        if (at + 1 < len && data[at + 1] == '\n')
            return at + 2;
        if (at + 2 < len && data[at + 1] == '\r' && data[at + 2] == '\n')
            return at + 3;
        from = at + 1;
    }
    return 0;
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

bool load_may_be_status_line(const char *data, size_t len)
{
    static const char pattern[] = "HTTP/1.d ddd";
    for (size_t i = 0; i < len && i < sizeof pattern - 1; i++)
        if (pattern[i] == 'd' ? !is_digit(data[i]) : data[i] != pattern[i])
            return false;
    return true;
}

enum { STATUS_LINE_MIN = 12 };

static bool read_status_line(load_response *r, const char *line, size_t len)
{
    if (len < STATUS_LINE_MIN || !load_may_be_status_line(line, len) ||
        (len > STATUS_LINE_MIN && line[STATUS_LINE_MIN] != ' '))
        return false;
    r->status = (unsigned)((line[9] - '0') * 100 + (line[10] - '0') * 10 + (line[11] - '0'));
    r->close = line[7] == '0'; /* HTTP/1.0: unless a field says otherwise */
    return r->status >= 100;
}

/* What the head says about the body. */
typedef struct framing {
    bool has_length, chunked;
    uint64_t length;
} framing;

static dz_slice trim(dz_slice s)
{
    while (s.len > 0 && (s.ptr[0] == ' ' || s.ptr[0] == '\t')) {
        s.ptr++;
        s.len--;
    }
    while (s.len > 0 && (s.ptr[s.len - 1] == ' ' || s.ptr[s.len - 1] == '\t'))
        s.len--;
    return s;
}

static bool read_length(framing *f, dz_slice value)
{
    uint64_t length = 0;
    if (value.len == 0)
        return false;
    for (size_t i = 0; i < value.len; i++)
        if (!is_digit(value.ptr[i]) || __builtin_mul_overflow(length, 10u, &length) ||
            __builtin_add_overflow(length, (uint64_t)(value.ptr[i] - '0'), &length))
            return false;
    if (f->has_length && f->length != length)
        return false;
    f->has_length = true;
    f->length = length;
    return true;
}

/* Connection: a list of options, of which two concern us (RFC 9110 7.6.1). */
static void read_connection(load_response *r, dz_slice value)
{
    while (value.len > 0) {
        const char *comma = memchr(value.ptr, ',', value.len);
        size_t len = comma ? (size_t)(comma - value.ptr) : value.len;
        dz_slice option = trim(dz_slice_make(value.ptr, len));
        if (dz_slice_equal_nocase(option, DZ_LIT("close")))
            r->close = true;
        else if (dz_slice_equal_nocase(option, DZ_LIT("keep-alive")))
            r->close = false;
        len += comma ? 1 : 0;
        value = dz_slice_make(value.ptr + len, value.len - len);
    }
}

static load_fault read_field(load_response *r, framing *f, dz_slice line)
{
    const char *colon = memchr(line.ptr, ':', line.len);
    if (!colon || colon == line.ptr)
        return LOAD_FAULT_FIELD;
    dz_slice name = dz_slice_make(line.ptr, (size_t)(colon - line.ptr));
    char last = name.ptr[name.len - 1];
    if (last == ' ' || last == '\t')
        return LOAD_FAULT_FIELD;
    dz_slice value = trim(dz_slice_make(colon + 1, line.len - name.len - 1));
    switch (name.len) { /* most fields are told apart by their length alone */
    case sizeof "Content-Length" - 1:
        if (dz_slice_equal_nocase(name, DZ_LIT("Content-Length")) && !read_length(f, value))
            return LOAD_FAULT_LENGTH;
        break;
    case sizeof "Transfer-Encoding" - 1:
        if (!dz_slice_equal_nocase(name, DZ_LIT("Transfer-Encoding")))
            break;
        if (!dz_slice_equal_nocase(value, DZ_LIT("chunked")))
            return LOAD_FAULT_ENCODING;
        f->chunked = true;
        break;
    case sizeof "Connection" - 1:
        if (dz_slice_equal_nocase(name, DZ_LIT("Connection")))
            read_connection(r, value);
        break;
    default:
        break;
    }
    return LOAD_FAULT_NONE;
}

/* The state that follows the head (RFC 9112 6.3); LOAD_DONE when there is no body. */
static load_progress begin_body(load_response *r, const framing *f)
{
    if (r->status == 101)
        return bad(r, LOAD_FAULT_UPGRADE);
    if (r->status < 200) {
        r->state = LOAD_HEAD;
        r->status = 0;
        return LOAD_MORE;
    }
    if (r->head_only || r->status == 204 || r->status == 304)
        return LOAD_DONE;
    if (f->chunked && f->has_length)
        return bad(r, LOAD_FAULT_LENGTH);
    if (f->chunked) {
        r->state = LOAD_CHUNK_SIZE;
        r->left = 0;
        r->digits = false;
    } else if (!f->has_length) {
        r->state = LOAD_CLOSE;
        r->close = true;
    } else if (f->length > 0) {
        r->state = LOAD_LENGTH;
        r->left = f->length;
    } else {
        return LOAD_DONE;
    }
    return LOAD_MORE;
}

load_progress load_head_read(load_response *r, const char *data, size_t len)
{
    framing f = {0};
    size_t at = 0;
    for (bool first = true;; first = false) {
        const char *newline = memchr(data + at, '\n', len - at);
        if (!newline)
            return bad(r, LOAD_FAULT_FIELD); /* not reached: the head ends in one */
        size_t end = (size_t)(newline - data), line_len = end - at;
        if (line_len > 0 && data[end - 1] == '\r')
            line_len--;
        if (line_len == 0)
            return begin_body(r, &f);
        if (first) {
            if (!read_status_line(r, data + at, line_len))
                return bad(r, LOAD_FAULT_NOT_HTTP);
        } else {
            load_fault fault = read_field(r, &f, dz_slice_make(data + at, line_len));
            if (fault != LOAD_FAULT_NONE)
                return bad(r, fault);
        }
        at = end + 1;
    }
}
