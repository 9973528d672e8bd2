/* What a line says: a value, the beginning of a string or an aggregate, and its place in the tree.
 */
#include "redis/resp_value.h"

#include "redis/blocks.h"

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

int dz_resp_add_value(dz_resp *resp, dz_reply *value)
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
    return value ? dz_resp_add_value(resp, value) : rc;
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
        return dz_resp_add_value(resp, value);
    }
    if (!value->text.block) { /* the first chunk: a buffer that can grow, whatever its size */
        rc = dz_resp_own_text(resp, value, (size_t)length);
    } else if (length > resp->limits.bytes - resp->bytes) {
        rc = DZ_E_TOO_LARGE;
    } else {
        resp->bytes += (size_t)length;
        rc = dz_blocks_reserve(&value->text, value->text.len + (size_t)length);
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

int dz_resp_on_line(dz_resp *resp, dz_slice line)
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
        return rc < 0 ? rc : dz_resp_add_value(resp, value);
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
