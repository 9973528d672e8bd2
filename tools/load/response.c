#include "load/response.h"

#include "load/response_head.h"

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
        if (!load_may_be_status_line(data, len))
            return bad(r, LOAD_FAULT_NOT_HTTP);
        size_t end = load_head_end(data, len, 0);
        if (end > 0) {
            *used = end;
            return load_head_read(r, data, end);
        }
    }
    *used = len;
    size_t before = r->head_len;
    if (len > HEAD_MAX || before + len > HEAD_MAX)
        return bad(r, LOAD_FAULT_TOO_LARGE);
    if (!keep(r, data, len))
        return bad(r, LOAD_FAULT_NOMEM);
    if (!load_may_be_status_line(r->head, r->head_len))
        return bad(r, LOAD_FAULT_NOT_HTTP);
    size_t end = load_head_end(r->head, r->head_len, before > 3 ? before - 3 : 0);
    if (end == 0)
        return LOAD_MORE;
    *used = end - before;
    r->head_len = 0;
    return load_head_read(r, r->head, end);
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

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
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
