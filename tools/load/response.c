#include "load/response.h"

#include <stdlib.h>

enum { HEAD_MAX = 256 * 1024 };

const char *load_fault_text(load_fault fault)
{
    static const char *const texts[] = {
#define X(name, text) text,
        LOAD_FAULTS(X)
#undef X
    };
    return texts[fault];
}

void load_response_reset(load_response *r)
{
    char *head = r->head;
    size_t cap = r->head_cap;
    *r = (load_response){.head = head, .head_cap = cap};
}

void load_response_free(load_response *r)
{
    free(r->head);
    *r = (load_response){0};
}

static load_progress bad(load_response *r, load_fault fault)
{
    r->fault = fault;
    return LOAD_BAD;
}

/* Where the head ends (after its blank line), searching from `from`; 0 when it does not yet.
 * A bare LF is taken for CRLF, as RFC 9112 2.2 allows. */
static size_t head_end(const char *data, size_t len, size_t from)
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

/* Whether the bytes so far can be the start of "HTTP/1.x SSS". */
static bool may_be_status_line(const char *data, size_t len)
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
    if (len < STATUS_LINE_MIN || !may_be_status_line(line, len) ||
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

/* A whole head, blank line included. */
static load_progress read_head(load_response *r, const char *data, size_t len)
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

static bool keep(load_response *r, const char *data, size_t len)
{
    if (r->head_len + len > r->head_cap) {
        size_t cap = (r->head_len + len) * 2;
        char *head = realloc(r->head, cap);
        if (!head)
            return false;
        r->head = head;
        r->head_cap = cap;
    }
    memcpy(r->head + r->head_len, data, len);
    r->head_len += len;
    return true;
}

/* Consumes head bytes; *used counts those taken from data. */
static load_progress feed_head(load_response *r, const char *data, size_t len, size_t *used)
{
    if (r->head_len == 0) {
        if (!may_be_status_line(data, len))
            return bad(r, LOAD_FAULT_NOT_HTTP);
        size_t end = head_end(data, len, 0);
        if (end > 0) {
            *used = end;
            return read_head(r, data, end);
        }
    }
    *used = len;
    size_t before = r->head_len;
    if (len > HEAD_MAX || before + len > HEAD_MAX)
        return bad(r, LOAD_FAULT_TOO_LARGE);
    if (!keep(r, data, len))
        return bad(r, LOAD_FAULT_NOMEM);
    if (!may_be_status_line(r->head, r->head_len))
        return bad(r, LOAD_FAULT_NOT_HTTP);
    size_t end = head_end(r->head, r->head_len, before > 3 ? before - 3 : 0);
    if (end == 0)
        return LOAD_MORE;
    *used = end - before;
    r->head_len = 0;
    return read_head(r, r->head, end);
}

static void compare_body(load_response *r, const char *data, size_t len)
{
    if (!r->expected.ptr || r->mismatch)
        return;
    if (len > r->expected.len - r->matched || memcmp(r->expected.ptr + r->matched, data, len) != 0)
        r->mismatch = true;
    r->matched += len;
}

/* Body bytes of which `left` are still to come; returns how many were taken. */
static size_t take_body(load_response *r, const char *data, size_t len)
{
    size_t n = r->left < len ? (size_t)r->left : len;
    compare_body(r, data, n);
    r->left -= n;
    return n;
}

static int hex_value(char c)
{
    if (is_digit(c))
        return c - '0';
    c = (char)(c | 0x20);
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* The end of a chunk-size line: CR is optional before LF, as everywhere here. */
static load_progress end_chunk_size(load_response *r)
{
    if (!r->digits)
        return bad(r, LOAD_FAULT_CHUNK);
    r->digits = false;
    r->state = r->left > 0 ? LOAD_CHUNK_DATA : LOAD_TRAILER;
    return LOAD_MORE;
}

static load_progress feed_chunk_size(load_response *r, char c)
{
    int value = hex_value(c);
    if (value >= 0) {
        if (r->left >> 59)
            return bad(r, LOAD_FAULT_CHUNK);
        r->left = r->left * 16 + (uint64_t)value;
        r->digits = true;
        return LOAD_MORE;
    }
    if (c == '\n')
        return end_chunk_size(r);
    if (!r->digits || (c != ';' && c != '\r' && c != ' ' && c != '\t'))
        return bad(r, LOAD_FAULT_CHUNK);
    r->state = LOAD_CHUNK_EXT;
    return LOAD_MORE;
}

/* TRAILER: `digits` means that the present line has something on it. */
static load_progress feed_trailer(load_response *r, char c)
{
    if (c == '\n') {
        if (!r->digits)
            return LOAD_DONE;
        r->digits = false;
    } else if (c != '\r') {
        r->digits = true;
    }
    return LOAD_MORE;
}

static load_progress feed_chunk_byte(load_response *r, char c)
{
    switch (r->state) {
    case LOAD_CHUNK_SIZE:
        return feed_chunk_size(r, c);
    case LOAD_CHUNK_EXT:
        return c == '\n' ? end_chunk_size(r) : LOAD_MORE;
    case LOAD_CHUNK_END:
        if (c == '\n') {
            r->state = LOAD_CHUNK_SIZE;
            r->left = 0;
            return LOAD_MORE;
        }
        return c == '\r' ? LOAD_MORE : bad(r, LOAD_FAULT_CHUNK);
    default:
        return feed_trailer(r, c);
    }
}

static load_progress finish(load_response *r, load_progress progress)
{
    if (progress == LOAD_DONE && r->expected.ptr && r->matched != r->expected.len)
        r->mismatch = true;
    return progress;
}

load_progress load_response_feed(load_response *r, const char *data, size_t len, size_t *used)
{
    size_t at = 0;
    load_progress progress = LOAD_MORE;
    r->started = r->started || len > 0;
    while (at < len && progress == LOAD_MORE) {
        size_t n = 1;
        switch (r->state) {
        case LOAD_HEAD:
            n = 0;
            progress = feed_head(r, data + at, len - at, &n);
            break;
        case LOAD_LENGTH:
            n = take_body(r, data + at, len - at);
            progress = r->left == 0 ? LOAD_DONE : LOAD_MORE;
            break;
        case LOAD_CLOSE:
            n = len - at;
            compare_body(r, data + at, n);
            break;
        case LOAD_CHUNK_DATA:
            n = take_body(r, data + at, len - at);
            if (r->left == 0)
                r->state = LOAD_CHUNK_END;
            break;
        default:
            progress = feed_chunk_byte(r, data[at]);
            break;
        }
        at += n;
    }
    r->bytes += at;
    *used = at;
    return finish(r, progress);
}

load_progress load_response_end(load_response *r)
{
    return finish(r, r->state == LOAD_CLOSE ? LOAD_DONE : LOAD_BAD);
}
