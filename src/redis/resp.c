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

/* --- the tree */

/* Puts a value in its place: a finished one, or an aggregate whose children are to come. */
static void add_to_parent(dz_resp *resp, dz_reply *value)
{
    value->attributes = resp->attributes;
    resp->attributes = NULL;
    if (resp->depth == 0)
        return;
    dz_resp_frame *frame = &resp->frames[resp->depth - 1];
    if (frame->last)
        frame->last->next = value;
    else
        frame->node->first = value;
    frame->last = value;
    frame->node->count++;
    if (!frame->streamed)
        frame->left--;
}

/* Closes the aggregates that are full. True when that completes the reply. */
static bool close_full(dz_resp *resp)
{
    while (resp->depth > 0) {
        dz_resp_frame *frame = &resp->frames[resp->depth - 1];
        if (frame->streamed || frame->left > 0)
            return false;
        resp->depth--;
        if (frame->is_attribute) {
            resp->attributes = frame->node;
            return false; /* the value they belong to is still to come */
        }
    }
    return true;
}

static int add_value(dz_resp *resp, dz_reply *value)
{
    add_to_parent(resp, value);
    return close_full(resp);
}

static int push_frame(dz_resp *resp, dz_reply *node, uint64_t children, bool streamed,
                      bool is_attribute)
{
    if (resp->depth == resp->limits.depth)
        return DZ_E_TOO_LARGE;
    resp->frames[resp->depth++] = (dz_resp_frame){
        .node = node, .left = children, .streamed = streamed, .is_attribute = is_attribute};
    return close_full(resp);
}

/* A length: digits, at most what the limits can hold. */
static int parse_length(const dz_resp *resp, dz_slice line, uint64_t *length)
{
    int64_t number;
    if (line.len == 0 || line.ptr[0] == '+' || line.ptr[0] == '-' ||
        !dz_resp_integer(line, &number))
        return DZ_E_PROTOCOL;
    *length = (uint64_t)number;
    return *length > resp->limits.bytes ? DZ_E_TOO_LARGE : 0;
}

static bool is_question(dz_slice line)
{
    return line.len == 1 && line.ptr[0] == '?';
}

/* The value whose first line was just read; NULL with *rc set. */
static dz_reply *new_value(dz_resp *resp, dz_reply_kind kind, int *rc)
{
    dz_reply *value = dz_resp_new_value(resp, kind, resp->depth == 0);
    if (!value)
        *rc = resp->error;
    return value;
}

static int begin_null(dz_resp *resp)
{
    int rc = 0;
    dz_reply *value = new_value(resp, DZ_REPLY_NULL, &rc);
    return value ? add_value(resp, value) : rc;
}

static int begin_body(dz_resp *resp, uint64_t length)
{
    resp->body_left = (size_t)length;
    resp->state = DZ_RESP_BODY;
    return 0;
}

static int begin_string(dz_resp *resp, char type, dz_slice line)
{
    if (dz_slice_equal(line, DZ_LIT("-1")) && type == '$')
        return begin_null(resp);
    uint64_t length = 0;
    bool streamed = type == '$' && is_question(line);
    int rc = streamed ? 0 : parse_length(resp, line, &length);
    if (rc < 0)
        return rc;
    if (type == '=' && length < 4)
        return DZ_E_PROTOCOL;
    dz_reply *value = new_value(resp, type == '!' ? DZ_REPLY_ERROR : DZ_REPLY_STRING, &rc);
    if (!value)
        return rc;
    resp->body = value;
    resp->chunked = streamed;
    if (type == '=')
        memcpy(value->verbatim, "???", 4); /* known when the body is there */
    if (streamed)
        return 0;
    rc = dz_resp_text_room(resp, value, (size_t)length);
    return rc < 0 ? rc : begin_body(resp, length);
}

/* ;n of a streamed string: grows what is there so far. */
static int begin_chunk(dz_resp *resp, dz_slice line)
{
    uint64_t length;
    int rc = parse_length(resp, line, &length);
    if (rc < 0)
        return rc;
    dz_reply *value = resp->body;
    if (length == 0) {
        resp->chunked = false;
        return add_value(resp, value);
    }
    if (!value->text.block) { /* the first chunk: a buffer that can grow, whatever its size */
        rc = dz_resp_own_text(resp, value, (size_t)length);
    } else if (length > resp->limits.bytes - resp->bytes) {
        rc = DZ_E_TOO_LARGE;
    } else {
        resp->bytes += (size_t)length;
        rc = dz_buf_reserve(&value->text, value->text.len + (size_t)length);
    }
    return rc < 0 ? rc : begin_body(resp, length);
}

static int begin_aggregate(dz_resp *resp, char type, dz_slice line)
{
    static const dz_reply_kind kinds[] = {
        ['*'] = DZ_REPLY_ARRAY, ['%'] = DZ_REPLY_MAP, ['~'] = DZ_REPLY_SET,
        ['>'] = DZ_REPLY_PUSH,  ['|'] = DZ_REPLY_MAP,
    };
    if (type == '*' && dz_slice_equal(line, DZ_LIT("-1")))
        return begin_null(resp);
    bool is_attribute = type == '|', pairs = type == '%' || is_attribute;
    bool streamed = is_question(line) && type != '>' && !is_attribute;
    uint64_t children = 0;
    int rc = streamed ? 0 : parse_length(resp, line, &children);
    if (rc < 0)
        return rc;
    if (type == '>' && (resp->depth > 0 || children == 0))
        return DZ_E_PROTOCOL;
    if (children > resp->limits.elements)
        return DZ_E_TOO_LARGE;
    dz_reply *node =
        dz_resp_new_value(resp, kinds[(unsigned char)type], resp->depth == 0 && !is_attribute);
    if (!node)
        return resp->error;
    if (!is_attribute)
        add_to_parent(resp, node);
    else if (resp->attributes)
        return DZ_E_PROTOCOL; /* attributes of nothing but attributes */
    return push_frame(resp, node, pairs ? 2 * children : children, streamed, is_attribute);
}

/* '.' ends the innermost aggregate, which must be streamed. */
static int end_streamed(dz_resp *resp, dz_slice line)
{
    dz_resp_frame *frame = resp->depth > 0 ? &resp->frames[resp->depth - 1] : NULL;
    if (line.len != 0 || !frame || !frame->streamed || resp->attributes)
        return DZ_E_PROTOCOL;
    if (frame->node->kind == DZ_REPLY_MAP && frame->node->count % 2 != 0)
        return DZ_E_PROTOCOL;
    frame->streamed = false;
    return close_full(resp);
}

/* 1: the reply is complete; 0: go on; or an error. */
static int on_line(dz_resp *resp, dz_slice line)
{
    if (line.len == 0)
        return DZ_E_PROTOCOL;
    char type = line.ptr[0];
    dz_slice rest = dz_slice_make(line.ptr + 1, line.len - 1);
    if (resp->chunked)
        return type == ';' ? begin_chunk(resp, rest) : DZ_E_PROTOCOL;
    static const char one_line[] = "+-:,#(_";
    static const dz_reply_kind kinds[] = {DZ_REPLY_STATUS, DZ_REPLY_ERROR, DZ_REPLY_INTEGER,
                                          DZ_REPLY_DOUBLE, DZ_REPLY_BOOL,  DZ_REPLY_BIG,
                                          DZ_REPLY_NULL};
    const char *found = type ? strchr(one_line, type) : NULL;
    if (found) {
        int rc = 0;
        dz_reply *value = new_value(resp, kinds[found - one_line], &rc);
        if (value)
            rc = dz_resp_line_value(resp, value, type, rest);
        return rc < 0 ? rc : add_value(resp, value);
    }
    switch (type) {
    case '$':
    case '!':
    case '=':
        return begin_string(resp, type, rest);
    case '*':
    case '%':
    case '~':
    case '>':
    case '|':
        return begin_aggregate(resp, type, rest);
    case '.':
        return end_streamed(resp, rest);
    default:
        return DZ_E_PROTOCOL;
    }
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
    return add_value(resp, resp->body);
}

/* One step: 1 complete, 0 go on, -1 more bytes are needed, or an error (below -1). */
static int step(dz_resp *resp)
{
    dz_slice line;
    int rc;
    switch (resp->state) {
    case DZ_RESP_LINE:
        rc = take_line(resp, &line);
        return rc == 1 ? on_line(resp, line) : rc == 0 ? -1 : rc;
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
