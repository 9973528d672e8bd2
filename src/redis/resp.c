/* The reader: a stack of aggregates, and between their lines the bodies of strings.
 *
 *            ┌──────────────────────────────────────────────────────────┐
 *            v          $n, !n, =n, ;n               n bytes            │ CRLF
 *     DZ_RESP_LINE ───────────────────> DZ_RESP_BODY ───────> DZ_RESP_BODY_END
 *        │    ^ one-line values, aggregates' heads
 *        └────┘          anything malformed ───> DZ_RESP_BROKEN
 */
#include "redis/resp.h"

#include "redis/resp_value.h"

enum {
    AHEAD = 2048, /* read beyond a string's end, at most: its CRLF and the next reply's line */
    DEFAULT_ELEMENTS = 1 << 20,
    DEFAULT_BYTES = 1 << 30,
};

void dz_resp_init(dz_resp *resp, const dz_resp_limits *limits)
{
    static const dz_resp_limits none;
    if (!limits)
        limits = &none;
    memset(resp, 0, offsetof(dz_resp, input)); /* the input's pages stay untouched */
    resp->limits = *limits;
    if (resp->limits.depth == 0 || resp->limits.depth > DZ_RESP_DEPTH)
        resp->limits.depth = DZ_RESP_DEPTH;
    if (resp->limits.elements == 0)
        resp->limits.elements = DEFAULT_ELEMENTS;
    if (resp->limits.bytes == 0)
        resp->limits.bytes = DEFAULT_BYTES;
}

void dz_resp_close(dz_resp *resp)
{
    if (resp->root)
        dz_reply_free(&resp->root->top);
    resp->root = NULL;
}

bool dz_resp_idle(const dz_resp *resp)
{
    return !resp->root && resp->state == DZ_RESP_LINE && resp->start == resp->end;
}

/* --- input */

int dz_resp_room(dz_resp *resp, struct iovec iov[2])
{
    if (resp->start == resp->end)
        resp->start = resp->end = resp->scan = 0;
    if (resp->state == DZ_RESP_BODY && resp->body_left > 0) {
        /* All buffered bytes were moved into the body, so the input is empty. */
        dz_buf *text = &resp->body->text;
        iov[0] = (struct iovec){text->data + text->len, resp->body_left};
        iov[1] = (struct iovec){resp->input, AHEAD};
        return 2;
    }
    if (resp->start > 0) {
        memmove(resp->input, resp->input + resp->start, resp->end - resp->start);
        resp->end -= resp->start;
        resp->scan -= resp->start;
        resp->start = 0;
    }
    iov[0] = (struct iovec){resp->input + resp->end, DZ_RESP_INPUT - resp->end};
    return 1;
}

void dz_resp_filled(dz_resp *resp, size_t len)
{
    if (resp->state == DZ_RESP_BODY) {
        size_t body = len < resp->body_left ? len : resp->body_left;
        resp->body->text.len += body;
        resp->body_left -= body;
        len -= body;
    }
    resp->end += len;
}

/* The next line without its CRLF. 1, 0 (not there yet) or an error. */
static int take_line(dz_resp *resp, dz_slice *line)
{
    const char *from = resp->input + resp->start;
    const char *end = memchr(resp->input + resp->scan, '\n', resp->end - resp->scan);
    if (!end) {
        resp->scan = resp->end;
        return resp->end - resp->start == DZ_RESP_INPUT ? DZ_E_TOO_LARGE : 0;
    }
    if (end == from || end[-1] != '\r')
        return DZ_E_PROTOCOL;
    *line = dz_slice_make(from, (size_t)(end - 1 - from));
    resp->start = resp->scan = (size_t)(end + 1 - resp->input);
    return 1;
}

/* Moves what is buffered of the string into its buffer. True when all of it is there. */
static bool fill_body(dz_resp *resp)
{
    size_t have = resp->end - resp->start;
    size_t take = have < resp->body_left ? have : resp->body_left;
    dz_buf *text = &resp->body->text;
    if (take > 0) {
        memcpy(text->data + text->len, resp->input + resp->start, take);
        text->len += take;
        resp->body_left -= take;
        resp->start += take;
        resp->scan = resp->start;
    }
    return resp->body_left == 0;
}

/* "txt:" in front of a verbatim string is its format, not its text. */
static int strip_verbatim(dz_reply *value)
{
    dz_buf *text = &value->text;
    if (text->data[3] != ':')
        return DZ_E_PROTOCOL;
    memcpy(value->verbatim, text->data, 3);
    if (text->block) {
        memmove(text->data, text->data + 4, text->len - 4);
    } else {
        text->data += 4;
    }
    text->len -= 4;
    return 0;
}

static int on_body_end(dz_resp *resp)
{
    if (memcmp(resp->input + resp->start, "\r\n", 2) != 0)
        return DZ_E_PROTOCOL;
    resp->start += 2;
    resp->scan = resp->start;
    resp->state = DZ_RESP_LINE;
    if (resp->chunked)
        return 0;
    if (resp->body->verbatim[0]) {
        int rc = strip_verbatim(resp->body);
        if (rc < 0)
            return rc;
    }
    return dz_resp_add_value(resp, resp->body);
}

/* One step: 1 complete, 0 go on, -1 more bytes are needed, or an error (below -1). */
static int step(dz_resp *resp)
{
    dz_slice line;
    int rc;
    switch (resp->state) {
    case DZ_RESP_LINE:
        rc = take_line(resp, &line);
        return rc == 1 ? dz_resp_on_line(resp, line) : rc == 0 ? -1 : rc;
    case DZ_RESP_BODY:
        if (!fill_body(resp))
            return -1;
        resp->state = DZ_RESP_BODY_END;
        return 0;
    case DZ_RESP_BODY_END:
        return resp->end - resp->start < 2 ? -1 : on_body_end(resp);
    default:
        return resp->error;
    }
}

int dz_resp_next(dz_resp *resp, dz_reply **reply)
{
    int rc;
    do
        rc = step(resp);
    while (rc == 0);
    if (rc == -1)
        return 0;
    if (rc < 0) {
        resp->state = DZ_RESP_BROKEN;
        resp->error = rc;
        return rc;
    }
    *reply = &resp->root->top;
    resp->root = NULL;
    resp->elements = resp->bytes = 0;
    return 1;
}
